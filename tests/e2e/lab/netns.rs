//! A network namespace of the lab: made with `ip netns`, gone when dropped. Work is done in it
//! either by a program started there or by a thread that enters it before it opens a socket; a
//! socket stays in the namespace it was opened in, whoever uses it later.

use std::fs::File;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

/// One network namespace, with its loopback up.
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes a namespace. No interface in it will have an IPv6 address that nobody gave it, and an
    /// address is usable the moment it is given (no duplicate detection).
    pub fn create(name: String) -> Self {
        ip(&["netns", "add", &name]);
        let netns = Self { name };
        for (key, value) in [
            ("net/ipv6/conf/all/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/default/addr_gen_mode", "1"),
            ("net/ipv6/conf/default/router_solicitations", "0"),
        ] {
            netns.sysctl(key, value);
        }
        netns.ip("link set lo up");
        netns
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip -n NAME WORDS…`; a failure ends the test with what `ip` said.
    pub fn ip(&self, words: &str) {
        let mut all = vec!["-n", &self.name];
        all.extend(words.split_whitespace());
        ip(&all);
    }

    /// Writes one sysctl, named by its path below `/proc/sys`.
    pub fn sysctl(&self, key: &str, value: &str) {
        self.run(|| {
            std::fs::write(format!("/proc/sys/{key}"), value)
                .unwrap_or_else(|error| panic!("cannot set {key} to {value} in {}: {error}", self.name));
        });
    }

    /// Does `job` in a thread of its own inside the namespace, and waits for it. A panic in the job
    /// is the caller's.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(&self.name);
                job()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that will run inside the namespace and be killed with the thread that starts it,
    /// so that not even a test that is itself killed leaves a process behind.
    pub fn command(&self, program: &str) -> Command {
        command_in(&self.name, program)
    }

    /// Runs a command to its end and returns its standard output. It must succeed.
    pub fn output(&self, words: &str) -> String {
        let mut words = words.split_whitespace();
        let program = words.next().expect("a command has a name");
        output_of(self.command(program).args(words))
    }
}

/// Takes the calling thread into the namespace of this name, for good.
pub fn enter(name: &str) {
    let file = File::open(format!("/run/netns/{name}")).expect("the namespace exists");
    setns(file, CloneFlags::CLONE_NEWNET).expect("entering a network namespace needs root");
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and a panic while panicking would abort.
        if let Err(error) = Command::new("ip").args(["netns", "del", &self.name]).status() {
            eprintln!("the namespace {} may be left behind: {error}", self.name);
        }
    }
}

/// [`Netns::command`] of the namespace of this name.
pub fn command_in(name: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name, "setpriv", "--pdeathsig", "KILL", "--", program]);
    command
}

/// Runs `ip WORDS…`, which must succeed.
pub fn ip(words: &[&str]) {
    output_of(Command::new("ip").args(words));
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
