//! A program that the lab started: its output is kept in a file for the report of a failed test,
//! and it is killed, by its own id, when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::wait_for;

/// A running program.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it prints on either stream is added to `folder/NAME.log`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).expect("the lab's folder is writable");
        let err = out.try_clone().expect("a file can be opened twice");
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Self { name: name.to_owned(), child, log }
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Ends the test if the program is not running any more.
    pub fn must_run(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} ended with {status}, having printed:\n{}", self.name, self.printed());
        }
    }

    /// Asks it to end (SIGTERM) and returns how it did.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid fits"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("the child exists");
        let name = self.name.clone();
        wait_for(&format!("{name} to end after SIGTERM"), Duration::from_secs(10), || self.ended())
    }

    /// Kills it at once (SIGKILL), as a crash would.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill, and that is no failure.
        if self.child.kill().is_ok() {
            let _status = self.child.wait();
        }
    }
}
