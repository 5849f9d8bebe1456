//! What of the counts that tell of trouble came in the last minute. Pure: overviews go in, each with the daemon's uptime,
//! which no clock that is set moves. Memory: a few numbers for each object that something happens to.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::control::health::TargetKey;
use crate::control::socket::views::Overview;

/// How far back counts are kept, in milliseconds.
pub const MINUTE: u64 = 60_000;

/// What goes on is told for so long after it happened last, in milliseconds.
pub const JUST_NOW: u64 = 10_000;

/// Looks that are closer together than this are kept as one, in milliseconds: however many ask, there are few.
const APART: u64 = 250;

/// Something that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// Flows that a load balancer refused.
    Refused(Arc<str>),
    /// Flows that a load balancer gave to targets though none was healthy.
    FailOpen(Arc<str>),
    /// Packets that a load balancer forwarded without state.
    Stateless(Arc<str>),
    /// Packets whose reset a guard of a load balancer held back.
    Held(Arc<str>, &'static str),
    /// Resets that a load balancer sent for packets of no flow.
    NoFlow(Arc<str>),
    /// Flows of a target that a reset ended.
    FlowsReset(TargetKey),
    /// Resets that were sent as a target's drain was over.
    DrainResets(TargetKey),
    /// Packets sent to a target that returns none.
    SentTo(TargetKey),
    /// Packets that a port lost.
    Missed(Arc<str>),
    /// Packets dropped.
    Dropped(Arc<str>),
    /// Cycles of a worker.
    Cycles(u8),
    /// Of these, those in which it had work.
    BusyCycles(u8),
    /// Changes that could not be stored.
    NotStored,
}

impl Count {
    /// Whether it is 0 while it is not listed. Of the others nothing is known before they are seen.
    fn begins_at_nothing(&self) -> bool {
        matches!(self, Count::FlowsReset(_) | Count::DrainResets(_) | Count::Dropped(_))
    }
}

/// The counts of the last minute.
#[derive(Debug, Default)]
pub struct Recent {
    /// What was counted by the last look, and the daemon's uptime then.
    before: Option<(u64, HashMap<Count, u64>)>,
    /// What each look found more of than the one before, with the uptime then; the oldest first.
    looks: VecDeque<(u64, HashMap<Count, u64>)>,
    /// The uptime at the first look.
    first: u64,
}

impl Recent {
    /// Takes what `overview` has more of than the one before it; `not_stored` changes could not be stored so far.
    pub fn note(&mut self, overview: &Overview, not_stored: u64) {
        let now = overview.node.uptime_ms;
        let counted = counted(overview, not_stored);
        if let Some((_, before)) = &self.before {
            let grown = counted.iter().filter_map(|(count, new)| {
                let grown = match before.get(count) {
                    // One that fell is another's: a target came, went and came back.
                    Some(old) => new.checked_sub(*old).unwrap_or(*new),
                    None if count.begins_at_nothing() => *new,
                    None => 0,
                };
                (grown > 0).then(|| (count.clone(), grown))
            });
            match self.looks.back_mut().filter(|(then, _)| now.saturating_sub(*then) < APART) {
                Some((_, known)) => grown.for_each(|(count, more)| *known.entry(count).or_default() += more),
                None => self.looks.push_back((now, grown.collect())),
            }
        } else {
            self.first = now;
        }
        while self.looks.front().is_some_and(|(then, _)| now.saturating_sub(*then) > MINUTE) {
            self.looks.pop_front();
        }
        self.before = Some((now, counted));
    }

    /// How much there was of it within so many milliseconds up to the last look.
    pub fn within(&self, milliseconds: u64, count: &Count) -> u64 {
        let now = self.before.as_ref().map_or(0, |(now, _)| *now);
        let looks = self.looks.iter().rev().take_while(|(then, _)| now.saturating_sub(*then) <= milliseconds);
        looks.filter_map(|(_, grown)| grown.get(count)).sum()
    }

    /// Whether a target that returns nothing was sent packets [just now](JUST_NOW).
    pub fn is_sent_to(&self, target: &TargetKey) -> bool {
        self.within(JUST_NOW, &Count::SentTo(target.clone())) > 0
    }

    /// How much there was of it a second, [just now](JUST_NOW).
    #[expect(clippy::cast_precision_loss, reason = "to three digits, for people")]
    pub fn per_second(&self, count: &Count) -> f64 {
        let now = self.before.as_ref().map_or(0, |(now, _)| *now);
        let time = now.saturating_sub(self.first).clamp(1, JUST_NOW);
        self.within(JUST_NOW, count) as f64 * 1000.0 / time as f64
    }

    /// How much of its time a worker was busy just now, in percent; none if that is not known.
    pub fn busy_percent(&self, worker: u8) -> Option<u64> {
        let cycles = self.within(JUST_NOW, &Count::Cycles(worker));
        let busy = self.within(JUST_NOW, &Count::BusyCycles(worker));
        (u128::from(busy) * 100)
            .checked_div(u128::from(cycles))
            .and_then(|percent| u64::try_from(percent).ok())
    }
}

fn counted(overview: &Overview, not_stored: u64) -> HashMap<Count, u64> {
    let mut all = HashMap::from([(Count::NotStored, not_stored)]);
    for balancer in &overview.load_balancers {
        let name: Arc<str> = balancer.name.as_str().into();
        let held = balancer.held_resets;
        all.extend([
            (Count::Refused(Arc::clone(&name)), balancer.rejected_flows),
            (Count::FailOpen(Arc::clone(&name)), balancer.fail_open_flows),
            (Count::Stateless(Arc::clone(&name)), balancer.stateless_packets),
            (Count::Held(Arc::clone(&name), "hold_ms"), held.hold),
            (Count::Held(Arc::clone(&name), "min_healthy_percent"), held.min_healthy),
            (Count::Held(Arc::clone(&name), "max_per_second"), held.rate),
            (Count::Held(Arc::clone(&name), "no_flow_max_per_second"), held.no_flow_rate),
            (Count::NoFlow(name), balancer.resets.no_flow),
        ]);
    }
    for group in &overview.target_groups {
        let name: Arc<str> = group.name.as_str().into();
        for target in &group.targets {
            let traffic = &target.traffic;
            let listed = [
                (traffic.reset_flows, Count::FlowsReset as fn(TargetKey) -> Count),
                (traffic.resets.deregistration, Count::DrainResets),
                (if target.silent_for_ms > 0 { traffic.packets_to_target } else { 0 }, Count::SentTo),
            ];
            for (count, of) in listed.into_iter().filter(|(count, _)| *count > 0) {
                all.insert(of(TargetKey { group: Arc::clone(&name), address: target.address }), count);
            }
        }
    }
    let ports =
        overview.ports.iter().map(|port| (Count::Missed(port.port_name.as_str().into()), port.missed));
    all.extend(ports);
    all.extend(
        overview.totals.drops.iter().map(|(reason, count)| (Count::Dropped(reason.as_str().into()), *count)),
    );
    for worker in &overview.workers {
        all.insert(Count::Cycles(worker.worker), worker.load.cycles);
        all.insert(Count::BusyCycles(worker.worker), worker.load.busy_cycles);
    }
    all
}
