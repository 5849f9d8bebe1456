//! Files in memory that outlive the process: a folder of a memory file system that is one user's alone, its lock, and the
//! files in it. Nothing here belongs to anybody else or is touched if it does; what is wrong is one sentence.
//!
//! A daemon that starts as root and becomes another [`Owner`] makes everything here that one's at once. What it has left here as
//! root, before it became anybody, is given to the owner when the folder is taken: who could write to it was root alone.
//!
//! The folder's descriptor is kept: its lock is the process's for as long as that lives, and names are looked up below it
//! and nowhere else.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FallocateFlags, OFlag, fallocate, open, openat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{HUGETLBFS_MAGIC, Statfs, TMPFS_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, fchown, fchownat, geteuid, unlinkat};
use thiserror::Error;

use super::owner::Owner;

/// What everything here is readable and writable by: its owner.
const OWN: u32 = 0o600;

/// Why there is nothing to be had here.
#[derive(Debug, Error)]
pub enum ShelfError {
    /// Another process has the folder.
    #[error("{} is in use by another daemon", .0.display())]
    InUse(PathBuf),
    /// It is not ours, or not ours alone, or not what it should be.
    #[error("{} {what}", path.display())]
    Foreign {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A file that was looked for.
#[derive(Debug)]
pub enum Found {
    /// There is none of the name.
    Nothing,
    /// There is, and it is ours and as long as it should be.
    File(File),
    /// It is ours, and of another length.
    OtherLength(u64),
}

/// The folder, locked for as long as this lives.
#[derive(Debug)]
pub struct Shelf {
    path: PathBuf,
    folder: File,
    owner: Owner,
    was_given: bool,
    huge_page: Option<usize>,
}

impl Shelf {
    /// Takes the owner's folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn open(path: &Path, owner: Owner) -> Result<Shelf, ShelfError> {
        let made = match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ShelfError::Io { action: "make", path: path.to_owned(), source });
            }
            made => made.is_ok(),
        };
        let mut shelf = Shelf::open_existing(path, owner)?;
        shelf.was_given &= !made;
        Ok(shelf)
    }

    /// Takes the owner's folder, which is there.
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn open_existing(path: &Path, owner: Owner) -> Result<Shelf, ShelfError> {
        let foreign = |what: &str| ShelfError::Foreign { path: path.to_owned(), what: what.to_owned() };
        let failed = |action| move |source| ShelfError::Io { action, path: path.to_owned(), source };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = match open(path, flags, Mode::empty()) {
            Ok(folder) => File::from(folder),
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                return Err(foreign("is a symbolic link or no folder"));
            }
            Err(error) => return Err(failed("open")(error.into())),
        };
        let about = folder.metadata().map_err(failed("look at"))?;
        let is_to_be_given = about.uid() != owner.uid && about.uid() == geteuid().as_raw();
        if !is_to_be_given {
            must_be_of(owner, &about, path)?;
        }
        must_be_closed(&about, 0o077, path)?;
        let system = fstatfs(&folder).map_err(|error| failed("look at")(error.into()))?;
        let huge_page = huge_page(&system).ok_or_else(|| foreign("is not in a memory file system"))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ShelfError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let shelf = Shelf { path: path.to_owned(), folder, owner, was_given: is_to_be_given, huge_page };
        if is_to_be_given {
            shelf.give().map_err(failed("give the daemon's user"))?;
        }
        Ok(shelf)
    }

    /// Gives the owner what is in the folder and of the folder's user, and last the folder, so that one that is given in part
    /// is given the next time.
    fn give(&self) -> io::Result<()> {
        let (uid, gid) = self.owner.ids();
        // By the handle and not by the name, which may be another's by now.
        for entry in std::fs::read_dir(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))? {
            let name = entry?.file_name();
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let file = File::from(openat(&self.folder, &*name, flags, Mode::empty())?);
            let about = file.metadata()?;
            // What has another name is somebody else's too, and is told when it is looked for.
            if about.is_file() && about.uid() == geteuid().as_raw() && about.nlink() == 1 {
                fchownat(&file, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
            }
        }
        Ok(fchown(&self.folder, uid, gid)?)
    }

    /// Whether the folder was another user's and was given to its owner just now.
    pub fn was_given(&self) -> bool {
        self.was_given
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the reserved huge pages that its files have; `None`: ordinary ones.
    pub fn huge_page(&self) -> Option<usize> {
        self.huge_page
    }

    /// Looks for a file that is `length` bytes long.
    ///
    /// # Errors
    /// If it is a symbolic link, another user's, open to others, has other names, or is no file.
    pub fn find(&self, name: &str, length: u64) -> Result<Found, ShelfError> {
        let path = self.path.join(name);
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let foreign = |what: String| ShelfError::Foreign { path: path.clone(), what };
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(Found::Nothing),
            Err(Errno::ELOOP) => return Err(foreign("is a symbolic link".to_owned())),
            Err(Errno::EISDIR | Errno::ENXIO) => return Err(foreign("is no file".to_owned())),
            Err(error) => return Err(self.failed("open", name, error)),
        };
        let about = file.metadata().map_err(|source| ShelfError::Io {
            action: "look at",
            path: path.clone(),
            source,
        })?;
        if !about.is_file() {
            return Err(foreign("is no file".to_owned()));
        }
        if about.len() == 0 && about.uid() == geteuid().as_raw() {
            // Made by a start that ended before it was given to the owner.
            return Ok(if length == 0 { Found::File(file) } else { Found::OtherLength(0) });
        }
        must_be_of(self.owner, &about, &path)?;
        must_be_closed(&about, 0o177, &path)?;
        if about.nlink() != 1 {
            return Err(foreign(format!("has {} names", about.nlink())));
        }
        Ok(if about.len() == length { Found::File(file) } else { Found::OtherLength(about.len()) })
    }

    /// Makes a file of `length` zeros. There is none of the name. Memory for it is taken as it is written.
    ///
    /// # Errors
    /// If the system says no.
    pub fn create(&self, name: &str, length: u64) -> Result<File, ShelfError> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made: OwnedFd = openat(&self.folder, name, flags, Mode::from_bits_truncate(OWN))
            .map_err(|error| self.failed("make", name, error))?;
        let file = File::from(made);
        let path = || self.path.join(name);
        if self.owner.uid != geteuid().as_raw() {
            let (uid, gid) = self.owner.ids();
            fchown(&file, uid, gid).map_err(|error| self.failed("give the daemon's user", name, error))?;
        }
        file.set_len(length).map_err(|source| ShelfError::Io {
            action: "make room in",
            path: path(),
            source,
        })?;
        Ok(file)
    }

    /// The same with all of its memory taken at once, so that a mapping of it never finds that there is none.
    ///
    /// # Errors
    /// If the system says no, or has not so much memory for files.
    pub fn create_whole(&self, name: &str, length: u64) -> Result<File, ShelfError> {
        let file = self.create(name, length)?;
        let all = i64::try_from(length).unwrap_or(i64::MAX);
        fallocate(&file, FallocateFlags::empty(), 0, all)
            .map_err(|error| self.failed("take the memory for", name, error))?;
        Ok(file)
    }

    /// Takes a name away, if it is there.
    ///
    /// # Errors
    /// If the system says no.
    pub fn remove(&self, name: &str) -> Result<(), ShelfError> {
        match unlinkat(&self.folder, OsStr::new(name), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(self.failed("remove", name, error)),
        }
    }

    fn failed(&self, action: &'static str, name: &str, error: Errno) -> ShelfError {
        ShelfError::Io { action, path: self.path.join(name), source: error.into() }
    }
}

fn must_be_of(owner: Owner, about: &std::fs::Metadata, path: &Path) -> Result<(), ShelfError> {
    if about.uid() == owner.uid {
        return Ok(());
    }
    let what = format!("belongs to user {}, and the daemon is user {}", about.uid(), owner.uid);
    Err(ShelfError::Foreign { path: path.to_owned(), what })
}

fn must_be_closed(about: &std::fs::Metadata, to: u32, path: &Path) -> Result<(), ShelfError> {
    if about.mode() & to == 0 {
        return Ok(());
    }
    let what = format!("has mode {:04o}, which is open to others", about.mode() & 0o7777);
    Err(ShelfError::Foreign { path: path.to_owned(), what })
}

/// The reserved pages of a file system's files, if it has such; `None` if they are on a disk.
fn huge_page(system: &Statfs) -> Option<Option<usize>> {
    match system.filesystem_type() {
        TMPFS_MAGIC => Some(None),
        HUGETLBFS_MAGIC => Some(usize::try_from(system.block_size()).ok()),
        _ => None,
    }
}

/// A place where reserved huge pages can be had as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugeMount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Bytes of a page.
    pub page: usize,
    /// Bytes that are free.
    pub free: u64,
}

/// Where huge pages can be had as files, the largest pages first.
pub fn huge_mounts() -> Vec<HugeMount> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<HugeMount> = huge_paths(&mounts)
        .filter_map(|path| {
            let system = nix::sys::statfs::statfs(&path).ok()?;
            let page = usize::try_from(system.block_size()).ok()?;
            let free =
                free_pages(system.blocks(), system.blocks_free(), pool(page)).saturating_mul(page as u64);
            Some(HugeMount { path, page, free })
        })
        .collect();
    found.sort_by_key(|mount| std::cmp::Reverse(mount.page));
    found
}

/// Pages that the kernel has reserved and that are nobody's yet.
fn pool(page: usize) -> u64 {
    let number = |file: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{file}", page >> 10);
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    number("free_hugepages").unwrap_or(0).saturating_sub(number("resv_hugepages").unwrap_or(0))
}

/// What can be had of a file system that tells so many pages in all, and so many free: one without a limit, as most are, tells
/// none or -1 of either.
fn free_pages(all: u64, free: u64, pool: u64) -> u64 {
    if all == 0 || all == u64::MAX { pool } else { free.min(pool) }
}

/// Where they are mounted: `hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0`
pub fn huge_paths(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (path, kind) = (words.nth(1)?, words.next()?);
        (kind == "hugetlbfs" && !path.contains('\\')).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn shelf() -> (tempfile::TempDir, Shelf) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let shelf = Shelf::open(&folder.path().join("own"), Owner::present()).unwrap();
        (folder, shelf)
    }

    fn sentence<T: std::fmt::Debug>(result: Result<T, ShelfError>, folder: &tempfile::TempDir) -> String {
        let told = result.unwrap_err().to_string();
        told.replace(&folder.path().display().to_string(), "…")
    }

    #[test]
    fn a_file_system_of_huge_pages_has_what_the_kernel_has_and_no_more_than_it_may() {
        assert_eq!(free_pages(0, 0, 7), 7, "as /dev/hugepages is mounted");
        assert_eq!(free_pages(u64::MAX, u64::MAX, 7), 7);
        assert_eq!((free_pages(10, 4, 7), free_pages(10, 9, 7), free_pages(10, 0, 7)), (4, 7, 0));
    }

    #[test]
    fn a_file_is_found_by_whoever_comes_next_and_by_nobody_else_meanwhile() {
        let (folder, shelf) = shelf();
        assert!(matches!(shelf.find("table", 4096), Ok(Found::Nothing)));
        let made = shelf.create("table", 4096).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o600);
        assert!(matches!(shelf.find("table", 4096), Ok(Found::File(_))));
        assert!(matches!(shelf.find("table", 8192), Ok(Found::OtherLength(4096))));
        let path = folder.path().join("own");
        assert_eq!(
            sentence(Shelf::open(&path, Owner::present()), &folder),
            "…/own is in use by another daemon"
        );
        drop(shelf);
        let next = Shelf::open(&path, Owner::present()).unwrap();
        assert_eq!(next.huge_page(), None);
        assert!(matches!(next.find("table", 4096), Ok(Found::File(_))));
        assert!(next.create("table", 4096).is_err(), "it is there");
        next.remove("table").unwrap();
        next.remove("table").unwrap();
        assert!(matches!(next.find("table", 4096), Ok(Found::Nothing)));
    }

    #[test]
    fn what_is_not_ours_alone_is_told_and_left() {
        let (folder, shelf) = shelf();
        let own = folder.path().join("own");
        let secret = folder.path().join("somebody's");
        std::fs::write(&secret, "theirs").unwrap();
        symlink(&secret, own.join("link")).unwrap();
        assert_eq!(sentence(shelf.find("link", 6), &folder), "…/own/link is a symbolic link");
        std::fs::hard_link(&secret, own.join("twice")).unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(sentence(shelf.find("twice", 6), &folder), "…/own/twice has 2 names");
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o640)).unwrap();
        let told = sentence(shelf.find("twice", 6), &folder);
        assert_eq!(told, "…/own/twice has mode 0640, which is open to others");
        std::fs::create_dir(own.join("folder")).unwrap();
        assert_eq!(sentence(shelf.find("folder", 6), &folder), "…/own/folder is no file");
        nix::unistd::mkfifo(&own.join("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
        assert_eq!(sentence(shelf.find("pipe", 0), &folder), "…/own/pipe is no file");
        if geteuid().is_root() {
            shelf.create("theirs", 1).unwrap();
            std::os::unix::fs::chown(own.join("theirs"), Some(4711), None).unwrap();
            let told = sentence(shelf.find("theirs", 1), &folder);
            assert_eq!(told, "…/own/theirs belongs to user 4711, and the daemon is user 0");
        }
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "theirs");
    }

    #[test]
    fn a_folder_must_be_ours_alone_and_in_memory() {
        let (folder, shelf) = shelf();
        drop(shelf);
        let own = folder.path().join("own");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o750)).unwrap();
        let told = sentence(Shelf::open(&own, Owner::present()), &folder);
        assert_eq!(told, "…/own has mode 0750, which is open to others");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o700)).unwrap();
        symlink(&own, folder.path().join("link")).unwrap();
        let told = sentence(Shelf::open(&folder.path().join("link"), Owner::present()), &folder);
        assert_eq!(told, "…/link is a symbolic link or no folder");
        let told = sentence(Shelf::open(&folder.path().join("no/such"), Owner::present()), &folder);
        assert_eq!(told, "cannot make …/no/such: No such file or directory (os error 2)");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&own, Some(4711), None).unwrap();
            let told = sentence(Shelf::open(&own, Owner::present()), &folder);
            assert_eq!(told, "…/own belongs to user 4711, and the daemon is user 0");
        }
        let told = Shelf::open(Path::new("/proc/self"), Owner::present()).unwrap_err().to_string();
        assert!(told.starts_with("/proc/self "), "{told}");
    }

    const SOMEBODY: Owner = Owner { uid: 4711, gid: 4712 };

    /// Files can be given by root alone.
    fn is_root() -> bool {
        let root = geteuid().is_root();
        if !root {
            println!("left out: not root");
        }
        root
    }

    fn owner_of(path: &Path) -> Owner {
        let about = std::fs::symlink_metadata(path).unwrap();
        Owner { uid: about.uid(), gid: about.gid() }
    }

    #[test]
    fn what_root_makes_for_another_user_is_that_ones_from_the_start() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let own = folder.path().join("own");
        let shelf = Shelf::open(&own, SOMEBODY).unwrap();
        assert!(!shelf.was_given(), "it was nobody's before");
        shelf.create_whole("table", 4096).unwrap();
        for made in [own.clone(), own.join("table")] {
            assert_eq!(owner_of(&made), SOMEBODY, "{}", made.display());
        }
        drop(shelf);
        let again = Shelf::open(&own, SOMEBODY).unwrap();
        assert!(matches!(again.find("table", 4096), Ok(Found::File(_))));
        // Root's, in a folder that is not root's alone: whoever has the folder may have put it there.
        std::fs::write(own.join("put"), "root's").unwrap();
        let told = sentence(again.find("put", 6), &folder);
        assert_eq!(told, "…/own/put belongs to user 0, and the daemon is user 4711");
        drop(again);
        let told = sentence(Shelf::open(&own, Owner::present()), &folder);
        assert_eq!(told, "…/own belongs to user 4711, and the daemon is user 0");
    }

    #[test]
    fn what_root_had_is_given_to_the_user_and_a_start_that_was_cut_short_is_gone_on_with() {
        if !is_root() {
            return;
        }
        let (folder, shelf) = shelf();
        let own = folder.path().join("own");
        for name in ["given", "twice", "table"] {
            shelf.create(name, 4096).unwrap();
        }
        std::fs::hard_link(own.join("twice"), folder.path().join("elsewhere")).unwrap();
        symlink("/etc/passwd", own.join("link")).unwrap();
        // The one before got as far as the first file.
        std::os::unix::fs::chown(own.join("given"), Some(4711), Some(4712)).unwrap();
        let told = sentence(Shelf::open(&own, SOMEBODY), &folder);
        assert_eq!(told, "…/own is in use by another daemon");
        assert_eq!(owner_of(&own).uid, 0, "nothing is given away under a daemon");
        drop(shelf);
        let taken = Shelf::open(&own, SOMEBODY).unwrap();
        assert!(taken.was_given());
        for given in [own.clone(), own.join("given"), own.join("table")] {
            assert_eq!(owner_of(&given), SOMEBODY, "{}", given.display());
        }
        assert!(matches!(taken.find("table", 4096), Ok(Found::File(_))));
        assert_eq!(owner_of(&own.join("twice")).uid, 0, "it is somebody else's too");
        assert_eq!(owner_of(Path::new("/etc/passwd")).uid, 0);
        // A file that was made and not given yet.
        std::fs::write(own.join("empty"), "").unwrap();
        assert!(matches!(taken.find("empty", 4096), Ok(Found::OtherLength(0))));
        drop(taken);
        assert!(!Shelf::open(&own, SOMEBODY).unwrap().was_given());
    }

    #[test]
    fn mounts_of_huge_pages_are_found_among_the_others() {
        let mounts = "\
proc /proc proc rw,nosuid 0 0
hugetlbfs /dev/hugepages hugetlbfs rw,nosuid,nodev,relatime,pagesize=2M 0 0
tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0
nodev /mnt/huge1G hugetlbfs rw,relatime,pagesize=1024M 0 0
nodev /mnt/with\\040space hugetlbfs rw 0 0
";
        let found: Vec<PathBuf> = huge_paths(mounts).collect();
        assert_eq!(found, [Path::new("/dev/hugepages"), Path::new("/mnt/huge1G")]);
    }
}
