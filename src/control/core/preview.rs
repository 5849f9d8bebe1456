//! What a change would do to live flows, told before it is made.
//!
//! Judged target by target as the workers would judge the next packet of its flows (sections 5 and 6 of
//! the rules), by the verdicts of this moment.

use super::Inner;
use crate::control::compile::condition;
use crate::control::health::TargetKey;
use crate::control::health::damping::Verdict;
use crate::control::model::{Failover, Name, State, TargetGroupSettings};
use crate::control::socket::views::{Fate, FlowEffect};
use crate::datapath::forwarding::Condition;

impl Inner {
    /// What would become of live flows if `next` were the state, where it is other than what becomes of them
    /// as things are; by group and address.
    pub(super) fn preview(&self, next: &State) -> Vec<FlowEffect> {
        let mut effects: Vec<FlowEffect> = self
            .slots
            .iter()
            .filter_map(|(key, slot)| {
                let user = self.user(key)?;
                let (fate, then) = self.fate(next, user, key)?;
                if self.fate(&self.state, user, key) == Some((fate, then)) {
                    return None;
                }
                let flows = match fate {
                    Fate::Reset => self.workers.sum(|counters| &counters.target(slot.id).active_tcp_flows),
                    Fate::Drained | Fate::Moved | Fate::Dropped => self.workers.flows_of(slot.id),
                };
                let (target_group, target) = (key.group.to_string(), key.address);
                (flows > 0).then_some(FlowEffect { target_group, target, flows, fate, then })
            })
            .collect();
        effects
            .sort_by(|one, other| (&one.target_group, one.target).cmp(&(&other.target_group, other.target)));
        effects
    }

    /// The load balancer whose flows a target has.
    fn user(&self, key: &TargetKey) -> Option<&Name> {
        let group = self.state.target_group(&key.group).ok()?;
        Some(&self.state.load_balancer_using(&group.name)?.name)
    }

    /// What becomes of the flows that the load balancer `user` has on a target, in `state`; none: they go on.
    fn fate(&self, state: &State, user: &Name, key: &TargetKey) -> Option<(Fate, Option<Fate>)> {
        let balancer = state.load_balancer(user.as_str()).ok();
        // Flows are treated by the group that their load balancer forwards to by then.
        let Some(group) = balancer.and_then(|balancer| state.target_group_of(balancer)) else {
            return Some((Fate::Dropped, None));
        };
        let settings = group.settings();
        let own = state.target_group(&key.group).ok();
        let target = own.and_then(|group| group.targets.get(&key.address));
        // A group that is no longer used is no longer checked (H-6).
        let verdict = || self.health.verdict(key).filter(|_| &*key.group == group.name.as_str());
        let drain = own.and_then(|group| group.drain_of(key.address));
        let is_over = drain.is_some_and(|drain| drain.ends_unix_ms() <= self.unix_ms());
        match condition(target, || verdict().unwrap_or(Verdict::Initial)) {
            Condition::Initial | Condition::Healthy => None,
            // By a delay of 0, or one that is made shorter than the drain is old.
            Condition::Draining if is_over => Some((end(&settings, Condition::Removed)?, None)),
            Condition::Draining => Some((Fate::Drained, end(&settings, Condition::Removed))),
            out @ (Condition::Unhealthy | Condition::Removed) => Some((end(&settings, out)?, None)),
        }
    }
}

/// What becomes of the flows of a target that is out; none: they go on to it.
fn end(settings: &TargetGroupSettings, condition: Condition) -> Option<Fate> {
    let resets = match condition {
        Condition::Unhealthy => settings.reset_on_unhealthy,
        _ => settings.reset_on_deregistration,
    };
    match settings.failover {
        Failover::Rebalance => Some(Fate::Moved),
        Failover::NoRebalance => resets.then_some(Fate::Reset),
    }
}
