//! `flowgate capture`: live packets into a pcapng file, or a line each.
//!
//! The daemon sends whole blocks of the file; here they are written, read once more for the lines, and counted. It ends
//! by the daemon's bounds, by a signal (the file is then complete too), or when the file cannot be written: then it
//! is told what was kept, which is whole.

#![forbid(unsafe_code)]

mod blocks;
mod file;
mod interrupt;
mod lines;

use super::Session;
use super::arguments::CaptureFlags;
use super::client::{CaptureNotice, CliError};
use crate::control::socket::views::{CaptureEnded, CaptureTotals};
use file::Sink;
use indicatif::{ProgressBar, ProgressDrawTarget};
pub(super) use interrupt::{Interrupts, Ready};
use lines::Lines;
use std::io::{self, IsTerminal, Write};

/// Captures until it is over.
pub(super) fn run(session: &mut Session, flags: &CaptureFlags) -> Result<(), CliError> {
    let to_stdout = flags.write.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if to_stdout && flags.print {
        return Err(CliError::Misnamed(
            "--print and --write - would mix on standard output: give one of them".into(),
        ));
    }
    if to_stdout && io::stdout().is_terminal() {
        return Err(CliError::Misnamed("--write - is for a pipe, such as into wireshark -k -i -".into()));
    }
    // Before anything is asked for, so that nothing is captured in vain.
    let mut sink = flags.write.as_deref().map(Sink::open).transpose()?;
    let interrupts = Interrupts::new()?;
    let prints = flags.print || sink.is_none();
    session.client.call("capture", &flags.params())?;
    let mut lines = Lines::default();
    let shown_here = prints && io::stdout().is_terminal();
    let progress = (sink.is_some() && !shown_here).then(Progress::new);
    let mut stopping = false;
    let mut totals = CaptureTotals::default();
    let ended = loop {
        match session.client.next_of_capture(&interrupts, stopping) {
            Ok(CaptureNotice::Interrupted) if stopping => {
                return Err(kept(sink, totals, CliError::Interrupted));
            }
            Ok(CaptureNotice::Interrupted) => {
                stopping = true;
                session.client.send("stop-capture")?;
            }
            Ok(CaptureNotice::Captured { bytes, totals: now }) => {
                if let Some(sink) = &mut sink {
                    sink.write(&bytes)?;
                }
                totals = now;
                if prints {
                    lines.print(&bytes, session)?;
                }
                if let Some(progress) = &progress {
                    progress.show(&totals);
                }
            }
            Ok(CaptureNotice::Ended(ended)) => break ended,
            Err(error) => return Err(kept(sink, totals, error)),
        }
    };
    drop(progress);
    say(&summary(&ended, sink.as_ref()));
    Ok(())
}

/// The error, and what is in the file in spite of it.
fn kept(sink: Option<Sink>, totals: CaptureTotals, error: CliError) -> CliError {
    if let Some(sink) = sink {
        say(&format!("{} packets are in {}", totals.packets, sink.name()));
    }
    error
}

/// What is said at the end.
fn summary(ended: &CaptureEnded, sink: Option<&Sink>) -> String {
    let CaptureEnded { reason, totals } = ended;
    let place = sink.map_or_else(String::new, |sink| format!(" in {}", sink.name()));
    let lost = lost(totals).map(|lost| format!("; {lost}")).unwrap_or_default();
    let size = totals.bytes;
    format!("{} packets captured{place}, {size} bytes ({reason}){lost}", totals.packets)
}

/// What was asked for and not captured, if there is any.
fn lost(totals: &CaptureTotals) -> Option<String> {
    let over = (totals.over_rate > 0).then(|| format!("{} over the rate (--rate)", totals.over_rate));
    let unread = (totals.unread > 0).then(|| format!("{} as this reader was too slow", totals.unread));
    let parts: Vec<String> = over.into_iter().chain(unread).collect();
    (!parts.is_empty()).then(|| format!("not captured: {}", parts.join(", ")))
}

fn say(text: &str) {
    // With standard error closed there is nobody to tell.
    writeln!(io::stderr(), "{text}").ok();
}

/// How far it has come, on standard error, if that is a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Progress(bar)
    }

    fn show(&self, totals: &CaptureTotals) {
        let lost = lost(totals).map(|lost| format!("; {lost}")).unwrap_or_default();
        self.0.set_message(format!("{} packets, {} bytes{lost}", totals.packets, totals.bytes));
        self.0.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::socket::views::CaptureEnd;

    #[test]
    fn the_end_says_how_much_there_is_why_and_what_is_missing() {
        let totals = CaptureTotals { packets: 3, bytes: 900, over_rate: 0, unread: 0 };
        let ended = CaptureEnded { reason: CaptureEnd::Stopped, totals };
        assert_eq!(summary(&ended, None), "3 packets captured, 900 bytes (stopped)");
        let lossy = CaptureTotals { over_rate: 7, unread: 2, ..totals };
        let ended = CaptureEnded { reason: CaptureEnd::Bytes, totals: lossy };
        let expected = "3 packets captured, 900 bytes (as large as it may be); \
            not captured: 7 over the rate (--rate), 2 as this reader was too slow";
        assert_eq!(summary(&ended, None), expected);
    }
}
