//! What each kind of thread may ask of the kernel, with the very filters that the daemon puts in force. A forbidden call
//! ends the process, so that each is tried in a process of its own: this program, started again for one [`trial`].
//!
//! Every call is given arguments by which it would fail or do nothing, if it were let through.

mod calls;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Mutex;

use flowgate::io::confine::{self, Filters, Forbidden, ThreadKind};

use calls::{Call, FORBIDDEN, OF_KINDS};

/// Names the trial that a child is to make.
const TRIAL: &str = "FLOWGATE_TRIAL";

/// What a child says right before its call.
const AT_IT: &str = "makes the call";

/// The drivers of the daemon's ports.
const DRIVERS: [&str; 2] = ["net_af_packet", "net_ring"];

/// Children at once: each is a whole program, which the loader takes longest for.
const AT_ONCE: usize = 4;

/// One call by one kind of thread.
#[derive(Clone, Copy)]
struct Trial {
    /// Its place in `all`: several calls differ in their arguments alone.
    number: usize,
    kind: ThreadKind,
    call: &'static Call,
    mode: &'static str,
}

impl Trial {
    fn name(&self) -> String {
        format!("{}:{}:{:?}:{}", self.mode, self.number, self.kind, self.call.name)
    }

    fn run(&self) -> Output {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "trial", "--ignored", "--nocapture"]).env(TRIAL, self.name());
        child.output().expect("this program can be started")
    }
}

fn all() -> impl Iterator<Item = (ThreadKind, &'static Call, bool)> {
    let everywhere = FORBIDDEN.iter().map(|call| (ThreadKind::Control, call, false));
    let own = OF_KINDS.iter().flat_map(|of| {
        let allowed = of.allowed.iter().map(|call| (of.kind, call, true));
        allowed.chain(of.forbidden.iter().map(|call| (of.kind, call, false)))
    });
    everywhere.chain(own)
}

/// Runs the trials, some at once, and has each outcome judged; every failure is told.
fn run_all(trials: &[Trial], judge: impl Fn(&Output) -> bool + Sync) {
    assert!(!trials.is_empty());
    let (next, failed) = (Mutex::new(trials.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(trial) = next.lock().unwrap().next() else { break };
                    let output = trial.run();
                    if !judge(&output) {
                        let said = String::from_utf8_lossy(&output.stderr).into_owned();
                        failed.lock().unwrap().push(format!("{}: {}: {said}", trial.name(), output.status));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), trials.len(), failed.join("\n"));
}

/// By that call, and not by one on the way to it.
fn was_ended_by_its_call(output: &Output) -> bool {
    output.status.signal() == Some(libc::SIGSYS)
        && String::from_utf8_lossy(&output.stderr).lines().any(|line| line == AT_IT)
}

fn trials(mode: &'static str, allowed: bool) -> Vec<Trial> {
    let chosen = all().enumerate().filter(|(_, (_, _, is))| *is == allowed);
    chosen.map(|(number, (kind, call, _))| Trial { number, kind, call, mode }).collect()
}

#[test]
fn a_forbidden_call_ends_the_process_by_sigsys_whichever_thread_makes_it() {
    run_all(&trials("enforce", false), was_ended_by_its_call);
}

#[test]
fn what_a_kind_of_thread_needs_it_may_call() {
    run_all(&trials("enforce", true), |output| output.status.success());
}

// For hosts that need something that is not listed: it is done, and the kernel's audit has it.
#[test]
fn where_calls_are_only_logged_they_are_done() {
    let some = trials("log", false).into_iter().filter(|trial| trial.kind == ThreadKind::Worker);
    run_all(&some.collect::<Vec<_>>(), |output| output.status.success());
}

#[test]
fn where_nothing_is_in_force_a_thread_that_says_what_it_is_keeps_everything() {
    let some = trials("nothing", false).into_iter().filter(|trial| trial.kind == ThreadKind::Worker);
    run_all(&some.collect::<Vec<_>>(), |output| output.status.success());
}

/// The child: confined as the daemon's threads are, one of them makes the call.
#[test]
#[ignore = "the other tests start it, each in a process of its own"]
fn trial() {
    let name = std::env::var(TRIAL).expect("a trial's name");
    let mut parts = name.split(':');
    let mode = parts.next().expect("a mode");
    let number = parts.next().and_then(|number| number.parse().ok()).expect("a number");
    let (kind, call, _) = all().nth(number).expect("a trial of the lists");
    let forbidden = match mode {
        "enforce" => Some(Forbidden::Kills),
        "log" => Some(Forbidden::IsLogged),
        _ => None,
    };
    if let Some(forbidden) = forbidden {
        let filters = Filters::compile(&DRIVERS, forbidden).expect("filters for this machine");
        confine::put_in_force(Some(filters)).expect("a kernel with seccomp");
    }
    let run = move || {
        if kind != ThreadKind::Control {
            confine::enter(kind).expect("it can be confined");
        }
        // Every kind of thread may say something there.
        eprintln!("{AT_IT}");
        (call.make)();
    };
    std::thread::spawn(run).join().expect("the call returns");
}
