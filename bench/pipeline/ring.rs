//! A port whose packets lie in buffers that go round for ever, as mbufs do: taking, sending and giving
//! back a packet moves a pointer and allocates nothing, so that the pipeline is what is measured.

use std::collections::VecDeque;

use flowgate::io::{Burst, PacketBuf, PortQueue};

/// Room before a frame, as an mbuf has.
const HEADROOM: usize = 128;
const SIZE: usize = 512;

/// Where a frame lies, on lines of its own.
#[repr(align(64))]
struct Storage([u8; SIZE]);

/// A packet in such a buffer.
pub struct RingBuf {
    storage: Box<Storage>,
    start: usize,
    end: usize,
}

impl RingBuf {
    /// A buffer without a frame.
    pub fn new() -> RingBuf {
        RingBuf { storage: Box::new(Storage([0; SIZE])), start: HEADROOM, end: HEADROOM }
    }

    /// Room for a new frame of `len` bytes, up to 384, in place of what was there.
    pub fn renew(&mut self, len: usize) -> &mut [u8] {
        (self.start, self.end) = (HEADROOM, HEADROOM + len);
        self.bytes_mut()
    }
}

impl PacketBuf for RingBuf {
    fn bytes(&self) -> &[u8] {
        self.storage.0.get(self.start..self.end).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.0.get_mut(self.start..self.end).unwrap_or_default()
    }

    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(len)?;
        Some(self.bytes_mut())
    }

    fn trim_front(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
    }

    fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    fn another(&self) -> Option<RingBuf> {
        Some(RingBuf::new())
    }

    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.end = self.end.checked_add(len).filter(|&end| end <= SIZE)?;
        Some(self.bytes_mut())
    }

    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of x86-64, and a prefetch does not fault at any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.bytes().as_ptr().cast());
        }
    }
}

/// A port of such buffers: what is to be received, and what was sent.
#[derive(Default)]
pub struct RingPort {
    pub arriving: VecDeque<RingBuf>,
    pub sent: Vec<RingBuf>,
}

impl PortQueue for RingPort {
    type Buf = RingBuf;

    fn receive(&mut self, burst: &mut Burst<RingBuf>) {
        let count = burst.remaining_capacity().min(self.arriving.len());
        burst.extend(self.arriving.drain(..count));
    }

    fn transmit(&mut self, burst: &mut Burst<RingBuf>) -> usize {
        let count = burst.len();
        self.sent.extend(burst.drain(..));
        count
    }

    fn allocate(&mut self) -> Option<RingBuf> {
        Some(RingBuf::new())
    }
}
