//! Ports made of memory, for tests and benches: what is put in is received, what is sent can be
//! taken out. Their packets serve also where one is only asked about (`flowgate explain`).

use std::collections::VecDeque;

use super::{Burst, PacketBuf, PortQueue};

/// Room before and after a frame, as an mbuf has.
const HEADROOM: usize = 128;

/// The longest frame that fits into one packet, where a frame comes in pieces.
const ROOM: usize = 2048;

/// A packet in plain memory, with headroom as an mbuf has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBuf {
    storage: Vec<u8>,
    start: usize,
    /// What of the frame is not in the first piece.
    behind: Vec<u8>,
    /// Where it came from there is no other.
    is_last: bool,
    /// Its front was replaced in one step, which the fast path alone does: so tests see what took it.
    pub front_replaced: bool,
}

impl MemoryBuf {
    /// A packet with these bytes.
    pub fn new(frame: &[u8]) -> MemoryBuf {
        let mut storage = vec![0; HEADROOM];
        storage.extend_from_slice(frame);
        MemoryBuf { storage, start: HEADROOM, behind: Vec::new(), is_last: false, front_replaced: false }
    }

    /// A packet with these bytes, the last one of a pool that is empty now.
    pub fn last_of_its_pool(frame: &[u8]) -> MemoryBuf {
        MemoryBuf { is_last: true, ..MemoryBuf::new(frame) }
    }

    /// A packet with these bytes in two pieces, as a chained mbuf has them; the first has `first` of them.
    pub fn in_pieces(frame: &[u8], first: usize) -> MemoryBuf {
        let (front, behind) = frame.split_at(first);
        MemoryBuf { behind: behind.to_vec(), ..MemoryBuf::new(front) }
    }
}

impl PacketBuf for MemoryBuf {
    fn bytes(&self) -> &[u8] {
        &self.storage[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..]
    }

    fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(len)?;
        Some(self.bytes_mut())
    }

    fn trim_front(&mut self, len: usize) {
        self.start = (self.start + len).min(self.storage.len());
    }

    fn replace_front<const N: usize>(&mut self, cut: u32, rest: u32) -> Option<&mut [u8; N]> {
        let rest_from = self.start + cut as usize;
        let rest_to = rest_from + rest as usize;
        let start = rest_from.checked_sub(N).filter(|_| rest_to <= self.storage.len())?;
        self.storage.truncate(rest_to);
        (self.start, self.front_replaced) = (start, true);
        self.bytes_mut().first_chunk_mut()
    }

    fn truncate(&mut self, len: usize) {
        self.storage.truncate(self.start + len);
    }

    fn another(&self) -> Option<MemoryBuf> {
        (!self.is_last).then(|| MemoryBuf::new(&[]))
    }

    fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        self.storage.resize(self.storage.len() + len, 0);
        Some(self.bytes_mut())
    }

    fn is_contiguous(&self) -> bool {
        self.behind.is_empty()
    }

    fn frame_len(&self) -> usize {
        self.bytes().len() + self.behind.len()
    }

    fn make_contiguous(&mut self) -> bool {
        let fits = self.is_contiguous() || self.frame_len() <= ROOM;
        if fits {
            self.storage.append(&mut self.behind);
        }
        fits
    }
}

/// A port of memory.
#[derive(Debug, Default)]
pub struct MemoryPort {
    /// Frames waiting to be received, oldest first.
    pub arriving: VecDeque<MemoryBuf>,
    /// Frames that were sent, oldest first.
    pub sent: Vec<MemoryBuf>,
    /// How many frames the next transmits still take before the port is full; `None`: no limit.
    pub room: Option<usize>,
}

impl PortQueue for MemoryPort {
    type Buf = MemoryBuf;

    fn receive(&mut self, burst: &mut Burst<MemoryBuf>) {
        while !burst.is_full() {
            let Some(buf) = self.arriving.pop_front() else { break };
            burst.push(buf);
        }
    }

    fn transmit(&mut self, burst: &mut Burst<MemoryBuf>) -> usize {
        let taken = self.room.map_or(burst.len(), |room| room.min(burst.len()));
        if let Some(room) = &mut self.room {
            *room -= taken;
        }
        self.sent.extend(burst.drain(..taken));
        taken
    }

    fn allocate(&mut self) -> Option<MemoryBuf> {
        Some(MemoryBuf::new(&[]))
    }
}
