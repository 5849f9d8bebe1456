//! IPv4's time to live and IPv6's hop limit, which a router lowers (RFC 1812 5.3.1, RFC 8200 3.). Read
//! where a packet comes in by a routed endpoint, lowered before it goes to its appliance (W-6).

#![forbid(unsafe_code)]

use super::checksum::update_u16;
use super::ip::IpVersion;
use super::load::field16;
use super::{ipv4, ipv6};

/// How many routers the packet at the start of `ip` may still pass; 0 if its header is cut.
#[inline]
pub fn get(ip: &[u8], version: IpVersion) -> u8 {
    let at = match version {
        IpVersion::V4 => 8,
        IpVersion::V6 => 7,
    };
    ip.get(at).copied().unwrap_or(0)
}

/// Takes one off, and brings IPv4's header checksum after it (RFC 1624): a checksum that was wrong stays
/// wrong, so that the receiver sees it. The caller has seen that there is one to take; 0 stays 0, and a
/// header that is cut stays as it is.
#[inline]
pub fn lower(ip: &mut [u8], version: IpVersion) {
    match version {
        IpVersion::V4 => {
            let Some(header) = ip.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
            let before = field16::<8, _>(header);
            let Some(after) = before.checked_sub(0x0100) else { return };
            let checksum = update_u16(field16::<10, _>(header), before, after);
            if let Some(word) = header.get_mut(8..12) {
                word.copy_from_slice(&(u32::from(after) << 16 | u32::from(checksum)).to_be_bytes());
            }
        }
        IpVersion::V6 => {
            let Some(header) = ip.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return };
            header[7] = header[7].saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{self, naive_checksum};
    use super::*;

    // W-6
    #[test]
    fn the_hop_limit_is_one_less_and_nothing_else_is_changed() {
        let ip = sample::ipv6([1; 16], [2; 16], 17, &sample::udp((1, 2), b"x"));
        let mut lowered = ip.clone();
        lower(&mut lowered, IpVersion::V6);
        assert_eq!(get(&lowered, IpVersion::V6), get(&ip, IpVersion::V6) - 1);
        lowered[7] += 1;
        assert_eq!(lowered, ip);
    }

    #[test]
    fn none_is_left_alone_and_so_is_a_cut_header() {
        let mut ip = [0x45; 20];
        ip[8] = 0;
        for len in [0, 8, 19, 20] {
            let mut bytes = ip[..len].to_vec();
            lower(&mut bytes, IpVersion::V4);
            assert_eq!(bytes, ip[..len]);
        }
        let mut six = [0; 40];
        lower(&mut six, IpVersion::V6);
        assert_eq!(six, [0; 40]);
        assert_eq!(get(&[0x60; 7], IpVersion::V6), 0);
    }

    proptest! {
        // W-6
        #[test]
        fn a_right_checksum_stays_right_and_a_wrong_one_wrong(
            mut header in prop::collection::vec(any::<u8>(), 20..=20), ttl in 1u8.., error in any::<u16>(),
        ) {
            header[8] = ttl;
            header[10..12].fill(0);
            let right = naive_checksum(&header);
            header[10..12].copy_from_slice(&right.wrapping_add(error).to_be_bytes());
            let was_right = naive_checksum(&header) == 0;
            lower(&mut header, IpVersion::V4);
            prop_assert_eq!(header[8], ttl - 1);
            prop_assert_eq!(naive_checksum(&header) == 0, was_right);
        }
    }
}
