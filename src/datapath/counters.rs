//! Counters: each worker writes its own, the control core adds them up (C-2).
//!
//! A [`Counter`] has one writer, so adding is a load, an add and a store, with no locked
//! instruction and no cache line that two workers share. Every packet that came in is counted once
//! as received and, when its fate is settled, once under its [`Outcome`] (C-1): at rest the two sums
//! are equal.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use super::ages::FlowAges;
use super::load::{BurstSizes, Highest, LongestRounds, PacketRing, RingFill, STATES};
use crate::id::{EndpointId, GatewayId, TargetId};

/// Targets a node can know at once, over all its groups. Bounds the per-worker arrays.
pub const MAX_TARGETS: usize = 16_384;

/// Load balancers a node can serve at once.
pub const MAX_GATEWAYS: usize = 256;

/// Endpoints a node can have.
pub const MAX_ENDPOINTS: usize = 4096;

/// Counters that fill the 128 bytes of a padded group.
const ENDPOINTS_A_GROUP: usize = 16;

/// Targets whose [`Troubles`] fill such a group.
const TROUBLES_A_GROUP: usize = 4;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning worker calls this.
    #[inline]
    pub fn add(&self, n: u64) {
        if cfg!(without = "counters") {
            return;
        }
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes `n` off a gauge. Only the owning worker calls this.
    #[inline]
    pub fn sub(&self, n: u64) {
        if cfg!(without = "counters") {
            return;
        }
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Sets a gauge. Only the owning worker calls this.
    #[inline]
    pub fn set(&self, n: u64) {
        if cfg!(without = "counters") {
            return;
        }
        self.0.store(n, Ordering::Relaxed);
    }

    /// Raises a high-water mark. Only the owning worker calls this.
    #[inline]
    pub fn raise(&self, n: u64) {
        if cfg!(without = "counters") {
            return;
        }
        if n > self.0.load(Ordering::Relaxed) {
            self.set(n);
        }
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares an enum whose variants index an array of counters, with the one name each has for
/// people and for metrics, and the sentence that explains it.
macro_rules! counted_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $sentence:literal])+ $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $sentence])+ $variant,)+ }

        impl $name {
            /// Every variant, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in metrics and on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
            }

            /// What it means, in a sentence.
            pub fn description(self) -> &'static str {
                match self { $($name::$variant => concat!($($sentence,)+),)+ }
            }

            /// Its place in an array of counters.
            #[inline]
            pub fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counted_enum! {
    /// Why a packet was dropped.
    DropReason {
        /// The frame is shorter than its own link-layer header.
        FrameTruncated = "frame_truncated",
        /// The frame lies in more than one buffer, and is longer than one holds.
        FrameSegmented = "frame_segmented",
        /// The port it came in by has no role in the present configuration.
        PortUnused = "port_unused",
        /// The IP header is cut, of another version, or contradicts itself.
        IpMalformed = "ip_malformed",
        /// The TCP, UDP or SCTP header is cut.
        TransportMalformed = "transport_malformed",
        /// The first fragment of a datagram ends inside its transport header.
        FragmentTiny = "fragment_tiny",
        /// A later fragment of a TCP segment begins inside the TCP header.
        FragmentInHeader = "fragment_in_header",
        /// A later fragment whose first did not come in time.
        FragmentTimeout = "fragment_timeout",
        /// A later fragment whose first had not come, and there was no room to wait for it.
        FragmentFull = "fragment_full",
        /// The endpoint's load balancer does not exist or has no listener.
        NoLoadBalancer = "no_load_balancer",
        /// IPv6 at a load balancer whose address type is ipv4.
        Ipv6NotEnabled = "ipv6_not_enabled",
        /// A TCP packet without SYN that belongs to no flow.
        UnknownFlow = "unknown_flow",
        /// A packet of a TCP flow that idled out, with the reset for it off.
        ExpiredFlow = "expired_flow",
        /// A reset was due, but this packet may not be answered with one.
        NotAnswerable = "not_answerable",
        /// A reset was due, but a guard held it back, and there was nowhere to send the packet.
        ResetSuppressed = "reset_suppressed",
        /// No target is registered: the flow was rejected.
        NoTarget = "no_target",
        /// The link-layer address of the target or of the next hop is not known.
        NeighbourUnknown = "neighbour_unknown",
        /// With its encapsulation the packet does not fit the target side's MTU, and its sender was not told.
        TooBigForTarget = "too_big_for_target",
        /// More distinct link-layer headers are in use than the worker keeps.
        LinkTableFull = "link_table_full",
        /// The buffer has no room for the headers to be put in front.
        NoHeadroom = "no_headroom",
        /// No buffer was to be had for the pieces of a packet that had to be split.
        NoBuffer = "no_buffer",
        /// On the target side, and not GENEVE for this gateway.
        NotForGateway = "not_for_gateway",
        /// The outer IPv4 or UDP header of an answer is cut, fragmented, or its checksum is wrong.
        OuterMalformed = "outer_malformed",
        /// The GENEVE version of an answer is not 0.
        GeneveVersion = "geneve_version",
        /// The GENEVE header or options of an answer are cut or overlap.
        GeneveOptions = "geneve_options",
        /// An answer has a critical option that is not known here, or is a control message.
        GeneveCritical = "geneve_critical",
        /// An answer carries no flow cookie.
        CookieMissing = "cookie_missing",
        /// An answer's cookie is not that of a live flow.
        CookieStale = "cookie_stale",
        /// An answer did not come from the flow's target.
        NotFromTarget = "not_from_target",
        /// The packet inside an answer is cut or is not IP.
        InnerMalformed = "inner_malformed",
        /// The packet inside an answer is of another flow than its cookie.
        InnerMismatch = "inner_mismatch",
        /// Which port and link-layer header an answer should leave by is not known.
        LinkUnknown = "link_unknown",
        /// The port's transmit queue had no room.
        TransmitFull = "transmit_full",
        /// The ring to the worker that owns the flow had no room.
        HandoffFull = "handoff_full",
        /// At a port of routed endpoints, in a VLAN that no endpoint has there.
        VlanUnknown = "vlan_unknown",
        /// At a routed endpoint, and not addressed to its port on the link.
        NotOurMac = "not_our_mac",
        /// At a routed endpoint, from or to an address that no router forwards; at a wire, from that of a group.
        Martian = "martian",
        /// The time to live ended at a routed endpoint, and its sender could not be told.
        TtlExceeded = "ttl_exceeded",
        /// The routed endpoint has no route to the destination, and the sender could not be told.
        NoRoute = "no_route",
        /// Larger than the MTU of the interface that it should leave by, and the sender could not be told.
        TooBigForLink = "too_big_for_link",
        /// Too many packets, or next hops, wait for a link-layer address already.
        WaitFull = "wait_full",
        /// The ring to the host's network stack had no room, or there is none.
        HostFull = "host_full",
    }
}

counted_enum! {
    /// How a packet that was not dropped ended (C-1).
    Outcome {
        /// Sent to an appliance, encapsulated.
        Forwarded = "forwarded",
        /// Came back from an appliance and left by its endpoint.
        Delivered = "delivered",
        /// Answered by the gateway itself, with a reset or an ICMP error.
        Answered = "answered",
        /// Crossed a wire endpoint untouched: not IP, or traffic that stays on its link.
        Crossed = "crossed",
        /// For the host's own network stack.
        Host = "host",
        /// From the host's own network stack, sent out of one of its interfaces.
        FromHost = "from_host",
    }
}

counted_enum! {
    /// What made the gateway send a TCP reset.
    ResetTrigger {
        /// The flow's target is unhealthy.
        Unhealthy = "unhealthy",
        /// The flow's target was deregistered and its delay is over.
        Deregistration = "deregistration",
        /// The flow had idled out.
        IdleTimeout = "idle_timeout",
        /// The packet belongs to no flow (R-3, F-8).
        NoFlow = "no_flow",
        /// The flow was reset before, and this end of it had not been told, or went on sending.
        BothEnds = "both_ends",
        /// The flow's target is unhealthy or gone and its ends were told unasked.
        Proactive = "proactive",
    }
}

counted_enum! {
    /// Why a reset that was due was held back.
    Suppressed {
        /// The target has not been unhealthy for long enough.
        Hold = "hold",
        /// Too few of the targets are healthy: the checks may be at fault.
        MinHealthy = "min_healthy",
        /// As many resets of flows as may be were sent lately.
        Rate = "rate",
        /// As many resets of packets that are of no live flow as may be were sent lately.
        NoFlowRate = "no_flow_rate",
    }
}

counted_enum! {
    /// What the gateway told a sender by an ICMP error of its own (M-2, W-6).
    IcmpAnswer {
        /// ICMPv4: the packet is too large and must not be fragmented.
        FragmentationNeeded = "fragmentation_needed",
        /// ICMPv6: the packet is too large.
        PacketTooBig = "packet_too_big",
        /// Its time to live ran out.
        TimeExceeded = "time_exceeded",
        /// It cannot be delivered.
        Unreachable = "unreachable",
    }
}

pub(super) use counted_enum;

/// What happened at one target, as one worker saw it.
#[derive(Debug, Default)]
pub struct TargetCounters {
    /// Flows that are with the target now.
    pub active_flows: Counter,
    /// Of these, TCP: those that a reset can end.
    pub active_tcp_flows: Counter,
    /// Flows that were ever given to it.
    pub new_flows: Counter,
    /// Packets sent to it.
    pub packets_out: Counter,
    /// Bytes of inner packets sent to it.
    pub bytes_out: Counter,
    /// Packets that it returned.
    pub packets_back: Counter,
    /// Bytes of inner packets that it returned.
    pub bytes_back: Counter,
    /// When it last returned a packet, in cycles of the workers' clock, to a round; 0: never.
    pub last_back: Counter,
    /// Flows of it that were reset and are remembered for an end that may have to be told.
    pub owing_flows: Counter,
    /// Flows that were moved away from it (`rebalance`).
    pub moved_away: Counter,
    /// Resets sent for its flows, by trigger.
    pub resets: [Counter; ResetTrigger::COUNT],
}

/// What a target's failure did to its flows, as one worker saw it. Apart from [`TargetCounters`], whose cache lines
/// are for what every packet counts.
#[derive(Debug, Default)]
pub struct Troubles {
    /// Live flows that were ended by a reset, however many of their ends were told.
    pub reset_flows: Counter,
    /// Packets whose reset was held back, by reason.
    pub suppressed: [Counter; Suppressed::COUNT],
}

/// What happened at one load balancer, as one worker saw it.
#[derive(Debug, Default)]
pub struct GatewayCounters {
    /// Flows refused because no target was registered (F-7).
    pub rejected_flows: Counter,
    /// Of these, TCP.
    pub rejected_flows_tcp: Counter,
    /// Resets sent, by trigger; their sum is `TCP_ELB_Reset_Count`.
    pub resets: [Counter; ResetTrigger::COUNT],
    /// Resets held back, by reason.
    pub suppressed: [Counter; Suppressed::COUNT],
    /// Flows given to a target though none was healthy (F-6).
    pub fail_open_flows: Counter,
    /// Packets forwarded without state because the table was full (F-12).
    pub stateless_packets: Counter,
}

/// Everything one worker counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Packets received from all ports.
    pub received: Counter,
    /// Packets by how they ended.
    pub outcomes: [Counter; Outcome::COUNT],
    /// Packets dropped, by reason.
    pub drops: [Counter; DropReason::COUNT],
    /// Packets answered with an ICMP error, by its kind.
    pub icmp_answers: [Counter; IcmpAnswer::COUNT],
    /// Fragments that the gateway made of packets too large for where they go, but for the last of each, which is
    /// counted as the packet (M-2).
    pub fragments_sent: Counter,
    /// SYNs whose maximum segment size was lowered (M-3).
    pub mss_lowered: Counter,
    /// Later fragments that had to wait for their first (M-4).
    pub fragments_held: Counter,
    /// Of these, those that wait now: they have come in and have not ended (C-1).
    pub fragments_waiting: Counter,
    /// ICMP errors that quoted a packet of a known flow and went to its target (M-5).
    pub errors_of_flows: Counter,
    /// ICMP errors that quoted no known flow (M-5).
    pub errors_of_no_flow: Counter,
    /// Packets given to another worker, which owns their flow.
    pub handed_off: Counter,
    /// Packets taken from another worker, which received them.
    pub handed_in: Counter,
    /// Bursts that the ports gave, by size.
    pub bursts: BurstSizes,
    /// The largest of late, by the least size of its class.
    pub largest_bursts: Highest,
    /// How full the rings from other workers and to and from the host are, in the order of [`PacketRing::ALL`].
    pub rings: [RingFill; PacketRing::ALL.len()],
    /// Flows looked up by the hash of a packet's key.
    pub lookups_by_hash: Counter,
    /// Flows looked up by an answer's cookie.
    pub lookups_by_cookie: Counter,
    /// Answers whose cookie is of no entry but says all that there is to know (F-12).
    pub lookups_stateless: Counter,
    /// Rounds of the worker's loop.
    pub rounds: Counter,
    /// Times that the worker was stopped for half a second or more, with its process, its core or its machine; and for how long in all.
    /// Its flows grew no older then.
    pub pauses: Counter,
    /// See above, in milliseconds.
    pub paused_ms: Counter,
    /// 1: the worker has ended by a panic. Its thread sets it, when it is no worker any more.
    pub panicked: Counter,
    /// Rounds that handled at least one packet.
    pub busy_rounds: Counter,
    /// Cycles spent in busy rounds.
    pub busy_cycles: Counter,
    /// Cycles spent asleep for want of packets.
    pub slept_cycles: Counter,
    /// The longest rounds, of each second and since the start (F-13). Sleep is not of a round.
    pub longest_rounds: LongestRounds,
    /// Entries of the flow table in use, remembered ones included.
    pub flow_entries: Counter,
    /// Entries of the flow table by state, in the order of [`STATES`]; at most some milliseconds old.
    pub flow_states: [Counter; STATES.len()],
    /// Live flows by age and by silence, some seconds old.
    pub flow_ages: FlowAges,
    /// Flows that idled out, closed or not.
    pub flows_expired: Counter,
    /// Flows that had to leave for others because the table was full.
    pub flows_evicted: Counter,
    /// Resets that no arriving packet became and that the port did not take.
    pub resets_unsent: Counter,
    /// Events not told to the control core because its ring was full.
    pub events_lost: Counter,
    /// Reports of flows that were given to the flow log's writer.
    pub flow_reports: Counter,
    /// Reports of flows that were not, because its ring was full; and the packets and bytes sent to targets that they
    /// were about.
    pub flow_reports_lost: Counter,
    /// See above.
    pub flow_report_packets_lost: Counter,
    /// See above.
    pub flow_report_bytes_lost: Counter,
    /// Neighbours of routed endpoints whose link-layer address is known.
    pub neighbours: Counter,
    /// Times that a neighbour was not noted because there was no room.
    pub neighbours_refused: Counter,
    /// The configuration that the worker goes by.
    pub configuration: Counter,
    /// Since when it goes by that one, in cycles of the workers' clock. Set before `configuration` is.
    pub configuration_since: Counter,
    /// By target.
    targets: Box<[CachePadded<TargetCounters>; MAX_TARGETS]>,
    /// By target, [`MAX_TARGETS`] of them, in padded groups.
    troubles: Box<[CachePadded<[Troubles; TROUBLES_A_GROUP]>]>,
    /// By load balancer; [`MAX_GATEWAYS`] long.
    gateways: Box<[CachePadded<GatewayCounters>]>,
    /// Live flows by endpoint, [`MAX_ENDPOINTS`] of them. In padded groups, as nothing else keeps what the
    /// allocator puts next to the first and the last off their cache lines.
    endpoint_flows: Box<[CachePadded<[Counter; ENDPOINTS_A_GROUP]>]>,
}

impl Default for WorkerCounters {
    fn default() -> WorkerCounters {
        fn zeros<T: Default, const N: usize>() -> [T; N] {
            std::array::from_fn(|_| T::default())
        }
        /// On the heap from the start, as it is too large for a stack.
        fn boxed<T: Default, const N: usize>() -> Box<[T; N]> {
            let all: Box<[T]> = (0..N).map(|_| T::default()).collect();
            all.try_into().unwrap_or_else(|_| unreachable!("N were made"))
        }
        WorkerCounters {
            received: Counter::default(),
            outcomes: zeros(),
            drops: zeros(),
            icmp_answers: zeros(),
            fragments_sent: Counter::default(),
            mss_lowered: Counter::default(),
            fragments_held: Counter::default(),
            fragments_waiting: Counter::default(),
            errors_of_flows: Counter::default(),
            errors_of_no_flow: Counter::default(),
            handed_off: Counter::default(),
            handed_in: Counter::default(),
            bursts: BurstSizes::default(),
            largest_bursts: Highest::default(),
            rings: zeros(),
            lookups_by_hash: Counter::default(),
            lookups_by_cookie: Counter::default(),
            lookups_stateless: Counter::default(),
            rounds: Counter::default(),
            pauses: Counter::default(),
            paused_ms: Counter::default(),
            panicked: Counter::default(),
            busy_rounds: Counter::default(),
            busy_cycles: Counter::default(),
            slept_cycles: Counter::default(),
            longest_rounds: LongestRounds::default(),
            flow_entries: Counter::default(),
            flow_states: zeros(),
            flow_ages: FlowAges::default(),
            flows_expired: Counter::default(),
            flows_evicted: Counter::default(),
            resets_unsent: Counter::default(),
            events_lost: Counter::default(),
            flow_reports: Counter::default(),
            flow_reports_lost: Counter::default(),
            flow_report_packets_lost: Counter::default(),
            flow_report_bytes_lost: Counter::default(),
            neighbours: Counter::default(),
            neighbours_refused: Counter::default(),
            configuration: Counter::default(),
            configuration_since: Counter::default(),
            targets: boxed(),
            troubles: (0..MAX_TARGETS / TROUBLES_A_GROUP).map(|_| CachePadded::new(zeros())).collect(),
            gateways: (0..MAX_GATEWAYS).map(|_| CachePadded::default()).collect(),
            endpoint_flows: (0..MAX_ENDPOINTS / ENDPOINTS_A_GROUP)
                .map(|_| CachePadded::new(zeros()))
                .collect(),
        }
    }
}

/// The counters of all targets.
#[derive(Clone, Copy)]
pub struct ByTarget<'a>(&'a [CachePadded<TargetCounters>; MAX_TARGETS]);

impl<'a> ByTarget<'a> {
    /// Those of one. An id beyond [`MAX_TARGETS`] (none is ever given out) shares another's, so that no input can
    /// make this panic.
    #[inline]
    pub fn of(self, id: TargetId) -> &'a TargetCounters {
        &self.0[id.index() % MAX_TARGETS]
    }
}

impl WorkerCounters {
    /// The counters of a target.
    #[inline]
    pub fn target(&self, id: TargetId) -> &TargetCounters {
        self.targets().of(id)
    }

    /// The counters of all targets, for those who count many packets.
    #[inline]
    pub fn targets(&self) -> ByTarget<'_> {
        ByTarget(&self.targets)
    }

    /// What a target's failure did to its flows, bounded by sharing the last one's.
    #[inline]
    pub fn troubles(&self, id: TargetId) -> &Troubles {
        let place = id.index().min(MAX_TARGETS - 1);
        &self.troubles[place / TROUBLES_A_GROUP][place % TROUBLES_A_GROUP]
    }

    /// The counters of a load balancer, bounded by sharing the last one's.
    #[inline]
    pub fn gateway(&self, id: GatewayId) -> &GatewayCounters {
        &self.gateways[id.index().min(MAX_GATEWAYS - 1)]
    }

    /// The live flows of an endpoint, bounded by sharing the last one's.
    #[inline]
    pub fn endpoint_flows(&self, id: EndpointId) -> &Counter {
        let place = id.index().min(MAX_ENDPOINTS - 1);
        &self.endpoint_flows[place / ENDPOINTS_A_GROUP][place % ENDPOINTS_A_GROUP]
    }

    /// How full one of the rings is.
    pub fn ring(&self, ring: PacketRing) -> &RingFill {
        &self.rings[ring as usize]
    }

    /// Counts a dropped packet.
    #[inline]
    pub fn dropped(&self, reason: DropReason) {
        self.drops[reason.index()].add(1);
    }

    /// Counts a packet that was not dropped.
    #[inline]
    pub fn ended(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].add(1);
    }

    /// Packets whose fate is settled: `received` equals the sum of this over the workers at rest, when
    /// neither a fragment nor a packet to an unknown neighbour waits.
    pub fn settled(&self) -> u64 {
        self.outcomes.iter().chain(&self.drops).map(Counter::get).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    // C-1
    #[test]
    fn every_reason_has_a_name_of_its_own_and_a_sentence() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (place, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), place);
            assert!(reason.description().ends_with('.'), "{reason:?}");
        }
    }

    // C-2
    #[test]
    fn the_counters_of_two_workers_or_two_targets_share_no_cache_line() {
        // Pairs of lines, as CPUs fetch them.
        let line = |counter: &Counter| std::ptr::from_ref(counter).addr() / 128;
        let lines = |all: &WorkerCounters| -> HashSet<usize> {
            let ends_of_target = |target: &TargetCounters| {
                [line(&target.active_flows), line(&target.resets[ResetTrigger::COUNT - 1])]
            };
            let ends_of_gateway =
                |gateway: &GatewayCounters| [line(&gateway.rejected_flows), line(&gateway.stateless_packets)];
            let targets = all.targets.iter().flat_map(|target| ends_of_target(target));
            let gateways = all.gateways.iter().flat_map(|gateway| ends_of_gateway(gateway));
            let endpoints = all.endpoint_flows.iter().flat_map(|group| group.iter().map(line));
            let troubles = all.troubles.iter().flat_map(|group| group.iter());
            let troubles = troubles.map(|troubles| line(&troubles.reset_flows));
            let own = [line(&all.received), line(&all.configuration_since)];
            own.into_iter().chain(targets).chain(troubles).chain(gateways).chain(endpoints).collect()
        };
        let workers: Vec<WorkerCounters> = (0..3).map(|_| WorkerCounters::default()).collect();
        let all: Vec<_> = workers.iter().map(lines).collect();
        for (n, lines) in all.iter().enumerate() {
            assert!(all[n + 1..].iter().all(|others| others.is_disjoint(lines)));
        }
        // By construction, wherever they are put.
        assert_eq!(std::mem::align_of::<WorkerCounters>(), 128);
        assert_eq!(std::mem::size_of::<WorkerCounters>() % 128, 0);
        for (size, align) in [
            (size_of::<CachePadded<TargetCounters>>(), align_of::<CachePadded<TargetCounters>>()),
            (size_of::<CachePadded<GatewayCounters>>(), align_of::<CachePadded<GatewayCounters>>()),
        ] {
            assert!(align >= 64 && size % align == 0, "{size} bytes, {align} aligned");
        }
        // Else a thousand targets would have half of a first-level cache.
        assert_eq!(size_of::<CachePadded<TargetCounters>>(), 128);
        let (a, b) = (workers[0].target(TargetId(0)), workers[0].target(TargetId(1)));
        assert_ne!(line(&a.resets[ResetTrigger::COUNT - 1]), line(&b.active_flows));
    }

    // C-2
    #[test]
    fn every_endpoint_has_a_counter_of_its_own() {
        let counters = WorkerCounters::default();
        for n in 0..u16::try_from(MAX_ENDPOINTS).unwrap() {
            counters.endpoint_flows(EndpointId(n)).add(u64::from(n) + 1);
        }
        for n in 0..u16::try_from(MAX_ENDPOINTS).unwrap() {
            assert_eq!(counters.endpoint_flows(EndpointId(n)).get(), u64::from(n) + 1);
        }
    }
}
