//! The time of day, which may jump: to be shown and stored. What lasts is measured by the monotonic clock.

#![forbid(unsafe_code)]

use std::time::SystemTime;

/// Now.
pub fn now() -> SystemTime {
    let now = SystemTime::now();
    #[cfg(any(debug_assertions, feature = "faults"))]
    let now = jump::of(now);
    now
}

/// A clock that jumps, for tests.
#[cfg(any(debug_assertions, feature = "faults"))]
pub mod jump {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::{Duration, SystemTime};

    static BY_MS: AtomicI64 = AtomicI64::new(0);

    /// From here on the clock is so much ahead of the system's, or behind it.
    pub fn by(milliseconds: i64) {
        BY_MS.store(milliseconds, Ordering::Relaxed);
    }

    pub(super) fn of(now: SystemTime) -> SystemTime {
        let by = BY_MS.load(Ordering::Relaxed);
        let apart = Duration::from_millis(by.unsigned_abs());
        let jumped = if by < 0 { now.checked_sub(apart) } else { now.checked_add(apart) };
        jumped.unwrap_or(now)
    }
}
