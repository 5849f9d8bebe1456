//! Being asked to end: SIGINT, SIGTERM and SIGHUP as something to be waited for beside the daemon, so that a capture
//! ends with a whole file.

#![forbid(unsafe_code)]

use crate::cli::client::CliError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The signals, from when this was made.
pub(in crate::cli) struct Interrupts(SignalFd);

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Ready {
    /// The daemon has said something.
    Said,
    /// A signal came.
    Interrupted,
    /// Neither in time.
    TimedOut,
}

impl Interrupts {
    pub(in crate::cli) fn new() -> Result<Interrupts, CliError> {
        let broken = |errno: Errno| CliError::Broken(errno.into());
        let mut signals = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
        signals.thread_block().map_err(broken)?;
        SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map(Interrupts)
            .map_err(broken)
    }

    /// Waits until there is something to read, or for a signal; no `patience`: as long as it takes.
    pub(in crate::cli) fn wait(
        &self,
        daemon: BorrowedFd<'_>,
        patience: Option<Duration>,
    ) -> io::Result<Ready> {
        let mut fds =
            [PollFd::new(self.0.as_fd(), PollFlags::POLLIN), PollFd::new(daemon, PollFlags::POLLIN)];
        let timeout = patience.map_or(Ok(PollTimeout::NONE), PollTimeout::try_from);
        let timeout = timeout.unwrap_or(PollTimeout::MAX);
        loop {
            match poll(&mut fds, timeout) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(0) => return Ok(Ready::TimedOut),
                Ok(_) => break,
            }
        }
        let signalled = fds[0].any().unwrap_or(false);
        if signalled && self.0.read_signal().map_err(io::Error::from)?.is_some() {
            return Ok(Ready::Interrupted);
        }
        Ok(Ready::Said)
    }
}
