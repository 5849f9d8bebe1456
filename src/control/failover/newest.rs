//! Which records tell how targets' last failovers went: the newest of each, for as long as somebody may ask. Pure.

use std::collections::HashSet;

use super::record::Failover;
use crate::control::events::Timestamp;

/// Targets whose newest record is told of at most.
pub const MAX_TARGETS: usize = 200;

/// How long a record that has ended is told of.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Of each target the newest record that goes on or has ended within the last day, the newest first. `records` are in
/// this order too.
pub fn newest_of_each<'a>(
    records: impl IntoIterator<Item = &'a Failover>,
    now: Timestamp,
) -> Vec<&'a Failover> {
    let mut targets = HashSet::new();
    let told =
        records.into_iter().filter(|record| record.ended.is_none_or(|end| now.since(end.at.at) <= DAY_MS));
    told.filter(|record| targets.insert((record.target_group.as_str(), record.target)))
        .take(MAX_TARGETS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::failover::{EndReason, Ending, Mark};
    use serde_json::json;

    const NOW: i64 = 1_795_985_257_007;

    /// A record, which ended so many milliseconds ago; none: which goes on.
    fn record(id: u64, (group, target): (&str, &str), ended_ago: Option<i64>) -> Failover {
        let mark = |ago: i64| Mark { at: Timestamp::from_unix_ms(NOW - ago), after_decision_microseconds: 0 };
        let text = json!({
            "Id": id, "Cause": "unhealthy", "TargetGroup": group, "Target": target,
            "Policy": {"Failover": "no_rebalance", "Reset": true, "DetectionTimeMs": 200},
            "Group": {"Registered": 2, "Healthy": 1}, "Decided": mark(0).at,
            "Flows": {"AtDecision": 0, "TcpAtDecision": 0, "Begun": 0, "Moved": 0, "Reset": 0, "Ended": 0, "Left": 0},
            "Resets": {"Total": 0}, "DurationsMicroseconds": {}, "AsOf": mark(0)
        });
        let ended = ended_ago.map(|ago| Ending { at: mark(ago), why: EndReason::Recovered });
        Failover { ended, ..serde_json::from_value(text).unwrap() }
    }

    fn told(records: &[Failover]) -> Vec<u64> {
        newest_of_each(records, Timestamp::from_unix_ms(NOW)).iter().map(|record| record.id).collect()
    }

    #[test]
    fn of_each_target_it_is_the_newest_and_a_day_is_enough() {
        let day = i64::try_from(DAY_MS).unwrap();
        let records = [
            record(9, ("fw", "10.0.0.1"), Some(5)),
            record(8, ("fw", "10.0.0.1"), None),
            record(7, ("other", "10.0.0.1"), Some(day)),
            record(6, ("fw", "10.0.0.2"), Some(day + 1)),
            record(5, ("fw", "10.0.0.3"), None),
            // The clock was put back since it ended.
            record(4, ("fw", "10.0.0.4"), Some(-5)),
            // One that goes on is told of, whatever came after it.
            record(3, ("fw", "10.0.0.2"), None),
        ];
        assert_eq!(told(&records), [9, 7, 5, 4, 3]);
    }

    #[test]
    fn a_fleet_that_fails_as_a_whole_is_told_of_in_part() {
        let address = |id: u64| format!("10.0.{}.{}", id / 256, id % 256);
        let records: Vec<Failover> =
            (0..300).rev().map(|id| record(id, ("fw", &address(id)), None)).collect();
        assert_eq!(told(&records), (100..300).rev().collect::<Vec<u64>>());
    }
}
