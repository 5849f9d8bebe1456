//! What each worker does with its time and its memory, and what became of the packets that it received.

use std::fmt;
use std::time::Duration;

use crate::control::monitor::metrics::family::{Family, Series};
use crate::control::monitor::metrics::snapshot::{OfRing, OfWorker, Snapshot};
use crate::control::tally::Tally;
use crate::datapath::ages::{AGES_FROM_MS, IDLE_FROM_MS};
use crate::datapath::counters::{
    Counter, DropReason, IcmpAnswer, MAX_GATEWAYS, Outcome, ResetTrigger, WorkerCounters,
};
use crate::datapath::load::{BURST_CLASS_FROM, STATES};
use crate::flow::FlowState;
use crate::id::{GatewayId, TargetId};

const WORKER: &[&str] = &["worker"];

fn count(snapshot: &Snapshot, out: &mut Series<'_>, of: impl Fn(&WorkerCounters) -> &Counter) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| out.counter(&[&one.worker], of(&one.counters).get()))
}

fn gauge(snapshot: &Snapshot, out: &mut Series<'_>, of: impl Fn(&OfWorker) -> u64) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| out.gauge(&[&one.worker], of(one)))
}

fn seconds_gauge(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&OfWorker) -> f64) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| out.gauge(&[&one.worker], of(one)))
}

/// A counter of cycles, in seconds.
fn cycles(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&WorkerCounters) -> &Counter) -> fmt::Result {
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at; 2⁵³ cycles are a month")]
    let seconds = |cycles: u64| cycles as f64 / snapshot.cycles_per_second.max(1) as f64;
    snapshot.workers.iter().try_for_each(|one| out.counter(&[&one.worker], seconds(of(&one.counters).get())))
}

/// Counters by what indexes them.
fn by<T: Copy>(
    snapshot: &Snapshot,
    out: &mut Series<'_>,
    all: &[T],
    name: fn(T) -> &'static str,
    of: impl Fn(&WorkerCounters, T) -> &Counter,
) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| {
        all.iter()
            .try_for_each(|case| out.counter(&[&one.worker, name(*case)], of(&one.counters, *case).get()))
    })
}

/// What a worker has counted at all targets that ever were.
fn at_targets(snapshot: &Snapshot, one: &OfWorker) -> (Tally, u64) {
    let ids = (0..snapshot.slots).filter_map(|id| u16::try_from(id).ok()).map(TargetId);
    let active = ids.fold(0_u64, |sum, id| sum.wrapping_add(one.counters.target(id).active_flows.get()));
    (Tally::of_all(&one.counters, snapshot.slots), active)
}

fn tallied(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&Tally) -> u64) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| out.counter(&[&one.worker], of(&at_targets(snapshot, one).0)))
}

fn both_ways(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&Tally) -> [u64; 2]) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| {
        let [to, from] = of(&at_targets(snapshot, one).0);
        out.counter(&[&one.worker, "to_target"], to)?;
        out.counter(&[&one.worker, "from_target"], from)
    })
}

fn bursts(snapshot: &Snapshot, out: &mut Series<'_>) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| {
        let sizes = one.counters.bursts.by_class();
        // A class ends before the next begins; the last are full bursts, and none is larger.
        let ends = BURST_CLASS_FROM.iter().skip(1).map(|from| f64::from(*from) - 1.0);
        let classes: Vec<(f64, u64)> = ends.chain([f64::INFINITY]).zip(sizes).collect();
        #[expect(clippy::cast_precision_loss, reason = "a sum to make a mean of")]
        let packets = one.counters.received.get() as f64;
        out.classes(&[&one.worker], packets, &classes)
    })
}

fn rings(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&OfRing) -> u64) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| {
        one.rings.iter().try_for_each(|ring| out.gauge(&[&one.worker, ring.ring], of(ring)))
    })
}

/// Live flows that are at least so old, or so long silent: what a walk found in its sample, in proportion to all.
fn at_least<const N: usize>(
    snapshot: &Snapshot,
    out: &mut Series<'_>,
    from_ms: &[u32; N],
    of: fn(&WorkerCounters) -> &[Counter; N],
) -> fmt::Result {
    snapshot.workers.iter().try_for_each(|one| {
        let found = of(&one.counters).each_ref().map(Counter::get);
        let sampled: u64 = found.iter().sum();
        let states = STATES.iter().zip(&one.counters.flow_states);
        let live = states.filter(|(state, _)| !matches!(state, FlowState::Expired | FlowState::Owing));
        let live: u64 = live.map(|(_, count)| count.get()).sum();
        from_ms.iter().enumerate().try_for_each(|(class, ms)| {
            let at_least: u64 = found.iter().skip(class).sum();
            let of_all = u128::from(at_least) * u128::from(live) / u128::from(sampled.max(1));
            let seconds = (ms / 1000).to_string();
            out.gauge(&[&one.worker, &seconds], u64::try_from(of_all).unwrap_or(u64::MAX))
        })
    })
}

fn state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::Free => "free",
        FlowState::HalfOpen => "half_open",
        FlowState::Established => "established",
        FlowState::Other => "other",
        FlowState::Closed => "closed",
        FlowState::Expired => "expired",
        FlowState::Owing => "owing",
    }
}

pub const FAMILIES: &[Family] = &[
    Family::gauge(
        "flowgate_worker_info",
        &["worker", "core", "packet_memory", "flow_table_memory"],
        "1; the core that the worker runs on, and the pages that its memory lies in",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                out.gauge(&[&one.worker, &one.core, &one.packet_memory, one.table_memory], 1_u64)
            })
        },
    ),
    Family::gauge(
        "flowgate_worker_heartbeat_age_seconds",
        WORKER,
        "For how long the worker has gone no round; below a thousandth while it works",
        |snapshot, out| seconds_gauge(snapshot, out, |one| one.silent_for.as_secs_f64()),
    ),
    Family::counter(
        "flowgate_worker_paused_seconds",
        WORKER,
        "For how long the worker was stopped, half a second or more at a time; its flows grew no older then",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                out.counter(&[&one.worker], Duration::from_millis(one.counters.paused_ms.get()).as_secs_f64())
            })
        },
    ),
    Family::counter(
        "flowgate_worker_stalls",
        WORKER,
        "How often the worker went no round for half a second",
        |snapshot, out| snapshot.workers.iter().try_for_each(|one| out.counter(&[&one.worker], one.stalls)),
    ),
    Family::gauge(
        "flowgate_worker_configuration_generation",
        WORKER,
        "The number of the configuration that the worker goes by",
        |snapshot, out| gauge(snapshot, out, |one| one.counters.configuration.get()),
    ),
    Family::counter(
        "flowgate_worker_received_packets",
        WORKER,
        "Packets that the worker received",
        |snapshot, out| count(snapshot, out, |all| &all.received),
    ),
    Family::counter(
        "flowgate_worker_packets",
        &["worker", "outcome"],
        "Packets that were not dropped, by how they ended; with the dropped ones these are all that were received",
        |snapshot, out| {
            by(snapshot, out, Outcome::ALL, Outcome::name, |all, outcome| &all.outcomes[outcome.index()])
        },
    ),
    Family::counter(
        "flowgate_worker_dropped_packets",
        &["worker", "reason"],
        "Packets that were dropped, by reason",
        |snapshot, out| {
            by(snapshot, out, DropReason::ALL, DropReason::name, |all, reason| &all.drops[reason.index()])
        },
    ),
    Family::counter(
        "flowgate_worker_icmp_answers",
        &["worker", "kind"],
        "Packets answered with an ICMP error of the gateway's own",
        |snapshot, out| {
            by(snapshot, out, IcmpAnswer::ALL, IcmpAnswer::name, |all, kind| &all.icmp_answers[kind.index()])
        },
    ),
    Family::counter(
        "flowgate_worker_new_flows",
        WORKER,
        "Flows that the worker gave to targets",
        |snapshot, out| tallied(snapshot, out, |tally| tally.new_flows),
    )
    .cloudwatch(&["NewFlowCount"]),
    Family::gauge("flowgate_worker_active_flows", WORKER, "Live flows of the worker", |snapshot, out| {
        gauge(snapshot, out, |one| at_targets(snapshot, one).1)
    })
    .cloudwatch(&["ActiveFlowCount"]),
    Family::counter(
        "flowgate_worker_processed_bytes",
        &["worker", "direction"],
        "Bytes of the packets inside GENEVE that the worker sent to targets (to_target) and had from them (from_target)",
        |snapshot, out| both_ways(snapshot, out, |tally| [tally.bytes_out, tally.bytes_back]),
    )
    .cloudwatch(&["ProcessedBytes"]),
    Family::counter(
        "flowgate_worker_processed_packets",
        &["worker", "direction"],
        "Packets that the worker sent to targets (to_target) and had from them (from_target)",
        |snapshot, out| both_ways(snapshot, out, |tally| [tally.packets_out, tally.packets_back]),
    )
    .cloudwatch(&["ProcessedPackets"]),
    Family::gauge(
        "flowgate_worker_peak_bytes_per_second",
        WORKER,
        "Highest ten-second mean of the bytes of the worker in the last minute, both directions together",
        |snapshot, out| gauge(snapshot, out, |one| one.peak.bytes),
    )
    .cloudwatch(&["PeakBytesPerSecond"]),
    Family::gauge(
        "flowgate_worker_peak_packets_per_second",
        WORKER,
        "Highest ten-second mean of the packets of the worker in the last minute, both directions together",
        |snapshot, out| gauge(snapshot, out, |one| one.peak.packets),
    )
    .cloudwatch(&["PeakPacketsPerSecond"]),
    Family::counter(
        "flowgate_worker_tcp_resets",
        &["worker", "trigger"],
        "TCP resets that the worker sent for flows of targets, by what made it send them",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                let (tally, _) = at_targets(snapshot, one);
                ResetTrigger::ALL.iter().try_for_each(|trigger| {
                    out.counter(&[&one.worker, trigger.name()], tally.resets[trigger.index()])
                })
            })
        },
    )
    .cloudwatch(&["TCP_ELB_Reset_Count"]),
    Family::counter(
        "flowgate_worker_reset_flows",
        WORKER,
        "Live flows of the worker that were ended by a reset, however many of their ends were told",
        |snapshot, out| tallied(snapshot, out, |tally| tally.reset_flows),
    ),
    Family::counter(
        "flowgate_worker_rejected_flows",
        &["worker", "protocol"],
        "Flows that the worker refused because no target was registered, of TCP and of other protocols",
        |snapshot, out| {
            let gateways = || (0..).take(MAX_GATEWAYS).map(GatewayId);
            snapshot.workers.iter().try_for_each(|one| {
                let of = |id| one.counters.gateway(id);
                let all: u64 = gateways().map(|id| of(id).rejected_flows.get()).sum();
                let tcp: u64 = gateways().map(|id| of(id).rejected_flows_tcp.get()).sum();
                out.counter(&[&one.worker, "tcp"], tcp)?;
                out.counter(&[&one.worker, "other"], all.wrapping_sub(tcp))
            })
        },
    )
    .cloudwatch(&["RejectedFlowCount", "RejectedFlowCount_TCP"]),
    Family::counter(
        "flowgate_worker_unsent_tcp_resets",
        WORKER,
        "TCP resets of silent flows that the port did not take",
        |snapshot, out| count(snapshot, out, |all| &all.resets_unsent),
    ),
    Family::gauge(
        "flowgate_worker_flow_table_entries",
        &["worker", "state"],
        "Entries of the flow table in use, by state; some milliseconds old",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                STATES
                    .iter()
                    .zip(&one.counters.flow_states)
                    .try_for_each(|(state, count)| out.gauge(&[&one.worker, state_name(*state)], count.get()))
            })
        },
    ),
    Family::gauge(
        "flowgate_worker_flows_by_age",
        &["worker", "at_least_seconds"],
        "Live flows that began so long ago at least; from a sample of 65,536, some 20 seconds old",
        |snapshot, out| at_least(snapshot, out, &AGES_FROM_MS, |all| &all.flow_ages.ages),
    ),
    Family::gauge(
        "flowgate_worker_flows_by_silence",
        &["worker", "at_least_seconds"],
        "Live flows whose last packet was so long ago at least; from a sample of 65,536, some 20 seconds old",
        |snapshot, out| at_least(snapshot, out, &IDLE_FROM_MS, |all| &all.flow_ages.idle),
    ),
    Family::gauge(
        "flowgate_worker_flow_table_capacity",
        WORKER,
        "Entries that the flow table has",
        |snapshot, out| gauge(snapshot, out, |one| u64::from(one.capacity)),
    ),
    Family::counter(
        "flowgate_worker_expired_flows",
        WORKER,
        "Flows whose time was over: idle, closed, or never answered",
        |snapshot, out| count(snapshot, out, |all| &all.flows_expired),
    ),
    Family::counter(
        "flowgate_worker_evicted_flows",
        WORKER,
        "Flows that had to leave for others because the flow table was full",
        |snapshot, out| count(snapshot, out, |all| &all.flows_evicted),
    ),
    Family::counter(
        "flowgate_worker_flow_look_ups",
        &["worker", "by"],
        "Flows that were looked up: by the hash of a packet's key, by an answer's cookie, and answers that need no entry",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                let all = &one.counters;
                out.counter(&[&one.worker, "hash"], all.lookups_by_hash.get())?;
                out.counter(&[&one.worker, "cookie"], all.lookups_by_cookie.get())?;
                out.counter(&[&one.worker, "none"], all.lookups_stateless.get())
            })
        },
    ),
    Family::counter(
        "flowgate_worker_handed_off_packets",
        WORKER,
        "Packets given to another worker, which owns their flow",
        |snapshot, out| count(snapshot, out, |all| &all.handed_off),
    ),
    Family::counter(
        "flowgate_worker_handed_in_packets",
        WORKER,
        "Packets taken from another worker, which received them",
        |snapshot, out| count(snapshot, out, |all| &all.handed_in),
    ),
    Family::histogram(
        "flowgate_worker_burst_packets",
        WORKER,
        "How many packets were in a burst that a port gave; empty ones are none",
        bursts,
    ),
    Family::gauge(
        "flowgate_worker_largest_burst_packets",
        WORKER,
        "How many packets the largest burst of the last minute had at least: a power of two, 64 for a full one",
        |snapshot, out| gauge(snapshot, out, |one| one.largest_burst),
    ),
    Family::gauge(
        "flowgate_worker_ring_packets",
        &["worker", "ring"],
        "Packets that wait in the fullest ring from another worker (handed_in), and in those to and from the host",
        |snapshot, out| rings(snapshot, out, |ring| ring.waiting),
    ),
    Family::gauge(
        "flowgate_worker_ring_peak_packets",
        &["worker", "ring"],
        "The most packets that waited in such a ring in the last minute",
        |snapshot, out| rings(snapshot, out, |ring| ring.most),
    ),
    Family::gauge(
        "flowgate_worker_ring_capacity_packets",
        &["worker", "ring"],
        "Packets that fit into such a ring; the next one is dropped",
        |snapshot, out| rings(snapshot, out, |ring| ring.capacity),
    ),
    Family::counter("flowgate_worker_rounds", WORKER, "Rounds of the worker's loop", |snapshot, out| {
        count(snapshot, out, |all| &all.rounds)
    }),
    Family::counter(
        "flowgate_worker_busy_rounds",
        WORKER,
        "Rounds that handled at least one packet",
        |snapshot, out| count(snapshot, out, |all| &all.busy_rounds),
    ),
    Family::counter(
        "flowgate_worker_busy_seconds",
        WORKER,
        "Time spent in rounds that handled at least one packet",
        |snapshot, out| cycles(snapshot, out, |all| &all.busy_cycles),
    ),
    Family::counter(
        "flowgate_worker_asleep_seconds",
        WORKER,
        "Time spent asleep for want of packets",
        |snapshot, out| cycles(snapshot, out, |all| &all.slept_cycles),
    ),
    Family::gauge(
        "flowgate_worker_clock_hertz",
        WORKER,
        "Cycles of the worker's clock in a second: times the busy seconds, and by packets, these are cycles per packet",
        |snapshot, out| gauge(snapshot, out, |_| snapshot.cycles_per_second),
    ),
    Family::gauge(
        "flowgate_worker_longest_round_seconds",
        WORKER,
        "The longest round of the last minute",
        |snapshot, out| seconds_gauge(snapshot, out, |one| one.longest[0].as_secs_f64()),
    ),
    Family::gauge(
        "flowgate_worker_longest_round_ever_seconds",
        WORKER,
        "The longest round since the start",
        |snapshot, out| seconds_gauge(snapshot, out, |one| one.longest[1].as_secs_f64()),
    ),
    Family::gauge(
        "flowgate_worker_packet_buffers",
        WORKER,
        "Packet buffers in the worker's pool",
        |snapshot, out| gauge(snapshot, out, |one| one.buffers.all),
    ),
    Family::gauge(
        "flowgate_worker_packet_buffers_in_use",
        WORKER,
        "Packet buffers that are out of the worker's pool: with a port, in a ring, or in hand",
        |snapshot, out| gauge(snapshot, out, |one| one.buffers.in_use),
    ),
    Family::gauge(
        "flowgate_worker_control_messages",
        &["worker", "place"],
        "Messages between control core and worker that wait: in the ring to the worker, for room in it, and in the ring back",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                let [ring, before] = one.to_worker;
                out.gauge(&[&one.worker, "to_worker"], ring as u64)?;
                out.gauge(&[&one.worker, "before_ring"], before as u64)?;
                out.gauge(&[&one.worker, "from_worker"], one.from_worker as u64)
            })
        },
    ),
    Family::counter(
        "flowgate_worker_lost_events",
        WORKER,
        "Events that the control core was not told of because the ring was full; counters miss none",
        |snapshot, out| count(snapshot, out, |all| &all.events_lost),
    ),
    Family::counter(
        "flowgate_worker_sent_fragments",
        WORKER,
        "Fragments made of packets too large for where they go, but for the last of each",
        |snapshot, out| count(snapshot, out, |all| &all.fragments_sent),
    ),
    Family::counter(
        "flowgate_worker_held_fragments",
        WORKER,
        "Fragments that had to wait for the first of their datagram",
        |snapshot, out| count(snapshot, out, |all| &all.fragments_held),
    ),
    Family::gauge(
        "flowgate_worker_waiting_fragments",
        WORKER,
        "Fragments that wait for the first of their datagram now",
        |snapshot, out| gauge(snapshot, out, |one| one.counters.fragments_waiting.get()),
    ),
    Family::counter(
        "flowgate_worker_lowered_mss_packets",
        WORKER,
        "SYNs whose maximum segment size was lowered",
        |snapshot, out| count(snapshot, out, |all| &all.mss_lowered),
    ),
    Family::counter(
        "flowgate_worker_received_icmp_errors",
        &["worker", "flow"],
        "ICMP errors that quoted a packet of a known flow, and that quoted none",
        |snapshot, out| {
            snapshot.workers.iter().try_for_each(|one| {
                out.counter(&[&one.worker, "known"], one.counters.errors_of_flows.get())?;
                out.counter(&[&one.worker, "unknown"], one.counters.errors_of_no_flow.get())
            })
        },
    ),
    Family::gauge(
        "flowgate_worker_neighbours",
        WORKER,
        "Neighbours of routed endpoints whose link-layer address is known",
        |snapshot, out| gauge(snapshot, out, |one| one.counters.neighbours.get()),
    ),
    Family::counter(
        "flowgate_worker_refused_neighbours",
        WORKER,
        "Times that a neighbour was not noted because there was no room",
        |snapshot, out| count(snapshot, out, |all| &all.neighbours_refused),
    ),
];
