//! A table of any JSON, for what `--query` picked and for methods that have no table of their own.
//!
//! A list of structures is a table with a column a member, a structure a table of its members; what
//! is nested in a cell is JSON.

#![forbid(unsafe_code)]

use crate::cli::table::{Look, number, text};
use comfy_table::Cell;
use serde_json::Value;

pub(super) fn table(value: &Value, look: &Look) -> String {
    match value {
        Value::Array(items) => list(items, look),
        Value::Object(members) => {
            let (flat, nested): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| !is_nested(value));
            let rows = flat.into_iter().map(|(key, value)| vec![text(key), cell(Some(value))]);
            let mut shown = match rows.len() {
                0 => String::new(),
                _ => look.table_of(&["KEY", "VALUE"], rows.collect()),
            };
            for (key, value) in nested {
                if !shown.is_empty() {
                    shown.push('\n');
                }
                shown.push_str(&format!("{key}:\n{}", table(value, look)));
            }
            shown
        }
        scalar => format!("{}\n", plain(scalar)),
    }
}

fn list(items: &[Value], look: &Look) -> String {
    if items.is_empty() {
        return "Nothing.\n".to_owned();
    }
    let mut columns: Vec<&str> = Vec::new();
    for key in items.iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    if !columns.is_empty() && items.iter().all(Value::is_object) {
        let rows = items.iter().map(|item| columns.iter().map(|key| cell(item.get(key))).collect());
        return look.table_of(&columns, rows.collect());
    }
    let widest = items.iter().map(|item| item.as_array().map_or(1, Vec::len)).max().unwrap_or(1);
    let rows = items.iter().map(|item| {
        let cells = item.as_array().map_or_else(|| std::slice::from_ref(item), Vec::as_slice);
        (0..widest).map(|at| cells.get(at).map_or_else(|| text(""), |value| cell(Some(value)))).collect()
    });
    look.table_of(&[], rows.collect())
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

fn cell(value: Option<&Value>) -> Cell {
    match value {
        Some(value) if value.is_number() => number(value),
        Some(value) => text(plain(value)),
        None => text("-"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use jiff::tz::TimeZone;
    use serde_json::json;

    #[test]
    fn any_json_is_a_table() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        for (value, expected) in [
            (json!("fw"), "fw\n"),
            (json!([]), "Nothing.\n"),
            (json!(["fw", "spare"]), "fw\nspare\n"),
            (json!([["fw", 10], ["spare", 2]]), "fw     10\nspare   2\n"),
            (
                json!([{"Name": "fw", "Of": ["a"]}, {"Name": "b", "X": null}]),
                "Name  Of     X\nfw    [\"a\"]  -\nb     -      -\n",
            ),
            (
                json!({"Generation": 7, "Groups": [{"Name": "fw"}]}),
                "KEY         VALUE\nGeneration      7\n\nGroups:\nName\nfw\n",
            ),
        ] {
            assert_eq!(table(&value, &look), expected, "{value}");
        }
    }
}
