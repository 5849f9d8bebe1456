//! How the targets stand: as a forwarding state comes with it ([`Standing`]), and as a worker goes by
//! ([`Conditions`]).
//!
//! A worker takes a new state over, or hears of one target's health, in the midst of its packets. So what
//! is large is worked out on the control core: how many members of each load balancer are healthy comes
//! ready with the forwarding state, and a message about one target adds one or takes one off. What a
//! worker does itself is to compare 16,384 conditions at most, 64 at a time, and to change those that differ.

use std::ops::Deref;

use super::forwarding::{Condition, Forwarding, Gateway};
use crate::id::{GatewayId, Millis, TargetId};

/// More than the longest hold of a reset, and far less than [`Millis`] can tell apart.
const LONG_UNHEALTHY_MS: u32 = 2 * 3_600_000;

/// Conditions that are compared at once: a cache line of them.
const BLOCK: usize = 64;

/// The targets' conditions by [`TargetId`], as they are when a forwarding state is compiled.
#[derive(Debug, Default)]
pub struct Standing {
    by_target: Box<[Condition]>,
    counted: Option<Counted>,
}

/// What follows from them and from the load balancers.
#[derive(Debug)]
struct Counted {
    /// By [`GatewayId`].
    members: Box<[Members]>,
    /// Whether some load balancer has silent flows told.
    tells_silent: bool,
}

/// How many targets new flows of a load balancer may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Members {
    healthy: u16,
    /// Of a hundred, rounded down.
    healthy_percent: u8,
}

impl<T: Into<Box<[Condition]>>> From<T> for Standing {
    fn from(by_target: T) -> Standing {
        Standing { by_target: by_target.into(), counted: None }
    }
}

impl Deref for Standing {
    type Target = [Condition];

    fn deref(&self) -> &[Condition] {
        &self.by_target
    }
}

impl Standing {
    /// Counts for these load balancers. The control core does it, once, before it publishes them.
    pub(super) fn count(&mut self, gateways: &[Option<Gateway>]) {
        let members = gateways.iter().map(|gateway| members(&self.by_target, gateway.as_ref())).collect();
        self.counted = Some(Counted { members, tells_silent: tells_silent(gateways) });
    }

    /// Whether some load balancer of `gateways`, to which this belongs, has silent flows told.
    pub(super) fn tells_silent(&self, gateways: &[Option<Gateway>]) -> bool {
        self.counted.as_ref().map_or_else(|| tells_silent(gateways), |counted| counted.tells_silent)
    }
}

fn tells_silent(gateways: &[Option<Gateway>]) -> bool {
    gateways.iter().flatten().any(|gateway| gateway.policy.proactive)
}

/// How many of a load balancer's members are healthy.
fn members(by_target: &[Condition], gateway: Option<&Gateway>) -> Members {
    let Some(gateway) = gateway else { return Members::default() };
    let is_healthy = |target: TargetId| by_target.get(target.index()) == Some(&Condition::Healthy);
    let healthy = gateway.map.members.iter().filter(|member| is_healthy(member.target())).count();
    Members::new(u16::try_from(healthy).unwrap_or(u16::MAX), gateway)
}

impl Members {
    fn new(healthy: u16, gateway: &Gateway) -> Members {
        let percent = (usize::from(healthy) * 100).checked_div(gateway.map.members.len()).unwrap_or(0);
        Members { healthy, healthy_percent: u8::try_from(percent).unwrap_or(100) }
    }
}

/// One worker's copy of the targets' conditions, since when the unhealthy are so, and how many
/// members of each load balancer are healthy.
#[derive(Debug)]
pub struct Conditions {
    by_target: Box<[Condition]>,
    /// Since when an unhealthy target is so; `None` for longer than any guard asks for, and for others.
    unhealthy_since: Box<[Option<Millis>]>,
    /// Targets that the forwarding state knows; those behind them are [`Condition::Removed`].
    known: usize,
    members: Box<[Members]>,
    /// The next target whose time is looked at.
    hand: usize,
}

impl Conditions {
    /// Room for so many targets and load balancers; nobody is healthy.
    pub fn new(targets: usize, gateways: usize) -> Conditions {
        Conditions {
            by_target: vec![Condition::Removed; targets].into(),
            unhealthy_since: vec![None; targets].into(),
            known: 0,
            members: vec![Members::default(); gateways].into(),
            hand: 0,
        }
    }

    /// These targets are unhealthy since then, before any forwarding state says so: one that does changes nothing.
    pub fn resume(&mut self, unhealthy: &[(TargetId, Millis)]) {
        for (target, at) in unhealthy {
            if let (Some(condition), Some(since)) =
                (self.by_target.get_mut(target.index()), self.unhealthy_since.get_mut(target.index()))
            {
                (*condition, *since) = (Condition::Unhealthy, Some(*at));
                self.known = self.known.max(target.index() + 1);
            }
        }
    }

    /// The condition of a target.
    #[inline]
    pub fn of(&self, target: TargetId) -> Condition {
        self.by_target.get(target.index()).copied().unwrap_or(Condition::Removed)
    }

    /// Whether the target's flows go on as they are: it is neither unhealthy nor removed.
    #[inline(always)]
    pub fn is_in(&self, target: TargetId) -> bool {
        matches!(self.of(target), Condition::Healthy | Condition::Initial | Condition::Draining)
    }

    /// For how many milliseconds an unhealthy target has been so.
    #[inline]
    pub fn unhealthy_for(&self, target: TargetId, now: Millis) -> u32 {
        let since = self.unhealthy_since.get(target.index()).copied().flatten();
        since.map_or(u32::MAX, |since| now.since(since))
    }

    /// Whether some target that new flows of this load balancer may go to is healthy.
    #[inline]
    pub fn any_healthy(&self, gateway: GatewayId) -> bool {
        self.members.get(gateway.index()).is_some_and(|members| members.healthy > 0)
    }

    /// How many of a hundred targets that new flows of this load balancer may go to are healthy,
    /// rounded down.
    #[inline]
    pub fn healthy_percent(&self, gateway: GatewayId) -> u8 {
        self.members.get(gateway.index()).map_or(0, |members| members.healthy_percent)
    }

    /// Takes over the conditions that a new forwarding state came with. One that nobody has prepared is
    /// counted here, which no worker has the time for.
    pub fn install(&mut self, forwarding: &Forwarding, now: Millis) {
        let Conditions { by_target, unhealthy_since, known, members: own, .. } = self;
        let Standing { by_target: new, counted } = &forwarding.conditions;
        let blocks = by_target.chunks_mut(BLOCK).zip(unhealthy_since.chunks_mut(BLOCK));
        for ((before, since), new) in blocks.zip(new.chunks(BLOCK)) {
            if differ(before, new) {
                for ((before, since), new) in before.iter_mut().zip(since).zip(new) {
                    change(before, since, *new, now);
                }
            }
        }
        let before = std::mem::replace(known, new.len());
        let gone = by_target.iter_mut().zip(unhealthy_since).take(before).skip(new.len());
        gone.for_each(|(before, since)| change(before, since, Condition::Removed, now));
        match counted {
            Some(counted) => own.iter_mut().zip(&counted.members).for_each(|(own, new)| *own = *new),
            None => {
                for (own, gateway) in own.iter_mut().zip(&forwarding.gateways) {
                    *own = members(by_target, gateway.as_ref());
                }
            }
        }
    }

    /// Sets one target's condition. A message about a target that `forwarding` does not have in
    /// that slot any more (or not yet) changes nothing.
    pub fn set(
        &mut self,
        forwarding: &Forwarding,
        id: TargetId,
        generation: u16,
        condition: Condition,
        now: Millis,
    ) {
        let Some(target) = forwarding.target(id, generation) else { return };
        let (Some(before), Some(since)) =
            (self.by_target.get_mut(id.index()), self.unhealthy_since.get_mut(id.index()))
        else {
            return;
        };
        let (was, is) = (*before == Condition::Healthy, condition == Condition::Healthy);
        change(before, since, condition, now);
        let Some(gateway_id) = target.gateway.filter(|_| was != is) else { return };
        if let (Some(gateway), Some(members)) =
            (forwarding.gateway(gateway_id), self.members.get_mut(gateway_id.index()))
            && gateway.map.has(id)
        {
            let healthy =
                if is { members.healthy.saturating_add(1) } else { members.healthy.saturating_sub(1) };
            *members = Members::new(healthy, gateway);
        }
    }

    /// Looks at one target, so that no time is kept for so long that it would seem to lie ahead. To be
    /// called once a round.
    #[inline]
    pub fn age(&mut self, now: Millis) {
        match self.unhealthy_since.get_mut(self.hand) {
            Some(since) => {
                if since.is_some_and(|at| now.since(at) >= LONG_UNHEALTHY_MS) {
                    *since = None;
                }
                self.hand += 1;
            }
            None => self.hand = 0,
        }
    }
}

/// Whether two blocks differ as far as both go. All are compared, so that it is done in vectors.
#[inline]
fn differ(before: &[Condition], new: &[Condition]) -> bool {
    before.iter().zip(new).fold(false, |differ, (before, new)| differ | (before != new))
}

#[inline]
fn change(before: &mut Condition, since: &mut Option<Millis>, condition: Condition, now: Millis) {
    if *before != condition {
        *before = condition;
        *since = (condition == Condition::Unhealthy).then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::OnceLock;

    use proptest::prelude::*;

    use super::*;
    use crate::balance::{Builder, TargetMap};
    use crate::datapath::forwarding::{Policy, Target};
    use crate::flow::{HashSeed, Timers};

    const CONDITIONS: [Condition; 5] = [
        Condition::Initial,
        Condition::Healthy,
        Condition::Unhealthy,
        Condition::Draining,
        Condition::Removed,
    ];

    /// The members of two load balancers, of 200 targets by turns. Every third target is a member of neither.
    fn maps() -> &'static [TargetMap; 2] {
        static MADE: OnceLock<[TargetMap; 2]> = OnceLock::new();
        MADE.get_or_init(|| {
            [0, 1].map(|gateway| {
                let mut builder = Builder::new(HashSeed::from_secret(b"a secret of sixteen"));
                let own = (0..200_u16).filter(|n| n % 3 == gateway);
                let own: Vec<_> = own.map(|n| (TargetId(n), Ipv4Addr::from_bits(n.into()), 1)).collect();
                builder.update(&own);
                builder.map()
            })
        })
    }

    /// With these targets' conditions. A target that is no member is of the first load balancer all the same.
    fn forwarding(conditions: &[Condition]) -> Forwarding {
        let gateways = maps().each_ref().map(|map| {
            Some(Gateway {
                dualstack: false,
                timers: Timers::default(),
                policy: Policy { proactive: true, ..Policy::default() },
                map: map.clone(),
            })
        });
        let target = |n: usize| {
            let gateway = GatewayId(u16::from(n % 3 == 1));
            Some(Target { generation: 0, address: 0, gateway: Some(gateway), template: None })
        };
        Forwarding {
            gateways: gateways.into(),
            targets: (0..conditions.len()).map(target).collect(),
            conditions: conditions.into(),
            ..Forwarding::default()
        }
    }

    fn counts(conditions: &Conditions) -> Vec<(bool, u8)> {
        let of = |gateway| (conditions.any_healthy(gateway), conditions.healthy_percent(gateway));
        [0, 1, 2].map(GatewayId).map(of).into()
    }

    // F-6, R-11
    #[test]
    fn what_came_ready_is_what_a_worker_would_count() {
        let all: Vec<Condition> = (0..200).map(|n| CONDITIONS[n * 7 % 5]).collect();
        for len in [200, 130, 64, 63, 3, 1, 0, 200] {
            let (plain, mut ready) = (forwarding(&all[..len]), forwarding(&all[..len]));
            ready.prepare();
            let [mut one, mut other] = [Conditions::new(256, 3), Conditions::new(256, 3)];
            for conditions in [&mut one, &mut other] {
                conditions.install(&forwarding(&all), Millis(0));
            }
            one.install(&plain, Millis(1));
            other.install(&ready, Millis(1));
            assert_eq!(counts(&one), counts(&other));
            assert!(ready.conditions.tells_silent(&[]) && plain.conditions.tells_silent(&plain.gateways));
            for n in 0..256 {
                let expected = all[..len].get(usize::from(n)).copied().unwrap_or(Condition::Removed);
                assert_eq!((one.of(TargetId(n)), other.of(TargetId(n))), (expected, expected), "{n}");
            }
        }
    }

    proptest! {
        // F-6, R-11
        #[test]
        fn changes_one_by_one_come_to_what_a_new_state_says(
            steps in prop::collection::vec((0u16..20, 0usize..5), 0..60),
        ) {
            let mut now = [Condition::Initial; 18];
            let forwarding_now = forwarding(&now);
            let mut conditions = Conditions::new(32, 3);
            conditions.install(&forwarding_now, Millis(0));
            for (target, condition) in steps {
                let condition = CONDITIONS[condition];
                conditions.set(&forwarding_now, TargetId(target), 0, condition, Millis(7));
                conditions.set(&forwarding_now, TargetId(target), 1, Condition::Healthy, Millis(7));
                if let Some(now) = now.get_mut(usize::from(target)) {
                    *now = condition;
                }
                let mut anew = Conditions::new(32, 3);
                anew.install(&forwarding(&now), Millis(7));
                prop_assert_eq!(counts(&conditions), counts(&anew));
            }
        }
    }

    //
    #[test]
    fn the_time_of_an_unhealthy_target_goes_on_under_a_new_state() {
        let mut conditions = Conditions::new(32, 3);
        let healthy = [Condition::Healthy; 3];
        conditions.install(&forwarding(&healthy), Millis(0));
        let id = TargetId(1);
        conditions.set(&forwarding(&healthy), id, 0, Condition::Unhealthy, Millis(100));
        let mut unhealthy = healthy;
        unhealthy[1] = Condition::Unhealthy;
        conditions.install(&forwarding(&unhealthy), Millis(200));
        assert_eq!(conditions.unhealthy_for(id, Millis(250)), 150);
        conditions.install(&forwarding(&healthy), Millis(300));
        conditions.install(&forwarding(&unhealthy), Millis(400));
        assert_eq!(conditions.unhealthy_for(id, Millis(450)), 50);
    }

    //
    #[test]
    fn the_time_of_an_unhealthy_target_goes_on_after_a_restart() {
        let mut conditions = Conditions::new(32, 3);
        conditions.resume(&[
            (TargetId(1), Millis(100)),
            (TargetId(9), Millis(100)),
            (TargetId(99), Millis(1)),
        ]);
        let mut now = [Condition::Healthy; 3];
        now[1] = Condition::Unhealthy;
        conditions.install(&forwarding(&now), Millis(300));
        assert_eq!(conditions.unhealthy_for(TargetId(1), Millis(350)), 250);
        assert_eq!(conditions.of(TargetId(9)), Condition::Removed, "there is no such target any more");
    }
}
