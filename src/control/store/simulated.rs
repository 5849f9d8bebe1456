//! A disk of the tests' own: any operation can fail or be cut short, the power can go before any of them, and
//! then whatever was not made durable is there, or not, or in part.
//!
//! A file's bytes are durable from its own sync on, and a folder's names from the folder's. Of what was not,
//! every subset may survive (files whole, cut, or as zeros; renames and links each by itself): more than any file system
//! would do to us, so that the store's order of steps is all that is relied on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;

/// What goes wrong, and when: before which of the operations from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Operations that go well first.
    pub(super) after: usize,
    /// What happens then.
    pub(super) what: Trouble,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// That one operation fails; a write leaves half of its bytes.
    Fails(io::ErrorKind),
    /// It and all after it fail.
    FailsFromThenOn(io::ErrorKind),
    /// The power goes.
    PowerCut,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedDisk {
    files: Vec<Contents>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// What was done to names since their folders were made durable.
    pending: Vec<NameChange>,
    links: bool,
    pub(super) fault: Option<Fault>,
    is_off: bool,
    /// Operations so far.
    pub(super) operations: usize,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    durable: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(PathBuf, usize),
    Move(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameChange {
    fn carry_out(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Add(name, file) => drop(names.insert(name.clone(), *file)),
            NameChange::Move(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            NameChange::Remove(name) => drop(names.remove(name)),
        }
    }

    fn is_in(&self, folder: &Path) -> bool {
        let (NameChange::Add(name, _) | NameChange::Move(_, name, _) | NameChange::Remove(name)) = self;
        name.parent() == Some(folder)
    }
}

impl SimulatedDisk {
    pub(super) fn new() -> SimulatedDisk {
        SimulatedDisk { links: true, ..SimulatedDisk::default() }
    }

    /// One on which a file has one name and no second.
    pub(super) fn without_links() -> SimulatedDisk {
        SimulatedDisk::default()
    }

    pub(super) fn with_fault(&self, fault: Option<Fault>) -> SimulatedDisk {
        SimulatedDisk { fault, operations: 0, ..self.clone() }
    }

    /// Puts a file there, durably, as an operator would.
    pub(super) fn put(&mut self, path: &Path, bytes: &[u8]) {
        self.files.push(Contents { bytes: bytes.to_vec(), durable: Some(bytes.to_vec()) });
        self.names.insert(path.to_owned(), self.files.len() - 1);
        self.durable_names.insert(path.to_owned(), self.files.len() - 1);
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.names.keys().cloned().collect()
    }

    /// Every disk that may be found when the power is back.
    pub(super) fn after_power_cut(&self) -> Vec<SimulatedDisk> {
        assert!(self.pending.len() < 8, "too many to try them all: {:?}", self.pending);
        let mut found = Vec::new();
        for subset in 0..1_u32 << self.pending.len() {
            let mut names = self.durable_names.clone();
            for (bit, change) in self.pending.iter().enumerate() {
                if subset & (1 << bit) != 0 {
                    change.carry_out(&mut names);
                }
            }
            for way in 0..4 {
                let files: Vec<Contents> = self.files.iter().map(|file| file.survives(way)).collect();
                found.push(SimulatedDisk {
                    files,
                    names: names.clone(),
                    durable_names: names.clone(),
                    links: self.links,
                    ..SimulatedDisk::default()
                });
            }
        }
        found
    }

    /// Called before every operation: its error, if it has one.
    fn operate(&mut self) -> io::Result<()> {
        let turn = self.operations;
        self.operations += 1;
        let off = || io::Error::other("the power is off");
        match self.fault {
            _ if self.is_off => Err(off()),
            Some(Fault { after, what }) if turn >= after => match what {
                Trouble::Fails(kind) if turn == after => Err(kind.into()),
                Trouble::Fails(_) => Ok(()),
                Trouble::FailsFromThenOn(kind) => Err(kind.into()),
                Trouble::PowerCut => {
                    self.is_off = true;
                    Err(off())
                }
            },
            _ => Ok(()),
        }
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: NameChange) {
        change.carry_out(&mut self.names);
        self.pending.push(change);
    }
}

impl Contents {
    fn survives(&self, way: usize) -> Contents {
        let bytes = match (&self.durable, way) {
            (Some(durable), _) if *durable == self.bytes => durable.clone(),
            (durable, 0) => durable.clone().unwrap_or_default(),
            (_, 1) => self.bytes.clone(),
            (_, 2) => self.bytes[..self.bytes.len() / 2].to_vec(),
            _ => vec![0; self.bytes.len()],
        };
        Contents { durable: Some(bytes.clone()), bytes }
    }
}

impl Disk for SimulatedDisk {
    type File = usize;

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.names.get(path).map(|file| self.files[*file].bytes.clone()))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(OsString, u64)>> {
        let within = self.names.iter().filter(|(name, _)| name.parent() == Some(folder));
        let length = |file: &usize| self.files[*file].bytes.len() as u64;
        Ok(within.filter_map(|(name, file)| Some((name.file_name()?.to_owned(), length(file)))).collect())
    }

    fn create(&mut self, path: &Path, _mode: u32) -> io::Result<usize> {
        self.operate()?;
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.files.push(Contents::default());
        self.change(NameChange::Add(path.to_owned(), self.files.len() - 1));
        Ok(self.files.len() - 1)
    }

    fn write(&mut self, file: &mut usize, bytes: &[u8]) -> io::Result<()> {
        let allowed = self.operate();
        let length = if allowed.is_ok() { bytes.len() } else { bytes.len() / 2 };
        self.files[*file].bytes.extend(&bytes[..length]);
        allowed
    }

    fn sync(&mut self, file: &usize) -> io::Result<()> {
        self.operate()?;
        let file = &mut self.files[*file];
        file.durable = Some(file.bytes.clone());
        Ok(())
    }

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.operate()?;
        let (of_it, others) =
            std::mem::take(&mut self.pending).into_iter().partition(|one| one.is_in(folder));
        self.pending = others;
        let of_it: Vec<NameChange> = of_it;
        of_it.iter().for_each(|change| change.carry_out(&mut self.durable_names));
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate()?;
        let file = self.file(from)?;
        self.change(NameChange::Move(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate()?;
        let file = self.file(from)?;
        if !self.links {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(NameChange::Add(to.to_owned(), file));
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.operate()?;
        self.file(path)?;
        self.change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn make_folder(&mut self, _folder: &Path, _mode: u32) -> io::Result<()> {
        self.operate()
    }
}
