//! What a stored document tells of the change that led to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::model::objects::State;

/// Sentences that a record has at most: a change may register thousands of targets.
const MAX_SENTENCES: usize = 20;

/// The change that led to a state: when it was made, by whom, and what it did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "Change")]
pub struct ChangeRecord {
    /// The generation that it made.
    pub generation: u64,
    /// When it was made, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Who made it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What it made different, each in one sentence.
    pub what: Vec<String>,
}

impl ChangeRecord {
    /// The record of a change from `old` to `new`.
    #[must_use]
    pub fn new(old: &State, new: &State, unix_ms: u64, by: Option<&str>) -> ChangeRecord {
        let differences = crate::control::model::difference(old, new);
        let mut what: Vec<String> = differences.iter().take(MAX_SENTENCES).map(ToString::to_string).collect();
        if differences.len() > MAX_SENTENCES {
            what.push(format!("and {} more", differences.len() - MAX_SENTENCES));
        }
        ChangeRecord { generation: new.generation(), unix_ms, by: by.map(str::to_owned), what }
    }

    /// The change that a stored document tells of; none if it tells of none or cannot be read.
    #[must_use]
    pub fn of_stored(json: &str) -> Option<ChangeRecord> {
        #[derive(Deserialize)]
        struct Told {
            #[serde(default)]
            last_change: Option<ChangeRecord>,
        }
        let told: Told = serde_json::from_str(json).ok()?;
        told.last_change
    }
}
