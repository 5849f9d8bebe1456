//! The host as it is read: every file, link, folder and answer that a check may go by comes through [`Host`], from this
//! machine or from a record of another. What was read is remembered, and is then what a record is made of
//! (`record.rs`): a record has what the checks saw, and nothing else.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// No file that is asked for is longer; what is beyond is left out.
const LONGEST_FILE: u64 = 4 << 20;

/// Where answers are kept that come from no file.
pub(super) const ANSWERS: &str = "/flowgate/";

/// Something that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file's text, or an answer.
    Text(String),
    /// What a symbolic link leads to.
    Link(String),
    /// A folder of which only the name was asked for.
    Folder,
    /// It is there and may not be read.
    Refused(String),
}

/// Who owns a file, and what its permissions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// The permissions.
    pub bits: u32,
    /// The owner.
    pub user: u32,
}

/// Where is read from.
#[derive(Debug)]
enum Source {
    /// This machine.
    Live,
    /// A record of another, or of an earlier time.
    Record(BTreeMap<String, Entry>),
}

/// A host, of which anything is read once.
#[derive(Debug)]
pub struct Host {
    source: Source,
    probes: bool,
    seen: RefCell<BTreeMap<String, Entry>>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn live() -> Host {
        Host::of(Source::Live)
    }

    /// The same, which may send packets to find out.
    #[must_use]
    pub fn probing(self) -> Host {
        Host { probes: true, ..self }
    }

    /// What a record lists.
    #[must_use]
    pub fn recorded(entries: BTreeMap<String, Entry>) -> Host {
        Host::of(Source::Record(entries))
    }

    /// A record: a folder, or a file as `record.rs` writes it.
    ///
    /// # Errors
    /// One sentence, if it is neither.
    pub fn open(path: &Path) -> Result<Host, String> {
        let cannot = |error: io::Error| format!("cannot read {}: {error}", path.display());
        if fs::metadata(path).map_err(cannot)?.is_dir() {
            return super::record::of_folder(path).map(Host::recorded).map_err(cannot);
        }
        let text = fs::read_to_string(path).map_err(cannot)?;
        super::record::parse(&text)
            .map(Host::recorded)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn of(source: Source) -> Host {
        Host { source, probes: false, seen: RefCell::default() }
    }

    /// Whether this is the machine that we run on.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.source, Source::Live)
    }

    /// Whether packets may be sent to find out.
    pub(super) fn may_probe(&self) -> bool {
        self.probes
    }

    /// All that was read so far, by its path.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<String, Entry> {
        self.seen.borrow().clone()
    }

    /// What is there and could not be read, and why.
    pub(super) fn refused(&self) -> Vec<(String, String)> {
        let seen = self.seen.borrow();
        let refused = seen.iter().filter_map(|(path, entry)| match entry {
            Entry::Refused(why) => Some((path.clone(), why.clone())),
            _ => None,
        });
        refused.collect()
    }

    /// A file's text; none if there is none, or it may not be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.reduced(path, str::to_owned)
    }

    /// What `reduce` leaves of a file's text: the rest is neither gone by nor recorded.
    pub(super) fn reduced(&self, path: &str, reduce: impl FnOnce(&str) -> String) -> Option<String> {
        let entry = match &self.source {
            Source::Record(entries) => entries.get(path).cloned(),
            Source::Live => file(Path::new(path)).map(|read| of_file(read, reduce)),
        }?;
        self.note(path, &entry);
        match entry {
            Entry::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A file's text without blanks around it.
    pub(super) fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned())
    }

    /// A number in a file by itself.
    pub(super) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// What a symbolic link leads to, by its last name.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = match &self.source {
            Source::Record(entries) => match entries.get(path)? {
                Entry::Link(target) => target.clone(),
                _ => return None,
            },
            Source::Live => fs::read_link(path).ok()?.to_string_lossy().into_owned(),
        };
        self.note(path, &Entry::Link(target.clone()));
        target.rsplit('/').next().map(str::to_owned)
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub(super) fn names(&self, path: &str) -> Option<Vec<String>> {
        let path = path.trim_end_matches('/');
        let names: Vec<String> = match &self.source {
            Source::Record(entries) => {
                let below = format!("{path}/");
                let names: BTreeSet<String> = entries
                    .range(below.clone()..)
                    .take_while(|(entry, _)| entry.starts_with(&below))
                    .filter_map(|(entry, _)| entry[below.len()..].split('/').next().map(str::to_owned))
                    .collect();
                if names.is_empty() && !entries.contains_key(path) {
                    return None;
                }
                names.into_iter().collect()
            }
            Source::Live => folder(Path::new(path))?,
        };
        self.note(path, &Entry::Folder);
        for name in &names {
            self.note(&format!("{path}/{name}"), &Entry::Folder);
        }
        Some(names)
    }

    /// Who owns a file or a folder; none if there is none.
    pub(super) fn mode(&self, path: &str) -> Option<Mode> {
        let text = self.answer(&format!("modes{path}"), || {
            let metadata = fs::metadata(path).ok()?;
            Some(format!("{:04o} {} {}", metadata.mode() & 0o7777, metadata.uid(), metadata.gid()))
        })?;
        let mut words = text.split_whitespace();
        let bits = u32::from_str_radix(words.next()?, 8).ok()?;
        Some(Mode { bits, user: words.next()?.parse().ok()? })
    }

    /// What `ask` answers of this machine, or what was recorded of another's answer.
    pub(super) fn answer(&self, name: &str, ask: impl FnOnce() -> Option<String>) -> Option<String> {
        let path = format!("{ANSWERS}{name}");
        if !self.is_live() {
            return self.text(&path);
        }
        let text = ask()?;
        self.note(&path, &Entry::Text(text.clone()));
        Some(text)
    }

    fn note(&self, path: &str, entry: &Entry) {
        let mut seen = self.seen.borrow_mut();
        match (seen.get(path), entry) {
            // A name that something is known of already.
            (Some(_), Entry::Folder) => {}
            _ => drop(seen.insert(path.to_owned(), entry.clone())),
        }
    }
}

fn of_file(read: io::Result<String>, reduce: impl FnOnce(&str) -> String) -> Entry {
    match read {
        Ok(text) => Entry::Text(reduce(&text)),
        Err(error) => Entry::Refused(error.to_string()),
    }
}

/// A regular file's text; none if there is none. Nothing waits for whoever writes into a pipe.
fn file(path: &Path) -> Option<io::Result<String>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_end(&mut bytes));
    Some(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()))
}

fn folder(path: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(path).ok()?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
    names.sort();
    Some(names)
}
