//! Flat memory: the slope of the resident size in one life of the daemon, warm-up left out.

use std::time::Duration;

/// What of a life is warm-up: tables of peaks, histories and caches fill.
pub const WARM_UP: Duration = Duration::from_secs(20);
/// A shorter life, warm-up left out, has no slope that would say anything.
pub const SHORTEST: Duration = Duration::from_secs(20);
/// Growth that a life may have in all, whatever its slope: up to three captures at a time have a ring of 4 MiB a worker each,
/// which the allocator keeps for the next; histories that are bounded fill.
pub const ALLOWED: f64 = 20.0 * MIB;
/// Beyond that, growth by the hour.
pub const ALLOWED_AN_HOUR: f64 = 2.0 * MIB;

const MIB: f64 = 1048576.0;

/// Resident sizes in one life of the daemon: how long it had run, and bytes.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub samples: Vec<(Duration, usize)>,
    /// When it first had told of a panic. For the calls that led there the program's debug information is read, and kept: once
    /// in a life, and no leak.
    pub told_panic: Option<Duration>,
}

/// What a life's memory did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    pub over: Duration,
    /// By the line that fits best.
    pub bytes_an_hour: f64,
    /// By that line, over the life.
    pub grown: f64,
    pub highest: usize,
}

impl Life {
    /// The slope after warm-up; none of a life that is too short.
    pub fn slope(&self) -> Option<Slope> {
        let warm: Vec<(f64, f64)> = self
            .samples
            .iter()
            .filter(|(age, _)| *age >= WARM_UP.max(self.told_panic.unwrap_or_default()))
            .map(|(age, bytes)| {
                (age.as_secs_f64(), f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) * 1024.0)
            })
            .collect();
        let (first, last) = (warm.first()?.0, warm.last()?.0);
        let over = Duration::from_secs_f64(last - first);
        if over < SHORTEST {
            return None;
        }
        let count = f64::from(u32::try_from(warm.len()).ok()?);
        let mean = |of: fn(&(f64, f64)) -> f64| warm.iter().map(of).sum::<f64>() / count;
        let (middle, level) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let rise: f64 = warm.iter().map(|(at, bytes)| (at - middle) * (bytes - level)).sum();
        let run: f64 = warm.iter().map(|(at, _)| (at - middle).powi(2)).sum();
        let a_second = rise / run;
        let highest = self.samples.iter().map(|sample| sample.1).max()?;
        Some(Slope { over, bytes_an_hour: a_second * 3600.0, grown: a_second * over.as_secs_f64(), highest })
    }
}

/// Judges a life by its slope.
pub fn judge(slope: &Slope) -> Result<(), String> {
    let allowed = ALLOWED + ALLOWED_AN_HOUR * slope.over.as_secs_f64() / 3600.0;
    if slope.grown > allowed {
        return Err(format!(
            "resident memory grew by {:.1} MiB in {:.0?} after warm-up, {:.1} MiB an hour; {:.1} MiB are allowed",
            slope.grown / MIB,
            slope.over,
            slope.bytes_an_hour / MIB,
            allowed / MIB
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A life that begins at 100 MiB, jumps by 30 while it warms up, and then grows by so many KiB a second.
    fn life(seconds: u64, growth: usize) -> Life {
        let size = |second: u64| match second {
            0..10 => 100 << 20,
            _ => (130 << 20) + usize::try_from(second).unwrap() * growth * 1024,
        };
        let samples = (0..seconds).map(|second| (Duration::from_secs(second), size(second))).collect();
        Life { samples, told_panic: None }
    }

    #[test]
    fn a_leak_is_told_and_warm_up_is_none() {
        judge(&life(600, 0).slope().unwrap()).unwrap();
        judge(&life(600, 20).slope().unwrap()).unwrap();
        let leak = life(600, 40).slope().unwrap();
        assert!((leak.bytes_an_hour / MIB - 140.6).abs() < 0.1, "{leak:?}");
        let told = judge(&leak).unwrap_err();
        assert!(told.starts_with("resident memory grew by 22.6 MiB in 579s"), "{told}");
    }

    #[test]
    fn a_slow_leak_is_told_by_a_long_run() {
        // 0.9 MiB an hour is what a history that fills may take; 18 MiB a day more are none.
        let day = Life {
            samples: (0..24 * 60)
                .map(|m| (Duration::from_secs(m * 60), (200 << 20) + usize::try_from(m).unwrap() * 100_000))
                .collect(),
            told_panic: None,
        };
        judge(&day.slope().unwrap()).unwrap_err();
    }

    #[test]
    fn what_the_first_panic_reads_is_no_leak_and_a_leak_goes_on_after_it() {
        let with_panic = |growth| {
            let mut life = life(600, growth);
            life.samples
                .iter_mut()
                .filter(|(age, _)| age.as_secs() >= 60)
                .for_each(|(_, bytes)| *bytes += 110 << 20);
            life
        };
        judge(&with_panic(0).slope().unwrap()).unwrap_err();
        let told_panic = Some(Duration::from_secs(61));
        judge(&Life { told_panic, ..with_panic(0) }.slope().unwrap()).unwrap();
        judge(&Life { told_panic, ..with_panic(60) }.slope().unwrap()).unwrap_err();
    }

    #[test]
    fn a_short_life_says_nothing() {
        assert_eq!(life(39, 1000).slope(), None);
        assert_eq!(Life::default().slope(), None);
    }
}
