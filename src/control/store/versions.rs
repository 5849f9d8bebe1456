//! The objects file and the states before it.
//!
//! `objects.json` is the state, with the change that led to it. When a change is saved, the file that it
//! replaces gets a second name first, `history/GENERATION.json`: no byte is copied, and at no moment is a
//! state in the history that was not accepted. Ends of drains are saved too, but are no change of an operator's: they
//! replace the file under the change that it already told of.
//!
//! The order of a save: the new text is durable beside the file; the old state is durable in the history; the
//! new text takes the name. The last of these is the moment of acceptance.

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Disk};
use super::seal;
use super::{FOLDER, HISTORY, OBJECTS, SHARED, StoreError, io_error};
use crate::control::model::{ChangeRecord, ModelError, State};

/// Earlier states that are kept at most.
pub const MAX_EARLIER: usize = 100;
/// And their bytes, though the last one is kept whatever its size: a state of 8,000 targets has about 1 MB. Who
/// asks for the history for the first time has them all read, which must not hold up health checks.
const MAX_BYTES: u64 = 16 << 20;

/// A state that is kept, and the change that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What it is called by.
    pub generation: u64,
    /// The change; none if that is not known.
    pub change: Option<ChangeRecord>,
    /// Whether it is the present one.
    pub is_current: bool,
}

/// The objects file and its history on a disk.
#[derive(Debug)]
pub(super) struct Versions<D> {
    disk: D,
    directory: PathBuf,
    /// What `objects.json` is.
    current: Option<Kept>,
    /// What is in the history, by generation.
    earlier: BTreeMap<u64, Earlier>,
}

#[derive(Clone, Debug)]
struct Kept {
    generation: u64,
    change: Option<ChangeRecord>,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Earlier {
    /// What led to it, read from its file when it is first asked for: a start does not wait for that.
    change: OnceCell<Option<ChangeRecord>>,
    bytes: u64,
}

impl Kept {
    /// What the text of a state says of itself.
    fn of(text: &[u8], state: &State) -> Kept {
        let change = change_of(text);
        let generation = change.as_ref().map_or(state.generation(), |change| change.generation);
        Kept { generation, change, bytes: text.len() as u64 }
    }
}

fn change_of(text: &[u8]) -> Option<ChangeRecord> {
    ChangeRecord::of_stored(std::str::from_utf8(text).ok()?)
}

impl<D: Disk> Versions<D> {
    pub(super) fn new(disk: D, directory: &Path) -> Versions<D> {
        Versions { disk, directory: directory.to_owned(), current: None, earlier: BTreeMap::new() }
    }

    /// The stored state, if any is. Its generation is raised above that of every state in the history that
    /// it is not, so that no number ever names two states: an operator may have put an older file back.
    pub(super) fn load(&mut self) -> Result<Option<State>, StoreError> {
        self.read_history()?;
        let path = self.directory.join(OBJECTS);
        let Some(text) = self.disk.read(&path).map_err(io_error("read the objects", &path))? else {
            self.current = None;
            return Ok(None);
        };
        let state = read_stored(&text, &path).map_err(|error| self.advised(error))?;
        let mut current = Kept::of(&text, &state);
        let newest = self.earlier.keys().next_back().copied();
        let known = match newest.filter(|newest| *newest == current.generation) {
            // The power went after a state came into the history and before the next took its place.
            Some(same) => self.disk.read(&self.path_of(same)).ok().flatten().as_ref() == Some(&text),
            None => newest.is_none_or(|newest| newest < current.generation),
        };
        let state = if known { state } else { self.above_all(state) };
        if !known {
            current.generation = state.generation();
        }
        self.current = Some(current);
        Ok(Some(state))
    }

    /// `state` under a generation above all that is kept.
    pub(super) fn above_all(&self, state: State) -> State {
        match self.earlier.keys().next_back() {
            Some(newest) => state.with_generation_above(*newest),
            None => state,
        }
    }

    /// The file of the newest state in the history, if there is any.
    pub(super) fn newest(&self) -> Option<PathBuf> {
        self.earlier.keys().next_back().map(|generation| self.path_of(*generation))
    }

    /// Stores `state`; when this returns, it survives a power cut. With a `change` the state before it goes into
    /// the history; without one it is as if the last change had led to this state.
    ///
    /// # Errors
    /// The disk's. What was stored before is still there, or (if it was the folder that could not be made
    /// durable) `state` is: the caller keeps to its old state, and the next save decides.
    pub(super) fn save(&mut self, state: &State, change: Option<ChangeRecord>) -> io::Result<()> {
        let before = self.current.clone();
        let (generation, change, replaced) = match (change, before) {
            (Some(change), before) => (state.generation(), Some(change), before),
            (None, Some(before)) => (before.generation, before.change, None),
            (None, None) => (state.generation(), None, None),
        };
        let text = seal::seal(&state.to_stored(change.as_ref()));
        disk::write_beside(&mut self.disk, &self.directory, OBJECTS, SHARED, text.as_bytes())?;
        // If a save failed after this, it is there, and what the objects file holds may be what that one was
        // refused for.
        if let Some(replaced) = replaced.filter(|kept| !self.earlier.contains_key(&kept.generation)) {
            self.keep(&replaced)?;
            let Kept { generation, change, bytes } = replaced;
            self.earlier.insert(generation, Earlier { change: OnceCell::from(change), bytes });
        }
        disk::take_name(&mut self.disk, &self.directory, OBJECTS)?;
        self.current = Some(Kept { generation, change, bytes: text.len() as u64 });
        self.forget_the_oldest();
        Ok(())
    }

    /// Gives the objects file its name in the history.
    fn keep(&mut self, current: &Kept) -> io::Result<()> {
        let folder = self.directory.join(HISTORY);
        let (from, to) = (self.directory.join(OBJECTS), self.path_of(current.generation));
        self.disk.make_folder(&folder, FOLDER)?;
        match self.disk.link(&from, &to) {
            Ok(()) => {}
            // It came there before the power went, or is another's: what has the name keeps it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Not every file system has second names.
            Err(_) => {
                let name = file_name(current.generation);
                // Somebody took it away under the daemon: then there is nothing to keep.
                let Some(text) = self.disk.read(&from)? else { return Ok(()) };
                return disk::replace(&mut self.disk, &folder, &name, SHARED, &text);
            }
        }
        self.disk.sync_folder(&folder)
    }

    /// Takes the oldest states away until what is left is within bounds.
    fn forget_the_oldest(&mut self) {
        let mut bytes: u64 = self.earlier.values().map(|kept| kept.bytes).sum();
        while self.earlier.len() > MAX_EARLIER || (bytes > MAX_BYTES && self.earlier.len() > 1) {
            let Some((generation, oldest)) = self.earlier.pop_first() else { return };
            bytes -= oldest.bytes;
            let path = self.path_of(generation);
            if let Err(error) = disk::remove_if_there(&mut self.disk, &path) {
                // The state is stored all the same, and the next start finds the file again.
                tracing::warn!(name: "old_state_stays", generation, path = %path.display(), %error, "an old state could not be removed");
            }
        }
    }

    /// Everything that is kept, the present state first and then the later before the earlier.
    pub(super) fn all(&self) -> Vec<Version> {
        let current = self.current.iter().map(|kept| Version {
            generation: kept.generation,
            change: kept.change.clone(),
            is_current: true,
        });
        let present = self.current.as_ref().map(|kept| kept.generation);
        let earlier = self.earlier.iter().rev().filter(|(generation, _)| Some(**generation) != present);
        let version = |(generation, earlier): (&u64, &Earlier)| {
            let text = || self.disk.read(&self.path_of(*generation)).ok().flatten();
            let change = earlier.change.get_or_init(|| change_of(&text()?)).clone();
            Version { generation: *generation, change, is_current: false }
        };
        current.chain(earlier.map(version)).collect()
    }

    /// An earlier state; none if it is not kept.
    pub(super) fn earlier(&self, generation: u64) -> Result<Option<State>, StoreError> {
        if !self.earlier.contains_key(&generation) {
            return Ok(None);
        }
        let path = self.path_of(generation);
        let text = self.disk.read(&path).map_err(io_error("read an earlier state", &path))?;
        text.map(|text| read_stored(&text, &path)).transpose()
    }

    fn read_history(&mut self) -> Result<(), StoreError> {
        let folder = self.directory.join(HISTORY);
        let names = self.disk.list(&folder).map_err(io_error("look into the history", &folder))?;
        self.earlier.clear();
        for (name, bytes) in names {
            if let Some(generation) = name.to_str().and_then(generation_of) {
                self.earlier.insert(generation, Earlier { change: OnceCell::new(), bytes });
            }
        }
        Ok(())
    }

    /// `error` of the objects file, with the way out that the history offers.
    fn advised(&self, error: StoreError) -> StoreError {
        let newest = || {
            let mut earlier = self.earlier.keys().rev().map(|generation| self.path_of(*generation));
            earlier.find(|path| {
                let text = self.disk.read(path).ok().flatten();
                text.is_some_and(|text| read_stored(&text, path).is_ok())
            })
        };
        match error {
            StoreError::Damaged { path, fault, .. } => {
                StoreError::Damaged { path, fault, last_good: newest() }
            }
            StoreError::Newer { path, version, .. } => {
                StoreError::Newer { path, version, last_good: newest() }
            }
            other => other,
        }
    }

    fn path_of(&self, generation: u64) -> PathBuf {
        self.directory.join(HISTORY).join(file_name(generation))
    }
}

/// The state that a file of ours holds.
pub(super) fn read_stored(text: &[u8], path: &Path) -> Result<State, StoreError> {
    let damaged = |fault: String| StoreError::Damaged { path: path.to_owned(), fault, last_good: None };
    let text = std::str::from_utf8(text)
        .map_err(|error| damaged(format!("it is no text: byte {} is wrong", error.valid_up_to() + 1)))?;
    if text.is_empty() {
        return Err(damaged("it is empty".to_owned()));
    }
    // What is wrong with it by itself says more than that something is.
    let state = State::from_stored(text).map_err(|fault: ModelError| match fault.unknown_version {
        Some(version) => StoreError::Newer { path: path.to_owned(), version, last_good: None },
        None => damaged(fault.to_string()),
    })?;
    if seal::is_whole(text) { Ok(state) } else { Err(damaged(seal::BROKEN.to_owned())) }
}

fn file_name(generation: u64) -> String {
    format!("{generation}.json")
}

/// The generation of which this is the file name.
fn generation_of(name: &str) -> Option<u64> {
    let generation = name.strip_suffix(".json")?.parse().ok()?;
    (file_name(generation) == name).then_some(generation)
}
