//! The data path's clock: the CPU's time stamp counter, turned into [`Millis`]. A worker reads it
//! once a burst, for some ten nanoseconds and no system call.
//!
//! The control core makes one clock at start and gives each worker a copy, so that all of them agree:
//! an invariant counter runs at one rate on every core, and the kernel keeps the cores' in step.
//! Without such a counter (another architecture, some virtual machines) the kernel's monotonic clock
//! takes its place, at about twice the cost.

use std::time::{Duration, Instant, SystemTime};

use crate::id::Millis;

/// How long the counter is held against the kernel's clock at start: the two reads at its ends are
/// within 0.1 µs of each other, so the rate is right to a few parts in a million.
const CALIBRATION: Duration = Duration::from_millis(20);

/// A clock whose copies agree.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// The counter's value when the clock was made.
    origin: u64,
    /// Milliseconds a cycle, in units of 2⁻⁶⁴.
    millis_per_cycle: u64,
    cycles_per_second: u64,
    /// Milliseconds by which the clock was put forward.
    advanced: u32,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The CPU's time stamp counter.
    #[cfg(target_arch = "x86_64")]
    Counter,
    /// The kernel's monotonic clock: nanoseconds since the clock was made.
    Kernel(Instant),
}

impl Source {
    #[inline]
    fn read(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Source::Counter => read_counter(),
            #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds")]
            Source::Kernel(start) => start.elapsed().as_nanos() as u64,
        }
    }
}

impl Clock {
    /// A clock that starts at 0 now, over the best source that the machine has. Takes 20 ms.
    pub fn start() -> Clock {
        #[cfg(target_arch = "x86_64")]
        if counter_is_invariant() {
            return Clock::over(Source::Counter, calibrate());
        }
        Clock::over_kernel_time()
    }

    /// The same over a source whose rate is known from another process of this boot. Takes no time.
    pub fn at_rate(cycles_per_second: u64) -> Clock {
        #[cfg(target_arch = "x86_64")]
        if counter_is_invariant() {
            return Clock::over(Source::Counter, cycles_per_second);
        }
        let _: u64 = cycles_per_second;
        Clock::over_kernel_time()
    }

    fn over_kernel_time() -> Clock {
        Clock::over(Source::Kernel(Instant::now()), 1_000_000_000)
    }

    fn over(source: Source, cycles_per_second: u64) -> Clock {
        // 1000 / rate × 2⁶⁴. A counter runs at a million cycles a second at least, so that this fits.
        let rate = cycles_per_second.max(1_000_000);
        #[expect(clippy::cast_possible_truncation, reason = "below 2⁶⁴ / 1000")]
        let millis_per_cycle = ((1000u128 << 64) / u128::from(rate)) as u64;
        Clock { source, origin: source.read(), millis_per_cycle, cycles_per_second: rate, advanced: 0 }
    }

    /// Milliseconds since the clock was made, and what it was put forward by.
    #[inline]
    pub fn now(&self) -> Millis {
        self.at(self.source.read())
    }

    /// The same when [`Clock::cycles`] was `cycles`.
    #[inline]
    pub fn at(&self, cycles: u64) -> Millis {
        let passed = cycles.saturating_sub(self.origin);
        #[expect(clippy::cast_possible_truncation, reason = "Millis wraps")]
        let millis = ((u128::from(passed) * u128::from(self.millis_per_cycle)) >> 64) as u32;
        Millis(millis.wrapping_add(self.advanced))
    }

    /// The source's own count: to measure how long something takes.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.source.read()
    }

    /// How often it counts in a second.
    pub fn cycles_per_second(&self) -> u64 {
        self.cycles_per_second
    }

    /// The time of day when [`Clock::cycles`] was `at`, now or in the past.
    pub fn time_of_day_of_cycle(&self, at: u64) -> SystemTime {
        let ago = self.duration_of(self.cycles().saturating_sub(at));
        let wall = SystemTime::now();
        wall.checked_sub(ago).unwrap_or(wall)
    }

    /// Nanoseconds that one cycle takes.
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2⁵³")]
    pub fn nanoseconds_per_cycle(&self) -> f64 {
        1e9 / self.cycles_per_second as f64
    }

    /// A number of cycles as time.
    pub fn duration_of(&self, cycles: u64) -> Duration {
        let nanoseconds = u128::from(cycles) * 1_000_000_000 / u128::from(self.cycles_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Puts this copy forward by `ms`: a test waits for no timeout. The copies of the other workers
    /// and of the control core must be put forward by as much.
    pub fn advance(&mut self, ms: u32) {
        self.advanced = self.advanced.wrapping_add(ms);
    }

    /// The time of day at `at`, which is less than 24 days ago or ahead. Taken from the system's
    /// clock as it is now, so it follows that clock's corrections.
    pub fn time_of_day(&self, at: Millis) -> SystemTime {
        let now = self.now();
        let wall = SystemTime::now();
        let (ago, ahead) = (now.since(at), at.since(now));
        let time = if ahead > 0 {
            wall.checked_add(Duration::from_millis(ahead.into()))
        } else {
            wall.checked_sub(Duration::from_millis(ago.into()))
        };
        time.unwrap_or(wall)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; Linux does not forbid it to a process.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the counter runs at one rate whatever the CPU's frequency and sleep (CPUID 8000_0007h,
/// EDX bit 8).
#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
}

/// The counter's rate in cycles a second.
#[cfg(target_arch = "x86_64")]
fn calibrate() -> u64 {
    let (start, from) = read_both();
    std::thread::sleep(CALIBRATION);
    let (end, to) = read_both();
    let nanoseconds = end.duration_since(start).as_nanos().max(1);
    let rate = u128::from(to.saturating_sub(from)) * 1_000_000_000 / nanoseconds;
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Both clocks at one moment: of some tries the one in which the counter moved least, so that an
/// interruption between the two reads does not count.
#[cfg(target_arch = "x86_64")]
fn read_both() -> (Instant, u64) {
    let mut best = (u64::MAX, Instant::now(), 0);
    for _ in 0..16 {
        let before = read_counter();
        let instant = Instant::now();
        let after = read_counter();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, instant, before + width / 2);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Clock; 2] {
        [Clock::start(), Clock::over_kernel_time()]
    }

    #[test]
    fn time_passes_as_the_kernels_clock_has_it() {
        for clock in both() {
            let (start, from, cycles) = (Instant::now(), clock.now(), clock.cycles());
            std::thread::sleep(Duration::from_millis(300));
            let (to, cycles, real) = (clock.now(), clock.cycles() - cycles, start.elapsed());
            let real_ms = u32::try_from(real.as_millis()).expect("short");
            assert!(to.since(from).abs_diff(real_ms) <= 1, "{clock:?}: {} ms for {real_ms}", to.since(from));
            // 200 parts in a million, and 20 µs for a thread that lost the CPU between two reads.
            let error = clock.duration_of(cycles).abs_diff(real);
            assert!(error < real / 5000 + Duration::from_micros(500), "{clock:?}: off by {error:?}");
        }
    }

    #[test]
    fn a_rate_that_is_known_need_not_be_found_out() {
        let (known, begin) = (Clock::start(), Instant::now());
        let clock = Clock::at_rate(known.cycles_per_second());
        assert!(begin.elapsed() < CALIBRATION);
        assert_eq!(clock.cycles_per_second(), known.cycles_per_second());
        std::thread::sleep(Duration::from_millis(50));
        let passed = (clock.now().0, known.now().since(Millis(0)));
        assert!(passed.0 >= 49 && passed.1 >= passed.0, "{passed:?}");
    }

    #[test]
    fn copies_agree_and_never_run_backwards() {
        for clock in both() {
            let copy = clock.clone();
            let mut last = clock.now();
            for _ in 0..10_000 {
                let next = copy.now();
                assert!(next.since(last) < 1000, "from {last:?} to {next:?}");
                assert_eq!(last.since(next), 0);
                last = clock.now();
            }
        }
    }

    #[test]
    fn a_clock_put_forward_is_ahead_of_its_copies_by_that_much() {
        let clock = Clock::start();
        let mut test = clock.clone();
        test.advance(350_000);
        test.advance(10);
        let ahead = test.now().since(clock.now());
        assert!((350_010..350_500).contains(&ahead), "{ahead}");
    }

    #[test]
    fn the_time_of_a_count_is_the_time_when_it_was_read() {
        for mut clock in both() {
            clock.advance(1000);
            let (before, count, after) = (clock.now(), clock.cycles(), clock.now());
            std::thread::sleep(Duration::from_millis(3));
            let at = clock.at(count);
            assert!(
                at.since(before) <= after.since(before) && clock.now().since(at) >= 2,
                "{clock:?}: {at:?}"
            );
        }
    }

    #[test]
    fn time_goes_on_over_the_wrap() {
        let mut clock = Clock::start();
        clock.advance(u32::MAX);
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(5));
        assert!((5..1000).contains(&clock.now().since(before)));
    }

    #[test]
    fn a_point_of_the_past_and_one_to_come_have_their_time_of_day() {
        let mut clock = Clock::start();
        let then = (clock.now(), SystemTime::now());
        clock.advance(60_000);
        let minute_ago = clock.time_of_day(then.0);
        let expected = then.1 - Duration::from_secs(60);
        let error = minute_ago.duration_since(expected).unwrap_or_else(|error| error.duration());
        assert!(error < Duration::from_millis(500), "{error:?}");

        let ahead = clock.time_of_day(clock.now().plus(5000));
        let until = ahead.duration_since(SystemTime::now()).expect("to come");
        assert!((4500..=5000).contains(&until.as_millis()), "{until:?}");
    }

    #[test]
    fn a_cycle_of_the_past_has_its_time_of_day() {
        for clock in both() {
            let then = (clock.cycles(), SystemTime::now());
            std::thread::sleep(Duration::from_millis(30));
            let seen = clock.time_of_day_of_cycle(then.0);
            let error = seen.duration_since(then.1).unwrap_or_else(|error| error.duration());
            assert!(error < Duration::from_millis(10), "{error:?}");
            assert_eq!(clock.duration_of(clock.cycles_per_second()), Duration::from_secs(1));
        }
    }

    #[test]
    fn cycles_and_nanoseconds_are_turned_into_each_other() {
        let clock = Clock::over_kernel_time();
        assert!((clock.nanoseconds_per_cycle() - 1.0).abs() < 1e-9);
        assert_eq!(clock.duration_of(1_500), Duration::from_nanos(1_500));
    }
}
