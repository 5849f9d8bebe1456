//! How long a target took to answer the checks that it answered: what an operator holds against the timeout before a
//! busy appliance is taken for a dead one (`flowgate audit`).

use std::time::{Duration, Instant};

/// The slowest answer of the last one to two of these is known.
const WINDOW: Duration = Duration::from_secs(600);

/// A new answer's share in the usual time: one in so many.
const WEIGHT: u32 = 16;

/// A target's answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    count: u64,
    usual: Duration,
    slowest: Duration,
    slowest_before: Duration,
    window_began: Option<Instant>,
}

/// What is known of how fast a target answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTimes {
    /// Checks that it answered as it should.
    pub count: u64,
    /// What an answer takes as a rule: a mean in which the latest answers weigh most.
    pub usual: Duration,
    /// The slowest of the last ten to twenty minutes in which there was one.
    pub slowest: Duration,
}

impl Answers {
    /// An answer took so long.
    pub(super) fn note(&mut self, took: Duration, now: Instant) {
        let began = *self.window_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= WINDOW {
            self.slowest_before = std::mem::take(&mut self.slowest);
            self.window_began = Some(now);
        }
        self.slowest = self.slowest.max(took);
        self.usual = if self.count == 0 { took } else { (self.usual * (WEIGHT - 1) + took) / WEIGHT };
        self.count += 1;
    }

    /// What is known.
    pub(super) fn times(&self) -> AnswerTimes {
        AnswerTimes { count: self.count, usual: self.usual, slowest: self.slowest.max(self.slowest_before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_answer_is_known_for_ten_minutes_and_forgotten_after_twenty() {
        let (mut answers, start, ms) = (Answers::default(), Instant::now(), Duration::from_millis);
        answers.note(ms(90), start);
        for minutes in 1..=9 {
            answers.note(ms(10), start + Duration::from_secs(60 * minutes));
        }
        assert_eq!(answers.times().slowest, ms(90));
        assert_eq!(answers.times().count, 10);
        answers.note(ms(10), start + Duration::from_secs(600));
        assert_eq!(answers.times().slowest, ms(90), "of the ten minutes before");
        answers.note(ms(20), start + Duration::from_secs(1200));
        assert_eq!(answers.times().slowest, ms(20));
    }

    #[test]
    fn what_is_usual_follows_slowly() {
        let (mut answers, now, ms) = (Answers::default(), Instant::now(), Duration::from_millis);
        answers.note(ms(16), now);
        assert_eq!(answers.times().usual, ms(16));
        answers.note(ms(32), now);
        assert_eq!(answers.times().usual, ms(17));
    }
}
