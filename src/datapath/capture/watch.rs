//! A worker's watch over its packets, while there is a capture.
//!
//! Packets are then handled one by one. What became of one is read from the worker's own counters and from what it
//! queued for the ports: so a capture cannot say otherwise than the counters do (C-1), and the pipeline needs no
//! marks of its own. Packets that are not handled in the order in which they came say so: fragments that their first
//! one releases, packets that waited for a neighbour. What leaves is seen as the ports take it.

use arrayvec::ArrayVec;

use super::record::{Point, Record, Verdict};
use super::{Capture, MAX_CAPTURES, Seen, Staged};
use crate::datapath::counters::{DropReason, Outcome, ResetTrigger, WorkerCounters};
use crate::datapath::forwarding::{Forwarding, PortRole};
use crate::datapath::fragments::Lost;
use crate::datapath::messages::FromWorker;
use crate::datapath::outbound::{Departures, Fate, Outbound};
use crate::datapath::pipeline::Pipeline;
use crate::id::{Millis, PortId, WorkerId};
use crate::io::{BURST, BoxedBurst, PacketBuf};
use crate::wire::geneve::outer::OUTER_LEN;

/// The captures of a worker, and what it must know to tell them of its packets.
pub struct Watch {
    captures: ArrayVec<Box<Capture>, MAX_CAPTURES>,
    current: Option<Current>,
    counted: Counted,
    /// How many packets each port's queue had when the current one came.
    marks: Box<[u8]>,
    spilled: usize,
    /// What was known of the packets that queued something since the ports were last given theirs.
    seens: ArrayVec<Seen, BURST>,
    /// By port and place in its queue, which of these it is of.
    notes: Box<[[u8; BURST]]>,
}

/// In place of a number in [`Watch::seens`].
const UNKNOWN: u8 = u8::MAX;

/// The packet that is being handled.
struct Current {
    seen: Seen,
    /// `None`: it has no link header.
    port: Option<PortId>,
    /// Where it came in, if it did so now.
    point: Option<Point>,
    length: usize,
    at: Millis,
}

/// What the counters said when the current packet came.
struct Counted {
    drops: [u64; DropReason::COUNT],
    to_host: u64,
    handed_off: u64,
}

impl Counted {
    fn now(counters: &WorkerCounters) -> Counted {
        Counted {
            drops: std::array::from_fn(|n| counters.drops.get(n).map_or(0, |counter| counter.get())),
            to_host: counters.outcomes[Outcome::Host.index()].get(),
            handed_off: counters.handed_off.get(),
        }
    }

    /// For what a packet was dropped since, but for those that made room for it.
    fn dropped_since(&self, before: &Counted, lost: &[u64; DropReason::COUNT]) -> Option<DropReason> {
        let counts = self.drops.iter().zip(&before.drops).zip(lost);
        let mut reasons = DropReason::ALL.iter().zip(counts);
        reasons
            .find(|(_, ((now, before), lost))| now.wrapping_sub(**before) > **lost)
            .map(|(reason, _)| *reason)
    }
}

impl Watch {
    /// No captures, of a worker with so many ports.
    pub fn new(ports: usize) -> Watch {
        Watch {
            captures: ArrayVec::new(),
            current: None,
            counted: Counted { drops: [0; DropReason::COUNT], to_host: 0, handed_off: 0 },
            marks: vec![0; ports].into(),
            spilled: 0,
            seens: ArrayVec::new(),
            notes: vec![[UNKNOWN; BURST]; ports].into(),
        }
    }

    fn tell(&mut self, record: Record, seen: &Seen, now: Millis) {
        for capture in &mut self.captures {
            let record = Record { at_cycles: capture.clock.cycles(), ..record };
            capture.take_held(&record, seen, now);
        }
    }

    fn take(&mut self, record: Record, seen: &Seen, frame: &[u8], now: Millis) {
        for capture in &mut self.captures {
            let record = Record { at_cycles: capture.clock.cycles(), ..record };
            capture.take(&record, seen, frame, now);
        }
    }

    /// Notes whose packets those are that were queued since the current one came.
    fn note<B: PacketBuf>(&mut self, outbound: &Outbound<B>, seen: Seen) {
        let mut number = UNKNOWN;
        for ((notes, mark), len) in self.notes.iter_mut().zip(&self.marks).zip(outbound.lens()) {
            let queued = notes.get_mut(usize::from(*mark)..len).unwrap_or_default();
            if !queued.is_empty() && number == UNKNOWN {
                if self.seens.try_push(seen).is_err() {
                    return;
                }
                #[expect(clippy::cast_possible_truncation, reason = "at most a burst")]
                let last = self.seens.len() as u8 - 1;
                number = last;
            }
            queued.fill(number);
        }
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// Whether there is a capture.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        !cfg!(without = "captures") && self.watching
    }

    /// A capture begins. One too many is sent back at once, which ends it.
    #[cold]
    pub fn begin_capture(&mut self, capture: Box<Capture>) -> Result<(), Box<Capture>> {
        self.end_captures();
        let Some(watch) = &mut self.watch else { return Err(capture) };
        watch.captures.try_push(capture).map_err(arrayvec::CapacityError::element)?;
        self.watching = true;
        self.fragments.watch(true);
        Ok(())
    }

    /// Sends back the captures that nobody reads any more, as far as there is room in the ring.
    #[cold]
    pub fn end_captures(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        while self.events.slots() > 0
            && let Some(over) = watch.captures.iter().position(|capture| capture.is_over())
        {
            let capture = watch.captures.swap_remove(over);
            if self.events.push(FromWorker::CaptureOver(capture)).is_err() {
                self.counters.events_lost.add(1);
            }
        }
        self.watching = !watch.captures.is_empty();
        self.fragments.watch(self.watching);
    }

    /// Does what [`Pipeline::process`] does, packet by packet.
    #[cold]
    pub fn process_watched(
        &mut self,
        forwarding: &Forwarding,
        port: PortId,
        burst: &mut BoxedBurst<B>,
        steered: bool,
    ) {
        for mut packet in burst.take() {
            // As whoever reads it with care does.
            packet.make_contiguous();
            self.watch_from(forwarding, Some(port), &packet, !steered);
            burst.push(packet);
            self.process(forwarding, port, burst, steered);
        }
        self.watch_end(forwarding);
    }

    /// A packet is about to be handled; the one before has been. `port`: where it came in; `None`: it waited without
    /// its link header. `arriving`: just now, and not to another worker.
    #[inline]
    pub fn watch_from(&mut self, forwarding: &Forwarding, port: Option<PortId>, packet: &B, arriving: bool) {
        if self.is_watched() {
            self.begin_packet(forwarding, port, packet, arriving);
        }
    }

    /// The packet was handled.
    #[inline]
    pub fn watch_end(&mut self, forwarding: &Forwarding) {
        if self.is_watched() {
            self.end_packet(forwarding);
        }
    }

    #[cold]
    fn begin_packet(&mut self, forwarding: &Forwarding, port: Option<PortId>, packet: &B, arriving: bool) {
        self.end_packet(forwarding);
        let seen = match port {
            Some(port) => self.see(forwarding, port, packet),
            None => Seen::of_ip(packet.bytes()),
        };
        let role = port.and_then(|port| forwarding.ports.get(port.index()));
        let point = match role {
            Some(PortRole::Underlay) => Point::Returned,
            _ => Point::Arrived,
        };
        let Some(watch) = &mut self.watch else { return };
        for capture in &mut watch.captures {
            capture.held = None;
            if capture.filter.may_match(&seen) {
                capture.hold(packet.bytes());
            }
        }
        for (mark, len) in watch.marks.iter_mut().zip(self.outbound.lens()) {
            #[expect(clippy::cast_possible_truncation, reason = "at most a burst")]
            let len = len as u8;
            *mark = len;
        }
        watch.spilled = self.outbound.spilled();
        watch.counted = Counted::now(&self.counters);
        watch.current = Some(Current {
            seen,
            port,
            point: arriving.then_some(point),
            length: packet.frame_len(),
            at: self.now,
        });
    }

    #[cold]
    fn end_packet(&mut self, forwarding: &Forwarding) {
        let Some(mut watch) = self.watch.take() else { return };
        if let Some(current) = watch.current.take() {
            self.tell_of(forwarding, &mut watch, current);
        }
        self.watch = Some(watch);
        self.tell_lost(forwarding);
    }

    /// Tells the captures what became of a packet.
    fn tell_of(&mut self, forwarding: &Forwarding, watch: &mut Watch, current: Current) {
        let Current { mut seen, port, point, length, at } = current;
        let queued = self.queued_since(watch);
        if let Some((fate, cookie)) = queued {
            seen = seen.leaving(forwarding, fate);
            seen.cookie = seen.cookie.or(cookie);
        }
        let after = Counted::now(&self.counters);
        let verdict = match queued.and_then(|(fate, _)| verdict_of(fate)) {
            Some(verdict) => verdict,
            None => match after.dropped_since(&watch.counted, &self.fragments.lost_by_reason()) {
                Some(reason) => Verdict::Dropped(reason),
                None if after.handed_off != watch.counted.handed_off => Verdict::HandedOff,
                None if after.to_host != watch.counted.to_host => Verdict::Host,
                // It has not ended, and nobody else has it.
                None => Verdict::Waits,
            },
        };
        watch.note(&self.outbound, seen);
        for point in point.into_iter().chain(matches!(verdict, Verdict::Dropped(_)).then_some(Point::Dropped))
        {
            let record = Record { port, worker: self.worker, ..Record::new(point, verdict, &seen, length) };
            watch.tell(record, &seen, at);
        }
    }

    /// What the packet queued that settles it, and the cookie in that.
    fn queued_since(&self, watch: &Watch) -> Option<(Fate, Option<u32>)> {
        if self.outbound.spilled() > watch.spilled
            && let Some((packet, fate)) = self.outbound.last_spilled()
        {
            return Some((fate, cookie_of(packet, fate)));
        }
        let grown =
            watch.marks.iter().zip(self.outbound.lens()).position(|(mark, len)| len > usize::from(*mark))?;
        let (packet, fate) = self.outbound.last_of(grown)?;
        Some((fate, cookie_of(packet, fate)))
    }

    /// Tells the captures of fragments that were dropped while they waited (M-4).
    #[cold]
    pub fn tell_lost(&mut self, forwarding: &Forwarding) {
        while let Some(Lost { port, packet, reason }) = self.fragments.next_lost() {
            let seen = self.see(forwarding, port, &packet);
            let record = Record {
                port: Some(port),
                worker: self.worker,
                ..Record::new(Point::Dropped, Verdict::Dropped(reason), &seen, packet.frame_len())
            };
            let Some(watch) = &mut self.watch else { return };
            watch.take(record, &seen, packet.bytes(), self.now);
        }
    }
}

/// What becomes of a packet that has this fate, if that settles it.
fn verdict_of(fate: Fate) -> Option<Verdict> {
    Some(match fate {
        Fate::Forwarded { .. } => Verdict::Forwarded,
        Fate::Delivered { .. } => Verdict::Delivered,
        Fate::Crossed => Verdict::Crossed,
        Fate::Error(answer) => Verdict::Answered(answer),
        Fate::FromHost => Verdict::FromHost,
        Fate::Answered { trigger, .. } => Verdict::Reset(trigger),
        Fate::Piece | Fate::Told { .. } => return None,
    })
}

/// The cookie of a packet that was encapsulated (W-2).
fn cookie_of<B: PacketBuf>(packet: &B, fate: Fate) -> Option<u32> {
    let Fate::Forwarded { .. } = fate else { return None };
    let cookie = packet.bytes().get(..OUTER_LEN)?.last_chunk()?;
    Some(u32::from_be_bytes(*cookie))
}

/// Who sees what leaves.
pub struct Departing<'a> {
    /// The worker's watch.
    pub watch: &'a mut Watch,
    /// The forwarding state in force.
    pub forwarding: &'a Forwarding,
    /// The worker.
    pub worker: WorkerId,
    /// The time.
    pub now: Millis,
}

impl<B: PacketBuf> Departures<B> for Departing<'_> {
    fn leaving(&mut self, port: PortId, packets: &[B], fates: &[Fate]) {
        let Departing { watch: Watch { captures, seens, notes, .. }, forwarding, worker, .. } = self;
        let mut unknown = [UNKNOWN; BURST];
        let notes = notes.get_mut(port.index()).unwrap_or(&mut unknown);
        let to_targets = matches!(forwarding.ports.get(port.index()), Some(PortRole::Underlay));
        for (place, ((packet, fate), note)) in (0..).zip(packets.iter().zip(fates).zip(notes.iter())) {
            let noted = seens.get(usize::from(*note)).copied();
            let seen = noted.unwrap_or_else(|| Seen::of_leaving(forwarding, port, packet.bytes()));
            let seen = seen.leaving(forwarding, *fate);
            let seen = Seen { cookie: cookie_of(packet, *fate).or(seen.cookie), ..seen };
            let point = match fate {
                Fate::Forwarded { .. } => Point::Encapsulated,
                Fate::Piece if to_targets => Point::Encapsulated,
                Fate::Delivered { .. } | Fate::Piece => Point::Delivered,
                Fate::Answered { .. } | Fate::Told { .. } => Point::Reset,
                Fate::Crossed | Fate::Error(_) | Fate::FromHost => Point::Other,
            };
            let verdict = verdict_of(*fate).unwrap_or(match fate {
                Fate::Told { .. } => Verdict::Reset(ResetTrigger::Proactive),
                _ => Verdict::Piece,
            });
            let record = Record {
                port: Some(port),
                worker: *worker,
                ..Record::new(point, verdict, &seen, packet.frame_len())
            };
            for capture in captures.iter_mut().filter(|capture| capture.filter.may_match(&seen)) {
                let staged = Staged { place, kept: 0, settles: fate.settles(), seen, record };
                capture.stage(staged, packet.bytes());
            }
        }
        notes.fill(UNKNOWN);
    }

    fn left(&mut self, sent: usize) {
        for capture in &mut self.watch.captures {
            capture.settle_staged(sent, self.now);
        }
    }

    fn refused(&mut self, port: PortId, packet: &B, fate: Fate) {
        if !fate.settles() {
            return;
        }
        let seen = Seen::of_leaving(self.forwarding, port, packet.bytes()).leaving(self.forwarding, fate);
        let verdict = Verdict::Dropped(DropReason::TransmitFull);
        let record = Record::new(Point::Dropped, verdict, &seen, packet.frame_len());
        let record = Record { port: Some(port), worker: self.worker, ..record };
        self.watch.take(record, &seen, packet.bytes(), self.now);
    }

    fn all_left(&mut self) {
        self.watch.seens.clear();
    }
}
