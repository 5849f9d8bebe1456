//! Which calls are tried, and how.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use flowgate::io::confine::ThreadKind;
use libc::c_long;

/// A call that is tried.
pub struct Call {
    pub name: &'static str,
    pub make: fn(),
}

/// What is tried of a kind of thread, besides what is forbidden to all.
pub struct OfKind {
    pub kind: ThreadKind,
    pub allowed: &'static [Call],
    pub forbidden: &'static [Call],
}

/// A number that is no descriptor, no pointer and no flag of any call.
const NONE: c_long = -1;

/// A call without any pointer but null.
fn raw(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the lists below give null and -1 for pointers, which the kernel refuses, and lengths of zero.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

macro_rules! calls {
    ($($name:ident ($($argument:expr),*)),* $(,)?) => {
        &[$(Call {
            name: stringify!($name),
            make: || {
                let mut arguments: [c_long; 6] = [0; 6];
                let given: &[c_long] = &[$($argument),*];
                arguments[..given.len()].copy_from_slice(given);
                raw(libc::$name, arguments);
            },
        }),*]
    };
}

macro_rules! done {
    ($($name:literal: $make:expr),* $(,)?) => { &[$(Call { name: $name, make: $make }),*] };
}

/// What no thread of the daemon ever does: programs, processes, other processes' memory, namespaces, mounts, the
/// kernel's own programs and modules, the clock, other users, sockets of other families, memory to be run.
pub const FORBIDDEN: &[Call] = calls![
    SYS_execve(0, 0, 0),
    SYS_execveat(NONE, 0, 0, 0, 0),
    SYS_ptrace(NONE, 0, 0, 0),
    SYS_process_vm_readv(0, 0, 0, 0, 0, NONE),
    SYS_process_vm_writev(0, 0, 0, 0, 0, NONE),
    SYS_pidfd_open(NONE, NONE),
    SYS_pidfd_getfd(NONE, NONE, NONE),
    SYS_kcmp(NONE, NONE, NONE, NONE, NONE),
    SYS_kill(1, 0),
    SYS_tkill(1, 0),
    SYS_tgkill(1, 1, 0),
    SYS_mount(0, 0, 0, 0, 0),
    SYS_umount2(0, NONE),
    SYS_pivot_root(0, 0),
    SYS_chroot(0),
    SYS_fsopen(0, NONE),
    SYS_open_tree(NONE, 0, NONE),
    SYS_move_mount(NONE, 0, NONE, 0, NONE),
    SYS_mknodat(NONE, 0, 0, 0),
    SYS_setns(NONE, NONE),
    SYS_unshare(NONE),
    SYS_bpf(NONE, 0, 0),
    SYS_perf_event_open(0, NONE, NONE, NONE, NONE),
    SYS_io_uring_setup(0, 0),
    SYS_userfaultfd(NONE),
    SYS_fanotify_init(NONE, NONE),
    SYS_inotify_init1(NONE),
    SYS_keyctl(NONE),
    SYS_add_key(0, 0, 0, 0, NONE),
    SYS_request_key(0, 0, 0, NONE),
    SYS_init_module(0, 0, 0),
    SYS_finit_module(NONE, 0, NONE),
    SYS_delete_module(0, 0),
    SYS_kexec_load(NONE, NONE, 0, NONE),
    SYS_reboot(0, 0, 0, 0),
    SYS_swapon(0, NONE),
    SYS_swapoff(0),
    SYS_syslog(NONE, 0, NONE),
    SYS_acct(NONE),
    SYS_quotactl(NONE, 0, NONE, 0),
    SYS_settimeofday(NONE, NONE),
    SYS_clock_settime(NONE, 0),
    SYS_adjtimex(0),
    SYS_sethostname(0, NONE),
    SYS_setdomainname(0, NONE),
    SYS_setuid(NONE),
    SYS_setgid(NONE),
    SYS_setresuid(NONE, NONE, NONE),
    SYS_setresgid(NONE, NONE, NONE),
    SYS_setgroups(NONE, 0),
    SYS_personality(0xffff_ffff),
    SYS_name_to_handle_at(NONE, 0, 0, 0, NONE),
    SYS_open_by_handle_at(NONE, 0, NONE),
    SYS_memfd_secret(NONE),
    SYS_pkey_mprotect(0, 0, 4, NONE),
    SYS_vmsplice(NONE, 0, 0, NONE),
    // A process, and a thread in another namespace of users; the kernel itself takes neither set of flags.
    SYS_clone(0x0800, 0, 0, 0, 0),
    SYS_clone(0x0001_0f00 | 0x1000_0000, 0, 0, 0, 0),
    // Sockets: of packets, of raw IP, of the kernel's audit, of virtual machines, of its ciphers.
    SYS_socket(17, 3, 0),
    SYS_socket(2, 3, 17),
    SYS_socket(10, 3, 17),
    SYS_socket(16, 3, 9),
    SYS_socket(40, 1, 0),
    SYS_socket(38, 5, 0),
    // Memory to be run: had, and made of what was there.
    SYS_mmap(0, 4096, 5, 0x22, NONE, 0),
    SYS_mprotect(0, 0, 5),
    // What a terminal is made to type, what may be dumped, what is kept over a change of users.
    SYS_ioctl(NONE, 0x5412, 0),
    SYS_prctl(4, NONE),
    SYS_prctl(8, NONE),
    SYS_prctl(28, NONE),
];

/// What only those that open and make things may.
const MAKING: &[Call] = calls![
    SYS_openat(NONE, 0, 0, 0),
    SYS_socket(2, 1, 0),
    SYS_socketpair(1, 1, 0, 0),
    SYS_connect(NONE, 0, 0),
    SYS_bind(NONE, 0, 0),
    SYS_listen(NONE, 0),
    SYS_accept4(NONE, 0, 0, 0),
    SYS_clone3(0, 0),
    SYS_clone(0x0001_0000, 0, 0, 0, 0),
    SYS_execve(0, 0, 0),
    SYS_unlinkat(NONE, 0, NONE),
    SYS_renameat2(NONE, 0, NONE, 0, NONE),
    SYS_mkdirat(NONE, 0, 0),
    SYS_linkat(NONE, 0, NONE, 0, NONE),
    SYS_fchmodat(NONE, 0, 0),
    SYS_fchownat(NONE, 0, 0, 0, 0),
    SYS_getdents64(NONE, 0, 0),
    SYS_ftruncate(NONE, 0),
    SYS_fsync(NONE),
    SYS_dup(NONE),
    SYS_fcntl(NONE, 0, 0),
    SYS_ioctl(NONE, 0, 0),
    SYS_memfd_create(0, NONE),
    SYS_prctl(15, 0),
    SYS_seccomp(NONE, NONE, 0),
    SYS_capset(0, 0),
    SYS_sched_setaffinity(NONE, 0, 0),
    SYS_prlimit64(NONE, NONE, 0, 0),
    SYS_epoll_create1(NONE),
    SYS_sendmsg(NONE, 0, 0),
    SYS_recvfrom(NONE, 0, 0, 0, 0, 0),
    SYS_setsockopt(NONE, 0, 0, 0, 0),
    SYS_pwrite64(NONE, 0, 0, 0),
    SYS_mmap(0, 4096, 5, 0x22, NONE, 0),
];

/// What a thread that only works on files has no business with.
const NOT_FOR_FILES: &[Call] = calls![
    SYS_socket(2, 1, 0),
    SYS_connect(NONE, 0, 0),
    SYS_bind(NONE, 0, 0),
    SYS_accept4(NONE, 0, 0, 0),
    SYS_recvfrom(NONE, 0, 0, 0, 0, 0),
    SYS_setsockopt(NONE, 0, 0, 0, 0),
    SYS_clone(0x0001_0000, 0, 0, 0, 0),
    SYS_execve(0, 0, 0),
    SYS_ioctl(NONE, 0, 0),
    SYS_memfd_create(0, NONE),
    SYS_prctl(15, 0),
    SYS_seccomp(NONE, NONE, 0),
    SYS_capset(0, 0),
    SYS_sched_setaffinity(NONE, 0, 0),
    SYS_mmap(0, 4096, 5, 0x22, NONE, 0),
];

pub const OF_KINDS: &[OfKind] = &[
    OfKind {
        kind: ThreadKind::Control,
        allowed: done![
            "takes and makes connections": connections,
            "has both ends of a socket": || drop(std::os::unix::net::UnixStream::pair().unwrap()),
            "asks the kernel for neighbours": ask_the_kernel,
            "starts threads": || std::thread::spawn(sleep).join().unwrap(),
            "replaces a file": replace_a_file,
            "signals itself": || nix::sys::signal::raise(nix::sys::signal::Signal::SIGCONT).unwrap(),
        ],
        forbidden: &[],
    },
    OfKind {
        kind: ThreadKind::Worker,
        allowed: done![
            "sleeps": sleep,
            "uses memory": use_memory,
            "says why it panics": || eprintln!("as a panic does"),
            // The kernel is told that frames are in its ring; waited for its room.
            "kicks its port": || { raw(libc::SYS_sendto, [NONE, 0, 0, 0, 0, 0]); },
            "waits for its port": || { raw(libc::SYS_ppoll, [0, 0, NONE, 0, 0, 0]); },
        ],
        forbidden: MAKING,
    },
    OfKind {
        kind: ThreadKind::Worker,
        allowed: &[],
        forbidden: calls![SYS_write(1, 0, 0), SYS_read(NONE, 0, 0)],
    },
    OfKind {
        kind: ThreadKind::Host,
        allowed: done![
            "sleeps": sleep,
            "uses memory": use_memory,
            "reads a tap": || { raw(libc::SYS_read, [NONE, 0, 0, 0, 0, 0]); },
            "writes to a tap": || { raw(libc::SYS_write, [NONE, 0, 0, 0, 0, 0]); },
            "waits for taps": || { raw(libc::SYS_ppoll, [0, 0, NONE, 0, 0, 0]); },
        ],
        forbidden: MAKING,
    },
    OfKind {
        kind: ThreadKind::Log,
        allowed: done!["sleeps": sleep, "uses memory": use_memory, "says something": || eprintln!("a line")],
        forbidden: MAKING,
    },
    OfKind { kind: ThreadKind::Log, allowed: &[], forbidden: calls![SYS_read(NONE, 0, 0)] },
    OfKind {
        kind: ThreadKind::FlowLog,
        allowed: done![
            "replaces a file": replace_a_file,
            "uses memory": use_memory,
            "sends records": || { raw(libc::SYS_sendto, [NONE, 0, 0, 0, 0, 0]); },
        ],
        forbidden: NOT_FOR_FILES,
    },
    OfKind {
        kind: ThreadKind::Files,
        allowed: done!["sleeps": sleep, "uses memory": use_memory, "replaces a file": replace_a_file],
        forbidden: NOT_FOR_FILES,
    },
    OfKind { kind: ThreadKind::Files, allowed: &[], forbidden: calls![SYS_sendto(NONE, 0, 0, 0, 0, 0)] },
    OfKind {
        kind: ThreadKind::Dpdk,
        allowed: done![
            "takes and makes connections": connections,
            "uses memory": use_memory,
            "waits for many things": || { raw(libc::SYS_epoll_create1, [0; 6]); },
        ],
        forbidden: calls![
            SYS_openat(NONE, 0, 0, 0),
            SYS_execve(0, 0, 0),
            SYS_clone(0x0001_0000, 0, 0, 0, 0),
            SYS_renameat2(NONE, 0, NONE, 0, NONE),
            SYS_mkdirat(NONE, 0, 0),
            SYS_fchownat(NONE, 0, 0, 0, 0),
            SYS_getdents64(NONE, 0, 0),
            SYS_prctl(15, 0),
            SYS_seccomp(NONE, NONE, 0),
            SYS_capset(0, 0),
            SYS_sched_setaffinity(NONE, 0, 0),
            SYS_socket(17, 3, 0),
        ],
    },
];

fn sleep() {
    std::thread::sleep(Duration::from_micros(10));
    std::thread::yield_now();
}

/// Enough that the C library asks the kernel for it, and gives it back: of mappings, and of the thread's heap before and after
/// mappings that were given back have it keep more of a heap.
fn use_memory() {
    use_heap(8);
    use_mappings();
    use_heap(600);
}

fn use_heap(blocks: usize) {
    let mut blocks: Vec<Vec<u8>> =
        (0..blocks).map(|_| std::hint::black_box(Vec::with_capacity(100_000))).collect();
    while blocks.pop().is_some() {}
}

fn use_mappings() {
    let mut blocks: Vec<Vec<u8>> = (0..16).map(|_| vec![1; 1 << 20]).collect();
    blocks.iter_mut().for_each(|block| block.resize(2 << 20, 1));
}

fn connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap();
    let udp = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
    udp.set_nonblocking(true).unwrap();
}

fn ask_the_kernel() {
    use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
    Socket::new(NETLINK_ROUTE).unwrap().bind(&SocketAddr::new(0, 0)).unwrap();
}

/// As the state is stored: written beside, made durable, linked into the history, given its name.
fn replace_a_file() {
    let folder = std::env::temp_dir().join(format!("flowgate-trial-{}", std::process::id()));
    fs::create_dir_all(folder.join("history")).unwrap();
    let (new, name) = (folder.join("objects.json.new"), folder.join("objects.json"));
    fs::write(&new, "state").unwrap();
    fs::File::open(&new).unwrap().sync_all().unwrap();
    fs::rename(&new, &name).unwrap();
    fs::hard_link(&name, folder.join("history/1")).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    fs::remove_dir_all(&folder).unwrap();
}
