//! The same of an appliance's packet: whether it is of a live flow and from its target, and where it leaves.

use super::{dropped, end_at_host};
use crate::datapath::answer::{Answer, read_answer};
use crate::datapath::arrival::Unread;
use crate::datapath::counters::DropReason;
use crate::datapath::enquiry::{By, Ending, ExitSeen, Judgement};
use crate::datapath::forwarding::{Forwarding, PortRole};
use crate::datapath::pipeline::Pipeline;
use crate::datapath::returned::{Onward, Way};
use crate::datapath::sizes::answer_of;
use crate::flow::DecodedCookie;
use crate::id::{EndpointId, TargetId};
use crate::io::PacketBuf;
use crate::io::memory::MemoryBuf;
use crate::wire::icmp::error::{self, IcmpError, Unreachable};
use crate::wire::ip::IpVersion;
use crate::wire::packet::{self, Packet};
use crate::wire::split::{NotSplit, Split};

impl<B: PacketBuf> Pipeline<B> {
    /// What becomes of it. None: the cookie is another worker's.
    pub(super) fn judge_answer(&self, forwarding: &Forwarding, frame: &MemoryBuf) -> Option<Judgement> {
        let answer = match read_answer(forwarding, self.flows.table.cookies(), frame) {
            Ok(answer) => answer,
            Err(Unread::Host(interface)) => {
                return Some(self.judgement(end_at_host(forwarding, frame, interface)));
            }
            Err(Unread::Cross(peer)) => return Some(self.judgement(Ending::Crosses(peer))),
            Err(Unread::TimeExceeded(_)) => return Some(self.judgement(dropped(DropReason::TtlExceeded))),
            Err(Unread::Drop(reason)) => return Some(self.judgement(dropped(reason))),
        };
        let owner = self.flows.table.cookies().owner(answer.raw_cookie);
        if owner.0 >= self.workers && self.workers > 1 {
            return Some(self.judgement(dropped(DropReason::CookieStale)));
        }
        if owner != self.worker && self.workers > 1 {
            return None;
        }
        let (by, way, id) = match answer.cookie {
            DecodedCookie::Flow { .. } => {
                let way = self.way_of_answer(forwarding, frame.bytes(), &answer).map(|(way, ..)| way);
                (By::Cookie, way, self.flows.live_by_cookie(answer.raw_cookie))
            }
            DecodedCookie::Stateless { direction, link, check, .. } => {
                let way = self.check_stateless(forwarding, frame.bytes(), &answer, (direction, link, check));
                (By::Stateless, way, None)
            }
        };
        let ending = match way {
            Ok(way) => self.end_of_answer(forwarding, frame, &answer, &way),
            Err(reason) => dropped(reason),
        };
        let flow = id.map(|id| self.seen(forwarding, id));
        Some(Judgement { by, flow, ..self.judgement(ending) })
    }

    fn end_of_answer(
        &self,
        forwarding: &Forwarding,
        frame: &MemoryBuf,
        answer: &Answer,
        way: &Way,
    ) -> Ending {
        let (link, reversed) = match way.onward {
            Onward::Header { link, reversed } => (link, reversed),
            Onward::Routes(endpoint) => {
                let inner = answer.inner_bytes(frame.bytes());
                let inner = inner.get(..way.inner_len as usize).unwrap_or_default();
                return self.end_by_routes(forwarding, inner, endpoint, way.target);
            }
        };
        let Some((came_by, _)) = self.flows.links.get(link) else { return dropped(DropReason::LinkUnknown) };
        match forwarding.ports.get(came_by.index()) {
            Some(PortRole::Wire { .. }) if reversed => {
                Ending::Delivered { target: way.target, exit: ExitSeen::Port(came_by) }
            }
            Some(PortRole::Wire { peer, .. }) => {
                Ending::Delivered { target: way.target, exit: ExitSeen::Port(*peer) }
            }
            _ => dropped(DropReason::LinkUnknown),
        }
    }

    /// As [`Pipeline::leave`] has it.
    fn end_by_routes(
        &self,
        forwarding: &Forwarding,
        inner: &[u8],
        endpoint: EndpointId,
        target: TargetId,
    ) -> Ending {
        let Some((version, destination)) = packet::destination(inner) else {
            return dropped(DropReason::InnerMalformed);
        };
        let Some(exit) = self.toward(forwarding, endpoint, version, destination) else {
            let error = IcmpError::Unreachable(Unreachable::NoRoute);
            return self.end_at_sender(forwarding, inner, endpoint, error, DropReason::NoRoute);
        };
        let mut pieces = 1;
        let mtu = exit.interface.mtu;
        if inner.len() > usize::from(mtu) {
            let planned = match version {
                IpVersion::V4 => Split::plan(inner, usize::from(mtu)),
                IpVersion::V6 => Err(NotSplit::DontFragment),
            };
            match planned {
                Ok(split) => pieces = split.pieces(),
                Err(NotSplit::DontFragment) => {
                    let (error, reason) = (IcmpError::TooBig { mtu }, DropReason::TooBigForLink);
                    return self.end_at_sender(forwarding, inner, endpoint, error, reason);
                }
                Err(NotSplit::Malformed | NotSplit::NoRoom) => return dropped(DropReason::TooBigForLink),
            }
        }
        let (port, waits) = (exit.interface.port, exit.mac.is_none());
        Ending::Delivered { target, exit: ExitSeen::Interface { endpoint, port, pieces, waits } }
    }

    /// What becomes of an answer whose sender is told that it cannot leave.
    fn end_at_sender(
        &self,
        forwarding: &Forwarding,
        inner: &[u8],
        endpoint: EndpointId,
        error: IcmpError,
        reason: DropReason,
    ) -> Ending {
        let told = Packet::parse(inner).ok().filter(|about| {
            self.toward(forwarding, endpoint, about.version, about.src).is_some()
                && error::judge(inner, about).is_ok()
                && self.allowance.allows(about, self.now)
        });
        told.map_or(dropped(reason), |about| Ending::Error(answer_of(error, about.version)))
    }
}
