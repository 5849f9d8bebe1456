//! A packet's way, from top to bottom.
//!
//! ```text
//!   a port of an endpoint                          the target side's port
//!            │                                               │
//!      read_arrival   link, IP, ports, key             read_answer   outer headers, GENEVE, cookie
//!            │                                               │
//!            ├─▶ cross       wire: not IP, link scope        ├─▶ host        not GENEVE for us
//!            ├─▶ host        routed: the same, our own       │
//!            ├─▶ answer      routed: end of its TTL          │
//!            ├─▶ follow      a fragment, an ICMP error       │
//!            ├─▶ hand off    another worker's flow           ├─▶ hand off    another worker's cookie
//!            │                                               │
//!         look up                                      find the flow by its cookie
//!            │                                               │
//!         decide ──▶ stay, move, new                   check the sender and the inner packet
//!            │   └─▶ reset, drop                             │
//!            │                                               │
//!       encapsulate                                       deliver    wire: the flow's link header in front
//!            │   └─▶ split, tell the sender                  │   └─▶ leave   routed: route, next hop
//!            ▼                                               ▼
//!   the target side's port                         a port of the endpoint
//! ```
//!
//! The packets that nearly all are leave this way for [`fast_path`](super::fast_path) after they were read, and
//! come back to it as soon as one of them needs more.
//!
//! A burst is handled stage by stage, so that the memory a later stage needs is on its way while the
//! earlier one works on the other packets. Each way to end is an
//! [`Outcome`](super::counters::Outcome) or a [`DropReason`] and
//! is counted once (C-1): an outcome when the port has taken the packet, a drop where it happens.
//! Nothing here allocates, locks, waits or panics.

use std::sync::Arc;

use arrayvec::ArrayVec;
use rtrb::Producer;

use super::answer::{Answer, read_answer};
use super::arrival::{Arrival, Unread, read_arrival};
use super::capture::Watch;
use super::counters::{DropReason, WorkerCounters};
use super::decide::{Debts, Verdict};
use super::fast_path::{
    AnswerLane, AnswerLanes, Course, Lane, Lanes, Wire, count_answers, count_lanes, guess_entries,
    prefetch_lanes, read_answers,
};
use super::flow_log::Why;
use super::flows::{Cause, FirstPacket, Flows, NoRoom};
use super::followers::needs_first;
use super::forwarding::{Condition, Conditions, Forwarding, PortRole, Target};
use super::fragments::Fragments;
use super::host::HostPort;
use super::icmp_errors::Allowance;
use super::judging::verdict_of;
use super::messages::FromWorker;
use super::neighbours::Neighbours;
use super::outbound::{Delivery, Fate, Handoff, Outbound, Stage};
use super::rates::Rates;
use super::returned::{Onward, Way};
use super::sizes::{can_go_on, clamp_mss, fits};
use super::sweep::Sweep;
use super::waiting::Waiting;
use crate::flow::{Cookie, CookieLayout, DecodedCookie, EntryId, Guess, HashSeed};
use crate::id::{Millis, PortId, TargetId, WorkerId};
use crate::io::isa::Isa;
use crate::io::{BURST, BoxedBurst, Burst, PacketBuf};
use crate::wire::geneve::outer;
use crate::wire::packet::Fragment;
use crate::wire::split::NotSplit;
use crate::wire::tcp::TcpFlags;
use crate::wire::ttl;
use crate::wire::{ethernet, ipv4};

/// One worker's packet processing: all it needs besides the forwarding state.
pub struct Pipeline<B> {
    /// This worker.
    pub worker: WorkerId,
    /// How many workers there are.
    pub workers: u8,
    /// The flows this worker owns.
    pub flows: Flows,
    /// The targets' conditions.
    pub conditions: Conditions,
    /// How many resets may be sent (R-11).
    pub rates: Rates,
    /// The walk that tells silent flows (R-10).
    pub sweep: Sweep,
    /// Packets to be sent at the end of the burst.
    pub outbound: Outbound<B>,
    /// Packets for, and from, the other workers.
    pub handoff: Handoff<B>,
    /// Packets for, and from, the host's network stack.
    pub host: HostPort<B>,
    /// The link-layer addresses of next hops.
    pub neighbours: Neighbours,
    /// Packets that wait for a next hop's link-layer address.
    pub waiting: Waiting<B>,
    /// Datagrams that come in fragments (M-4).
    pub fragments: Fragments<B>,
    /// ICMP errors that this worker may send (M-2).
    pub allowance: Allowance,
    /// This worker's counters.
    pub counters: Arc<WorkerCounters>,
    /// What the control core is told.
    pub events: Producer<FromWorker>,
    /// Keys the choice of targets; the same on every node of a site (F-4).
    pub choice_seed: HashSeed,
    /// The instructions that the stages are compiled for.
    pub isa: Isa,
    /// Where a burst's packets are noted; kept, so that nothing has to be cleared. There but while it is in use.
    pub lanes: Option<Lanes>,
    /// The same for answers.
    pub answer_lanes: Option<AnswerLanes>,
    /// Whether the common packets take the fast path. They do; the tests, which hold it against the general way,
    /// turn it off.
    pub fast_path: bool,
    /// Whether the control core is told of new TCP flows.
    pub tells_begun: bool,
    /// Whether there is a capture: looked at once a burst, by `is_watched`.
    pub(super) watching: bool,
    /// The captures; there but while a packet is told of.
    pub watch: Option<Box<Watch>>,
    /// The time, read once a round.
    pub now: Millis,
    /// The same in cycles, for events.
    pub now_cycles: u64,
}

impl<B: PacketBuf> Pipeline<B> {
    /// Handles a burst that came in by `port`. `steered`: it comes from another worker, which counted
    /// it as received; it is not handed off again.
    #[inline(always)]
    pub fn process(
        &mut self,
        forwarding: &Forwarding,
        port: PortId,
        burst: &mut BoxedBurst<B>,
        steered: bool,
    ) {
        if !steered {
            self.counters.received.add(burst.len() as u64);
        }
        match forwarding.ports.get(port.index()) {
            Some(PortRole::Wire { .. } | PortRole::Routed(_)) => {
                self.arrivals(forwarding, port, burst, steered);
            }
            Some(PortRole::Underlay) => self.answers(forwarding, port, burst, steered),
            Some(PortRole::Unused) | None => {
                burst.drain(..).for_each(|_| self.counters.dropped(DropReason::PortUnused));
            }
        }
    }

    // ---------------------------------------------------------------- from a client or a server

    /// A burst from one end of a wire, or from a port of routed endpoints.
    #[inline(always)]
    fn arrivals(&mut self, forwarding: &Forwarding, port: PortId, burst: &mut BoxedBurst<B>, steered: bool) {
        let Some(mut kept) = self.lanes.take() else { return };
        let lanes = kept.get_mut(..burst.len()).unwrap_or_default();
        let wire = Wire::of(forwarding, port).filter(|_| self.fast_path);
        // Stage by stage: what the next one needs of memory is on its way while this one is at work.
        burst.iter().for_each(PacketBuf::prefetch);
        let unread = match &wire {
            Some(wire) => wire.read_burst(self.isa, &self.flows.table, burst, lanes),
            None => {
                lanes.iter_mut().for_each(Lane::forget);
                true
            }
        };
        let mut careful = ArrayVec::new();
        if unread {
            self.read_carefully(forwarding, port, burst, lanes, &mut careful);
        }
        if self.workers > 1 && !steered {
            self.tell_others_apart(wire.as_ref(), lanes);
        }
        guess_entries(self.isa, &self.flows.table, lanes);
        let others =
            if unread || self.workers > 1 { lanes.iter().filter(|lane| !lane.has_flow()).count() } else { 0 };
        self.counters.lookups_by_hash.add((burst.len() - others) as u64);
        let ready = match &wire {
            Some(wire) => self.make_ready(forwarding, wire, burst, lanes),
            None => 0,
        };
        self.outbound.take_noted(forwarding.underlay.port, burst, ready);
        if !burst.is_empty() {
            let lanes = lanes.get_mut(ready..).unwrap_or_default();
            self.mixed_arrivals(forwarding, (port, steered), wire.as_ref(), burst, (lanes, &careful));
        }
        self.lanes = Some(kept);
    }

    /// What is left of a burst when one needed more than the fast path, in order: that one, then again as many as
    /// need no more. `careful` has what was read with care.
    #[inline(never)]
    fn mixed_arrivals(
        &mut self,
        forwarding: &Forwarding,
        (port, steered): (PortId, bool),
        wire: Option<&Wire<'_>>,
        burst: &mut Burst<B>,
        (mut lanes, careful): (&mut [Lane], &[Arrival]),
    ) {
        let (mut careful, mut followers) = (careful.iter(), Burst::new());
        let mut packets = burst.take().into_iter();
        while let (Some(packet), Some((lane, behind))) = (packets.next(), lanes.split_first_mut()) {
            lanes = behind;
            match (lane.course, wire) {
                (Course::Plain, Some(wire)) => self.plain(forwarding, wire, port, packet, lane),
                (Course::Follower, _) => followers.push(packet),
                _ => self.not_plain(forwarding, port, packet, lane, &mut careful),
            }
            if let Some(wire) = wire
                && lanes.first().is_some_and(Lane::is_plain)
            {
                let ready = self.make_ready(forwarding, wire, packets.as_mut_slice(), lanes);
                for packet in packets.by_ref().take(ready) {
                    self.outbound.take_noted_one(forwarding.underlay.port, packet, &self.counters);
                }
                lanes = lanes.get_mut(ready..).unwrap_or_default();
            }
        }
        let stage = steered.then_some(Stage::Owner);
        for packet in followers {
            self.follow(forwarding, port, packet, stage); // M-4, M-5
        }
    }

    /// Makes packets ready for their flows' targets, in place and from the front, until one needs more than the fast
    /// path; returns how many.
    #[inline]
    fn make_ready(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        packets: &mut [B],
        lanes: &[Lane],
    ) -> usize {
        if let Some(log) = &self.flows.log {
            prefetch_lanes(log, lanes);
        }
        let mut ready = self.express(forwarding, wire, packets, lanes, 0);
        // Runs of packets that begin flows and runs of those of flows that go on, by turns.
        while let (Some(packets @ [_, ..]), Some(lanes)) = (packets.get_mut(ready..), lanes.get(ready..)) {
            let begun = self.begin(forwarding, wire, packets, lanes, ready);
            if begun == 0 {
                break;
            }
            if self.tells_begun {
                self.tell_begun_run(wire, lanes.get(..begun).unwrap_or_default(), ready);
            }
            ready += begun;
            if let (Some(packets @ [_, ..]), Some(lanes)) = (packets.get_mut(begun..), lanes.get(begun..)) {
                ready += self.express(forwarding, wire, packets, lanes, ready);
            }
        }
        if let Some(log) = &mut self.flows.log {
            count_lanes(log, lanes.get(..ready).unwrap_or_default());
        }
        ready
    }

    /// One packet that was read plainly and needs more than the fast path as its lane has it.
    fn plain(&mut self, forwarding: &Forwarding, wire: &Wire<'_>, port: PortId, packet: B, lane: &mut Lane) {
        let found = self.flows.table.confirm(lane.probe, lane.guess, &lane.key);
        let rightly_guessed = found.map_or(!lane.guess.is_some(), |id| lane.guess.is(id));
        let mut packet = [packet];
        if !rightly_guessed {
            // Its flow is not where it was looked for first, or there is none.
            lane.guess = found.map_or(Guess::NONE, Guess::of);
            if self.make_ready(forwarding, wire, &mut packet, std::slice::from_ref(lane)) == 1 {
                let [packet] = packet;
                return self.outbound.take_noted_one(forwarding.underlay.port, packet, &self.counters);
            }
        }
        let [packet] = packet;
        if found.is_none() && lane.may_be_link_scope() {
            // No flow is of addresses that keep a packet from being one's, so that this is asked of strangers alone.
            if let Err(unread) = read_arrival(forwarding, port, &packet) {
                return self.unread(forwarding, port, packet, unread);
            }
        }
        let arrival = wire.arrival(lane);
        self.arrival(forwarding, packet, &arrival, found);
    }

    /// One packet that was not: another worker's, one that was read with care, or none of a flow.
    #[inline(never)]
    fn not_plain(
        &mut self,
        forwarding: &Forwarding,
        port: PortId,
        packet: B,
        lane: &Lane,
        careful: &mut std::slice::Iter<'_, Arrival>,
    ) {
        // In the order in which they were read.
        let arrival = if lane.was_careful() { careful.next() } else { None };
        match (lane.course, arrival) {
            (Course::Others, _) => {
                self.handoff.give(self.owner(lane.probe.hash()), port, packet, &self.counters);
            }
            (Course::Careful, Some(arrival)) => {
                let found = self.flows.table.confirm(lane.probe, lane.guess, &lane.key);
                let arrival = Arrival { hash: lane.probe.hash(), ..*arrival };
                self.arrival(forwarding, packet, &arrival, found);
            }
            _ => self.unread_again(forwarding, port, packet),
        }
    }

    /// A frame that was seen to be no packet of a flow.
    #[cold]
    fn unread_again(&mut self, forwarding: &Forwarding, port: PortId, packet: B) {
        if let Err(unread) = read_arrival(forwarding, port, &packet) {
            self.unread(forwarding, port, packet, unread);
        }
    }

    /// Reads what could not be read plainly. Of a packet that stands alone its lane has the flow, so that it is
    /// looked up with the others, and `careful` the rest.
    #[inline(never)]
    fn read_carefully(
        &self,
        forwarding: &Forwarding,
        port: PortId,
        burst: &mut [B],
        lanes: &mut [Lane],
        careful: &mut ArrayVec<Arrival, BURST>,
    ) {
        for (packet, lane) in burst.iter_mut().zip(lanes).filter(|(_, lane)| !lane.is_plain()) {
            // A frame in pieces is gathered, or else seen to be too long.
            packet.make_contiguous();
            match read_arrival(forwarding, port, packet) {
                Ok(arrival) if !arrival.stands_alone() => lane.course = Course::Follower,
                Ok(arrival) => {
                    lane.read_with_care(&self.flows.table, &arrival);
                    careful.push(arrival);
                }
                Err(_) => {}
            }
        }
    }

    /// Marks the packets of flows that other workers own.
    #[inline(never)]
    fn tell_others_apart(&self, wire: Option<&Wire<'_>>, lanes: &mut [Lane]) {
        for lane in lanes {
            let of_flow = matches!(lane.course, Course::Plain | Course::Careful);
            if !of_flow || self.owner(lane.probe.hash()) == self.worker {
                continue;
            }
            // What crosses the wire, or comes from a group, has a hash when it was read plainly, but no flow and so no owner.
            let is_nobodys = lane.is_plain() && wire.is_some_and(|wire| wire.is_of_no_flow(lane));
            if !is_nobodys {
                lane.hand_off();
            }
        }
    }

    /// What becomes of a frame that is no packet of a flow.
    pub(super) fn unread(&mut self, forwarding: &Forwarding, port: PortId, packet: B, unread: Unread) {
        match unread {
            Unread::Cross(peer) => self.outbound.send(peer, packet, Fate::Crossed, &self.counters),
            Unread::Host(interface) => self.to_host(forwarding, interface, packet),
            Unread::TimeExceeded(interface) => self.time_exceeded(forwarding, port, interface, packet),
            Unread::Drop(reason) => self.counters.dropped(reason),
        }
    }

    /// One packet of a client or a server whose flow was looked up: decide, carry out.
    pub(super) fn arrival(
        &mut self,
        forwarding: &Forwarding,
        mut packet: B,
        arrival: &Arrival,
        found: Option<EntryId>,
    ) {
        let Some(gateway) = forwarding.gateway(arrival.gateway) else {
            return self.counters.dropped(DropReason::NoLoadBalancer);
        };
        let facts = arrival.facts();
        let flow = found.map(|id| self.flows.facts(id, forwarding, &self.conditions, self.now));
        let around = self.surroundings(arrival.gateway, gateway, 1);
        let mut verdict = verdict_of(arrival, flow.as_ref(), &around, &mut ());
        if let Verdict::Held(why, update) = verdict {
            self.count_suppressed(arrival.gateway, found, why);
            match update {
                Some(update) => verdict = Verdict::Stay(update),
                None => return self.counters.dropped(DropReason::ResetSuppressed),
            }
        }
        if gateway.policy.mss_clamp && facts.flags.contains(TcpFlags::SYN) {
            clamp_mss(&mut packet, arrival, forwarding.underlay.mtu, &self.counters); // M-3
        }
        match (verdict, found) {
            (Verdict::Stay(update), Some(id)) => {
                if !self.keep_link(id, &packet, arrival) {
                    return;
                }
                self.flows.update(id, &update, self.now);
                self.note(gateway, &packet, arrival, id);
                self.send_to_flow_target(forwarding, packet, arrival, id);
            }
            (Verdict::Move(update), Some(id)) => {
                if !self.keep_link(id, &packet, arrival) {
                    return;
                }
                self.flows.update(id, &update, self.now);
                self.note(gateway, &packet, arrival, id);
                self.move_flow(forwarding, arrival, id);
                self.send_to_flow_target(forwarding, packet, arrival, id);
            }
            (Verdict::New(_) | Verdict::Rejoin, _) => {
                let fit = can_go_on(&packet, arrival, forwarding.underlay.mtu);
                if let (Some(id), Ok(())) = (found, fit) {
                    let cause = Cause { why: Why::Replaced, now: self.now, timers: &gateway.timers };
                    self.flows.end(id, &cause, &self.counters);
                }
                let anew = match verdict {
                    Verdict::New(debts) => (debts, false),
                    _ => (Debts::NONE, true),
                };
                self.new_flow(forwarding, packet, arrival, anew, fit);
            }
            (Verdict::Reset(trigger, then), _) => {
                self.reset(forwarding, packet, arrival, found, (trigger, then));
            }
            (Verdict::Drop(reason, then), _) => {
                if let Some(id) = found {
                    let cause = Cause { why: Why::Dropped, now: self.now, timers: &gateway.timers };
                    self.flows.after(id, then, &cause, &self.counters);
                }
                self.counters.dropped(reason);
            }
            // Only a flow can stay or move; `decide` gives these to nothing else, and what is held back
            // was seen to above.
            (Verdict::Stay(_) | Verdict::Move(_), None) | (Verdict::Held(..), _) => {
                self.counters.dropped(DropReason::UnknownFlow);
            }
        }
    }

    /// Which target a new flow goes to, and whether it fails open (F-4, F-6).
    pub(super) fn choose(&self, forwarding: &Forwarding, arrival: &Arrival) -> Option<(TargetId, bool)> {
        let gateway = forwarding.gateway(arrival.gateway)?;
        let choice_hash = self.choice_seed.choice(&arrival.key, gateway.policy.stickiness);
        let healthy = |target| self.conditions.of(target) == Condition::Healthy;
        let choice = gateway.map.choose(choice_hash, healthy)?;
        Some((choice.target, choice.fail_open))
    }

    /// The first packet of a flow, or of what is left of one. There is no flow if it cannot go on.
    fn new_flow(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        arrival: &Arrival,
        (debts, rejoins): (Debts, bool),
        can_go_on: Result<(), NotSplit>,
    ) {
        let chosen = self.choose(forwarding, arrival);
        let Some((target_id, fail_open)) = chosen else {
            // A later fragment's flow was counted with its first.
            if arrival.packet.fragment != Fragment::Later {
                let counters = self.counters.gateway(arrival.gateway);
                counters.rejected_flows.add(1);
                counters.rejected_flows_tcp.add(u64::from(arrival.facts().tcp));
            }
            return self.counters.dropped(DropReason::NoTarget); // F-7
        };
        let Some(target) = forwarding.targets.get(target_id.index()).and_then(Option::as_ref) else {
            return self.counters.dropped(DropReason::NoTarget);
        };
        if let Err(why) = can_go_on {
            return self.cannot_go_on(forwarding, packet, arrival, why); // M-2
        }
        let header = arrival.link_header(&packet);
        let Some(link) = self.flows.link_of_new(arrival, header, self.now, &self.counters) else {
            return self.counters.dropped(DropReason::LinkTableFull);
        };
        let mut flow = None;
        let begun = match arrival.packet.fragment {
            // Its first fragment found no room (F-12).
            Fragment::Later if needs_first(&arrival.packet) => Err(NoRoom),
            Fragment::Whole | Fragment::First | Fragment::Later => self.flows.begin(
                &FirstPacket { rejoins, ..arrival.first() },
                (target_id, target.generation),
                link,
                (fail_open, debts),
                self.now,
                &self.counters,
            ),
        };
        let cookie = match begun {
            Ok(id) => {
                flow = Some(id);
                if fail_open {
                    self.counters.gateway(arrival.gateway).fail_open_flows.add(1);
                }
                if let Some(gateway) = forwarding.gateway(arrival.gateway) {
                    self.note(gateway, &packet, arrival, id);
                }
                self.flows.table.cookie(id)
            }
            Err(NoRoom) => {
                self.counters.gateway(arrival.gateway).stateless_packets.add(1);
                let Some(link) = self.flows.stateless_link(arrival, link, arrival.link_header(&packet))
                else {
                    return self.counters.dropped(DropReason::LinkTableFull);
                };
                self.flows.stateless_cookie(self.worker, arrival.hash, (arrival.direction, link), self.now) // F-12
            }
        };
        if self.tells_begun && arrival.facts().opens() {
            self.tell_begun(&arrival.key, arrival.direction, target_id);
        }
        if self.encapsulate(forwarding, packet, arrival, target_id, target, cookie) {
            self.count_out(flow, arrival);
        }
    }

    /// Counts a packet that was sent on to its flow's target, where flow logs are on.
    #[inline]
    fn count_out(&mut self, flow: Option<EntryId>, arrival: &Arrival) {
        if let (Some(log), Some(id)) = (&mut self.flows.log, flow) {
            log.count_out(id, arrival.direction, arrival.packet.total_len);
        }
    }

    /// Moves a flow to a healthy target (`rebalance`, T-1, T-2, T-4). With none it stays.
    fn move_flow(&mut self, forwarding: &Forwarding, arrival: &Arrival, id: EntryId) {
        let Some((to, false)) = self.choose(forwarding, arrival) else { return };
        if let Some(target) = forwarding.targets.get(to.index()).and_then(Option::as_ref) {
            self.flows.move_to(id, to, target.generation, &self.counters);
        }
    }

    /// Notes the link-layer header that this direction's packets have. False: the packet was dropped,
    /// as there is no room to note it and its answer could not be sent on rightly.
    #[inline]
    fn keep_link(&mut self, id: EntryId, packet: &B, arrival: &Arrival) -> bool {
        let kept = arrival.interface.is_some()
            || self.flows.keep_link(
                id,
                arrival.direction,
                (arrival.port, arrival.link_header(packet)),
                self.now,
                &self.counters,
            );
        if !kept {
            self.counters.dropped(DropReason::LinkTableFull);
        }
        kept
    }

    /// Sends a packet to its flow's target, whatever that target's condition.
    #[inline]
    pub(super) fn send_to_flow_target(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        arrival: &Arrival,
        id: EntryId,
    ) {
        let entry = self.flows.table.entry(id);
        let (target_id, generation) = (entry.target, entry.target_generation);
        match forwarding.target(target_id, generation) {
            Some(target) => {
                let cookie = self.flows.table.cookie(id);
                if self.encapsulate(forwarding, packet, arrival, target_id, target, cookie) {
                    self.count_out(Some(id), arrival);
                }
            }
            None => self.counters.dropped(DropReason::NoTarget),
        }
    }

    /// Puts the outer headers in place of the link header (W-1 to W-3) and sends the packet; returns whether it could.
    #[inline]
    fn encapsulate(
        &mut self,
        forwarding: &Forwarding,
        mut packet: B,
        arrival: &Arrival,
        target_id: TargetId,
        target: &Target,
        cookie: Cookie,
    ) -> bool {
        let underlay = &forwarding.underlay;
        let Some(inner_len) = fits(arrival.packet.total_len, underlay.mtu) else {
            return self.too_big(forwarding, packet, arrival, (target_id, target), cookie); // M-2
        };
        if let Err(reason) = self.seal(forwarding, &mut packet, inner_len, arrival, target, cookie) {
            self.counters.dropped(reason);
            return false;
        }
        let fate = Fate::Forwarded { target: target_id, bytes: arrival.packet.total_len };
        self.outbound.send(underlay.port, packet, fate, &self.counters);
        true
    }

    /// Makes a frame that begins with the arrival's link header and then has `inner_len` bytes of IP packet
    /// one for the target.
    #[inline]
    pub(super) fn seal(
        &self,
        forwarding: &Forwarding,
        packet: &mut B,
        inner_len: u16,
        arrival: &Arrival,
        target: &Target,
        cookie: Cookie,
    ) -> Result<(), DropReason> {
        let underlay = &forwarding.underlay;
        let template = target.template.as_ref().ok_or(DropReason::NeighbourUnknown)?;
        let endpoint = forwarding.endpoint(arrival.endpoint).ok_or(DropReason::NeighbourUnknown)?;
        let link_len = usize::from(arrival.link_len);
        packet.truncate(link_len + usize::from(inner_len));
        let frame = packet.prepend(outer::OUTER_LEN - link_len).ok_or(DropReason::NoHeadroom)?;
        let fields = outer::OuterFields {
            inner_len,
            protocol: arrival.ethertype,
            source_port: underlay.source_port(template, self.worker, arrival.hash),
            endpoint_id: endpoint.id,
            attachment_id: endpoint.attachment_id,
            cookie: cookie.0,
        };
        let headers = frame.first_chunk_mut().ok_or(DropReason::NoHeadroom)?;
        template.write(headers, &fields);
        if arrival.interface.is_some() {
            ttl::lower(frame.get_mut(outer::OUTER_LEN..).unwrap_or_default(), arrival.packet.version); // W-6
        }
        // W-3, by the port where it can.
        #[expect(clippy::cast_possible_truncation, reason = "14 and 20")]
        const LENS: (u16, u16) = (ethernet::HEADER_LEN as u16, ipv4::HEADER_LEN as u16);
        if underlay.udp_checksum
            && !(underlay.checksum_by_port && packet.offload_udp_checksum(LENS.0, LENS.1))
        {
            outer::fill_udp_checksum(packet.bytes_mut());
        }
        Ok(())
    }

    // ---------------------------------------------------------------- from an appliance

    /// A burst from the target side.
    #[inline(always)]
    fn answers(&mut self, forwarding: &Forwarding, port: PortId, burst: &mut BoxedBurst<B>, steered: bool) {
        let Some(mut kept) = self.answer_lanes.take() else { return };
        let lanes = kept.get_mut(..burst.len()).unwrap_or_default();
        let layout = *self.flows.table.cookies();
        let any_unread = if self.fast_path {
            read_answers(self.isa, &self.flows.table, forwarding.underlay.address, burst, lanes)
        } else {
            lanes.iter_mut().for_each(|lane| lane.course = Course::Unread);
            true
        };
        let mut careful = ArrayVec::new();
        if any_unread {
            self.read_answers_carefully(forwarding, &layout, burst, lanes, &mut careful);
        }
        let unread = |lane: &&AnswerLane| lane.course == Course::Unread;
        let no_cookie = if any_unread { lanes.iter().filter(unread).count() } else { 0 };
        self.counters.lookups_by_cookie.add((burst.len() - no_cookie) as u64);
        let ready = self.express_back(forwarding, burst, lanes);
        self.count_back(burst, lanes, ready);
        self.outbound.deliver_from_front(burst, lanes.get(..ready).unwrap_or_default(), &self.counters);
        if !burst.is_empty() {
            let rest = lanes.get_mut(ready..).unwrap_or_default();
            self.mixed_answers(forwarding, (port, steered), burst, (rest, careful));
        }
        self.answer_lanes = Some(kept);
    }

    /// Counts the first answers of a burst, which were made ready, where flow logs are on.
    #[inline]
    fn count_back(&mut self, packets: &[B], lanes: &[AnswerLane], ready: usize) {
        let Flows { table, log, .. } = &mut self.flows;
        if let Some(log) = log {
            let packets = packets.get(..ready).unwrap_or_default();
            count_answers(log, table, packets, lanes);
        }
    }

    /// What is left of a burst when one needed more than the fast path, in order: that one, then again as many as
    /// need no more. `careful` has what was read with care.
    #[inline(never)]
    fn mixed_answers(
        &mut self,
        forwarding: &Forwarding,
        (port, steered): (PortId, bool),
        burst: &mut Burst<B>,
        (mut lanes, careful): (&mut [AnswerLane], ArrayVec<Answer, BURST>),
    ) {
        let layout = *self.flows.table.cookies();
        let mut careful = careful.into_iter();
        let mut packets = burst.take().into_iter();
        while let (Some(packet), Some((lane, behind))) = (packets.next(), lanes.split_first_mut()) {
            lanes = behind;
            let read = if lane.course == Course::Careful { careful.next() } else { None };
            // Others' cookies are of no entry here.
            let owner = layout.owner(lane.cookie);
            if lane.course == Course::Unread || steered || self.workers == 1 || owner == self.worker {
                self.answer(forwarding, port, &layout, packet, read);
            } else if owner.0 < self.workers {
                self.handoff.give(owner, port, packet, &self.counters);
            } else {
                self.counters.dropped(DropReason::CookieStale);
            }
            if lanes.first().is_some_and(|next| next.course == Course::Plain) {
                let ready = self.express_back(forwarding, packets.as_mut_slice(), lanes);
                self.count_back(packets.as_slice(), lanes, ready);
                for (packet, lane) in packets.by_ref().zip(lanes.iter()).take(ready) {
                    let Delivery { port, note } = lane.way;
                    self.outbound.send(port, packet, note.delivered(), &self.counters);
                }
                lanes = lanes.get_mut(ready..).unwrap_or_default();
            }
        }
    }

    /// Reads what could not be read plainly: its lane has the cookie, so that its flow is asked for with the others,
    /// and `careful` the rest.
    #[inline(never)]
    fn read_answers_carefully(
        &self,
        forwarding: &Forwarding,
        layout: &CookieLayout,
        burst: &mut [B],
        lanes: &mut [AnswerLane],
        careful: &mut ArrayVec<Answer, BURST>,
    ) {
        let unread = |(_, lane): &(&mut B, &mut AnswerLane)| lane.course == Course::Unread;
        for (packet, lane) in burst.iter_mut().zip(lanes).filter(unread) {
            packet.make_contiguous();
            if let Ok(answer) = read_answer(forwarding, layout, packet) {
                self.flows.table.prefetch_cookie(answer.raw_cookie);
                (lane.cookie, lane.course) = (answer.raw_cookie, Course::Careful);
                careful.push(answer);
            }
        }
    }

    /// One packet from the target side that needs more than the fast path; `read` is what it says if it was read
    /// with care.
    fn answer(
        &mut self,
        forwarding: &Forwarding,
        port: PortId,
        layout: &CookieLayout,
        packet: B,
        read: Option<Answer>,
    ) {
        match read.map_or_else(|| read_answer(forwarding, layout, &packet), Ok) {
            Ok(answer) => self.answer_carefully(forwarding, packet, &answer),
            Err(unread) => self.unread(forwarding, port, packet, unread),
        }
    }

    /// One packet of an appliance, with every care.
    #[inline(never)]
    fn answer_carefully(&mut self, forwarding: &Forwarding, packet: B, answer: &Answer) {
        let checked = match answer.cookie {
            DecodedCookie::Flow { .. } => self.check_answer(forwarding, &packet, answer),
            DecodedCookie::Stateless { direction, link, check, .. } => {
                self.counters.lookups_stateless.add(1);
                self.check_stateless(forwarding, packet.bytes(), answer, (direction, link, check))
            }
        };
        match checked {
            Ok(way) => self.deliver(forwarding, packet, answer, &way),
            Err(reason) => self.counters.dropped(reason),
        }
    }

    /// Takes the outer headers off, puts the link header on, and sends the packet out of its endpoint,
    /// otherwise byte for byte as the appliance returned it (W-6).
    #[inline]
    fn deliver(&mut self, forwarding: &Forwarding, mut packet: B, answer: &Answer, way: &Way) {
        let fate = Fate::Delivered { target: way.target, bytes: way.inner_len };
        packet.trim_front(usize::from(answer.inner_offset));
        packet.truncate(way.inner_len as usize);
        let (link, reversed) = match way.onward {
            Onward::Header { link, reversed } => (link, reversed),
            Onward::Routes(endpoint) => return self.leave(forwarding, packet, endpoint, fate),
        };
        let Some((came_by, header)) = self.flows.links.get(link) else {
            return self.counters.dropped(DropReason::LinkUnknown);
        };
        let leaves_by = match forwarding.ports.get(came_by.index()) {
            Some(PortRole::Wire { .. }) if reversed => came_by,
            Some(PortRole::Wire { peer, .. }) => *peer,
            _ => return self.counters.dropped(DropReason::LinkUnknown),
        };
        let Some(frame) = packet.prepend(header.len()) else {
            return self.counters.dropped(DropReason::NoHeadroom);
        };
        if let Some(front) = frame.get_mut(..header.len()) {
            front.copy_from_slice(header);
        }
        if reversed {
            ethernet::swap_addresses(frame);
        }
        self.outbound.send(leaves_by, packet, fate, &self.counters);
    }

    /// The worker that owns a flow: a function of the hash alone.
    #[inline]
    pub(super) fn owner(&self, hash: u64) -> WorkerId {
        #[expect(clippy::cast_possible_truncation, reason = "a 16-bit fraction of at most 255 workers")]
        let owner = (((hash >> 48) * u64::from(self.workers)) >> 16) as u8;
        WorkerId(owner)
    }
}
