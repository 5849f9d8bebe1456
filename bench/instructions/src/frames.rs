//! The packets of numbered flows, as clients send them and as targets return them.

use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::ethertype;
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};

use crate::one_wire::{ENDPOINT, mixed};

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;

/// Bytes behind the transport header: what fills the shortest frame of Ethernet for UDP over IPv4.
const PAYLOAD: u8 = 18;

/// What the packets of a way are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Of IP, 4 or 6.
    pub version: u8,
    /// TCP; else UDP.
    pub tcp: bool,
}

impl Protocol {
    fn ethertype(self) -> u16 {
        if self.version == 4 { ethertype::IPV4 } else { ethertype::IPV6 }
    }

    /// The IP packet of a flow, from its client.
    pub fn packet(self, flow: u64, flags: u8) -> Vec<u8> {
        let [a, b, c, d, e, f, g, _] = mixed(flow).to_be_bytes();
        let mut transport = vec![f, g, 0x01, 0xbb];
        if self.tcp {
            transport.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        } else {
            transport.extend([0, 8 + PAYLOAD, 0, 0]);
        }
        transport.extend([0xab; PAYLOAD as usize]);
        let len = if self.tcp { 20 } else { 8 } + PAYLOAD;
        let number = if self.tcp { 6 } else { 17 };
        let mut packet = if self.version == 4 {
            let mut header = vec![0x45, 0, 0, 20 + len, 0, 0, 0x40, 0, 64, number, 0, 0];
            header.extend([10, a, b, c, 198, 51, d, e]);
            let checksum = Sum::ZERO.bytes(&header).checksum().to_be_bytes();
            header[10..12].copy_from_slice(&checksum);
            header
        } else {
            let mut header = vec![0x60, 0, 0, 0, 0, len, number, 64];
            header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, a, b, c]);
            header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, d, e]);
            header
        };
        packet.extend(transport);
        packet
    }

    /// The same as it arrives at the clients' end of the wire.
    pub fn frame(self, flow: u64, flags: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 0x5e, 2, 0, 0, 0, 0, 0xc1];
        frame.extend(self.ethertype().to_be_bytes());
        frame.extend(self.packet(flow, flags));
        frame
    }

    /// The same as the flow's target returns it.
    pub fn answer(self, flow: u64, cookie: u32, template: &OuterTemplate) -> Vec<u8> {
        let inner = self.packet(flow, ACK);
        let fields = OuterFields {
            inner_len: u16::try_from(inner.len()).expect("a small packet"),
            protocol: self.ethertype(),
            source_port: 0xc000,
            endpoint_id: ENDPOINT.0,
            attachment_id: ENDPOINT.1,
            cookie,
        };
        let mut headers = [0; OUTER_LEN];
        template.write(&mut headers, &fields);
        [&headers[..], &inner].concat()
    }
}
