//! The state directory: what an operator made survives a restart, and a power cut.
//!
//! It holds the objects (`objects.json`), the states before them (`history/`), the hash seed where the
//! configuration has none (`hash-seed`), records that nobody waits for (`failovers.json`) and a lock, so that two daemons never write to it. The daemon opens
//! it before EAL starts, and saves each accepted change before it answers. A file that cannot be read as a
//! whole is refused in one sentence that says what to do; the daemon never starts with half a state.

#![forbid(unsafe_code)]

mod disk;
mod real_disk;
mod records;
mod seal;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod versions;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use self::disk::Disk as _;
use self::real_disk::RealDisk;
pub use self::real_disk::open_plain;
pub use self::records::RecordFile;
use self::versions::Versions;
pub use self::versions::{MAX_EARLIER, Version};
use super::model::{ChangeRecord, ModelError, State};
use super::node::{HashSeed, NodeConfig};

const OBJECTS: &str = "objects.json";
/// The folder of the states before the present one, in the state directory.
pub const HISTORY: &str = "history";
/// The folder of flow logs, in the state directory where the configuration gives no other.
pub const FLOW_LOGS: &str = "flow-logs";
const HASH_SEED: &str = "hash-seed";
const LOCK: &str = "lock";
const FAILOVERS: &str = "failovers.json";

/// The permissions of files that hold no secret.
const SHARED: u32 = 0o640;
/// The permissions of the hash seed.
const SECRET: u32 = 0o600;
const FOLDER: u32 = 0o750;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another daemon has it.
    #[error("{}: another daemon{holder} uses this state directory; stop it, or give this one a directory of its own", directory.display())]
    InUse {
        /// The state directory.
        directory: PathBuf,
        /// ` (process N)`, if it is known.
        holder: String,
    },
    /// A file could not be read or written.
    #[error("{}: cannot {action}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The stored objects are not what this program writes.
    #[error("{}: {fault}; the daemon does not start with part of a state: {}", path.display(), way_out(last_good.as_deref()))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
        /// The newest state in the history that can be read.
        last_good: Option<PathBuf>,
    },
    /// The stored objects are in a format that this program does not know.
    #[error("{}: a newer flowgated wrote it, in version {version} of the format: start that one again, or {}", path.display(), way_out(last_good.as_deref()))]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        version: u64,
        /// The newest state in the history that can be read.
        last_good: Option<PathBuf>,
    },
    /// The operator's objects document was refused.
    #[error("{}: {fault}", path.display())]
    Seed {
        /// The document.
        path: PathBuf,
        /// What is wrong with it.
        fault: ModelError,
    },
    /// A file that should hold a hash seed does not.
    #[error("{}: {fault}", path.display())]
    HashSeed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
}

/// The state directory, locked for as long as this lives.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    versions: Versions<RealDisk>,
    /// The lock goes with the descriptor, also when the process is killed.
    _lock: File,
}

impl Store {
    /// Takes the directory, which is made if it is not there.
    ///
    /// # Errors
    /// `InUse` if another daemon has it; `Io` if it cannot be made or written to.
    pub fn open(directory: &Path) -> Result<Store, StoreError> {
        RealDisk::of(directory)
            .make_folder(directory, FOLDER)
            .map_err(io_error("make the state directory", directory))?;
        let path = directory.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(SHARED);
        let mut lock = open_plain(&mut options, &path).map_err(io_error("open the lock", &path))?;
        if lock.metadata().is_ok_and(|about| about.nlink() > 1) {
            return Err(io_error("use the lock, which has another name elsewhere", &path)(
                io::ErrorKind::InvalidInput.into(),
            ));
        }
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut lock);
                return Err(StoreError::InUse { directory: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(io_error("lock the state directory", &path)(source));
            }
        }
        // Whose lock it is, for the sentence above. On a full disk it stays unsaid: that is no reason not
        // to start with what is stored.
        if let Err(error) = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())) {
            tracing::warn!(name: "lock_unsigned", path = %path.display(), %error, "the lock does not say whose it is");
        }
        let versions = Versions::new(RealDisk::of(directory), directory);
        Ok(Store { directory: directory.to_owned(), versions, _lock: lock })
    }

    /// The stored state or, where none is stored yet, the seed's; and whether it is the seed's. That is not
    /// stored by this: the daemon saves it once everything else about its start was found in order, so that
    /// a start that was refused leaves nothing behind.
    ///
    /// # Errors
    /// As `read_state`.
    pub fn load(&mut self, seed: Option<&Path>) -> Result<(State, bool), StoreError> {
        if let Some(state) = self.versions.load()? {
            return Ok((state, false));
        }
        if let Some(last) = self.versions.newest() {
            // As an operator may mean it (`way_out`), or as a file that was lost.
            let path = self.directory.join(OBJECTS);
            tracing::warn!(
                name: "state_missing", path = %path.display(), last = %last.display(),
                "the stored state is not there, and there are states before it: the daemon starts from the seed; to go \
                 on from the last of them, stop it and copy that to the path"
            );
        }
        Ok((self.versions.above_all(read_seed(seed)?), true))
    }

    /// Stores `state`; when this returns, it survives a power cut. With a `change` the state before it goes
    /// into the history; without one it is as if the last change had led to this state.
    ///
    /// # Errors
    /// `Io`. What was stored before is still there, or (if it was the folder that could not be made
    /// durable) `state` is: the caller keeps to its old state, and the next save decides.
    pub fn save(&mut self, state: &State, change: Option<ChangeRecord>) -> Result<(), StoreError> {
        let path = self.directory.join(OBJECTS);
        self.versions.save(state, change).map_err(io_error("replace it", &path))
    }

    /// Every state that is kept: the present one, and then the later before the earlier, at most
    /// [`MAX_EARLIER`] of them.
    #[must_use]
    pub fn history(&self) -> Vec<Version> {
        self.versions.all()
    }

    /// A state of the history; none if it is not kept.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn earlier(&self, generation: u64) -> Result<Option<State>, StoreError> {
        self.versions.earlier(generation)
    }

    /// The file of the failover records.
    #[must_use]
    pub fn failovers(&self) -> RecordFile {
        RecordFile::new(self.directory.clone(), FAILOVERS)
    }

    /// The secret that flows are spread under: from the configuration, from the file that it
    /// names, or from the state directory, where one is made at the first start.
    ///
    /// # Errors
    /// `Io`, or `HashSeed` if a file holds something else.
    pub fn hash_seed(&self, config: &NodeConfig) -> Result<HashSeed, StoreError> {
        if let Some(seed) = &config.hash_seed {
            return Ok(seed.clone());
        }
        if let Some(path) = &config.hash_seed_file {
            let text = fs::read_to_string(path).map_err(io_error("read the hash seed", path))?;
            return parse_hash_seed(path, &text);
        }
        let path = self.directory.join(HASH_SEED);
        match RealDisk::of(&self.directory).read(&path).map_err(io_error("read the hash seed", &path))? {
            Some(text) => parse_hash_seed(&path, &String::from_utf8_lossy(&text)),
            None => {
                let source = Path::new("/dev/urandom");
                let mut seed = [0; 32];
                File::open(source)
                    .and_then(|mut random| random.read_exact(&mut seed))
                    .map_err(io_error("read random bytes", source))?;
                let text: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
                self.replace(HASH_SEED, SECRET, format!("{text}\n").as_bytes())?;
                Ok(HashSeed(seed))
            }
        }
    }

    fn replace(&self, name: &str, mode: u32, text: &[u8]) -> Result<(), StoreError> {
        disk::replace(&mut RealDisk::of(&self.directory), &self.directory, name, mode, text)
            .map_err(io_error("replace it", &self.directory.join(name)))
    }
}

/// The state that a daemon would start with: the one stored in `directory` or, where there is none,
/// the one that the document `seed` describes or, where no seed is given either, the empty one.
/// Takes no lock and makes nothing: `flowgated --check` asks this too.
///
/// # Errors
/// `Damaged` or `Seed` if the document is refused, `Io` if it cannot be read.
pub fn read_state(directory: &Path, seed: Option<&Path>) -> Result<State, StoreError> {
    match Versions::new(RealDisk::of(directory), directory).load()? {
        Some(state) => Ok(state),
        None => read_seed(seed),
    }
}

/// The state that a seed describes; without one there are no objects.
fn read_seed(seed: Option<&Path>) -> Result<State, StoreError> {
    let Some(seed) = seed else { return Ok(State::default()) };
    let text = fs::read_to_string(seed).map_err(io_error("read the objects", seed))?;
    State::from_document(&text).map_err(|fault| StoreError::Seed { path: seed.to_owned(), fault })
}

/// What to do about a file that cannot be used.
fn way_out(last_good: Option<&Path>) -> String {
    let restore = match last_good {
        Some(path) => format!("copy {} over it to go on from the last good state before it", path.display()),
        None => "restore this file".to_owned(),
    };
    format!("{restore}, or move it away to start from the seed again")
}

/// What to do about an error of the system's, to follow it; nothing where that is for an operator to see.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on this disk",
        io::ErrorKind::ReadOnlyFilesystem => "; mount this file system for writing",
        io::ErrorKind::PermissionDenied => "; give the daemon's user the right to it",
        // What has the name is no plain file.
        io::ErrorKind::InvalidInput => "; put the file itself in its place, or move it away",
        _ => "",
    }
}

fn parse_hash_seed(path: &Path, text: &str) -> Result<HashSeed, StoreError> {
    text.trim_end().parse().map_err(|fault| StoreError::HashSeed { path: path.to_owned(), fault })
}

/// Who has the lock, as far as the lock file tells: it may just be being written.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.read_to_string(&mut text) {
        Ok(_) if text.trim_end().parse::<u32>().is_ok() => format!(" (process {})", text.trim_end()),
        _ => String::new(),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}
