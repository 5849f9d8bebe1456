//! Attacks beside established flows: what an attacker could send to a gateway, or hold open at its control side, and
//! what the flows that are there notice of it.
//!
//! A [`Kind`] says where an attack comes from and what a gateway should count it as. Packets are made by whichever
//! thread plays that side ([`shots`] those of endpoints' sides, [`forgery`] those of the target side); slow clients are
//! threads of their own ([`crowd`]). [`rounds`] leads: rounds without an attack and rounds with it take turns, over the same flows
//! at the same rate, so that what differs is the attack's doing. [`counted`] reads the gateway's own counters before and after.

pub mod counted;
pub mod crowd;
pub mod forgery;
pub mod mould;
pub mod rounds;
pub mod shots;
pub mod table;

use clap::ValueEnum;
use flowgate::wire::{ipv4, ipv6};

/// Every packet of an attack has this in its IPv4 identification or its IPv6 flow label, in which packets of the load have 0.
const MARK: u16 = 0xa77a;

/// 100.64.0.0/10: where attackers are, if they do not take on a live flow's addresses.
pub const ATTACKERS: u32 = 0x6440_0000;
/// IPv6: 2001:db8:a::/96 before the 32 bits that IPv4 has.
pub const ATTACKERS_V6: u128 = 0x2001_0db8_000a << 80;
const ATTACKER_BITS: u32 = 22;

/// An attack, in the order in which all are played over one gateway: those that fill its flow table come late, as it stays
/// full for minutes, and the one that has it take live flows for closed comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Kind {
    /// GENEVE with a live flow's cookie and something wrong: source, endpoint, inner packet, header, options.
    ForgedAnswers,
    /// GENEVE from a target, with a cookie drawn by chance.
    Cookies,
    /// TCP packets of no flow, each of which may be answered with a reset.
    NoFlow,
    /// ICMP errors that quote live flows.
    ForgedErrors,
    /// Later fragments, the first of which never comes.
    LaterFragments,
    /// Fragments that cut or hide a transport header, or reach over the longest packet.
    BrokenFragments,
    /// Clients of the control socket that are silent, slow, deaf, or talk nonsense.
    SlowSocket,
    /// The same at the elbv2 endpoint.
    SlowElbv2,
    /// The same at the monitoring endpoint.
    SlowMonitor,
    /// Datagrams of flows that would crowd a thirtieth of the flow table, if its hash had the attacker's seed.
    HashFlood,
    /// SYNs, each of a connection of its own that goes no further.
    SynFlood,
    /// First fragments, the rest of which never comes.
    FirstFragments,
    /// Packets that are too large for the target side and must not be fragmented: each may be answered with an ICMP error.
    Oversized,
    /// Datagrams, each of a flow of its own.
    UdpFlood,
    /// A SYN and one packet more, from the same forged source: connections that pass for established.
    HalfHandshakes,
    /// RST and FIN in the names of live flows, with wrong sequence numbers.
    ForgedEnds,
}

/// Where an attack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Clients,
    Targets,
    Control,
}

impl Kind {
    pub fn side(self) -> Side {
        match self {
            Kind::Cookies | Kind::ForgedAnswers => Side::Targets,
            Kind::SlowSocket | Kind::SlowElbv2 | Kind::SlowMonitor => Side::Control,
            _ => Side::Clients,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Under which names a gateway may count its packets (C-1).
    pub fn may_be_counted_as(self) -> &'static [&'static str] {
        match self {
            Kind::SynFlood
            | Kind::HalfHandshakes
            | Kind::UdpFlood
            | Kind::HashFlood
            | Kind::ForgedEnds
            | Kind::ForgedErrors
            | Kind::FirstFragments => &["forwarded", "delivered"],
            // Held back by the rate.
            Kind::NoFlow => &["answered", "reset_suppressed", "unknown_flow"],
            Kind::Oversized => &["answered", "too_big_for_target"],
            Kind::LaterFragments => &["fragment_timeout", "fragment_full"],
            Kind::BrokenFragments => &["fragment_tiny", "fragment_in_header", "ip_malformed"],
            // A cookie drawn by chance may name a live flow, which is of another target or tuple; and one in 2^15 passes for
            // one that was given without state.
            Kind::Cookies => &["cookie_stale", "not_from_target", "inner_mismatch", "delivered"],
            Kind::ForgedAnswers => &[
                "not_from_target",
                "inner_mismatch",
                "inner_malformed",
                "cookie_missing",
                "geneve_version",
                "geneve_options",
                "geneve_critical",
                "outer_malformed",
            ],
            Kind::SlowSocket | Kind::SlowElbv2 | Kind::SlowMonitor => &[],
        }
    }
}

/// What a packet has to do with an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It is one of an attack's.
    Attack,
    /// It is for an attacker, and nobody of ours has sent it.
    Answer,
}

/// What the packet at the start of `ip` has to do with an attack; `None`: nothing.
pub fn trace(ip: &[u8]) -> Option<Trace> {
    let header = ip.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let (mark, destination) = match header[0] >> 4 {
        4 => (&header[4..6], address(&header[16..20])),
        6 => {
            let (network, last) = ip.get(24..ipv6::HEADER_LEN)?.split_at(12);
            let is_theirs = network == &ATTACKERS_V6.to_be_bytes()[..12];
            (&header[2..4], if is_theirs { address(last) } else { 0 })
        }
        _ => return None,
    };
    if mark == MARK.to_be_bytes() {
        return Some(Trace::Attack);
    }
    (destination >> ATTACKER_BITS == ATTACKERS >> ATTACKER_BITS).then_some(Trace::Answer)
}

fn address(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Writes the mark into a packet whose identification or flow label is 0.
fn mark(ip: &mut [u8]) {
    let Some(header) = ip.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
    if header[0] >> 4 == 6 {
        return header[2..4].copy_from_slice(&MARK.to_be_bytes());
    }
    let old = u16::from_be_bytes([header[10], header[11]]);
    let new = flowgate::wire::checksum::update_u16(old, 0, MARK);
    header[4..6].copy_from_slice(&MARK.to_be_bytes());
    header[10..12].copy_from_slice(&new.to_be_bytes());
}
