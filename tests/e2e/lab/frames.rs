//! Frames made by hand, for what no kernel socket would send: broken, tagged, or out of the blue.
//! Built here and not by `flowgate::wire`, so that a mistake there cannot hide itself.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, sendmsg, socket};

use super::capture::ones_sum;
use super::netns::Netns;

/// A TCP packet to be built. Every length and checksum is right unless changed afterwards.
#[derive(Clone, Debug)]
pub struct TcpFrame {
    pub source_mac: [u8; 6],
    pub destination_mac: [u8; 6],
    /// Tag control information of each 802.1Q tag, the outermost first.
    pub vlans: Vec<u16>,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
}

impl TcpFrame {
    /// The frame from its Ethernet header on.
    pub fn build(&self) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.source.port().to_be_bytes());
        segment.extend(self.destination.port().to_be_bytes());
        segment.extend(self.seq.to_be_bytes());
        segment.extend(self.ack.to_be_bytes());
        segment.extend([5 << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(&self.payload);
        let length = u16::try_from(segment.len()).expect("a test's payload is short");

        let mut frame = Vec::new();
        frame.extend(self.destination_mac);
        frame.extend(self.source_mac);
        for vlan in &self.vlans {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        let pseudo = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0x45, 0];
                header.extend((20 + length).to_be_bytes());
                header.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0]);
                header.extend(source.octets());
                header.extend(destination.octets());
                let sum = !ones_sum([header.as_slice()]);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend([0x08, 0x00]);
                frame.extend(&header);
                [&header[12..20], &[0, 6], &length.to_be_bytes()].concat()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(length.to_be_bytes());
                frame.extend([6, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                [&source.octets()[..], &destination.octets(), &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 6]]
                    .concat()
            }
            mixed => panic!("one packet has one family, not {mixed:?}"),
        };
        let sum = !ones_sum([pseudo.as_slice(), segment.as_slice()]);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        frame.extend(segment);
        frame
    }
}

/// Puts the right checksum into the IPv4 header that starts at `at` (after a test changed it).
pub fn fix_ipv4_checksum(frame: &mut [u8], at: usize) {
    frame[at + 10..at + 12].fill(0);
    let header = usize::from(frame[at] & 15) * 4;
    let sum = !ones_sum([&frame[at..at + header]]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Sends one frame out of `interface` of `netns` as it is.
pub fn send_frame(netns: &Netns, interface: &str, frame: &[u8]) {
    netns.run(|| {
        let to = getifaddrs()
            .expect("interfaces can be listed")
            .filter(|found| found.interface_name == interface)
            .find_map(|found| found.address?.as_link_addr().copied())
            .unwrap_or_else(|| panic!("{} has no interface {interface}", netns.name()));
        let raw = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .expect("a packet socket needs root");
        let sent = sendmsg(raw.as_raw_fd(), &[IoSlice::new(frame)], &[], MsgFlags::empty(), Some(&to))
            .unwrap_or_else(|error| panic!("cannot send a frame of {} bytes: {error}", frame.len()));
        assert_eq!(sent, frame.len());
    });
}
