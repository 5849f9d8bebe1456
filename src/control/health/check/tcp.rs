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
