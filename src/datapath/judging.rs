//! What would become of a packet, said without doing it: answers an [`Enquiry`].
//!
//! Read, looked up, decided and chosen by the functions that the packets themselves go through; here is only
//! what carries a verdict out, without carrying it out. `tests/pipeline/explain.rs` puts every packet of random
//! histories to both, and holds what was said against what was done.
//!
//! Not foreseen is what hangs on other packets at the same time: a full transmit queue or ring to another
//! worker, a full table of link-layer headers, buffers that run out.

mod returned;

use super::answer::quoted_flow;
use super::arrival::{Arrival, Unread, read_arrival};
use super::counters::{DropReason, ResetTrigger};
use super::decide::account::{Account, Reasons};
use super::decide::later_fragment::decide_later_fragment;
use super::decide::{FlowFacts, Surroundings, Verdict, decide_telling};
use super::enquiry::{
    Answered, AroundSeen, By, ChoiceSeen, Ending, Enquiry, FlowSeen, Judgement, Question, Under,
};
use super::flows::is_live;
use super::followers::needs_first;
use super::forwarding::{Condition, Forwarding, PortRole, Target};
use super::fragments::{Datagram, First};
use super::icmp_errors::become_error;
use super::interfaces::{VlanTags, speaker};
use super::pipeline::Pipeline;
use super::reset::write_reset;
use super::sizes::{answer_of, fits, plan_of, room};
use super::worker::record;
use crate::flow::{Cookie, DecodedCookie, EntryId, NotInserted};
use crate::id::{InterfaceId, PortId, TargetId, WorkerId};
use crate::io::PacketBuf;
use crate::io::memory::MemoryBuf;
use crate::wire::ethernet::{self, Link};
use crate::wire::fragment::Place;
use crate::wire::icmp::error::IcmpError;
use crate::wire::ip::IpVersion;
use crate::wire::packet::{Fragment, Kind, Packet};
use crate::wire::split::NotSplit;

/// What is done with a packet of a client or a server, whose flow was looked up.
#[inline]
pub(super) fn verdict_of(
    arrival: &Arrival,
    flow: Option<&FlowFacts>,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Verdict {
    match arrival.packet.fragment {
        Fragment::Later if needs_first(&arrival.packet) => {
            decide_later_fragment(arrival.direction, flow, around, account) // M-4
        }
        Fragment::Whole | Fragment::First | Fragment::Later => {
            decide_telling(&arrival.facts(), flow, around, account)
        }
    }
}

/// What becomes of a packet that is dropped.
fn dropped(reason: DropReason) -> Ending {
    Ending::Dropped(reason)
}

impl<B: PacketBuf> Pipeline<B> {
    /// Fills in what this worker has to say.
    #[cold]
    pub(super) fn answer_enquiry(&mut self, forwarding: &Forwarding, enquiry: &mut Enquiry) {
        let Enquiry { question, answer, .. } = enquiry;
        *answer = match question {
            Question::Cookie(cookie) => self.flow_of(forwarding, *cookie),
            Question::Frame { port, frame, first } => match forwarding.ports.get(port.index()) {
                Some(PortRole::Wire { .. } | PortRole::Routed(_)) => {
                    self.judge_arrival(forwarding, *port, frame, *first)
                }
                Some(PortRole::Underlay) => self.judge_answer(forwarding, frame).map(Answered::Judged),
                Some(PortRole::Unused) | None => {
                    Some(Answered::Judged(self.judgement(dropped(DropReason::PortUnused))))
                }
            },
        };
    }

    /// What there is to say of a packet where nothing was looked up.
    fn judgement(&self, ending: Ending) -> Judgement {
        Judgement {
            worker: self.worker,
            arrival: None,
            datagram: None,
            by: By::Nothing,
            flow: None,
            around: None,
            verdict: None,
            reasons: Reasons::default(),
            choice: None,
            ending,
        }
    }

    /// The flow that has a cookie; whoever the cookie names says so.
    fn flow_of(&self, forwarding: &Forwarding, cookie: Cookie) -> Option<Answered> {
        let layout = self.flows.table.cookies();
        let owner = layout.owner(cookie);
        let nobodys = owner.0 >= self.workers && self.worker == WorkerId(0);
        if owner != self.worker && !nobodys {
            return None;
        }
        let found = match layout.decode(cookie) {
            DecodedCookie::Flow { .. } => self.flows.table.by_cookie(cookie).ok(),
            DecodedCookie::Stateless { .. } => None,
        };
        Some(found.map_or(Answered::NoFlow, |id| Answered::Flow(self.seen(forwarding, id).record)))
    }

    fn seen(&self, forwarding: &Forwarding, id: EntryId) -> FlowSeen {
        let entry = self.flows.table.entry(id);
        FlowSeen {
            record: record(self.worker, self.now, entry, self.flows.table.cookie(id).0, forwarding),
            facts: self.flows.facts(id, forwarding, &self.conditions, self.now),
            initiator: entry.initiator(),
        }
    }

    // ---------------------------------------------------------------- from a client or a server

    fn judge_arrival(
        &mut self,
        forwarding: &Forwarding,
        port: PortId,
        frame: &mut MemoryBuf,
        first: Option<First>,
    ) -> Option<Answered> {
        let judged = |judgement| Some(Answered::Judged(judgement));
        let arrival = match read_arrival(forwarding, port, frame) {
            Ok(arrival) => arrival,
            Err(unread) => {
                let ending = self.end_of_unread(forwarding, frame, unread);
                return judged(self.judgement(ending));
            }
        };
        match arrival.packet.fragment {
            Fragment::Whole if arrival.packet.kind == Kind::IcmpError => {
                self.judge_error(forwarding, frame, arrival).and_then(judged)
            }
            Fragment::Whole => self.judge_by_tuple(forwarding, frame, arrival).and_then(judged),
            Fragment::First | Fragment::Later => self.judge_fragment(forwarding, frame, arrival, first),
        }
    }

    fn end_of_unread(&self, forwarding: &Forwarding, frame: &mut MemoryBuf, unread: Unread) -> Ending {
        match unread {
            Unread::Cross(peer) => Ending::Crosses(peer),
            Unread::Host(interface) => end_at_host(forwarding, frame, interface),
            Unread::Drop(reason) => dropped(reason),
            Unread::TimeExceeded(interface) => {
                let parsed = Link::parse(frame.bytes()).ok().and_then(|link| {
                    let link_len = usize::from(link.header_len);
                    Some((link_len, Packet::parse(frame.bytes().get(link_len..)?).ok()?))
                });
                let Some((link_len, packet)) = parsed else { return dropped(DropReason::TtlExceeded) };
                let source = speaker(forwarding, Some(interface), &packet);
                let about = (link_len, &packet, source);
                self.end_of_error(frame, about, IcmpError::TimeExceeded, DropReason::TtlExceeded)
            }
        }
    }

    /// An ICMP error to the sender of a frame, which is written over it.
    fn end_of_error(
        &self,
        frame: &mut MemoryBuf,
        (link_len, packet, source): (usize, &Packet, u128),
        error: IcmpError,
        otherwise: DropReason,
    ) -> Ending {
        if !self.allowance.allows(packet, self.now)
            || become_error(frame, link_len, packet, error, source).is_err()
        {
            return dropped(otherwise);
        }
        Ending::Error(answer_of(error, packet.version))
    }

    fn judge_fragment(
        &mut self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        mut arrival: Arrival,
        first: Option<First>,
    ) -> Option<Answered> {
        let ip = frame.bytes().get(usize::from(arrival.link_len)..).unwrap_or_default();
        let ends = |pipeline: &Self, reason| Some(Answered::Judged(pipeline.judgement(dropped(reason))));
        let Some(place) = Place::of(ip, &arrival.packet).filter(Place::is_possible) else {
            return ends(self, DropReason::IpMalformed);
        };
        if place.overwrites_tcp_header(arrival.packet.protocol) {
            return ends(self, DropReason::FragmentInHeader);
        }
        let datagram = Datagram::of(arrival.endpoint, &arrival.packet, place.id);
        let own = First::of(&arrival.packet);
        // As `followers.rs` has it.
        let alone = arrival.packet.version == IpVersion::V4 || arrival.packet.fragment == Fragment::Later;
        let said = match arrival.packet.fragment {
            Fragment::First => own,
            _ if alone && !needs_first(&arrival.packet) => own,
            _ => match first {
                Some(first) => first,
                None => {
                    let hash = self.flows.table.hash(&datagram.key);
                    if self.owner(hash) != self.worker {
                        return None;
                    }
                    let seen = self.fragments.seen(hash, &datagram, self.now);
                    return Some(seen.map_or_else(
                        || {
                            let waits = self.judgement(Ending::WaitsForFirst);
                            let (arrival, datagram) = (Some(arrival), Some(datagram));
                            Answered::Judged(Judgement { arrival, datagram, ..waits })
                        },
                        Answered::Follows,
                    ));
                }
            },
        };
        let packet = &mut arrival.packet;
        (packet.protocol, packet.src_port, packet.dst_port) = (said.protocol, said.src_port, said.dst_port);
        (arrival.key, arrival.direction) = Arrival::key_of(arrival.endpoint, &arrival.packet);
        let judged = self.judge_by_tuple(forwarding, frame, arrival)?;
        Some(Answered::Judged(Judgement { datagram: Some(datagram), ..judged }))
    }

    /// An ICMP error: with the flow that it quotes, if that is live here, else one of its own (M-5).
    fn judge_error(
        &mut self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        mut arrival: Arrival,
    ) -> Option<Judgement> {
        let ip = frame.bytes().get(usize::from(arrival.link_len)..).unwrap_or_default();
        if let Some((key, direction)) = quoted_flow(arrival.endpoint, &arrival.packet, ip) {
            let hash = self.flows.table.hash(&key);
            let found = self.flows.table.find(hash, &key).filter(|_| self.owner(hash) == self.worker);
            let live = found.filter(|id| {
                let entry = self.flows.table.entry(*id);
                is_live(entry) && entry.expiry(self.now, &forwarding.timers(arrival.endpoint)).is_none()
            });
            if let Some(id) = live {
                (arrival.key, arrival.direction, arrival.hash) = (key, direction, hash);
                let ending = self.end_at_flow_target(forwarding, frame, &arrival, id, Under::Flow);
                return Some(Judgement {
                    arrival: Some(arrival),
                    by: By::Quoted,
                    flow: Some(self.seen(forwarding, id)),
                    ..self.judgement(ending)
                });
            }
        }
        self.judge_by_tuple(forwarding, frame, arrival)
    }

    /// A packet that says itself which flow it is of. None: another worker owns that.
    fn judge_by_tuple(
        &mut self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        mut arrival: Arrival,
    ) -> Option<Judgement> {
        arrival.hash = self.flows.table.hash(&arrival.key);
        if self.owner(arrival.hash) != self.worker {
            return None;
        }
        let found = self.flows.table.find(arrival.hash, &arrival.key);
        let Some(gateway) = forwarding.gateway(arrival.gateway) else {
            return Some(self.judgement(dropped(DropReason::NoLoadBalancer)));
        };
        let flow = found.map(|id| self.seen(forwarding, id));
        let around = self.surroundings(arrival.gateway, gateway, 1);
        let seen = AroundSeen {
            any_healthy: around.any_healthy,
            healthy_percent: around.healthy_percent,
            may_reset: around.may_reset,
            forgot: around.forgot,
        };
        let mut reasons = Reasons::default();
        let facts = flow.map(|flow| flow.facts);
        let verdict = verdict_of(&arrival, facts.as_ref(), &around, &mut reasons);
        let choice = self.look_at_choice(forwarding, &arrival);
        let ending = self.end_of(forwarding, frame, &arrival, found, verdict);
        Some(Judgement {
            arrival: Some(arrival),
            by: By::Tuple,
            flow,
            around: Some(seen),
            verdict: Some(verdict),
            reasons,
            choice,
            ..self.judgement(ending)
        })
    }

    fn look_at_choice(&self, forwarding: &Forwarding, arrival: &Arrival) -> Option<ChoiceSeen> {
        let gateway = forwarding.gateway(arrival.gateway)?;
        let hash = self.choice_seed.choice(&arrival.key, gateway.policy.stickiness);
        let healthy = |target| self.conditions.of(target) == Condition::Healthy;
        let choice = gateway.map.choose(hash, healthy)?;
        let (number, row) = gateway.map.row(hash)?;
        Some(ChoiceSeen { number, row, choice })
    }

    /// What comes of a verdict, as [`Pipeline::arrival`] carries it out.
    fn end_of(
        &mut self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        arrival: &Arrival,
        found: Option<EntryId>,
        verdict: Verdict,
    ) -> Ending {
        match (verdict, found) {
            (Verdict::Stay(_) | Verdict::Held(_, Some(_)), Some(id)) => {
                self.end_at_flow_target(forwarding, frame, arrival, id, Under::Flow)
            }
            (Verdict::Move(_), Some(id)) => {
                let to = self.choose(forwarding, arrival).filter(|(_, fail_open)| !fail_open);
                match to.and_then(|(to, _)| Some((to, known(forwarding, to)?))) {
                    Some(to) => self.end_at_target(forwarding, frame, arrival, to, Under::Moved),
                    None => self.end_at_flow_target(forwarding, frame, arrival, id, Under::Flow),
                }
            }
            (Verdict::New(_) | Verdict::Rejoin, _) => self.end_as_new(forwarding, frame, arrival, found),
            (Verdict::Reset(trigger, _), _) => {
                let of_flow = found.filter(|_| trigger != ResetTrigger::NoFlow);
                let target = of_flow.map(|id| self.flows.table.entry(id).target);
                if become_reset(frame, arrival) {
                    Ending::Reset { trigger, target }
                } else {
                    dropped(DropReason::NotAnswerable)
                }
            }
            (Verdict::Drop(reason, _), _) => dropped(reason),
            (Verdict::Held(_, None), _) => dropped(DropReason::ResetSuppressed),
            (Verdict::Stay(_) | Verdict::Move(_) | Verdict::Held(..), None) => {
                dropped(DropReason::UnknownFlow)
            }
        }
    }

    fn end_as_new(
        &mut self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        arrival: &Arrival,
        found: Option<EntryId>,
    ) -> Ending {
        let chosen = self.choose(forwarding, arrival);
        let Some((id, target)) = chosen.and_then(|(id, _)| Some((id, known(forwarding, id)?))) else {
            return dropped(DropReason::NoTarget); // F-7
        };
        let follows = arrival.packet.fragment == Fragment::Later && needs_first(&arrival.packet);
        // An entry that goes first leaves room for the new one.
        let seat = self.flows.table.seat(arrival.hash, &arrival.key);
        let stateless = follows
            || found.is_none()
                && matches!(seat, Err(NotInserted::Full))
                && !self.flows.would_make_room(self.now);
        let under = if stateless { Under::Stateless } else { Under::NewFlow };
        self.end_at_target(forwarding, frame, arrival, (id, target), under)
    }

    fn end_at_flow_target(
        &self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        arrival: &Arrival,
        id: EntryId,
        under: Under,
    ) -> Ending {
        let entry = self.flows.table.entry(id);
        match forwarding.target(entry.target, entry.target_generation) {
            Some(target) => self.end_at_target(forwarding, frame, arrival, (entry.target, target), under),
            None => dropped(DropReason::NoTarget),
        }
    }

    fn end_at_target(
        &self,
        forwarding: &Forwarding,
        frame: &mut MemoryBuf,
        arrival: &Arrival,
        (id, target): (TargetId, &Target),
        under: Under,
    ) -> Ending {
        let underlay = &forwarding.underlay;
        let mut pieces = 1;
        if fits(arrival.packet.total_len, underlay.mtu).is_none() {
            // M-2
            match plan_of(frame, arrival, underlay.mtu) {
                Ok(split) => pieces = split.pieces(),
                Err(NotSplit::DontFragment) => {
                    let source = speaker(forwarding, arrival.interface, &arrival.packet);
                    let about = (arrival.link_len.into(), &arrival.packet, source);
                    let error = IcmpError::TooBig { mtu: room(underlay.mtu) };
                    return self.end_of_error(frame, about, error, DropReason::TooBigForTarget);
                }
                Err(NotSplit::Malformed) => return dropped(DropReason::IpMalformed),
                Err(NotSplit::NoRoom) => return dropped(DropReason::TooBigForTarget),
            }
        }
        let Some(template) = &target.template else { return dropped(DropReason::NeighbourUnknown) };
        let source_port = underlay.source_port(template, self.worker, arrival.hash);
        Ending::Forwarded { target: id, under, source_port, pieces }
    }
}

/// What becomes of a frame that is the host's, as [`Pipeline::to_host`] has it.
fn end_at_host(forwarding: &Forwarding, frame: &MemoryBuf, id: InterfaceId) -> Ending {
    let Some(interface) = forwarding.interface(id) else { return dropped(DropReason::NotForGateway) };
    if interface.host_shares {
        return Ending::Host(id);
    }
    match Link::parse(frame.bytes()) {
        Ok(link) if VlanTags::of(frame.bytes(), &link) == interface.tags => Ending::Host(id),
        Ok(_) => dropped(DropReason::VlanUnknown),
        Err(_) => dropped(DropReason::FrameTruncated),
    }
}

/// The target in a slot, as a new flow would get it.
fn known(forwarding: &Forwarding, id: TargetId) -> Option<&Target> {
    forwarding.targets.get(id.index())?.as_ref()
}

/// Turns a frame into the reset that answers it. False: it may not be answered.
fn become_reset(frame: &mut MemoryBuf, arrival: &Arrival) -> bool {
    let link_len = usize::from(arrival.link_len);
    if ethernet::is_group_addressed(frame.bytes()) {
        return false;
    }
    let Some(ip) = frame.bytes_mut().get_mut(link_len..) else { return false };
    let Ok(len) = write_reset(ip, &arrival.packet) else { return false };
    frame.truncate(link_len + len);
    ethernet::swap_addresses(frame.bytes_mut());
    true
}
