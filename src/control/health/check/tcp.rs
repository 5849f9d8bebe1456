//! The TCP check (H-1): a target that completes the handshake is healthy. Nothing is sent and
//! nothing is read; the connection is closed at once (H-3).

use std::net::{Ipv4Addr, SocketAddrV4};

use super::connect::{Deadline, connect};
use crate::control::health::state::StateReason;

/// `Ok` if a connection was made by the deadline.
pub(super) async fn check(
    target: SocketAddrV4,
    source: Option<Ipv4Addr>,
    deadline: Deadline,
) -> Result<(), StateReason> {
    connect(target, source, deadline).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::super::peer::{Peer, full, nobody};
    use super::*;
    use crate::control::health::state::ReasonCode;

    async fn check_within(target: SocketAddrV4, timeout_ms: u64) -> Result<(), StateReason> {
        check(target, None, Deadline::after(Duration::from_millis(timeout_ms))).await
    }

    fn seen(code: ReasonCode, description: String) -> Result<(), StateReason> {
        Err(StateReason { code, description })
    }

    #[tokio::test]
    async fn a_target_that_accepts_and_closes_is_healthy_h1() {
        let peer = Peer::serve(drop);
        assert_eq!(check_within(peer.address, 5_000).await, Ok(()));
        peer.end();
    }

    #[tokio::test]
    async fn the_connection_is_closed_after_the_answer_h3() {
        let peer = Peer::serve(|mut stream| assert_eq!(stream.read(&mut [0]).unwrap(), 0));
        assert_eq!(check_within(peer.address, 5_000).await, Ok(()));
        peer.end();
    }

    #[tokio::test]
    async fn a_target_that_refuses_has_failed_with_the_connect_error_h5() {
        let target = nobody();
        assert_eq!(
            check_within(target, 5_000).await,
            seen(
                ReasonCode::FailedHealthChecks,
                format!("Health checks failed: connect to {target}: Connection refused (os error 111)")
            )
        );
    }

    #[tokio::test]
    async fn a_target_that_is_silent_times_out_with_the_time_waited_h5() {
        let hole = full().await;
        let began = std::time::Instant::now();
        assert_eq!(
            check_within(hole.address, 150).await,
            seen(
                ReasonCode::Timeout,
                format!("Request timed out: no connection to {} within 150 ms", hole.address)
            )
        );
        let took = began.elapsed().as_millis();
        // The upper bound is generous: other tests run at the same time.
        assert!((150..1_000).contains(&took), "{took} ms");
    }

    // H-3
    #[tokio::test]
    async fn a_check_comes_from_the_source_address_it_was_given() {
        let peer = Peer::serve(|stream| {
            assert_eq!(stream.peer_addr().unwrap().ip(), Ipv4Addr::new(127, 0, 0, 9));
        });
        let deadline = Deadline::after(Duration::from_secs(5));
        let source = Some(Ipv4Addr::new(127, 0, 0, 9));
        assert_eq!(check(peer.address, source, deadline).await, Ok(()));
        peer.end();
    }

    #[tokio::test]
    async fn a_source_address_that_is_not_ours_is_no_fault_of_the_target_h5() {
        let deadline = Deadline::after(Duration::from_secs(5));
        let source = Some(Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(
            check(nobody(), source, deadline).await,
            seen(
                ReasonCode::InternalError,
                "Health checks failed due to an internal error: no socket from 192.0.2.1: Cannot assign \
                 requested address (os error 99)"
                    .to_owned()
            )
        );
    }
}
