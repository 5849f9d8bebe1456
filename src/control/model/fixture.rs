//! A small state for the tests of this room.

use super::State;

/// A gateway `gw` whose listener forwards to the group `fw` with the targets 10.0.0.1 (zone `a`,
/// weight 1) and 10.0.0.2 (no zone, weight 3), and a group `spare` that nothing uses.
pub(super) const DOCUMENT: &str = r#"{
    "version": 1,
    "load_balancers": [
        { "name": "gw", "listener": { "target_group": "fw" } }
    ],
    "target_groups": [
        { "name": "fw", "targets": [
            { "address": "10.0.0.1", "zone": "a" },
            { "address": "10.0.0.2", "weight": 3 }
        ] },
        { "name": "spare" }
    ]
}"#;

pub(super) fn state() -> State {
    State::from_document(DOCUMENT).expect("the fixture is valid")
}

/// Keys and values as a request has them.
pub(super) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
