//! One of both ends of a memif goes: a generator while a worker is in the rings that both share, a daemon without a word.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::gateway::Gateway;
use crate::{assert_sound, sum, threads};

const PATIENCE: Duration = Duration::from_secs(20);

/// How long the daemon keeps the memory for a worker that goes no round is 5 s. Within this it is certainly kept.
const KEPT: Duration = Duration::from_secs(2);

/// A generator; it goes at the latest when nobody needs it any more.
struct Generator(Child);

impl Generator {
    fn goes(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.goes();
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
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut generator = Generator(command.spawn().expect("it starts"));
    wait_until("all three ports have their peer", || rings(&gateway) == 3);
    // Wherever it is: in a burst, or not.
    let worker = threads::named(gateway.id(), "worker-0").held();
    let gone = Instant::now();
    generator.goes();
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
