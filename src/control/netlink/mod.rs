//! The kernel's links, addresses and neighbour tables, over rtnetlink.
//!
//! [`watch`] follows them for as long as the daemon runs and carries questions to the kernel; what it
//! hears is judged in `neighbours`. [`Links`] asks and sets once, and waits: for the start, before anything
//! runs. Both speak of the network namespace that they were opened in.

mod links;
#[cfg(test)]
mod tests;
mod watch;

use std::net::IpAddr;

use netlink_packet_core::{NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::neighbours::Reachability;
pub use links::{Link, Links, Neighbour};
pub use watch::{News, Watched, watch};

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// A request as it goes out.
fn request(payload: RouteNetlinkMessage, flags: u16, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(payload));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The messages of a datagram. One that cannot be read (of a kernel newer than the library, say) is left
/// out.
fn messages(mut datagram: &[u8]) -> Vec<Message> {
    let mut all = Vec::new();
    while let Ok(header) = NetlinkBuffer::new_checked(datagram) {
        let length = usize::try_from(header.length()).unwrap_or(usize::MAX);
        match Message::deserialize(datagram.get(..length).unwrap_or_default()) {
            Ok(message) => all.push(message),
            Err(error) => {
                tracing::debug!(name: "netlink_not_understood", %error, "a netlink message was not understood")
            }
        }
        // Messages begin at multiples of four (NLMSG_ALIGNTO).
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// The name that a link message says.
fn link_name(message: &LinkMessage) -> Option<&str> {
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.as_str()),
        _ => None,
    })
}

/// The address of ours that an address message is about: on a link of two the other attribute is the
/// peer's.
fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The address that a neighbour message is about; none of a bridge's table, or of another family.
fn neighbour_address(message: &NeighbourMessage) -> Option<IpAddr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })
}

/// What the kernel says of a neighbour; none for what is no state of one that is asked for.
fn reachability(state: NeighbourState) -> Option<Reachability> {
    Some(match state {
        NeighbourState::Incomplete => Reachability::Incomplete,
        NeighbourState::Reachable => Reachability::Reachable,
        NeighbourState::Stale => Reachability::Stale,
        NeighbourState::Delay => Reachability::Delay,
        NeighbourState::Probe => Reachability::Probe,
        NeighbourState::Failed => Reachability::Failed,
        NeighbourState::Permanent | NeighbourState::Noarp => Reachability::Permanent,
        _ => return None,
    })
}
