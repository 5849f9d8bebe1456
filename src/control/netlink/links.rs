//! Asking and setting links once. Every call waits for the kernel, which answers at once.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use serde::{Deserialize, Serialize};

use super::{family, link_name, messages, neighbour_address, own_address, reachability, request};
use crate::control::neighbours::Reachability;

/// A link of the kernel's; also as `flowgate doctor` records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What kind of virtual device it is, as the kernel calls it (`veth`, `bridge`); none: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it is up.
    pub up: bool,
    /// Whether frames pass: its carrier.
    pub carrier: bool,
    /// The largest IP packet that it carries, in bytes.
    pub mtu: u32,
    /// The number of the bridge or bond that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<u32>,
    /// The number of the link that it lies on, as a VLAN does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// The kernel's addresses on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

impl Link {
    /// Whether it is a tun or tap device.
    pub fn is_tap(&self) -> bool {
        self.kind.as_deref() == Some("tun")
    }
}

/// A neighbour as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The number of the link that it is on.
    pub link: u32,
    /// Its address.
    pub address: IpAddr,
    /// How far the kernel knows it.
    pub state: Reachability,
}

/// The way to ask.
pub struct Links {
    socket: Socket,
    sequence: u32,
}

impl Links {
    /// Opens it in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel has no such sockets to give.
    pub fn open() -> io::Result<Links> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        Ok(Links { socket, sequence: 0 })
    }

    /// Every link there is, with its addresses.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn all(&mut self) -> io::Result<Vec<Link>> {
        let mut links = Vec::new();
        for answer in self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)? {
            if let RouteNetlinkMessage::NewLink(link) = answer
                && let Some(name) = link_name(&link)
            {
                links.push(link_of(name, &link));
            }
        }
        for answer in self.ask(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)? {
            if let RouteNetlinkMessage::NewAddress(address) = answer
                && let Some(own) = own_address(&address)
                && let Some(link) = links.iter_mut().find(|link| link.index == address.header.index)
            {
                link.addresses.push(own);
            }
        }
        Ok(links)
    }

    /// The neighbours that the kernel knows or asks for.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn neighbours(&mut self) -> io::Result<Vec<Neighbour>> {
        let answers = self.ask(RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()), NLM_F_DUMP)?;
        let known = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewNeighbour(message) => Some(Neighbour {
                link: message.header.ifindex,
                address: neighbour_address(message)?,
                state: reachability(message.header.state)?,
            }),
            _ => None,
        });
        Ok(known.collect())
    }

    /// Whether a link that is up has a carrier now. Its operational state (`IFF_RUNNING`), which is what drivers go by, follows
    /// that within a second.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn has_carrier(&mut self, name: &str) -> io::Result<bool> {
        const CARRIER: LinkFlags = LinkFlags::Up.union(LinkFlags::LowerUp);
        let answers = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        Ok(answers.iter().any(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) if link_name(link) == Some(name) => {
                let flags = link.header.flags;
                flags.contains(CARRIER) && !flags.contains(LinkFlags::Dormant)
            }
            _ => false,
        }))
    }

    /// The number of a link.
    ///
    /// # Errors
    /// When the kernel does not tell, or there is none of that name.
    pub fn index(&mut self, name: &str) -> io::Result<u32> {
        let found = self.all()?.into_iter().find(|link| link.name == name);
        found.map(|link| link.index).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Gives a link its link-layer address and MTU, and sets it up.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_up(&mut self, index: u32, mac: [u8; 6], mtu: u16) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::Mtu(mtu.into())];
        self.ask(RouteNetlinkMessage::SetLink(link.clone()), NLM_F_ACK)?;
        link.attributes.clear();
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(link), NLM_F_ACK).map(drop)
    }

    /// Gives a link an address; one that it has already stays.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix_length: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_length;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags).map(drop)
    }

    /// Sends a request and gathers what is answered.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let bytes = request(message, NLM_F_REQUEST | flags, self.sequence);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            for message in messages(&datagram) {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(answer) if answer.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(answer) => return Err(answer.to_io()),
                    _ => {}
                }
            }
        }
    }
}

fn link_of(name: &str, message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: name.to_owned(),
        kind: None,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::LowerUp),
        mtu: 0,
        master: None,
        lower: None,
        addresses: Vec::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) => link.master = Some(*master),
            LinkAttribute::Link(lower) if *lower != link.index => link.lower = Some(*lower),
            LinkAttribute::LinkInfo(infos) => {
                let kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind),
                    _ => None,
                });
                link.kind = kind.map(ToString::to_string);
            }
            _ => {}
        }
    }
    link
}
