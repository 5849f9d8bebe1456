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

/// Measurements remembered by [`Nothing`].
const LATELY: usize = 64;

/// What a measurement of nothing came to lately: the part of the two readings that lies between them, which every
/// measurement has in it. The least of the last 64, so that no more is taken off than is there.
#[derive(Clone, Debug)]
pub struct Nothing {
    lately: [Duration; LATELY],
    next: usize,
}

impl Nothing {
    /// Measures it 64 times.
    pub fn measure() -> Nothing {
        Nothing { lately: [(); LATELY].map(|()| of(|| ()).0), next: 0 }
    }

    /// CPU time that `work` takes without it. It is measured once more before.
    pub fn off<T>(&mut self, work: impl FnOnce() -> T) -> (Duration, T) {
        self.note(of(|| ()).0);
        let (time, result) = of(work);
        (time.saturating_sub(self.least()), result)
    }

    fn note(&mut self, time: Duration) {
        self.lately[self.next] = time;
        self.next = (self.next + 1) % LATELY;
    }

    /// The least.
    pub fn least(&self) -> Duration {
        self.lately.into_iter().min().unwrap_or_default()
    }
}

/// Nanoseconds of each of `count` things that took `time` together.
pub fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e9 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_the_least_of_the_last_64() {
        let ns = Duration::from_nanos;
        let mut nothing = Nothing { lately: [ns(400); LATELY], next: 0 };
        nothing.note(ns(300));
        nothing.note(ns(900));
        for _ in 0..LATELY - 2 {
            nothing.note(ns(350));
            assert_eq!(nothing.least(), ns(300));
        }
        // The oldest of them goes.
        nothing.note(ns(500));
        assert_eq!(nothing.least(), ns(350));
        (0..LATELY).for_each(|_| nothing.note(ns(600)));
        assert_eq!(nothing.least(), ns(600));
    }

    #[test]
    fn work_is_measured_without_it() {
        let mut nothing = Nothing { lately: [Duration::from_secs(9); LATELY], next: 0 };
        // Measured once, so that it is no longer 9 s.
        let (time, sum) = nothing.off(|| (0..3_000_000_u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum, 4_499_998_500_000);
        assert!(time > Duration::from_micros(100) && nothing.least() < Duration::from_secs(1), "{time:?}");
    }
}
