//! One of both ends of a memif goes: a generator while a worker is in the rings that both share, a daemon without a word.

use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::gateway::Gateway;
use crate::{assert_sound, sum};

const PATIENCE: Duration = Duration::from_secs(20);

/// How long the daemon keeps the memory for a worker that goes no round is 5 s. Within this it is certainly kept.
const KEPT: Duration = Duration::from_secs(2);

/// A thread that a debugger holds; it goes on when this is dropped.
struct Held(Pid);

impl Held {
    fn thread(process: u32, name: &str) -> Held {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
        let mut tasks = tasks.map(|task| task.expect("readable").path());
        let named = |comm: String| comm.trim() == name;
        let found = tasks.find(|task| fs::read_to_string(task.join("comm")).is_ok_and(named));
        let found = found.expect("there is such a thread");
        let id = found.file_name().and_then(|id| id.to_str()).and_then(|id| id.parse().ok());
        let thread = Pid::from_raw(id.expect("a number"));
        ptrace::seize(thread, ptrace::Options::empty()).expect("a debugger may hold it");
        ptrace::interrupt(thread).expect("it is held");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stops");
        Held(thread)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended meanwhile.
        ptrace::detach(self.0, None).ok();
    }
}

/// How many of a peer's rings the daemon has mapped.
fn rings(gateway: &Gateway) -> usize {
    let maps = fs::read_to_string(format!("/proc/{}/maps", gateway.id())).expect("it runs");
    maps.lines().filter(|line| line.contains("memif_region")).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_generator_that_goes_takes_no_memory_from_under_a_worker() {
    let mut gateway = Gateway::start(&[]);
    let mut command = gateway.load_command(&["--rate", "3000", "--duration", "60"]);
    let mut generator =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("all three ports have their peer", || rings(&gateway) == 3);
    // Wherever it is: in a burst, or not.
    let worker = Held::thread(gateway.id(), "worker-0");
    generator.kill().expect("it runs");
    let gone = Instant::now();
    generator.wait().expect("it is ours");
    for _ in 0..50 {
        let kept = rings(&gateway);
        if gone.elapsed() > KEPT {
            break;
        }
        assert_eq!(kept, 3, "a worker may be in there, {:?} after the generator went", gone.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    drop(worker);
    wait_until("the rings of a generator that is gone are gone", || rings(&gateway) == 0);
    assert!(gateway.runs(), "the worker was in none of them");
    // And the next one is as welcome.
    let (status, seen) = gateway.summary_of(&["--rate", "3000", "--duration", "2"]);
    assert_sound(&seen);
    assert!(status.success() && sum(&seen["arrived"]) > 0, "{status}");
}

#[test]
fn a_daemon_that_was_killed_is_followed_by_one_that_listens_at_the_sockets_it_left() {
    let mut gateway = Gateway::start(&[]);
    gateway.is_killed_and_started();
    let (status, seen) = gateway.summary_of(&["--rate", "3000", "--duration", "2"]);
    assert_sound(&seen);
    assert!(status.success(), "{status}");
}
