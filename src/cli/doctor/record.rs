//! A record of a host, to be sent with a report of a fault or kept as a test's: as one text file, or as a folder
//! that has the files under their own paths.
//!
//! ```text
//! # a comment
//! /sys/class/net/eth0/mtu = 1500
//! /sys/bus/pci/devices/0000:3b:00.0/driver -> ../../../bus/pci/drivers/vfio-pci
//! /dev/vfio/7/
//! /var/lib/flowgate/objects.json ! Permission denied
//! /etc/flowgate/node.toml:
//!     zone = "rack-a"
//! ```
//!
//! A value, a link, a name alone, what may not be read, and a file of several lines, each behind a tab.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::host::{ANSWERS, Entry};

/// The head of a file, for whoever is sent one.
const HEAD: &str = "# What `flowgate doctor --record` read of a host. It has addresses, names of objects and tags, and no secrets.\n";

/// What in a folder is a line each of one file, in the form of a list: permissions, as the paths that they are about are
/// files and folders at once, and what may not be read, for which a folder has no form.
const LISTED: &str = "/flowgate/listed";

/// A folder of more files is no record.
const MOST_ENTRIES: usize = 200_000;

/// Reads the text of a record.
///
/// # Errors
/// One sentence with the line at fault.
pub fn parse(text: &str) -> Result<BTreeMap<String, Entry>, String> {
    let mut entries = BTreeMap::new();
    let mut open: Option<(String, String)> = None;
    // Empty lines within a file, which editors take the tab from.
    let mut empty = 0;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(more) = line.strip_prefix('\t') {
            let (_, text) = open.as_mut().ok_or_else(|| format!("line {number} belongs to no file"))?;
            text.extend(std::iter::repeat_n('\n', empty));
            text.push_str(more);
            text.push('\n');
            empty = 0;
            continue;
        }
        if line.is_empty() && open.is_some() {
            empty += 1;
            continue;
        }
        empty = 0;
        if let Some((path, text)) = open.take() {
            entries.insert(path, Entry::Text(text));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = if let Some(path) = line.strip_suffix(':').filter(|path| !path.contains(' ')) {
            open = Some((path.to_owned(), String::new()));
            continue;
        } else if let Some((path, target)) = line.split_once(" -> ") {
            (path, Entry::Link(target.to_owned()))
        } else if let Some((path, text)) = line.split_once(" = ") {
            (path, Entry::Text(format!("{text}\n")))
        } else if let Some((path, why)) = line.split_once(" ! ") {
            (path, Entry::Refused(why.to_owned()))
        } else if let Some(path) = line.strip_suffix('/') {
            (path, Entry::Folder)
        } else {
            return Err(format!("line {number} is no entry of a record: {line}"));
        };
        entries.insert(entry.0.to_owned(), entry.1);
    }
    if let Some((path, text)) = open {
        entries.insert(path, Entry::Text(text));
    }
    match entries.keys().find(|path| !path.starts_with('/')) {
        Some(path) => Err(format!("'{path}' is no path from the root")),
        None if entries.is_empty() => Err("it has no entry of a record".to_owned()),
        None => Ok(entries),
    }
}

/// The text of a record.
#[must_use]
pub fn text(entries: &BTreeMap<String, Entry>) -> String {
    let mut text = HEAD.to_owned();
    for (path, entry) in entries {
        // The entries below it say that it is there.
        let has_more = || {
            entries
                .range(format!("{path}/")..)
                .next()
                .is_some_and(|(next, _)| next.starts_with(&format!("{path}/")))
        };
        match entry {
            Entry::Folder if has_more() => {}
            Entry::Folder => text += &format!("{path}/\n"),
            Entry::Link(target) => text += &format!("{path} -> {target}\n"),
            Entry::Refused(why) => text += &format!("{path} ! {why}\n"),
            Entry::Text(one)
                if one.trim_end().contains('\n') || one.starts_with('\t') || one.trim().is_empty() =>
            {
                text += &format!("{path}:\n");
                for line in one.lines() {
                    text += &format!("\t{line}\n");
                }
            }
            Entry::Text(one) => text += &format!("{path} = {}\n", one.trim_end_matches('\n')),
        }
    }
    text
}

/// Writes a record: as one file if the path ends in `.txt`, else as a folder, which must not be there yet or be empty.
///
/// # Errors
/// As the system has them.
pub(super) fn write(entries: &BTreeMap<String, Entry>, path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|extension| extension == "txt") {
        return fs::write(path, text(entries));
    }
    fs::create_dir_all(path)?;
    if fs::read_dir(path)?.next().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder is not empty"));
    }
    let is_listed = |name: &str, entry: &Entry| {
        matches!(entry, Entry::Refused(_)) || name.starts_with(&format!("{ANSWERS}modes/"))
    };
    let (listed, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
        entries.clone().into_iter().partition(|(name, entry)| is_listed(name, entry));
    for (name, entry) in &own {
        let place = path.join(name.trim_start_matches('/'));
        match entry {
            Entry::Text(text) => parent(&place).and_then(|()| fs::write(&place, text))?,
            Entry::Link(target) => parent(&place).and_then(|()| symlink(target, &place))?,
            Entry::Folder => fs::create_dir_all(&place)?,
            Entry::Refused(_) => {}
        }
    }
    let place = path.join(LISTED.trim_start_matches('/'));
    parent(&place).and_then(|()| fs::write(place, text(&listed)))
}

/// Reads a record that is a folder. No link is followed, so that it has nothing that lies outside.
///
/// # Errors
/// As the system has them.
pub(super) fn of_folder(root: &Path) -> io::Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for place in fs::read_dir(&folder)? {
            let place = place?.path();
            let name = format!("/{}", place.strip_prefix(root).unwrap_or(&place).display());
            let kind = fs::symlink_metadata(&place)?.file_type();
            let entry = if kind.is_dir() {
                folders.push(place);
                Entry::Folder
            } else if kind.is_symlink() {
                Entry::Link(fs::read_link(&place)?.display().to_string())
            } else if kind.is_file() {
                Entry::Text(String::from_utf8_lossy(&fs::read(&place)?).into_owned())
            } else {
                continue;
            };
            entries.insert(name, entry);
            if entries.len() > MOST_ENTRIES {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    "it has too many files for a record",
                ));
            }
        }
    }
    if let Some(Entry::Text(listed)) = entries.remove(LISTED) {
        // An empty one has no entry, which is no fault here.
        entries.extend(parse(&listed).unwrap_or_default());
    }
    Ok(entries)
}

fn parent(place: &Path) -> io::Result<()> {
    place.parent().map_or(Ok(()), fs::create_dir_all)
}
