//! The disk that there is.
//!
//! Root may read it in a folder of another user's, who could lead it elsewhere: so nothing below the state directory is
//! reached through a symbolic link, be it the last name of a path or a folder's on the way. Each folder is opened by
//! the one above it, and what is in it by its handle. The way to the state directory itself is the operator's, links and all.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use super::disk::Disk;

/// Opens a file right in the state directory. Root does so in a folder that may be another user's: not what that one's links
/// lead to, and nothing that has an open or a read wait for ever, as a FIFO does.
///
/// # Errors
/// If it cannot be opened, or is no file.
pub fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    plain(options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path))
}

/// What was opened without following a link, if it is a file.
fn plain(opened: io::Result<File>) -> io::Result<File> {
    let strange = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => strange("it is a symbolic link, and those are not followed"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(strange("it is not a file")) }
}

/// The real one, of this state directory.
#[derive(Clone, Debug)]
pub(super) struct RealDisk {
    directory: PathBuf,
}

impl RealDisk {
    pub(super) fn of(directory: &Path) -> RealDisk {
        RealDisk { directory: directory.to_owned() }
    }

    /// The state directory, or a folder in it.
    fn folder(&self, folder: &Path) -> io::Result<OwnedFd> {
        let mut found: OwnedFd =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&self.directory)?.into();
        let below = folder.strip_prefix(&self.directory).map_err(|_| io::ErrorKind::InvalidInput)?;
        for name in below {
            let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            found = openat(&found, name, flags, Mode::empty()).map_err(|errno| match errno {
                Errno::ENOTDIR | Errno::ELOOP => io::Error::new(
                    io::ErrorKind::NotADirectory,
                    "it is not a folder, and a symbolic link is not followed; put a folder in its place",
                ),
                other => other.into(),
            })?;
        }
        Ok(found)
    }

    /// The folder that a path is in, and its name there.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (folder, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(folder)?, name))
    }
}

impl Disk for RealDisk {
    type File = File;

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let read = || -> io::Result<Vec<u8>> {
            let (folder, name) = self.place(path)?;
            // Nobody waits for a FIFO.
            let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let opened = openat(&folder, name, flags, Mode::empty());
            let mut file = plain(opened.map(File::from).map_err(io::Error::from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(OsString, u64)>> {
        let mut folder = match self.folder(folder) {
            Ok(folder) => Dir::from_fd(folder)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in folder.iter() {
            names.push(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        names.retain(|name| name != "." && name != "..");
        let with_length = |name: OsString| {
            let about = fstatat(folder.as_fd(), name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            Ok((name, u64::try_from(about.st_size).unwrap_or(0)))
        };
        names.into_iter().map(with_length).collect()
    }

    fn create(&mut self, path: &Path, mode: u32) -> io::Result<File> {
        let (folder, name) = self.place(path)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        Ok(openat(&folder, name, flags, Mode::from_bits_truncate(mode))?.into())
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        File::from(self.folder(folder)?).sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ((old, old_name), (new, new_name)) = (self.place(from)?, self.place(to)?);
        Ok(renameat(&old, old_name, &new, new_name)?)
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ((old, old_name), (new, new_name)) = (self.place(from)?, self.place(to)?);
        Ok(linkat(&old, old_name, &new, new_name, AtFlags::empty())?)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        Ok(unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn make_folder(&mut self, folder: &Path, mode: u32) -> io::Result<()> {
        if folder == self.directory {
            return make_folder_by_name(folder, mode);
        }
        let (above, name) = self.place(folder)?;
        match mkdirat(&above, name, Mode::from_bits_truncate(mode)) {
            Ok(()) => File::from(above).sync_all(),
            Err(Errno::EEXIST) => self.folder(folder).map(drop),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Makes the state directory and whatever is missing above it, durable.
fn make_folder_by_name(folder: &Path, mode: u32) -> io::Result<()> {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match above {
            Some(above) => {
                make_folder_by_name(above, mode)?;
                make_folder_by_name(folder, mode)
            }
            None => Err(error),
        },
        Err(error) => Err(error),
        Ok(()) => File::open(above.unwrap_or(Path::new(".")))?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::super::disk::{beside, remove_if_there, replace};
    use super::*;

    #[test]
    fn a_link_and_a_fifo_are_no_files_of_ours_and_nobody_waits_for_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        fs::write(&file, "state").expect("a file");
        symlink(&file, &link).expect("a link");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        let disk = RealDisk::of(folder.path());
        assert_eq!(disk.read(&file).expect("a file"), Some(b"state".to_vec()));
        for other in [&link, &fifo, &folder.path().to_owned()] {
            disk.read(other).expect_err("it is no file");
            open_plain(OpenOptions::new().read(true).append(true), other).expect_err("it is no file");
        }
    }

    #[test]
    fn permissions_are_those_asked_for_also_after_a_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(beside(folder.path(), "file"), "left by a crash").expect("a file");
        replace(&mut RealDisk::of(folder.path()), folder.path(), "file", 0o600, b"secret")
            .expect("nothing in the way");
        let mode = fs::metadata(folder.path().join("file")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_folder_in_the_state_directory_is_made_listed_and_written_to() {
        let above = tempfile::tempdir().expect("a folder");
        let state = above.path().join("var/state");
        let [history, file, other] =
            ["history", "history/7.json", "history/8.json"].map(|name| state.join(name));
        let mut disk = RealDisk::of(&state);
        assert!(disk.list(&history).expect("none there").is_empty());
        assert_eq!(disk.read(&file).expect("none there"), None);
        disk.make_folder(&state, 0o750).expect("made with what is above it");
        for _ in 0..2 {
            disk.make_folder(&history, 0o750).expect("made, or there");
        }
        replace(&mut disk, &history, "7.json", 0o640, b"seven").expect("nothing in the way");
        disk.link(&file, &other).expect("a second name");
        assert_eq!(fs::metadata(&other).expect("it").nlink(), 2);
        let mut names = disk.list(&history).expect("a folder");
        names.sort_unstable();
        assert_eq!(names, [("7.json".into(), 5), ("8.json".into(), 5)]);
        disk.rename(&file, &state.join("back")).expect("another name");
        remove_if_there(&mut disk, &other).expect("there");
        remove_if_there(&mut disk, &other).expect("not there any more");
        assert!(disk.list(&history).expect("a folder").is_empty());
        assert_eq!(disk.read(&state.join("back")).expect("a file"), Some(b"seven".to_vec()));
    }

    // Whoever has the state directory may have put it there for root.
    #[test]
    fn a_link_in_a_folders_place_leads_nobody_out_of_the_state_directory() {
        let outside = tempfile::tempdir().expect("a folder");
        let (elsewhere, state) = (outside.path().join("etc"), outside.path().join("state"));
        fs::create_dir(&elsewhere).expect("a folder");
        fs::create_dir(&state).expect("a folder");
        fs::write(elsewhere.join("7.json"), "precious").expect("a file");
        fs::write(state.join("objects.json"), "state").expect("a file");
        symlink(&elsewhere, state.join("history")).expect("a link");
        let mut disk = RealDisk::of(&state);
        let [history, seven, eight, objects] =
            ["history", "history/7.json", "history/8.json", "objects.json"].map(|name| state.join(name));
        let refusal = disk.list(&history).expect_err("a link").to_string();
        assert!(refusal.contains("a symbolic link is not followed"), "{refusal}");
        disk.read(&seven).expect_err("not through a link");
        disk.remove(&seven).expect_err("not through a link");
        disk.rename(&objects, &seven).expect_err("not through a link");
        disk.link(&objects, &eight).expect_err("not through a link");
        disk.make_folder(&history, 0o750).expect_err("there is a link");
        disk.sync_folder(&history).expect_err("not through a link");
        replace(&mut disk, &history, "7.json", 0o640, b"forged").expect_err("not through a link");
        assert_eq!(fs::read(elsewhere.join("7.json")).expect("untouched"), b"precious");
        assert_eq!(fs::read_dir(&elsewhere).expect("a folder").count(), 1);
        // And the way to the state directory is the operator's.
        symlink(&state, outside.path().join("link")).expect("a link");
        let disk = RealDisk::of(&outside.path().join("link"));
        assert_eq!(
            disk.read(&outside.path().join("link/objects.json")).expect("a file"),
            Some(b"state".to_vec())
        );
    }
}
