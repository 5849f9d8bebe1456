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
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use flowgate::control::netlink::{Link, Links};
use flowgate::control::node::{NodeConfig, NodeInterface};
use flowgate::wire::geneve::UDP_PORT;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

use super::host::is_shared;

/// What keeps the kernel out; dropped, everything is as it was.
pub struct Guard {
    _socket: OwnedFd,
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

/// One thing that was found.
pub struct Finding {
    /// It will not work as it is.
    pub is_fault: bool,
    /// What it is and what is done about it.
    pub text: String,
}

impl Guard {
    /// Guards the tunnel address, and the kernel's devices below ports of
    /// routed endpoints.
    pub fn new(config: &NodeConfig, links: &[Link]) -> Result<Guard, GuardError> {
        let mut guard =
            Guard { _socket: hold_tunnel_port(config.underlay.address.address)?, changed: Vec::new() };
        for interface in config.interfaces().iter().filter(|known| forwards(known, links)) {
            let device = &interface.host_interface;
            let key = ipv4_forwarding(device);
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

/// Whether the kernel sees the packets of a routed endpoint on this interface and would forward them.
fn forwards(interface: &NodeInterface, links: &[Link]) -> bool {
    interface.endpoint.is_some()
        && is_shared(interface, links)
        && is_on(ipv4_forwarding(&interface.host_interface))
}

fn ipv4_forwarding(device: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv4/conf/{device}/forwarding"))
}

fn is_on(key: impl AsRef<std::path::Path>) -> bool {
    fs::read_to_string(key).is_ok_and(|value| value.trim() != "0")
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
    let mut findings = Vec::new();
    for interface in config.interfaces() {
        look_at(&interface, &links, &mut |is_fault, text| {
            findings.push(Finding { is_fault, text: format!("{}: {text}", interface.name) });
        });
    }
    let tunnel = config.underlay.address.address;
    if links.iter().any(|link| link.addresses.contains(&tunnel.into())) {
        let text = format!(
            "the kernel has {tunnel} too; UDP {UDP_PORT} there is held, so that it does not answer for us"
        );
        findings.push(Finding { is_fault: false, text });
    }
    let shares_v6 = |interface: &NodeInterface| {
        let has_v6 = interface.addresses.iter().any(|own| own.address.is_ipv6());
        interface.endpoint.is_some() && has_v6 && is_shared(interface, &links)
    };
    if config.interfaces().iter().any(shares_v6) && is_on("/proc/sys/net/ipv6/conf/all/forwarding") {
        let text = "the kernel forwards IPv6, and what it sees of ours would arrive twice; set \
                    net.ipv6.conf.all.forwarding to 0"
            .to_owned();
        findings.push(Finding { is_fault: true, text });
    }
    Ok((links, findings))
}

fn look_at(interface: &NodeInterface, links: &[Link], find: &mut dyn FnMut(bool, String)) {
    let device = &interface.host_interface;
    let link = links.iter().find(|link| link.name == *device);
    match link {
        Some(link) if is_shared(interface, links) => {
            find(false, format!("the kernel keeps {device} and answers for the addresses on it"));
            if !link.up {
                find(true, format!("{device} is down; `ip link set {device} up`"));
            }
            for own in interface.addresses.iter().filter(|own| !link.addresses.contains(&own.address)) {
                find(
                    true,
                    format!(
                        "{device} lacks {own}, so that nobody answers for it; `ip address add {own} dev {device}`"
                    ),
                );
            }
            let has = |of: fn(&IpAddr) -> bool| link.addresses.iter().any(of);
            let asks_v6 = interface.addresses.iter().any(|own| own.address.is_ipv6());
            if asks_v6 && !has(|own| matches!(own, IpAddr::V6(own) if own.is_unicast_link_local())) {
                find(
                    true,
                    format!("{device} has no link-local address, from which IPv6 neighbours are asked for"),
                );
            }
            if forwards(interface, links) {
                find(
                    false,
                    format!("the kernel forwards IPv4 from {device}; while the daemon runs it does not"),
                );
            }
        }
        Some(link) if !link.is_tap => {
            find(
                true,
                format!("{device} is a device of the kernel's and no tap; give another host_interface"),
            );
        }
        Some(_) => find(false, format!("the tap {device} is there; it is given our addresses")),
        None if interface.kept_by_kernel && interface.vlans.is_empty() => {
            find(true, format!("{device}, which the kernel should keep below the port, is not there"));
        }
        None => {
            find(false, format!("a tap {device} is made, as the kernel does not see this interface's frames"))
        }
    }
}
