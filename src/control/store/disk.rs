//! The disk as the store sees it, one operation at a time, so that tests can stand between them: what
//! can fail, what a power cut can leave behind, and a file that is replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
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
fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.new"))
}

/// Takes a name away, if there is such a name.
pub(super) fn remove_if_there(disk: &mut impl Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Opens a file of the state directory. Root does so in a folder that may be another user's: not what that one's links
/// lead to, and nothing that has an open or a read wait for ever, as a FIFO does.
///
/// # Errors
/// If it cannot be opened, or is no file.
pub fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    Ok(file)
}

/// The real one.
#[derive(Debug)]
pub(super) struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match open_plain(OpenOptions::new().read(true), path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
        {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(OsString, u64)>> {
        let named = |entry: fs::DirEntry| Ok((entry.file_name(), entry.metadata()?.len()));
        match fs::read_dir(folder) {
            Ok(entries) => entries.map(|entry| entry.and_then(named)).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn create(&mut self, path: &Path, mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn make_folder(&mut self, folder: &Path, mode: u32) -> io::Result<()> {
        match DirBuilder::new().mode(mode).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match folder.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => {
                    self.make_folder(parent, mode)?;
                    self.make_folder(folder, mode)
                }
                _ => Err(error),
            },
            Err(error) => Err(error),
            Ok(()) => match folder.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_folder(parent),
                _ => self.sync_folder(Path::new(".")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_link_and_a_fifo_are_no_files_of_ours_and_nobody_waits_for_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        fs::write(&file, "state").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        assert_eq!(RealDisk.read(&file).expect("a file"), Some(b"state".to_vec()));
        for other in [&link, &fifo, &folder.path().to_owned()] {
            RealDisk.read(other).expect_err("it is no file");
            open_plain(OpenOptions::new().read(true).append(true), other).expect_err("it is no file");
        }
    }

    #[test]
    fn permissions_are_those_asked_for_also_after_a_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(beside(folder.path(), "file"), "left by a crash").expect("a file");
        replace(&mut RealDisk, folder.path(), "file", 0o600, b"secret").expect("nothing in the way");
        let mode = fs::metadata(folder.path().join("file")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
