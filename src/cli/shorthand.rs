//! Structures on the command line, in the three forms that `aws` takes: its shorthand
//! (`Id=10.0.0.1,Weight=2`), JSON (a structure or a list of them), and `file://PATH` with either in it.
//!
//! What a structure's members are called and of what type they are is known from its schema, so that a
//! method's parameters are written once. A fault is one sentence, with the nearest right word.

#![forbid(unsafe_code)]

mod grammar;

pub use grammar::members;

use crate::control::nearest::nearest;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The structures of one argument: one in shorthand, any number in JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed<T>(Vec<T>);

/// The structures of all arguments of a flag, in their order.
pub(super) fn all<T>(arguments: Vec<Listed<T>>) -> Vec<T> {
    arguments.into_iter().flat_map(|Listed(structures)| structures).collect()
}

/// Reads structures of any kind.
pub(super) fn structures<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<Listed<T>, String> {
    read(text, None, |_| {}).map(Listed)
}

/// Reads targets: `Id=ADDRESS,…`, or the address alone.
pub(super) fn targets<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<Listed<T>, String> {
    read(text, Some("Id"), |_| {}).map(Listed)
}

/// Reads a listener's actions: `Type=forward,TargetGroupArn=NAME|ARN`, or the target group alone.
pub(super) fn actions<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<Listed<T>, String> {
    // What every action of a gateway's listener is.
    let forward = |members: &mut Map<String, Value>| {
        members.entry("Type").or_insert_with(|| "forward".into());
    };
    read(text, Some("TargetGroupArn"), forward).map(Listed)
}

/// Reads the one structure of codes: `HttpCode=CODES`, or the codes alone.
pub(super) fn matcher<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, String> {
    match <[T; 1]>::try_from(read(text, Some("HttpCode"), |_| {})?) {
        Ok([one]) => Ok(one),
        Err(others) => Err(format!("expected one structure, found {}", others.len())),
    }
}

/// Reads one word of a type that is a word in JSON.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Reads `text`. One without `=` is the value of the member `alone`, if there is such a one.
fn read<T: DeserializeOwned + JsonSchema>(
    text: &str,
    alone: Option<&str>,
    complete: impl Fn(&mut Map<String, Value>),
) -> Result<Vec<T>, String> {
    let from_file;
    let text = match text.strip_prefix("file://") {
        None => text,
        Some(path) => {
            from_file =
                std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
            from_file.trim()
        }
    };
    let json = || serde_json::from_str::<Value>(text).map_err(|error| format!("it is not JSON: {error}"));
    let items = match text.as_bytes().first() {
        Some(b'[') => match json()? {
            Value::Array(items) => items,
            other => vec![other],
        },
        Some(b'{') => vec![json()?],
        _ => vec![Value::Object(grammar::members(text, alone)?)],
    };
    let schema = schema_for!(T);
    items
        .into_iter()
        .map(|mut item| {
            if let Value::Object(members) = &mut item {
                complete(members);
            }
            let item = fitted(item, schema.as_value(), &schema)?;
            serde_path_to_error::deserialize(item).map_err(|error| match error.path().to_string() {
                path if path == "." => error.into_inner().to_string(),
                path => format!("{path}: {}", error.into_inner()),
            })
        })
        .collect()
}

/// `value` with the types that `schema`, a part of `root`, says: in shorthand all is text.
fn fitted(value: Value, schema: &Value, root: &Schema) -> Result<Value, String> {
    let schema = resolved(schema, root);
    match value {
        Value::Object(members) => {
            let Some(known) = schema["properties"].as_object() else { return Ok(Value::Object(members)) };
            let fit = |(key, value): (String, Value)| match known.get(&key) {
                Some(schema) => Ok((key, fitted(value, schema, root)?)),
                None => Err(unknown(&key, known)),
            };
            members.into_iter().map(fit).collect::<Result<_, String>>().map(Value::Object)
        }
        Value::Array(items) if is(schema, "string") => {
            // A value with commas in it reads as a list.
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Ok(words.map_or_else(|| Value::Array(items.clone()), |words| words.join(",").into()))
        }
        Value::Array(items) => {
            let fit = |item| fitted(item, &schema["items"], root);
            items.into_iter().map(fit).collect::<Result<_, String>>().map(Value::Array)
        }
        Value::String(text) if is(schema, "integer") => Ok(match text.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => return Err(format!("'{text}' must be a number")),
        }),
        Value::String(text) if is(schema, "boolean") => Ok(match text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            _ => return Err(format!("'{text}' must be true or false")),
        }),
        Value::String(text) if is(schema, "array") => fitted(Value::Array(vec![text.into()]), schema, root),
        other => Ok(other),
    }
}

/// The schema that a reference or an optional value's schema stands for.
fn resolved<'a>(schema: &'a Value, root: &'a Schema) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return root.as_value()["$defs"].get(name).unwrap_or(schema);
    }
    let some = |options: &'a Vec<Value>| options.iter().find(|option| option["type"] != "null");
    match schema["anyOf"].as_array().and_then(some) {
        Some(option) => resolved(option, root),
        None => schema,
    }
}

fn is(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

fn unknown(key: &str, known: &Map<String, Value>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    match nearest(key, names.iter().copied()) {
        Some(nearest) => format!("there is no '{key}'; did you mean {nearest}?"),
        None => format!("'{key}' must be one of [{}]", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::model::Weight;
    use crate::control::socket::methods::actions::Action;
    use crate::control::socket::methods::attributes::Attribute;
    use crate::control::socket::methods::groups::CodeMatcher;
    use crate::control::socket::methods::registration::{TargetName, TargetToRegister};
    use std::io::Write;

    fn fault<T: DeserializeOwned + JsonSchema + std::fmt::Debug>(text: &str) -> String {
        targets::<T>(text).unwrap_err()
    }

    #[test]
    fn an_attribute_is_a_key_and_a_value_with_whatever_is_in_it() {
        let read = |text| structures::<Attribute>(text).map(|all| all.0);
        let pair =
            |key: &str, value: &str| Ok(vec![Attribute { key: key.to_owned(), value: value.to_owned() }]);
        assert_eq!(read("Key=a.b,Value=true"), pair("a.b", "true"));
        assert_eq!(read("Key=a,Value="), pair("a", ""));
        assert_eq!(read("Key=a,Value=200,301"), pair("a", "200,301"));
        assert_eq!(read("Key=a,Value='x, y=z'"), pair("a", "x, y=z"));
        assert_eq!(read("Value=30,Key=a"), pair("a", "30"));
        assert_eq!(read(r#"{"Key":"a","Value":"7"}"#), pair("a", "7"));
        for bad in ["", "a", "a=b", "Key=a", "Key=a,Value=x,Key=a"] {
            read(bad).unwrap_err();
        }
        assert_eq!(read("Kye=a,Value=1").unwrap_err(), "there is no 'Kye'; did you mean Key?");
    }

    #[test]
    fn json_and_files_give_any_number() {
        let both = r#"[{"Id":"10.0.0.1","Weight":2}, {"Id":"10.0.0.2"}]"#;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{both}").unwrap();
        let in_json = targets::<TargetToRegister>(both).unwrap();
        let in_a_file = targets(&format!("file://{}", file.path().display())).unwrap();
        assert_eq!(in_json, in_a_file);
        let ids: Vec<String> = all(vec![in_json]).iter().map(|target| target.id.to_string()).collect();
        assert_eq!(ids, ["10.0.0.1", "10.0.0.2"]);
        assert!(fault::<TargetToRegister>("file:///nowhere/x").starts_with("cannot read /nowhere/x: "));
        assert!(fault::<TargetToRegister>("[{]").starts_with("it is not JSON: "));
    }

    #[test]
    fn an_action_forwards_to_a_group_by_name_or_arn() {
        let read =
            |text| actions::<Action>(text).map(|all| all.0[0].clone()).map(|a| (a.kind, a.target_group_arn));
        let forward = |group: &str| Ok(("forward".to_owned(), Some(group.to_owned())));
        assert_eq!(read("Type=forward,TargetGroupArn=fw"), forward("fw"));
        assert_eq!(read("TargetGroupArn=arn:aws:x:y/z"), forward("arn:aws:x:y/z"));
        assert_eq!(read("fw"), forward("fw"));
        assert_eq!(read(r#"[{"Type":"forward","TargetGroupArn":"fw"}]"#), forward("fw"));
        assert_eq!(read("Type=forward"), Ok(("forward".to_owned(), None)), "the daemon says what is missing");
        assert_eq!(read("Typ=forward,fw").unwrap_err(), "there is no 'Typ'; did you mean Type?");
    }

    #[test]
    fn a_matcher_is_its_codes_with_or_without_their_name() {
        for text in [
            "HttpCode=200,301-302",
            "200,301-302",
            "HttpCode=\"200,301-302\"",
            r#"{"HttpCode":"200,301-302"}"#,
        ] {
            assert_eq!(matcher::<CodeMatcher>(text).unwrap().http_code, "200,301-302", "{text}");
        }
        matcher::<CodeMatcher>("GrpcCode=12").unwrap_err();
    }

    #[test]
    fn a_target_is_an_address_with_or_without_more() {
        let plain = targets::<TargetToRegister>("10.0.0.1").unwrap();
        assert_eq!(plain, targets("Id=10.0.0.1").unwrap());
        let full = targets::<TargetToRegister>("Id=10.0.0.1,Port=6081,AvailabilityZone=b,Weight=7").unwrap();
        let full = &full.0[0];
        assert_eq!((full.port, full.availability_zone.as_deref()), (Some(6081), Some("b")));
        assert_eq!(full.weight.map(Weight::get), Some(7));
    }

    #[test]
    fn a_faulty_target_is_told_apart() {
        for (text, said) in [
            ("10.0.0.300", "Id: invalid IPv4 address syntax"),
            ("Id=fw1", "Id: invalid IPv4 address syntax"),
            ("Port=6081", "missing field `Id`"),
            ("Id=10.0.0.1,Id=10.0.0.2", "'Id' is given twice"),
            ("Id=10.0.0.1,Wieght=2", "there is no 'Wieght'; did you mean Weight?"),
            ("Id=10.0.0.1,Colour=2", "'Colour' must be one of [AvailabilityZone, Id, Port, Weight]"),
            ("Id=10.0.0.1,Weight=x", "'x' must be a number"),
        ] {
            assert_eq!(fault::<TargetToRegister>(text), said);
        }
        assert!(fault::<TargetToRegister>("Id=10.0.0.1,Weight=0").contains("must be between 1 and 1000"));
        assert!(fault::<TargetName>("Id=10.0.0.1,Weight=2").contains("'Weight' must be one of [Id, Port]"));
    }
}
