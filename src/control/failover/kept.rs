//! The records that have ended, as many as are kept, and the file's text. Pure.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::record::{EndReason, Ending, Failover};

/// Records that are kept after their end.
pub const MAX_KEPT: usize = 200;

/// The version of the file's format.
const VERSION: u64 = 1;

/// Records that have ended, the newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    ended: VecDeque<Failover>,
    next_id: u64,
}

/// Every record there is, and what is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailoverList {
    /// The newest first.
    pub failovers: Vec<Failover>,
    /// Failovers that were not recorded, as too many were under way.
    pub not_recorded: u64,
    /// Why the records are not on disk, if they are not.
    pub not_stored: Option<String>,
}

/// Why a file's text is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReadable {
    /// A newer daemon wrote it.
    #[error("it is in version {0} of the format, which a newer flowgated writes")]
    Newer(u64),
    /// It is not what any wrote.
    #[error("{0}")]
    Damaged(String),
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    version: u64,
    next_id: u64,
    failovers: Vec<&'a Failover>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Read {
    next_id: u64,
    failovers: Vec<Failover>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Versioned {
    version: u64,
}

impl Kept {
    /// What a file holds. Records that were open when it was written have ended with the daemon that wrote it.
    ///
    /// # Errors
    /// If it is not a file of ours.
    pub fn read(text: &str) -> Result<Kept, NotReadable> {
        let damaged = |error: serde_json::Error| NotReadable::Damaged(error.to_string());
        let Versioned { version } = serde_json::from_str(text).map_err(damaged)?;
        if version != VERSION {
            return Err(NotReadable::Newer(version));
        }
        let Read { next_id, mut failovers } = serde_json::from_str(text).map_err(damaged)?;
        for record in &mut failovers {
            let at = record.as_of;
            record.ended.get_or_insert(Ending { at, why: EndReason::Interrupted });
        }
        failovers.sort_by_key(|record| std::cmp::Reverse(record.id));
        failovers.truncate(MAX_KEPT);
        let newest = failovers.first().map_or(0, |record| record.id.saturating_add(1));
        Ok(Kept { ended: failovers.into(), next_id: next_id.max(newest) })
    }

    /// The file's text: these, and the records that are open.
    pub fn text(&self, open: &[&Failover], next_id: u64) -> String {
        let failovers = open.iter().copied().chain(&self.ended).collect();
        let written = Written { version: VERSION, next_id, failovers };
        // Plain data with keys that are text: there is nothing in it that JSON has not.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The number of the next record; 1 is the first.
    pub fn next_id(&self) -> u64 {
        self.next_id.max(1)
    }

    /// Keeps a record that has ended, and forgets the oldest if there is no room.
    pub fn keep(&mut self, record: Failover) {
        let place = self.ended.partition_point(|kept| kept.id > record.id);
        self.ended.insert(place, record);
        self.ended.truncate(MAX_KEPT);
    }

    /// Those that are kept, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Failover> {
        self.ended.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64) -> Failover {
        let at = serde_json::json!({"UnixMs": 5, "Rfc3339": "1970-01-01T00:00:00.005Z"});
        let mark = serde_json::json!({"At": at, "AfterDecisionMicroseconds": 12});
        let text = serde_json::json!({
            "Id": id, "Cause": "unhealthy", "TargetGroup": "fw", "Target": "10.0.0.1",
            "Policy": {"Failover": "no_rebalance", "Reset": true, "DetectionTimeMs": 200},
            "Group": {"Registered": 2, "Healthy": 1}, "Decided": at,
            "Flows": {"AtDecision": 1, "TcpAtDecision": 1, "Begun": 0, "Moved": 0, "Reset": 0, "Ended": 0, "Left": 1},
            "Resets": {"Total": 0}, "DurationsMicroseconds": {}, "AsOf": mark
        });
        serde_json::from_value(text).unwrap()
    }

    fn ids(kept: &Kept) -> Vec<u64> {
        kept.iter().map(|record| record.id).collect()
    }

    #[test]
    fn what_was_open_when_it_was_written_has_ended_with_the_daemon() {
        let mut kept = Kept::default();
        assert_eq!(kept.next_id(), 1);
        let ended =
            Failover { ended: Some(Ending { at: record(1).as_of, why: EndReason::Recovered }), ..record(1) };
        kept.keep(ended.clone());
        let (two, three) = (record(2), record(3));
        let read = Kept::read(&kept.text(&[&three, &two], 7)).unwrap();
        assert_eq!((ids(&read), read.next_id()), (vec![3, 2, 1], 7));
        let interrupted = |record: &Failover| {
            record.ended == Some(Ending { at: record.as_of, why: EndReason::Interrupted })
        };
        let read: Vec<&Failover> = read.iter().collect();
        assert!(interrupted(read[0]) && interrupted(read[1]));
        assert_eq!(read[2], &ended, "and what had ended is as it was");
    }

    #[test]
    fn the_oldest_make_room_and_numbers_are_not_given_twice() {
        let mut kept = Kept::default();
        // As records of several targets end: not in the order of their begin.
        for id in (2..=301).map(|id| id ^ 1) {
            kept.keep(record(id));
        }
        assert_eq!(ids(&kept), (102..=301).rev().collect::<Vec<u64>>());
        let read = Kept::read(&kept.text(&[], 0)).unwrap();
        assert_eq!((ids(&read).len(), read.next_id()), (MAX_KEPT, 302));
    }

    #[test]
    fn what_is_none_of_ours_is_refused() {
        assert_eq!(Kept::read(r#"{"Version": 2, "Whatever": 1}"#), Err(NotReadable::Newer(2)));
        for text in
            ["", "{}", "null", r#"{"Version": 1}"#, r#"{"Version": 1, "NextId": 1, "Failovers": [{}]}"#]
        {
            assert!(matches!(Kept::read(text), Err(NotReadable::Damaged(_))), "{text}");
        }
        // What a later daemon of this format may add does no harm.
        let text = Kept::default().text(&[], 4).replace("\"NextId\"", "\"More\":{},\"NextId\"");
        assert_eq!(Kept::read(&text).map(|kept| kept.next_id()), Ok(4));
    }
}
