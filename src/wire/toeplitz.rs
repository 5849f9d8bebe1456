//! The receive-side-scaling hash of network cards, and the choice of a UDP source port whose answers a
//! card sends to a wanted queue (W-3).
//!
//! The symmetric key is 0x6d5a over and over (Woo and Park, "Scalable TCP session monitoring with
//! symmetric receive-side scaling"). Its period of 16 bits has two consequences that this module lives on: the
//! hash of any input is the hash of the exclusive or of its 16-bit words, whatever their order, so
//! both directions hash alike; and hashing is linear, so the ports that hash to one entry of the
//! card's indirection table (RETA) are a fixed set of offsets from any one of them.

#![forbid(unsafe_code)]

/// The word that the symmetric key repeats.
const SYMMETRIC_WORD: [u8; 2] = [0x6d, 0x5a];

/// The symmetric key of the cards that take 40 bytes (most).
pub const SYMMETRIC_KEY_40: [u8; 40] = symmetric_key();
/// The symmetric key of the cards that take 52 bytes (Intel 700 and 800 series).
pub const SYMMETRIC_KEY_52: [u8; 52] = symmetric_key();

const fn symmetric_key<const N: usize>() -> [u8; N] {
    let mut key = [0; N];
    let mut at = 0;
    while at < N {
        key[at] = SYMMETRIC_WORD[at % 2];
        at += 1;
    }
    key
}

/// The Toeplitz hash of `input` under any key, as Microsoft's RSS specification defines it, a bit at a
/// time. Input beyond what the key covers (its length less four bytes) is not hashed.
pub fn hash(key: &[u8], input: &[u8]) -> u32 {
    let mut windows = key.windows(5);
    let mut hash = 0;
    for byte in input {
        let Some(&[a, b, c, d, next]) = windows.next() else { break };
        let window = u64::from_be_bytes([a, b, c, d, next, 0, 0, 0]);
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= (window << bit >> 32) as u32;
            }
        }
    }
    hash
}

/// The hash under the symmetric key of an input whose 16-bit words have the exclusive or `folded`.
#[inline]
pub const fn hash_folded(folded: u16) -> u32 {
    // Bit i of the input selects the key from bit i on; the key's period makes that a rotation.
    let mut hash = 0u16;
    let mut bit = 0;
    while bit < 16 {
        if folded & (0x8000 >> bit) != 0 {
            hash ^= u16::from_be_bytes(SYMMETRIC_WORD).rotate_left(bit);
        }
        bit += 1;
    }
    ((hash as u32) << 16) | hash as u32
}

/// The exclusive or of a number's two 16-bit words.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
const fn fold(word: u32) -> u16 {
    (word >> 16) as u16 ^ word as u16
}

/// The hash under the symmetric key that a card computes of an IPv4 packet's addresses and UDP or TCP ports.
#[inline]
pub const fn hash_ipv4_udp(src: u32, dst: u32, src_port: u16, dst_port: u16) -> u32 {
    hash_folded(fold(src) ^ fold(dst) ^ src_port ^ dst_port)
}

/// The first UDP source port of flows (W-3).
pub const FIRST_SOURCE_PORT: u16 = 49_152;
/// How many there are: up to 65,535. A power of two aligned to itself, so a port is a fixed pair of
/// top bits and 14 free ones.
pub const SOURCE_PORTS: u16 = 16_384;

/// For each RETA index the source ports whose packets hash to it.
///
/// The ports of one index are one port exclusive-or'ed with each member of the kernel: the offsets whose
/// hash does not change the index. So two short tables hold them all: for a RETA of 128, 512 bytes.
#[derive(Clone, Debug)]
pub struct SourcePorts {
    /// For each index, one port (of addresses and other ports that fold to 0) that hashes to it.
    representative: Box<[u16]>,
    /// Offsets that leave the index as it is; a power of two of them.
    kernel: Box<[u16]>,
}

impl SourcePorts {
    /// The tables for a card whose RETA has `reta_size` entries: a power of two from 1 to 2,048 (up to there every
    /// entry has the same number of ports). `None` for any other size.
    pub fn new(reta_size: u16) -> Option<SourcePorts> {
        if !reta_size.is_power_of_two() || reta_size > 2_048 {
            return None;
        }
        let mask = reta_size - 1;
        let mut representative = vec![0; usize::from(reta_size)];
        let mut kernel = Vec::with_capacity(usize::from(SOURCE_PORTS / reta_size));
        for offset in 0..SOURCE_PORTS {
            let port = FIRST_SOURCE_PORT + offset;
            representative[usize::from(index_of(hash_folded(port), mask))] = port;
            if index_of(hash_folded(offset), mask) == 0 {
                kernel.push(offset);
            }
        }
        Some(SourcePorts { representative: representative.into(), kernel: kernel.into() })
    }

    /// Entries of the RETA.
    #[inline]
    pub fn reta_size(&self) -> usize {
        self.representative.len()
    }

    /// A port in 49152–65535 for packets from `our_ip` to `target_ip`'s port 6081 whose answers hash to RETA
    /// entry `reta_index` (taken modulo the RETA's size). `salt` picks among the candidates: use bits of the flow's hash.
    #[inline]
    pub fn pick(&self, our_ip: u32, target_ip: u32, reta_index: u16, salt: u32) -> u16 {
        self.pick_beside(hash_ipv4_udp(our_ip, target_ip, 0, super::geneve::UDP_PORT), reta_index, salt)
    }

    /// The same, given the hash of all but the source port: one for all packets between two addresses.
    #[inline]
    pub fn pick_beside(&self, others: u32, reta_index: u16, salt: u32) -> u16 {
        let mask = self.representative.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "masked to the RETA's size")]
        let wanted = usize::from(reta_index ^ others as u16) & mask;
        let offset = salt as usize & (self.kernel.len() - 1);
        match (self.representative.get(wanted), self.kernel.get(offset)) {
            (Some(port), Some(offset)) => port ^ offset,
            // Both lengths are powers of two, so the masks keep the indices inside.
            _ => FIRST_SOURCE_PORT,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "masked to the RETA's size")]
const fn index_of(hash: u32, mask: u16) -> u16 {
    hash as u16 & mask
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// The key of Microsoft's "Verifying the RSS hash calculation".
    const MICROSOFT_KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn microsofts_ipv4_vectors_hash_as_published() {
        for (dst, dst_port, src, src_port, addresses_only, with_ports) in [
            ("161.142.100.80", 1766u16, "66.9.149.187", 2794u16, 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
        ] {
            let octets = |address: &str| address.parse::<Ipv4Addr>().unwrap().octets();
            let mut input = [octets(src), octets(dst)].concat();
            assert_eq!(hash(&MICROSOFT_KEY, &input), addresses_only, "{src}");
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            assert_eq!(hash(&MICROSOFT_KEY, &input), with_ports, "{src}");
        }
    }

    #[test]
    fn microsofts_ipv6_vectors_hash_as_published() {
        for (dst, dst_port, src, src_port, addresses_only, with_ports) in [
            ("3ffe:2501:200:3::1", 1766u16, "3ffe:2501:200:1fff::7", 2794u16, 0x2cc1_8cd5, 0x4020_7d3d),
            ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            let octets = |address: &str| address.parse::<Ipv6Addr>().unwrap().octets();
            let mut input = [octets(src), octets(dst)].concat();
            assert_eq!(hash(&MICROSOFT_KEY, &input), addresses_only, "{src}");
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            assert_eq!(hash(&MICROSOFT_KEY, &input), with_ports, "{src}");
        }
    }

    // W-3
    #[test]
    fn every_index_has_as_many_ports_as_any_other() {
        for bits in 0..=11 {
            let ports = SourcePorts::new(1 << bits).unwrap();
            let mut seen = HashSet::new();
            for index in 0..1 << bits {
                for salt in 0..u32::from(SOURCE_PORTS >> bits) {
                    assert!(seen.insert(ports.pick(0, 0, index, salt)), "port twice, RETA of {}", 1 << bits);
                }
            }
            assert_eq!(seen.len(), usize::from(SOURCE_PORTS));
        }
    }

    #[test]
    fn a_reta_that_no_card_has_is_refused() {
        for size in [0, 3, 100, 4_096, 65_535] {
            assert!(SourcePorts::new(size).is_none(), "{size}");
        }
    }

    proptest! {
        // F-2, W-3
        #[test]
        fn the_short_way_is_the_plain_algorithm_under_the_symmetric_key(src: u32, dst: u32, src_port: u16, dst_port: u16) {
            let mut input = [src.to_be_bytes(), dst.to_be_bytes()].concat();
            input.extend([src_port.to_be_bytes(), dst_port.to_be_bytes()].concat());
            let hashed = hash_ipv4_udp(src, dst, src_port, dst_port);
            prop_assert_eq!(hashed, hash(&SYMMETRIC_KEY_40, &input));
            prop_assert_eq!(hashed, hash(&SYMMETRIC_KEY_52, &input));
        }

        // W-3: what comes back (outer addresses swapped, ports unchanged) arrives at the wanted queue.
        #[test]
        fn the_answer_to_a_picked_port_hashes_to_the_wanted_index(ours: u32, target: u32, bits in 0u32..12, index: u16, salt: u32) {
            let size = 1u16 << bits;
            let port = SourcePorts::new(size).unwrap().pick(ours, target, index, salt);
            prop_assert!(port >= 49_152);
            let mut answer = [target.to_be_bytes(), ours.to_be_bytes()].concat();
            answer.extend([port.to_be_bytes(), 6081u16.to_be_bytes()].concat());
            prop_assert_eq!(hash(&SYMMETRIC_KEY_40, &answer) & u32::from(size - 1), u32::from(index & (size - 1)));
        }
    }
}
