//! Whether a value is what a JSON Schema says: as much of draft 7 as the protocol's description uses. A keyword
//! that is not known here fails the test, so that nothing passes for not being looked at.

use serde_json::Value;

/// Words that say nothing of a value, or nothing that this file can tell: the patterns are strings' own types'
/// to keep.
const UNCHECKED: [&str; 7] = ["description", "title", "default", "examples", "format", "pattern", "$schema"];

/// What is wrong with `value` by `schema`, whose references lead into `root`; none if nothing is.
pub fn fault(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let rules = match schema {
        Value::Bool(true) => return None,
        Value::Bool(false) => return Some(format!("{at}: nothing may be here")),
        Value::Object(rules) => rules,
        other => panic!("no schema: {other}"),
    };
    rules.iter().find_map(|(keyword, rule)| broken(root, rules, (keyword, rule), value, at))
}

fn broken(
    root: &Value,
    rules: &serde_json::Map<String, Value>,
    (keyword, rule): (&String, &Value),
    value: &Value,
    at: &str,
) -> Option<String> {
    let told = |what: String| Some(format!("{at}: {what}"));
    let number = || rule.as_f64().unwrap();
    let fits = |schema: &&Value| fault(root, schema, value, at).is_none();
    match keyword.as_str() {
        "type" => {
            let is = |kind: &Value| match kind.as_str().unwrap() {
                "null" => value.is_null(),
                "boolean" => value.is_boolean(),
                "string" => value.is_string(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                "number" => value.is_number(),
                "integer" => value.is_i64() || value.is_u64(),
                other => panic!("no type: {other}"),
            };
            let fits = rule.as_array().map_or_else(|| is(rule), |kinds| kinds.iter().any(is));
            if fits { None } else { told(format!("{value} is not of type {rule}")) }
        }
        "$ref" => {
            let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
            let target = root.pointer(pointer).unwrap_or_else(|| panic!("{rule} leads nowhere"));
            fault(root, target, value, at)
        }
        "properties" => rule.as_object().unwrap().iter().find_map(|(name, schema)| {
            value.get(name).and_then(|value| fault(root, schema, value, &format!("{at}.{name}")))
        }),
        "required" => {
            let missing = |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
            rule.as_array().unwrap().iter().find(missing).and_then(|name| told(format!("{name} is missing")))
        }
        "additionalProperties" => {
            let known = rules.get("properties");
            value.as_object()?.iter().find_map(|(name, value)| {
                let is_known = known.is_some_and(|known| known.get(name).is_some());
                if is_known { None } else { fault(root, rule, value, &format!("{at}.{name}")) }
            })
        }
        "items" => {
            let mut items = value.as_array()?.iter().enumerate();
            items.find_map(|(index, value)| fault(root, rule, value, &format!("{at}[{index}]")))
        }
        "enum" => {
            let known = rule.as_array().unwrap().contains(value);
            if known { None } else { told(format!("{value} is none of {rule}")) }
        }
        "const" => (rule != value).then(|| format!("{at}: {value} is not {rule}")),
        "allOf" => rule.as_array().unwrap().iter().find_map(|schema| fault(root, schema, value, at)),
        "anyOf" => {
            let any = rule.as_array().unwrap().iter().any(|schema| fits(&schema));
            if any { None } else { told(format!("{value} fits none of {rule}")) }
        }
        "oneOf" => {
            let count = rule.as_array().unwrap().iter().filter(fits).count();
            if count == 1 { None } else { told(format!("{value} fits {count} of {rule}")) }
        }
        "minLength" | "maxLength" => {
            let length = value.as_str()?.chars().count() as f64;
            let wrong = if keyword == "minLength" { length < number() } else { length > number() };
            if wrong {
                told(format!("{value} has {length} characters, and {keyword} is {rule}"))
            } else {
                None
            }
        }
        "maxItems" => {
            let count = value.as_array()?.len() as f64;
            if count > number() {
                told(format!("it has {count} items, and {rule} are allowed"))
            } else {
                None
            }
        }
        "maxProperties" => {
            let count = value.as_object()?.len() as f64;
            if count > number() {
                told(format!("it has {count} members, and {rule} are allowed"))
            } else {
                None
            }
        }
        "propertyNames" => value
            .as_object()?
            .keys()
            .find_map(|name| fault(root, rule, &Value::from(name.as_str()), &format!("{at}.{name}"))),
        "not" if fits(&rule) => told(format!("{value} is {rule}")),
        "not" => None,
        "minimum" => value.as_f64().filter(|n| *n < number()).and_then(|n| told(format!("{n} < {rule}"))),
        "maximum" => value.as_f64().filter(|n| *n > number()).and_then(|n| told(format!("{n} > {rule}"))),
        word if UNCHECKED.contains(&word) => None,
        other => panic!("this checker does not know {other:?}; teach it"),
    }
}

#[test]
fn it_tells_what_fits_from_what_does_not() {
    use serde_json::json;
    let root = json!({"s": {"type": "string"}});
    let object = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"$ref": "#/s"}, "b": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
        "c": {"type": "array", "items": {"enum": ["x", "y"]}},
        "d": {"oneOf": [{"const": 1}, {"type": "integer"}]}, "e": {"anyOf": [{"$ref": "#/s"}, {"type": "null"}]},
        "f": {"not": {"const": "all"}, "minLength": 2, "maxLength": 3},
        "h": {"maxItems": 1}, "g": {"maxProperties": 1, "propertyNames": {"maxLength": 1}}
    }});
    for good in [
        json!({"a": ""}),
        json!({"a": "", "b": null, "c": ["x"], "d": 2, "e": null, "f": "any", "g": {"x": 1}}),
        json!({"a": "", "b": 3}),
    ] {
        assert_eq!(fault(&root, &object, &good, ""), None);
    }
    for bad in [
        json!([]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "", "z": 1}),
        json!({"a": "", "b": 0}),
        json!({"a": "", "b": 4}),
        json!({"a": "", "c": ["z"]}),
        json!({"a": "", "d": 1}),
        json!({"a": "", "e": 1}),
        json!({"a": "", "f": "all"}),
        json!({"a": "", "f": "y"}),
        json!({"a": "", "f": "many"}),
        json!({"a": "", "g": {"x": 1, "y": 1}}),
        json!({"a": "", "g": {"long": 1}}),
        json!({"a": "", "h": [1, 2]}),
    ] {
        assert!(fault(&root, &object, &bad, "").is_some(), "{bad}");
    }
}
