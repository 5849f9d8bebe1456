//! The highest rate at which hardly anything is lost, by halving (RFC 2544 26.1). Each trial lasts a few seconds,
//! and what is on its way arrives before it is judged.

/// Trials, after which the rate is known to a hundredth of where the search began.
const TRIALS: u32 = 8;

/// A trial's load and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Packets a second that were asked for.
    pub asked: u64,
    /// Packets a second that were sent.
    pub sent: f64,
    /// The share that was lost.
    pub loss: f64,
}

impl Trial {
    /// Whether little enough was lost. That less was sent than asked for is no fault of the gateway's, or the
    /// very thing by which it says that it takes no more: what counts is what was sent.
    pub fn holds(&self, most_lost: f64) -> bool {
        self.loss <= most_lost
    }
}

/// Searches below what `trial` sent when it was asked for all that goes (`u64::MAX`). Returns the best trial that
/// held; `None` if none did.
///
/// # Errors
/// Those of `trial`.
pub fn highest<E>(
    most_lost: f64,
    mut trial: impl FnMut(u64) -> Result<Trial, E>,
) -> Result<Option<Trial>, E> {
    let first = trial(u64::MAX)?;
    if first.holds(most_lost) {
        return Ok(Some(first));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are not negative")]
    let (mut low, mut high, mut best) = (0, first.sent as u64, None);
    for _ in 0..TRIALS {
        let asked = low + (high - low) / 2;
        let seen = trial(asked)?;
        if seen.holds(most_lost) {
            (low, best) = (asked, Some(seen));
        } else {
            high = asked;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway that forwards so many packets a second, and a generator that makes at most 10 million.
    fn gateway(takes: u64) -> impl FnMut(u64) -> Result<Trial, ()> {
        move |asked| {
            let sent = asked.min(10_000_000) as f64;
            Ok(Trial { asked, sent, loss: (1.0 - takes as f64 / sent).max(0.0) })
        }
    }

    #[test]
    fn the_rate_found_is_just_below_what_the_gateway_takes() {
        let best = highest(0.0, gateway(3_210_000)).expect("no errors").expect("some rate");
        assert!((3_130_000..=3_210_000).contains(&best.asked), "{best:?}");
        let tolerant = highest(0.1, gateway(3_210_000)).expect("no errors").expect("some rate");
        assert!((3_480_000..=3_570_000).contains(&tolerant.asked), "{tolerant:?}");
    }

    #[test]
    fn a_gateway_that_forwards_nothing_has_no_rate() {
        assert_eq!(highest(0.0, gateway(0)), Ok(None));
    }

    #[test]
    fn a_gateway_that_takes_all_that_the_generator_sends_is_tried_once() {
        let mut trials = 0;
        let mut gateway = gateway(50_000_000);
        let best = highest(0.0, |asked| {
            trials += 1;
            gateway(asked)
        });
        assert_eq!(best.map(|best| best.map(|best| best.sent)), Ok(Some(10_000_000.0)));
        assert_eq!(trials, 1);
    }
}
