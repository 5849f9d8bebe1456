//! Captures of live packets, as the control core has them.
//!
//! The workers copy packets into rings (`datapath::capture`); a [`CaptureStream`] makes of these the blocks of a pcapng
//! file and hands them out as fast as they are asked for. Nothing is kept in between: while nobody asks, the rings
//! fill, and the workers count what finds no room. Dropping the stream ends the capture.

pub mod pcapng;
pub mod words;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::socket::views::{CaptureEnd, CaptureTotals};
use crate::control::duration::nanoseconds;
use crate::datapath::capture::record::Record;
use crate::datapath::capture::{Captured, CapturedPacket};
use crate::id::PortId;
use crate::io::clock::Clock;
use pcapng::{Interface, Packet, Statistics, Writer};
pub use words::Names;

/// Bytes of blocks handed out at once, but for the last packet: small enough that health checks are not kept
/// waiting.
const CHUNK: usize = 64 << 10;

/// How often the rings are looked into.
const POLL: Duration = Duration::from_millis(5);

/// How often whoever reads is told what was lost though there are no packets.
const TELL: Duration = Duration::from_secs(1);

/// When a capture ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// With so many packets.
    pub packets: Option<u64>,
    /// Before it is larger than so many bytes.
    pub bytes: u64,
    /// After so long.
    pub duration: Option<Duration>,
}

/// What a capture is made of.
pub struct CaptureParts {
    /// The workers' rings.
    pub workers: Vec<Captured>,
    /// The names of the ports.
    pub ports: Vec<String>,
    /// What ids stand for, kept up by the control core.
    pub names: Rc<RefCell<Names>>,
    /// The workers' clock.
    pub clock: Clock,
    /// What that clock said when the capture began, and the time of day then.
    pub began: (u64, SystemTime),
    /// When it ends.
    pub limits: Limits,
    /// Bytes kept of each packet.
    pub snap_len: u32,
    /// The filter in words.
    pub filter: String,
    /// Held for as long as the capture runs.
    pub slot: Rc<()>,
}

/// A capture under way.
pub struct CaptureStream {
    workers: Vec<Captured>,
    names: Rc<RefCell<Names>>,
    clock: Clock,
    limits: Limits,
    writer: Writer,
    /// By interface: packets written.
    written: Vec<u64>,
    totals: CaptureTotals,
    began: Instant,
    /// What it is of, in words.
    filter: String,
    /// The workers' clock and the time of day when it began, in nanoseconds since 1970.
    anchor: (u64, u64),
    told: (Instant, CaptureTotals),
    stopped: bool,
    over: bool,
    _slot: Rc<()>,
}

/// What comes next of a capture.
#[derive(Debug, PartialEq)]
pub struct Chunk {
    /// Whole blocks of the file.
    pub bytes: Vec<u8>,
    /// How much that makes.
    pub totals: CaptureTotals,
    /// Why there will be no more.
    pub end: Option<CaptureEnd>,
}

impl CaptureStream {
    /// A capture that begins now.
    pub fn new(parts: CaptureParts) -> CaptureStream {
        let CaptureParts { workers, ports, names, clock, began, limits, snap_len, filter, slot } = parts;
        let mut writer = Writer::default();
        writer.section(concat!("flowgated ", env!("CARGO_PKG_VERSION")), &filter);
        for name in &ports {
            writer.interface(&Interface {
                name,
                description: "a port of the gateway",
                is_ethernet: true,
                snap_len,
            });
        }
        writer.interface(&Interface {
            name: "waiting",
            description: "packets that waited for a link-layer address in vain",
            is_ethernet: false,
            snap_len,
        });
        let now = Instant::now();
        let wall = began.1.duration_since(UNIX_EPOCH).unwrap_or_default();
        CaptureStream {
            workers,
            names,
            clock,
            limits,
            writer,
            written: vec![0; ports.len() + 1],
            totals: CaptureTotals::default(),
            began: now,
            filter,
            anchor: (began.0, nanoseconds(wall)),
            told: (now, CaptureTotals::default()),
            stopped: false,
            over: false,
            _slot: slot,
        }
    }

    /// Ends the capture: what is in the rings is still handed out.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// What comes next. Safe to give up at any await. After the end there is nothing any more.
    pub async fn next(&mut self) -> Chunk {
        loop {
            // However fast it is read, others have their turn.
            tokio::task::yield_now().await;
            if let Some(chunk) = self.ready() {
                return chunk;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What there is now.
    pub fn ready(&mut self) -> Option<Chunk> {
        if self.over {
            return None;
        }
        let end = self.read();
        self.count_lost();
        if let Some(end) = end {
            self.over = true;
            self.finish();
            let last = self.chunk(Some(end));
            self.log_end(end.as_str());
            return Some(last);
        }
        let silent = self.told.1 == self.totals || self.told.0.elapsed() < TELL;
        if self.writer.is_empty() && silent {
            return None;
        }
        Some(self.chunk(None))
    }

    fn log_end(&self, why: &str) {
        let CaptureTotals { packets, bytes, over_rate, unread } = self.totals;
        let lasted_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            name: "capture_ended", filter = self.filter, why, packets, bytes, over_rate, unread, lasted_ms,
            "a capture ends"
        );
    }

    fn chunk(&mut self, end: Option<CaptureEnd>) -> Chunk {
        let bytes = self.writer.take();
        self.totals.bytes += bytes.len() as u64;
        self.told = (Instant::now(), self.totals);
        Chunk { bytes, totals: self.totals, end }
    }

    /// Writes the packets that there are, up to a chunk; says whether the capture ends with them.
    fn read(&mut self) -> Option<CaptureEnd> {
        while self.writer.len() < CHUNK {
            if self.limits.packets.is_some_and(|most| self.totals.packets >= most) {
                return Some(CaptureEnd::Packets);
            }
            let Some(packet) = self.next_packet() else {
                let over = self.limits.duration.is_some_and(|most| self.began.elapsed() >= most);
                return if self.stopped {
                    Some(CaptureEnd::Stopped)
                } else {
                    over.then_some(CaptureEnd::Seconds)
                };
            };
            let before = self.writer.len();
            self.write(&packet);
            if self.totals.bytes + self.writer.len() as u64 > self.limits.bytes {
                self.writer.truncate(before);
                return Some(CaptureEnd::Bytes);
            }
            self.totals.packets += 1;
            let interface = self.interface_of(&packet.record);
            self.written[interface] += 1;
        }
        None
    }

    /// The earliest of the workers' next packets.
    fn next_packet(&mut self) -> Option<CapturedPacket> {
        let nexts = self.workers.iter_mut().enumerate();
        let (_, earliest) = nexts.filter_map(|(n, worker)| Some((worker.next_at()?, n))).min()?;
        self.workers[earliest].take_next()
    }

    fn interface_of(&self, record: &Record) -> usize {
        let waiting = self.written.len() - 1;
        record.port.map_or(waiting, PortId::index).min(waiting)
    }

    fn write(&mut self, CapturedPacket { record, bytes }: &CapturedPacket) {
        let comment = words::comment(record, &self.names.borrow());
        self.writer.packet(&Packet {
            interface: u32::try_from(self.interface_of(record)).unwrap_or(u32::MAX),
            unix_ns: self.unix_ns(record.at_cycles),
            is_inbound: record.point.is_inbound(),
            queue: record.worker.0.into(),
            length: record.length,
            bytes,
            comment: &comment,
        });
    }

    /// By the workers' clock from when the capture began: so that packets are in order whatever is done to the
    /// machine's.
    fn unix_ns(&self, cycles: u64) -> u64 {
        let (began, wall) = self.anchor;
        let passed = self.clock.duration_of(cycles.saturating_sub(began));
        wall + nanoseconds(passed)
    }

    fn count_lost(&mut self) {
        let counts = || self.workers.iter().flat_map(|worker| worker.counts().iter());
        self.totals.over_rate = counts().map(|counts| counts.over_rate.get()).sum();
        self.totals.unread = counts().map(|counts| counts.ring_full.get()).sum();
    }

    /// What is said of each interface at the end of the file.
    fn finish(&mut self) {
        let unix_ns = (self.anchor.1, self.unix_ns(self.clock.cycles()));
        for (interface, written) in (0..).zip(&self.written) {
            let place = interface as usize;
            let counts = || self.workers.iter().filter_map(|worker| worker.counts().get(place));
            let (over_rate, unread): (u64, u64) = (
                counts().map(|counts| counts.over_rate.get()).sum(),
                counts().map(|counts| counts.ring_full.get()).sum(),
            );
            let dropped = over_rate + unread;
            let comment = match dropped {
                0 => String::new(),
                _ => format!("not captured: {over_rate} over the rate, {unread} as the reader was too slow"),
            };
            self.writer.statistics(&Statistics {
                interface,
                unix_ns,
                accepted: written + dropped,
                dropped,
                delivered: *written,
                comment: &comment,
            });
        }
    }
}

impl Drop for CaptureStream {
    /// One that has not ended by then has lost its reader.
    fn drop(&mut self) {
        if !self.over {
            self.count_lost();
            self.log_end("reader-gone");
        }
    }
}

#[cfg(test)]
mod tests;
