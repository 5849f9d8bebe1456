//! The two ends of the traffic. Each knows its own flows and nothing of the other's, so that either can be
//! played alone, with the other on another machine.

use std::collections::VecDeque;

use flowgate::io::PortQueue;
use flowgate::wire::ethernet::HEADER_LEN;
use flowgate::wire::tcp::TcpFlags;

use super::attack::{self, Trace};
use super::flows::{Flows, Order, Standing, State};
use super::frames::{FCS, Frames, Seen, Segment, Unreadable, since};
use super::measure::{Interval, Nanoseconds};
use super::names::{Name, Way};
use super::neighbour;
use super::port::{Port, Source};

/// How long an answer to a SYN or FIN may take before it is sent again, in nanoseconds (RFC 6298 2.1).
const PATIENCE_NS: u64 = 1_000_000_000;

/// What both ends and the appliance share.
pub struct Common<S> {
    pub frames: Frames,
    pub source: S,
    pub interval: Box<Interval>,
    pub nanoseconds: Nanoseconds,
    /// The time of this round, in cycles.
    pub now: u64,
    /// The same in nanoseconds since the generator's start.
    pub now_ns: u64,
}

impl<S> Common<S> {
    fn latency_ns(&self, stamp: u64) -> u64 {
        self.nanoseconds.of_cycles(since(self.now, stamp))
    }

    /// Reads a frame that came to an end, sent `way`; counts what is none, and what has to do with an attack. What is forged
    /// in a live flow's name has wrong sequence numbers: an end drops it (RFC 5961).
    fn read(&mut self, frame: &[u8], way: Way) -> Option<Seen> {
        let ip = frame.get(HEADER_LEN..).unwrap_or_default();
        if neighbour::is_for_the_link(frame) {
            return None;
        }
        match attack::trace(ip) {
            None => {}
            Some(Trace::Attack) => {
                self.interval.counts.attack_arrived += 1;
                return None;
            }
            Some(Trace::Answer) => {
                self.interval.counts.attack_answers += 1;
                self.interval.counts.attack_answer_bytes += ip_len(ip);
                return None;
            }
        }
        match self.frames.read(frame) {
            Ok(seen) if seen.way == way => return Some(seen),
            Ok(_) | Err(Unreadable::Stranger) => self.interval.counts.strangers += 1,
            Err(Unreadable::Damaged) => self.interval.counts.damaged += 1,
        }
        None
    }

    /// Notes a data segment that has arrived; `order` is `None` if its flow is not there any more.
    fn arrived(&mut self, seen: &Seen, frame_len: usize, order: Option<Order>) {
        let way = seen.way.index();
        let counts = &mut self.interval.counts;
        counts.arrived[way] += 1;
        counts.arrived_bytes[way] += frame_len as u64 + u64::from(FCS);
        counts.late[way] += u64::from(order.is_none());
        counts.out_of_order[way] += u64::from(order == Some(Order::TooLate));
        let Some(stamp) = seen.stamp else { return };
        let whole = self.latency_ns(stamp);
        let latencies = &mut self.interval.latencies;
        latencies.whole[way].record(whole);
        if let Some(noted) = seen.mark.cycles() {
            let noted = self.nanoseconds.of_cycles(noted);
            latencies.from_appliance[way].record(whole.saturating_sub(noted));
        }
    }
}

/// Bytes of an IP packet, as it says itself.
pub fn ip_len(ip: &[u8]) -> u64 {
    let is_v6 = ip.first().is_some_and(|first| first >> 4 == 6);
    let (at, more) = if is_v6 { (4, 40) } else { (2, 0) };
    ip.get(at..at + 2).map_or(0, |len| u64::from(u16::from_be_bytes([len[0], len[1]])) + more)
}

/// Sends a segment of one end's flow, without payload; whether it could.
fn send_control<Q: PortQueue, S: Source<Buf = Q::Buf>>(
    common: &mut Common<S>,
    port: &mut Port<Q>,
    (name, way): (Name, Way),
    segment: Segment,
) -> bool {
    let Common { frames, source, .. } = common;
    let len = frames.control_len(name, way);
    port.write(source, len, |out| frames.write_control(out, name, way, segment))
}

/// Sends a data segment of an end's next flow; whether it could.
pub fn send_data<Q: PortQueue, S: Source<Buf = Q::Buf>>(
    common: &mut Common<S>,
    port: &mut Port<Q>,
    flows: &mut Flows,
    way: Way,
    size: usize,
) -> bool {
    let Some(slot) = flows.next_established() else { return false };
    let name = flows.name(slot);
    let Common { frames, source, interval, now, .. } = common;
    let (len, payload) = frames.data_len(size, name, way);
    let half = &mut flows.halves[slot as usize];
    let segment =
        Segment { seq: half.send, ack: half.expect, flags: TcpFlags::ACK | TcpFlags::PSH, stamp: *now };
    let sent = port.write(source, len, |out| frames.write_data(out, size, name, way, segment));
    if sent {
        half.send = half.send.wrapping_add(u32::from(payload));
        interval.counts.sent[way.index()] += 1;
        interval.counts.sent_bytes[way.index()] += len as u64 + u64::from(FCS);
    }
    sent
}

/// The clients: they open and close.
pub struct Clients {
    pub flows: Flows,
    /// SYNs and FINs that wait for an answer, oldest first: until when, and of which flow.
    waiting: VecDeque<(u64, Name)>,
    /// Whether an ended flow's slot opens again.
    pub reopens: bool,
    /// Packets of the SYN flood so far.
    flood: u64,
    /// The slot that is closed next.
    next_to_close: u32,
}

impl Clients {
    pub fn new(count: u32) -> Clients {
        let waiting = VecDeque::with_capacity(4096);
        Clients { flows: Flows::new(count), waiting, reopens: true, flood: 0, next_to_close: 0 }
    }

    /// Opens a slot's next flow by a SYN; if there is no room for it now, the patience makes up for it.
    pub fn open<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        slot: u32,
    ) {
        let name = self.flows.name(slot).next();
        self.flows.begin(name, Way::Up);
        self.send_syn(common, port, name);
    }

    fn send_syn<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        name: Name,
    ) {
        let segment = Segment { seq: name.first_seq(Way::Up), flags: TcpFlags::SYN, ..Segment::default() };
        send_control(common, port, (name, Way::Up), segment);
        self.waiting.push_back((common.now_ns + PATIENCE_NS, name));
    }

    /// Closes the next established flow by a FIN; whether there was one.
    pub fn close_one<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
    ) -> bool {
        let count = self.flows.halves.len();
        for _ in 0..16.min(count) {
            let slot = self.next_to_close;
            self.next_to_close = if (slot as usize) + 1 < count { slot + 1 } else { 0 };
            if self.flows.halves[slot as usize].state == State::Established {
                self.flows.set_state(slot, State::Closing);
                self.send_fin(common, port, self.flows.name(slot));
                return true;
            }
        }
        false
    }

    fn send_fin<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        name: Name,
    ) {
        let half = &self.flows.halves[name.slot as usize];
        let (flags, seq) = (TcpFlags::FIN | TcpFlags::ACK, half.send);
        send_control(common, port, (name, Way::Up), Segment { seq, ack: half.expect, flags, stamp: 0 });
        self.waiting.push_back((common.now_ns + PATIENCE_NS, name));
    }

    /// Sends SYNs and FINs again that had no answer in time: a bounded number a round.
    pub fn retry<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
    ) {
        for _ in 0..port.room() {
            let Some(&(until, name)) = self.waiting.front() else { return };
            if until > common.now_ns {
                return;
            }
            self.waiting.pop_front();
            let half = &self.flows.halves[name.slot as usize];
            if half.epoch != name.epoch {
                continue;
            }
            match half.state {
                State::Opening => self.send_syn(common, port, name),
                State::Closing => self.send_fin(common, port, name),
                State::Closed | State::Established => continue,
            }
            common.interval.counts.retried += 1;
        }
    }

    /// Sends a packet of the SYN flood; whether it could.
    pub fn flood<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
    ) -> bool {
        let name = Name::of_flood(self.flood);
        let segment = Segment { seq: name.first_seq(Way::Up), flags: TcpFlags::SYN, ..Segment::default() };
        let sent = send_control(common, port, (name, Way::Up), segment);
        self.flood += u64::from(sent);
        common.interval.counts.flood_sent += u64::from(sent);
        sent
    }

    /// Takes a frame that came out of the gateway at the clients' end.
    pub fn take<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        frame: &[u8],
    ) {
        let Some(seen) = common.read(frame, Way::Down) else { return };
        let (standing, half) = self.flows.find(&seen);
        let (Some(half), Standing::Current) = (half, standing) else {
            match standing {
                Standing::Past if seen.payload_len > 0 => common.arrived(&seen, frame.len(), None),
                Standing::Past => {}
                Standing::Current | Standing::Next | Standing::Never => common.interval.counts.strangers += 1,
            }
            return;
        };
        let (name, slot) = (seen.name, seen.name.slot);
        if seen.flags.contains(TcpFlags::RST) {
            if half.state != State::Closed {
                common.interval.counts.resets[Way::Down.index()] += 1;
                self.end(common, port, slot);
            }
            return;
        }
        if seen.flags.contains(TcpFlags::SYN) {
            if half.state == State::Opening {
                half.send = seen.ack;
                half.expect = seen.seq.wrapping_add(1);
                self.flows.set_state(slot, State::Established);
                common.interval.counts.opened += 1;
            }
            self.acknowledge(common, port, name);
            return;
        }
        if seen.payload_len > 0 {
            let order =
                (half.state != State::Closed).then(|| half.advance(seen.seq, u32::from(seen.payload_len)));
            common.arrived(&seen, frame.len(), order);
        }
        if seen.flags.contains(TcpFlags::FIN) {
            if half.state == State::Closing {
                half.send = half.send.wrapping_add(1);
                half.expect = seen.seq.wrapping_add(1);
                self.acknowledge(common, port, name);
                common.interval.counts.closed += 1;
                self.end(common, port, slot);
            } else {
                // Its last acknowledgement was lost.
                self.acknowledge(common, port, name);
            }
        }
    }

    fn acknowledge<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        name: Name,
    ) {
        let half = &self.flows.halves[name.slot as usize];
        let segment = Segment { seq: half.send, ack: half.expect, flags: TcpFlags::ACK, stamp: 0 };
        send_control(common, port, (name, Way::Up), segment);
    }

    /// A flow has ended: its slot opens again, as people do who were cut off.
    fn end<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        slot: u32,
    ) {
        self.flows.set_state(slot, State::Closed);
        if self.reopens {
            self.open(common, port, slot);
        }
    }
}

/// The servers: they answer.
pub struct Servers {
    pub flows: Flows,
}

impl Servers {
    pub fn new(count: u32) -> Servers {
        Servers { flows: Flows::new(count) }
    }

    /// Takes a frame that came out of the gateway at the servers' end.
    pub fn take<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        frame: &[u8],
    ) {
        let Some(seen) = common.read(frame, Way::Up) else { return };
        if seen.name.is_flood() {
            common.interval.counts.flood_arrived += 1;
            return;
        }
        if seen.flags.contains(TcpFlags::SYN) {
            self.open(common, port, &seen);
            return;
        }
        let (standing, half) = self.flows.find(&seen);
        let (Some(half), Standing::Current) = (half, standing) else {
            match standing {
                Standing::Past if seen.payload_len > 0 => common.arrived(&seen, frame.len(), None),
                Standing::Past => {}
                Standing::Current | Standing::Next | Standing::Never => common.interval.counts.strangers += 1,
            }
            return;
        };
        let slot = seen.name.slot;
        if seen.flags.contains(TcpFlags::RST) {
            if half.state != State::Closed {
                common.interval.counts.resets[Way::Up.index()] += 1;
                self.flows.set_state(slot, State::Closed);
            }
            return;
        }
        if seen.payload_len > 0 {
            let order =
                (half.state != State::Closed).then(|| half.advance(seen.seq, u32::from(seen.payload_len)));
            common.arrived(&seen, frame.len(), order);
        }
        if seen.flags.contains(TcpFlags::FIN) {
            half.expect = seen.seq.wrapping_add(1);
            let flags = TcpFlags::FIN | TcpFlags::ACK;
            let segment = Segment { seq: half.send, ack: half.expect, flags, stamp: 0 };
            send_control(common, port, (seen.name, Way::Down), segment);
            self.flows.set_state(slot, State::Closed);
        } else if half.state == State::Opening {
            self.flows.set_state(slot, State::Established);
        }
    }

    /// Answers a SYN, the first or one sent again. A generator that was started anew counts its epochs from
    /// the start: any SYN begins a flow.
    fn open<Q: PortQueue, S: Source<Buf = Q::Buf>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        seen: &Seen,
    ) {
        let name = seen.name;
        let (standing, Some(half)) = self.flows.find(seen) else {
            common.interval.counts.strangers += 1;
            return;
        };
        let again = standing == Standing::Current && half.state == State::Established;
        if !again {
            half.expect = seen.seq.wrapping_add(1);
            self.flows.begin(name, Way::Down);
        }
        let (seq, flags) = (name.first_seq(Way::Down), TcpFlags::SYN | TcpFlags::ACK);
        let segment = Segment { seq, ack: seen.seq.wrapping_add(1), flags, stamp: 0 };
        send_control(common, port, (name, Way::Down), segment);
        if let (false, Some(half)) = (again, self.flows.halves.get_mut(name.slot as usize)) {
            half.send = seq.wrapping_add(1);
        }
    }
}
