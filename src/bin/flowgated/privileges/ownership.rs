//! What the daemon's user must be able to write to is made that user's, as only root can.
//!
//! Who has the folder could, as that user, put something into it in order to be given it at the next start: a link to a file
//! of root's. So symbolic links are not followed, files are looked at and given by one handle, and one that has a name
//! elsewhere stays whose it is.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flowgate::control::node::NodeConfig;
use flowgate::control::store;
use flowgate::io::owner::Owner;
use nix::fcntl::AtFlags;
use nix::unistd::fchownat;

/// Why something could not be given.
#[derive(Debug, thiserror::Error)]
pub enum GiveError {
    /// The folder is not the daemon's alone.
    #[error(
        "{}: {why}, so it is not given to the daemon's user; give the daemon a state_directory of its own",
        folder.display()
    )]
    Shared {
        /// The state directory.
        folder: PathBuf,
        /// What speaks against it.
        why: String,
    },
    /// The system said no.
    #[error("{}: cannot be given to the daemon's user: {source}", path.display())]
    Io {
        /// What was to be given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Folders below the state directory that speak for nothing: ours, and a file system's own.
const KNOWN_FOLDERS: [&str; 3] = [store::HISTORY, store::FLOW_LOGS, "lost+found"];

/// How deep what is ours lies in the state directory, where the configuration has nothing there: `history/…`.
const DEPTH: usize = 2;

/// Gives `owner` the state directory with what is ours in it, and the folder of flow logs where there is none yet.
pub fn give(config: &NodeConfig, owner: Owner) -> Result<(), GiveError> {
    let state = &config.state_directory;
    check_state_directory(config)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| GiveError::Io { path, source }
    };
    let records = config.flow_log.directory.as_deref();
    let below = records.and_then(|records| records.strip_prefix(state).ok());
    let depth = below.map_or(0, |below| below.components().count() + 1).max(DEPTH);
    if give_folder(state, owner, depth).map_err(failed(state))? {
        tracing::info!(
            name: "state_given", folder = %state.display(), to = owner.uid,
            "the state directory and what is in it is given to the daemon's user"
        );
    }
    match records {
        // In its own folder the user makes it itself when it is needed, and links lead it where it may go anyway.
        Some(records) if below.is_none() => make_folder(records, owner).map_err(failed(records)),
        _ => Ok(()),
    }
}

/// Makes a folder for `owner`, if there is nothing of this name.
fn make_folder(path: &Path, owner: Owner) -> io::Result<()> {
    match DirBuilder::new().mode(0o750).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(io::Error::new(
                error.kind(),
                "the folder that it is to be made in is not there; make it",
            ));
        }
        made => made?,
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (uid, gid) = owner.ids();
    Ok(fchownat(&folder, "", uid, gid, AtFlags::AT_EMPTY_PATH)?)
}

/// The folders that paths of the configuration lead through right below the state directory.
fn configured_folders(config: &NodeConfig) -> Vec<&OsStr> {
    let tls = config.elbv2.as_ref().and_then(|elbv2| elbv2.tls.as_ref());
    let files = [
        config.objects.as_deref(),
        config.hash_seed_file.as_deref(),
        config.monitor.not_ready_file.as_deref(),
        config.elbv2.as_ref().and_then(|elbv2| elbv2.credentials.as_deref()),
        tls.map(|tls| tls.certificate.as_path()),
        tls.map(|tls| tls.key.as_path()),
        Some(config.socket.path.as_path()),
    ];
    let folders = [config.flow_log.directory.as_deref(), config.tables.directory.as_deref()];
    let folders = folders.into_iter().flatten().chain(files.into_iter().flatten().filter_map(Path::parent));
    let below = folders.filter_map(|folder| folder.strip_prefix(&config.state_directory).ok());
    below.filter_map(|below| below.iter().next()).collect()
}

/// That the state directory, if it is there, is the daemon's alone.
///
/// # Errors
/// `Shared`, or `Io` if it cannot be looked into.
pub fn check_state_directory(config: &NodeConfig) -> Result<(), GiveError> {
    check_folder(&config.state_directory, &configured_folders(config))
}

fn check_folder(folder: &Path, configured: &[&OsStr]) -> Result<(), GiveError> {
    let failed = |source| GiveError::Io { path: folder.to_owned(), source };
    let found = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    let shared = |why: String| GiveError::Shared { folder: folder.to_owned(), why };
    if found.mode() & 0o002 != 0 {
        return Err(shared("everybody may write to this folder".to_owned()));
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        let is_known = KNOWN_FOLDERS.iter().any(|known| name == *known) || configured.contains(&&*name);
        if is_folder && !is_known {
            return Err(shared(format!("there is the folder '{}' in it", name.display())));
        }
    }
    Ok(())
}

/// A file or folder, held by a handle of its own.
struct Found {
    handle: File,
    about: Metadata,
}

/// Gives `owner` a folder and what is in it, and closes it to others; whether anything was somebody else's.
fn give_folder(path: &Path, owner: Owner, depth: usize) -> io::Result<bool> {
    let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut about = folder.metadata()?;
    let mode = about.mode() & 0o7777;
    if mode & !0o750 != 0 {
        let present = Owner::present();
        if about.uid() != present.uid {
            // Only whose it is may do the next; the unit leaves root no right to do it with another's.
            let (uid, gid) = present.ids();
            fchownat(&folder, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
        }
        folder.set_permissions(Permissions::from_mode(mode & 0o750))?;
        about = folder.metadata()?;
    }
    let mut found = Vec::new();
    look_into(&folder, depth, &mut found)?;
    found.push(Found { handle: folder, about });
    let mut names: HashMap<(u64, u64), u64> = HashMap::new();
    for Found { about, .. } in &found {
        *names.entry((about.dev(), about.ino())).or_default() += 1;
    }
    let mut given = false;
    let others =
        found.iter().filter(|found| (found.about.uid(), found.about.gid()) != (owner.uid, owner.gid));
    for Found { handle, about } in others {
        let seen = names.get(&(about.dev(), about.ino())).copied().unwrap_or_default();
        if about.is_file() && about.nlink() > seen {
            tracing::warn!(
                name: "file_not_given", folder = %path.display(), inode = about.ino(),
                "a file of the state directory has a name elsewhere too, and is not given to the daemon's user"
            );
            continue;
        }
        let (uid, gid) = owner.ids();
        fchownat(handle, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
        given = true;
    }
    Ok(given)
}

/// Finds what is ours below a folder; nothing that is not a file or a folder is.
fn look_into(folder: &File, depth: usize, found: &mut Vec<Found>) -> io::Result<()> {
    // By the handle and not by the name, which may be another's by now.
    let here = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    for entry in fs::read_dir(&here)? {
        let name = entry?.file_name();
        if name == "lost+found" {
            continue;
        }
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let handle = OpenOptions::new().read(true).custom_flags(flags).open(here.join(name))?;
        let about = handle.metadata()?;
        if about.is_dir() && depth > 1 {
            look_into(&handle, depth - 1, found)?;
        }
        if about.is_dir() || about.is_file() {
            found.push(Found { handle, about });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OWNER: Owner = Owner { uid: 70, gid: 80 };

    fn owner_of(path: &Path) -> (u32, u32) {
        let about = fs::symlink_metadata(path).unwrap();
        (about.uid(), about.gid())
    }

    /// Files can be given by root alone.
    fn is_root() -> bool {
        let root = nix::unistd::geteuid().is_root();
        if !root {
            // What tests everything is root there.
            assert!(std::env::var_os("CI").is_none(), "these tests need root");
            println!("left out: not root");
        }
        root
    }

    #[test]
    fn the_state_is_given_with_all_that_is_ours_and_closed_to_others() {
        if !is_root() {
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let state = outside.path().join("state");
        fs::create_dir_all(state.join("history")).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
        fs::write(state.join("objects.json"), "").unwrap();
        // As a crash may leave it: the present state is in the history already.
        fs::hard_link(state.join("objects.json"), state.join("history/7.json")).unwrap();
        check_folder(&state, &[]).unwrap();
        assert!(give_folder(&state, OWNER, DEPTH).unwrap());
        assert!(!give_folder(&state, OWNER, DEPTH).unwrap(), "nothing is left to give");
        for given in ["", "objects.json", "history", "history/7.json"] {
            assert_eq!(owner_of(&state.join(given)), (70, 80), "{given}");
        }
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o750);
    }

    #[test]
    fn what_somebody_put_there_to_be_given_it_stays_whose_it_is() {
        if !is_root() {
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let precious = outside.path().join("shadow");
        fs::write(&precious, "").unwrap();
        let elsewhere = outside.path().join("etc");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("passwd"), "").unwrap();
        let state = outside.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::hard_link(&precious, state.join("hash-seed")).unwrap();
        symlink(&precious, state.join("failovers.json")).unwrap();
        symlink(&elsewhere, state.join("history")).unwrap();
        give_folder(&state, OWNER, DEPTH).unwrap();
        for kept in [&precious, &elsewhere, &elsewhere.join("passwd")] {
            assert_eq!(owner_of(kept), (0, 0), "{}", kept.display());
        }
        assert_eq!(owner_of(&state), (70, 80));
    }

    #[test]
    fn a_folder_that_others_use_is_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        check_folder(&state.join("not-there"), &[]).unwrap();
        fs::create_dir(state.join("lost+found")).unwrap();
        fs::write(state.join("objects.json.bak"), "").unwrap();
        check_folder(state, &[]).unwrap();
        fs::create_dir(state.join("apt")).unwrap();
        let refusal = check_folder(state, &[]).unwrap_err().to_string();
        assert!(refusal.contains("there is the folder 'apt' in it, so it is not given"), "{refusal}");
        check_folder(state, &[OsStr::new("apt")]).unwrap();
        fs::remove_dir(state.join("apt")).unwrap();
        fs::set_permissions(state, Permissions::from_mode(0o1777)).unwrap();
        let refusal = check_folder(state, &[]).unwrap_err().to_string();
        assert!(refusal.contains("everybody may write to this folder"), "{refusal}");
    }

    /// A configuration that has its flow log in a folder, and nothing else of interest.
    fn config(state: &Path, records: &Path) -> NodeConfig {
        let text = format!(
            "state_directory = \"{}\"\n[flow_log]\ndirectory = \"{}\"\n",
            state.display(),
            records.display()
        );
        NodeConfig::parse(&text).unwrap()
    }

    #[test]
    fn records_below_the_state_are_made_by_the_user_and_given_from_before_it() {
        if !is_root() {
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let state = outside.path().join("state");
        fs::create_dir(&state).unwrap();
        let records = state.join("records/flows");
        let config = config(&state, &records);
        give(&config, OWNER).unwrap();
        assert!(!records.exists(), "the user makes it");
        // As a daemon has left it that was root.
        fs::create_dir_all(&records).unwrap();
        fs::write(records.join("flows.jsonl"), "").unwrap();
        give(&config, OWNER).unwrap();
        for given in ["records", "records/flows", "records/flows/flows.jsonl"] {
            assert_eq!(owner_of(&state.join(given)), (70, 80), "{given}");
        }
    }

    #[test]
    fn a_folder_of_records_elsewhere_is_made_anew_or_left_whose_it_is() {
        if !is_root() {
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let state = outside.path().join("state");
        fs::create_dir(&state).unwrap();
        let [new, precious, link, loose] =
            ["new", "precious", "link", "loose"].map(|name| outside.path().join(name));
        fs::create_dir(&precious).unwrap();
        symlink(&precious, &link).unwrap();
        symlink(outside.path().join("made-by-root"), &loose).unwrap();
        for records in [&new, &precious, &link, &loose] {
            give(&config(&state, records), OWNER).unwrap();
        }
        assert_eq!(owner_of(&new), (70, 80));
        assert_eq!(owner_of(&precious), (0, 0));
        assert!(!outside.path().join("made-by-root").exists());
        let refusal =
            give(&config(&state, &outside.path().join("no/records")), OWNER).unwrap_err().to_string();
        assert!(refusal.contains("is not there; make it"), "{refusal}");
    }

    // As in the packaged unit, which has no CAP_FOWNER.
    #[test]
    fn a_folder_of_the_users_is_closed_to_others_without_a_right_to_anybodys_files() {
        if !is_root() {
            return;
        }
        let outside = tempfile::tempdir().unwrap();
        let state = outside.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
        give_folder(&state, OWNER, DEPTH).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
        // Of this thread alone.
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_FOWNER).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(0o700)).expect_err("it is another's");
        give_folder(&state, OWNER, DEPTH).unwrap();
        assert_eq!(owner_of(&state), (70, 80));
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o750);
    }
}
