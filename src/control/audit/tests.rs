//! For every kind of finding, facts of which it is found, and that it is not found of good ones.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use super::*;
use crate::control::explain::given::given;
use crate::control::health::{AnswerTimes, HealthState};
use crate::control::model::{Probe, State};
use crate::control::socket::views::{InBandView, Severity};

/// A group for which all is as well as can be.
const GOOD: &str = r#"{
  "version": 1,
  "load_balancers": [{"name": "gw", "ip_address_type": "dualstack",
     "listener": {"target_group": "fw", "attributes": {
       "send_tcp_reset.on_idle_timeout.enabled": true, "tcp.idle_timeout.seconds": 3000
     }}}],
  "target_groups": [
    {"name": "fw",
     "health_check": {"protocol": "HTTP", "path": "/up", "port": 8080},
     "attributes": {
       "send_tcp_reset.on_unhealthy.enabled": true,
       "send_tcp_reset.on_deregistration.enabled": true,
       "flowgate.health_check.interval_ms": 1000, "flowgate.health_check.timeout_ms": 500,
       "flowgate.reset.both_ends": true, "flowgate.reset.proactive": true,
       "flowgate.reset.hold_ms": 100, "flowgate.reset.min_healthy_percent": 50,
       "flowgate.reset.max_per_second": 1000, "flowgate.inband.silence_ms": 500
     },
     "targets": []}
  ]
}"#;

fn target(last: u8) -> TargetFacts {
    TargetFacts {
        address: Ipv4Addr::new(10, 0, 0, last),
        weight: 1,
        registered: true,
        state: HealthState::Healthy,
        flows: 200,
        would_end: 150,
        in_band: Some(InBandView { packets_to_target: 9, packets_from_target: 9, silent_for_ms: 0 }),
        is_sent_to: true,
        reachable: true,
        answers: AnswerTimes {
            count: 100,
            usual: Duration::from_millis(2),
            slowest: Duration::from_millis(20),
        },
    }
}

/// Facts, and the state that they are of.
struct Case {
    facts: Facts,
    state: State,
}

impl Deref for Case {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

fn facts_of(document: &str) -> Case {
    let state = State::from_document(document).unwrap();
    let groups = state
        .target_groups()
        .map(|group| GroupFacts {
            name: group.name.to_string(),
            settings: group.settings(),
            attributes: group.attributes.clone(),
            balancer: state.load_balancer_using(&group.name).map(|balancer| BalancerFacts {
                name: balancer.name.to_string(),
                dualstack: true,
                cross_zone: balancer.settings().cross_zone,
                listener: state.listener_settings(balancer).unwrap(),
                written_idle_timeout: Duration::from_secs(3000),
            }),
            targets: (1..=3).map(target).collect(),
        })
        .collect();
    let facts = Facts {
        generation: 7,
        node: NodeFigures {
            zone: None,
            target_side: "under".to_owned(),
            target_side_mtu: 1600,
            entrances: vec![Entrance {
                load_balancer: "gw".to_owned(),
                endpoint: "lan".to_owned(),
                port: "left".to_owned(),
                mtu: 1500,
            }],
            ..NodeFigures::default()
        },
        groups,
        without_listener: Vec::new(),
        workers: vec![WorkerFacts { worker: 0, flows: 10, capacity: 1000 }],
    };
    Case { facts, state }
}

/// The good document with other attributes of the group, or others of the listener.
fn with(change: impl Fn(String) -> String) -> Case {
    let document = change(GOOD.to_owned());
    assert_ne!(document, GOOD, "nothing was changed");
    facts_of(&document)
}

fn but(from: &'static str, to: &'static str) -> Case {
    with(|document| document.replace(from, to))
}

fn changed(change: impl FnOnce(&mut Facts)) -> Case {
    let mut case = facts_of(GOOD);
    change(&mut case.facts);
    case
}

fn of(facts: &Facts) -> Audit {
    audit(facts, None, Timestamp::from_unix_ms(0))
}

fn kinds(facts: &Facts) -> Vec<String> {
    of(facts).findings.into_iter().map(|finding| finding.id).collect()
}

#[test]
fn of_a_good_node_there_is_nothing_to_be_warned_of() {
    let audit = of(&facts_of(GOOD));
    // Two hours' keep-alives no idle timeout allows.
    assert_eq!(kinds(&facts_of(GOOD)), ["keep-alive-too-rare"]);
    assert_eq!(audit.worst, Some(Severity::Notice));
    let group = &audit.target_groups[0];
    assert_eq!((group.detection_time_ms, group.worst_detection_time_ms), (2000, 2500));
    assert_eq!((group.flows, group.targets[0].would_end), (600, 150));
    assert!((group.largest_share_percent - 33.3).abs() < 1e-9);
    assert_eq!(group.targets[0].slowest_answer_ms, Some(20.0));
}

/// What makes each kind be found.
fn cases() -> Vec<(Kind, Case)> {
    use HealthState::{Unhealthy, Unused};
    let unhealthy_off = r#""send_tcp_reset.on_unhealthy.enabled": true,"#;
    let no_resets = |document: String| {
        document
            .replace(r#"on_unhealthy.enabled": true"#, r#"on_unhealthy.enabled": false"#)
            .replace(r#"on_deregistration.enabled": true"#, r#"on_deregistration.enabled": false"#)
    };
    let sticky = |document: String| {
        let sticky = r#""stickiness.enabled": true, "flowgate.reset.hold_ms""#;
        // A-7: it is refused beside stickiness, and kept from before.
        let document = no_resets(document).replace(r#", "tcp.idle_timeout.seconds": 3000"#, "");
        document.replace(r#""flowgate.reset.hold_ms""#, sticky)
    };
    vec![
        (Kind::LeftHanging, but(unhealthy_off, "")),
        (Kind::LeftHanging, with(sticky)),
        (Kind::DrainLeftHanging, but(r#""send_tcp_reset.on_deregistration.enabled": true,"#, "")),
        (
            Kind::MovesConnections,
            with(|document| {
                no_resets(document).replace(
                    r#""flowgate.reset.hold_ms""#,
                    r#""target_failover.on_unhealthy": "rebalance", "target_failover.on_deregistration": "rebalance", "flowgate.reset.hold_ms""#,
                )
            }),
        ),
        (
            Kind::OverruledReset,
            // As only a state that was stored by something else can have it.
            changed(|facts| facts.groups[0].settings = with(sticky).groups[0].settings.clone()),
        ),
        (Kind::ResetOptionsIdle, with(no_resets)),
        (
            Kind::DelayZero,
            but(
                r#""flowgate.reset.both_ends""#,
                r#""deregistration_delay.timeout_seconds": 0, "flowgate.reset.both_ends""#,
            ),
        ),
        (
            Kind::SynStaysOnDead,
            with(|document| {
                document.replace(unhealthy_off, "").replace(
                    r#""tcp.idle_timeout.seconds""#,
                    r#""flowgate.tcp.syn_reselect": false, "tcp.idle_timeout.seconds""#,
                )
            }),
        ),
        (Kind::OneEndTold, but(r#""flowgate.reset.both_ends": true,"#, "")),
        (Kind::SilentNotTold, but(r#""flowgate.reset.proactive": true,"#, "")),
        (Kind::LargestShare, changed(|facts| facts.groups[0].targets[1].flows = 900)),
        (Kind::NoMinHealthy, but(r#""flowgate.reset.min_healthy_percent": 50,"#, "")),
        (Kind::NoHold, but(r#""flowgate.reset.hold_ms": 100,"#, "")),
        (Kind::NoRateLimit, but(r#""flowgate.reset.max_per_second": 1000,"#, "")),
        (Kind::RateTooLow, changed(|facts| facts.groups[0].targets[1].would_end = 12_000)),
        (Kind::GuardNeverOpens, changed(|facts| facts.groups[0].targets.truncate(1))),
        (Kind::HoldPastIdle, but(r#"hold_ms": 100"#, r#"hold_ms": 3000000"#)),
        (Kind::IdleDropsSilently, but(r#""send_tcp_reset.on_idle_timeout.enabled": true,"#, "")),
        (Kind::KeepAliveTooRare, facts_of(GOOD)),
        (Kind::IdleBeyondAppliances, but("seconds\": 3000", "seconds\": 6000")),
        (Kind::StickyIdleIgnored, with(sticky)),
        (
            Kind::AdoptAgainstReset,
            but(
                r#""tcp.idle_timeout.seconds""#,
                r#""flowgate.tcp.unknown_flow": "adopt", "tcp.idle_timeout.seconds""#,
            ),
        ),
        (
            Kind::NoFlowUnlimited,
            but(
                r#""tcp.idle_timeout.seconds""#,
                r#""flowgate.reset.no_flow_max_per_second": 0, "tcp.idle_timeout.seconds""#,
            ),
        ),
        (
            Kind::HalfOpenOutlives,
            but(
                r#""tcp.idle_timeout.seconds""#,
                r#""flowgate.tcp.half_open_timeout_seconds": 3001, "tcp.idle_timeout.seconds""#,
            ),
        ),
        (Kind::SilenceTooLate, but("silence_ms\": 500", "silence_ms\": 2000")),
        (Kind::DetectionSlow, but("interval_ms\": 1000", "interval_ms\": 5000")),
        (
            Kind::ShootsBusy,
            changed(|facts| facts.groups[0].targets[2].answers.slowest = Duration::from_millis(250)),
        ),
        (Kind::ThresholdOne, but(r#""port": 8080"#, r#""port": 8080, "unhealthy_threshold": 1"#)),
        (Kind::ConnectOnly, changed(|facts| facts.groups[0].settings.health_check.probe = Probe::Tcp)),
        (Kind::SilenceUnwatched, but(r#", "flowgate.inband.silence_ms": 500"#, "")),
        (
            Kind::HealthyButSilent,
            changed(|facts| {
                facts.groups[0].targets[0].in_band =
                    Some(InBandView { packets_to_target: 9, packets_from_target: 4, silent_for_ms: 1000 });
            }),
        ),
        (
            Kind::NobodyHealthy,
            changed(|facts| facts.groups[0].targets.iter_mut().for_each(|it| it.state = Unhealthy)),
        ),
        (Kind::SomeUnhealthy, changed(|facts| facts.groups[0].targets[1].state = Unhealthy)),
        (Kind::Unreachable, changed(|facts| facts.groups[0].targets[1].reachable = false)),
        (Kind::NoTarget, changed(|facts| facts.groups[0].targets.clear())),
        (Kind::OneTarget, changed(|facts| facts.groups[0].targets.truncate(1))),
        (
            Kind::ZoneOneTarget,
            changed(|facts| facts.groups[0].targets[1..].iter_mut().for_each(|it| it.state = Unused)),
        ),
        (Kind::OutOfZone, changed(|facts| facts.groups[0].targets[2].state = Unused)),
        (Kind::GroupUnused, changed(|facts| facts.groups[0].balancer = None)),
        (Kind::NoListener, changed(|facts| facts.without_listener.push("idle".to_owned()))),
        (Kind::TargetSideMtu, changed(|facts| facts.node.target_side_mtu = 1567)),
        (Kind::TargetSideMtuV6, changed(|facts| facts.node.target_side_mtu = 1347)),
        (Kind::TableFilling, changed(|facts| facts.workers[0].flows = 851)),
    ]
}

#[test]
fn each_kind_is_found_where_it_is_so_and_says_what_to_do() {
    let cases = cases();
    for kind in Kind::ALL {
        assert!(cases.iter().any(|(of, _)| of == kind), "{} has no case", kind.id());
    }
    let good = kinds(&facts_of(GOOD));
    for (kind, facts) in &cases {
        let found = of(facts).findings;
        let finding = found.iter().find(|finding| finding.id == kind.id());
        let finding = finding.unwrap_or_else(|| panic!("{} is not found: {found:#?}", kind.id()));
        assert!(*kind == Kind::KeepAliveTooRare || !good.contains(&finding.id));
        assert_eq!(finding.why, kind.why());
        assert!(!finding.object.is_empty() && finding.what.ends_with('.'), "{finding:?}");
    }
}

/// The next smaller step of each figure that has a bound, at which there is nothing to be found.
#[test]
fn a_bound_is_where_it_is_said_to_be() {
    for (kind, facts) in [
        (Kind::LargestShare, changed(|facts| facts.groups[0].targets[1].flows = 390)),
        (Kind::RateTooLow, changed(|facts| facts.groups[0].targets[1].would_end = 10_999)),
        (Kind::GuardNeverOpens, changed(|facts| facts.groups[0].targets.truncate(2))),
        (Kind::HoldPastIdle, but(r#"hold_ms": 100"#, r#"hold_ms": 2999999"#)),
        (
            Kind::ShootsBusy,
            changed(|facts| facts.groups[0].targets[2].answers.slowest = Duration::from_millis(249)),
        ),
        (
            Kind::HealthyButSilent,
            changed(|facts| {
                facts.groups[0].targets[0].in_band =
                    Some(InBandView { packets_to_target: 9, packets_from_target: 4, silent_for_ms: 999 });
            }),
        ),
        (
            Kind::HealthyButSilent,
            changed(|facts| {
                let idle = &mut facts.groups[0].targets[0];
                idle.in_band = Some(InBandView {
                    packets_to_target: 9,
                    packets_from_target: 4,
                    silent_for_ms: 9_000_000,
                });
                idle.is_sent_to = false;
            }),
        ),
        (Kind::SilenceTooLate, but("silence_ms\": 500", "silence_ms\": 1999")),
        (Kind::TargetSideMtu, changed(|facts| facts.node.target_side_mtu = 1568)),
        (Kind::TargetSideMtuV6, changed(|facts| facts.node.target_side_mtu = 1348)),
        (Kind::TableFilling, changed(|facts| facts.workers[0].flows = 850)),
        (Kind::DetectionSlow, but("interval_ms\": 1000", "interval_ms\": 4750")),
    ] {
        assert!(!kinds(&facts).contains(&kind.id().to_owned()), "{}", kind.id());
    }
}

/// What `get-overview` and the alerts tell of too is as bad there: a test of theirs holds those two to each other.
#[test]
fn what_is_a_trouble_too_is_as_bad_as_it_is_there() {
    use crate::control::troubles::Kind as Trouble;
    for (kind, trouble) in [
        (Kind::HealthyButSilent, Trouble::TargetSilent),
        (Kind::NobodyHealthy, Trouble::NobodyHealthy),
        (Kind::SomeUnhealthy, Trouble::TargetUnhealthy),
        (Kind::Unreachable, Trouble::TargetUnreachable),
        (Kind::NoTarget, Trouble::NoTarget),
        (Kind::NoListener, Trouble::NoListener),
        (Kind::TableFilling, Trouble::TableFilling),
    ] {
        assert_eq!(kind.severity(), trouble.severity(), "{}", kind.id());
    }
}

// A-5
#[test]
fn what_shoots_busy_targets_is_critical_where_flows_are_felt_and_a_warning_elsewhere() {
    let slow = |facts: &mut Facts| facts.groups[0].targets[2].answers.slowest = Duration::from_millis(300);
    let severity = |mut facts: Facts| {
        slow(&mut facts);
        let findings = of(&facts).findings;
        findings.into_iter().find(|finding| finding.id == Kind::ShootsBusy.id()).unwrap().severity
    };
    assert_eq!(severity(facts_of(GOOD).facts), Severity::Critical);
    let off = but(r#""send_tcp_reset.on_unhealthy.enabled": true,"#, "");
    assert_eq!(severity(off.facts), Severity::Warning);
}

#[test]
fn one_group_may_be_asked_for_alone_and_the_worst_comes_first() {
    let Case { mut facts, .. } = changed(|facts| {
        facts.groups[0].targets[1].state = HealthState::Unhealthy;
        facts.groups[0].targets[2].reachable = false;
        facts.without_listener.push("idle".to_owned());
    });
    let mut other = facts.groups[0].clone();
    other.name = "other".to_owned();
    facts.groups.push(other);
    let all = audit(&facts, None, Timestamp::from_unix_ms(0));
    assert!(all.findings.is_sorted_by(|one, next| one.severity >= next.severity));
    assert_eq!((all.worst, all.target_groups.len()), (Some(Severity::Critical), 2));
    let one = audit(&facts, Some("other"), Timestamp::from_unix_ms(0));
    assert_eq!(one.target_groups.len(), 1);
    assert!(one.findings.iter().all(|finding| !finding.object.starts_with("fw") && finding.object != "idle"));
}

/// A command that is named can be given as it is: its verb and flags are there, and what it sets is taken (A-5, A-7).
#[test]
fn every_command_that_is_named_can_be_given() {
    let mut named = 0;
    for (kind, case) in &cases() {
        for finding in of(case).findings {
            let Some(command) = finding.command else { continue };
            named += 1;
            let words = command.split(' ').map(|word| word.replace("ADDRESS", "10.0.0.9"));
            crate::cli::command()
                .try_get_matches_from(words)
                .unwrap_or_else(|error| panic!("{command}: {error}"));
            if command.starts_with("flowgate set ") {
                given(&case.state, &command)
                    .unwrap_or_else(|error| panic!("{}: {command}: {error}", kind.id()));
            }
        }
    }
    assert!(named > 50, "{named}");
}
