//! F-13: the longest round of a worker.

use std::time::Duration;

/// Judges the longest round that a worker ever took, by what of it is the worker's own: within the time in which it was, a CPU
/// was waited for so long.
pub fn judge(longest: Duration, waited: Duration, bound: Duration) -> Result<(), String> {
    if longest.saturating_sub(waited) > bound {
        return Err(format!(
            "a round of a worker took {longest:.1?}, of which a CPU was waited for {waited:.1?} at most, more than {bound:.1?}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // F-13
    #[test]
    fn a_round_beyond_the_bound_is_told() {
        let bound = Duration::from_millis(50);
        judge(bound, Duration::ZERO, bound).unwrap();
        judge(Duration::from_millis(400), Duration::from_millis(350), bound).unwrap();
        let told = judge(Duration::from_millis(52), Duration::from_millis(1), bound).unwrap_err();
        assert_eq!(
            told,
            "a round of a worker took 52.0ms, of which a CPU was waited for 1.0ms at most, more than 50.0ms"
        );
    }
}
