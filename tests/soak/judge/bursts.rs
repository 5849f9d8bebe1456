//! F-13: the longest round of a worker.

use std::time::Duration;

/// Judges the longest round that a worker ever took.
pub fn judge(longest: Duration, bound: Duration) -> Result<(), String> {
    if longest > bound {
        return Err(format!("a round of a worker took {longest:.1?}, more than {bound:.1?}"));
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
        judge(bound, bound).unwrap();
        let told = judge(Duration::from_millis(51), bound).unwrap_err();
        assert_eq!(told, "a round of a worker took 51.0ms, more than 50.0ms");
    }
}
