//! The kernel's side of the node's interfaces: its own device where it keeps one below the port, a tap of
//! ours elsewhere (`control::host`).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use flowgate::control::compile::InterfaceFacts;
use flowgate::control::host::{HostCounters, HostInterface, HostMover};
use flowgate::control::netlink::{Links, Watched};
use flowgate::control::node::{NodeConfig, NodeInterface};
use flowgate::control::survey::is_shared;
use flowgate::datapath::host::HostPort;
use flowgate::datapath::interfaces::{Interface, VlanTags};
use flowgate::id::{InterfaceId, PortId};
use flowgate::io::dpdk::{Mbuf, Port};
use flowgate::io::tap::Tap;
use flowgate::wire::ethernet::MacAddr;

use super::Refusal;
use super::devices::{self, Devices};

/// The kernel's side, ready to move frames.
pub struct Host {
    /// The interfaces, by [`InterfaceId`].
    pub interfaces: Vec<InterfaceFacts>,
    /// Moves frames between workers and taps; `None` if there are no taps.
    pub mover: Option<HostMover<Mbuf, Tap>>,
    /// The workers' ends of its rings.
    pub ports: Vec<HostPort<Mbuf>>,
    /// What is followed by netlink.
    pub watched: Vec<Watched>,
}

impl Host {
    /// Makes the taps, sets them up, and gives them their addresses.
    pub fn start(config: &NodeConfig, devices: &Devices) -> Result<Host, Refusal> {
        let mut links = Links::open()?;
        let known = links.all()?;
        let mut host = Host { interfaces: Vec::new(), mover: None, ports: Vec::new(), watched: Vec::new() };
        let mut taps = Vec::new();
        for (interface, id) in config.interfaces().iter().zip((0..).map(InterfaceId)) {
            let port = &devices.ports[interface.port];
            let shared = is_shared(interface, &known) && devices::host_shares(port.driver());
            let mut counters = None;
            if !shared {
                let link = tap(&mut links, interface, port)?;
                let passed = Arc::new(HostCounters::default());
                counters = Some(Arc::clone(&passed));
                taps.push(HostInterface { interface: id, link, counters: passed });
            }
            host.watched.push(Watched { link: interface.host_interface.clone(), interface: id });
            host.interfaces.push(facts(config, interface, port, shared, counters)?);
        }
        let workers = config.workers.cores.len();
        if taps.is_empty() {
            host.ports = (0..workers).map(|_| HostPort::none()).collect();
        } else {
            let pool = devices.host_pool.clone().ok_or("there is no pool for the host's packets")?;
            let (mover, ports) = HostMover::new(workers, taps, move |frame: &[u8]| pool.packet(frame));
            (host.mover, host.ports) = (Some(mover), ports);
        }
        Ok(host)
    }
}

fn facts(
    config: &NodeConfig,
    interface: &NodeInterface,
    port: &Port,
    host_shares: bool,
    host: Option<Arc<HostCounters>>,
) -> Result<InterfaceFacts, Refusal> {
    Ok(InterfaceFacts {
        name: interface.name.clone(),
        port_name: config.ports[interface.port].name.clone(),
        forwarding: Interface {
            port: PortId(u16::try_from(interface.port)?),
            tags: VlanTags::new(&interface.vlans).ok_or("a VLAN is out of range")?,
            mac: MacAddr(port.mac()),
            mtu: port.mtu(),
            endpoint: interface.endpoint,
            host_shares,
            locals: interface.addresses.iter().map(|own| own.address).collect(),
        },
        addresses: interface.addresses.clone(),
        host_interface: interface.host_interface.clone(),
        host,
    })
}

/// Makes an interface's tap, with the port's link-layer address and the interface's addresses.
fn tap(links: &mut Links, interface: &NodeInterface, port: &Port) -> Result<Tap, Refusal> {
    let tap = Tap::open(&interface.host_interface)?;
    let name = tap.name();
    let index = links.index(name)?;
    let has_v6 = interface.addresses.iter().any(|own| own.address.is_ipv6());
    for (key, value) in [
        // What arrives for others is the data path's and never the kernel's to forward.
        ("ipv4", "forwarding", "0"),
        // It answers for this interface's addresses only, not for those of its other links.
        ("ipv4", "arp_ignore", "1"),
        ("ipv6", "disable_ipv6", if has_v6 { "0" } else { "1" }),
        // The kernel asks for IPv6 neighbours from a link-local address: without one it does not ask.
        ("ipv6", "addr_gen_mode", "0"),
        // The routes of the client's network are not for the host to learn.
        ("ipv6", "accept_ra", "0"),
    ]
    .map(|(family, key, value)| (PathBuf::from(format!("/proc/sys/net/{family}/conf/{name}/{key}")), value))
    {
        // A kernel without IPv6 has no such keys; if it is needed after all, the address is refused below.
        if let Err(error) = fs::write(&key, value) {
            tracing::debug!(name: "kernel_key_not_set", key = %key.display(), %error, "a key of the kernel could not be set");
        }
    }
    links
        .set_up(index, port.mac(), port.mtu())
        .map_err(|error| format!("the tap {name} cannot be set up: {error}"))?;
    for own in &interface.addresses {
        links
            .add_address(index, own.address, own.prefix_length)
            .map_err(|error| format!("the tap {name} cannot be given the address {own}: {error}"))?;
    }
    tracing::info!(name: "tap_set_up", interface = %interface.name, host_interface = name, "a tap is set up");
    Ok(tap)
}
