//! When a target's checks are due: on a grid of its own, one point per interval, at a phase that is
//! drawn from the target's name. So the checks of many targets are spread over the interval without
//! anybody dealing out places, and a target keeps its place whatever others come and go (H-3).
//! Pure arithmetic; called by the task of each target.

use std::time::{Duration, Instant};

use super::state::TargetKey;

/// The shortest interval (H-2). The runtime's timer counts whole milliseconds.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The grid of one target, and its next point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    due: Instant,
    interval: Duration,
}

impl Schedule {
    /// The first point at or after `now` of `key`'s grid, which is laid from `anchor` on. An
    /// `interval` below [`MIN_INTERVAL`], which the model refuses, is that.
    pub fn new(key: &TargetKey, anchor: Instant, interval: Duration, now: Instant) -> Self {
        let interval = interval.max(MIN_INTERVAL);
        let mut schedule = Self { due: anchor + phase(key, interval), interval };
        if schedule.due < now {
            schedule.due = schedule.point_after(now);
        }
        schedule
    }

    /// When the next check is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// The check that was due has begun or was missed. One that is late by less than an interval is
    /// still made; those missed by more are left out, so that a stall is not followed by a burst.
    pub fn advance(&mut self, now: Instant) {
        self.due += self.interval;
        if now.saturating_duration_since(self.due) >= self.interval {
            self.due = self.point_after(now);
        }
    }

    fn point_after(&self, now: Instant) -> Instant {
        let behind = now.saturating_duration_since(self.due).as_nanos();
        let into = behind % self.interval.as_nanos();
        // `into` is below the interval, which was given in a `Duration`.
        now + self.interval - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
    }
}

/// `key`'s place in the interval: the same on every start, evenly spread over keys.
fn phase(key: &TargetKey, interval: Duration) -> Duration {
    // FNV-1a over the name, then the finisher of SplitMix64, as FNV alone leaves the high bits of
    // neighbouring addresses close together.
    let bytes = key.group.bytes().chain(key.address.octets());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let hash = mixed ^ (mixed >> 31);
    // The hash as a fraction of 2^64, of the interval: below the interval.
    let nanos = (interval.as_nanos() * u128::from(hash)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(n: u32) -> TargetKey {
        TargetKey::new("appliances", (0x0a00_0000 + n).into())
    }

    #[test]
    fn a_thousand_neighbouring_targets_are_spread_over_the_interval_h3() {
        let interval = Duration::from_secs(1);
        let mut tenths = [0_u32; 10];
        for n in 0..1000 {
            let phase = phase(&key(n), interval);
            assert!(phase < interval);
            tenths[usize::try_from(phase.as_millis() / 100).unwrap()] += 1;
        }
        // 100 in each, with a standard deviation of 9.5: four of them.
        assert!(tenths.iter().all(|&count| (62..=138).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn a_target_keeps_its_place_over_a_restart_h3() {
        let interval = Duration::from_secs(10);
        let nanos = |n| phase(&key(n), interval).as_nanos();
        // Worked out apart from this program (Python, from the published FNV-1a and SplitMix64).
        assert_eq!((nanos(1), nanos(2)), (8_960_047_245, 3_367_178_388));
    }

    #[test]
    fn checks_missed_by_a_stall_are_left_out_h3() {
        let anchor = Instant::now();
        let interval = Duration::from_millis(100);
        let mut schedule = Schedule::new(&key(1), anchor, interval, anchor);
        let first = schedule.due();
        schedule.advance(first);
        assert_eq!(schedule.due(), first + interval);
        // 1.5 intervals after `first`: the point at 1 is late, and still made.
        schedule.advance(first + interval * 5 / 2);
        assert_eq!(schedule.due(), first + interval * 2);
        // Far too late: the next point of the grid that is still to come.
        schedule.advance(first + interval * 15 / 2);
        assert_eq!(schedule.due(), first + interval * 8);
    }

    proptest! {
        #[test]
        fn the_first_check_comes_within_one_interval_and_on_the_grid_h3(
            n in 0_u32..100_000, interval_ms in 10_u64..300_000, later_ms in 0_u64..10_000_000,
        ) {
            let anchor = Instant::now();
            let interval = Duration::from_millis(interval_ms);
            let now = anchor + Duration::from_millis(later_ms);
            let due = Schedule::new(&key(n), anchor, interval, now).due();
            prop_assert!(due >= now && due < now + interval * 2);
            prop_assert!(later_ms < interval_ms || due <= now + interval);
            let off_grid = (due - anchor - phase(&key(n), interval)).as_nanos() % interval.as_nanos();
            prop_assert_eq!(off_grid, 0);
        }
    }
}
