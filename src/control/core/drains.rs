//! The clocks of drains, as the control core runs them: by the monotonic clock. The wall's may jump by hours, forwards and
//! back; how long a drain lasts is not its to say.
//!
//! The objects say when a drain began by the wall's clock, as that is what survives a restart. From it the rest of the
//! delay is reckoned once, when the control core first knows the drain, and never taken to be more than the delay.

use std::collections::HashMap;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::control::drain::DrainClocks;
use crate::control::duration::nanoseconds;
use crate::control::events::Timestamp;
use crate::control::health::{Moment, TargetKey};
use crate::control::model::Drain;

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// Ends that are so near to each other are the same: the wall's clock did not jump.
const SAME_MS: u64 = 1000;

/// When the delays of all drains elapse. One control core after the other goes by it.
#[derive(Debug)]
pub struct Drains {
    origin: Instant,
    /// In nanoseconds since `origin`.
    clocks: DrainClocks<TargetKey>,
    /// Each drain's begin and end by the objects.
    stated: HashMap<TargetKey, Stated>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stated {
    since_unix_ms: u64,
    ends_unix_ms: u64,
}

impl Stated {
    fn of(drain: &Drain<'_>) -> Stated {
        Stated { since_unix_ms: drain.since_unix_ms, ends_unix_ms: drain.ends_unix_ms() }
    }
}

impl Default for Drains {
    fn default() -> Drains {
        Drains { origin: Instant::now(), clocks: DrainClocks::default(), stated: HashMap::new() }
    }
}

impl Drains {
    /// These are all the drains there are from now on.
    pub(super) fn follow<'a>(&mut self, drains: impl Iterator<Item = Drain<'a>>, now: Moment) {
        let mut clocks = DrainClocks::default();
        let mut stated = HashMap::new();
        for drain in drains {
            let key = TargetKey::new(drain.target_group.name.as_str(), drain.address);
            clocks.set(key.clone(), self.deadline_of(&key, &drain, now));
            stated.insert(key, Stated::of(&drain));
        }
        (self.clocks, self.stated) = (clocks, stated);
    }

    /// Whether the delay of a drain has elapsed, which need not be one that is gone by yet.
    pub(super) fn is_over(&self, key: &TargetKey, drain: &Drain<'_>, now: Moment) -> bool {
        self.deadline_of(key, drain, now) <= self.at(now)
    }

    /// The drains whose delay has elapsed.
    pub(super) fn due(&self, now: Moment) -> Vec<TargetKey> {
        self.clocks.due(self.at(now))
    }

    /// Whether there is one of these.
    pub(super) fn any_due(&self, now: Moment) -> bool {
        self.clocks.next().is_some_and(|first| first <= self.at(now))
    }

    /// A target drains no more.
    pub(super) fn remove(&mut self, key: &TargetKey) {
        self.clocks.remove(key);
        self.stated.remove(key);
    }

    /// How much of a target's delay is left, if it drains.
    pub(super) fn left(&self, key: &TargetKey, now: Moment) -> Option<Duration> {
        let deadline = self.clocks.deadline(key)?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.at(now))))
    }

    /// When a target's delay elapses by the wall's clock as it is now, if it drains.
    pub(super) fn ends(&self, key: &TargetKey, now: Moment) -> Option<Timestamp> {
        let (deadline, at) = (self.clocks.deadline(key)?, self.at(now));
        let apart = Duration::from_nanos(deadline.abs_diff(at));
        let ends = if deadline >= at { now.wall.checked_add(apart) } else { now.wall.checked_sub(apart) };
        let ends = Timestamp::from(ends?);
        // The two clocks are not read in one moment, and not quite alike: people are to see one end, and not one that trembles.
        let stated = self.stated.get(key).and_then(|stated| i64::try_from(stated.ends_unix_ms).ok())?;
        let is_as_stated = ends.unix_ms().abs_diff(stated) < SAME_MS;
        Some(if is_as_stated { Timestamp::from_unix_ms(stated) } else { ends })
    }

    fn at(&self, now: Moment) -> u64 {
        nanoseconds(now.monotonic.saturating_duration_since(self.origin))
    }

    fn deadline_of(&self, key: &TargetKey, drain: &Drain<'_>, now: Moment) -> u64 {
        let stated = Stated::of(drain);
        let known = self.stated.get(key).filter(|known| known.since_unix_ms == stated.since_unix_ms);
        if let Some((known, deadline)) = known.zip(self.clocks.deadline(key)) {
            // By another delay it ends so much sooner or later.
            return if stated.ends_unix_ms >= known.ends_unix_ms {
                deadline.saturating_add((stated.ends_unix_ms - known.ends_unix_ms).saturating_mul(MS))
            } else {
                deadline.saturating_sub((known.ends_unix_ms - stated.ends_unix_ms).saturating_mul(MS))
            };
        }
        let ends = UNIX_EPOCH.checked_add(Duration::from_millis(stated.ends_unix_ms));
        let left = ends.and_then(|ends| ends.duration_since(now.wall).ok()).unwrap_or_default();
        self.at(now).saturating_add(nanoseconds(left.min(drain.delay)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::control::model::{Change, State};

    const HOURS: Duration = Duration::from_secs(5 * 3600);
    const SECOND: Duration = Duration::from_secs(1);

    /// A state with one target that drains since then, for a hundred seconds or others.
    fn draining(since: SystemTime, delay: u64) -> State {
        let document = format!(
            r#"{{"version": 1, "load_balancers": [{{"name": "gw", "listener": {{"target_group": "fw"}}}}],
                 "target_groups": [{{"name": "fw", "targets": [{{"address": "192.0.2.1"}}],
                                     "attributes": {{"deregistration_delay.timeout_seconds": {delay}}}}}]}}"#
        );
        let now_unix_ms = u64::try_from(Timestamp::from(since).unix_ms()).unwrap();
        let change = Change::DeregisterTargets {
            target_group: "fw".to_owned(),
            targets: vec![[192, 0, 2, 1].into()],
            now_unix_ms,
        };
        State::from_document(&document).unwrap().apply(&change).unwrap().0
    }

    /// Now, at a whole millisecond, as the objects have it.
    fn began() -> Moment {
        let Moment { monotonic, .. } = Moment::now();
        Moment { wall: UNIX_EPOCH + Duration::from_millis(1_795_985_257_007), monotonic }
    }

    fn key() -> TargetKey {
        TargetKey::new("fw", [192, 0, 2, 1].into())
    }

    /// So much later by each clock.
    fn later(at: Moment, monotonic: Duration, wall: SystemTime) -> Moment {
        Moment { wall, monotonic: at.monotonic + monotonic }
    }

    // T-3
    #[test]
    fn a_drain_takes_its_time_however_the_walls_clock_jumps() {
        for jumped in [|wall: SystemTime| wall + HOURS, |wall: SystemTime| wall - HOURS] {
            let began = began();
            let state = draining(began.wall, 100);
            let mut drains = Drains { origin: began.monotonic, ..Drains::default() };
            drains.follow(state.drains(), began);
            assert_eq!(drains.left(&key(), began), Some(100 * SECOND));
            let before = later(began, 99 * SECOND, jumped(began.wall));
            assert!(!drains.any_due(before));
            // Any other change has the drains looked at anew.
            drains.follow(state.drains(), before);
            assert_eq!(drains.left(&key(), before), Some(SECOND));
            let shown = drains.ends(&key(), before).unwrap();
            assert_eq!(shown, (before.wall + SECOND).into(), "by the clock that people see");
            let over = later(began, 100 * SECOND, jumped(began.wall));
            assert_eq!(drains.due(over), [key()]);
        }
    }

    // A-1, T-3
    #[test]
    fn another_delay_moves_the_end_and_another_drain_has_its_own() {
        let began = began();
        let mut drains = Drains { origin: began.monotonic, ..Drains::default() };
        drains.follow(draining(began.wall, 100).drains(), began);
        let now = later(began, 40 * SECOND, began.wall - HOURS);
        drains.follow(draining(began.wall, 300).drains(), now);
        assert_eq!(drains.left(&key(), now), Some(260 * SECOND));
        let shorter = draining(began.wall, 40);
        assert!(drains.is_over(&key(), &shorter.drains().next().unwrap(), now));
        drains.follow(draining(now.wall, 100).drains(), now);
        assert_eq!(drains.left(&key(), now), Some(100 * SECOND), "it was registered in between");
        drains.follow(std::iter::empty(), now);
        assert_eq!(drains.left(&key(), now), None);
    }

    // T-3
    #[test]
    fn after_a_restart_what_is_left_is_what_the_wall_says_and_never_more_than_the_delay() {
        let began = began();
        let state = draining(began.wall, 100);
        for (wall, left) in [
            (began.wall + 30 * SECOND, 70 * SECOND),
            (began.wall + HOURS, Duration::ZERO),
            // It was set back while the daemon was down.
            (began.wall - HOURS, 100 * SECOND),
        ] {
            let mut drains = Drains { origin: began.monotonic, ..Drains::default() };
            let now = later(began, Duration::ZERO, wall);
            drains.follow(state.drains(), now);
            assert_eq!(drains.left(&key(), now), Some(left));
        }
    }
}
