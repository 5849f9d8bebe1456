//! How busy the workers are, as the socket shows it.

use std::time::Duration;

use super::Inner;
use crate::control::duration::milliseconds;
use crate::control::socket::views::{
    BurstClass, FlowStates, LongestBurst, LookUps, WorkerLoad, WorkerMemory, WorkerView,
};
use crate::control::workers::WorkerLink;
use crate::datapath::load::{BURST_CLASS_FROM, Highest, Round};
use crate::flow::PageKind;
use crate::id::Millis;

impl Inner {
    /// The workers; of the longest bursts, those of so much of the time just past.
    pub(super) fn worker_views(&self, window: Duration) -> Vec<WorkerView> {
        let view = |link: &WorkerLink| WorkerView {
            worker: link.id.0,
            core: u32::from(link.core),
            flows: link.counters.flow_entries.get(),
            capacity: u64::from(link.capacity),
            generation: link.counters.configuration.get(),
            heartbeat_age_ms: milliseconds(link.silent_for()),
            memory: WorkerMemory {
                packets: page_size(link.packet_pages),
                flow_table: page_kind(link.table_pages).to_owned(),
            },
            load: self.load(link, window),
        };
        self.workers.links().iter().map(view).collect()
    }

    fn load(&self, link: &WorkerLink, window: Duration) -> WorkerLoad {
        let (clock, counters) = (self.workers.clock(), &link.counters);
        let recent = self.longest_within(link, window);
        let [half_open, established, other, closed, expired, owing] =
            std::array::from_fn(|state| counters.flow_states[state].get());
        let bursts = BURST_CLASS_FROM.into_iter().zip(counters.bursts.by_class());
        WorkerLoad {
            cycles: clock.cycles(),
            cycles_per_second: clock.cycles_per_second(),
            busy_cycles: counters.busy_cycles.get(),
            slept_cycles: counters.slept_cycles.get(),
            received: counters.received.get(),
            handed_out: counters.handed_off.get(),
            handed_in: counters.handed_in.get(),
            bursts: bursts.map(|(from, count)| BurstClass { from, count }).collect(),
            look_ups: LookUps {
                by_hash: counters.lookups_by_hash.get(),
                by_cookie: counters.lookups_by_cookie.get(),
                stateless: counters.lookups_stateless.get(),
            },
            flow_states: FlowStates { half_open, established, other, closed, expired, owing },
            longest_burst: self.longest(recent),
            longest_burst_ever: self.longest(counters.longest_rounds.ever()),
        }
    }

    /// The longest round of the time just past.
    pub(super) fn longest_within(&self, link: &WorkerLink, window: Duration) -> Round {
        let window = u32::try_from(window.as_millis()).unwrap_or(u32::MAX);
        link.counters.longest_rounds.within(self.workers_now(), window)
    }

    /// The highest of a worker's numbers in the last minute.
    pub(super) fn in_minute(&self, of: &Highest) -> u64 {
        of.within(self.workers_now(), 60_000)
    }

    /// The workers' time.
    fn workers_now(&self) -> Millis {
        let ahead = u32::try_from(self.ahead.as_millis()).unwrap_or(u32::MAX);
        self.workers.clock().now().plus(ahead)
    }

    fn longest(&self, round: Round) -> Option<LongestBurst> {
        let clock = self.workers.clock();
        let microseconds = clock.duration_of(round.cycles).as_secs_f64() * 1e6;
        // To a tenth: what it took to measure it is more.
        let microseconds = (microseconds * 10.0).round() / 10.0;
        (round.cycles > 0)
            .then(|| LongestBurst { microseconds, at: clock.time_of_day_of_cycle(round.ended).into() })
    }
}

/// A size of pages as people write it.
pub(super) fn page_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| "unknown".to_owned(), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// A kind of pages as people write it.
pub(super) fn page_kind(pages: PageKind) -> &'static str {
    match pages {
        PageKind::Reserved1G => "1 GiB",
        PageKind::Reserved2M => "2 MiB",
        PageKind::Transparent => "transparent",
        PageKind::Small => "4 KiB",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_size_is_written_with_its_unit() {
        for (bytes, expected) in [(1 << 30, "1 GiB"), (2 << 20, "2 MiB"), (4096, "4 KiB"), (0, "unknown")] {
            assert_eq!(page_size(bytes), expected);
        }
    }
}
