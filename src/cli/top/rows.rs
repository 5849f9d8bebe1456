//! The list of targets: which are in it, and in what order.

#![forbid(unsafe_code)]

use super::reading::{Reading, TrafficRates};
use crate::control::health::{HealthState, TargetKey};
use crate::control::socket::views::{TargetGroupOverview, TargetOverview};
use crate::control::troubles::Kind;
use std::cmp::Ordering;

/// A target in the list.
pub(super) struct Row<'a> {
    pub(super) key: TargetKey,
    pub(super) group: &'a TargetGroupOverview,
    pub(super) target: &'a TargetOverview,
    pub(super) rates: Option<TrafficRates>,
    /// What is wrong with it.
    pub(super) troubles: &'a [Kind],
}

/// What the list is in the order of. Equals are by group and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// What is wrong first.
    Trouble,
    Address,
    Flows,
    NewFlows,
    Packets,
    Bytes,
    Resets,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Trouble => Sort::Address,
            Sort::Address => Sort::Flows,
            Sort::Flows => Sort::NewFlows,
            Sort::NewFlows => Sort::Packets,
            Sort::Packets => Sort::Bytes,
            Sort::Bytes => Sort::Resets,
            Sort::Resets => Sort::Trouble,
        }
    }

    /// In words.
    pub(super) fn word(self) -> &'static str {
        match self {
            Sort::Trouble => "trouble",
            Sort::Address => "address",
            Sort::Flows => "flows",
            Sort::NewFlows => "new flows",
            Sort::Packets => "packets",
            Sort::Bytes => "bytes",
            Sort::Resets => "resets",
        }
    }

    /// Whether who asks for this order wants to see the largest.
    pub(super) fn is_larger_first(self) -> bool {
        !matches!(self, Sort::Trouble | Sort::Address)
    }
}

/// How much a state wants to be seen: the least the most.
fn rank(row: &Row<'_>) -> u8 {
    match row.target.state {
        HealthState::Unhealthy => 0,
        HealthState::Unavailable => 1,
        HealthState::Healthy if !row.troubles.is_empty() => 2,
        HealthState::Draining => 3,
        HealthState::Initial => 4,
        HealthState::Healthy => 5,
        HealthState::Unused => 6,
    }
}

/// The targets whose row has every word of `filter`, in order.
pub(super) fn of<'a>(reading: &'a Reading, filter: &str, sort: Sort, descending: bool) -> Vec<Row<'a>> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let row = |(group, target): (&'a TargetGroupOverview, &'a TargetOverview)| {
        let key = TargetKey::new(group.name.as_str(), target.address);
        let rates = reading.rates_of(&key);
        let troubles = reading.troubles_of(&key.to_string());
        Row { key, group, target, rates, troubles }
    };
    let mut rows: Vec<Row<'a>> = reading.targets().map(row).filter(|row| has_all(row, &words)).collect();
    let rate = |row: &Row<'_>, of: fn(&TrafficRates) -> f64| row.rates.as_ref().map_or(0.0, of);
    let by = |one: &Row<'_>, other: &Row<'_>| match sort {
        Sort::Trouble => rank(one).cmp(&rank(other)),
        Sort::Address => one.key.address.cmp(&other.key.address),
        Sort::Flows => one.target.flows.cmp(&other.target.flows),
        Sort::NewFlows => rate(one, |rates| rates.new_flows).total_cmp(&rate(other, |rates| rates.new_flows)),
        Sort::Packets => rate(one, TrafficRates::packets).total_cmp(&rate(other, TrafficRates::packets)),
        Sort::Bytes => rate(one, TrafficRates::bytes).total_cmp(&rate(other, TrafficRates::bytes)),
        Sort::Resets => {
            let resets =
                |row: &Row<'_>| (row.target.reset_flows_last_minute, row.target.traffic.resets.all());
            resets(one).cmp(&resets(other))
        }
    };
    let turned = |order: Ordering| if descending { order.reverse() } else { order };
    // They come by group and address, and sorting keeps the order of equals.
    rows.sort_by(|one, other| turned(by(one, other)));
    rows
}

fn has_all(row: &Row<'_>, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let target = row.target;
    let zone = target.zone.as_deref().unwrap_or("all");
    let balancer = row.group.load_balancer.as_deref().unwrap_or("");
    let reason = target.reason.map(|reason| reason.to_string()).unwrap_or_default();
    let text = format!("{} {} {balancer} {zone} {reason} {}", row.key, target.state, target.description);
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}
