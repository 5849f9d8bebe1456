//! What flows, packets and resets come to, by target, target group, load balancer and zone: read from the workers in one
//! pass, whenever somebody asks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::Inner;
use crate::control::health::{HealthState, TargetHealthView, TargetKey};
use crate::control::peaks::{Peaks, Traffic};
use crate::control::slots::Slot;
use crate::control::tally::{Ledger, Tally};
use crate::id::{TargetId, WorkerId};

/// A load balancer and a zone of its targets.
pub(super) type InZone = (Arc<str>, Arc<str>);

/// Whose the counts of slots are, and what was highest.
#[derive(Default)]
pub(super) struct Accounts {
    groups: Ledger<Arc<str>>,
    balancers: Ledger<Arc<str>>,
    zones: Ledger<InZone>,
    /// Slots whose holder was a target of an accepted state. One that is held for a state which is being stored yet, and may
    /// be refused, is nobody's.
    accepted: HashSet<TargetId>,
    peaks: Peaks<Scope>,
    /// How often targets of each group came to be in each state, by [`HealthState::ALL`].
    health_changes: HashMap<Arc<str>, [u64; HealthState::ALL.len()]>,
}

/// What a peak is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Node,
    Balancer(Arc<str>),
    Zone(InZone),
    Group(Arc<str>),
    Target(TargetKey),
    Worker(WorkerId),
}

/// What was counted for one object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measures {
    /// What only grows.
    pub tally: Tally,
    /// Live flows.
    pub active: u64,
    /// Of these, TCP.
    pub active_tcp: u64,
    /// Flows that were reset and are remembered for an end that may have to be told.
    pub owing: u64,
    /// Targets by state, by [`HealthState::ALL`].
    pub states: [u64; HealthState::ALL.len()],
    /// The highest ten-second means of the last minute.
    pub peak: Traffic,
}

impl Measures {
    /// How many targets are in a state.
    pub fn in_state(&self, state: HealthState) -> u64 {
        self.states[state.index()]
    }

    /// Adds what another has now, and what of its counts is to be added.
    pub(super) fn add(&mut self, more: &Measures, tally: Tally) {
        self.tally += tally;
        self.active += more.active;
        self.active_tcp += more.active_tcp;
        self.owing += more.owing;
        for (state, count) in self.states.iter_mut().zip(&more.states) {
            *state += count;
        }
    }
}

/// A target that holds a slot, and what was counted for it.
pub(super) struct OfTarget {
    pub key: TargetKey,
    /// Whose its traffic is; none: no load balancer ever used its group while it was there.
    pub balancer: Option<Arc<str>>,
    /// Its zone, if it has one.
    pub zone: Option<Arc<str>>,
    pub measures: Measures,
    /// How it stands; none for one that is gone and still has flows (T-4).
    pub health: Option<TargetHealthView>,
}

/// What was counted, of all objects.
#[derive(Default)]
pub(super) struct Accounted {
    pub targets: Vec<OfTarget>,
    pub groups: HashMap<Arc<str>, Measures>,
    pub balancers: HashMap<Arc<str>, Measures>,
    pub zones: HashMap<InZone, Measures>,
    pub node: Measures,
}

impl Accounts {
    /// A target of `group` is in another state.
    pub(super) fn health_changed(&mut self, group: &Arc<str>, to: HealthState) {
        self.health_changes.entry(Arc::clone(group)).or_default()[to.index()] += 1;
    }

    /// What a slot had counted when its present holder came.
    pub(super) fn before(&self, id: TargetId) -> Tally {
        self.groups.before(id)
    }

    /// What was counted for a group by targets that are gone.
    pub(super) fn closed_of_group(&self, group: &str) -> Tally {
        self.groups.closed(&Arc::from(group))
    }

    /// How often targets of a group came to be in each state.
    pub(super) fn health_changes(&self, group: &str) -> [u64; HealthState::ALL.len()] {
        self.health_changes.get(group).copied().unwrap_or_default()
    }
}

impl Inner {
    /// Sees to it that what slots count is counted for whom it is now: called whenever targets, slots, zones or
    /// listeners may be others.
    pub(super) fn follow_accounts(&mut self) {
        let Inner { state, slots, accounts, workers, health, .. } = self;
        let named = |name: &str| -> Arc<str> { name.into() };
        let balancers: HashMap<&str, Arc<str>> = state
            .load_balancers()
            .filter_map(|balancer| {
                let group = state.target_group_of(balancer)?;
                Some((group.name.as_str(), named(balancer.name.as_str())))
            })
            .collect();
        for (key, slot) in slots.iter() {
            let raw = || Tally::of_slot(workers, slot.id);
            let group = state.target_group(&key.group).ok();
            let target = group.and_then(|group| group.targets.get(&key.address));
            if target.is_some() {
                accounts.accepted.insert(slot.id);
            } else if !accounts.accepted.contains(&slot.id) {
                continue;
            }
            accounts.groups.assign(slot.id, &key.group, raw);
            // What has no load balancer, or is gone, stays with what it was of.
            let Some(balancer) = balancers.get(&*key.group) else { continue };
            accounts.balancers.assign(slot.id, balancer, raw);
            let Some(target) = target else { continue };
            match &target.zone {
                Some(zone) => {
                    let zone = (Arc::clone(balancer), named(zone.as_str()));
                    accounts.zones.assign(slot.id, &zone, raw);
                }
                None => accounts.zones.close(slot.id, raw()),
            }
        }
        let is_balancer = |name: &str| state.load_balancer(name).is_ok();
        let is_group = |name: &str| state.target_group(name).is_ok();
        accounts.groups.keep(|group| is_group(group));
        accounts.balancers.keep(|balancer| is_balancer(balancer));
        accounts.zones.keep(|(balancer, _)| is_balancer(balancer));
        accounts.health_changes.retain(|group, _| is_group(group));
        health.keep_groups(is_group);
    }

    /// A slot is about to be given back.
    pub(super) fn close_account(&mut self, slot: Slot) {
        let raw = Tally::of_slot(&self.workers, slot.id);
        self.accounts.groups.close(slot.id, raw);
        self.accounts.balancers.close(slot.id, raw);
        self.accounts.zones.close(slot.id, raw);
        self.accounts.accepted.remove(&slot.id);
    }

    /// Reads what was counted.
    pub(super) fn accounted(&self) -> Accounted {
        let Accounts { groups, balancers, zones, accepted, .. } = &self.accounts;
        let mut all = Accounted::default();
        // What those that are gone have counted; an object without targets is there too.
        for group in self.state.target_groups() {
            let name: Arc<str> = group.name.as_str().into();
            let tally = groups.closed(&name);
            all.groups.insert(name, Measures { tally, ..Measures::default() });
        }
        for balancer in self.state.load_balancers() {
            let name: Arc<str> = balancer.name.as_str().into();
            let tally = balancers.closed(&name);
            all.balancers.insert(name, Measures { tally, ..Measures::default() });
        }
        for zone in zones.owners_before() {
            all.zones.insert(zone.clone(), Measures { tally: zones.closed(zone), ..Measures::default() });
        }
        for (key, slot) in self.slots.iter().filter(|(_, slot)| accepted.contains(&slot.id)) {
            let raw = Tally::of_slot(&self.workers, slot.id);
            let health = self.health.view(key);
            let mut states = [0; HealthState::ALL.len()];
            if let Some(view) = &health {
                states[view.state.index()] = 1;
            }
            let of_group = groups.of_slot(slot.id, raw).map(|(_, tally)| tally).unwrap_or_default();
            let measures = Measures {
                tally: of_group,
                active: self.workers.flows_of(slot.id),
                active_tcp: self.workers.sum(|all| &all.target(slot.id).active_tcp_flows),
                owing: self.workers.sum(|all| &all.target(slot.id).owing_flows),
                states,
                peak: self.accounts.peaks.of(&Scope::Target(key.clone())),
            };
            if let Some(group) = all.groups.get_mut(&key.group) {
                group.add(&measures, of_group);
            }
            let of_balancer = balancers.of_slot(slot.id, raw);
            if let Some((balancer, tally)) = of_balancer
                && let Some(balancer) = all.balancers.get_mut(balancer)
            {
                balancer.add(&measures, tally);
            }
            let of_zone = zones.of_slot(slot.id, raw);
            if let Some((zone, tally)) = of_zone {
                all.zones.entry(zone.clone()).or_default().add(&measures, tally);
            }
            all.targets.push(OfTarget {
                key: key.clone(),
                balancer: of_balancer.map(|(balancer, _)| Arc::clone(balancer)),
                zone: of_zone.map(|((_, zone), _)| Arc::clone(zone)),
                measures,
                health,
            });
        }
        all.targets.sort_by(|a, b| a.key.cmp(&b.key));
        let peaks = &self.accounts.peaks;
        for (name, measures) in &mut all.groups {
            measures.peak = peaks.of(&Scope::Group(Arc::clone(name)));
        }
        for (name, measures) in &mut all.balancers {
            measures.peak = peaks.of(&Scope::Balancer(Arc::clone(name)));
        }
        for (zone, measures) in &mut all.zones {
            measures.peak = peaks.of(&Scope::Zone(zone.clone()));
        }
        all.node.peak = peaks.of(&Scope::Node);
        for balancer in all.balancers.values() {
            all.node.add(balancer, balancer.tally);
        }
        all
    }

    /// Notes the mean of the last ten seconds, if they are over.
    pub(super) fn note_peaks(&mut self, now: Instant) {
        if !self.accounts.peaks.is_due(now) {
            return;
        }
        let all = self.accounted();
        let traffic = |measures: &Measures| Traffic {
            bytes: measures.tally.bytes(),
            packets: measures.tally.packets(),
        };
        let mut counted = vec![(Scope::Node, traffic(&all.node))];
        counted
            .extend(all.balancers.iter().map(|(name, of)| (Scope::Balancer(Arc::clone(name)), traffic(of))));
        counted.extend(all.groups.iter().map(|(name, of)| (Scope::Group(Arc::clone(name)), traffic(of))));
        counted.extend(all.zones.iter().map(|(zone, of)| (Scope::Zone(zone.clone()), traffic(of))));
        counted.extend(all.targets.iter().map(|of| (Scope::Target(of.key.clone()), traffic(&of.measures))));
        counted.extend(self.workers.links().iter().map(|link| {
            let tally = Tally::of_all(&link.counters, self.slots.len());
            (Scope::Worker(link.id), Traffic { bytes: tally.bytes(), packets: tally.packets() })
        }));
        self.accounts.peaks.note(now, counted);
    }

    /// The highest ten-second means of a worker.
    pub(super) fn peak_of_worker(&self, id: WorkerId) -> Traffic {
        self.accounts.peaks.of(&Scope::Worker(id))
    }
}
