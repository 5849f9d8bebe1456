//! Keeps the kernel from answering and forwarding what is ours.
//!
//! Where the kernel keeps the device below a port (`net_af_packet`), it sees every frame as well as we do:
//!
//! - An answer of an appliance goes to the tunnel address, which is one of the kernel's. As nobody listens on
//!   UDP 6081, the kernel would tell the appliance that the port is unreachable. A socket that is bound there
//!   and never read stops that: the kernel fills its small buffer and then drops silently.
//! - A client's packet comes to the link-layer address that is the kernel's too. If the kernel forwarded, the
//!   packet would arrive twice. So IPv4 forwarding is turned off on that device for as long as the daemon
//!   runs (`forwarding`). The kernel has no such switch for IPv6, only one for all devices; if that is on, it is told.
//!
//! [`survey`] says what is found and what will be done, for `--check` and for the log.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use flowgate::control::netlink::{Link, Links};
use flowgate::control::node::NodeConfig;
use flowgate::control::survey::{self, Finding, forwards};
use flowgate::wire::geneve::UDP_PORT;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

use super::forwarding::Forwarding;

/// What keeps the kernel out; dropped, everything is as it was.
pub struct Guard {
    /// The tunnel's port; an idle node has no tunnel.
    _socket: Option<OwnedFd>,
    /// What was changed below `/proc/sys`.
    _forwarding: Forwarding,
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
        let socket = tunnel.map(hold_tunnel_port).transpose()?;
        let mut forwarding = Forwarding::noted(&config.state_directory);
        let interfaces = config.interfaces();
        let is_or_was_on = |switch: &str| is_on(switch) || forwarding.was_on(switch);
        let forward = interfaces.iter().filter(|known| forwards(known, links, &is_or_was_on));
        let devices: Vec<&str> = forward.map(|known| known.host_interface.as_str()).collect();
        forwarding
            .turn_off(&devices)
            .map_err(|(device, source)| GuardError::Forwarding { device, source })?;
        Ok(Guard { _socket: socket, _forwarding: forwarding })
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
