//! What is counted of flows, packets and resets, by load balancer, zone, target group and target: the same for each.

use std::fmt;

use crate::control::core::Measures;
use crate::control::monitor::metrics::family::{Family, Series};
use crate::control::monitor::metrics::snapshot::{OfBalancer, OfGroup, OfTarget, OfZone};
use crate::datapath::counters::{ResetTrigger, Suppressed};

/// An object whose flows are counted.
trait Counted {
    /// The values of its labels.
    fn labels(&self) -> Vec<&str>;

    /// What was counted.
    fn measures(&self) -> &Measures;

    /// Resets sent for it, by trigger.
    fn resets(&self) -> &[u64; ResetTrigger::COUNT] {
        &self.measures().tally.resets
    }
}

impl Counted for OfBalancer {
    fn labels(&self) -> Vec<&str> {
        vec![&self.name]
    }

    fn measures(&self) -> &Measures {
        &self.measures
    }

    // Those of packets of no flow, which have no target, too.
    fn resets(&self) -> &[u64; ResetTrigger::COUNT] {
        &self.resets
    }
}

impl Counted for OfZone {
    fn labels(&self) -> Vec<&str> {
        vec![&self.balancer, &self.zone]
    }

    fn measures(&self) -> &Measures {
        &self.measures
    }
}

impl Counted for OfGroup {
    fn labels(&self) -> Vec<&str> {
        vec![&self.balancer, &self.name]
    }

    fn measures(&self) -> &Measures {
        &self.measures
    }
}

impl Counted for OfTarget {
    fn labels(&self) -> Vec<&str> {
        vec![&self.balancer, &self.group, &self.zone, &self.address]
    }

    fn measures(&self) -> &Measures {
        &self.measures
    }
}

fn count<T: Counted>(all: &[T], out: &mut Series<'_>, of: impl Fn(&Measures) -> u64) -> fmt::Result {
    all.iter().try_for_each(|one| out.counter(&one.labels(), of(one.measures())))
}

fn gauge<T: Counted>(all: &[T], out: &mut Series<'_>, of: impl Fn(&Measures) -> u64) -> fmt::Result {
    all.iter().try_for_each(|one| out.gauge(&one.labels(), of(one.measures())))
}

/// By direction, to the target and from it.
fn both_ways<T: Counted>(all: &[T], out: &mut Series<'_>, of: impl Fn(&Measures) -> [u64; 2]) -> fmt::Result {
    for one in all {
        let mut labels = one.labels();
        labels.push("");
        for (direction, value) in ["to_target", "from_target"].into_iter().zip(of(one.measures())) {
            *labels.last_mut().ok_or(fmt::Error)? = direction;
            out.counter(&labels, value)?;
        }
    }
    Ok(())
}

fn resets<T: Counted>(all: &[T], out: &mut Series<'_>) -> fmt::Result {
    for one in all {
        let mut labels = one.labels();
        labels.push("");
        for trigger in ResetTrigger::ALL {
            *labels.last_mut().ok_or(fmt::Error)? = trigger.name();
            out.counter(&labels, one.resets()[trigger.index()])?;
        }
    }
    Ok(())
}

/// The families that each of these objects has, and more of its own.
macro_rules! counted {
    ($prefix:literal, $whose:literal, $all:ident, [$($key:literal),+] $(, $more:expr)*) => {
        &[
            Family::gauge(
                concat!("flowgate_", $prefix, "_active_flows"),
                &[$($key),+],
                concat!("Live flows of ", $whose),
                |snapshot, out| gauge(&snapshot.$all, out, |of| of.active),
            )
            .cloudwatch(&["ActiveFlowCount"]),
            Family::gauge(
                concat!("flowgate_", $prefix, "_active_tcp_flows"),
                &[$($key),+],
                concat!("Live TCP flows of ", $whose),
                |snapshot, out| gauge(&snapshot.$all, out, |of| of.active_tcp),
            )
            .cloudwatch(&["ActiveFlowCount_TCP"]),
            Family::counter(
                concat!("flowgate_", $prefix, "_new_flows"),
                &[$($key),+],
                concat!("Flows that were given to ", $whose),
                |snapshot, out| count(&snapshot.$all, out, |of| of.tally.new_flows),
            )
            .cloudwatch(&["NewFlowCount"]),
            Family::counter(
                concat!("flowgate_", $prefix, "_processed_bytes"),
                &[$($key),+, "direction"],
                concat!("Bytes of the packets inside GENEVE that ", $whose, " was sent (to_target) and returned (from_target)"),
                |snapshot, out| both_ways(&snapshot.$all, out, |of| [of.tally.bytes_out, of.tally.bytes_back]),
            )
            .cloudwatch(&["ProcessedBytes"]),
            Family::counter(
                concat!("flowgate_", $prefix, "_processed_packets"),
                &[$($key),+, "direction"],
                concat!("Packets that ", $whose, " was sent (to_target) and returned (from_target)"),
                |snapshot, out| {
                    both_ways(&snapshot.$all, out, |of| [of.tally.packets_out, of.tally.packets_back])
                },
            )
            .cloudwatch(&["ProcessedPackets"]),
            Family::gauge(
                concat!("flowgate_", $prefix, "_peak_bytes_per_second"),
                &[$($key),+],
                concat!("Highest ten-second mean of the bytes of ", $whose, " in the last minute, both directions together"),
                |snapshot, out| gauge(&snapshot.$all, out, |of| of.peak.bytes),
            )
            .cloudwatch(&["PeakBytesPerSecond"]),
            Family::gauge(
                concat!("flowgate_", $prefix, "_peak_packets_per_second"),
                &[$($key),+],
                concat!("Highest ten-second mean of the packets of ", $whose, " in the last minute, both directions together"),
                |snapshot, out| gauge(&snapshot.$all, out, |of| of.peak.packets),
            )
            .cloudwatch(&["PeakPacketsPerSecond"]),
            Family::counter(
                concat!("flowgate_", $prefix, "_moved_flows"),
                &[$($key),+],
                concat!("Flows that were moved from ", $whose, " to another target (rebalance)"),
                |snapshot, out| count(&snapshot.$all, out, |of| of.tally.moved_away),
            ),
            Family::gauge(
                concat!("flowgate_", $prefix, "_owing_flows"),
                &[$($key),+],
                concat!("Flows of ", $whose, " that were reset and are remembered for an end that may have to be told"),
                |snapshot, out| gauge(&snapshot.$all, out, |of| of.owing),
            ),
            Family::counter(
                concat!("flowgate_", $prefix, "_tcp_resets"),
                &[$($key),+, "trigger"],
                concat!("TCP resets sent for flows of ", $whose, ", by what made the gateway send them"),
                |snapshot, out| resets(&snapshot.$all, out),
            )
            .cloudwatch(&["TCP_ELB_Reset_Count"]),
            Family::counter(
                concat!("flowgate_", $prefix, "_reset_flows"),
                &[$($key),+],
                concat!("Live flows of ", $whose, " that were ended by a reset, however many of their ends were told"),
                |snapshot, out| count(&snapshot.$all, out, |of| of.tally.reset_flows),
            ),
            $($more),*
        ]
    };
}

pub const BALANCERS: &[Family] = counted!(
    "load_balancer",
    "the load balancer",
    balancers,
    ["load_balancer"],
    Family::counter(
        "flowgate_load_balancer_rejected_flows",
        &["load_balancer", "protocol"],
        "Flows refused because no target was registered, of TCP and of other protocols",
        |snapshot, out| {
            snapshot.balancers.iter().try_for_each(|one| {
                let [all, tcp] = one.rejected;
                out.counter(&[&one.name, "tcp"], tcp)?;
                out.counter(&[&one.name, "other"], all.wrapping_sub(tcp))
            })
        },
    )
    .cloudwatch(&["RejectedFlowCount", "RejectedFlowCount_TCP"]),
    Family::counter(
        "flowgate_load_balancer_fail_open_flows",
        &["load_balancer"],
        "Flows given to a target though none was healthy",
        |snapshot, out| {
            snapshot.balancers.iter().try_for_each(|one| out.counter(&[&one.name], one.fail_open))
        },
    ),
    Family::counter(
        "flowgate_load_balancer_stateless_packets",
        &["load_balancer"],
        "Packets forwarded without state because the flow table was full",
        |snapshot, out| {
            snapshot.balancers.iter().try_for_each(|one| out.counter(&[&one.name], one.stateless))
        },
    ),
    Family::counter(
        "flowgate_load_balancer_suppressed_tcp_resets",
        &["load_balancer", "reason"],
        "TCP resets that were due and held back, by the guard that did",
        |snapshot, out| {
            snapshot.balancers.iter().try_for_each(|one| {
                Suppressed::ALL.iter().try_for_each(|reason| {
                    out.counter(&[&one.name, reason.name()], one.suppressed[reason.index()])
                })
            })
        },
    )
);

pub const ZONES: &[Family] = counted!(
    "availability_zone",
    "the load balancer's targets in the zone",
    zones,
    ["load_balancer", "availability_zone"],
    Family::gauge(
        "flowgate_availability_zone_targets",
        &["load_balancer", "availability_zone", "state"],
        "Targets of the load balancer in the zone, by state of health",
        |snapshot, out| {
            snapshot
                .zones
                .iter()
                .try_for_each(|one| super::groups::by_state(&[&one.balancer, &one.zone], &one.measures, out))
        },
    )
    .cloudwatch(&["HealthyHostCount", "UnHealthyHostCount"])
);

pub const GROUPS: &[Family] =
    counted!("target_group", "the target group", groups, ["load_balancer", "target_group"]);

pub const TARGETS: &[Family] = counted!(
    "target",
    "the target",
    targets,
    ["load_balancer", "target_group", "availability_zone", "target"],
    Family::counter(
        "flowgate_target_suppressed_tcp_resets",
        &["load_balancer", "target_group", "availability_zone", "target", "reason"],
        "TCP resets for flows of the target that were due and held back, by the guard that did",
        |snapshot, out| {
            snapshot.targets.iter().try_for_each(|one| {
                let [balancer, group, zone, target] = [&*one.balancer, &one.group, &one.zone, &one.address];
                Suppressed::ALL.iter().try_for_each(|reason| {
                    let held = one.measures.tally.suppressed[reason.index()];
                    out.counter(&[balancer, group, zone, target, reason.name()], held)
                })
            })
        },
    )
);
