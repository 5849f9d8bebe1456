//! The binary `flowgate` on a terminal: colour, width, the bar of a wait.

use crate::command_line::{command, shown};
use crate::command_short::advance;
use crate::fake::Daemon;
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A command on a terminal of its own.
struct OnTerminal {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    fn start(daemon: &Daemon, columns: u16, environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 25, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let mut command = command(&daemon.path(), arguments);
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm-256color");
        command.envs(environment.iter().copied());
        command
            .stdin(pty.slave.try_clone().unwrap())
            .stdout(pty.slave.try_clone().unwrap())
            .stderr(pty.slave);
        let child = command.spawn().unwrap();
        // The command holds the slave's ends; with it they go, and reading ends.
        drop(command);
        let seen = Arc::new(Mutex::new(String::new()));
        let mut screen = File::from(pty.master.try_clone().unwrap());
        let reader = std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = screen.read(&mut bytes) {
                    seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
                }
            }
        });
        OnTerminal { child, keyboard: File::from(pty.master), seen, reader }
    }

    /// Waits until `text` has been seen.
    fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.seen.lock().unwrap().contains(text) {
            let seen = self.seen.lock().unwrap().clone();
            assert!(began.elapsed() < Duration::from_secs(20), "{text:?} is not in {seen:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for its end: its exit code and all that was on the screen.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.reader.join().unwrap();
        let seen = self.seen.lock().unwrap().clone();
        (status, seen)
    }
}

/// `screen` without what moves and colours.
fn plain(screen: &str) -> String {
    let mut text = String::new();
    let mut rest = screen;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        text.push_str(before);
        let end = after.find(|sign: char| sign.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    text + rest
}

#[test]
fn colour_is_for_terminals_and_not_with_no_color() {
    let daemon = Daemon::start();
    let screen = |environment: &[(&str, &str)]| {
        let (status, screen) = OnTerminal::start(&daemon, 100, environment, &["targets", "fw"]).end();
        assert!(status.success());
        screen
    };
    let coloured = screen(&[]);
    assert!(coloured.contains('\u{1b}') && coloured.contains("unhealthy"), "{coloured:?}");
    let without = screen(&[("NO_COLOR", "1")]);
    assert!(!without.contains('\u{1b}') && without.contains("unhealthy"), "{without:?}");
    assert!(screen(&[("NO_COLOR", "")]).contains('\u{1b}'), "set to nothing it is not set");
}

#[test]
fn a_table_is_as_wide_as_the_terminal() {
    let daemon = Daemon::start();
    for columns in [60, 140] {
        let arguments = ["describe-target-health", "--target-group", "fw"];
        let terminal = OnTerminal::start(&daemon, columns, &[("NO_COLOR", "1")], &arguments);
        let (_, screen) = terminal.end();
        // The first line is a sentence.
        let widest = screen.lines().skip(1).map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(widest <= usize::from(columns), "{columns}: {screen}");
        // Where there is room it is used.
        assert_eq!(widest > 60, columns == 140, "{screen}");
    }
}

#[test]
fn a_drain_shows_a_bar_with_flows_and_seconds_left_and_wipes_it_off_t3() {
    let daemon = Daemon::start();
    let arguments = ["drain", "10.0.0.1", "--wait"];
    let terminal = OnTerminal::start(&daemon, 100, &[], &arguments);
    terminal.wait_for("10.0.0.1 drains: 125 flows left, 300s left");
    advance(&daemon, 100);
    terminal.wait_for("125 flows left, 200s left");
    terminal.wait_for("[========>");
    advance(&daemon, 200);
    let (status, screen) = terminal.end();
    assert!(status.success());
    assert!(plain(&screen).ends_with("10.0.0.1 is drained: it has no flows left.\r\n"), "{screen:?}");
    let last_bar = screen.rfind("00s left").unwrap();
    assert!(screen[last_bar..].contains("\u{1b}[2K"), "the bar is wiped off: {screen:?}");
}

#[test]
fn a_change_that_flows_would_feel_is_asked_about_on_a_terminal_first() {
    let daemon = Daemon::start();
    let resets = ["set", "fw", "send_tcp_reset.on_deregistration.enabled=true"];
    let (status, screen) = OnTerminal::start(&daemon, 100, &[], &resets).end();
    assert!(status.success() && !screen.contains("Go on?"), "no flow feels it: {screen}");
    let drain = |answer: Option<&str>, more: &[&str]| {
        let arguments = [&["drain", "10.0.0.1"], more].concat();
        let mut terminal = OnTerminal::start(&daemon, 100, &[], &arguments);
        if let Some(answer) = answer {
            terminal.wait_for("Go on? [y/N]");
            terminal.type_in(answer);
        }
        let (status, screen) = terminal.end();
        (status.code().unwrap(), plain(&screen))
    };
    for no in ["\n", "n\n", "yess\n", "\u{4}"] {
        let (code, screen) = drain(Some(no), &[]);
        assert_eq!(code, 5, "{no:?}: {screen}");
        assert!(screen.contains("10.0.0.1    125  drained, then reset"), "{screen}");
        assert!(screen.ends_with("flowgate: it was not done, as it was not wanted\r\n"), "{screen}");
    }
    let (code, screen) = drain(None, &["--dry-run"]);
    assert!(code == 0 && screen.contains("is deregistered and drains"), "nothing was done: {screen}");
    let (code, screen) = drain(Some("y\n"), &[]);
    assert!(code == 0 && screen.contains("10.0.0.1  draining"), "{screen}");
    // It drains already.
    let (code, screen) = drain(None, &[]);
    assert!(code == 0 && screen.starts_with("Nothing changed"), "{screen}");
}

#[test]
fn nobody_is_asked_with_yes_nor_where_there_is_no_terminal() {
    let daemon = Daemon::start();
    shown(&daemon, &["set", "fw", "send_tcp_reset.on_deregistration.enabled=true"]);
    let (status, screen) = OnTerminal::start(&daemon, 100, &[], &["drain", "10.0.0.1", "--yes"]).end();
    assert!(status.success() && !screen.contains("Go on?"), "{screen}");
    assert!(shown(&daemon, &["drain", "10.0.0.2"]).contains("10.0.0.2  draining"));
}

/// What is wanted is made of the state that was asked about: one that changed meanwhile is asked about again.
#[test]
fn a_change_of_somebody_else_while_it_is_asked_ends_it() {
    let daemon = Daemon::start();
    shown(&daemon, &["set", "fw", "send_tcp_reset.on_deregistration.enabled=true"]);
    let mut terminal = OnTerminal::start(&daemon, 100, &[], &["drain", "10.0.0.1"]);
    terminal.wait_for("Go on? [y/N]");
    shown(&daemon, &["register-targets", "--target-group", "spare", "--targets", "10.0.0.7"]);
    terminal.type_in("y\n");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(1));
    assert!(screen.contains("GenerationConflict"), "{screen}");
}
