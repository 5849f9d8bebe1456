//! A port that hands over bursts as they are, of packets that are one pointer each, as mbufs are: so that nearly all
//! instructions of a round are the gateway's own.

use flowgate::io::{Burst, PacketBuf, PortQueue};

/// Room before a frame, as an mbuf has.
const HEADROOM: usize = 128;
const SIZE: usize = 512;

/// A packet, on lines of its own.
#[repr(align(64))]
pub struct Storage {
    start: usize,
    end: usize,
    bytes: [u8; SIZE],
}

pub struct Buf(Box<Storage>);

impl Buf {
    /// With a frame in it.
    pub fn new(frame: &[u8]) -> Buf {
        let mut storage = Storage { start: HEADROOM, end: HEADROOM + frame.len(), bytes: [0; SIZE] };
        storage.bytes[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        Buf(Box::new(storage))
    }
}

impl PacketBuf for Buf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.bytes.get(self.0.start..self.0.end).unwrap_or_default()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let Storage { start, end, bytes } = &mut *self.0;
        bytes.get_mut(*start..*end).unwrap_or_default()
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.start = self.0.start.checked_sub(len)?;
        Some(self.bytes_mut())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) {
        self.0.start = (self.0.start + len).min(self.0.end);
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.0.end = self.0.end.min(self.0.start + len);
    }

    fn another(&self) -> Option<Buf> {
        Some(Buf::new(&[]))
    }

    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.end = self.0.end.checked_add(len).filter(|&end| end <= SIZE)?;
        Some(self.bytes_mut())
    }
}

/// A port: what is to be received, the last burst first, and what was sent.
#[derive(Default)]
pub struct Port {
    pub arriving: Vec<Burst<Buf>>,
    pub sent: Vec<Burst<Buf>>,
}

impl PortQueue for Port {
    type Buf = Buf;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<Buf>) {
        if let Some(next) = self.arriving.pop() {
            *burst = next;
        }
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<Buf>) -> usize {
        let count = burst.len();
        self.sent.push(std::mem::take(burst));
        count
    }

    fn allocate(&mut self) -> Option<Buf> {
        Some(Buf::new(&[]))
    }
}
