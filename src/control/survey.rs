//! What the kernel has to do with the node's interfaces: where it shares a device with us it must have our addresses and
//! must not forward; elsewhere it is given a tap. The daemon's start and `flowgated --check` ask this, and
//! `flowgate doctor`; a function of the configuration, of the kernel's links and of its switches.

#![forbid(unsafe_code)]

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::netlink::Link;
use super::node::{NodeConfig, NodeInterface};
use crate::wire::geneve::UDP_PORT;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel keeps the device and answers for the addresses on it.
    Shared,
    /// A device is down.
    Down,
    /// The kernel lacks one of our addresses.
    AddressMissing,
    /// The kernel cannot ask for IPv6 neighbours.
    NoLinkLocal,
    /// The kernel forwards IPv4 from a device.
    ForwardsV4,
    /// The kernel forwards IPv6 from every device.
    ForwardsV6,
    /// The host interface is a device of the kernel's.
    NotATap,
    /// A tap is there, or is made.
    Tap,
    /// The device that the kernel should keep is not there.
    NoDevice,
    /// The kernel has the tunnel's address too.
    TunnelShared,
}

/// One thing that was found. Displays as a sentence, with the command that mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// It will not work as it is.
    pub is_fault: bool,
    /// The interface that it is about.
    pub interface: Option<String>,
    /// What it is and what is done about it.
    pub text: String,
    /// What mends it, if one command does.
    pub command: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(interface) = &self.interface {
            write!(f, "{interface}: ")?;
        }
        f.write_str(&self.text)?;
        match &self.command {
            Some(command) => write!(f, "; `{command}`"),
            None => Ok(()),
        }
    }
}

/// Whether the kernel sees an interface's frames by a device of its own: the one below the port, or one that
/// somebody put on that for the interface's VLAN.
#[must_use]
pub fn is_shared(interface: &NodeInterface, links: &[Link]) -> bool {
    let link = links.iter().find(|link| link.name == interface.host_interface);
    interface.kept_by_kernel && link.is_some_and(|link| !link.is_tap())
}

/// Whether the kernel sees the packets of a routed endpoint on this interface and would forward them.
/// `is_on` reads a switch by its path below `/proc/sys`.
pub fn forwards(interface: &NodeInterface, links: &[Link], is_on: &dyn Fn(&str) -> bool) -> bool {
    interface.endpoint.is_some()
        && is_shared(interface, links)
        && is_on(&ipv4_forwarding(&interface.host_interface))
}

/// The switch of a device's IPv4 forwarding, below `/proc/sys`.
#[must_use]
pub fn ipv4_forwarding(device: &str) -> String {
    format!("net/ipv4/conf/{device}/forwarding")
}

/// What the kernel has to do with each interface, and what the daemon does about it.
pub fn survey(config: &NodeConfig, links: &[Link], is_on: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for interface in config.interfaces() {
        look_at(&interface, links, is_on, &mut findings);
    }
    let tunnel = config.underlay.as_ref().map(|underlay| underlay.address.address);
    let is_kernels = |own: &Ipv4Addr| links.iter().any(|link| link.addresses.contains(&(*own).into()));
    if let Some(tunnel) = tunnel.filter(is_kernels) {
        findings.push(Finding {
            kind: Kind::TunnelShared,
            is_fault: false,
            interface: None,
            text: format!(
                "the kernel has {tunnel} too; UDP {UDP_PORT} there is held, so that it does not answer for us"
            ),
            command: None,
        });
    }
    let shares_v6 = |interface: &NodeInterface| {
        let has_v6 = interface.addresses.iter().any(|own| own.address.is_ipv6());
        interface.endpoint.is_some() && has_v6 && is_shared(interface, links)
    };
    if config.interfaces().iter().any(shares_v6) && is_on("net/ipv6/conf/all/forwarding") {
        findings.push(Finding {
            kind: Kind::ForwardsV6,
            is_fault: true,
            interface: None,
            text: "the kernel forwards IPv6, and what it sees of ours would arrive twice".to_owned(),
            command: Some("sysctl -w net.ipv6.conf.all.forwarding=0".to_owned()),
        });
    }
    findings
}

fn look_at(
    interface: &NodeInterface,
    links: &[Link],
    is_on: &dyn Fn(&str) -> bool,
    findings: &mut Vec<Finding>,
) {
    let device = &interface.host_interface;
    let mut find = |kind, is_fault, text: String, command: Option<String>| {
        findings.push(Finding { kind, is_fault, interface: Some(interface.name.clone()), text, command });
    };
    let link = links.iter().find(|link| link.name == *device);
    match link {
        Some(link) if is_shared(interface, links) => {
            let text = format!("the kernel keeps {device} and answers for the addresses on it");
            find(Kind::Shared, false, text, None);
            if !link.up {
                let command = format!("ip link set {device} up");
                find(Kind::Down, true, format!("{device} is down"), Some(command));
            }
            for own in interface.addresses.iter().filter(|own| !link.addresses.contains(&own.address)) {
                let text = format!("{device} lacks {own}, so that nobody answers for it");
                find(Kind::AddressMissing, true, text, Some(format!("ip address add {own} dev {device}")));
            }
            let has = |of: fn(&IpAddr) -> bool| link.addresses.iter().any(of);
            let asks_v6 = interface.addresses.iter().any(|own| own.address.is_ipv6());
            if asks_v6 && !has(|own| matches!(own, IpAddr::V6(own) if own.is_unicast_link_local())) {
                let text =
                    format!("{device} has no link-local address, from which IPv6 neighbours are asked for");
                find(Kind::NoLinkLocal, true, text, None);
            }
            if forwards(interface, links, is_on) {
                let text =
                    format!("the kernel forwards IPv4 from {device}; while the daemon runs it does not");
                find(Kind::ForwardsV4, false, text, None);
            }
        }
        Some(link) if !link.is_tap() => {
            let text =
                format!("{device} is a device of the kernel's and no tap; give another host_interface");
            find(Kind::NotATap, true, text, None);
        }
        Some(_) => {
            find(Kind::Tap, false, format!("the tap {device} is there; it is given our addresses"), None);
        }
        None if interface.kept_by_kernel && interface.vlans.is_empty() => {
            let text = format!("{device}, which the kernel should keep below the port, is not there");
            find(Kind::NoDevice, true, text, None);
        }
        None => {
            let text = format!("a tap {device} is made, as the kernel does not see this interface's frames");
            find(Kind::Tap, false, text, None);
        }
    }
}
