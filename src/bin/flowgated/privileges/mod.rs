//! What the daemon may do, and how it comes to may no more than that.
//!
//! It starts with many rights: it opens ports, makes taps, changes what the kernel does with our packets. Afterwards it needs
//! few. What is given up is so in this order, and each step has its reason to be where it is:
//!
//! 1. [`Privileges::begin`], before there is a second thread, so that all have it from their birth: nothing that is ever
//!    executed has any rights (the bounding, the inheritable and the ambient set are emptied, `no_new_privs`), and no
//!    file that is made is for others (the umask). The user is looked up, as a name that is not
//!    there is a reason not to start at all.
//! 2. The start itself, as before. DPDK's thread for interrupts is made meanwhile.
//! 3. [`Privileges::give_up`], when everything is open and no thread of ours runs yet:
//!    1. The state directory and what else is written to is given to the user, or back to root: only root may.
//!    2. Groups, group, user, for all threads. The kernel takes all capabilities from each thread but this one,
//!       which asked to keep its own (`SECBIT_KEEP_CAPS` is a thread's).
//!    3. This thread is left [`KEPT`] capabilities, which it could not give up before 2.
//!    4. The control core's seccomp filter is put over all threads, DPDK's included (`TSYNC`); it would forbid
//!       2. Filters can only be put over a thread whose own, if any, are part of them, so this comes before:
//!    5. DPDK's own thread gives up what it has left and takes its own filter.
//! 4. Each thread that is started from now on has at first what this one has, and leaves itself
//!    less before it does anything (`flowgate::io::confine::enter`).
//!
//! When the daemon stops, the kernel's settings are put back with what is left: `CAP_NET_ADMIN` is the key to `/proc/sys/net`.

mod ownership;

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use flowgate::control::node::{NodeConfig, Privileges as Settings, Seccomp};
use flowgate::io::confine::{self, Filters, Forbidden, ThreadKind};
use flowgate::io::owner::Owner;
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{
    AccessFlags, Gid, Uid, User, access, geteuid, getgrouplist, setgroups, setresgid, setresuid,
};

use super::Refusal;
use super::devices::Devices;
use ownership::GiveError;

/// The user that the daemon will be.
struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    /// Its groups, its own among them.
    groups: Vec<Gid>,
}

/// What the daemon will be once it has started.
pub struct Privileges {
    /// `None`: whoever it was started as.
    account: Option<Account>,
    seccomp: Seccomp,
}

/// What only the control core does, and with which right. Each capability that is added here has its line in
/// `docs/privileges.md`.
const KEPT: [Capability; 1] = [
    // Questions to the kernel's neighbour table (RTM_NEWNEIGH), and its settings put back at the end (/proc/sys/net).
    Capability::CAP_NET_ADMIN,
];

impl Privileges {
    /// The first step: see the module.
    ///
    /// # Errors
    /// If there is no such user, or we cannot become it.
    pub fn begin(config: &NodeConfig) -> Result<Privileges, Refusal> {
        let account = account(&config.privileges)?;
        umask(Mode::from_bits_truncate(0o027));
        nix::sys::prctl::set_no_new_privs()?;
        // Without CAP_SETPCAP, as in a container, the bounding set stays; with `no_new_privs` nothing comes of it.
        if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
            for capability in caps::runtime::thread_all_supported() {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
        caps::clear(None, CapSet::Ambient)?;
        caps::clear(None, CapSet::Inheritable)?;
        Ok(Privileges { account, seccomp: config.privileges.seccomp })
    }

    /// Whose the socket will be.
    pub fn owner(&self) -> Option<Owner> {
        self.account.as_ref().map(Account::owner)
    }

    /// Gives up what is not needed any more: see the module. The configuration came from `file`.
    ///
    /// # Errors
    /// If anything of it fails: the daemon should end then.
    pub fn give_up(self, config: &NodeConfig, file: &Path, devices: &Devices) -> Result<(), Refusal> {
        if geteuid().is_root() {
            // Memory that DPDK asks for later is locked without CAP_IPC_LOCK.
            if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
                tracing::debug!(name: "memory_lock_limit", %error, "the limit of locked memory could not be raised");
            }
        }
        if geteuid().is_root() {
            self.give_what_is_written_to(config)?;
        }
        if let Some(account) = &self.account {
            account.become_it()?;
        }
        confine::keep_capabilities(&KEPT)?;
        let filters = self.filters(devices)?;
        confine::put_in_force(filters)?;
        if let Some(eal) = &devices.eal {
            eal.on_its_own_thread(|| confine::enter(ThreadKind::Dpdk))??;
        }
        let user = self.account.as_ref().map_or_else(present_user, |account| account.name.clone());
        warn_of_what_is_closed(config, file, &user);
        let others =
            threads_with_rights(Path::new("/proc/thread-self/status"), Path::new("/proc/self/task"))?;
        if !others.is_empty() {
            tracing::warn!(
                name: "threads_keep_rights", threads = others.join(","),
                "threads that a driver has started keep the capabilities of the start; have the daemon become a user"
            );
        }
        let capabilities = caps::read(None, CapSet::Effective)?;
        let mut names: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        tracing::info!(
            name: "privileges_given_up", user, capabilities = names.join(","), seccomp = word(self.seccomp),
            "the daemon has given up what it needed for its start"
        );
        Ok(())
    }

    /// To root too, which loses the right to what is another user's: it may have been that user before.
    fn give_what_is_written_to(&self, config: &NodeConfig) -> Result<(), GiveError> {
        let stays_root = self.account.is_none();
        let owner = self.owner().unwrap_or_else(Owner::present);
        match ownership::give(config, owner) {
            // Root's files may lie among others': what it cannot use is told by `warn_of_what_is_closed`.
            Err(GiveError::Shared { .. }) if stays_root => Ok(()),
            given => given,
        }
    }

    fn filters(&self, devices: &Devices) -> Result<Option<Filters>, Refusal> {
        let forbidden = match self.seccomp {
            Seccomp::Enforce => Forbidden::Kills,
            Seccomp::Log => Forbidden::IsLogged,
            Seccomp::Off => return Ok(None),
        };
        let drivers: Vec<&str> = devices.ports.iter().map(flowgate::io::dpdk::Port::driver).collect();
        Ok(Some(Filters::compile(&drivers, forbidden)?))
    }
}

impl Account {
    fn owner(&self) -> Owner {
        Owner { uid: self.uid.as_raw(), gid: self.gid.as_raw() }
    }

    /// For every thread of the process; this one keeps its capabilities.
    fn become_it(&self) -> Result<(), Refusal> {
        let failed = |what: &'static str| {
            let name = self.name.clone();
            move |error: &dyn std::fmt::Display| {
                format!("the daemon cannot become the user {name}: {what}: {error}")
            }
        };
        caps::securebits::set_keepcaps(true).map_err(|error| failed("keeping capabilities")(&error))?;
        // The kernel forgets it when the user changes: whoever started us to end with it still relies on it.
        let with_parent = nix::sys::prctl::get_pdeathsig().unwrap_or(None);
        setgroups(&self.groups).map_err(|error| failed("its groups")(&error))?;
        setresgid(self.gid, self.gid, self.gid).map_err(|error| failed("its group")(&error))?;
        setresuid(self.uid, self.uid, self.uid).map_err(|error| failed("its number")(&error))?;
        caps::securebits::set_keepcaps(false).map_err(|error| failed("keeping no capabilities")(&error))?;
        Ok(nix::sys::prctl::set_pdeathsig(with_parent)?)
    }
}

/// One thing that was found.
pub struct Finding {
    /// It is less than it could be.
    pub is_fault: bool,
    /// What it is.
    pub text: String,
}

/// Who the daemon will be; `None`: who it is.
fn account(settings: &Settings) -> Result<Option<Account>, Refusal> {
    let wanted = settings.user.as_deref();
    if !geteuid().is_root() {
        let present = present_user();
        return match wanted {
            Some(wanted) if wanted != present => Err(format!(
                "privileges.user is \"{wanted}\", and the daemon was started as {present}, who cannot become another user: start it \
                 as root, or leave the key out"
            )
            .into()),
            _ => Ok(None),
        };
    }
    let name = match wanted {
        Some("root") => return Ok(None),
        Some(name) => name,
        None => Settings::DEFAULT_USER,
    };
    match (User::from_name(name)?, wanted) {
        // Another name of root's.
        (Some(user), _) if user.uid.is_root() => Ok(None),
        (Some(user), _) => {
            let groups = getgrouplist(&CString::new(name)?, user.gid)?;
            Ok(Some(Account { name: user.name, uid: user.uid, gid: user.gid, groups }))
        }
        (None, None) => Ok(None),
        (None, Some(name)) => Err(format!(
            "privileges.user: there is no user \"{name}\" on this system: make it (useradd --system --no-create-home {name}), \
             or name another"
        )
        .into()),
    }
}

/// The name of whoever the daemon runs as, or the number if there is no name.
fn present_user() -> String {
    let uid = geteuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

fn word(seccomp: Seccomp) -> &'static str {
    match seccomp {
        Seccomp::Enforce => "enforce",
        Seccomp::Log => "log",
        Seccomp::Off => "off",
    }
}

/// What the daemon will be, for `--check` and the start's log.
///
/// # Errors
/// As [`Privileges::begin`], and if the state directory cannot be the user's.
pub fn survey(config: &NodeConfig) -> Result<Vec<Finding>, Refusal> {
    let settings = &config.privileges;
    let mut findings = Vec::new();
    let mut find = |is_fault, text| findings.push(Finding { is_fault, text });
    match account(settings)? {
        Some(Account { name, uid, .. }) => {
            find(false, format!("once started, the daemon becomes the user {name} ({uid})"));
            ownership::check_state_directory(config)?;
        }
        None if geteuid().is_root() && settings.user.is_none() => find(
            true,
            format!(
                "there is no user {0}, so the daemon stays root, without root's capabilities; make it (useradd --system \
                 --no-create-home {0}), or set privileges.user",
                Settings::DEFAULT_USER
            ),
        ),
        None => find(false, format!("the daemon stays the user {}", present_user())),
    }
    if settings.seccomp != Seccomp::Enforce {
        let text = format!(
            "privileges.seccomp is \"{}\": no call of the kernel is forbidden",
            word(settings.seccomp)
        );
        find(true, text);
    }
    Ok(findings)
}

/// Says of each file that is read or written later, and was opened as root so far, that the user cannot.
fn warn_of_what_is_closed(config: &NodeConfig, file: &Path, user: &str) {
    for (path, right) in used_later(config, file) {
        // What is not there is another matter, and told when it is looked for.
        if !path.exists() && access(&path, AccessFlags::F_OK) == Err(nix::Error::ENOENT) {
            continue;
        }
        let (flags, what) = match right {
            Right::Read => (AccessFlags::R_OK, "read"),
            Right::Enter => (AccessFlags::X_OK, "look into"),
            Right::Write => (AccessFlags::W_OK | AccessFlags::X_OK, "write to"),
        };
        if let Err(error) = access(&path, flags) {
            tracing::warn!(
                name: "path_closed", path = %path.display(), user, needs = what, error = %io::Error::from(error),
                "the daemon's user cannot use a path of its configuration; give it the right to it"
            );
        }
    }
}

/// The names of the threads but the one with this status that have a capability.
fn threads_with_rights(own: &Path, tasks: &Path) -> io::Result<Vec<String>> {
    let own = fs::read_to_string(own)?;
    let field = |status: &str, key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key));
        value.unwrap_or_default().trim_matches([':', '\t', ' ']).to_owned()
    };
    let mut names = Vec::new();
    for task in fs::read_dir(tasks)? {
        // One that has ended meanwhile has nothing.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        let has_some = field(&status, "CapPrm").bytes().any(|digit| digit != b'0');
        if has_some && field(&status, "Pid") != field(&own, "Pid") {
            names.push(field(&status, "Name"));
        }
    }
    Ok(names)
}

enum Right {
    Read,
    Enter,
    Write,
}

fn used_later(config: &NodeConfig, file: &Path) -> Vec<(PathBuf, Right)> {
    let mut paths = vec![(file.to_owned(), Right::Read)];
    paths.push((config.state_directory.clone(), Right::Write));
    paths.push((config.flow_log.folder(&config.state_directory), Right::Write));
    if let Some(elbv2) = &config.elbv2 {
        paths.extend(elbv2.credentials.iter().map(|path| (path.clone(), Right::Read)));
        if let Some(tls) = &elbv2.tls {
            paths.extend([&tls.certificate, &tls.key].map(|path| (path.clone(), Right::Read)));
        }
    }
    let folder = config.monitor.not_ready_file.as_deref().and_then(Path::parent);
    paths.extend(folder.map(|folder| (folder.to_owned(), Right::Enter)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_that_has_a_capability_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = folder.path();
        for (number, name, has) in
            [(7, "flowgated", "1000"), (8, "eal-intr-thread", "0000"), (9, "vhost", "3000")]
        {
            fs::create_dir(tasks.join(number.to_string())).unwrap();
            let status = format!("Name:\t{name}\nPid:\t{number}\nPPid:\t1\nCapInh:\t1111\nCapPrm:\t{has}\n");
            fs::write(tasks.join(number.to_string()).join("status"), status).unwrap();
        }
        assert_eq!(threads_with_rights(&tasks.join("7/status"), tasks).unwrap(), ["vhost"]);
    }
}
