//! A file of the state directory for what nobody waits for: records that are written in the background. It is
//! replaced as a whole or not at all, as everything here is.

use std::path::PathBuf;

use super::disk::{self, Disk as _};
use super::real_disk::RealDisk;
use super::{SHARED, StoreError, io_error};

/// The records' file. Whoever has it holds no lock: the daemon that has the [`Store`](super::Store) alone writes to it.
#[derive(Clone, Debug)]
pub struct RecordFile {
    directory: PathBuf,
    name: &'static str,
}

impl RecordFile {
    pub(super) fn new(directory: PathBuf, name: &'static str) -> RecordFile {
        RecordFile { directory, name }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// What it holds; none if it is not there.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&self) -> Result<Option<String>, StoreError> {
        let path = self.path();
        let bytes = RealDisk::of(&self.directory).read(&path).map_err(io_error("read it", &path))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Replaces it. May take as long as the disk does.
    ///
    /// # Errors
    /// `Io`; it holds what it held then, or already `text`.
    pub fn write(&self, text: &str) -> Result<(), StoreError> {
        disk::replace(&mut RealDisk::of(&self.directory), &self.directory, self.name, SHARED, text.as_bytes())
            .map_err(io_error("replace it", &self.path()))
    }

    /// Puts aside a file that cannot be read, so that the next one does not take its place: it is kept under
    /// its name with `.damaged` behind it.
    ///
    /// # Errors
    /// `Io`.
    pub fn put_aside(&self) -> Result<PathBuf, StoreError> {
        let aside = self.directory.join(format!("{}.damaged", self.name));
        RealDisk::of(&self.directory)
            .rename(&self.path(), &aside)
            .map_err(io_error("rename it", &self.path()))?;
        Ok(aside)
    }
}
