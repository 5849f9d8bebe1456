//! Which calls of the kernel each kind of thread may make, as lists: the policy that `docs/privileges.md` shows as
//! a table. What is not in a thread's list ends the process.
//!
//! The control core's list is the whole process's, and contains the others: every thread is under it, a
//! thread of its own kind under its own list besides.

use std::collections::BTreeMap;

use libc::c_long;

use super::ThreadKind;

/// What a call's arguments must be; all conditions of one alternative.
pub(super) type Alternative = Vec<Condition>;

/// One condition on an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The argument of this number is this.
    Is(u8, u64),
    /// These bits of it are these.
    Bits(u8, u64, u64),
    /// It is not this.
    IsNot(u8, u64),
}

use Condition::{Bits, Is, IsNot};

/// Calls by number, each with its name and the alternatives for its arguments; none: whatever they are.
pub(super) type Calls = BTreeMap<c_long, Allowed>;

/// A call that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub name: &'static str,
    pub alternatives: Vec<Alternative>,
}

/// A call, with the name that people know it by.
type Named = (&'static str, c_long);

macro_rules! named {
    (@ $call:ident) => { (stringify!($call), libc::$call) };
    ($($call:ident),* $(,)?) => { &[$(named!(@ $call)),*] };
}

/// Time and the thread itself: what any code may need that only computes and waits.
const OF_A_THREAD: &[Named] = named![
    SYS_futex,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_restart_syscall,
    SYS_sched_yield,
    SYS_getcpu,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_membarrier,
    SYS_getrandom,
    SYS_exit,
    SYS_exit_group,
];

/// Memory of its own, which is never executable: see `calls_of`.
const MEMORY: &[Named] = named![SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise];

/// Bytes to and from what is open already.
const OPEN_FILES: &[Named] = named![
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_ppoll,
];

/// And to and from sockets that are there.
const OPEN_SOCKETS: &[Named] = named![
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getsockname,
    SYS_getpeername,
];

/// Files by their names: as the daemon's user may.
const FILES: &[Named] = named![
    SYS_openat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_renameat,
    SYS_renameat2,
    SYS_linkat,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_fcntl,
    SYS_flock,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_umask,
    SYS_copy_file_range,
];

/// Calls that newer architectures do not have, for which the C library of this one may use them.
#[cfg(target_arch = "x86_64")]
const OLD_FILES: &[Named] = named![
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_rename,
    SYS_link,
    SYS_unlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILES: &[Named] = named![];

/// As above, of waiting.
#[cfg(target_arch = "x86_64")]
const OLD_WAITING: &[Named] = named![SYS_poll, SYS_select, SYS_epoll_wait];
/// DPDK's thread for interrupts makes its list anew whenever something is to be waited for.
#[cfg(target_arch = "x86_64")]
const OLD_EVENTS: &[Named] = named![SYS_epoll_create, SYS_pipe, SYS_eventfd, SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
const OLD_EVENTS: &[Named] = named![];
#[cfg(not(target_arch = "x86_64"))]
const OLD_WAITING: &[Named] = named![];

/// Waiting for many things at once.
const EVENTS: &[Named] = named![
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_pipe2,
    SYS_dup,
    SYS_dup3,
];

/// Connections that are made and taken. What a socket may be of is in `sockets`.
const CONNECTIONS: &[Named] = named![SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect];

/// What the control core does besides: it starts threads, puts them on their cores, and gives up rights for them.
const CONTROL: &[Named] = named![
    SYS_clone3,
    SYS_seccomp,
    SYS_capget,
    SYS_capset,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_set_tid_address,
    SYS_memfd_create,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_mbind,
    SYS_move_pages,
    SYS_mlock,
    SYS_mincore,
    SYS_prlimit64,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getgroups,
];

/// What the drivers that were tried do in a worker, by the driver's name, with DPDK 22.11.
const OF_DRIVERS: &[(&str, &[Named])] = &[
    ("af_packet", named![SYS_sendto, SYS_ppoll]),
    ("memif", named![SYS_read, SYS_write]),
    ("ring", named![]),
    ("null", named![]),
];

/// The calls of a worker for a port of this driver; for one that was not tried, whatever moves bytes of what is open, or
/// sets a device.
fn of_driver(calls: &mut Calls, driver: &str) {
    let name = driver.trim_start_matches("net_").trim_start_matches("eth_");
    let known = OF_DRIVERS.iter().find(|(tried, _)| *tried == name);
    let (own, waits) = match known {
        Some((_, own)) => (own.to_vec(), own.iter().any(|(_, number)| *number == libc::SYS_ppoll)),
        None => ([OPEN_FILES, OPEN_SOCKETS].concat(), true),
    };
    allow(calls, &own);
    if waits {
        allow(calls, OLD_WAITING);
    }
    if known.is_none() {
        allow_if(calls, named!(@ SYS_ioctl), devices());
    }
}

/// What this kind of thread may call, in a daemon whose ports have these drivers.
pub(super) fn calls_of(kind: ThreadKind, drivers: &[&str]) -> Calls {
    let mut calls = Calls::new();
    allow(&mut calls, OF_A_THREAD);
    allow(&mut calls, MEMORY);
    // Memory may be had and changed, but never to be run: nothing is loaded after the start.
    let not_executable = Bits(2, prot(libc::PROT_EXEC), 0);
    for call in [named!(@ SYS_mmap), named!(@ SYS_mprotect)] {
        allow_if(&mut calls, call, vec![vec![not_executable]]);
    }
    // A panic is told on standard error and ends by a signal to itself.
    allow_if(&mut calls, named!(@ SYS_write), vec![vec![Is(0, 2)]]);
    // Debug builds look whether what they close is open.
    allow_if(&mut calls, named!(@ SYS_fcntl), vec![vec![Is(1, u64::from(libc::F_GETFD.cast_unsigned()))]]);
    let own = u64::from(std::process::id());
    allow_if(&mut calls, named!(@ SYS_tgkill), vec![vec![Is(0, own)]]);
    match kind {
        ThreadKind::Worker => {
            for driver in drivers {
                of_driver(&mut calls, driver);
            }
        }
        ThreadKind::Host => {
            allow(&mut calls, named![SYS_read, SYS_write, SYS_ppoll, SYS_close]);
            allow(&mut calls, OLD_WAITING);
        }
        ThreadKind::Log => allow(&mut calls, named![SYS_write, SYS_writev, SYS_close]),
        ThreadKind::FlowLog => {
            allow(&mut calls, OPEN_FILES);
            allow(&mut calls, named![SYS_sendto, SYS_sendmsg]);
            allow(&mut calls, FILES);
            allow(&mut calls, OLD_FILES);
        }
        ThreadKind::Files => {
            allow(&mut calls, OPEN_FILES);
            allow(&mut calls, FILES);
            allow(&mut calls, OLD_FILES);
        }
        ThreadKind::Dpdk => {
            for list in [OPEN_FILES, OPEN_SOCKETS, EVENTS, OLD_EVENTS, CONNECTIONS, OLD_WAITING] {
                allow(&mut calls, list);
            }
            // The other end of a memif hands over its memory; a link's state is asked for.
            allow(&mut calls, named![SYS_memfd_create, SYS_fcntl, SYS_ftruncate]);
            allow(&mut calls, named![SYS_unlinkat, SYS_fstat, SYS_newfstatat]);
            allow(&mut calls, unlink());
            allow_if(&mut calls, named!(@ SYS_socket), sockets(drivers));
            allow_if(&mut calls, named!(@ SYS_ioctl), devices());
        }
        ThreadKind::Control => {
            for list in [
                OPEN_FILES,
                OPEN_SOCKETS,
                FILES,
                OLD_FILES,
                OLD_WAITING,
                EVENTS,
                OLD_EVENTS,
                CONNECTIONS,
                CONTROL,
            ] {
                allow(&mut calls, list);
            }
            if drivers.iter().any(|driver| driver.contains("af_xdp")) {
                // Takes its program off the interface when the port is closed; read in its source and not tried.
                allow(&mut calls, named![SYS_bpf]);
            }
            allow_if(&mut calls, named!(@ SYS_socket), sockets(drivers));
            allow_if(&mut calls, named!(@ SYS_socketpair), vec![vec![Is(0, domain(libc::AF_UNIX))]]);
            allow_if(&mut calls, named!(@ SYS_ioctl), devices());
            allow_if(&mut calls, named!(@ SYS_clone), threads());
            let settings = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK];
            let rights = [libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_VMA];
            let options = settings.into_iter().chain(rights);
            allow_if(
                &mut calls,
                named!(@ SYS_prctl),
                options.map(|option| vec![Is(0, u64::from(option.cast_unsigned()))]).collect(),
            );
        }
    }
    calls
}

/// Whatever the arguments are, also if there were conditions before.
fn allow(calls: &mut Calls, list: &[Named]) {
    for call in list {
        allow_if(calls, *call, Vec::new());
    }
}

fn allow_if(calls: &mut Calls, (name, number): Named, alternatives: Vec<Alternative>) {
    let name = name.strip_prefix("SYS_").unwrap_or(name);
    calls.insert(number, Allowed { name, alternatives });
}

#[cfg(target_arch = "x86_64")]
fn unlink() -> &'static [Named] {
    named![SYS_unlink]
}
#[cfg(not(target_arch = "x86_64"))]
fn unlink() -> &'static [Named] {
    &[]
}

/// Sockets of this machine, of IP without raw ones, and the kernel's routing messages.
fn sockets(drivers: &[&str]) -> Vec<Alternative> {
    // The kind without the flags SOCK_CLOEXEC and SOCK_NONBLOCK.
    let kind = |kind: i32| Bits(1, 0xf, u64::from(kind.cast_unsigned()));
    let mut allowed = vec![vec![Is(0, domain(libc::AF_UNIX))]];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for of in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            allowed.push(vec![Is(0, domain(family)), kind(of)]);
        }
    }
    allowed.push(vec![Is(0, domain(libc::AF_NETLINK)), Is(2, domain(libc::NETLINK_ROUTE))]);
    // Read in its source and not tried.
    if drivers.iter().any(|driver| driver.starts_with("mlx5")) {
        allowed.push(vec![Is(0, domain(libc::AF_NETLINK)), Is(2, domain(libc::NETLINK_RDMA))]);
    }
    allowed
}

/// Settings of devices, but not the one by which a terminal is made to type.
fn devices() -> Vec<Alternative> {
    vec![vec![IsNot(1, libc::TIOCSTI)]]
}

/// Threads of this process and no processes.
fn threads() -> Vec<Alternative> {
    let threads = u64::from((libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND).cast_unsigned());
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    vec![vec![Bits(0, threads | u64::from(namespaces.cast_unsigned()), threads)]]
}

fn domain(number: i32) -> u64 {
    u64::from(number.cast_unsigned())
}

fn prot(bits: i32) -> u64 {
    u64::from(bits.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Else a thread's own list would promise what the process's refuses.
    #[test]
    fn the_process_may_call_whatever_one_of_its_threads_may() {
        let drivers = ["net_af_packet", "net_memif", "net_virtio", "mlx5_pci", "net_af_xdp", "unheard_of"];
        let all = calls_of(ThreadKind::Control, &drivers);
        for kind in ThreadKind::ALL {
            for (number, Allowed { name, alternatives }) in calls_of(kind, &drivers) {
                let here = &all.get(&number).unwrap_or_else(|| panic!("{name} of {kind:?}")).alternatives;
                let within = !alternatives.is_empty() && alternatives.iter().all(|one| here.contains(one));
                assert!(here.is_empty() || within, "{name} of {kind:?}: {alternatives:?}, not {here:?}");
            }
        }
    }

    #[test]
    fn a_worker_opens_nothing_and_starts_nothing_whatever_its_driver_is() {
        let never = [
            libc::SYS_openat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_execve,
            libc::SYS_unlinkat,
            libc::SYS_prctl,
            libc::SYS_seccomp,
            libc::SYS_capset,
        ];
        for (driver, _) in OF_DRIVERS.iter().chain(&[("unheard_of", &[][..])]) {
            let calls = calls_of(ThreadKind::Worker, &[driver]);
            let found: Vec<_> = never.iter().filter(|call| calls.contains_key(call)).collect();
            assert!(found.is_empty(), "{driver}: {found:?}");
        }
        let quiet = calls_of(ThreadKind::Worker, &["net_ring", "net_null"]);
        assert_eq!(quiet[&libc::SYS_write].alternatives, [[Is(0, 2)]], "only to standard error");
        assert!(!quiet.contains_key(&libc::SYS_sendto) && !quiet.contains_key(&libc::SYS_ioctl));
    }
}
