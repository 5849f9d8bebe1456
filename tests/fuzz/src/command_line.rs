//! What the command line reads that is a language of its own: structures in shorthand, and `--query`.
//!
//! Promises: a fault is one line. Members that are read say the same when they are written again, with everything in
//! quotes and brackets. A query that is read has an answer or a fault, whatever it is asked of.

use flowgate::cli::{Query, shorthand};
use serde_json::{Map, Value, json};

const LONGEST: usize = 1024;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.len() > LONGEST {
        return;
    }
    for alone in [None, Some("Id")] {
        match shorthand(text, alone) {
            // What was written is told back as it was: that is the terminal's own.
            Err(fault) => assert!(!fault.is_empty()),
            Ok(members) => {
                let written = write(&members);
                let again = shorthand(&written, None);
                // A list that went without its brackets has become one step deeper by them.
                if again.as_ref().err().is_none_or(|fault| !fault.contains("too deep")) {
                    assert_eq!(again.as_ref(), Ok(&members), "{text:?} as {written:?}");
                }
            }
        }
    }
    match Query::read(text) {
        Err(fault) => assert!(!fault.is_empty() && !fault.contains('\n'), "{fault:?}"),
        Ok(query) => {
            let result = json!({"Groups": [{"Name": "fw", "Port": 6081, "Tags": ["a", "b"], "On": true}], "None": null});
            if let Err(fault) = query.of(&result) {
                assert!(!fault.is_empty() && !fault.contains('\n'), "{fault:?}");
            }
        }
    }
}

fn write(members: &Map<String, Value>) -> String {
    let written = members.iter().map(|(name, value)| format!("{name}={}", value_of(value)));
    written.collect::<Vec<_>>().join(",")
}

fn value_of(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(value_of).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => format!("{{{}}}", write(members)),
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        other => panic!("no value of shorthand: {other}"),
    }
}
