//! The threads of a daemon, and how a test holds one.

use std::fs;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// A thread of a daemon.
pub struct Thread(pub Pid);

/// A thread that does nothing as long as this is there.
pub struct Held(Pid);

/// The threads of a process, each with its name.
pub fn of(process: u32) -> Vec<(String, Thread)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let named = |task: fs::DirEntry| {
        // One that ends meanwhile is none.
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let id = task.file_name().to_str().and_then(|id| id.parse().ok()).expect("a number");
        Some((name.trim().to_owned(), Thread(Pid::from_raw(id))))
    };
    tasks.filter_map(|task| named(task.expect("readable"))).collect()
}

/// The thread of this name.
pub fn named(process: u32, name: &str) -> Thread {
    let found = of(process).into_iter().find(|(its, _)| its == name);
    found.expect("there is such a thread").1
}

impl Thread {
    /// Holds it, as a debugger does: the others of its process go on.
    pub fn held(&self) -> Held {
        ptrace::seize(self.0, ptrace::Options::empty()).expect("a debugger may hold it");
        ptrace::interrupt(self.0).expect("it is held");
        waitpid(self.0, Some(WaitPidFlag::__WALL)).expect("it stops");
        Held(self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended meanwhile.
        ptrace::detach(self.0, None).ok();
    }
}
