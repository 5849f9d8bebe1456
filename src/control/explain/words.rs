//! A sentence for each step that a worker's decision took, with the rule behind it and the command that
//! changes what decides there.

use std::net::Ipv4Addr;

use crate::control::model::{Failover, ListenerSettings, Stickiness, TargetGroupSettings};
use crate::control::socket::views::ExplainedStep;
use crate::datapath::counters::Suppressed;
use crate::datapath::decide::account::Reason;
use crate::datapath::forwarding::Condition;
use crate::flow::Ended;

/// The longest idle timeout of TCP (A-7).
pub const LONGEST_IDLE_SECONDS: u64 = 6000;

/// What the sentences speak of.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The load balancer.
    pub balancer: String,
    /// The target group.
    pub group: String,
    /// The flow's target.
    pub target: Option<Ipv4Addr>,
    /// For how many milliseconds that target has been unhealthy.
    pub unhealthy_for_ms: u32,
    /// How many of a hundred targets in scope are healthy.
    pub healthy_percent: u8,
    /// The group's settings.
    pub settings: TargetGroupSettings,
    /// The listener's.
    pub listener: ListenerSettings,
}

/// A step without a command.
pub fn step(text: impl Into<String>, rules: &[&str]) -> ExplainedStep {
    ExplainedStep {
        text: text.into(),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        command: None,
    }
}

/// The command that gives attributes of a load balancer's listener or of a target group other values.
pub fn set(name: &str, change: &str) -> String {
    format!("flowgate set {name} {change}")
}

/// The command that turns a group's resets on, by their key: what would refuse them goes with it (A-5).
pub fn set_reset(group: &str, settings: &TargetGroupSettings, key: &str) -> String {
    let mut changes = String::new();
    if settings.stickiness != Stickiness::FiveTuple {
        changes.push_str("stickiness.enabled=false ");
    }
    if settings.failover == Failover::Rebalance {
        changes.push_str(NO_REBALANCE);
        changes.push(' ');
    }
    changes.push_str(key);
    changes.push_str("=true");
    set(group, &changes)
}

/// What has flows stay with their targets: both keys in one change (A-4).
pub const NO_REBALANCE: &str =
    "target_failover.on_unhealthy=no_rebalance target_failover.on_deregistration=no_rebalance";

impl Subject {
    /// The sentence of a step.
    pub fn of(&self, reason: Reason) -> ExplainedStep {
        let at = |change: &str| Some(set(&self.balancer, change));
        let group = |change: &str| Some(set(&self.group, change));
        let (text, rules, command): (String, &[&str], Option<String>) = match reason {
            Reason::NoFlow => ("No flow has its tuple.".to_owned(), &["F-1"], None),
            Reason::Over(ended) => (over(ended, &self.listener), &["F-9"], None),
            Reason::BeginsOther => ("Any packet that is not TCP begins a flow.".into(), &["F-8"], None),
            Reason::BeginsTcp => ("It is a SYN, which begins a flow.".into(), &["F-8"], None),
            Reason::Adopted => (
                "It is taken for the first packet of a flow: flowgate.tcp.unknown_flow is adopt.".into(),
                &["F-8"],
                at("flowgate.tcp.unknown_flow=drop"),
            ),
            Reason::Overflowed => (
                "The worker's flow table turned flows away less than an idle timeout ago, so that this may be one of them: it is taken for the first packet of a flow.".into(),
                &["F-12"],
                None,
            ),
            Reason::Evicted => (
                "A half-open flow had to make room less than flowgate.tcp.half_open_timeout_seconds ago, so that this may be of its handshake: it is taken for that, and its flow is half-open until the next packet.".into(),
                &["F-12", "F-9"],
                None,
            ),
            Reason::Restarted => (
                "The daemon started lately and could not take over the flow table of the one before it, so that this may be of a connection that it had: it is taken for the first packet of a flow.".into(),
                &["F-8"],
                None,
            ),
            Reason::ResetOfNoFlow => {
                ("It is a reset, and a reset of no flow is not answered.".into(), &["R-5", "F-8"], None)
            }
            Reason::UnknownFlowReset => (
                "It is TCP without SYN and of no flow: flowgate.tcp.unknown_flow is reset.".into(),
                &["F-8", "R-3"],
                at("flowgate.tcp.unknown_flow=drop"),
            ),
            Reason::UnknownFlowResetOnIdle => (
                "It is TCP without SYN and of no flow: send_tcp_reset.on_idle_timeout.enabled is true, which resets these too.".into(),
                &["A-6", "R-3"],
                at("send_tcp_reset.on_idle_timeout.enabled=false"),
            ),
            Reason::UnknownFlowDropped => (
                "It is TCP without SYN and of no flow: flowgate.tcp.unknown_flow is drop, and send_tcp_reset.on_idle_timeout.enabled is false.".into(),
                &["F-8"],
                at("flowgate.tcp.unknown_flow=adopt"),
            ),
            Reason::IdledOut => self.idled_out(),
            Reason::SynOnIdledOut => ("It is a SYN, which begins a new flow.".into(), &["F-10", "R-6"], None),
            Reason::IdledOutReset => (
                "send_tcp_reset.on_idle_timeout.enabled is true: its sender is told.".into(),
                &["A-6", "R-3"],
                at("send_tcp_reset.on_idle_timeout.enabled=false"),
            ),
            Reason::IdledOutByReset => ("It is a reset, which is not answered.".into(), &["R-5"], None),
            Reason::IdledOutDropped => (
                "send_tcp_reset.on_idle_timeout.enabled is false: it is dropped.".into(),
                &["A-6", "R-3"],
                at("send_tcp_reset.on_idle_timeout.enabled=true"),
            ),
            Reason::Owing => (
                "The gateway has ended this flow by a reset, and remembers it for an end that was not told.".into(),
                &["R-9"],
                group("flowgate.reset.both_ends=false"),
            ),
            Reason::SynOnOwing => ("It is a SYN, which begins a new flow.".into(), &["R-6", "R-9"], None),
            Reason::WasTold => {
                ("This end was told already: for it there is no flow any more.".into(), &["R-9"], None)
            }
            Reason::EndedItself => (
                "It is a reset: this end has ended the connection itself.".into(),
                &["R-9", "R-5"],
                None,
            ),
            Reason::IsTold => ("This end was not told yet: it is now.".into(), &["R-9"], None),
            Reason::Live => ("The flow is live.".into(), &["F-9"], None),
            Reason::SynOnClosed => {
                ("It is a SYN, and the connection before it was closed: a new flow begins.".into(), &["F-9"], None)
            }
            Reason::SynStays => (
                "It is a SYN on a live flow, and stays with the flow's target.".into(),
                &["F-14", "F-5"],
                None,
            ),
            Reason::SynReselects => (
                format!(
                    "It is a SYN, and the flow's target{} takes no new flows now: a new flow begins on another.",
                    self.target()
                ),
                &["F-14", "R-6"],
                at("flowgate.tcp.syn_reselect=false"),
            ),
            Reason::SynHasNowhere => (
                "It is a SYN that would go to another target, but no target is healthy: it stays.".into(),
                &["F-14", "F-6"],
                None,
            ),
            Reason::OfTheOneBefore => (
                "The gateway reset the connection that had this tuple before, and this packet is of that one: its sender is told.".into(),
                &["R-9"],
                group("flowgate.reset.both_ends=false"),
            ),
            Reason::Moves(condition) => (
                format!(
                    "The flow's target{} is {}, target_failover is rebalance, and another target is healthy: the flow moves.",
                    self.target(),
                    word(condition)
                ),
                &["A-4", "T-1", "T-2", "T-4"],
                group(NO_REBALANCE),
            ),
            Reason::NobodyToMoveTo => (
                "target_failover is rebalance, but no target is healthy: the flow stays until one is.".into(),
                &["T-6"],
                None,
            ),
            Reason::TargetIsIn(condition) => (
                match condition {
                    Condition::Draining => format!(
                        "The flow's target{} was deregistered and drains: until its delay is over its flows go on.",
                        self.target()
                    ),
                    _ => format!(
                        "The flow's target{} is {}, and a flow keeps its target for life.",
                        self.target(),
                        word(condition)
                    ),
                },
                match condition {
                    Condition::Draining => &["T-3", "F-5"],
                    _ => &["F-5"],
                },
                None,
            ),
            Reason::ResetDue(condition) => (
                format!(
                    "The flow's target{} is {}, and {} is true: a reset is due.",
                    self.target(),
                    word(condition),
                    reset_key(condition)
                ),
                match condition {
                    Condition::Removed => &["A-5", "T-4", "R-2"],
                    _ => &["A-5", "T-1", "R-1"],
                },
                group(&format!("{}=false", reset_key(condition))),
            ),
            Reason::ResetsOff(condition) => (
                format!(
                    "The flow's target{} is {}, and {} is false: the flow goes on to it.",
                    self.target(),
                    word(condition),
                    reset_key(condition)
                ),
                match condition {
                    Condition::Removed => &["A-5", "T-4"],
                    _ => &["A-5", "T-1"],
                },
                Some(set_reset(&self.group, &self.settings, reset_key(condition))),
            ),
            Reason::MovingWins => (
                "Resets are on beside target_failover rebalance, which wins over them.".into(),
                &["A-5"],
                None,
            ),
            Reason::Spared => (
                "The flow was made while no target was healthy, and still none is: it is spared, as a reset must have somewhere to go.".into(),
                &["T-6", "F-6"],
                None,
            ),
            Reason::NotTcp => ("It is not TCP, of which alone there are resets: it goes on.".into(), &["T-2"], None),
            Reason::IsReset => ("It is a reset itself, which goes on.".into(), &["R-5"], None),
            Reason::Guarded(why) => self.guard(why),
            Reason::LaterFragment => (
                "It is a later fragment: it begins and ends nothing, and follows its flow.".into(),
                &["M-4"],
                None,
            ),
        };
        ExplainedStep { command, ..step(text, rules) }
    }

    fn idled_out(&self) -> (String, &'static [&'static str], Option<String>) {
        let seconds = self.listener.tcp_idle_timeout.as_secs();
        let sticky = self.settings.stickiness != Stickiness::FiveTuple;
        // With stickiness it cannot be changed.
        let always = if sticky { ", which is fixed while stickiness.enabled is true" } else { "" };
        let text = format!(
            "The flow was silent for its idle timeout of {seconds} s{always}. It is remembered until its next packet, which is this one."
        );
        let longer = || set(&self.balancer, &format!("tcp.idle_timeout.seconds={LONGEST_IDLE_SECONDS}"));
        (text, &["F-10", "A-7"], (!sticky && seconds < LONGEST_IDLE_SECONDS).then(longer))
    }

    fn guard(&self, why: Suppressed) -> (String, &'static [&'static str], Option<String>) {
        let guards = &self.settings.reset_guards;
        let (text, key) = match why {
            Suppressed::Hold => (
                format!(
                    "A guard holds the reset back: the target has been unhealthy for {} ms, and flowgate.reset.hold_ms asks for {}.",
                    self.unhealthy_for_ms, guards.hold_ms
                ),
                "flowgate.reset.hold_ms=0",
            ),
            Suppressed::MinHealthy => (
                format!(
                    "A guard holds the reset back: {} % of the targets are healthy, and flowgate.reset.min_healthy_percent asks for {}.",
                    self.healthy_percent, guards.min_healthy_percent
                ),
                "flowgate.reset.min_healthy_percent=0",
            ),
            Suppressed::Rate => (
                format!(
                    "A guard holds the reset back: flowgate.reset.max_per_second allows {} a second, and as many were sent just now.",
                    guards.max_per_second
                ),
                "flowgate.reset.max_per_second=0",
            ),
            Suppressed::NoFlowRate => {
                let most = self.listener.no_flow_resets_per_second;
                let text = format!(
                    "A guard holds the reset back: flowgate.reset.no_flow_max_per_second allows {most} a second in answer to packets of no live flow, and as many were sent just now."
                );
                let higher = format!("flowgate.reset.no_flow_max_per_second={}", most.saturating_mul(10));
                return (text, &["R-11"], Some(set(&self.balancer, &higher)));
            }
        };
        (text, &["R-11"], Some(set(&self.group, key)))
    }

    /// The command that has targets chosen by another part of the tuple; none while resets are on, beside which stickiness
    /// is refused (A-5).
    pub fn other_key(&self) -> Option<String> {
        let settings = &self.settings;
        let sticky = settings.stickiness != Stickiness::FiveTuple;
        let resets = settings.reset_on_unhealthy || settings.reset_on_deregistration;
        (sticky || !resets).then(|| set(&self.group, &format!("stickiness.enabled={}", !sticky)))
    }

    /// ` 10.0.0.1`, where it is known.
    fn target(&self) -> String {
        self.target.map(|target| format!(" {target}")).unwrap_or_default()
    }
}

/// The key that decides over the flows of a target in this condition.
fn reset_key(condition: Condition) -> &'static str {
    match condition {
        Condition::Removed => "send_tcp_reset.on_deregistration.enabled",
        _ => "send_tcp_reset.on_unhealthy.enabled",
    }
}

/// A condition in a word or two.
pub fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Initial => "initial",
        Condition::Healthy => "healthy",
        Condition::Draining => "draining",
        Condition::Unhealthy => "unhealthy",
        Condition::Removed => "deregistered, its delay over",
    }
}

fn over(ended: Ended, listener: &ListenerSettings) -> String {
    let (what, after) = match ended {
        Ended::Closed => ("was closed", listener.tcp_closed_timeout),
        Ended::HalfOpen => ("was never answered", listener.tcp_half_open_timeout),
        Ended::OtherIdle => ("was silent", listener.udp_idle_timeout),
        Ended::TcpIdle => ("was silent", listener.tcp_idle_timeout),
        Ended::Owing => ("was reset", listener.tcp_idle_timeout),
    };
    format!(
        "A flow had its tuple, which {what} and has ended after {} s without a packet: it counts no more.",
        after.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::explain::given::given;
    use crate::control::model::State;

    const OUT: [Condition; 2] = [Condition::Unhealthy, Condition::Removed];

    fn reasons() -> Vec<Reason> {
        let plain = [
            Reason::NoFlow,
            Reason::BeginsOther,
            Reason::BeginsTcp,
            Reason::Adopted,
            Reason::Overflowed,
            Reason::Evicted,
            Reason::Restarted,
            Reason::ResetOfNoFlow,
            Reason::UnknownFlowReset,
            Reason::UnknownFlowResetOnIdle,
            Reason::UnknownFlowDropped,
            Reason::IdledOut,
            Reason::SynOnIdledOut,
            Reason::IdledOutReset,
            Reason::IdledOutByReset,
            Reason::IdledOutDropped,
            Reason::Owing,
            Reason::SynOnOwing,
            Reason::WasTold,
            Reason::EndedItself,
            Reason::IsTold,
            Reason::Live,
            Reason::SynOnClosed,
            Reason::SynStays,
            Reason::SynReselects,
            Reason::SynHasNowhere,
            Reason::OfTheOneBefore,
            Reason::NobodyToMoveTo,
            Reason::MovingWins,
            Reason::Spared,
            Reason::NotTcp,
            Reason::IsReset,
            Reason::LaterFragment,
        ];
        let ends = [Ended::Closed, Ended::HalfOpen, Ended::OtherIdle, Ended::Owing].map(Reason::Over);
        let out = OUT
            .into_iter()
            .flat_map(|out| [Reason::Moves(out), Reason::ResetDue(out), Reason::ResetsOff(out)]);
        let held = Suppressed::ALL.iter().map(|why| Reason::Guarded(*why));
        let stays = [Condition::Initial, Condition::Healthy, Condition::Draining].map(Reason::TargetIsIn);
        plain.into_iter().chain(ends).chain(out).chain(held).chain(stays).collect()
    }

    fn state(attributes: &str) -> State {
        let document = r#"{"version": 1,
            "load_balancers": [{"name": "gw", "listener": {"target_group": "fw"}}],
            "target_groups": [{"name": "fw", "targets": [], "attributes": {ATTRIBUTES}}]}"#;
        State::from_document(&document.replace("ATTRIBUTES", attributes)).unwrap()
    }

    fn subject(state: &State) -> Subject {
        let balancer = state.load_balancer("gw").unwrap();
        Subject {
            balancer: "gw".to_owned(),
            group: "fw".to_owned(),
            target: Some(Ipv4Addr::new(10, 0, 0, 1)),
            unhealthy_for_ms: 120,
            healthy_percent: 33,
            settings: state.target_group("fw").unwrap().settings(),
            listener: state.listener_settings(balancer).unwrap(),
        }
    }

    #[test]
    fn every_reason_is_a_sentence_with_a_rule() {
        let subject = subject(&state(""));
        for reason in reasons() {
            let step = subject.of(reason);
            assert!(step.text.ends_with('.') && step.text.len() > 15, "{reason:?}: {}", step.text);
            assert!(!step.rules.is_empty(), "{reason:?}");
            for rule in &step.rules {
                let (letter, number) = rule.split_once('-').unwrap();
                assert!("OAHFTRWMC".contains(letter) && number.parse::<u8>().is_ok(), "{rule}");
            }
        }
    }

    const STICKY: &str = r#""stickiness.enabled": true"#;
    const MOVING: &str =
        r#""target_failover.on_unhealthy": "rebalance", "target_failover.on_deregistration": "rebalance""#;
    const RESETS: &str =
        r#""send_tcp_reset.on_unhealthy.enabled": true, "send_tcp_reset.on_deregistration.enabled": true"#;

    // A-5, A-7
    #[test]
    fn no_command_that_is_named_is_refused_whatever_else_is_on() {
        let both = format!("{STICKY}, {MOVING}");
        for attributes in ["", STICKY, MOVING, &both, RESETS] {
            let state = state(attributes);
            let subject = subject(&state);
            let mut named = 0;
            for reason in reasons() {
                let Some(command) = subject.of(reason).command else { continue };
                named += 1;
                let next = given(&state, &command);
                let next =
                    next.unwrap_or_else(|error| panic!("{reason:?}, {attributes}: {command}: {error}"));
                let after = next.target_group("fw").unwrap().settings();
                match reason {
                    Reason::ResetsOff(Condition::Removed) => {
                        assert!(after.reset_on_deregistration, "{command}")
                    }
                    Reason::ResetsOff(_) => assert!(after.reset_on_unhealthy, "{command}"),
                    _ => {}
                }
            }
            assert!(named > 15, "{named} with {attributes}");
        }
    }

    // A-5
    #[test]
    fn another_key_of_the_choice_is_named_where_it_is_not_refused() {
        for (attributes, expected) in
            [("", Some("true")), (STICKY, Some("false")), (MOVING, Some("true")), (RESETS, None)]
        {
            let state = state(attributes);
            let command = subject(&state).other_key();
            let named = expected.map(|value| format!("flowgate set fw stickiness.enabled={value}"));
            assert_eq!(command, named);
            command.map(|command| given(&state, &command).unwrap());
        }
    }

    // A-7
    #[test]
    fn an_idle_timeout_that_cannot_be_changed_has_no_command() {
        let step = subject(&state(STICKY)).of(Reason::IdledOut);
        assert!(
            step.text.contains("350 s, which is fixed while stickiness.enabled is true."),
            "{}",
            step.text
        );
        assert_eq!(step.command, None);
        let mut longest = subject(&state(""));
        assert!(longest.of(Reason::IdledOut).command.is_some());
        longest.listener.tcp_idle_timeout = std::time::Duration::from_secs(6000);
        assert_eq!(longest.of(Reason::IdledOut).command, None);
    }

    #[test]
    fn what_decides_is_told_with_its_values() {
        let subject = subject(&state(""));
        let text = |reason| subject.of(reason).text;
        assert!(text(Reason::IdledOut).contains("350 s"));
        assert!(text(Reason::Guarded(Suppressed::Hold)).contains("for 120 ms"));
        assert!(text(Reason::Guarded(Suppressed::MinHealthy)).contains("33 % of the targets"));
        assert!(text(Reason::ResetDue(Condition::Unhealthy)).contains("10.0.0.1 is unhealthy"));
    }
}
