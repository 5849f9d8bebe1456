//! `flowgate top` on a terminal: what is to be seen, what keys do, and that the terminal is given back.

use crate::client::Client;
use crate::command_line::{command, refused, shown};
use crate::fake::Daemon;
use crate::screen::Grid;
use flowgate::control::events::{Event, Timestamp, What};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A process that ends with its test, also with one that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The view on a terminal of its own.
struct View {
    child: Running,
    keyboard: File,
    size: (u16, u16),
    terminal: OwnedFd,
    before: Termios,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl View {
    fn start(path: &Path, size: (u16, u16), environment: &[(&str, &str)], more: &[&str]) -> View {
        let winsize = Winsize { ws_row: size.1, ws_col: size.0, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&winsize), None).unwrap();
        let mut command = command(path, &[&["top"], more].concat());
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm-256color");
        command.envs(environment.iter().copied());
        command
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
            .stdout(Stdio::from(pty.slave.try_clone().unwrap()))
            .stderr(Stdio::from(pty.slave.try_clone().unwrap()));
        let before = tcgetattr(&pty.slave).unwrap();
        let child = Running(command.spawn().unwrap());
        drop(command);
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut master = File::from(pty.master.try_clone().unwrap());
        let reader = std::thread::spawn({
            let written = Arc::clone(&written);
            move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = master.read(&mut bytes) {
                    written.lock().unwrap().extend_from_slice(&bytes[..count]);
                }
            }
        });
        View { child, keyboard: File::from(pty.master), size, terminal: pty.slave, before, written, reader }
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn screen(&self) -> String {
        Grid::of(self.size.0, self.size.1, &self.written()).text()
    }

    /// Waits until the screen has `text`, and returns it.
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "waited in vain for {what:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end, and checks that the terminal is as it was.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.0.wait().unwrap();
        let after = tcgetattr(&self.terminal).unwrap();
        assert_eq!(after.local_flags, self.before.local_flags);
        assert!(after.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO));
        drop(self.terminal);
        self.reader.join().unwrap();
        let written = String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned();
        (status, written)
    }
}

/// That the screen which was there before is there again, with its cursor.
fn assert_given_back(written: &str) {
    assert!(written.contains("\u{1b}[?1049h"), "it had a screen of its own");
    let (shown, hidden) = (written.rfind("\u{1b}[?25h"), written.rfind("\u{1b}[?25l"));
    assert!(shown > hidden, "the cursor is back");
    let left = written.rfind("\u{1b}[?1049l").expect("it left its screen");
    let after = written[left..].trim_start_matches("\u{1b}[?1049l").trim_start_matches("\u{1b}[?25h");
    assert_eq!(after, "", "nothing is drawn on the screen from before");
}

#[test]
fn the_view_says_what_is_wrong_first_and_gives_the_terminal_back() {
    let daemon = Daemon::start();
    let mut view = View::start(&daemon.path(), (80, 24), &[], &["--interval", "100ms"]);
    // Rates need two readings.
    let screen =
        view.wait_until("rates", |screen| screen.contains("packets/s") && !screen.contains("- packets/s"));
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("flowgate "), "{screen}");
    assert!(
        lines[2].starts_with("!! fw/10.0.0.2 is unhealthy (Request timed out): its flows hang; for 1m 0s"),
        "{screen}"
    );
    let place = |word: &str| {
        lines.iter().position(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}:\n{screen}"))
    };
    let order = ["!! fw/10.0.0.2", "LOAD BALANCER", "TARGET ", "WORKER", "EVENTS", "q quit"].map(place);
    assert!(order.is_sorted(), "{order:?}\n{screen}");
    assert!(
        lines.iter().any(|line| line.starts_with("! 10.0.0.2") || line.contains("! fw/10.0.0.2")),
        "{screen}"
    );
    assert!(view.written().contains("\u{1b}[38;5;"), "there is colour");
    daemon
        .happen(vec![Event { at: Timestamp::from_unix_ms(0), what: What::ConfigChanged { generation: 77 } }]);
    view.wait_for("config  generation 77");
    view.press("q");
    let (status, written) = view.end();
    assert!(status.success());
    assert_given_back(&written);
}

#[test]
fn a_target_is_found_opened_and_drained_after_a_question() {
    let daemon = Daemon::start();
    shown(&daemon, &["set", "fw", "send_tcp_reset.on_deregistration.enabled=true"]);
    let mut view = View::start(&daemon.path(), (80, 24), &[], &["--interval", "100ms"]);
    view.wait_for("fw/10.0.0.1");
    view.press("/gw 0.1\r");
    view.wait_until("one target", |screen| {
        screen.contains("[1 with 'gw 0.1']") && !screen.contains("? fw/10.0.0.3")
    });
    view.press("\r");
    let screen = view.wait_for("WHAT HAPPENED TO IT");
    for said in [
        "fw/10.0.0.1 of gw",
        "HTTP 8080 /up every 5s",
        "100 made, 0 failed",
        "if it dies 100 TCP flows",
        "zone a",
    ] {
        assert!(screen.contains(said), "{said:?}:\n{screen}");
    }
    view.press("\u{1b}");
    view.wait_for("q quit  ? help");
    view.press("\u{1b}");
    view.wait_for("? fw/10.0.0.3");
    view.press("\r");
    // The first of the list: the one that is wrong.
    let screen = view.wait_for("failover   7 at 20:47:37.007, unhealthy: of 125 flows 96 reset");
    assert!(screen.contains("fw/10.0.0.2 of gw"), "{screen}");
    view.press("\u{1b}");
    view.wait_for("q quit  ? help");
    view.press("/gw 0.1\r");
    view.wait_for("[1 with 'gw 0.1']");
    view.press("d");
    let screen = view.wait_for("Drain fw/10.0.0.1?");
    assert!(screen.contains("fw/10.0.0.1: 125 flows would be drained, then reset."), "{screen}");
    view.press("n");
    view.wait_for("nothing was done");
    let generation = || {
        Client::connect(&daemon.path()).call("get-overview", json!({})).unwrap()["Node"]["Generation"].clone()
    };
    assert_eq!(generation(), 1);
    view.press("d");
    view.wait_for("Drain fw/10.0.0.1?");
    view.press("y");
    view.wait_for("fw/10.0.0.1 drains: it is given no new flows");
    assert_eq!(generation(), 2);
    let screen = view.wait_for("DRAINS");
    assert!(screen.contains("fw/10.0.0.1: 125 flows left, 5m 0s left"), "{screen}");
    view.press("d");
    view.wait_for("drains already");
    view.press("\u{3}");
    let (status, written) = view.end();
    assert!(status.success());
    assert_given_back(&written);
}

#[test]
fn a_signal_ends_the_view_and_the_terminal_is_given_back() {
    let daemon = Daemon::start();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let view = View::start(&daemon.path(), (80, 24), &[], &[]);
        view.wait_for("fw/10.0.0.1");
        kill(Pid::from_raw(i32::try_from(view.child.0.id()).unwrap()), signal).unwrap();
        let (status, written) = view.end();
        assert!(status.success(), "{signal}: {status}");
        assert_given_back(&written);
    }
}

#[test]
fn without_colour_everything_is_said_in_words() {
    let daemon = Daemon::start();
    let mut view = View::start(&daemon.path(), (80, 24), &[("NO_COLOR", "1")], &[]);
    let screen = view.wait_for("fw/10.0.0.2");
    assert!(screen.contains("!! fw/10.0.0.2 is unhealthy") && screen.contains("! fw/10.0.0.2"), "{screen}");
    view.press("q");
    let (_, written) = view.end();
    for sequence in written.split("\u{1b}[").skip(1) {
        let Some((numbers, _)) = sequence
            .split_once('m')
            .filter(|(numbers, _)| numbers.chars().all(|sign| sign.is_ascii_digit() || sign == ';'))
        else {
            continue;
        };
        let first: u32 = numbers.split(';').next().unwrap().parse().unwrap_or(0);
        assert!(matches!(first, 0 | 1 | 7 | 22 | 27 | 39 | 49 | 59), "{numbers} is a colour");
    }
}

#[test]
fn where_it_cannot_draw_it_says_so_in_a_sentence() {
    let daemon = Daemon::start();
    let (code, said) = refused(&daemon.path(), &["top"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "flowgate: standard output is no terminal: use --once for one frame of it as text\n")
    );
    let view = View::start(&daemon.path(), (80, 24), &[("TERM", "dumb")], &[]);
    let (status, written) = view.end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(
        written,
        "flowgate: this terminal cannot be drawn on (TERM says so): use --once for one frame of it as text\r\n"
    );
    let nobody = daemon.folder().join("nobody.sock");
    assert_eq!(refused(&nobody, &["top"]).0, 3);
}

#[test]
fn one_frame_of_it_is_text_or_json() {
    let daemon = Daemon::start();
    let once = ["top", "--once", "--interval", "100ms"];
    let frame = shown(&daemon, &once);
    assert!(!frame.contains('\u{1b}'), "{frame:?}");
    for said in ["!! fw/10.0.0.2 is unhealthy", "gw -> fw", "fw/10.0.0.3", "WORKER", "packets/s"] {
        assert!(frame.contains(said), "{said:?}:\n{frame}");
    }
    assert!(!frame.contains("- packets/s"), "with rates:\n{frame}");
    let overview: serde_json::Value =
        serde_json::from_str(&shown(&daemon, &["top", "--once", "--json"])).unwrap();
    assert_eq!(overview["TargetGroups"][0]["Targets"][1]["State"], "unhealthy");
    let state = ["top", "--output", "text", "--query", "TargetGroups[0].Targets[1].State"];
    assert_eq!(shown(&daemon, &state), "unhealthy\n");
}

#[test]
fn a_daemon_that_is_gone_is_said_to_be_and_found_again() {
    let mut first = Daemon::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    std::os::unix::fs::symlink(first.path(), &path).unwrap();
    let mut view = View::start(&path, (80, 24), &[], &["--interval", "100ms"]);
    view.wait_for("fw/10.0.0.1");
    first.stop();
    let screen = view.wait_for("NO DAEMON");
    assert!(
        screen.contains("trying again") && screen.contains("fw/10.0.0.1"),
        "what was known stays:\n{screen}"
    );
    let second = Daemon::start();
    shown(&second, &["register-targets", "--target-group", "spare", "--targets", "10.0.0.99"]);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(second.path(), &path).unwrap();
    view.wait_until("the other daemon", |screen| {
        !screen.contains("NO DAEMON") && screen.contains("spare/10.0.0.99")
    });
    second
        .happen(vec![Event { at: Timestamp::from_unix_ms(0), what: What::ConfigChanged { generation: 78 } }]);
    view.wait_for("generation 78");
    view.press("q");
    assert_given_back(&view.end().1);
}

#[test]
fn however_small_the_terminal_is_what_matters_is_on_it() {
    let daemon = Daemon::start();
    for size in [(10, 3), (1, 1), (36, 8), (400, 100)] {
        let mut view = View::start(&daemon.path(), size, &[], &["--interval", "100ms"]);
        if size == (10, 3) {
            let screen = view.wait_for("1/3 in");
            assert_eq!(screen.lines().count(), 3);
            assert!(screen.contains("1 wrong"), "{screen}");
            // What is asked is seen before it is answered.
            view.press("d");
            view.wait_for("drain? y/n");
            view.press("n");
        } else {
            view.wait_until("anything", |screen| !screen.trim().is_empty());
        }
        view.press("q");
        let (status, written) = view.end();
        assert!(status.success(), "{size:?}");
        assert_given_back(&written);
    }
}

/// A line of 128 kbit/s is enough, whatever happens.
#[test]
fn what_the_terminal_is_sent_is_bounded_in_a_flood_of_events() {
    let daemon = Daemon::start();
    let mut view = View::start(&daemon.path(), (80, 24), &[], &["--interval", "100ms"]);
    view.wait_for("fw/10.0.0.1");
    let before = view.written.lock().unwrap().len();
    let began = Instant::now();
    let mut generation = 0;
    while began.elapsed() < Duration::from_secs(3) {
        let event = |generation| Event { at: Timestamp::now(), what: What::ConfigChanged { generation } };
        daemon.happen((generation..generation + 100).map(event).collect());
        generation += 100;
        std::thread::sleep(Duration::from_millis(10));
    }
    let seconds = began.elapsed().as_secs_f64();
    let sent = view.written.lock().unwrap().len() - before;
    #[expect(clippy::cast_precision_loss, reason = "some kilobytes")]
    let a_second = sent as f64 / seconds;
    println!(
        "{a_second:.0} bytes/s at {:.0} events/s and ten readings a second",
        generation as f64 / seconds
    );
    assert!(a_second < 16_384.0 + 4096.0 / seconds, "{a_second}");
    assert!(sent > 0);
    view.press("q");
    assert_given_back(&view.end().1);
}
