//! How a NIC spreads packets over its queues (receive-side scaling): the Toeplitz hash of addresses
//! and ports under a key, the low bits of it an index into the indirection table (RETA), which names
//! the queue.

use crate::id::QueueId;

/// The key, repeated: under it both directions of a flow have one hash, also when only the addresses
/// are swapped and the ports kept, as an appliance's answers have them. F-2.
const SYMMETRIC: [u8; 2] = [0x6d, 0x5a];

/// A key of as many bytes as the device asks for; DPDK 23.11 and later refuse any other length. None
/// for a device that takes no key.
pub(super) fn symmetric_key(hash_key_size: u8) -> Vec<u8> {
    SYMMETRIC.into_iter().cycle().take(usize::from(hash_key_size)).collect()
}

/// What a port's device does to spread packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The Toeplitz key it hashes with; empty if it has one of its own, which may not be symmetric.
    pub key: Vec<u8>,
    /// Whether the hash is over the ports too, for both TCP and UDP.
    pub ports: bool,
    /// Whether each packet comes with its hash ([`Mbuf::rss_hash`](super::Mbuf::rss_hash)).
    pub delivered: bool,
    /// The queue of each value of the hash's low bits, as the device has it; empty if it does not
    /// tell.
    pub table: Vec<QueueId>,
}

/// The device's indirection table; empty if it has none or does not tell.
pub(super) fn query_table(port: u16, size: u16) -> Vec<QueueId> {
    const GROUP: usize = dpdk_sys::SHIM_RETA_GROUP_SIZE as usize;
    let groups = usize::from(size).div_ceil(GROUP);
    let all = dpdk_sys::rte_eth_rss_reta_entry64 { mask: u64::MAX, reta: [0; GROUP] };
    let mut entries = vec![all; groups];
    // SAFETY: `entries` covers `size` entries in groups of 64, as the call expects.
    let result = unsafe { dpdk_sys::rte_eth_dev_rss_reta_query(port, entries.as_mut_ptr(), size) };
    if size == 0 || result != 0 {
        return Vec::new();
    }
    entries.iter().flat_map(|group| group.reta).take(usize::from(size)).map(QueueId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft's definition of the hash: for each bit of the input that is set, the 32 bits of the
    /// key from there on.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let window = |at: usize| (0..32).fold(0u32, |word, i| word << 1 | u32::from(bit(key, at + i)));
        (0..input.len() * 8).filter(|&at| bit(input, at) == 1).fold(0, |hash, at| hash ^ window(at))
    }

    // W-3
    #[test]
    fn our_toeplitz_is_the_one_of_microsofts_verification_suite() {
        let key: [u8; 40] = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        // 66.9.149.187:2794 → 161.142.100.80:1766
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&key, &input), 0x51cc_c178);
    }

    #[test]
    fn both_directions_and_answers_with_kept_ports_have_one_hash() {
        // F-2
        let key = symmetric_key(40);
        let there = [10, 1, 2, 3, 192, 0, 2, 77, 0x9c, 0x41, 0x01, 0xbb];
        let back = [192, 0, 2, 77, 10, 1, 2, 3, 0x01, 0xbb, 0x9c, 0x41];
        let kept = [192, 0, 2, 77, 10, 1, 2, 3, 0x9c, 0x41, 0x01, 0xbb];
        let hash = toeplitz(&key, &there);
        assert_eq!(hash, toeplitz(&key, &back));
        assert_eq!(hash, toeplitz(&key, &kept));
        let other = [10, 1, 2, 4, 192, 0, 2, 77, 0x9c, 0x41, 0x01, 0xbb];
        assert_ne!(hash, toeplitz(&key, &other));
    }

    #[test]
    fn the_key_is_as_long_as_the_device_asks() {
        assert_eq!(symmetric_key(52).len(), 52);
        assert!(symmetric_key(0).is_empty());
        assert_eq!(symmetric_key(40)[..4], [0x6d, 0x5a, 0x6d, 0x5a]);
    }
}
