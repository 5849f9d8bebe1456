//! The socket's file: made so that it appears whole, belongs to one daemon, and goes with it.
//!
//! Called once when the daemon starts, before anything that is hard to undo. Promises that a daemon that lives is never
//! pushed off its socket, that the file of one that died is replaced, that nobody can connect before mode and
//! group are set, and that of two daemons starting at once one gets the socket and the other a sentence.

#![forbid(unsafe_code)]

use super::role::Admins;
use crate::io::owner::Owner;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::{Group, geteuid};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another daemon's start on the same folder is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no socket. Each is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody answers there.
    #[error("another daemon is serving {0}: stop it, or give this one another socket path")]
    InUse(PathBuf),
    /// There is something there, and it is not ours to remove.
    #[error("{0} exists and is not a socket: remove it, or give another socket path")]
    NotASocket(PathBuf),
    /// The name of a group that this system does not have.
    #[error(
        "there is no group \"{0}\" on this system: make it (groupadd {0}), or name another for the socket"
    )]
    NoSuchGroup(String),
    /// The system said no.
    #[error("the control socket {path} cannot be made: {step}: {source}")]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What came of it.
        source: io::Error,
    },
}

/// A socket that listens at its path. Dropping it removes the file.
#[derive(Debug)]
pub struct ControlListener {
    listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    admins: Admins,
}

impl ControlListener {
    /// Listens at `path`, with the permissions `mode` and the group `group` if one is named. The folder is
    /// made if only its last part is missing, and then open to whom the socket is.
    ///
    /// # Errors
    /// [`BindError`]; nothing is left behind then.
    pub fn bind(path: &Path, group: Option<&str>, mode: u32) -> Result<Self, BindError> {
        ControlListener::bind_for(path, group, mode, None)
    }

    /// The same for a daemon that will be another user: socket and folder, if it is made, are that one's.
    ///
    /// # Errors
    /// As [`bind`](ControlListener::bind).
    pub fn bind_for(
        path: &Path,
        group: Option<&str>,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<Self, BindError> {
        let failed = |step| move |source| BindError::Io { path: path.to_owned(), step, source };
        let group = group.map(find_group).transpose().map_err(|error| match error {
            GroupError::Unknown(name) => BindError::NoSuchGroup(name),
            GroupError::Io(source) => failed("looking up the group")(source),
        })?;
        let uid = owner.map(|owner| owner.uid);
        let group = group.or(owner.map(|owner| owner.gid));
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.exists() {
            fs::create_dir(folder).map_err(failed("making its folder"))?;
            let open_to = if mode & 0o007 == 0 { 0o750 } else { 0o755 };
            fs::set_permissions(folder, Permissions::from_mode(open_to))
                .and_then(|()| chown(folder, uid, group))
                .map_err(failed("opening its folder"))?;
        }
        // Held from the look at what is there until our own file is in place.
        let _lock = lock(folder).map_err(failed("locking its folder"))?;
        check_free(path)?;
        // Made under another name, so that the path itself never leads to a socket whose mode is not
        // set yet, and a dead daemon's file is replaced in one step.
        let draft = draft_path(path);
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing an old draft of it")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&draft).map_err(failed("binding"))?;
        let placed = (|| {
            // By a handle: in a folder of the daemon's user the name may lead elsewhere by now.
            let flags = libc::O_PATH | libc::O_NOFOLLOW;
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&draft);
            let file = file.map_err(failed("looking at it"))?;
            let made = file.metadata().map_err(failed("looking at it"))?;
            if !made.file_type().is_socket() {
                return Err(BindError::NotASocket(draft.clone()));
            }
            let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
            // The mode first: without CAP_FOWNER it is nobody's to set any more once the file is another's.
            fs::set_permissions(&handle, Permissions::from_mode(mode)).map_err(failed("setting its mode"))?;
            chown(&handle, uid, group).map_err(failed("giving it to its user and group"))?;
            listener.set_nonblocking(true).map_err(failed("making it non-blocking"))?;
            let made = file.metadata().map_err(failed("looking at it"))?;
            fs::rename(&draft, path).map_err(failed("putting it in its place"))?;
            Ok(made)
        })();
        match placed {
            Ok(made) => Ok(ControlListener {
                listener,
                path: path.to_owned(),
                identity: (made.dev(), made.ino()),
                admins: Admins { uid: uid.unwrap_or_else(|| geteuid().as_raw()), gid: made.gid() },
            }),
            Err(error) => {
                // The first error is the one to tell.
                fs::remove_file(&draft).ok();
                Err(error)
            }
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who may change things by it, besides root.
    pub(super) fn admins(&self) -> Admins {
        self.admins
    }

    /// The socket, for the runtime.
    pub(super) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.listener.try_clone()?)
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if ours {
            // On the way out there is nobody left to tell; the next start replaces the file.
            fs::remove_file(&self.path).ok();
        }
    }
}

enum GroupError {
    Unknown(String),
    Io(io::Error),
}

fn find_group(name: &str) -> Result<u32, GroupError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(GroupError::Unknown(name.to_owned())),
        Err(error) => Err(GroupError::Io(error.into())),
    }
}

/// The hidden name beside `path` under which the socket is made.
fn draft_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// An exclusive lock on `folder` itself, so that no lock file is left lying about.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() > PATIENCE => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another program holds it"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Whether `path` is free, or holds the socket of a daemon that is gone.
fn check_free(path: &Path) -> Result<(), BindError> {
    let failed = |step| move |source| BindError::Io { path: path.to_owned(), step, source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("looking at what is there")(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    // Non-blocking, as a daemon whose queue of connections is full would make us wait for ever.
    let ask = || {
        let address = UnixAddr::new(path)?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &address)
    };
    match ask() {
        Err(nix::Error::ECONNREFUSED | nix::Error::ENOENT) => Ok(()),
        Ok(()) | Err(nix::Error::EAGAIN | nix::Error::EPROTOTYPE) => Err(BindError::InUse(path.to_owned())),
        Err(error) => Err(failed("asking whether the one there is alive")(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_socket_has_the_mode_that_it_was_to_have_and_goes_with_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/s.sock");
        for mode in [0o600, 0o666] {
            let _listener = ControlListener::bind(&path, None, mode).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
        let listener = ControlListener::bind(&path, None, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o660);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o750);
        assert_eq!(names(path.parent().unwrap()), ["s.sock"]);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(names(path.parent().unwrap()).is_empty());
    }

    #[test]
    fn whoever_may_connect_finds_the_socket_in_the_folder_that_is_made_and_nobody_else_looks_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let mode_for = |mode: u32| {
            let path = folder.path().join(format!("{mode:o}/s.sock"));
            let _listener = ControlListener::bind(&path, None, mode).unwrap();
            fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777
        };
        assert_eq!([0o600, 0o660, 0o666].map(mode_for), [0o750, 0o750, 0o755]);
    }

    #[test]
    fn a_daemon_that_will_be_another_user_has_socket_and_folder_of_that_users() {
        if !geteuid().is_root() {
            println!("left out: not root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/s.sock");
        let owner = Owner { uid: 70, gid: 80 };
        let listener = ControlListener::bind_for(&path, None, 0o660, Some(owner)).unwrap();
        for made in [&path, path.parent().unwrap()] {
            let found = fs::metadata(made).unwrap();
            assert_eq!((found.uid(), found.gid()), (70, 80), "{}", made.display());
        }
        assert_eq!((listener.admins().uid, listener.admins().gid), (70, 80));
    }

    #[test]
    fn a_living_daemon_keeps_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let first = ControlListener::bind(&path, None, 0o660).unwrap();
        let error = ControlListener::bind(&path, None, 0o660).unwrap_err();
        assert!(matches!(error, BindError::InUse(_)), "{error}");
        assert!(error.to_string().contains("stop it, or give this one another socket path"));
        UnixStream::connect(&path).unwrap();
        drop(first);
    }

    #[test]
    fn a_daemon_that_answers_nobody_still_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let _first = ControlListener::bind(&path, None, 0o660).unwrap();
        // Fill its queue of connections, which nobody accepts.
        let ask = || {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
            connect(fd.as_raw_fd(), &UnixAddr::new(&path).unwrap()).map(|()| fd)
        };
        let mut held = Vec::new();
        let full = loop {
            match ask() {
                Ok(fd) if held.len() < 10_000 => held.push(fd),
                outcome => break outcome,
            }
        };
        assert_eq!(full.unwrap_err(), nix::Error::EAGAIN);
        assert!(matches!(ControlListener::bind(&path, None, 0o660), Err(BindError::InUse(_))));
    }

    #[test]
    fn the_file_of_a_dead_daemon_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        // std leaves the file behind, as a killed daemon does.
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err());
        let _listener = ControlListener::bind(&path, None, 0o660).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_draft_that_a_killed_daemon_left_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        drop(UnixListener::bind(draft_path(&path)).unwrap());
        let _listener = ControlListener::bind(&path, None, 0o660).unwrap();
        assert_eq!(names(folder.path()), ["s.sock"]);
    }

    #[test]
    fn what_is_not_a_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(matches!(ControlListener::bind(&path, None, 0o660), Err(BindError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        assert_eq!(names(folder.path()), ["precious"]);
    }

    #[test]
    fn a_group_that_does_not_exist_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error =
            ControlListener::bind(&folder.path().join("s"), Some("no-such-group"), 0o660).unwrap_err();
        assert!(error.to_string().starts_with("there is no group \"no-such-group\" on this system: make it"));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let error = ControlListener::bind(&folder.path().join("x".repeat(120)), None, 0o660).unwrap_err();
        assert!(matches!(error, BindError::Io { .. }), "{error}");
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn the_successors_socket_is_not_removed_by_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let first = ControlListener::bind(&path, None, 0o660).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = ControlListener::bind(&path, None, 0o660).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
    }
}
