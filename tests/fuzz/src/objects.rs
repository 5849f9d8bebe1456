//! The document of objects that an operator writes.
//!
//! Promises: a refusal is one line. What is accepted survives export and import, restart, and being applied to an
//! empty node or to itself, unchanged.

use crate::daemon::{is_sound, survives};
use crate::text::is_one_line;
use flowgate::control::model::{Change, State, difference};

const LONGEST: usize = 8192;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.len() > LONGEST {
        return;
    }
    match State::from_document(text) {
        Err(refusal) => is_one_line(&refusal.to_string()),
        Ok(state) => {
            survives(&state);
            is_sound(&state, &state);
            exported_and_imported(&state);
            applied_to_nothing(text, &state);
        }
    }
}

/// A document of a state without drains leads to that state.
pub fn exported_and_imported(state: &State) {
    let document = serde_json::to_string(&state.export()).unwrap();
    let again = State::from_document(&document).unwrap_or_else(|fault| panic!("{fault} in {document}"));
    let left_out = |state: &State| state.drains().count();
    if left_out(state) == 0 {
        assert_eq!(difference(state, &again), []);
        assert_eq!(serde_json::to_string(&again.export()).unwrap(), document);
    }
}

/// To seed a node and to apply to an empty one is the same.
fn applied_to_nothing(text: &str, seeded: &State) {
    let document = serde_json::from_str(text).unwrap();
    let (applied, _) = State::default()
        .apply(&Change::ApplyDocument { document, now_unix_ms: 1 })
        .unwrap_or_else(|fault| panic!("a seed that cannot be applied: {fault}"));
    // Which numbers ids are derived from is not the same.
    let names = |state: &State| -> Vec<String> {
        let sentences = difference(&State::default(), state);
        sentences.iter().map(ToString::to_string).collect()
    };
    if seeded.drains().count() == 0 {
        assert_eq!(names(&applied), names(seeded));
    }
}
