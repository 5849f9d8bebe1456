//! Keeps the kernel from answering what is ours.
//!
//! Where the kernel owns the tunnel address too (a port that the kernel keeps, as with `net_af_packet`),
//! it sees every answer of an appliance as well as we do and, as nobody listens on UDP 6081, would tell the
//! appliance that the port is unreachable. A socket that is bound there and never read stops that: the
//! kernel fills its small buffer and then drops silently.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use flowgate::wire::geneve::UDP_PORT;
use nix::sys::socket::{setsockopt, sockopt};

/// The socket; dropped, the kernel answers again.
pub struct Guard {
    _socket: Option<UdpSocket>,
}

/// The tunnel's port is somebody else's.
#[derive(Debug, thiserror::Error)]
#[error(
    "UDP {address}:{UDP_PORT}, the tunnel's address, cannot be kept from the kernel: {source}; another program uses it \
     (`ss -ulpn` says which)"
)]
pub struct GuardError {
    address: Ipv4Addr,
    source: io::Error,
}

impl Guard {
    /// Guards the tunnel address if it is one of the kernel's.
    pub fn new(address: Ipv4Addr) -> Result<Guard, GuardError> {
        match UdpSocket::bind((address, UDP_PORT)) {
            Ok(socket) => {
                // The least that the kernel allows: what lies in it is never read.
                setsockopt(&socket, sockopt::RcvBuf, &0)
                    .map_err(|errno| GuardError { address, source: errno.into() })?;
                tracing::info!(%address, "the kernel has the tunnel address too; it is kept from answering for us");
                Ok(Guard { _socket: Some(socket) })
            }
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(Guard { _socket: None }),
            Err(source) => Err(GuardError { address, source }),
        }
    }
}
