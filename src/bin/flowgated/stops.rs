//! The signals that end the daemon, and the one that has it read its configuration anew.

use std::io::{self, IsTerminal as _};

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the daemon.
pub struct Stops {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    /// A daemon that somebody runs on a terminal ends with it.
    hangup: Option<Signal>,
}

/// SIGHUP, where it means that the configuration is to be read anew: where there is no terminal that could go.
pub struct Hangups(Option<Signal>);

impl Stops {
    /// From now on signals no longer end the process by themselves.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(runtime: &Runtime) -> io::Result<(Stops, Hangups)> {
        let _within = runtime.enter();
        let hangup = signal(SignalKind::hangup())?;
        let (stops, reloads) =
            if io::stderr().is_terminal() { (Some(hangup), None) } else { (None, Some(hangup)) };
        let stops = Stops {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: stops,
        };
        Ok((stops, Hangups(reloads)))
    }

    /// Waits for any of them; returns its name.
    pub async fn any(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
            () = next(self.hangup.as_mut()) => "SIGHUP",
        }
    }
}

impl Hangups {
    /// Waits for the next one.
    pub async fn next(&mut self) {
        next(self.0.as_mut()).await;
    }
}

async fn next(signal: Option<&mut Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending().await
    }
}
