//! Packets from a capture file, pcap or pcapng, as far as they are or carry IP.
//!
//! Of a file that `flowgate capture` has written only what came in is taken, each packet once and with the port that
//! it came in by: such a file has a packet again where it left.

#![forbid(unsafe_code)]

use pcap_parser::pcapng::{Block, OptionCode, PcapNGOption};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::fs::File;
use std::path::Path;

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// An IP header.
    Ip,
}

/// A packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CapturedPacket {
    /// What it begins with.
    pub(super) layer: Layer,
    /// The port of this gateway that it came in by, where the file says so.
    pub(super) port: Option<String>,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

/// The packets of a file.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// The first ones.
    pub(super) packets: Vec<CapturedPacket>,
    /// There are more of them.
    pub(super) more: bool,
}

/// Bytes of the file that are looked at at once: more than the largest packet.
const BUFFER: usize = 1 << 20;

/// The longest packet that there is: what a file says beyond that is wrong.
const LONGEST: usize = 65_575 + 22;

/// Reads the first `limit` packets of a file. One that was cut when it was captured is filled up with zeros to its
/// length, so that it reads as what it was.
///
/// # Errors
/// In a sentence.
pub(super) fn read(path: &Path, limit: u32) -> Result<Captured, String> {
    let told = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| told(&error))?;
    let mut reader = create_reader(BUFFER, file).map_err(|_| told(&"this is no pcap or pcapng file"))?;
    let (mut captured, mut links) = (Captured::default(), Vec::<Interface>::new());
    let mut ours = false;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    loop {
        let offset = match reader.next() {
            Ok((offset, block)) => {
                let found = match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        links = vec![Interface { link: header.network, name: None }];
                        None
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        Some((links.first(), packet.data.to_vec(), packet.origlen))
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                        links.clear();
                        let by = section.shb_userappl().and_then(Result::ok);
                        ours = by.is_some_and(|by| by.starts_with("flowgate"));
                        None
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        let name = interface.if_name().and_then(Result::ok).filter(|_| ours);
                        links.push(Interface { link: interface.linktype, name: name.map(str::to_owned) });
                        None
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet))
                        if ours && !came_in(&packet.options) =>
                    {
                        None
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let link = usize::try_from(packet.if_id).ok().and_then(|id| links.get(id));
                        let len = usize::try_from(packet.caplen).unwrap_or(usize::MAX);
                        let data = packet.data.get(..len).unwrap_or(packet.data);
                        Some((link, data.to_vec(), packet.origlen))
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                        Some((links.first(), packet.data.to_vec(), packet.origlen))
                    }
                    PcapBlockOwned::NG(_) => None,
                };
                if let Some((link, data, whole)) = found {
                    if captured.packets.len() == limit {
                        captured.more = true;
                        return Ok(captured);
                    }
                    let Interface { link, name } =
                        link.ok_or_else(|| told(&"a packet is of no interface"))?;
                    let packet = packet_of(*link, data, whole).map_err(|error| told(&error))?;
                    captured.packets.extend(packet.map(|(layer, bytes)| CapturedPacket {
                        layer,
                        port: name.clone(),
                        bytes,
                    }));
                }
                offset
            }
            Err(PcapError::Eof) => return Ok(captured),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|_| told(&"the file ends inside a packet"))?;
                continue;
            }
            Err(_) => return Err(told(&"the file is damaged")),
        };
        reader.consume(offset);
    }
}

/// An interface of a file.
struct Interface {
    link: Linktype,
    /// Its name, if it is a port of a gateway.
    name: Option<String>,
}

/// Whether a packet of a gateway's own capture is one as it came in: its comment begins with the point.
fn came_in(options: &[PcapNGOption<'_>]) -> bool {
    let comment = options.iter().find(|option| option.code == OptionCode::Comment);
    let comment = comment.and_then(|option| option.as_str().ok());
    comment.is_some_and(|comment| comment.starts_with("arrived") || comment.starts_with("returned"))
}

/// A packet without what is neither Ethernet nor IP; none if it carries no IP.
fn packet_of(link: Linktype, mut data: Vec<u8>, whole: u32) -> Result<Option<(Layer, Vec<u8>)>, String> {
    /// IP after a header that ends with, or names at this place, an EtherType.
    fn after(data: &[u8], header: usize, ethertype: usize) -> Option<(Layer, Vec<u8>)> {
        let is_ip = matches!(data.get(ethertype..ethertype + 2), Some([0x08, 0x00] | [0x86, 0xdd]));
        data.get(header..).filter(|_| is_ip).map(|ip| (Layer::Ip, ip.to_vec()))
    }
    let whole = usize::try_from(whole).unwrap_or(usize::MAX).min(LONGEST);
    if data.len() < whole {
        data.resize(whole, 0);
    }
    data.truncate(LONGEST);
    Ok(match link {
        Linktype::ETHERNET => Some((Layer::Ethernet, data)),
        // IPv4 and IPv6 by themselves too.
        Linktype::RAW | Linktype(12 | 14 | 228 | 229) => Some((Layer::Ip, data)),
        Linktype::NULL | Linktype(108) => data.get(4..).map(|ip| (Layer::Ip, ip.to_vec())),
        // Linux's "any" interface.
        Linktype(113) => after(&data, 16, 14),
        Linktype(276) => after(&data, 20, 0),
        Linktype(other) => {
            return Err(format!(
                "packets of link type {other} are not understood: capture on an Ethernet interface, or with any"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets of a file with these bytes.
    fn read_bytes(bytes: &[u8], limit: u32) -> Result<Captured, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let said = |error: String| error.replace(&format!("{}: ", file.path().display()), "");
        read(file.path(), limit).map_err(said)
    }

    /// What there is to compare of packets that are of no port of ours.
    fn plain(captured: &Captured) -> Vec<(Layer, Vec<u8>)> {
        assert!(captured.packets.iter().all(|packet| packet.port.is_none()));
        captured.packets.iter().map(|packet| (packet.layer, packet.bytes.clone())).collect()
    }

    /// pcap: microseconds, little-endian, of this link type; packets with what was their length.
    fn pcap(link: u32, packets: &[(&[u8], u32)]) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        file.extend(link.to_le_bytes());
        for (bytes, whole) in packets {
            file.extend([0; 8]);
            file.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
            file.extend(whole.to_le_bytes());
            file.extend(*bytes);
        }
        file
    }

    /// A block of pcapng: its type, its body filled up to whole words, its length twice.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let len = u32::try_from(padded.len() + 12).unwrap().to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &padded, &len].concat()
    }

    #[test]
    fn a_pcap_file_is_read_and_what_was_cut_is_filled_up() {
        let file = pcap(1, &[(b"whole packet", 12), (b"cut", 9)]);
        let captured = read_bytes(&file, 10).unwrap();
        let expected =
            [(Layer::Ethernet, b"whole packet".to_vec()), (Layer::Ethernet, b"cut\0\0\0\0\0\0".to_vec())];
        assert_eq!(plain(&captured), expected);
        assert!(!captured.more);
        let first = read_bytes(&file, 1).unwrap();
        assert_eq!((first.packets.len(), first.more), (1, true));
    }

    #[test]
    fn a_pcapng_file_is_read_interface_by_interface() {
        let interface = |link: u16| block(1, &[&link.to_le_bytes()[..], &[0, 0, 0, 0, 4, 0]].concat());
        let packet = |interface: u32, bytes: &[u8]| {
            let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            block(6, &[&interface.to_le_bytes()[..], &[0; 8], &len, &len, bytes].concat())
        };
        let head =
            block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        let sll = [&[0; 14][..], &[0x08, 0x00], b"ip"].concat();
        let arp = [&[0; 14][..], &[0x08, 0x06], b"arp"].concat();
        let file = [
            head,
            interface(1),
            interface(101),
            interface(113),
            packet(1, b"E ip"),
            packet(0, b"frame"),
            packet(2, &sll),
            packet(2, &arp),
        ]
        .concat();
        let captured = read_bytes(&file, 10).unwrap();
        let expected = [
            (Layer::Ip, b"E ip".to_vec()),
            (Layer::Ethernet, b"frame".to_vec()),
            (Layer::Ip, b"ip".to_vec()),
        ];
        assert_eq!(plain(&captured), expected);
    }

    #[test]
    fn of_a_gateways_own_capture_what_came_in_is_taken_with_its_port() {
        use crate::control::capture::pcapng::{Interface, Packet, Writer};
        let mut writer = Writer::default();
        writer.section("flowgate 0.1.0", "");
        let port = |name| Interface { name, description: "", is_ethernet: true, snap_len: 0 };
        writer.interface(&port("left"));
        writer.interface(&port("under"));
        for (interface, comment) in [
            (0, "arrived, forwarded; target fw/10.0.0.1"),
            (1, "encapsulated; target fw/10.0.0.1"),
            (1, "returned, delivered; target fw/10.0.0.1"),
            (0, "delivered; target fw/10.0.0.1"),
            (0, "arrived"),
            (0, "dropped: unknown_flow"),
        ] {
            let (is_inbound, length) = (true, 60);
            let bytes = comment.as_bytes();
            writer.packet(&Packet { interface, unix_ns: 1, is_inbound, queue: 0, length, bytes, comment });
        }
        let captured = read_bytes(&writer.take(), 10).unwrap();
        let seen: Vec<_> = captured
            .packets
            .iter()
            .map(|packet| (packet.port.as_deref().unwrap(), &packet.bytes[..7], packet.bytes.len()))
            .collect();
        assert_eq!(
            seen,
            [("left", &b"arrived"[..], 60), ("under", b"returne", 60), ("left", b"arrived", 60)]
        );
    }

    #[test]
    fn what_is_no_capture_or_half_of_one_is_told_in_a_sentence() {
        assert_eq!(read_bytes(b"", 1).unwrap_err(), "this is no pcap or pcapng file");
        assert_eq!(read_bytes(&[7; 4000], 1).unwrap_err(), "this is no pcap or pcapng file");
        let whole = pcap(1, &[(b"whole packet", 12)]);
        let cut = read_bytes(&whole[..whole.len() - 3], 10);
        assert!(cut.is_err() || cut.is_ok_and(|captured| captured.packets.is_empty()));
        let bluetooth = pcap(187, &[(b"x", 1)]);
        assert!(read_bytes(&bluetooth, 1).unwrap_err().contains("link type 187"));
        // A length that no packet has, and one that no file has.
        let lies = pcap(1, &[(b"x", u32::MAX)]);
        assert_eq!(read_bytes(&lies, 1).unwrap().packets[0].bytes.len(), LONGEST);
        let mut endless = pcap(1, &[(b"x", 1)]);
        endless[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read_bytes(&endless, 1).is_err() || read_bytes(&endless, 1).unwrap().packets.is_empty());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// Whatever is in a file that says it is a capture, it is read or refused, and no more is kept than was asked for.
        #[test]
        fn no_file_does_harm(
            link: u32, ng: bool, rest in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
            at in 0usize..200, byte: u8,
        ) {
            let mut bytes = match ng {
                false => [pcap(link, &[(b"packet", 6), (b"another one", 11)]), rest].concat(),
                true => {
                    let body = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
                    [block(0x0a0d_0d0a, &body), block(1, &[1, 0, 0, 0, 0, 4, 0, 0]), rest].concat()
                }
            };
            if let Some(there) = bytes.get_mut(at) {
                *there = byte;
            }
            if let Ok(captured) = read_bytes(&bytes, 3) {
                proptest::prop_assert!(captured.packets.len() <= 3);
                proptest::prop_assert!(captured.packets.iter().all(|packet| packet.bytes.len() <= LONGEST));
            }
        }
    }
}
