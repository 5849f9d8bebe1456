//! Every counter, as the socket's `get-counters` shows them: by CloudWatch's names where CloudWatch has one.

use std::collections::BTreeMap;

use super::Inner;
use super::accounts::Measures;
use crate::control::health::{CheckTotals, HealthState, TargetKey};
use crate::control::socket::views::{CounterScope, CounterSet, PortView};
use crate::datapath::counters::{
    Counter, DropReason, IcmpAnswer, Outcome, ResetTrigger, Suppressed, WorkerCounters,
};
use crate::id::GatewayId;

impl Inner {
    pub(super) fn counter_sets(&self) -> Vec<CounterSet> {
        let mut sets = vec![self.node_set()];
        sets.extend(self.worker_sets());
        let all = self.accounted();
        for balancer in self.state.load_balancers() {
            let Some(id) = self.compiler.gateway_id(&balancer.name) else { continue };
            let measures = all.balancers.get(balancer.name.as_str()).copied().unwrap_or_default();
            let mut counters = of_targets(&measures);
            if let Some(group) = self.state.target_group_of(balancer) {
                counters.extend(checks(self.health.group_checks(group.name.as_str()).totals));
            }
            counters.extend(self.gateway_counters(id));
            sets.push(set(CounterScope::LoadBalancer, balancer.name.to_string(), counters));
        }
        for group in self.state.target_groups() {
            let name = group.name.as_str();
            let mut counters = of_targets(&all.groups.get(name).copied().unwrap_or_default());
            counters.extend(checks(self.health.group_checks(name).totals));
            sets.push(set(CounterScope::TargetGroup, name.to_owned(), counters));
        }
        // A zone's targets may be of several load balancers.
        let mut zones = BTreeMap::<String, Measures>::new();
        for ((_, zone), measures) in &all.zones {
            zones.entry(zone.to_string()).or_default().add(measures, measures.tally);
        }
        for (zone, measures) in &zones {
            let mut counters = of_targets(measures);
            // Means of several load balancers were not highest at one time.
            counters.retain(|name, _| !name.starts_with("Peak"));
            sets.push(set(CounterScope::AvailabilityZone, zone.clone(), counters));
        }
        for target in &all.targets {
            let TargetKey { group, address } = &target.key;
            let mut counters = of_targets(&target.measures);
            counters.retain(|name, _| !name.ends_with("HostCount"));
            counters.extend(target.health.as_ref().map(|view| checks(view.checks)).unwrap_or_default());
            sets.push(set(CounterScope::Target, format!("{group}/{address}"), counters));
        }
        sets
    }

    fn node_set(&self) -> CounterSet {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let mut counters = packets(sum);
        // H-7: from the decision to the last worker that goes by it, at worst.
        let slowest = self.workers.slowest_condition().as_micros();
        let slowest = u64::try_from(slowest).unwrap_or(u64::MAX);
        counters.insert("SlowestConditionMicroseconds".to_owned(), slowest);
        let slowest = u64::try_from(self.workers.slowest_forwarding().as_micros()).unwrap_or(u64::MAX);
        counters.insert("SlowestForwardingMicroseconds".to_owned(), slowest);
        let tables = self.flow_tables();
        counters.extend(named([
            ("FlowsTakenOver", tables.flows),
            ("TornFlowEntries", tables.torn),
            ("FlowsNotTakenOver", tables.refused),
            ("RestartGapMilliseconds", tables.gap_milliseconds.unwrap_or(0)),
        ]));
        CounterSet {
            drops: DropReason::ALL
                .iter()
                .map(|reason| (reason.name().to_owned(), sum(&|all| &all.drops[reason.index()])))
                .collect(),
            ..set(CounterScope::Node, String::new(), counters)
        }
    }

    fn worker_sets(&self) -> impl Iterator<Item = CounterSet> {
        self.workers.links().iter().map(|link| {
            let one = |of: &dyn Fn(&WorkerCounters) -> &Counter| of(&link.counters).get();
            let mut counters = packets(one);
            // F-13: the longest that a worker took over what one round brought.
            let longest = self.workers.clock().duration_of(link.counters.longest_rounds.ever().cycles);
            let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
            counters.insert("LongestRoundNanoseconds".to_owned(), longest);
            CounterSet {
                drops: DropReason::ALL
                    .iter()
                    .map(|reason| (reason.name().to_owned(), link.counters.drops[reason.index()].get()))
                    .collect(),
                ..set(CounterScope::Worker, link.id.0.to_string(), counters)
            }
        })
    }

    fn gateway_counters(&self, id: GatewayId) -> BTreeMap<String, u64> {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let resets = |trigger: ResetTrigger| sum(&|all| &all.gateway(id).resets[trigger.index()]);
        let mut counters = named([
            ("RejectedFlowCount", sum(&|all| &all.gateway(id).rejected_flows)),
            ("RejectedFlowCount_TCP", sum(&|all| &all.gateway(id).rejected_flows_tcp)),
            ("FailOpenFlowCount", sum(&|all| &all.gateway(id).fail_open_flows)),
            ("StatelessPackets", sum(&|all| &all.gateway(id).stateless_packets)),
            ("TCP_ELB_Reset_Count", ResetTrigger::ALL.iter().map(|trigger| resets(*trigger)).sum()),
        ]);
        counters.extend(ResetTrigger::ALL.iter().map(|trigger| (reset_name(*trigger), resets(*trigger))));
        //
        let held = |why: &Suppressed| sum(&|all| &all.gateway(id).suppressed[why.index()]);
        counters.insert("SuppressedResetCount".to_owned(), Suppressed::ALL.iter().map(held).sum());
        let name = |why: &Suppressed| format!("SuppressedResetCount_{}", why.name());
        counters.extend(Suppressed::ALL.iter().map(|why| (name(why), held(why))));
        counters
    }
}

/// The counters of a port.
pub(super) fn of_port(port: PortView) -> CounterSet {
    let counters = named([
        ("ReceivedPackets", port.received),
        ("ReceivedBytes", port.received_bytes),
        ("SentPackets", port.sent),
        ("SentBytes", port.sent_bytes),
        ("MissedPackets", port.missed),
        ("MissedPackets_NoBuffer", port.no_buffer),
        ("ReceiveErrors", port.receive_errors),
        ("SendErrors", port.send_errors),
    ]);
    set(CounterScope::Port, port.port_name, counters)
}

fn set(scope: CounterScope, name: String, counters: BTreeMap<String, u64>) -> CounterSet {
    CounterSet { scope, name, counters, drops: BTreeMap::new() }
}

/// What is counted at targets.
fn of_targets(measures: &Measures) -> BTreeMap<String, u64> {
    let tally = &measures.tally;
    let mut counters = named([
        ("ActiveFlowCount", measures.active),
        ("ActiveFlowCount_TCP", measures.active_tcp),
        ("NewFlowCount", tally.new_flows),
        ("ProcessedPackets", tally.packets()),
        ("ProcessedBytes", tally.bytes()),
        ("PeakPacketsPerSecond", measures.peak.packets),
        ("PeakBytesPerSecond", measures.peak.bytes),
        ("PacketsToTarget", tally.packets_out),
        ("BytesToTarget", tally.bytes_out),
        ("PacketsFromTarget", tally.packets_back),
        ("BytesFromTarget", tally.bytes_back),
        ("MovedFlowCount", tally.moved_away),
        ("HealthyHostCount", measures.in_state(HealthState::Healthy)),
        ("UnHealthyHostCount", measures.in_state(HealthState::Unhealthy)),
        ("ResetFlowCount", tally.reset_flows),
        ("TCP_ELB_Reset_Count", tally.all_resets()),
    ]);
    let of_trigger = |trigger: &ResetTrigger| (reset_name(*trigger), tally.resets[trigger.index()]);
    counters.extend(ResetTrigger::ALL.iter().map(of_trigger));
    counters
}

/// The packet counters of the node or of one worker.
fn packets(of: impl Fn(&dyn Fn(&WorkerCounters) -> &Counter) -> u64) -> BTreeMap<String, u64> {
    let ended = |outcome: Outcome| of(&|all| &all.outcomes[outcome.index()]);
    let mut counters = named([
        ("ReceivedPackets", of(&|all| &all.received)),
        ("ForwardedPackets", ended(Outcome::Forwarded)),
        ("DeliveredPackets", ended(Outcome::Delivered)),
        ("AnsweredPackets", ended(Outcome::Answered)),
        ("CrossedPackets", ended(Outcome::Crossed)),
        ("HostPackets", ended(Outcome::Host)),
        ("FromHostPackets", ended(Outcome::FromHost)),
        ("DroppedPackets", DropReason::ALL.iter().map(|reason| of(&|all| &all.drops[reason.index()])).sum()),
        ("SentFragments", of(&|all| &all.fragments_sent)),
        ("LoweredMssPackets", of(&|all| &all.mss_lowered)),
        ("HeldFragments", of(&|all| &all.fragments_held)),
        ("WaitingFragments", of(&|all| &all.fragments_waiting)),
        ("IcmpErrorsOfFlows", of(&|all| &all.errors_of_flows)),
        ("IcmpErrorsOfNoFlow", of(&|all| &all.errors_of_no_flow)),
        ("HandedOffPackets", of(&|all| &all.handed_off)),
        ("HandedInPackets", of(&|all| &all.handed_in)),
        ("LookUpsByHash", of(&|all| &all.lookups_by_hash)),
        ("LookUpsByCookie", of(&|all| &all.lookups_by_cookie)),
        ("LookUpsStateless", of(&|all| &all.lookups_stateless)),
        ("FlowEntries", of(&|all| &all.flow_entries)),
        ("ExpiredFlowCount", of(&|all| &all.flows_expired)),
        ("EvictedFlowCount", of(&|all| &all.flows_evicted)),
        ("UnsentResets", of(&|all| &all.resets_unsent)),
        ("LostEvents", of(&|all| &all.events_lost)),
        ("Neighbours", of(&|all| &all.neighbours)),
        ("NeighboursRefused", of(&|all| &all.neighbours_refused)),
        ("Rounds", of(&|all| &all.rounds)),
        ("BusyRounds", of(&|all| &all.busy_rounds)),
        ("BusyCycles", of(&|all| &all.busy_cycles)),
        ("SleptCycles", of(&|all| &all.slept_cycles)),
    ]);
    counters.extend(IcmpAnswer::ALL.iter().map(|answer| {
        let name = format!("AnsweredPackets_{}", answer.name());
        (name, of(&|all| &all.icmp_answers[answer.index()]))
    }));
    counters
}

/// The counters of a target's checks.
fn checks(totals: CheckTotals) -> BTreeMap<String, u64> {
    named([
        ("HealthCheckCount", totals.made),
        ("HealthCheckCount_OutOfTurn", totals.out_of_turn),
        ("FailedHealthCheckCount_Timeout", totals.timeouts),
        ("FailedHealthCheckCount_ResponseCodeMismatch", totals.mismatches),
        ("FailedHealthCheckCount_FailedHealthChecks", totals.failures),
        ("FailedHealthCheckCount_InternalError", totals.internal_errors),
    ])
}

fn named<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn reset_name(trigger: ResetTrigger) -> String {
    format!("TCP_ELB_Reset_Count_{}", trigger.name())
}
