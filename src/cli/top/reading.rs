//! An overview, and what it says that has happened since the one before: rates.
//!
//! Pure. Time is the daemon's uptime, which no clock that is set moves; two overviews of which the later one has
//! been up for less are of two daemons, and make no rates.

#![forbid(unsafe_code)]

use crate::cli::table::float;
use crate::cli::workers::Glance;
use crate::control::health::TargetKey;
use crate::control::socket::views::{
    Overview, Severity, TargetGroupOverview, TargetOverview, Totals, Traffic, Trouble,
};
use crate::control::troubles::Kind;
use std::collections::HashMap;

/// What one look at the daemon said.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) overview: Overview,
    /// None where there was no earlier look.
    pub(super) rates: Option<Rates>,
    /// In what trouble each object is, but for what goes on as somebody wanted.
    troubles: HashMap<String, Vec<Kind>>,
}

/// What happened between two looks, a second.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    pub(super) totals: TotalRates,
    /// By target group.
    pub(super) groups: HashMap<String, TrafficRates>,
    pub(super) targets: HashMap<TargetKey, TrafficRates>,
    /// Of load balancers: refused flows, and resets that were held back.
    pub(super) balancers: HashMap<String, BalancerRates>,
    /// Packets dropped, by reason, the most first.
    pub(super) drops: Vec<(String, f64)>,
    /// Packets that the device dropped, by port.
    pub(super) missed: HashMap<String, f64>,
    pub(super) workers: Vec<Glance>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TotalRates {
    pub(super) received: f64,
    pub(super) dropped: f64,
    pub(super) resets: f64,
    pub(super) new_flows: f64,
    /// To targets and from them.
    pub(super) packets: f64,
    pub(super) bytes: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TrafficRates {
    pub(super) new_flows: f64,
    pub(super) packets_to: f64,
    pub(super) bytes_to: f64,
    pub(super) packets_from: f64,
    pub(super) bytes_from: f64,
    pub(super) resets: f64,
}

impl TrafficRates {
    pub(super) fn packets(&self) -> f64 {
        self.packets_to + self.packets_from
    }

    pub(super) fn bytes(&self) -> f64 {
        self.bytes_to + self.bytes_from
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BalancerRates {
    pub(super) rejected: f64,
    pub(super) fail_open: f64,
    pub(super) stateless: f64,
    pub(super) held_resets: f64,
}

impl Reading {
    /// `overview`, after `before` if there was one of the same daemon.
    pub(super) fn new(overview: Overview, before: Option<&Overview>) -> Reading {
        let rates = before.and_then(|before| Rates::between(before, &overview));
        let mut troubles: HashMap<String, Vec<Kind>> = HashMap::new();
        for trouble in wrong(&overview) {
            for object in &trouble.objects {
                troubles.entry(object.clone()).or_default().push(trouble.kind);
            }
        }
        Reading { overview, rates, troubles }
    }

    /// What is wrong, the worst first; what goes on as somebody wanted is not.
    pub(super) fn wrong(&self) -> impl Iterator<Item = &Trouble> {
        wrong(&self.overview)
    }

    /// In what trouble an object is.
    pub(super) fn troubles_of(&self, object: &str) -> &[Kind] {
        self.troubles.get(object).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every target with its group.
    pub(super) fn targets(&self) -> impl Iterator<Item = (&TargetGroupOverview, &TargetOverview)> {
        let groups = self.overview.target_groups.iter();
        groups.flat_map(|group| group.targets.iter().map(move |target| (group, target)))
    }

    /// The target that is meant, if it is there.
    pub(super) fn target(&self, key: &TargetKey) -> Option<(&TargetGroupOverview, &TargetOverview)> {
        let group = self.overview.target_groups.iter().find(|group| *group.name == *key.group)?;
        Some((group, group.targets.iter().find(|target| target.address == key.address)?))
    }

    /// What goes through a target; none where nothing is known of it yet.
    pub(super) fn rates_of(&self, key: &TargetKey) -> Option<TrafficRates> {
        self.rates.as_ref()?.targets.get(key).copied()
    }
}

fn wrong(overview: &Overview) -> impl Iterator<Item = &Trouble> {
    overview.troubles.iter().filter(|trouble| trouble.severity > Severity::Notice)
}

/// Whether `after` is of the daemon that `before` is of.
fn is_later(before: &Overview, after: &Overview) -> bool {
    before.node.uptime_ms < after.node.uptime_ms
}

impl Rates {
    fn between(before: &Overview, after: &Overview) -> Option<Rates> {
        if !is_later(before, after) {
            return None;
        }
        let seconds = float(after.node.uptime_ms - before.node.uptime_ms) / 1000.0;
        let rate = |old: u64, new: u64| float(new.saturating_sub(old)) / seconds;
        let traffic = |old: Traffic, new: Traffic| TrafficRates {
            new_flows: rate(old.new_flows, new.new_flows),
            packets_to: rate(old.packets_to_target, new.packets_to_target),
            bytes_to: rate(old.bytes_to_target, new.bytes_to_target),
            packets_from: rate(old.packets_from_target, new.packets_from_target),
            bytes_from: rate(old.bytes_from_target, new.bytes_from_target),
            resets: rate(old.resets.all(), new.resets.all()),
        };
        let old_groups: HashMap<&str, &TargetGroupOverview> =
            before.target_groups.iter().map(|group| (group.name.as_str(), group)).collect();
        let mut rates = Rates::default();
        for group in &after.target_groups {
            let Some(old) = old_groups.get(group.name.as_str()) else { continue };
            let of_group = traffic(old.traffic, group.traffic);
            rates.totals.new_flows += of_group.new_flows;
            rates.totals.packets += of_group.packets();
            rates.totals.bytes += of_group.bytes();
            rates.groups.insert(group.name.clone(), of_group);
            let mut old_targets = old.targets.iter().peekable();
            let name: std::sync::Arc<str> = group.name.as_str().into();
            for target in &group.targets {
                // Both are by address.
                while old_targets.next_if(|old| old.address < target.address).is_some() {}
                let old = old_targets.next_if(|old| old.address == target.address);
                // One that was registered a moment ago began at nothing.
                let old = old.map(|old| old.traffic).unwrap_or_default();
                let key = TargetKey { group: name.clone(), address: target.address };
                rates.targets.insert(key, traffic(old, target.traffic));
            }
        }
        let old_balancer = |name: &str| before.load_balancers.iter().find(|old| old.name == name);
        for balancer in &after.load_balancers {
            let Some(old) = old_balancer(&balancer.name) else { continue };
            let of_balancer = BalancerRates {
                rejected: rate(old.rejected_flows, balancer.rejected_flows),
                fail_open: rate(old.fail_open_flows, balancer.fail_open_flows),
                stateless: rate(old.stateless_packets, balancer.stateless_packets),
                held_resets: rate(old.held_resets.all(), balancer.held_resets.all()),
            };
            rates.balancers.insert(balancer.name.clone(), of_balancer);
        }
        for (old, port) in before.ports.iter().zip(&after.ports) {
            rates.missed.insert(port.port_name.clone(), rate(old.missed, port.missed));
        }
        let (old, new): (&Totals, &Totals) = (&before.totals, &after.totals);
        rates.totals.received = rate(old.received, new.received);
        rates.totals.dropped = rate(old.dropped, new.dropped);
        rates.totals.resets = rate(old.resets.all(), new.resets.all());
        let drops = new.drops.iter().map(|(reason, count)| {
            (reason.clone(), rate(old.drops.get(reason).copied().unwrap_or(0), *count))
        });
        rates.drops = drops.filter(|(_, rate)| *rate > 0.0).collect();
        rates.drops.sort_by(|one, other| other.1.total_cmp(&one.1));
        let workers = before.workers.iter().zip(&after.workers);
        rates.workers = workers.map(|(before, after)| Glance::of(before, after)).collect();
        Some(rates)
    }
}
