//! Packets of the live data path, copied out for an operator to look at.
//!
//! The control core makes a [`Capture`] for each worker and keeps the other end, [`Captured`]. A worker that has one
//! [`watch`]es each packet from where it came in to where it leaves, and copies what the [`filter`] asks for, with a
//! [`record`] of what became of it, into a ring of bytes. Nothing waits and nothing is allocated: what finds no
//! room, or is over the rate, is not captured, and is counted. A worker that has none looks at one flag a burst.
//!
//! A capture ends when the control core drops its end. The worker sees that within a millisecond and sends its own
//! back to be freed where it was made.

pub mod filter;
pub mod record;
mod seen;
mod watch;

use std::sync::Arc;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};

use super::counters::{Counter, DropReason};
use crate::id::{Millis, PortId};
use crate::io::BURST;
use crate::io::clock::Clock;
use filter::Filter;
use record::{HEADER_LEN, Record, Verdict};
pub use seen::{Seen, Tuple};
pub use watch::{Departing, Watch};

/// Captures that a worker has at once, at most.
pub const MAX_CAPTURES: usize = 4;

/// Bytes that are kept of a packet, at most: more than the longest frame that a port takes (M-1).
pub const MAX_SNAP_LEN: usize = 16_384;

/// Bytes that wait for the control core: what a worker captures in some 20 ms at a gigabyte a second, so that it may be
/// busy for a while.
pub const RING: usize = 4 << 20;

/// Packets that may be captured at once, as parts of a second's share: a burst is seen whole.
const BUCKETS_A_SECOND: u32 = 10;

/// What of a port's packets a capture saw; written by its worker.
#[derive(Debug, Default)]
pub struct PortCounts {
    /// Records that the filter asked for.
    pub matched: Counter,
    /// Of these, not captured as there were more than the rate.
    pub over_rate: Counter,
    /// Of these, not captured as the ring was full.
    pub ring_full: Counter,
}

/// By port; what has no port is the last.
pub type Counts = Box<[PortCounts]>;

/// A worker's end of a capture.
pub struct Capture {
    filter: Filter,
    snap_len: usize,
    bucket: Bucket,
    clock: Clock,
    ring: Producer<u8>,
    counts: Arc<Counts>,
    /// The packet that is being handled, as it came in, if the filter may ask for it.
    held: Option<usize>,
    held_bytes: Box<[u8]>,
    /// Packets that a port is given now, of which it may take some.
    staged: ArrayVec<Staged, BURST>,
    /// Their bytes, `snap_len` for each.
    staged_bytes: Box<[u8]>,
}

#[derive(Clone, Copy)]
struct Staged {
    place: u8,
    /// Bytes that are kept.
    kept: usize,
    /// A packet that came in is settled with it (C-1).
    settles: bool,
    seen: Seen,
    record: Record,
}

/// The control core's end of it.
pub struct Captured {
    ring: Consumer<u8>,
    counts: Arc<Counts>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("filter", &self.filter).finish_non_exhaustive()
    }
}

/// How much of what the filter asks for is captured.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes kept of a packet, up to [`MAX_SNAP_LEN`].
    pub snap_len: usize,
    /// Packets a second.
    pub rate: u32,
    /// Bytes of the ring.
    pub ring: usize,
}

impl Capture {
    /// Both ends of a capture on a worker with so many ports, whose clock this is.
    pub fn new(filter: Filter, bounds: Bounds, ports: usize, clock: Clock) -> (Box<Capture>, Captured) {
        let (producer, consumer) = RingBuffer::new(bounds.ring);
        let counts: Arc<Counts> = Arc::new((0..=ports).map(|_| PortCounts::default()).collect());
        let snap_len = bounds.snap_len.min(MAX_SNAP_LEN);
        let capture = Capture {
            filter,
            snap_len,
            bucket: Bucket::new(bounds.rate),
            clock,
            ring: producer,
            counts: Arc::clone(&counts),
            held: None,
            held_bytes: vec![0; snap_len].into(),
            staged: ArrayVec::new(),
            staged_bytes: vec![0; snap_len * BURST].into(),
        };
        (Box::new(capture), Captured { ring: consumer, counts })
    }

    /// Whether the control core has dropped its end.
    pub fn is_over(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Captures what the filter asks for, if it may and there is room.
    pub fn take(&mut self, record: &Record, seen: &Seen, frame: &[u8], now: Millis) {
        if !self.filter.matches(record, seen) {
            return;
        }
        let port = record.port.map_or(usize::MAX, PortId::index);
        let Some(counts) = self.counts.get(port).or(self.counts.last()) else { return };
        counts.matched.add(1);
        if !self.bucket.take(now) {
            return counts.over_rate.add(1);
        }
        let kept = frame.get(..self.snap_len).unwrap_or(frame);
        if self.ring.slots() < HEADER_LEN + kept.len() {
            return counts.ring_full.add(1);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_SNAP_LEN")]
        let record = Record { kept: kept.len() as u32, ..*record };
        // There is room for both. Should a reader see the first alone, it waits for the second.
        let wrote = self.ring.push_entire_slice(&record.encode()).is_ok()
            && self.ring.push_entire_slice(kept).is_ok();
        debug_assert!(wrote, "the ring's room was seen");
    }

    /// Keeps the packet that is about to be handled, which may be changed then.
    fn hold(&mut self, frame: &[u8]) {
        let kept = frame.get(..self.snap_len).unwrap_or(frame);
        if let Some(room) = self.held_bytes.get_mut(..kept.len()) {
            room.copy_from_slice(kept);
            self.held = Some(kept.len());
        }
    }

    /// Captures the packet that was held.
    fn take_held(&mut self, record: &Record, seen: &Seen, now: Millis) {
        let Some(kept) = self.held else { return };
        let bytes = std::mem::take(&mut self.held_bytes);
        self.take(record, seen, bytes.get(..kept).unwrap_or_default(), now);
        self.held_bytes = bytes;
    }

    /// Keeps a packet that a port is about to be given.
    fn stage(&mut self, mut staged: Staged, frame: &[u8]) {
        let from = usize::from(staged.place) * self.snap_len;
        let kept = frame.get(..self.snap_len).unwrap_or(frame);
        if let Some(room) = self.staged_bytes.get_mut(from..from + kept.len()) {
            room.copy_from_slice(kept);
            staged.kept = kept.len();
            // One of a burst.
            self.staged.try_push(staged).ok();
        }
    }

    /// Captures the packets that were staged: the first `sent` as such, and the others as dropped.
    fn settle_staged(&mut self, sent: usize, now: Millis) {
        let at_cycles = self.clock.cycles();
        let bytes = std::mem::take(&mut self.staged_bytes);
        for Staged { place, kept, settles, seen, record } in std::mem::take(&mut self.staged) {
            let from = usize::from(place) * self.snap_len;
            let frame = bytes.get(from..from + kept).unwrap_or_default();
            let mut record = Record { at_cycles, ..record };
            if usize::from(place) >= sent {
                if !settles {
                    continue;
                }
                record = record.dropped(DropReason::TransmitFull);
            }
            self.take(&record, &seen, frame, now);
        }
        self.staged_bytes = bytes;
    }
}

/// A packet that was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedPacket {
    /// What is known of it.
    pub record: Record,
    /// As much of it as was kept.
    pub bytes: Vec<u8>,
}

impl Captured {
    /// When the next packet was captured; `None` if there is none now.
    pub fn next_at(&mut self) -> Option<u64> {
        Some(self.peek()?.at_cycles)
    }

    fn peek(&mut self) -> Option<Record> {
        let chunk = self.ring.read_chunk(HEADER_LEN).ok()?;
        let (first, second) = chunk.as_slices();
        let mut header = [0; HEADER_LEN];
        header.iter_mut().zip(first.iter().chain(second)).for_each(|(to, byte)| *to = *byte);
        Record::decode(&header)
    }

    /// The next packet, if there is one.
    pub fn take_next(&mut self) -> Option<CapturedPacket> {
        let record = self.peek()?;
        let kept = record.kept as usize;
        let chunk = self.ring.read_chunk(HEADER_LEN + kept).ok()?;
        let (first, second) = chunk.as_slices();
        let mut bytes = Vec::with_capacity(kept);
        bytes.extend_from_slice(first.get(HEADER_LEN..).unwrap_or_default());
        bytes.extend_from_slice(second.get(HEADER_LEN.saturating_sub(first.len())..).unwrap_or_default());
        chunk.commit_all();
        Some(CapturedPacket { record, bytes })
    }

    /// What the worker counted, by port.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// A token bucket: how many packets may be captured now.
#[derive(Debug)]
struct Bucket {
    rate: u32,
    /// In thousandths, so that a millisecond's share is whole.
    millitokens: u64,
    filled_at: Option<Millis>,
}

impl Bucket {
    fn new(rate: u32) -> Bucket {
        Bucket { rate, millitokens: Bucket::size(rate), filled_at: None }
    }

    fn size(rate: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "64")]
        const A_BURST: u32 = BURST as u32;
        u64::from((rate / BUCKETS_A_SECOND).max(rate.min(A_BURST))) * 1000
    }

    fn take(&mut self, now: Millis) -> bool {
        let passed = self.filled_at.map_or(0, |before| now.since(before));
        self.filled_at = Some(now);
        let gained = u64::from(passed) * u64::from(self.rate);
        self.millitokens = (self.millitokens + gained).min(Bucket::size(self.rate));
        let Some(left) = self.millitokens.checked_sub(1000) else { return false };
        self.millitokens = left;
        true
    }
}

impl Record {
    /// The same of a packet that ends here, dropped.
    fn dropped(self, reason: DropReason) -> Record {
        Record { point: record::Point::Dropped, verdict: Verdict::Dropped(reason), ..self }
    }
}

#[cfg(test)]
mod tests;
