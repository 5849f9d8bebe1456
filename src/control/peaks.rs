//! The highest ten-second means of the last minute: `PeakBytesPerSecond` and `PeakPacketsPerSecond`. The control core
//! reads what was counted every ten seconds, and keeps the means of the last six such windows of each object. Pure:
//! times and counts are given.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What a mean is taken over.
const WINDOW: Duration = Duration::from_secs(10);

/// Windows that are kept: a minute, which is the period that CloudWatch gives maxima of.
const WINDOWS: usize = 6;

/// Bytes and packets; of a moment in all, or of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// The peaks of all objects.
#[derive(Debug)]
pub struct Peaks<K> {
    of: HashMap<K, Kept>,
    /// When the running window began.
    began: Option<Instant>,
    windows: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// What had been counted when the running window began.
    before: Traffic,
    /// The means of the last windows.
    means: [Traffic; WINDOWS],
    /// The last window in which the object was there.
    seen: usize,
}

impl<K> Default for Peaks<K> {
    fn default() -> Self {
        Peaks { of: HashMap::new(), began: None, windows: 0 }
    }
}

impl<K: Eq + Hash> Peaks<K> {
    /// Whether a window is over by `now`, so that the counts are to be noted.
    pub fn is_due(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW)
    }

    /// Ends the running window: these are all objects, with what each has counted so far. An object that was
    /// not there when the window began has no mean of it, and one that is gone is forgotten.
    pub fn note(&mut self, now: Instant, counted: impl IntoIterator<Item = (K, Traffic)>) {
        let took = self.began.map(|began| now.saturating_duration_since(began));
        self.began = Some(now);
        self.windows += 1;
        let place = self.windows % WINDOWS;
        for (key, total) in counted {
            let fresh = !self.of.contains_key(&key);
            let kept = self.of.entry(key).or_default();
            let mean = |now: u64, before: u64| {
                let counted = u128::from(now.wrapping_sub(before)) * 1_000_000_000;
                let nanoseconds = took.map_or(1, |took| took.as_nanos().max(1));
                u64::try_from(counted / nanoseconds).unwrap_or(u64::MAX)
            };
            kept.means[place] = if fresh || took.is_none() {
                Traffic::default()
            } else {
                Traffic {
                    bytes: mean(total.bytes, kept.before.bytes),
                    packets: mean(total.packets, kept.before.packets),
                }
            };
            (kept.before, kept.seen) = (total, self.windows);
        }
        let windows = self.windows;
        self.of.retain(|_, kept| kept.seen == windows);
    }

    /// The peaks of an object, a second; nothing of one that is not known for a window yet. Each by itself: that of
    /// bytes need not be of the same ten seconds as that of packets.
    pub fn of(&self, key: &K) -> Traffic {
        let means = self.of.get(key).map(|kept| kept.means).unwrap_or_default();
        Traffic {
            bytes: means.iter().map(|mean| mean.bytes).max().unwrap_or(0),
            packets: means.iter().map(|mean| mean.packets).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(bytes: u64, packets: u64) -> Traffic {
        Traffic { bytes, packets }
    }

    #[test]
    fn the_highest_mean_of_ten_seconds_holds_for_a_minute() {
        let (mut peaks, start) = (Peaks::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(peaks.is_due(start));
        peaks.note(start, [("gw", traffic(1_000_000, 5_000))]);
        assert_eq!(peaks.of(&"gw"), traffic(0, 0), "what was counted before is of no window");
        assert!(!peaks.is_due(at(9)) && peaks.is_due(at(10)));
        peaks.note(at(10), [("gw", traffic(1_000_500, 5_010))]);
        assert_eq!(peaks.of(&"gw"), traffic(50, 1));
        // Many small packets in this window, few large ones in the next.
        peaks.note(at(20), [("gw", traffic(1_001_500, 5_510))]);
        peaks.note(at(30), [("gw", traffic(1_101_500, 5_610))]);
        assert_eq!(peaks.of(&"gw"), traffic(10_000, 50));
        for second in (40..=80).step_by(10) {
            peaks.note(at(second), [("gw", traffic(1_101_500, 5_610))]);
        }
        assert_eq!(peaks.of(&"gw"), traffic(10_000, 10), "of packets that of the window before is over");
        peaks.note(at(90), [("gw", traffic(1_101_500, 5_610))]);
        assert_eq!(peaks.of(&"gw"), traffic(0, 0));
    }

    #[test]
    fn a_window_that_took_longer_is_a_mean_over_all_of_it_and_who_is_gone_begins_anew() {
        let (mut peaks, start) = (Peaks::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        peaks.note(start, [("gw", traffic(0, 0))]);
        peaks.note(at(20), [("gw", traffic(2_000, 40)), ("new", traffic(9_000, 9))]);
        assert_eq!(peaks.of(&"gw"), traffic(100, 2));
        assert_eq!(peaks.of(&"new"), traffic(0, 0));
        peaks.note(at(30), [("new", traffic(10_000, 19))]);
        assert_eq!((peaks.of(&"gw"), peaks.of(&"new")), (traffic(0, 0), traffic(100, 1)));
        peaks.note(at(40), [("gw", traffic(5_000, 50)), ("new", traffic(10_000, 19))]);
        assert_eq!(peaks.of(&"gw"), traffic(0, 0));
    }
}
