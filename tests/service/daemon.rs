//! A daemon in a folder of its own.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::threads::{self, Thread};

/// How long anything may take that a machine of few cores has to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Who the daemon becomes once it has started: a user that every machine has. Whoever is not root stays who he is.
fn user() -> Option<nix::unistd::User> {
    let root = nix::unistd::geteuid().is_root();
    root.then(|| nix::unistd::User::from_name("nobody").expect("users are listed").expect("there is one"))
}

/// A folder with a configuration in it.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// Where a daemon can be started whose configuration is `node` and what says where its files are.
    pub fn new(node: &str) -> Place {
        let place = Place { folder: tempfile::tempdir().expect("a folder") };
        if let Some(user) = user() {
            std::os::unix::fs::chown(place.folder.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .expect("as root");
        }
        place.write(node);
        place
    }

    /// Has `node` be the configuration from now on.
    pub fn write(&self, node: &str) {
        let folder = self.folder.path().display();
        // Flow tables that are kept would outlive the test.
        let head = format!(
            "state_directory = \"{folder}/state\"\nsocket.path = \"{folder}/socket\"\n\
             monitor.enabled = false\ntables.keep = false\n"
        );
        let user = user().map_or_else(String::new, |user| format!("privileges.user = {:?}\n", user.name));
        std::fs::write(self.path("node.toml"), head + &user + node).expect("the folder is writable");
    }

    /// A file of the place.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The daemon, not started yet. What it logs is in the file `log`.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowgated"));
        command.arg("--config").arg(self.path("node.toml")).env_remove("NOTIFY_SOCKET");
        command
    }

    /// The daemon, started.
    pub fn start(&self, command: &mut Command) -> Daemon {
        let log = std::fs::File::create(self.path("log")).expect("a log");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Daemon { child: child.expect("the daemon can be run") }
    }

    /// What the command line says.
    pub fn flowgate(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
        let output = command.arg("--socket").arg(self.path("socket")).args(words).output();
        output.expect("the command line can be run")
    }

    /// Waits until the daemon listens on its socket.
    pub fn wait_for_socket(&self) {
        wait_for("the socket", || std::os::unix::net::UnixStream::connect(self.path("socket")).is_ok());
    }

    /// What the daemon has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// Waits until something is so.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running daemon; it is killed when nobody needs it any more.
pub struct Daemon {
    child: Child,
}

impl Daemon {
    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("it runs");
    }

    /// How it ended.
    pub fn ended(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_for("the daemon's end", || {
            ended = self.child.try_wait().expect("it is ours");
            ended.is_some()
        });
        ended.expect("waited for")
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Daemon {
    /// Its threads, each with its name.
    pub fn threads(&self) -> Vec<(String, Thread)> {
        threads::of(self.child.id())
    }

    /// The thread of this name.
    pub fn thread(&self, name: &str) -> Thread {
        threads::named(self.child.id(), name)
    }
}

impl Thread {
    /// The CPUs that it may run on; none if it has ended meanwhile.
    pub fn cpus(&self) -> Vec<usize> {
        let Ok(set) = nix::sched::sched_getaffinity(self.0) else { return Vec::new() };
        (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
    }
}
