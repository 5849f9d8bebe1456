//! A terminal in which a test reads what an operator would.

use std::path::PathBuf;
use std::process::Command;

use super::traffic::PATIENCE;
use super::{Lab, wait_for};

/// A text whose lines may be broken anywhere, as one.
pub fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A terminal of tmux that nobody looks at, with a server of its own.
pub struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts `flowgate top` on a terminal of this size.
    pub fn top(lab: &Lab, columns: u16, rows: u16) -> Tmux {
        let tmux = Tmux { socket: lab.path("tmux") };
        let socket = lab.path("flowgated.sock");
        let top = format!(
            "TZ=UTC {} --socket {} top --interval 250ms 2> {}; echo ENDED WITH $?; sleep 60",
            env!("CARGO_BIN_EXE_flowgate"),
            socket.display(),
            lab.path("top.log").display()
        );
        let size = [columns.to_string(), rows.to_string()];
        tmux.run(&["new-session", "-d", "-x", &size[0], "-y", &size[1], &top]);
        tmux
    }

    pub fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // Its own server, its own settings, and no part of a session that this test may run in.
        command.env_remove("TMUX").env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        command.args(["-f", "/dev/null", "-u", "-S"]).arg(&self.socket).args(words);
        let output = command.output().expect("tmux is installed");
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What is to be seen.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as it should be, and returns it.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(what, PATIENCE, || {
                last = self.screen();
                is_so(&last).then(|| last.clone())
            })
        }));
        found.unwrap_or_else(|_| panic!("the screen has not {what}:\n{last}"))
    }

    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    pub fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // With it go the terminal and what runs in it.
        Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output().ok();
    }
}
