//! The terminal: taken when the view begins, given back as it was however the view ends.
//!
//! A frame is made whole and written at once; only cells that changed are in it. [`Screen::draw`] says how many
//! bytes that were.

#![forbid(unsafe_code)]

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Counted<io::Stdout>>>,
    written: Rc<Cell<usize>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let written = Rc::new(Cell::new(0));
        let out = Counted { out: io::stdout(), frame: Vec::new(), written: Rc::clone(&written) };
        let terminal = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(out)));
        // Whatever fails from here on, dropping gives it back.
        let terminal = terminal.inspect_err(|_| give_back())?;
        Ok(Screen { terminal, written })
    }

    /// Draws a frame. How many bytes the terminal was sent for it.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<usize> {
        self.written.set(0);
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw(area, frame.buffer_mut());
        })?;
        Ok(self.written.get())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back as it was, if it is ours.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // If the terminal is gone there is nothing to give back.
        execute!(io::stdout(), Show, LeaveAlternateScreen).ok();
        disable_raw_mode().ok();
    }
}

/// A panic is told on the terminal as it was before.
fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// Writes a frame at once when it is flushed, and counts.
struct Counted<W: Write> {
    out: W,
    frame: Vec<u8>,
    written: Rc<Cell<usize>>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.frame.is_empty() {
            self.out.write_all(&self.frame)?;
            self.written.set(self.written.get() + self.frame.len());
            self.frame.clear();
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{Winsize, openpty};
    use nix::sys::termios::{LocalFlags, tcgetattr};
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// Run by the test below in a process of its own, on a terminal of its own.
    #[test]
    #[ignore = "takes the terminal and panics"]
    fn a_view_that_panics() {
        let mut screen = Screen::open().unwrap();
        screen
            .draw(|area, buffer| {
                buffer.set_stringn(0, 0, "drawn", area.width.into(), ratatui::style::Style::new());
            })
            .unwrap();
        panic!("on purpose");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_told_on_it() {
        let size = Winsize { ws_row: 3, ws_col: 10, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "cli::top::terminal::tests::a_view_that_panics", "--ignored", "--nocapture"])
            .env("TERM", "xterm")
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
            .stdout(Stdio::from(pty.slave.try_clone().unwrap()))
            .stderr(Stdio::from(pty.slave.try_clone().unwrap()));
        let mut child = command.spawn().unwrap();
        drop(command);
        let reader = std::thread::spawn({
            let mut master = File::from(pty.master.try_clone().unwrap());
            move || {
                let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = master.read(&mut bytes) {
                    seen.extend_from_slice(&bytes[..count]);
                }
                String::from_utf8_lossy(&seen).into_owned()
            }
        });
        assert!(!child.wait().unwrap().success());
        let after = tcgetattr(&pty.slave).unwrap();
        assert_eq!(after.local_flags, before.local_flags);
        assert!(after.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO));
        drop(pty.slave);
        let seen = reader.join().unwrap();
        let (left, told) =
            (seen.rfind("\u{1b}[?1049l").expect("it left"), seen.find("on purpose").expect("told"));
        assert!(seen.contains("\u{1b}[?1049h") && seen.contains("drawn"), "{seen:?}");
        assert!(left < told, "told on the terminal as it was: {seen:?}");
        assert!(seen.rfind("\u{1b}[?25h") > seen.rfind("\u{1b}[?25l"), "the cursor is back: {seen:?}");
    }
}
