//! Resets that the gateway made, each of which a rule must explain.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::At;
use super::flows::{Flow, Key, SLACK, TCP, key};
use super::history::History;

/// A reset that arrived at an end of a connection and that no host had sent.
#[derive(Clone, Copy, Debug)]
pub struct Reset {
    pub at: At,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Longest time for which an end is owed a reset: an idle timeout.
const OWED: At = At::from_secs(350);

/// The resets of a soak.
#[derive(Debug, Default)]
pub struct Resets {
    /// When a connection was last reset.
    told: HashMap<Key, At>,
    /// How many each rule explains.
    pub by_rule: HashMap<&'static str, u64>,
}

impl Resets {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.by_rule.values().sum()
    }

    /// Forgets what nobody is owed any more.
    pub fn forget(&mut self, now: At) {
        self.told.retain(|_, at| *at + OWED > now);
    }

    /// Takes a reset in, with the flow that it was of, as it stood then.
    pub fn saw(&mut self, reset: &Reset, flow: Option<&Flow>, history: &History) -> Result<(), String> {
        let key = key(TCP, reset.from, reset.to);
        let before = self.told.insert(key, reset.at);
        let rule = explain(reset, flow, before, history);
        *self.by_rule.entry(rule.unwrap_or("none")).or_default() += 1;
        match rule {
            Some(_) => Ok(()),
            None => {
                let silent = flow.map(|flow| reset.at.saturating_sub(flow.last));
                let Reset { at, from, to } = reset;
                Err(format!(
                    "no rule explains the reset to {to} from {from} at {at:?}, {silent:?} after {flow:?}"
                ))
            }
        }
    }
}

fn explain(
    reset: &Reset,
    flow: Option<&Flow>,
    before: Option<At>,
    history: &History,
) -> Option<&'static str> {
    let (from, to) = (reset.at.saturating_sub(SLACK), reset.at + SLACK);
    let on = |key| history.may_have_been(key, "true", from, to);
    if let Some(flow) = flow {
        let begun = flow.first.saturating_sub(SLACK);
        let unhealthy = history.may_have_been_in(flow.target, &["unhealthy"], from, to);
        if on("send_tcp_reset.on_unhealthy.enabled") && unhealthy {
            return Some("R-1");
        }
        let deregistered = history.was_deregistered(flow.target, begun, to);
        if on("send_tcp_reset.on_deregistration.enabled") && deregistered {
            return Some("R-2");
        }
    }
    // Of a flow that is not there: it never was, it ended, it idled out, or who knew it is gone.
    let nobodys = flow.is_none_or(|flow| {
        let seen = flow.last.saturating_sub(SLACK);
        flow.ended || history.lost_in(seen, to) || history.leapt_in(seen, to) || history.was_blind(seen, to)
    }) || before.is_some();
    let reset_unknown = history.may_have_been("flowgate.tcp.unknown_flow", "reset", from, to);
    if nobodys && (on("send_tcp_reset.on_idle_timeout.enabled") || reset_unknown) {
        return Some("R-3");
    }
    let owed = before.is_some_and(|before| {
        let begun = before.saturating_sub(SLACK);
        let may = |key| history.may_have_been(key, "true", begun, to);
        reset.at.saturating_sub(before) <= OWED
            && (may("flowgate.reset.both_ends") || may("flowgate.reset.proactive"))
    });
    owed.then_some("R-9")
}

/// no more resets came out than were counted.
pub fn counted(seen: u64, counted: u64) -> Result<(), String> {
    if seen > counted {
        return Err(format!("R-8: {seen} resets of the gateway arrived, and {counted} are counted"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ONE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 11);
    const UNHEALTHY: &str = "send_tcp_reset.on_unhealthy.enabled";
    const GONE: &str = "send_tcp_reset.on_deregistration.enabled";
    const IDLE: &str = "send_tcp_reset.on_idle_timeout.enabled";

    fn at(seconds: u64) -> At {
        At::from_secs(1000 + seconds)
    }

    fn reset(seconds: u64) -> Reset {
        Reset {
            at: at(seconds),
            from: "192.0.2.20:80".parse().unwrap(),
            to: "192.0.2.10:4000".parse().unwrap(),
        }
    }

    /// A flow at a healthy target, and this attribute on.
    fn history(attribute: &str) -> (Flow, History) {
        let mut history = History::default();
        history.state(ONE, "healthy", at(0));
        history.attribute(attribute, "true", at(0), at(0));
        (Flow { cookie: 7, target: ONE, first: at(1), last: at(9), ended: false }, history)
    }

    fn rule(reset: &Reset, flow: Option<&Flow>, history: &History) -> Option<&'static str> {
        explain(reset, flow, None, history)
    }

    //
    #[test]
    fn an_unhealthy_target_explains_a_reset_only_where_it_is_asked_for_and_while_it_is() {
        let (flow, mut there) = history(UNHEALTHY);
        assert_eq!(rule(&reset(10), Some(&flow), &there), None);
        there.state(ONE, "unhealthy", at(20));
        assert_eq!(rule(&reset(10), Some(&flow), &there), None);
        assert_eq!(rule(&reset(21), Some(&flow), &there), Some("R-1"));
        there.state(ONE, "healthy", at(30));
        assert_eq!(rule(&reset(32), Some(&flow), &there), None);
        there.state(ONE, "unhealthy", at(40));
        there.attribute(UNHEALTHY, "false", at(50), at(50));
        assert_eq!(rule(&reset(52), Some(&flow), &there), None);
    }

    //
    #[test]
    fn a_deregistration_explains_a_reset_of_a_flow_that_began_before_it() {
        let (flow, mut there) = history(GONE);
        assert_eq!(rule(&reset(10), Some(&flow), &there), None);
        there.deregistered(ONE, at(5));
        assert_eq!(rule(&reset(10), Some(&flow), &there), Some("R-2"));
        assert_eq!(rule(&reset(10), Some(&Flow { first: at(8), ..flow }), &there), None);
    }

    //
    #[test]
    fn a_packet_of_no_flow_explains_a_reset_and_one_of_a_live_flow_does_not() {
        let (flow, mut there) = history(IDLE);
        assert_eq!(rule(&reset(10), None, &there), Some("R-3"));
        assert_eq!(rule(&reset(10), Some(&flow), &there), None);
        there.leapt(at(9));
        assert_eq!(rule(&reset(10), Some(&flow), &there), Some("R-3"));
    }

    //
    #[test]
    fn the_other_end_is_told_after_the_first_and_not_by_itself() {
        let (flow, there) = history("flowgate.reset.both_ends");
        assert_eq!(rule(&reset(10), Some(&flow), &there), None);
        assert_eq!(explain(&reset(10), Some(&flow), Some(at(9)), &there), Some("R-9"));
    }

    #[test]
    fn a_reset_that_nothing_explains_is_told() {
        let (flow, there) = history("nothing");
        let mut resets = Resets::default();
        let told = resets.saw(&reset(10), Some(&flow), &there).unwrap_err();
        assert!(
            told.starts_with("no rule explains the reset to 192.0.2.10:4000 from 192.0.2.20:80"),
            "{told}"
        );
        assert_eq!(resets.by_rule["none"], 1);
    }

    //
    #[test]
    fn a_reset_that_is_not_counted_is_told() {
        counted(3, 3).unwrap();
        assert_eq!(counted(4, 3).unwrap_err(), "R-8: 4 resets of the gateway arrived, and 3 are counted");
    }
}
