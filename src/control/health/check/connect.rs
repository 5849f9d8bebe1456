//! What every kind of check does first: a new connection, within the deadline, with the fault told
//! apart by whose it is. What the target or the way to it did is the target's failure; what this
//! node could not do for its own lack (sockets, ports, memory, the right) is `Elb.InternalError`.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use crate::control::health::state::{ReasonCode, StateReason};

/// The end of a check: one timeout over all its steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    /// `timeout` from now.
    pub(super) fn after(timeout: Duration) -> Self {
        Self { at: Instant::now() + timeout, timeout }
    }

    /// `step`'s output, if it comes by the deadline.
    pub(super) async fn within<T>(self, step: impl Future<Output = T>) -> Option<T> {
        timeout_at(self.at, step).await.ok()
    }

    /// `step`'s output, or that the check timed out with `missing` still missing.
    pub(super) async fn bound<T>(
        self,
        step: impl Future<Output = T>,
        missing: impl FnOnce() -> String,
    ) -> Result<T, StateReason> {
        self.within(step).await.ok_or_else(|| self.passed(missing()))
    }

    /// That the check timed out with `missing` still missing.
    pub(super) fn passed(self, missing: impl fmt::Display) -> StateReason {
        let within = format!("{missing} within {} ms", self.timeout.as_millis());
        StateReason::seen(ReasonCode::Timeout, within)
    }
}

/// A new connection to `target`, from `source` if one is given.
pub(super) async fn connect(
    target: SocketAddrV4,
    source: Option<Ipv4Addr>,
    deadline: Deadline,
) -> Result<TcpStream, StateReason> {
    let socket = open(source).map_err(|error| {
        let from = source.map(|source| format!(" from {source}")).unwrap_or_default();
        StateReason::seen(ReasonCode::InternalError, format!("no socket{from}: {error}"))
    })?;
    let connected = deadline.bound(socket.connect(target.into()), || format!("no connection to {target}"));
    connected
        .await?
        .map_err(|error| StateReason::seen(code_of(&error), format!("connect to {target}: {error}")))
}

fn open(source: Option<Ipv4Addr>) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    if let Some(source) = source {
        // Without this option `bind` takes a port away from every target at once, and the 28,000
        // there are do not last for 1,000 checks a second with closed ones a minute in TIME_WAIT.
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind(SocketAddrV4::new(source, 0).into())?;
    }
    Ok(socket)
}

/// Whose fault a failed `connect` is. "No route" stays the target's: a dead link looks so too, and a
/// guard against failures of all targets at once is R-11's.
fn code_of(error: &io::Error) -> ReasonCode {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ETIMEDOUT) => ReasonCode::Timeout,
        Some(
            Errno::EMFILE
            | Errno::ENFILE
            | Errno::ENOMEM
            | Errno::ENOBUFS
            | Errno::EADDRNOTAVAIL
            | Errno::EADDRINUSE
            | Errno::EACCES
            | Errno::EPERM
            | Errno::EINVAL,
        ) => ReasonCode::InternalError,
        _ => ReasonCode::FailedHealthChecks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_this_node_is_told_apart_from_one_of_the_target_h5() {
        use ReasonCode::{FailedHealthChecks, InternalError, Timeout};
        for (error, code) in [
            (Errno::ECONNREFUSED, FailedHealthChecks),
            (Errno::ECONNRESET, FailedHealthChecks),
            (Errno::EHOSTUNREACH, FailedHealthChecks),
            (Errno::ENETUNREACH, FailedHealthChecks),
            (Errno::ETIMEDOUT, Timeout),
            (Errno::EMFILE, InternalError),
            (Errno::ENFILE, InternalError),
            (Errno::ENOBUFS, InternalError),
            (Errno::EADDRNOTAVAIL, InternalError),
            (Errno::EPERM, InternalError),
        ] {
            assert_eq!(code_of(&error.into()), code, "{error}");
        }
        assert_eq!(code_of(&io::Error::other("no number")), FailedHealthChecks);
    }

    #[tokio::test(start_paused = true)]
    async fn one_timeout_is_over_all_steps_of_a_check_h3() {
        let began = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(150));
        let first = tokio::time::sleep(Duration::from_millis(100));
        assert_eq!(deadline.bound(first, String::new).await, Ok(()));
        let second = std::future::pending::<()>();
        let reason = deadline.bound(second, || "nothing".to_owned()).await.unwrap_err();
        assert_eq!(reason.description, "Request timed out: nothing within 150 ms");
        // The timer counts whole milliseconds and rounds up.
        assert!((150..=151).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_bound_socket_takes_no_port_before_it_connects() {
        let socket = open(Some(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(socket.local_addr().unwrap().port(), 0);
    }
}
