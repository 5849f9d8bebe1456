//! A worker's judgement in words, from where the packet comes in to what becomes of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::words::{Subject, step, word};
use crate::control::health::HealthState;
use crate::control::model::Stickiness;
use crate::control::socket::views::{
    ChoiceView, ChosenView, ExplainedOutcome, ExplainedStep, Explanation, FlowRecord, PacketView, Protocol,
    ResetView,
};
use crate::datapath::counters::{DropReason, ResetTrigger};
use crate::datapath::enquiry::{By, ChoiceSeen, Ending, ExitSeen, FlowSeen, Judgement, Under};
use crate::datapath::messages;
use crate::id::{InterfaceId, PortId, TargetId};
use crate::wire::ethernet::Link;
use crate::wire::packet::{Fragment, IpVersion, Packet, protocol};
use crate::wire::tcp::{TcpFlags, TcpHeader};

/// What the control core knows of the names behind numbers.
pub trait Names {
    /// The target in a slot and its state.
    fn target(&self, id: TargetId) -> Option<(Ipv4Addr, Option<HealthState>)>;
    /// A port.
    fn port(&self, id: PortId) -> String;
    /// An interface.
    fn interface(&self, id: InterfaceId) -> String;
    /// A flow as the socket shows it.
    fn flow(&self, record: &messages::FlowRecord) -> FlowRecord;
    /// The endpoint that a port's frames come in by.
    fn endpoint(&self, judgement: &Judgement, port: PortId) -> Option<String>;
    /// What the sentences speak of, if the packet has a load balancer with a target group.
    fn subject(&self, judgement: &Judgement) -> Option<Subject>;
}

/// A frame that was asked about.
pub struct Given<'a> {
    /// The port.
    pub port: PortId,
    /// Its bytes.
    pub frame: &'a [u8],
    /// What answers it, where something does.
    pub answer: &'a [u8],
}

/// The explanation.
pub fn tell(judgement: &Judgement, given: &Given<'_>, names: &impl Names) -> Explanation {
    let subject = names.subject(judgement);
    let mut steps = vec![entrance(judgement, given, names, subject.as_ref())];
    steps.extend(fragment(judgement));
    steps.extend(flow(judgement, names));
    if let Some(subject) = &subject {
        steps.extend(judgement.reasons.iter().map(|reason| subject.of(reason)));
    }
    steps.extend(clamped(judgement, subject.as_ref()));
    let choice = judgement.choice.and_then(|choice| chosen(&choice, subject.as_ref(), names));
    let decides = matches!(
        judgement.ending,
        Ending::Forwarded { under: Under::Moved | Under::NewFlow | Under::Stateless, .. }
    );
    if let Some(choice) = choice.as_ref().filter(|_| decides) {
        steps.push(choice_in_words(choice, subject.as_ref()));
    }
    let ending = ending(judgement, given, names);
    steps.push(ending.step);
    Explanation {
        packet: packet_view(given, names, judgement),
        outcome: ending.outcome,
        sentence: ending.sentence,
        target: ending.target,
        drop_reason: ending.drop_reason.map(|reason| reason.name().to_owned()),
        reset: ending.reset,
        load_balancer: subject.as_ref().map(|subject| subject.balancer.clone()),
        target_group: subject.map(|subject| subject.group),
        flow: judgement.flow.map(|flow| names.flow(&flow.record)),
        choice,
        steps,
        worker: judgement.worker.0,
    }
}

fn entrance(
    judgement: &Judgement,
    given: &Given<'_>,
    names: &impl Names,
    subject: Option<&Subject>,
) -> ExplainedStep {
    let port = names.port(given.port);
    match (names.endpoint(judgement, given.port), subject) {
        (Some(endpoint), Some(Subject { balancer, group, .. })) => step(
            format!(
                "It comes in by port {port} of endpoint {endpoint}, which leads to load balancer {balancer}, whose listener forwards to target group {group}."
            ),
            &["O-4", "O-1"],
        ),
        (Some(endpoint), None) => {
            step(format!("It comes in by port {port} of endpoint {endpoint}."), &["O-4"])
        }
        (None, _) => step(format!("It comes in by port {port}, on the target side."), &["W-4"]),
    }
}

fn fragment(judgement: &Judgement) -> Option<ExplainedStep> {
    match judgement.arrival?.packet.fragment {
        Fragment::Whole => None,
        Fragment::First => {
            Some(step("It is the first fragment of a datagram, which the others follow.", &["M-4"]))
        }
        Fragment::Later => Some(step(
            "It is a later fragment of a datagram, and of the flow that the first one names.",
            &["M-4"],
        )),
    }
}

fn flow(judgement: &Judgement, names: &impl Names) -> Option<ExplainedStep> {
    let how = match judgement.by {
        By::Nothing => return None,
        By::Tuple => "By its tuple",
        By::Quoted => "It is an ICMP error. By the packet that it quotes",
        By::Cookie => "By its cookie",
        By::Stateless => {
            return Some(step(
                "Its cookie says that it answers a packet which was sent without state.",
                &["F-12", "W-5"],
            ));
        }
    };
    let rules: &[&str] = match judgement.by {
        By::Quoted => &["M-5"],
        By::Cookie => &["F-11", "W-7"],
        _ => &["F-1", "F-2"],
    };
    let worker = judgement.worker.0;
    Some(match &judgement.flow {
        None => step(format!("{how} worker {worker} has no entry for it."), rules),
        Some(FlowSeen { record, facts, .. }) => {
            let view = names.flow(record);
            let ends = match view.expires_in_ms {
                0 => "its time is over".to_owned(),
                ms => format!("it ends in {} unless a packet comes", seconds(ms)),
            };
            step(
                format!(
                    "{how} it is of the flow {:08x} of worker {worker}, which is {}, was last seen {} ago ({ends}), and is with target {}, which is {}.",
                    record.cookie,
                    view.state,
                    seconds(view.idle_ms),
                    view.target,
                    word(facts.condition)
                ),
                rules,
            )
        }
    })
}

/// What is done to a SYN on its way (M-3).
fn clamped(judgement: &Judgement, subject: Option<&Subject>) -> Option<ExplainedStep> {
    let subject = subject.filter(|subject| subject.listener.mss_clamp)?;
    let is_syn = judgement.arrival?.packet.tcp_flags.contains(TcpFlags::SYN);
    let goes_on = matches!(judgement.ending, Ending::Forwarded { .. });
    (is_syn && goes_on).then(|| ExplainedStep {
        command: Some(super::words::set(&subject.balancer, "flowgate.tcp.mss_clamp=false")),
        ..step(
            "flowgate.tcp.mss_clamp is true: an MSS that does not fit the target side is lowered.",
            &["M-3"],
        )
    })
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn key_name(stickiness: Stickiness) -> &'static str {
    match stickiness {
        Stickiness::FiveTuple => "5-tuple",
        Stickiness::ThreeTuple => "3-tuple",
        Stickiness::TwoTuple => "2-tuple",
    }
}

fn chosen(choice: &ChoiceSeen, subject: Option<&Subject>, names: &impl Names) -> Option<ChoiceView> {
    let one = |id| names.target(id).map(|(target, state)| ChosenView { target, state });
    Some(ChoiceView {
        key: key_name(subject?.settings.stickiness).to_owned(),
        row: choice.number,
        first: one(choice.row.first)?,
        second: one(choice.row.second)?,
        chosen: names.target(choice.choice.target)?.0,
        fail_open: choice.choice.fail_open,
    })
}

fn choice_in_words(choice: &ChoiceView, subject: Option<&Subject>) -> ExplainedStep {
    let state = |one: &ChosenView| one.state.map_or_else(|| "gone".to_owned(), |state| state.to_string());
    let ChoiceView { key, row, first, second, chosen, .. } = choice;
    let why = if choice.fail_open {
        "no target is healthy, so it fails open to the first".to_owned()
    } else if *chosen == first.target || *chosen == second.target {
        format!("so it is {chosen}")
    } else {
        format!("neither takes new flows, so it is the row's next best, {chosen}")
    };
    let alone = if first.target == second.target {
        String::new()
    } else {
        format!(", second {} ({})", second.target, state(second))
    };
    let text = format!(
        "The hash of its {key} leads to row {row}: first {} ({}){alone}; {why}.",
        first.target,
        state(first)
    );
    let rules: &[&str] = if choice.fail_open { &["F-3", "F-4", "F-6"] } else { &["F-3", "F-4"] };
    ExplainedStep { command: subject.and_then(Subject::other_key), ..step(text, rules) }
}

/// What becomes of it.
struct Told {
    outcome: ExplainedOutcome,
    sentence: String,
    step: ExplainedStep,
    target: Option<Ipv4Addr>,
    drop_reason: Option<DropReason>,
    reset: Option<ResetView>,
}

impl Told {
    fn new(outcome: ExplainedOutcome, sentence: String, step: ExplainedStep) -> Told {
        Told { outcome, sentence, step, target: None, drop_reason: None, reset: None }
    }
}

fn ending(judgement: &Judgement, given: &Given<'_>, names: &impl Names) -> Told {
    let named = |id| match names.target(id) {
        Some((target, Some(state))) => (Some(target), format!("{target} ({state})")),
        Some((target, None)) => (Some(target), target.to_string()),
        None => (None, "a target that is gone".to_owned()),
    };
    match judgement.ending {
        Ending::Forwarded { target, under, source_port, pieces } => {
            let (target, shown) = named(target);
            let (how, rules): (&str, &[&str]) = match under {
                Under::Flow => ("with its flow", &["W-1", "W-3"]),
                Under::Moved => ("where its flow moves to", &["W-1", "W-3"]),
                Under::NewFlow => ("as the first packet of a new flow", &["W-1", "W-3", "F-8"]),
                Under::Stateless => {
                    ("without state, as the flow table has no room for its flow", &["F-12", "W-1", "W-3"])
                }
            };
            let split = if pieces > 1 { format!(" in {pieces} fragments") } else { String::new() };
            let text = format!("It is sent to {shown} in GENEVE, from UDP port {source_port}{split}.");
            let mut last = step(text, rules);
            if pieces > 1 {
                last.rules.push("M-2".to_owned());
            }
            let sentence = format!("It goes to {shown}, {how}{split}.");
            Told { target, ..Told::new(ExplainedOutcome::Forwarded, sentence, last) }
        }
        Ending::Reset { trigger, target } => {
            let reset = reset_view(trigger, given.answer);
            let to = reset.as_ref().map_or_else(
                || "its sender".to_owned(),
                |reset| SocketAddr::new(reset.to, reset.to_port).to_string(),
            );
            let sentence = format!("It is answered with a reset to {to}: {}.", why_reset(trigger));
            let last = step(
                format!("The reset goes back to {to} the way the packet came; the packet goes no further."),
                &["R-4", "R-7", "R-8"],
            );
            let target = target.and_then(|id| names.target(id)).map(|(target, _)| target);
            Told { target, reset, ..Told::new(ExplainedOutcome::Reset, sentence, last) }
        }
        Ending::Error(answer) => {
            let text = format!("Its sender is told by ICMP: {}", answer.description());
            Told::new(ExplainedOutcome::IcmpError, text.clone(), step(text, &["M-2", "W-6"]))
        }
        Ending::Delivered { target, exit } => {
            let (target, shown) = named(target);
            let text = match exit {
                ExitSeen::Port(port) => {
                    format!("It comes from {shown} and leaves by port {}, byte for byte.", names.port(port))
                }
                ExitSeen::Interface { port, waits, pieces, .. } => {
                    let wait = if waits { ", once the next hop's link-layer address is known" } else { "" };
                    let split = if pieces > 1 { format!(" in {pieces} fragments") } else { String::new() };
                    format!(
                        "It comes from {shown} and leaves by port {} by the endpoint's routes{split}{wait}.",
                        names.port(port)
                    )
                }
            };
            let last = step(text.clone(), &["W-5", "W-6", "O-4"]);
            Told { target, ..Told::new(ExplainedOutcome::Delivered, text, last) }
        }
        Ending::Crosses(peer) => {
            let text = format!(
                "It is not IP, or of the link alone: it crosses the wire untouched, to port {}.",
                names.port(peer)
            );
            Told::new(ExplainedOutcome::Crosses, text.clone(), step(text, &["O-4"]))
        }
        Ending::Host(interface) => {
            let text = format!("It is for the host itself, at interface {}.", names.interface(interface));
            Told::new(ExplainedOutcome::Host, text.clone(), step(text, &["C-1"]))
        }
        Ending::WaitsForFirst => {
            let text =
                "The first fragment of its datagram has not come: it waits for that, a second at most.";
            Told::new(ExplainedOutcome::Waits, text.to_owned(), step(text, &["M-4"]))
        }
        Ending::Dropped(reason) => {
            let text = format!("It is dropped ({}): {}", reason.name(), reason.description().trim());
            let last = step(text.clone(), &[rule_of(reason), "C-1"]);
            Told { drop_reason: Some(reason), ..Told::new(ExplainedOutcome::Dropped, text, last) }
        }
    }
}

/// The rule by which a packet is dropped for this reason.
fn rule_of(reason: DropReason) -> &'static str {
    match reason {
        DropReason::NoLoadBalancer | DropReason::Ipv6NotEnabled => "O-1",
        DropReason::UnknownFlow => "F-8",
        DropReason::ExpiredFlow => "F-10",
        DropReason::NotAnswerable => "R-5",
        DropReason::ResetSuppressed => "R-11",
        DropReason::NoTarget => "F-7",
        DropReason::TooBigForTarget | DropReason::TooBigForLink | DropReason::NoBuffer => "M-2",
        DropReason::FragmentTiny
        | DropReason::FragmentInHeader
        | DropReason::FragmentTimeout
        | DropReason::FragmentFull => "M-4",
        DropReason::OuterMalformed
        | DropReason::GeneveVersion
        | DropReason::GeneveOptions
        | DropReason::GeneveCritical
        | DropReason::CookieMissing
        | DropReason::CookieStale
        | DropReason::NotFromTarget
        | DropReason::InnerMalformed
        | DropReason::InnerMismatch => "W-5",
        DropReason::TtlExceeded => "W-6",
        DropReason::IpMalformed | DropReason::TransportMalformed => "M-6",
        DropReason::FrameTruncated
        | DropReason::FrameSegmented
        | DropReason::PortUnused
        | DropReason::NeighbourUnknown
        | DropReason::LinkTableFull
        | DropReason::NoHeadroom
        | DropReason::NotForGateway
        | DropReason::LinkUnknown
        | DropReason::TransmitFull
        | DropReason::HandoffFull
        | DropReason::VlanUnknown
        | DropReason::NotOurMac
        | DropReason::Martian
        | DropReason::NoRoute
        | DropReason::WaitFull
        | DropReason::HostFull => "O-4",
    }
}

fn why_reset(trigger: ResetTrigger) -> &'static str {
    match trigger {
        ResetTrigger::Unhealthy => "its flow's target is unhealthy",
        ResetTrigger::Deregistration => "its flow's target was deregistered, and the delay is over",
        ResetTrigger::IdleTimeout => "its flow idled out",
        ResetTrigger::NoFlow => "it is of no flow",
        ResetTrigger::BothEnds => "the gateway has ended its connection, and this end was not told",
        ResetTrigger::Proactive => "its flow's target is out",
    }
}

/// The packet of a frame and where it begins.
fn ip_of(frame: &[u8]) -> Option<(Packet, &[u8])> {
    let link = Link::parse(frame).ok()?;
    let ip = frame.get(usize::from(link.header_len)..)?;
    Some((Packet::parse(ip).ok()?, ip))
}

fn address(packet: &Packet, bits: u128) -> IpAddr {
    match (packet.version, u32::try_from(bits)) {
        (IpVersion::V4, Ok(bits)) => Ipv4Addr::from_bits(bits).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

fn reset_view(trigger: ResetTrigger, answer: &[u8]) -> Option<ResetView> {
    let (packet, ip) = ip_of(answer)?;
    let tcp = TcpHeader::parse(ip.get(usize::from(packet.header_len)..)?).ok()?;
    Some(ResetView {
        trigger: trigger.name().to_owned(),
        to: address(&packet, packet.dst),
        to_port: packet.dst_port,
        from: address(&packet, packet.src),
        from_port: packet.src_port,
        sequence: tcp.seq.0,
        acknowledgement: tcp.ack.0,
        flags: flags(packet.tcp_flags),
    })
}

/// Flags as tcpdump writes them, but for what acknowledges: `S`, `SA`, `PA`, `.` for none.
pub fn flags(flags: TcpFlags) -> String {
    let names = [
        (TcpFlags::FIN, 'F'),
        (TcpFlags::SYN, 'S'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::ACK, 'A'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
    ];
    let set: String = names.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
    if set.is_empty() { ".".to_owned() } else { set }
}

/// Flags from their letters, in any order and case.
///
/// # Errors
/// If a letter is none of a flag.
pub fn flags_from(text: &str) -> Result<u8, String> {
    let bit = |letter: char| match letter.to_ascii_uppercase() {
        '.' => Ok(TcpFlags::empty()),
        'F' => Ok(TcpFlags::FIN),
        'S' => Ok(TcpFlags::SYN),
        'R' => Ok(TcpFlags::RST),
        'P' => Ok(TcpFlags::PSH),
        'A' => Ok(TcpFlags::ACK),
        'U' => Ok(TcpFlags::URG),
        'E' => Ok(TcpFlags::ECE),
        'W' => Ok(TcpFlags::CWR),
        other => Err(format!("the TCP flag '{other}' must be one of [F, S, R, P, A, U, E, W]")),
    };
    text.chars().try_fold(TcpFlags::empty(), |all, letter| Ok(all | bit(letter)?)).map(|flags| flags.bits())
}

fn packet_view(given: &Given<'_>, names: &impl Names, judgement: &Judgement) -> PacketView {
    let view = PacketView {
        port: names.port(given.port),
        endpoint: names.endpoint(judgement, given.port),
        length: given.frame.len(),
        ..PacketView::default()
    };
    let Some((mut packet, _)) = ip_of(given.frame) else { return view };
    // Of a later fragment: by what its first said.
    if let Some(arrival) = judgement.arrival.filter(|arrival| arrival.packet.fragment == Fragment::Later) {
        packet = arrival.packet;
    }
    let has_ports = protocol::has_ports(packet.protocol);
    PacketView {
        protocol: Some(Protocol(packet.protocol)),
        source: Some(address(&packet, packet.src)),
        source_port: has_ports.then_some(packet.src_port),
        destination: Some(address(&packet, packet.dst)),
        destination_port: has_ports.then_some(packet.dst_port),
        flags: (packet.protocol == protocol::TCP).then(|| flags(packet.tcp_flags)),
        ..view
    }
}
