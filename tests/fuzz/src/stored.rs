//! The state that the daemon stored, and whatever has become of the file.
//!
//! Promises: a refusal is one line. What is accepted is stored again as it was read, with the change that it tells
//! of; what it exports changes nothing when it is applied; and it shares its form with the operator's document.

use crate::daemon::{is_sound, survives};
use crate::text::is_one_line;
use flowgate::control::model::{ChangeRecord, State};

const LONGEST: usize = 8192;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.len() > LONGEST {
        return;
    }
    match State::from_stored(text) {
        Err(refusal) => is_one_line(&refusal.to_string()),
        Ok(state) => {
            survives(&state);
            is_sound(&state, &state);
            let change = ChangeRecord::of_stored(text);
            let stored = state.to_stored(change.as_ref());
            assert_eq!(ChangeRecord::of_stored(&stored), change);
            assert_eq!(State::from_stored(&stored).unwrap(), state);
            // Every change after it has a number of its own.
            assert!(state.clone().with_generation_above(7).generation() > 7);
        }
    }
}
