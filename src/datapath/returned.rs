//! Whether what an appliance returned may go on, and which way (W-4, W-5, W-7). The pipeline asks when
//! the outer headers have been read, and delivers by the [`Way`] that it is given.

use super::answer::{Answer, direction_of};
use super::arrival::Arrival;
use super::counters::DropReason;
use super::forwarding::{Condition, Forwarding};
use super::interfaces::endpoint_at;
use super::pipeline::Pipeline;
use crate::flow::{Direction, EntryId, LinkId};
use crate::id::{EndpointId, TargetId};
use crate::io::PacketBuf;
use crate::wire::packet::Packet;

/// How an answer leaves.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// What decides its link header and port.
    pub onward: Onward,
    /// Who returned it.
    pub target: TargetId,
    /// Bytes of the inner packet.
    pub inner_len: u32,
}

/// What decides the link header and the port of what leaves an endpoint (O-4).
#[derive(Clone, Copy, Debug)]
pub enum Onward {
    /// A wire: a header that was kept.
    Header {
        /// The header to put in front.
        link: LinkId,
        /// The header is the other direction's: its addresses are swapped, and it leaves by the port that
        /// the header came in by.
        reversed: bool,
    },
    /// The routes of this endpoint.
    Routes(EndpointId),
}

impl<B: PacketBuf> Pipeline<B> {
    /// Whether an answer is of a live flow and from its target, and which way it goes (W-5, W-7).
    #[inline]
    pub(super) fn check_answer(
        &mut self,
        forwarding: &Forwarding,
        packet: &B,
        answer: &Answer,
    ) -> Result<Way, DropReason> {
        let (way, id, inner, direction) = self.way_of_answer(forwarding, packet.bytes(), answer)?;
        self.flows.note_returned(id, &inner, direction, self.now, forwarding);
        if let Some(log) = &mut self.flows.log {
            log.count_back(id, direction, inner.total_len);
        }
        Ok(way)
    }

    /// The same, with the flow, the packet inside and its way in the flow; nothing is noted.
    #[inline]
    pub(super) fn way_of_answer(
        &self,
        forwarding: &Forwarding,
        frame: &[u8],
        answer: &Answer,
    ) -> Result<(Way, EntryId, Packet, Direction), DropReason> {
        let id = self.flows.live_by_cookie(answer.raw_cookie).ok_or(DropReason::CookieStale)?;
        let entry = self.flows.table.entry(id);
        forwarding
            .target(entry.target, entry.target_generation)
            .filter(|target| target.address == answer.source)
            .ok_or(DropReason::NotFromTarget)?;
        if !answer.is_of(forwarding, entry.key().endpoint()) {
            return Err(DropReason::InnerMismatch);
        }
        let inner = answer.inner(frame)?;
        let direction = direction_of(entry.key(), &inner, answer.inner_bytes(frame))?;
        let (links, endpoint) = (entry.link, entry.key().endpoint());
        // The direction's own header, or, when none of its packets has come yet, the other
        // direction's turned round (W-4: an appliance that answers in a server's stead). Flows of
        // routed endpoints have no headers.
        let onward = match (links[direction.index()], links[direction.reverse().index()]) {
            (LinkId::NONE, LinkId::NONE) => Onward::Routes(endpoint),
            (LinkId::NONE, link) => Onward::Header { link, reversed: true },
            (link, _) => Onward::Header { link, reversed: false },
        };
        Ok((Way { onward, target: entry.target, inner_len: inner.total_len }, id, inner, direction))
    }

    /// The same for a packet that was sent without state (F-12): the cookie says the header's number
    /// and direction, and the hash which target it must come from.
    #[cold]
    pub(super) fn check_stateless(
        &self,
        forwarding: &Forwarding,
        frame: &[u8],
        answer: &Answer,
        (direction, link, check): (Direction, LinkId, u16),
    ) -> Result<Way, DropReason> {
        let (port, header) = self.flows.links.get(link).ok_or(DropReason::CookieStale)?;
        let (endpoint, routed) = endpoint_at(forwarding, port, header).ok_or(DropReason::CookieStale)?;
        let (_, gateway) = forwarding.gateway_of(endpoint).ok_or(DropReason::NoLoadBalancer)?;
        // Nobody has been sent such a cookie lately: it can only be a guess.
        if !self.flows.may_be_answered_stateless(self.now, &gateway.timers) {
            return Err(DropReason::CookieStale);
        }
        if !answer.is_of(forwarding, endpoint) {
            return Err(DropReason::InnerMismatch);
        }
        let inner = answer.inner(frame)?;
        let (key, inner_direction) = Arrival::key_of(endpoint, &inner);
        let hash = self.flows.table.hash(&key);
        // Only the owner sends a flow's packets without state.
        if self.owner(hash) != self.worker || self.flows.stateless_check(hash, link, direction) != check {
            return Err(DropReason::CookieStale);
        }
        let choice_hash = self.choice_seed.choice(&key, gateway.policy.stickiness);
        let healthy = |target| self.conditions.of(target) == Condition::Healthy;
        let target = gateway
            .map
            .choose(choice_hash, healthy)
            .map(|choice| choice.target)
            .filter(|target| {
                let target = forwarding.targets.get(target.index()).and_then(Option::as_ref);
                target.is_some_and(|target| target.address == answer.source)
            })
            .ok_or(DropReason::NotFromTarget)?;
        let reversed = inner_direction != direction;
        let onward = if routed { Onward::Routes(endpoint) } else { Onward::Header { link, reversed } };
        Ok(Way { onward, target, inner_len: inner.total_len })
    }
}
