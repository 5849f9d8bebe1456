//! Keeps the kernel from answering and forwarding what is ours.
//!
//! Where the kernel keeps the device below a port (`net_af_packet`), it sees every frame as well as we do:
//!
//! - An answer of an appliance goes to the tunnel address, which is one of the kernel's. As nobody listens on
//!   UDP 6081, the kernel would tell the appliance that the port is unreachable. A socket that is bound there
//!   and never read stops that: the kernel fills its small buffer and then drops silently.
//! - A client's packet comes to the link-layer address that is the kernel's too. If the kernel forwarded, the
//!   packet would arrive twice. So IPv4 forwarding is turned off on that device for as long as the daemon
//!   runs. The kernel has no such switch for IPv6, only one for all devices; if that is on, it is told.
//!
//! [`survey`] says what is found and what will be done, for `--check` and for the log.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use flowgate::control::netlink::{Link, Links};
use flowgate::control::node::NodeConfig;
use flowgate::control::survey::{self, Finding, forwards, ipv4_forwarding};
use flowgate::wire::geneve::UDP_PORT;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

/// What keeps the kernel out; dropped, everything is as it was.
pub struct Guard {
    /// The tunnel's port; an idle node has no tunnel.
    _socket: Option<OwnedFd>,
    /// Files of `/proc/sys` that were changed, and what was in them.
    changed: Vec<(PathBuf, String)>,
}

/// Why the kernel cannot be kept out.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The tunnel's port is somebody else's.
    #[error(
        "UDP {address}:{UDP_PORT}, the tunnel's address, cannot be kept from the kernel: {source}; another program uses it \
         (`ss -ulpn` says which)"
    )]
    Taken {
        /// The tunnel's address.
        address: Ipv4Addr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel does not let itself be told.
    #[error("IPv4 forwarding cannot be turned off on {device}: {source}")]
    Forwarding {
        /// The kernel's device.
        device: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl Guard {
    /// Guards the tunnel address, and the kernel's devices below ports of
    /// routed endpoints.
    pub fn new(config: &NodeConfig, links: &[Link]) -> Result<Guard, GuardError> {
        let tunnel = config.underlay.as_ref().map(|underlay| underlay.address.address);
        let mut guard = Guard { _socket: tunnel.map(hold_tunnel_port).transpose()?, changed: Vec::new() };
        for interface in config.interfaces().iter().filter(|known| forwards(known, links, &is_on)) {
            let device = &interface.host_interface;
            let key = Path::new("/proc/sys").join(ipv4_forwarding(device));
            fs::write(&key, "0")
                .map_err(|source| GuardError::Forwarding { device: device.clone(), source })?;
            guard.changed.push((key, "1".to_owned()));
        }
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for (key, before) in &self.changed {
            if let Err(error) = fs::write(key, before) {
                tracing::warn!(name: "kernel_key_not_put_back", key = %key.display(), before, %error, "a key of the kernel could not be put back");
            }
        }
    }
}

/// Binds the tunnel's port, whether its address is one of the kernel's now or may become so.
fn hold_tunnel_port(address: Ipv4Addr) -> Result<OwnedFd, GuardError> {
    let hold = || -> nix::Result<OwnedFd> {
        let held = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&held, sockopt::IpFreebind, &true)?;
        // The least that the kernel allows: what lies in it is never read.
        setsockopt(&held, sockopt::RcvBuf, &0)?;
        bind(held.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, UDP_PORT)))?;
        Ok(held)
    };
    hold().map_err(|errno| GuardError::Taken { address, source: errno.into() })
}

/// What the kernel has to do with each interface, and what will be done about it.
///
/// # Errors
/// When the kernel does not tell.
pub fn survey(config: &NodeConfig) -> io::Result<(Vec<Link>, Vec<Finding>)> {
    let links = Links::open()?.all()?;
    let findings = survey::survey(config, &links, &is_on);
    Ok((links, findings))
}

/// Whether a switch of the kernel's, named by its path below `/proc/sys`, is on.
fn is_on(key: &str) -> bool {
    fs::read_to_string(Path::new("/proc/sys").join(key)).is_ok_and(|value| value.trim() != "0")
}
