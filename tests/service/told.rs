//! What the service manager hears: a socket in its place, as systemd has one.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::AT_FDCWD;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::signal::Signal;

use crate::daemon::{Daemon, PATIENCE, Place, wait_for};

/// One worker over devices that hold nothing, which sleeps: whoever runs tests has few cores.
const FORWARDS: &str = r#"
[eal]
hugepages = "never"
file_prefix = "PREFIX"
[workers]
cores = [0]
control_cores = [0, 1]
flows = 1024
idle = "sleep"
[[ports]]
name = "left"
device = "net_null0"
[[ports]]
name = "right"
device = "net_null1"
[[ports]]
name = "under"
device = "net_null2"
[underlay]
port = "under"
address = "ADDRESS/24"
host_interface = "fgs-PREFIX"
[[endpoints]]
name = "edge"
id = 1
kind = "wire"
ports = ["left", "right"]
load_balancer = "gw"
"#;

/// In the place of systemd.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn new(place: &Place) -> Manager {
        let socket = UnixDatagram::bind(place.path("notify")).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        Manager { socket }
    }

    /// Starts the daemon as the unit does.
    fn start(&self, place: &Place, watchdog: Option<Duration>) -> Daemon {
        self.start_as(place, place.command(), watchdog)
    }

    /// Starts it by this command.
    fn start_as(&self, place: &Place, mut command: Command, watchdog: Option<Duration>) -> Daemon {
        command.env("NOTIFY_SOCKET", place.path("notify"));
        if let Some(watchdog) = watchdog {
            command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        }
        place.start(&mut command)
    }

    /// The next word.
    fn hears(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("the daemon says something");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Waits for a word that begins so.
    fn waits_for(&self, begin: &str) -> String {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let word = self.hears();
            if word.starts_with(begin) {
                return word;
            }
        }
        panic!("waited for {begin}");
    }

    /// Whether there is a word within a time.
    fn hears_within(&self, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time)).expect("a socket has one");
        let mut bytes = [0; 4096];
        let heard = self.socket.recv(&mut bytes).ok();
        self.socket.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        heard.map(|length| String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// Forwards as `FORWARDS` does, beside whatever else DPDK runs here.
pub fn forwards() -> String {
    static DAEMONS: AtomicU8 = AtomicU8::new(0);
    let number = DAEMONS.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("{number}t{}", std::process::id());
    // Each holds its tunnel's port.
    FORWARDS.replace("PREFIX", &prefix).replace("ADDRESS", &format!("192.0.2.{}", number + 1))
}

#[test]
fn ready_is_told_with_how_it_stands_and_stopping_at_the_end() {
    let place = Place::new("");
    let manager = Manager::new(&place);
    let mut daemon = manager.start(&place, None);
    let first = manager.hears();
    assert_eq!(first, "READY=1\nSTATUS=Idle: the configuration has no ports, and nothing is forwarded");
    let said = place.flowgate(&[]);
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("What to do next:\n  1. Give /etc/flowgate/node.toml"), "{said}");
    daemon.signal(Signal::SIGTERM);
    assert!(manager.waits_for("STOPPING=1").contains("STATUS=Stops"));
    assert!(daemon.ended().success());
}

#[test]
fn a_service_manager_that_cannot_be_told_is_a_refusal() {
    let place = Place::new("");
    let refused = place.command().env("NOTIFY_SOCKET", place.path("nobody")).output().expect("it can be run");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("NOTIFY_SOCKET") && said.lines().count() == 1, "{said}");
}

#[test]
fn the_watchdog_is_fed_while_every_worker_goes_round_and_no_longer() {
    let place = Place::new(&forwards());
    let manager = Manager::new(&place);
    let daemon = manager.start(&place, Some(Duration::from_secs(2)));
    let ready = manager.waits_for("READY=1");
    assert!(
        ready.contains(
            "STATUS=Drops what comes, as no load balancer leads to a target; 1 worker, 3 ports, 0 flows"
        ),
        "{ready}"
    );
    for _ in 0..4 {
        manager.waits_for("WATCHDOG=1");
    }
    // A debugger holds the worker: the control core goes on, and says what it sees.
    let worker = daemon.thread("worker-0");
    let held = worker.held();
    let not_ready = manager.waits_for("STATUS=Not ready: worker 0 went no round for ");
    assert!(not_ready.ends_with(" s"), "{not_ready}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let word = manager.hears_within(Duration::from_millis(500));
        assert!(
            word.is_none_or(|word| !word.contains("WATCHDOG=1")),
            "a daemon whose worker is stuck is fed for"
        );
    }
    drop(held);
    manager.waits_for("WATCHDOG=1");
    daemon.signal(Signal::SIGTERM);
    manager.waits_for("STOPPING=1");
}

/// A disk that hangs, as far as one file goes: the kernel asks this whether the file may be opened, and is not answered as long
/// as it lives.
struct Hangs(Fanotify);

impl Hangs {
    fn on(path: &Path) -> Hangs {
        let group =
            Fanotify::init(InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC, EventFFlags::O_RDONLY);
        let group = group.expect("as root, on a kernel that asks");
        let marked = group.mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN_PERM, AT_FDCWD, Some(path));
        marked.expect("the file is there");
        Hangs(group)
    }

    /// Waits until somebody waits for the file.
    fn is_waited_for(&self) {
        let mut asked = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).expect("some seconds");
        assert_eq!(poll(&mut asked, patience), Ok(1), "waited for the file to be opened");
    }
}

#[test]
fn the_watchdog_is_fed_while_a_reload_waits_for_the_disk() {
    let place = Place::new(&forwards());
    let manager = Manager::new(&place);
    let daemon = manager.start(&place, Some(Duration::from_secs(2)));
    manager.waits_for("READY=1");
    let disk = Hangs::on(&place.path("node.toml"));
    daemon.signal(Signal::SIGHUP);
    manager.waits_for("RELOADING=1");
    disk.is_waited_for();
    let mut fed = 0;
    while fed < 5 {
        let word = manager.hears();
        // How it stands may be told: a machine that others use, too, may keep the worker waiting for half a second. Not
        // what became of the reload.
        let stands = word.starts_with("STATUS=") && !word.contains("the configuration");
        assert!(stands || word == "WATCHDOG=1", "until the disk answers nothing else is told: {word}");
        fed += u8::from(word == "WATCHDOG=1");
    }
    drop(disk);
    assert!(manager.waits_for("READY=1").ends_with("; the configuration was read anew"));
}

#[test]
fn the_watchdog_is_fed_while_a_new_control_core_waits_for_the_disk() {
    let place = Place::new(&forwards());
    let manager = Manager::new(&place);
    let mut command = place.command();
    command.arg("--debug-clock");
    let mut daemon = manager.start_as(&place, command, Some(Duration::from_secs(2)));
    manager.waits_for("READY=1");
    let disk = Hangs::on(&place.path("state/objects.json"));
    let mut stream = UnixStream::connect(place.path("socket")).expect("the daemon listens");
    let fault =
        r#"{"jsonrpc": "2.0", "id": 1, "method": "debug-put-fault", "params": {"Fault": "control-panic"}}"#;
    stream.write_all(format!("{fault}\n").as_bytes()).expect("the daemon reads requests");
    // The connection ends with the control core.
    let _answer = stream.read(&mut [0; 256]);
    disk.is_waited_for();
    wait_for("the new control core to wait", || place.log().contains("control_core_waits_for_disk"));
    while manager.hears_within(Duration::from_millis(1)).is_some() {}
    for _ in 0..5 {
        assert_eq!(manager.hears(), "WATCHDOG=1");
    }
    // And not for a worker that stands still then, which is seen after half a second or so; it would be each second.
    let held = daemon.thread("worker-0").held();
    wait_for("nothing to be told of a daemon whose worker is stuck", || {
        manager.hears_within(Duration::from_secs(2)).is_none()
    });
    drop(held);
    manager.waits_for("WATCHDOG=1");
    assert!(daemon.runs());
    drop(disk);
    wait_for("the new control core to go on", || place.log().contains("control_core_anew"));
}

#[test]
fn a_reload_takes_the_logs_level_names_what_waits_and_refuses_what_is_wrong() {
    let place = Place::new("[log]\nlevel = \"info\"\n");
    let manager = Manager::new(&place);
    let mut daemon = manager.start(&place, None);
    manager.waits_for("READY=1");
    let reload = |node: &str| {
        place.write(node);
        daemon.signal(Signal::SIGHUP);
        manager.waits_for("RELOADING=1");
        manager.waits_for("READY=1")
    };
    assert!(reload("[log]\nlevel = \"debug\"\n").ends_with("; the configuration was read anew"));
    let level = place.flowgate(&["log-level", "--query", "Configured", "--output", "text"]);
    assert_eq!(String::from_utf8_lossy(&level.stdout).trim(), "debug");
    let waits = reload("zone = \"rack-b\"\n[workers]\nflows = 2048\n");
    assert!(waits.ends_with("; workers.flows, zone wait for a restart"), "{waits}");
    let refused = reload("zone = 7\n");
    assert!(refused.contains("; the configuration is not taken: ") && refused.contains("zone"), "{refused}");
    wait_for("the refusal in the log", || place.log().contains("reload_refused"));
    assert!(daemon.runs());
}
