//! The calling thread's CPU time: what it did not spend waiting for its CPU, be it for another thread of
//! this machine or, on a virtual one whose host tells, of another machine.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread so far. One system call.
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time that `work` takes.
pub fn of<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = now();
    let result = work();
    (now().saturating_sub(start), result)
}

/// What a measurement of nothing comes to: the part of the two readings that lies between them. The least
/// of many.
pub fn of_nothing() -> Duration {
    (0..1000).map(|_| of(|| ()).0).min().unwrap_or_default()
}

/// Nanoseconds of each of `count` things that took `time` together.
pub fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e9 / count.max(1) as f64
}
