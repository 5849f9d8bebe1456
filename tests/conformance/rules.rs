//! The rules by id, each in a few words: what a gateway load balancer owes its users, and what this one
//! adds. The page that is made of them (`docs/conformance.md`) says where each is carried out and proved.

/// Whose rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As AWS documents it.
    Aws,
    /// Ours, where AWS is silent.
    Own,
    /// AWS's, with a part of ours where AWS is silent.
    PartOwn,
    /// Goes past AWS; off by default.
    Beyond,
    /// AWS's, with a part that goes past it and is off by default.
    PartBeyond,
    /// Goes past AWS and is on by default.
    BeyondOn,
}

impl Mark {
    /// What the page says of it.
    pub fn words(self) -> &'static str {
        match self {
            Mark::Aws => "",
            Mark::Own => "own",
            Mark::PartOwn => "partly own",
            Mark::Beyond => "beyond; off by default",
            Mark::PartBeyond => "partly beyond; that part is off by default",
            Mark::BeyondOn => "beyond; on by default",
        }
    }
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub id: &'static str,
    pub words: &'static str,
    pub mark: Mark,
}

const fn aws(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::Aws }
}

const fn own(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::Own }
}

const fn part_own(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::PartOwn }
}

const fn beyond(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::Beyond }
}

const fn part_beyond(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::PartBeyond }
}

const fn beyond_on(id: &'static str, words: &'static str) -> Rule {
    Rule { id, words, mark: Mark::BeyondOn }
}

/// The sections, in order.
pub const SECTIONS: &[(&str, &[Rule])] = &[
    ("Objects", OBJECTS),
    ("Attributes", ATTRIBUTES),
    ("Health checks and target states", HEALTH),
    ("Flows", FLOWS),
    ("Failover", FAILOVER),
    ("TCP reset", RESETS),
    ("GENEVE on the wire", WIRE),
    ("Size, fragments, ICMP", SIZES),
    ("Counters", COUNTERS),
];

const OBJECTS: &[Rule] = &[
    aws("O-1", "a load balancer is `ipv4` or `dualstack` and has one listener, to one target group"),
    aws("O-2", "a target group is GENEVE on port 6081 and has at most one load balancer"),
    part_beyond(
        "O-3",
        "a target is an IPv4 address, registered once; 1,000 in a group; a weight of its own is beyond",
    ),
    aws("O-4", "endpoints, `wire` and `routed`, with ids in GENEVE; the same addresses in two never mix"),
    aws("O-5", "ARNs and ids look like AWS's"),
];

const ATTRIBUTES: &[Rule] = &[
    aws("A-1", "`deregistration_delay.timeout_seconds`: 300, 0–3600"),
    aws("A-2", "`stickiness.enabled`: false, by the 5-tuple"),
    aws("A-3", "`stickiness.type`: by 2 or 3 of the tuple"),
    aws("A-4", "`target_failover.*`: both keys in one change and to one value"),
    part_own("A-5", "resets on unhealthy and on deregistration; not beside stickiness or `rebalance`"),
    aws("A-6", "a reset on idle timeout, independent of A-5"),
    aws("A-7", "`tcp.idle_timeout.seconds`: 350, 60–6000; 350 where stickiness is of 2 or 3"),
    aws("A-8", "`load_balancing.cross_zone.enabled`: false"),
    aws("A-9", "`deletion_protection.enabled`: false"),
    part_beyond("A-10", "UDP and others idle out after 120 s; `udp.idle_timeout.seconds` is beyond"),
    aws("A-11", "errors in AWS's words; a change is all or nothing"),
    own("A-12", "keys of our own start with `flowgate.` and are described with the others"),
];

const HEALTH: &[Rule] = &[
    aws("H-1", "a check's protocol, port, path, times, thresholds and matcher, their defaults and ranges"),
    beyond("H-2", "checks to the millisecond, and a threshold of 1 with them"),
    part_own("H-3", "one new connection a check, spread over the interval; early answers count; HTTPS"),
    aws("H-4", "a target's states, and when `initial` ends"),
    aws("H-5", "reason codes, each with a description of what was seen"),
    aws("H-6", "a target that no listener uses, or out of the zone, is `unused` and not checked"),
    own("H-7", "detection time is interval × threshold and told; from decision to first packet under 1 ms"),
    own("H-8", "1,000 targets at 1 s delay no check by more than a tenth, and no worker at all"),
    own("H-9", "results count in a row, and what is known survives changes that are about something else"),
];

const FLOWS: &[Rule] = &[
    part_own("F-1", "a flow is endpoint, protocol, addresses and ports; an ICMP echo also its identifier"),
    aws("F-2", "both directions are one flow, at one target and one worker"),
    aws("F-3", "stickiness chooses the target; the entry is always by F-1"),
    aws("F-4", "a weighted consistent hash chooses; a change moves only its own share"),
    aws("F-5", "the choice lasts for the flow's life"),
    aws("F-6", "with nobody healthy a new flow fails open"),
    aws("F-7", "with nobody registered it is rejected and counted"),
    part_beyond(
        "F-8",
        "a TCP packet of no flow is dropped, or reset by A-6; to adopt or reset it by itself is beyond",
    ),
    part_own("F-9", "timers of each state; any packet restarts them; a SYN on a closed flow starts anew"),
    aws("F-10", "an expired TCP flow is remembered until its next packet"),
    aws("F-11", "a cookie that no other live flow has; a stale one is dropped"),
    own(
        "F-12",
        "a full table evicts closed, expired and half-open flows, then silent ones that were never answered, then forwards without state",
    ),
    own("F-13", "no packet waits for a rehash, a resize or a scan; the longest burst is measured"),
    own("F-14", "a SYN on a flow whose target is out starts anew on a healthy one; on by default"),
];

const FAILOVER: &[Rule] = &[
    aws("T-1", "target unhealthy, TCP: goes on; or is reset; or moves"),
    aws("T-2", "target unhealthy, other protocols: go on; or move"),
    aws("T-3", "target draining: its flows go on, new ones do not come"),
    part_own("T-4", "after the delay: goes on if the target answers; or is reset; or moves"),
    aws("T-5", "target recovers: its flows work again, nothing moves back"),
    part_own("T-6", "all unhealthy: fail open; no reset of what failed open until somebody is healthy"),
    aws("T-7", "registered again while draining: `initial`, its flows untouched"),
];

const RESETS: &[Rule] = &[
    aws("R-1", "on unhealthy: only in answer to a packet, to its sender, the way it came; the entry goes"),
    aws("R-2", "on deregistration: the same, once the delay has elapsed"),
    aws("R-3", "on idle: a packet of an expired flow or of none"),
    aws("R-4", "the reset's header: a kernel believes it at once"),
    aws("R-5", "what is never answered with a reset"),
    aws("R-6", "a SYN never gets a reset: it starts a new flow"),
    aws("R-7", "VLAN tags and port are those of the packet answered; IPv6 as IPv4"),
    aws("R-8", "counted by load balancer, target group, target and trigger"),
    beyond("R-9", "the other side is reset too, at its next packet, once"),
    beyond("R-10", "silent flows are reset at both ends, a bounded number a burst"),
    beyond(
        "R-11",
        "guards against a false positive: hold, least healthy, most a second; that of resets of no flow is on by default",
    ),
    beyond("R-12", "in-band evidence: silence of a target has it checked out of turn"),
];

const WIRE: &[Rule] = &[
    aws("W-1", "outer IPv4, UDP and GENEVE headers: 68 bytes, field by field"),
    aws("W-2", "three options: endpoint, attachment, flow cookie"),
    aws("W-3", "one UDP source port for a flow's life, from 49152, spread; a checksum on demand"),
    aws("W-4", "the shapes in which an answer is accepted"),
    aws("W-5", "what is dropped, each under its own reason"),
    aws("W-6", "delivered byte for byte; TTL lowered only on a `routed` endpoint"),
    own("W-7", "answers find their flow by the cookie, and the inner tuple is compared"),
];

const SIZES: &[Rule] = &[
    aws("M-1", "inner packets up to 8,500 bytes where the MTU allows"),
    beyond_on("M-2", "too large for the target side: ICMP with the right MTU, or IPv4 fragments"),
    beyond("M-3", "the MSS of SYNs is lowered to what fits"),
    beyond_on("M-4", "fragments follow their first; one that comes before it waits, bounded"),
    aws("M-5", "an ICMP error goes with the flow that it quotes"),
    aws("M-6", "IPv6 extension headers are walked, bounded; IPv4 options are kept"),
];

const COUNTERS: &[Rule] = &[
    own("C-1", "every packet that came in is counted once by how it ended"),
    own("C-2", "workers share no cache line of counters"),
];
