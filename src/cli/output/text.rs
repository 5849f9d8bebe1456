//! `--output text`, to the letter as `aws` prints it, so that scripts made for `aws elbv2` read it: the scalars of
//! a structure on one line with tabs between them, by key; before them, where the structure is a member of
//! another, that member's name in capitals; what is nested below.

#![forbid(unsafe_code)]

use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) fn text(result: &Value) -> String {
    let mut out = String::new();
    put(result, None, None, &mut out);
    out
}

/// Writes `value`, which is called `name`. The lines of structures in a list all have a place for
/// each of `columns`, which are the scalars of any of them.
fn put(value: &Value, name: Option<&str>, columns: Option<&BTreeSet<&str>>, out: &mut String) {
    match value {
        Value::Object(members) => put_structure(members, name, columns, out),
        Value::Array(items) => put_list(items, name, out),
        scalar => out.push_str(&format!("{}\n", word(scalar))),
    }
}

fn put_list(items: &[Value], name: Option<&str>, out: &mut String) {
    if items.iter().any(Value::is_object) {
        let members = items.iter().filter_map(Value::as_object).flatten();
        let columns = members.filter(|(_, value)| is_scalar(value)).map(|(key, _)| key.as_str()).collect();
        for item in items {
            put(item, name, Some(&columns), out);
        }
        return;
    }
    let (scalars, nested): (Vec<&Value>, Vec<&Value>) = items.iter().partition(|item| is_scalar(item));
    match name {
        Some(name) => {
            for scalar in scalars {
                out.push_str(&format!("{}\t{}\n", name.to_uppercase(), word(scalar)));
            }
        }
        None if scalars.is_empty() => {}
        None => {
            let words: Vec<String> = scalars.into_iter().map(word).collect();
            out.push_str(&format!("{}\n", words.join("\t")));
        }
    }
    for item in nested {
        put(item, name, None, out);
    }
}

fn put_structure(
    members: &Map<String, Value>,
    name: Option<&str>,
    columns: Option<&BTreeSet<&str>>,
    out: &mut String,
) {
    let own = || members.iter().filter(|(_, value)| is_scalar(value)).map(|(key, _)| key.as_str());
    let columns: BTreeSet<&str> = columns.map_or_else(|| own().collect(), Clone::clone);
    let mut words: Vec<String> =
        columns.iter().map(|key| members.get(*key).map_or_else(String::new, word)).collect();
    if !words.is_empty() {
        if let Some(name) = name {
            words.insert(0, name.to_uppercase());
        }
        out.push_str(&format!("{}\n", words.join("\t")));
    }
    let nested: BTreeSet<&str> =
        members.keys().map(String::as_str).filter(|key| !columns.contains(key)).collect();
    for key in nested {
        put(&members[key], Some(key), None, out);
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// A scalar in the words of `aws`, which are Python's.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // The expected text is what aws-cli's own formatter (awscli/text.py) prints for these values.
    #[test]
    fn the_text_is_that_of_aws() {
        for (value, expected) in [
            (json!("fw"), "fw\n"),
            (Value::Null, "None\n"),
            (json!(["fw", 6081, true]), "fw\t6081\tTrue\n"),
            (json!([["fw", 1], ["spare", 0]]), "fw\t1\nspare\t0\n"),
            (json!([]), ""),
            (
                json!({"TargetHealthDescriptions": [
                    {"HealthCheckPort": "80", "Target": {"Id": "10.0.0.1", "Port": 6081},
                     "TargetHealth": {"State": "healthy"}},
                    {"HealthCheckPort": "80", "Target": {"Id": "10.0.0.2", "Port": 6081},
                     "TargetHealth": {"State": "unhealthy", "Reason": "Target.Timeout"}},
                ]}),
                "TARGETHEALTHDESCRIPTIONS\t80\nTARGET\t10.0.0.1\t6081\nTARGETHEALTH\thealthy\n\
                 TARGETHEALTHDESCRIPTIONS\t80\nTARGET\t10.0.0.2\t6081\nTARGETHEALTH\tTarget.Timeout\tunhealthy\n",
            ),
            (
                json!({"TargetGroups": [{"Name": "fw", "LoadBalancerArns": ["a", "b"]}, {"Port": 1}]}),
                "TARGETGROUPS\tfw\t\nLOADBALANCERARNS\ta\nLOADBALANCERARNS\tb\nTARGETGROUPS\t\t1\n",
            ),
        ] {
            assert_eq!(text(&value), expected, "{value}");
        }
    }
}
