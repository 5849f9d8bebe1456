//! What a change would do to live flows and to targets' states, told before it is made.
//!
//! Judged target by target as the workers would judge the next packet of its flows (sections 5 and 6 of
//! the rules), by the verdicts that the targets would have: other thresholds may decide at once (H-9). Flows
//! that a shorter idle timeout ends are counted by the workers, as they alone know how long each was silent.

use std::collections::HashMap;
use std::time::Duration;

use super::{Core, Inner};
use crate::control::compile::condition;
use crate::control::health::damping::Verdict;
use crate::control::health::{CheckSpec, Duty, HealthState, TargetKey};
use crate::control::model::{
    Failover, ListenerSettings, LoadBalancer, Name, State, TargetGroup, TargetGroupSettings,
};
use crate::control::socket::views::{Fate, FlowEffect, HealthEffect, HeldBy, Preview};
use crate::datapath::forwarding::Condition;
use crate::datapath::messages::FlowFilter;
use crate::flow::Timers;
use crate::id::{GatewayId, TargetId};

/// How long the workers may take to count silent flows, all load balancers together; then a bound is told.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);

/// The objects as they are or would be, and the verdicts that go with them.
struct Objects<'a> {
    state: &'a State,
    /// What the health checks would be told; none: they are as they are.
    checks: Option<HashMap<TargetKey, CheckSpec>>,
    /// Load balancers that were looked at.
    gateways: HashMap<Name, Option<Gateway>>,
}

/// What decides over a load balancer's flows.
#[derive(Clone)]
struct Gateway {
    settings: TargetGroupSettings,
    /// How many targets new flows may go to, and how many of these are healthy.
    members: u32,
    healthy: u32,
}

/// What becomes of a target's flows, before they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effect {
    fate: Fate,
    then: Option<Fate>,
    held_by: Option<HeldBy>,
    at_most: bool,
}

/// A load balancer whose flows would time out sooner.
struct Shortened {
    gateway: GatewayId,
    target_group: Name,
    timers: Timers,
    /// Its flows that are under these timers, silent or not.
    flows: u64,
}

impl Core {
    /// What would become of flows and targets' states if `next` were the objects.
    pub(super) async fn foresee(&self, next: &State) -> Preview {
        let (mut preview, shortened) = {
            let inner = self.inner.borrow();
            (inner.preview(next), inner.shortened(next))
        };
        let deadline = tokio::time::Instant::now() + COUNT_PATIENCE;
        for one in shortened {
            let filter = FlowFilter {
                gateway: Some(one.gateway),
                ended_by: Some(one.timers),
                ..FlowFilter::default()
            };
            let count = async {
                let turn = self.scanning.lock().await;
                self.scan(&turn, filter, COUNT_PATIENCE).await.ok()
            };
            let counted = tokio::time::timeout_at(deadline, count).await.ok().flatten();
            let flows = counted.as_ref().map_or(one.flows, |found| found.matching);
            if flows > 0 {
                preview.flows.push(FlowEffect {
                    target_group: one.target_group.to_string(),
                    target: None,
                    flows,
                    at_most: counted.is_none(),
                    fate: Fate::TimedOut,
                    then: None,
                    held_by: None,
                });
            }
        }
        preview
    }
}

impl Inner {
    /// What would become of live flows if `next` were the state, where it is other than what becomes of them
    /// as things are, and of targets' states; by group and address.
    fn preview(&self, next: &State) -> Preview {
        let specs = self.compiler.node().scope.checks(next);
        let mut health: Vec<HealthEffect> = specs.iter().filter_map(|spec| self.flips(spec)).collect();
        health
            .sort_by(|one, other| (&one.target_group, one.target).cmp(&(&other.target_group, other.target)));
        let checks = specs.into_iter().map(|spec| (spec.key.clone(), spec)).collect();
        let mut now = Objects { state: &self.state, checks: None, gateways: HashMap::new() };
        let mut next = Objects { state: next, checks: Some(checks), gateways: HashMap::new() };
        let mut effects: Vec<(&Name, FlowEffect)> = Vec::new();
        for (key, slot) in self.slots.iter() {
            let Some(user) = self.user(key) else { continue };
            let Some(effect) = self.effect(&mut next, user, key) else { continue };
            if self.effect(&mut now, user, key) == Some(effect) {
                continue;
            }
            let Effect { fate, then, held_by, at_most } = effect;
            let resets = fate == Fate::Reset || (fate == Fate::Held && then == Some(Fate::Reset));
            let flows = if resets { self.tcp_flows_of(slot.id) } else { self.workers.flows_of(slot.id) };
            let (target_group, target) = (key.group.to_string(), Some(key.address));
            if flows > 0 {
                let effect = FlowEffect { target_group, target, flows, at_most, fate, then, held_by };
                effects.push((user, effect));
            }
        }
        self.hold_to_the_rate(&mut next, &mut effects);
        let mut flows: Vec<FlowEffect> = effects.into_iter().map(|(_, effect)| effect).collect();
        flows.sort_by(|one, other| (&one.target_group, one.target).cmp(&(&other.target_group, other.target)));
        Preview { flows, health }
    }

    /// The target of `spec`, if checks that were made already would have it in another state.
    fn flips(&self, spec: &CheckSpec) -> Option<HealthEffect> {
        let checked = |state| !matches!(state, HealthState::Unused | HealthState::Draining);
        let from = self.health.view(&spec.key)?.state;
        let to = self.health.foresee(spec).state;
        (from != to && checked(from) && checked(to)).then(|| HealthEffect {
            target_group: spec.key.group.to_string(),
            target: spec.key.address,
            from,
            to,
        })
    }

    /// The load balancer whose flows a target has.
    fn user(&self, key: &TargetKey) -> Option<&Name> {
        let group = self.state.target_group(&key.group).ok()?;
        Some(&self.state.load_balancer_using(&group.name)?.name)
    }

    /// What becomes of the flows that the load balancer `user` has on a target; none: they go on.
    fn effect(&self, objects: &mut Objects<'_>, user: &Name, key: &TargetKey) -> Option<Effect> {
        // Flows are treated by the group that their load balancer forwards to by then.
        let Some(gateway) = self.gateway_of(objects, user) else {
            return Some(Effect { fate: Fate::Dropped, then: None, held_by: None, at_most: false });
        };
        let own = objects.state.target_group(&key.group).ok();
        let target = own.and_then(|group| group.targets.get(&key.address));
        let verdict = self.verdict(objects, key);
        let drain = own.and_then(|group| group.drain_of(key.address));
        let is_over = drain.is_some_and(|drain| self.drains.is_over(key, &drain, self.now()));
        match condition(target, || verdict) {
            Condition::Initial | Condition::Healthy => None,
            // By a delay of 0, or one that is made shorter than the drain is old.
            Condition::Draining if is_over => gateway.end(Condition::Removed, Duration::MAX),
            Condition::Draining => {
                let then = gateway.after_a_drain();
                Some(Effect { fate: Fate::Drained, then, held_by: None, at_most: false })
            }
            out @ (Condition::Unhealthy | Condition::Removed) => {
                gateway.end(out, self.unhealthy_for(key, target.is_some()))
            }
        }
    }

    /// What checks will have decided of a target.
    fn verdict(&self, objects: &Objects<'_>, key: &TargetKey) -> Verdict {
        let Some(checks) = &objects.checks else {
            return self.health.verdict(key).unwrap_or(Verdict::Initial);
        };
        checks.get(key).map_or(Verdict::Initial, |spec| self.health.foresee(spec).verdict)
    }

    /// For how long a target has been unhealthy; not at all if it only would be.
    fn unhealthy_for(&self, key: &TargetKey, is_registered: bool) -> Duration {
        let view = self.health.view(key).filter(|_| is_registered);
        view.filter(|view| view.verdict == Verdict::Unhealthy)
            .map_or(Duration::ZERO, |view| view.since.monotonic.elapsed() + self.ahead)
    }

    /// What decides over the flows of a load balancer; none if it would not forward them.
    fn gateway_of(&self, objects: &mut Objects<'_>, user: &Name) -> Option<Gateway> {
        if let Some(known) = objects.gateways.get(user) {
            return known.clone();
        }
        let balancer = objects.state.load_balancer(user.as_str()).ok();
        let group = balancer.and_then(|balancer| objects.state.target_group_of(balancer));
        let gateway = balancer.zip(group).map(|(balancer, group)| self.gateway(objects, balancer, group));
        objects.gateways.insert(user.clone(), gateway.clone());
        gateway
    }

    fn gateway(&self, objects: &Objects<'_>, balancer: &LoadBalancer, group: &TargetGroup) -> Gateway {
        let scope = &self.compiler.node().scope;
        let (mut members, mut healthy) = (0, 0);
        for (address, target) in &group.targets {
            if scope.duty(Some(balancer), *address, target) == Duty::Check {
                let key = TargetKey::new(group.name.as_str(), *address);
                members += 1;
                healthy += u32::from(self.verdict(objects, &key) == Verdict::Healthy);
            }
        }
        Gateway { settings: group.settings(), members, healthy }
    }

    /// where more flows of a load balancer are to be reset than may be in a second, that is told.
    fn hold_to_the_rate(&self, objects: &mut Objects<'_>, effects: &mut [(&Name, FlowEffect)]) {
        let mut sums: HashMap<&Name, u64> = HashMap::new();
        for (user, effect) in effects.iter().filter(|(_, effect)| effect.fate == Fate::Reset) {
            *sums.entry(*user).or_default() += effect.flows;
        }
        for (user, effect) in effects.iter_mut().filter(|(_, effect)| effect.fate == Fate::Reset) {
            let gateway = self.gateway_of(objects, user);
            let most = gateway.map_or(0, |gateway| gateway.settings.reset_guards.max_per_second);
            if most > 0 && sums.get(*user).is_some_and(|sum| *sum > u64::from(most)) {
                effect.held_by = Some(HeldBy::Rate);
            }
        }
    }

    /// The load balancers with flows whose idle timeouts would be shorter than they are.
    fn shortened(&self, next: &State) -> Vec<Shortened> {
        let now = &self.state;
        let shortened = now.load_balancers().filter_map(|balancer| {
            let gateway = self.compiler.gateway_id(&balancer.name)?;
            let group = now.target_group_of(balancer)?;
            let was = now.listener_settings(balancer)?;
            let is = next.listener_settings(next.load_balancer(balancer.name.as_str()).ok()?)?;
            let (tcp, other) =
                (is.tcp_idle_timeout < was.tcp_idle_timeout, is.udp_idle_timeout < was.udp_idle_timeout);
            let all = |of: &dyn Fn(TargetId) -> u64| -> u64 {
                let own = self.slots.iter().filter(|(key, _)| self.user(key) == Some(&balancer.name));
                own.map(|(_, slot)| of(slot.id)).sum()
            };
            let tcp_flows = all(&|id| self.tcp_flows_of(id));
            let other_flows = all(&|id| self.workers.flows_of(id)).saturating_sub(tcp_flows);
            let flows = if tcp { tcp_flows } else { 0 } + if other { other_flows } else { 0 };
            let target_group = group.name.clone();
            (flows > 0).then(|| Shortened { gateway, target_group, timers: timers(&was, &is), flows })
        });
        shortened.collect()
    }

    fn tcp_flows_of(&self, target: TargetId) -> u64 {
        self.workers.sum(|counters| &counters.target(target).active_tcp_flows)
    }
}

impl Gateway {
    /// What becomes of the flows of a target that is out, and if it is unhealthy has been so for `unhealthy_for`;
    /// none: they go on to it.
    fn end(&self, condition: Condition, unhealthy_for: Duration) -> Option<Effect> {
        let TargetGroupSettings { failover, reset_guards, .. } = &self.settings;
        let unhealthy = condition == Condition::Unhealthy;
        let held =
            |by, then| Effect { fate: Fate::Held, then: Some(then), held_by: Some(by), at_most: false };
        let plain = |fate| Effect { fate, then: None, held_by: None, at_most: false };
        Some(match failover {
            Failover::Rebalance if self.healthy > 0 => plain(Fate::Moved),
            Failover::Rebalance => held(HeldBy::NobodyHealthy, Fate::Moved), // T-6
            Failover::NoRebalance if !self.resets(condition) => return None,
            Failover::NoRebalance if unhealthy && unhealthy_for.as_millis() < reset_guards.hold_ms.into() => {
                held(HeldBy::Hold, Fate::Reset)
            }
            Failover::NoRebalance
                if unhealthy && self.healthy_percent() < reset_guards.min_healthy_percent =>
            {
                held(HeldBy::MinHealthy, Fate::Reset)
            }
            // T-6: with nobody healthy, flows that were made while nobody was are spared.
            Failover::NoRebalance => Effect { at_most: self.healthy == 0, ..plain(Fate::Reset) },
        })
    }

    /// What becomes of flows that a drain leaves over, as far as can be told beforehand.
    fn after_a_drain(&self) -> Option<Fate> {
        match self.settings.failover {
            Failover::Rebalance => Some(Fate::Moved),
            Failover::NoRebalance => self.resets(Condition::Removed).then_some(Fate::Reset),
        }
    }

    fn resets(&self, condition: Condition) -> bool {
        match condition {
            Condition::Unhealthy => self.settings.reset_on_unhealthy,
            _ => self.settings.reset_on_deregistration,
        }
    }

    /// Rounded down, as workers count it.
    fn healthy_percent(&self) -> u32 {
        (self.healthy * 100).checked_div(self.members).unwrap_or(0)
    }
}

/// The timers of flows under `is`. A closed or half-open flow is nobody's loss, so that their timers are as they
/// `was`.
fn timers(was: &ListenerSettings, is: &ListenerSettings) -> Timers {
    let ms = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    Timers {
        tcp_idle_ms: ms(is.tcp_idle_timeout),
        other_idle_ms: ms(is.udp_idle_timeout),
        closed_ms: ms(was.tcp_closed_timeout),
        half_open_ms: ms(was.tcp_half_open_timeout),
    }
}
