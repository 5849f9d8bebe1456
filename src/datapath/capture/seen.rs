//! What a frame is, seen from outside: read by what the pipeline itself reads it with, so that a capture does not
//! think otherwise of a packet than the gateway does.

use super::super::answer::read_answer;
use super::super::arrival::read_arrival;
use super::super::forwarding::{Forwarding, PortRole};
use super::super::outbound::Fate;
use super::super::pipeline::Pipeline;
use crate::flow::{EntryId, FlowState};
use crate::id::{EndpointId, GatewayId, PortId, TargetId};
use crate::io::PacketBuf;
use crate::wire::ethernet::{Link, ethertype};
use crate::wire::geneve::{self, outer};
use crate::wire::icmp;
use crate::wire::ip::IpVersion;
use crate::wire::packet::Packet;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its endpoint.
    pub endpoint: Option<EndpointId>,
    /// The load balancer behind that.
    pub gateway: Option<GatewayId>,
    /// The address of its flow's target.
    pub target: Option<u32>,
    /// Its flow's cookie.
    pub cookie: Option<u32>,
    /// Its ends; of an encapsulated packet, the inner one's.
    pub tuple: Option<Tuple>,
    /// The ends of the packet that it quotes, if it is an ICMP error.
    pub quoted: Option<Tuple>,
}

/// The ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Which IP.
    pub version: IpVersion,
    /// The IP protocol.
    pub protocol: u8,
    /// Address, an IPv4 one in the low 32 bits, and port, 0 where there is none.
    pub source: (u128, u16),
    /// The same.
    pub destination: (u128, u16),
}

impl Tuple {
    fn of(packet: &Packet) -> Tuple {
        Tuple {
            version: packet.version,
            protocol: packet.protocol,
            source: (packet.src, packet.src_port),
            destination: (packet.dst, packet.dst_port),
        }
    }
}

impl Seen {
    /// What an IP packet says.
    pub fn of_ip(ip: &[u8]) -> Seen {
        let Ok(packet) = Packet::parse(ip) else { return Seen::default() };
        let quoted = icmp::quoted(ip, &packet).and_then(|quoted| Packet::parse_quoted(quoted).ok());
        Seen { tuple: Some(Tuple::of(&packet)), quoted: quoted.as_ref().map(Tuple::of), ..Seen::default() }
    }

    /// What a frame says on a link without tunnels: of IP, and of nothing that merely looks like it (an MPLS label may).
    pub fn of_frame(frame: &[u8]) -> Seen {
        let link = Link::parse(frame).ok();
        let link = link.filter(|link| matches!(link.ethertype, ethertype::IPV4 | ethertype::IPV6));
        let ip = link.and_then(|link| frame.get(usize::from(link.header_len)..));
        ip.map(Seen::of_ip).unwrap_or_default()
    }

    /// What a frame says on the target side: of the inner packet, if it is encapsulated.
    pub fn of_outer(frame: &[u8]) -> Seen {
        let inner = || {
            let link = Link::parse(frame).ok().filter(|link| link.ethertype == ethertype::IPV4)?;
            let ip = frame.get(usize::from(link.header_len)..)?;
            let payload = outer::parse(ip).ok()?.payload(ip);
            let received = geneve::parse(payload).ok()?;
            let inner = payload.get(usize::from(received.inner_offset)..)?;
            Some(Seen { cookie: Some(received.cookie), ..Seen::of_ip(inner) })
        };
        inner().unwrap_or_else(|| Seen::of_frame(frame))
    }

    /// The same of a packet of this endpoint.
    #[must_use]
    fn at(self, forwarding: &Forwarding, endpoint: EndpointId) -> Seen {
        let gateway = forwarding.endpoint(endpoint).and_then(|endpoint| endpoint.gateway);
        Seen { endpoint: Some(endpoint), gateway, ..self }
    }

    /// The same of a packet of this target.
    #[must_use]
    pub fn with_target(self, forwarding: &Forwarding, id: TargetId) -> Seen {
        let Some(Some(target)) = forwarding.targets.get(id.index()) else { return self };
        Seen { target: Some(target.address), gateway: self.gateway.or(target.gateway), ..self }
    }

    /// The same of a packet that leaves by `port` for this fate.
    #[must_use]
    pub fn leaving(self, forwarding: &Forwarding, fate: Fate) -> Seen {
        match fate {
            Fate::Forwarded { target, .. } | Fate::Delivered { target, .. } => {
                self.with_target(forwarding, target)
            }
            Fate::Answered { gateway, target: Some(target), .. } | Fate::Told { gateway, target } => {
                Seen { gateway: Some(gateway), ..self }.with_target(forwarding, target)
            }
            Fate::Answered { gateway, target: None, .. } => Seen { gateway: Some(gateway), ..self },
            Fate::Piece | Fate::Crossed | Fate::Error(_) | Fate::FromHost => self,
        }
    }

    /// What a frame says that leaves by `port` and of which nothing is known from before.
    pub fn of_leaving(forwarding: &Forwarding, port: PortId, frame: &[u8]) -> Seen {
        match forwarding.ports.get(port.index()) {
            Some(PortRole::Underlay) => Seen::of_outer(frame),
            Some(PortRole::Wire { endpoint, .. }) => Seen::of_frame(frame).at(forwarding, *endpoint),
            _ => Seen::of_frame(frame),
        }
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// What a frame is that came in by `port`, before it is handled.
    pub(super) fn see(&self, forwarding: &Forwarding, port: PortId, packet: &B) -> Seen {
        match forwarding.ports.get(port.index()) {
            Some(PortRole::Underlay) => self.see_answer(forwarding, packet),
            Some(PortRole::Wire { endpoint, .. }) => {
                self.see_arrival(forwarding, port, packet).at(forwarding, *endpoint)
            }
            Some(PortRole::Routed(_)) => self.see_arrival(forwarding, port, packet),
            Some(PortRole::Unused) | None => Seen::of_frame(packet.bytes()),
        }
    }

    fn see_arrival(&self, forwarding: &Forwarding, port: PortId, packet: &B) -> Seen {
        let seen = Seen::of_frame(packet.bytes());
        let Ok(arrival) = read_arrival(forwarding, port, packet) else { return seen };
        let seen = seen.at(forwarding, arrival.endpoint);
        let hash = self.flows.table.hash(&arrival.key);
        match self.flows.table.find(hash, &arrival.key) {
            Some(id) => self.of_flow(forwarding, seen, id),
            None => seen,
        }
    }

    fn see_answer(&self, forwarding: &Forwarding, packet: &B) -> Seen {
        let layout = *self.flows.table.cookies();
        let Ok(answer) = read_answer(forwarding, &layout, packet) else {
            return Seen::of_outer(packet.bytes());
        };
        let seen = Seen {
            target: Some(answer.source),
            cookie: Some(answer.raw_cookie.0),
            ..Seen::of_ip(answer.inner_bytes(packet.bytes()))
        };
        match self.flows.live_by_cookie(answer.raw_cookie) {
            Some(id) => seen.at(forwarding, self.flows.table.entry(id).key().endpoint()),
            None => seen,
        }
    }

    fn of_flow(&self, forwarding: &Forwarding, seen: Seen, id: EntryId) -> Seen {
        let entry = self.flows.table.entry(id);
        if entry.state() == FlowState::Free {
            return seen;
        }
        Seen { cookie: Some(self.flows.table.cookie(id).0), ..seen }.with_target(forwarding, entry.target)
    }
}
