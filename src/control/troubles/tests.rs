//! What is found of what, in which words; that every kind can be found; and that the alerts go by the same limits.

use std::collections::HashSet;
use std::time::Duration;

use super::fixture::{bare, judged, ready, well};
use super::limits::*;
use super::*;
use crate::control::events::Timestamp;
use crate::control::health::HealthState;
use crate::control::socket::views::{DrainOverview, EndpointOverview, Severity, TargetOverview};

type Change = fn(&mut Overview, &mut Standing);

/// What is found once the node that was well is otherwise.
fn after(change: Change) -> Overview {
    let mut watch = Watch::default();
    let (mut standing, mut before, mut overview) = (ready(), well(1), well(2));
    watch.judge(&mut before, &standing);
    change(&mut overview, &mut standing);
    watch.judge(&mut overview, &standing);
    overview
}

/// The troubles but for those that go on as somebody wanted, each as `kind: what; figures`.
fn told(overview: &Overview) -> Vec<String> {
    let wrong = overview.troubles.iter().filter(|one| one.severity > Severity::Notice);
    wrong.map(|one| format!("{}: {}; {}", one.kind, one.what, one.figures)).collect()
}

/// What makes each kind be found, and what is told then.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<(Change, &'static [&'static str])> {
    vec![
        (
            |it, standing| {
                it.workers[1].heartbeat_age_ms = 3200;
                standing.readiness.silent_for[1] = Duration::from_millis(3200);
            },
            &["worker-stuck: Worker 1 on core 2 goes no rounds: its flows stand still; 1700 flows"],
        ),
        (
            |it, _| {
                it.target_groups[0].targets.clear();
                it.load_balancers[0].rejected_flows = 20;
            },
            &[
                "no-target: inspection refuses new flows: firewalls has no target; 20 flows refused in the last 10 s",
            ],
        ),
        (
            |it, _| {
                it.target_groups[0].targets.truncate(1);
                it.target_groups[0].targets[0].state = HealthState::Unhealthy;
                it.load_balancers[0].fail_open_flows = 3;
            },
            &[
                "nobody-healthy: The one target of firewalls is unhealthy: inspection gives new flows to any of them (fail open); 3 flows given so in the last 10 s",
                "target-unhealthy: firewalls/10.0.0.1 is unhealthy: its flows are reset; 1200 flows left",
            ],
        ),
        (
            |it, _| it.load_balancers[0].stateless_packets = 1500,
            &[
                "forwards-without-state: inspection forwards packets without state: a flow table is full of live flows; 1.50k packets/s",
            ],
        ),
        (
            |_, standing| standing.storing_for = Duration::from_millis(5001),
            &["store-waits: A change waits for the disk; so do all after it, and ends of drains; for 5s"],
        ),
        (
            |_, standing| standing.not_stored = 1,
            &[
                "changes-not-stored: Changes are refused: they cannot be written to the state directory; 1 change in the last minute",
            ],
        ),
        (|it, _| it.ports[0].link_up = false, &["port-down: The link of port left is down; "]),
        (
            |it, _| it.target_groups[0].targets[0].neighbour.mac = None,
            &[
                "target-unreachable: firewalls/10.0.0.1 cannot be sent anything: its link-layer address is not known (reachable); 1200 flows on it",
            ],
        ),
        (
            |it, _| {
                let targets = &mut it.target_groups[0].targets;
                targets[0].state = HealthState::Unhealthy;
                targets[0].description = "Request timed out".to_owned();
                targets[0].traffic.reset_flows = 1;
                targets[1].state = HealthState::Unavailable;
                it.target_groups[0].rebalances = true;
            },
            &[
                "target-unhealthy: firewalls/10.0.0.1 is unhealthy (Request timed out): its flows move to others; 1200 flows left, 1 flow reset in the last minute",
                "few-healthy: Only 1 of 3 targets of firewalls are healthy; ",
                "target-unavailable: firewalls/10.0.0.2 cannot be checked: ; 125 flows on it",
            ],
        ),
        (
            |_, standing| standing.readiness.taken_out = Some("new kernel (/x/not-ready)".to_owned()),
            &["taken-out: This node was taken out of service: new kernel (/x/not-ready); "],
        ),
        (
            |_, standing| standing.readiness.silent_for.clear(),
            &["not-ready: This node is not ready (workers): 0 of 0 go round; "],
        ),
        (
            |_, standing| standing.readiness.behind = vec![(1, Some(Duration::from_millis(1001)))],
            &["worker-behind: Worker 1 does not go by generation 12, which is in force; "],
        ),
        (
            |it, _| it.ports[0].missed = 2,
            &["port-misses: Port left loses packets: the workers do not take them fast enough; 2 packets/s"],
        ),
        (
            |it, _| {
                it.totals.drops =
                    [("cookie_stale".to_owned(), 100), ("neighbour_unknown".to_owned(), 30)].into()
            },
            &[
                "packets-dropped: Packets are dropped (neighbour_unknown): The link-layer address of the target or of the next hop is not known; 30 packets/s",
            ],
        ),
        (
            |it, _| {
                it.workers[0].flows = it.workers[0].capacity * 86 / 100 + 1;
                it.workers[1].load.busy_cycles = 500_000_000 + 1_820_000_000;
            },
            &[
                "table-filling: The flow table of worker 0 is nearly full; 86 % full, 901776 of 1048576 entries",
                "worker-busy: Worker 1 on core 2 has hardly any time left; busy 91 % of the time",
            ],
        ),
        (
            |_, standing| {
                standing.tables_lost = Some(("node is 3 bytes long".to_owned(), TABLES_LOST));
                standing.tables_not_kept = Some("no memory".to_owned());
            },
            &[
                "tables-lost: The flow tables of the daemon before this one are lost: node is 3 bytes long; ",
                "tables-not-kept: Flows will end with the daemon: no memory; ",
            ],
        ),
        (
            |it, _| (it.load_balancers[0].held_resets.hold, it.load_balancers[0].held_resets.rate) = (5, 2),
            &[
                "resets-held-back: Resets of inspection are held back by its guards (hold_ms, max_per_second); for 7 packets in the last 10 s",
            ],
        ),
        (
            |it, _| {
                let traffic = &mut it.target_groups[0].targets[2].traffic;
                (traffic.resets.deregistration, traffic.reset_flows) = (4, 2);
            },
            &[
                "drain-reset: Flows of firewalls/10.0.0.3 were reset, as its drain was over; 2 flows reset in the last minute",
            ],
        ),
        (
            |it, _| it.load_balancers[0].resets.no_flow = 9,
            &[
                "no-flow-resets: Packets of no known flow are answered with resets at inspection; 9 resets sent in the last minute",
            ],
        ),
        (
            |it, _| it.load_balancers[0].target_group = None,
            &["no-listener: inspection has no listener: its traffic is dropped; "],
        ),
        (
            |it, _| it.endpoints.push(endpoint(None)),
            &["endpoint-unused: Endpoint edge leads to no load balancer: its traffic is dropped; "],
        ),
    ]
}

fn endpoint(load_balancer: Option<&str>) -> EndpointOverview {
    EndpointOverview {
        name: "edge".to_owned(),
        kind: "wire".to_owned(),
        ports: Vec::new(),
        load_balancer: load_balancer.map(str::to_owned),
        flows: 0,
    }
}

// H-5, R-8, R-11, R-12
#[test]
fn what_is_wrong_is_said_in_words_the_worst_first_and_of_a_good_node_nothing() {
    assert_eq!(told(&after(|it, _| it.endpoints.push(endpoint(Some("inspection"))))), [""; 0]);
    for (change, expected) in cases() {
        assert_eq!(told(&after(change)), expected);
    }
}

#[test]
fn nothing_is_wrong_up_to_the_limit() {
    let at_the_limit: [Change; 8] = [
        |_, standing| {
            standing.tables_lost = Some((String::new(), TABLES_LOST + Duration::from_millis(1)));
        },
        |it, standing| {
            it.workers[1].heartbeat_age_ms = 499;
            standing.readiness.silent_for[1] = Duration::from_millis(499);
        },
        |_, standing| standing.storing_for = STORE_WAITS,
        |it, _| it.ports[0].missed = LOST_PER_SECOND,
        |it, _| it.totals.drops = [("neighbour_unknown".to_owned(), LOST_PER_SECOND)].into(),
        |it, _| (it.workers[0].flows, it.workers[0].capacity) = (TABLE_FILLING_PERCENT, 100),
        |it, _| it.workers[1].load.busy_cycles = 500_000_000 + 1_800_000_000,
        |_, standing| standing.readiness.behind = vec![(1, Some(Duration::from_millis(900)))],
    ];
    for (number, change) in at_the_limit.into_iter().enumerate() {
        assert_eq!(told(&after(change)), [""; 0], "case {number}");
    }
    // Half of them: the one target is told, and that they are few is not.
    let half = after(|it, _| {
        let targets = &mut it.target_groups[0].targets;
        targets.retain(|one| one.drain.is_none());
        targets.truncate(2);
        targets[0].state = HealthState::Unhealthy;
    });
    assert_eq!(half.troubles.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::TargetUnhealthy]);
}

//
#[test]
fn a_target_is_silent_if_it_is_sent_packets_now_and_returns_none_for_a_second() {
    let silent = |silent_for_ms: u64, sent: u64| {
        let node = |reading: u64| {
            let mut overview = well(reading);
            let target = &mut overview.target_groups[0].targets[0];
            target.silent_for_ms = silent_for_ms;
            target.traffic.packets_to_target = 1000 + sent * reading;
            overview
        };
        judged([well(1), node(2), node(3)])
    };
    assert_eq!(told(&silent(999, 10)), [""; 0]);
    assert_eq!(told(&silent(1000, 0)), [""; 0], "it was sent something an hour ago");
    let overview = silent(1000, 10);
    assert_eq!(
        told(&overview),
        [
            "target-silent: firewalls/10.0.0.1 passes its checks and returns nothing of what it is sent; 1200 flows on it"
        ]
    );
    assert_eq!(overview.at.since(overview.troubles[0].since), 1000);
}

#[test]
fn every_kind_can_be_found_and_says_what_to_do() {
    let mut found = HashSet::new();
    let mut note = |overview: &Overview| {
        for trouble in &overview.troubles {
            assert_eq!(
                (trouble.severity, trouble.to_do.as_str()),
                (trouble.kind.severity(), trouble.kind.to_do())
            );
            found.insert(trouble.kind);
        }
    };
    cases().into_iter().for_each(|(change, _)| note(&after(change)));
    let silent = |reading| {
        let mut overview = well(reading);
        overview.target_groups[0].targets[0].silent_for_ms = 2000;
        overview
    };
    note(&judged([silent(1), silent(2)]));
    note(&after(|it, _| {
        it.target_groups[0].targets[0].checks = None;
        it.target_groups[0].targets[0].state = HealthState::Unused;
    }));
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !found.contains(kind)).collect();
    assert_eq!(missing, [&Kind::NotReady; 0], "nothing was found that is these");
    for kind in Kind::ALL {
        assert!(kind.when().ends_with('.') && kind.to_do().ends_with('.'), "{kind}");
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.id());
    }
}

#[test]
fn of_many_targets_in_the_same_trouble_one_sentence_tells() {
    let dead = bare(2).target_groups[0].targets[1].clone();
    let crowd = |overview: &mut Overview, count: u8| {
        let one = |last| TargetOverview {
            address: [10, 0, 0, last].into(),
            since: Some(Timestamp::from_unix_ms(overview.at.unix_ms() - i64::from(last) * 1000)),
            ..dead.clone()
        };
        overview.target_groups[0].targets = (1..=count).map(one).collect();
    };
    let mut few = well(2);
    crowd(&mut few, 3);
    let few = judged([well(1), few]);
    let unhealthy = |overview: &Overview| {
        let all = overview.troubles.iter().filter(|one| one.kind == Kind::TargetUnhealthy);
        all.map(|one| one.objects[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        unhealthy(&few),
        ["firewalls/10.0.0.1", "firewalls/10.0.0.2", "firewalls/10.0.0.3"],
        "the last first"
    );
    let mut many = well(2);
    crowd(&mut many, 200);
    let many = judged([well(1), many]);
    assert_eq!(
        told(&many),
        [
            "nobody-healthy: None of 200 targets of firewalls is healthy: inspection gives new flows to any of them (fail open); ",
            "target-unhealthy: 200 of 200 targets of firewalls are unhealthy: their flows are reset; 25000 flows left, 5000 flows reset in the last minute"
        ]
    );
    let all = &many.troubles[1];
    assert_eq!((all.objects.len(), many.at.since(all.since)), (200, 200_000), "since the first of them");
    assert!(all.concerns("firewalls/10.0.0.77") && !all.concerns("firewalls/10.0.1.7"));
}

#[test]
fn what_goes_on_as_somebody_wanted_is_a_notice() {
    let overview = judged([bare(1), bare(2)]);
    let drain = overview.troubles.iter().find(|one| one.kind == Kind::TargetDraining).unwrap();
    assert_eq!(drain.severity, Severity::Notice);
    assert_eq!(drain.line("for 1m"), "firewalls/10.0.0.3 drains; for 1m, 300 flows left, 3m 18s to go");
    assert_eq!(drain.since, Timestamp::from_unix_ms(fixture::START - 100_000));
    let mut many = bare(2);
    let one = many.target_groups[0].targets[2].clone();
    let drain =
        |started| Some(DrainOverview { started: Timestamp::from_unix_ms(started), ..one.drain.unwrap() });
    many.target_groups[0].targets = (1..=9)
        .map(|last| TargetOverview {
            address: [10, 0, 0, last].into(),
            drain: drain(i64::from(last)),
            ..one.clone()
        })
        .collect();
    let many = judged([many]);
    let drains: Vec<_> = many.troubles.iter().filter(|one| one.kind == Kind::TargetDraining).collect();
    assert_eq!((drains.len(), drains[0].objects.len(), drains[0].since.unix_ms()), (1, 9, 1));
}

#[test]
fn what_has_no_time_of_its_own_is_since_it_was_first_seen_and_is_forgotten_when_it_is_over() {
    let mut watch = Watch::default();
    let mut since = |reading: u64, up: bool| {
        let mut overview = well(reading);
        overview.ports[0].link_up = up;
        watch.judge(&mut overview, &ready());
        overview.troubles.iter().find(|one| one.kind == Kind::PortDown).map(|one| one.since)
    };
    assert_eq!(since(1, true), None);
    assert_eq!(since(2, false), Some(fixture::at(2)));
    assert_eq!(since(3, false), Some(fixture::at(2)));
    assert_eq!(since(4, true), None);
    assert_eq!(since(5, false), Some(fixture::at(5)));
}

//
#[test]
fn what_came_is_told_for_its_time_and_no_longer_whoever_asks_and_however_often() {
    let mut watch = Watch::default();
    let mut look = |milliseconds: u64, lost: u64, flows: u64| {
        let mut overview = well(1);
        overview.node.uptime_ms += milliseconds;
        overview.ports[0].missed = lost;
        overview.target_groups[0].targets[0].traffic.reset_flows = flows;
        watch.judge(&mut overview, &ready());
        let misses = overview.troubles.iter().find(|one| one.kind == Kind::PortMisses);
        (misses.map(|one| one.figures.clone()), overview.target_groups[0].targets[0].reset_flows_last_minute)
    };
    assert_eq!(look(0, 1000, 5), (None, 0), "what was before the first look is not of now");
    for millisecond in 1..=100 {
        look(1000 + millisecond, 1000 + 10 * millisecond, 5 + millisecond);
    }
    assert_eq!(look(2000, 2000, 105), (Some("500 packets/s".to_owned()), 100));
    assert_eq!(look(11_000, 2000, 105), (Some("100 packets/s".to_owned()), 100));
    assert_eq!(look(12_000, 2000, 105), (None, 100), "ten seconds later");
    assert_eq!(look(61_000, 2000, 105).1, 100);
    assert_eq!(look(62_000, 2000, 105).1, 0, "a minute later");
    // It was registered anew, and 3 flows were reset since.
    assert_eq!(look(63_000, 2000, 3).1, 3);
}

#[test]
fn readiness_is_told_as_readyz_has_it() {
    let overview = after(|_, _| {});
    assert!(overview.readiness.ready && overview.readiness.missing.is_empty());
    let overview = after(|_, standing| {
        standing.readiness.taken_out = Some("standby".to_owned());
        standing.readiness.silent_for[0] = Duration::from_secs(2);
    });
    assert!(!overview.readiness.ready);
    assert_eq!(overview.readiness.missing, ["worker 0 went no round for 2.0 s", "standby"]);
}

/// The rules, without the blanks that YAML has between lines.
fn rules() -> String {
    let text = include_str!("../../../docs/monitoring/flowgate.rules.yml");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A rule's part from its name to the next one's.
fn rule(name: &str) -> String {
    let rules = rules();
    let (_, rest) =
        rules.split_once(&format!("- alert: {name} ")).unwrap_or_else(|| panic!("no alert {name}"));
    rest.split(" - alert: ").next().unwrap().to_owned()
}

#[test]
fn the_alerts_go_by_the_same_limits() {
    #[expect(clippy::cast_precision_loss, reason = "percent")]
    let part = |percent: u64| format!("{}", percent as f64 / 100.0);
    let seconds = |time: Duration| time.as_secs();
    let faults: Vec<&str> = FAULTS.iter().map(|reason| reason.name()).collect();
    for (alert, expression) in [
        (
            "FlowgateWorkerStuck",
            format!("flowgate_worker_heartbeat_age_seconds >= {} ", WORKER_STILL.as_secs_f64()),
        ),
        ("FlowgateTargetSilent", format!("flowgate_target_silent_seconds >= {} and", seconds(TARGET_SILENT))),
        (
            "FlowgateTargetSilent",
            "rate(flowgate_target_processed_packets_total{direction=\"to_target\"}[1m]) > 0 ".to_owned(),
        ),
        ("FlowgateStoreHangs", format!("flowgate_store_waiting_seconds > {} ", seconds(STORE_WAITS))),
        (
            "FlowgateFlowTableNearlyFull",
            format!("worker:flowgate_flow_table_load:ratio > {} ", part(TABLE_FILLING_PERCENT)),
        ),
        ("FlowgateWorkerBusy", format!("worker:flowgate_busy:ratio_rate1m > {} ", part(WORKER_BUSY_PERCENT))),
        (
            "FlowgateFewHealthyTargets",
            format!("target_group:flowgate_targets_out:ratio > {} ", part(100 - FEW_HEALTHY_PERCENT)),
        ),
        ("FlowgatePacketsDropped", format!("{{reason=~\"{}\"}} > {LOST_PER_SECOND} ", faults.join("|"))),
        (
            "FlowgateFlowTablesLost",
            format!("(job, instance) flowgate_uptime_seconds < {} ", TABLES_LOST.as_secs()),
        ),
        (
            "FlowgatePortMissesPackets",
            format!("rate(flowgate_port_missed_packets_total[1m]) > {LOST_PER_SECOND} "),
        ),
    ] {
        assert!(rule(alert).contains(&expression), "{alert} is not by {expression:?}: {}", rule(alert));
    }
}

/// Of an alert that pages people one thing is otherwise: one dead target of many is not worth their sleep.
#[test]
fn every_kind_names_alerts_that_there_are_of_the_same_severity() {
    for kind in Kind::ALL {
        for alert in kind.alerts() {
            let severity = match *alert {
                "FlowgateTargetUnhealthy" => "warning",
                "FlowgateFlowsReset" => "info",
                _ if kind.severity() == Severity::Critical => "critical",
                _ => "warning",
            };
            assert!(
                rule(alert).contains(&format!("severity: {severity} ")),
                "{kind}: {alert} is not {severity}"
            );
        }
    }
}

#[test]
fn what_a_check_saw_is_told_without_what_is_said_anyway() {
    for (description, told) in [
        ("Request timed out", "Request timed out"),
        (
            "Request timed out: no connection to 10.0.0.1:80 within 500 ms",
            "no connection to 10.0.0.1:80 within 500 ms",
        ),
        ("Health checks failed with these codes: [503]", "answered [503]"),
        ("Health checks failed: the answer is not HTTP.", "the answer is not HTTP"),
        ("Health checks failed: broken (os error 104) after 3 bytes", "broken after 3 bytes"),
        ("", ""),
    ] {
        assert_eq!(targets::seen(description), told);
    }
    let refused = "Health checks failed: connect to 10.0.0.1:80: Connection refused (os error 111)";
    let overview = judged([well(1), {
        let mut overview = well(2);
        overview.target_groups[0].targets[0].state = HealthState::Unhealthy;
        overview.target_groups[0].targets[0].description = refused.to_owned();
        overview
    }]);
    let what =
        "firewalls/10.0.0.1 is unhealthy (connect to 10.0.0.1:80: Connection refused): its flows are reset";
    assert_eq!(overview.troubles[0].what, what);
}
