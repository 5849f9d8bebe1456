//! Routed endpoints over memory ports (O-4, W-6): the network is drawn in `network.rs`. Every frame that
//! goes in or must come out is put together here from its bytes.

mod errors;
mod garbage;
mod host;
mod neighbours;
mod way;

use std::net::IpAddr;

use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::id::InterfaceId;
use flowgate::io::PacketBuf;
use flowgate::wire::ethernet::MacAddr;

use crate::harness::*;
use crate::network::*;

/// The router towards the server's network, the one towards everything else, the client and a guest.
const NEAR_ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x53];
const FAR_ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0x54];
const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x9e];
/// The same of endpoint 1.
const OTHER_ROUTER: [u8; 6] = [2, 0, 0, 0, 1, 0x53];
const OTHER_CLIENT: [u8; 6] = [2, 0, 0, 0, 1, 0xc1];

const NO_TAG: &[u8] = &[];
const VLAN_100: &[u8] = &[0x81, 0x00, 0x00, 100];
const VLAN_101: &[u8] = &[0x81, 0x00, 0x00, 101];
const VLAN_200: &[u8] = &[0x81, 0x00, 0x00, 200];
const VLAN_7_300: &[u8] = &[0x88, 0xa8, 0x00, 7, 0x81, 0x00, 0x01, 0x2c];

/// A gateway in the routed network that knows nobody's link-layer address.
fn lonely(workers: u8, capacity: u32) -> Bench {
    let mut bench = Bench::with(3, workers, capacity);
    bench.network = Network::routed();
    bench.publish();
    bench
}

/// A gateway in the routed network that knows everybody's.
fn router(workers: u8) -> Bench {
    router_with(workers, 1024)
}

fn router_with(workers: u8, capacity: u32) -> Bench {
    let mut bench = lonely(workers, capacity);
    introduce(&mut bench);
    bench
}

/// Tells the workers of the neighbours that the network has.
pub fn introduce(bench: &mut Bench) {
    for (interface, address, mac) in [
        (CLIENTS, CLIENT, CLIENT_MAC),
        (CLIENTS, CLIENT6, CLIENT_MAC),
        (GUESTS, "100.64.0.9", GUEST_MAC),
        (SERVERS, "203.0.113.253", NEAR_ROUTER),
        (SERVERS, "203.0.113.254", FAR_ROUTER),
        (SERVERS, "fe80::53", NEAR_ROUTER),
        (OTHER_CLIENTS, CLIENT, OTHER_CLIENT),
        (OTHER_SERVERS, "203.0.113.253", OTHER_ROUTER),
    ] {
        tell(bench, interface, address, Some(mac));
    }
}

/// Tells every worker a neighbour's link-layer address, as the control core does.
fn tell(bench: &mut Bench, interface: InterfaceId, address: &str, mac: Option<[u8; 6]>) {
    let (address, mac) = (address.parse().unwrap(), mac.map(MacAddr));
    bench.tell(|| ToWorker::Neighbour { interface, address, mac });
}

/// A frame with these addresses and tags.
fn framed(to: [u8; 6], from: [u8; 6], tags: &[u8], ip: &[u8]) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend(tags);
    frame.extend(if ip[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(ip);
    frame
}

/// A packet of the client's as it arrives.
fn from_client(segment: &Segment) -> Vec<u8> {
    framed(LEFT_MAC, CLIENT_MAC, VLAN_100, &segment.ip())
}

/// A packet of the server's as it arrives.
fn from_server(segment: &Segment) -> Vec<u8> {
    framed(RIGHT_MAC, NEAR_ROUTER, NO_TAG, &segment.ip())
}

/// The packet after one router.
fn lowered(segment: &Segment) -> Vec<u8> {
    Segment { ttl: segment.ttl - 1, ..segment.clone() }.ip()
}

/// What the host was given since it was last asked.
fn hosted(bench: &mut Bench) -> Vec<(InterfaceId, Vec<u8>)> {
    let mut frames = Vec::new();
    for ring in &mut bench.to_host {
        while let Ok(frame) = ring.pop() {
            frames.push((frame.interface, frame.packet.bytes().to_vec()));
        }
    }
    frames
}

/// The next hops that workers asked for since it was last asked.
fn asked(bench: &mut Bench) -> Vec<(InterfaceId, IpAddr)> {
    let mut asked = Vec::new();
    bench.told.retain(|event| match event {
        FromWorker::Resolve { interface, address } => {
            asked.push((*interface, *address));
            false
        }
        _ => true,
    });
    asked
}

/// What an error quotes of a packet without options or extension headers: with `headers` in front it is as long as the packet
/// is, but has eight bytes behind the packet's IP header, and no more than `most` in all.
fn quote(about: &[u8], (headers, ip): (usize, usize), most: usize) -> &[u8] {
    let len = about.len().clamp(headers + ip + 8, most) - headers;
    &about[..len.min(about.len())]
}

/// An ICMP error of IPv4 (type, code) or IPv6 about a packet, as the RFCs draw it.
fn icmp_error(source: &str, four: [u8; 2], six: [u8; 2], rest: u32, about: &[u8]) -> Vec<u8> {
    match source.parse().unwrap() {
        IpAddr::V4(source) => {
            let quote = quote(about, (28, 20), 576);
            let mut icmp = [&four[..], &[0, 0], &rest.to_be_bytes(), quote].concat();
            let sum = checksum(&[&icmp]);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut ip = vec![0x45, 0xc0];
            ip.extend((20 + icmp.len() as u16).to_be_bytes());
            ip.extend([0, 0, 0x40, 0, 64, 1, 0, 0]);
            ip.extend(source.octets());
            ip.extend(&about[12..16]);
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            [ip, icmp].concat()
        }
        IpAddr::V6(source) => {
            let quote = quote(about, (48, 40), 1280);
            let mut icmp = [&six[..], &[0, 0], &rest.to_be_bytes(), quote].concat();
            let len = icmp.len() as u16;
            let addresses = [&source.octets()[..], &about[8..24]].concat();
            let sum = checksum(&[&addresses, &[0, 0], &len.to_be_bytes(), &[0, 0, 0, 58], &icmp]);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(len.to_be_bytes());
            ip.extend([58, 64]);
            [ip, addresses, icmp].concat()
        }
    }
}

fn time_exceeded(source: &str, about: &[u8]) -> Vec<u8> {
    icmp_error(source, [11, 0], [3, 0], 0, about)
}

fn no_route(source: &str, about: &[u8]) -> Vec<u8> {
    icmp_error(source, [3, 0], [1, 0], 0, about)
}

fn host_unreachable(source: &str, about: &[u8]) -> Vec<u8> {
    icmp_error(source, [3, 1], [1, 3], 0, about)
}
