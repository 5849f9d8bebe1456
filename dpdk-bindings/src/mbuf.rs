//! `struct rte_mbuf`, as far as it is the same from DPDK 22.11 on. `shim.c` asserts the same offsets
//! against the installed headers, the constants below against this struct, so that neither can move
//! alone.

use core::ffi::c_void;
use core::mem::{align_of, offset_of, size_of};

use crate::rte_mempool;

/// One segment of a packet. Its frame is the `data_len` bytes at `buf_addr + data_off`.
#[repr(C, align(64))]
pub struct Mbuf {
    /// Start of the segment's memory: `buf_len` bytes.
    pub buf_addr: *mut c_void,
    /// The same for the device, or the next segment: a matter of how DPDK was built.
    _iova_or_next: u64,
    /// Where the data starts in the segment: the headroom left.
    pub data_off: u16,
    /// How many owners it has.
    pub refcnt: u16,
    /// How many segments the packet has.
    pub nb_segs: u16,
    /// The port it came in by, in DPDK's numbers.
    pub port: u16,
    /// What the device says of it, and what is asked of the device.
    pub ol_flags: u64,
    /// What the device took it for.
    pub packet_type: u32,
    /// Bytes of all segments.
    pub pkt_len: u32,
    /// Bytes of this segment.
    pub data_len: u16,
    /// A tag that the device took off, or is to put on.
    pub vlan_tci: u16,
    /// The device's receive hash, where `ol_flags` says that there is one.
    pub hash_rss: u32,
    _hash_high: u32,
    /// The outer of two such tags.
    pub vlan_tci_outer: u16,
    /// Bytes of the segment's memory.
    pub buf_len: u16,
    /// The pool it goes back to.
    pub pool: *mut rte_mempool,
    _second_line: [u64; 8],
}

const _: () = {
    assert!(offset_of!(Mbuf, buf_addr) == 0);
    assert!(offset_of!(Mbuf, data_off) == 16);
    assert!(offset_of!(Mbuf, refcnt) == 18);
    assert!(offset_of!(Mbuf, nb_segs) == 20);
    assert!(offset_of!(Mbuf, port) == 22);
    assert!(offset_of!(Mbuf, ol_flags) == 24);
    assert!(offset_of!(Mbuf, packet_type) == 32);
    assert!(offset_of!(Mbuf, pkt_len) == 36);
    assert!(offset_of!(Mbuf, data_len) == 40);
    assert!(offset_of!(Mbuf, vlan_tci) == 42);
    assert!(offset_of!(Mbuf, hash_rss) == 44);
    assert!(offset_of!(Mbuf, vlan_tci_outer) == 52);
    assert!(offset_of!(Mbuf, buf_len) == 54);
    assert!(offset_of!(Mbuf, pool) == 56);
    assert!(size_of::<Mbuf>() == 128);
    assert!(align_of::<Mbuf>() == 64);
};
