//! The disk as the store sees it, one operation at a time, so that tests can stand between them: what
//! can fail, what a power cut can leave behind, and a file that is replaced as a whole or not at all.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// What the store asks of a disk. Each is one thing that can fail by itself.
pub(super) trait Disk {
    /// A file that is being written.
    type File;

    /// The file's bytes; none if there is no such file.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// The names in a folder and the lengths of what has them, in no order; none if there is no such folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<(OsString, u64)>>;

    /// Makes a new file, empty, under the permissions `mode`. There must be none of this name.
    fn create(&mut self, path: &Path, mode: u32) -> io::Result<Self::File>;

    /// Appends to a file.
    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file's bytes durable.
    fn sync(&mut self, file: &Self::File) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&mut self, folder: &Path) -> io::Result<()>;

    /// Gives a file another name, and takes that away from whatever had it.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a name away.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Makes a folder and whatever is missing above it, durable.
    fn make_folder(&mut self, folder: &Path, mode: u32) -> io::Result<()>;
}

/// Replaces `folder/name` by `text`, under the permissions `mode`.
///
/// On an error the file holds what it held, or, if it was the last step that failed, already `text`.
pub(super) fn replace(
    disk: &mut impl Disk,
    folder: &Path,
    name: &str,
    mode: u32,
    text: &[u8],
) -> io::Result<()> {
    write_beside(disk, folder, name, mode, text)?;
    take_name(disk, folder, name)
}

/// The first half of [`replace`]: `text` is made durable beside the file.
pub(super) fn write_beside(
    disk: &mut impl Disk,
    folder: &Path,
    name: &str,
    mode: u32,
    text: &[u8],
) -> io::Result<()> {
    let new = beside(folder, name);
    // What a crash may have left there could have other permissions, or be a link.
    remove_if_there(disk, &new)?;
    let mut file = disk.create(&new, mode)?;
    let written = disk.write(&mut file, text).and_then(|()| disk.sync(&file));
    if written.is_err() {
        // On a full disk every byte counts. Whether it can be taken away makes no difference to the error.
        remove_if_there(disk, &new).ok();
    }
    written
}

/// The second half of [`replace`]: what was written beside the file takes its name, durably.
pub(super) fn take_name(disk: &mut impl Disk, folder: &Path, name: &str) -> io::Result<()> {
    disk.rename(&beside(folder, name), &folder.join(name))?;
    disk.sync_folder(folder)
}

/// Where the text goes before it takes the name.
pub(super) fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.new"))
}

/// Takes a name away, if there is such a name.
pub(super) fn remove_if_there(disk: &mut impl Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
