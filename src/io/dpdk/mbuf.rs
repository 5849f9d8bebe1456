//! One packet in a pool's memory. Its bytes are reached through the mbuf's own fields, in Rust; DPDK
//! is called only to free it, and to shorten a chained one.

use std::fmt;
use std::ptr::NonNull;

use crate::io::{Burst, PacketBuf};

/// A packet, owned: dropping it gives it back to its pool. A whole burst is given back cheaper by
/// [`Mbuf::free_burst`].
///
/// A chained packet (several segments; drivers make them of frames longer than the pool's packets)
/// shows its first segment only and says so by `is_contiguous`.
#[repr(transparent)]
pub struct Mbuf(NonNull<dpdk_sys::Mbuf>);

// SAFETY: an `Mbuf` is the only owner of its packet, and DPDK lets any thread give a packet back:
// pools are made multi-producer multi-consumer, with caches by thread.
unsafe impl Send for Mbuf {}

impl Mbuf {
    fn raw(&self) -> &dpdk_sys::Mbuf {
        // SAFETY: from DPDK, non-null and ours until dropped; its pool's memory stays while a packet
        // is out.
        unsafe { self.0.as_ref() }
    }

    fn raw_mut(&mut self) -> &mut dpdk_sys::Mbuf {
        // SAFETY: as in `raw`, and borrowed by nobody else.
        unsafe { self.0.as_mut() }
    }

    /// Bytes of all segments.
    pub fn total_len(&self) -> usize {
        self.raw().pkt_len as usize
    }

    /// Segments that the packet is made of.
    pub fn segments(&self) -> u16 {
        self.raw().nb_segs
    }

    /// The receive hash, if the device computed one (see [`Rss`](super::Rss)).
    pub fn rss_hash(&self) -> Option<u32> {
        let raw = self.raw();
        (raw.ol_flags & dpdk_sys::SHIM_MBUF_RX_RSS_HASH != 0).then_some(raw.hash_rss)
    }

    /// Sets the receive hash, as a device would: for harnesses in the place of a NIC.
    pub fn set_rss_hash(&mut self, hash: u32) {
        let raw = self.raw_mut();
        raw.hash_rss = hash;
        raw.ol_flags |= dpdk_sys::SHIM_MBUF_RX_RSS_HASH;
    }

    /// Gives a burst's packets back to their pools, with one C call for all.
    pub fn free_burst(burst: &mut Burst<Mbuf>) {
        #[expect(clippy::cast_possible_truncation, reason = "a burst is 32")]
        let count = burst.len() as u32;
        // SAFETY: `Mbuf` is a transparent pointer; the burst forgets its packets before they are
        // given away, so that none is freed twice.
        unsafe {
            burst.set_len(0);
            dpdk_sys::rte_pktmbuf_free_bulk(burst.as_mut_ptr().cast::<*mut dpdk_sys::Mbuf>(), count);
        }
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: ours, and given back once.
        unsafe { dpdk_sys::shim_pktmbuf_free(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf").field("bytes", &self.bytes()).field("segments", &self.segments()).finish()
    }
}

impl PacketBuf for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let raw = self.raw();
        // SAFETY: DPDK keeps `data_off + data_len <= buf_len`, as does every method here, and the
        // segment's memory is ours alone: nothing in this crate shares one (refcnt is 1).
        unsafe {
            let data = raw.buf_addr.cast::<u8>().add(usize::from(raw.data_off));
            std::slice::from_raw_parts(data, usize::from(raw.data_len))
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let raw = self.raw_mut();
        debug_assert_eq!(raw.refcnt, 1, "a packet that is written to has one owner");
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe {
            let data = raw.buf_addr.cast::<u8>().add(usize::from(raw.data_off));
            std::slice::from_raw_parts_mut(data, usize::from(raw.data_len))
        }
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        let len = u16::try_from(len).ok()?;
        let raw = self.raw_mut();
        // Neither sum overflows: `data_off + data_len` is at most `buf_len` before and after.
        raw.data_off = raw.data_off.checked_sub(len)?;
        raw.data_len += len;
        raw.pkt_len += u32::from(len);
        Some(self.bytes_mut())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) {
        let raw = self.raw_mut();
        let len = u16::try_from(len).unwrap_or(u16::MAX).min(raw.data_len);
        raw.data_off += len;
        raw.data_len -= len;
        raw.pkt_len -= u32::from(len);
    }

    #[inline(always)]
    fn replace_front<const N: usize>(&mut self, cut: u32, rest: u32) -> Option<&mut [u8; N]> {
        let raw = self.raw_mut();
        debug_assert_eq!(raw.nb_segs, 1, "the caller has seen that the frame is contiguous");
        let size = u32::try_from(N).ok()?;
        let (at, len) = (u32::from(raw.data_off) + cut, size + rest);
        if cut + rest > u32::from(raw.data_len) || at < size {
            return None;
        }
        let start = at - size;
        #[expect(clippy::cast_possible_truncation, reason = "within the segment, of at most 65,535 bytes")]
        let (offset, data_len) = (start as u16, len as u16);
        (raw.data_off, raw.data_len, raw.pkt_len) = (offset, data_len, len);
        // SAFETY: as in `bytes_mut`: `start` is in the segment, and `N + rest` bytes from there end where `cut + rest`
        // bytes of the data did, or before its end.
        Some(unsafe { &mut *raw.buf_addr.cast::<u8>().add(start as usize).cast::<[u8; N]>() })
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        let raw = self.raw_mut();
        let Ok(len) = u32::try_from(len) else { return };
        if len >= raw.pkt_len {
            return;
        }
        if raw.nb_segs == 1 {
            raw.pkt_len = len;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "below pkt_len, which is data_len here: 16 bits"
            )]
            let len = len as u16;
            raw.data_len = len;
        } else {
            // SAFETY: ours; the segments cut off belong to it alone.
            unsafe { dpdk_sys::shim_pktmbuf_truncate(self.0.as_ptr(), len) };
        }
    }

    fn another(&self) -> Option<Mbuf> {
        let mut packet = std::ptr::null_mut();
        // SAFETY: the pool that a packet is from stays while the packet is out; any thread may take from
        // it. The call fills one pointer if it returns 0.
        let taken = unsafe { dpdk_sys::shim_pktmbuf_alloc_bulk(self.raw().pool, &raw mut packet, 1) };
        NonNull::new(packet).filter(|_| taken == 0).map(Mbuf)
    }

    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        let len = u16::try_from(len).ok()?;
        let raw = self.raw_mut();
        let room = raw.buf_len.checked_sub(raw.data_off)?.checked_sub(raw.data_len)?;
        if raw.nb_segs != 1 || len > room {
            return None;
        }
        raw.data_len += len;
        raw.pkt_len += u32::from(len);
        Some(self.bytes_mut())
    }

    #[inline]
    fn is_contiguous(&self) -> bool {
        self.raw().nb_segs == 1
    }

    fn frame_len(&self) -> usize {
        self.total_len()
    }

    #[cold]
    fn make_contiguous(&mut self) -> bool {
        // SAFETY: ours, with all its segments; nothing else refers to their bytes.
        self.is_contiguous() || unsafe { dpdk_sys::shim_pktmbuf_gather(self.0.as_ptr()) } == 0
    }

    /// One C call: much less than to sum up the datagram.
    fn offload_udp_checksum(&mut self, l2_len: u16, l3_len: u16) -> bool {
        // SAFETY: ours; the call stays within the first segment.
        unsafe { dpdk_sys::shim_offload_udp_checksum(self.0.as_ptr(), l2_len, l3_len) == 0 }
    }

    #[inline]
    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing that can fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.bytes().as_ptr().cast()) };
        }
    }
}
