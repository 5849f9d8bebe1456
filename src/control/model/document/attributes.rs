//! Attributes in the objects document: how they are read and written, and their JSON Schema, which
//! comes from the registry.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Source;
use crate::control::model::attributes::AttributeSet;
use crate::control::model::error::ModelError;
use crate::control::model::registry::{self, Attribute, ObjectKind, Value, Values};

/// Attributes as a document has them: an object of key and value, the value a string as in AWS's
/// API, or the number or truth value that it stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeEntries(Vec<(String, String)>);

impl AttributeEntries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn read(self, kind: ObjectKind, source: Source) -> Result<AttributeSet, ModelError> {
        match source {
            Source::Seed => AttributeSet::new(kind).modified(&self.0),
            Source::Stored => AttributeSet::stored(kind, &self.0),
        }
    }

    pub(super) fn write(attributes: &AttributeSet) -> AttributeEntries {
        let text = |(key, value): (&str, Value)| (key.to_owned(), value.to_string());
        AttributeEntries(attributes.given().map(text).collect())
    }
}

impl Serialize for AttributeEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for AttributeEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = AttributeEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of attribute keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, AttributeText(text))) = map.next_entry()? {
                    entries.push((key, text));
                }
                Ok(AttributeEntries(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// One value, as text whatever its JSON type.
struct AttributeText(String);

impl<'de> Deserialize<'de> for AttributeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = AttributeText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a whole number or a truth value")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AttributeText, E> {
                Ok(AttributeText(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<AttributeText, E> {
                Ok(AttributeText(flag.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<AttributeText, E> {
                Ok(AttributeText(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<AttributeText, E> {
                Ok(AttributeText(number.to_string()))
            }
        }

        deserializer.deserialize_any(Text)
    }
}

pub(super) fn load_balancer_attributes(_: &mut SchemaGenerator) -> Schema {
    attributes_schema(ObjectKind::LoadBalancer)
}

pub(super) fn listener_attributes(_: &mut SchemaGenerator) -> Schema {
    attributes_schema(ObjectKind::Listener)
}

pub(super) fn target_group_attributes(_: &mut SchemaGenerator) -> Schema {
    attributes_schema(ObjectKind::TargetGroup)
}

fn attributes_schema(kind: ObjectKind) -> Schema {
    let properties: serde_json::Map<_, _> = registry::of(kind)
        .map(|attribute| (attribute.key.to_owned(), attribute_schema(attribute).into()))
        .collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// An attribute may be given as a string or as what the string stands for.
fn attribute_schema(attribute: &Attribute) -> Schema {
    let description = format!("{} ({})", attribute.doc, attribute.rule);
    let default = attribute.default.to_string();
    let number = |ranges: Vec<serde_json::Value>| {
        let mut kinds = ranges;
        kinds.push(serde_json::json!({ "type": "string", "pattern": "^[0-9]+$" }));
        json_schema!({ "description": description, "default": default, "anyOf": kinds })
    };
    let range = |min: u64, max: u64| serde_json::json!({ "type": "integer", "minimum": min, "maximum": max });
    match attribute.values {
        Values::Flag => json_schema!({
            "description": description, "default": default, "enum": [true, false, "true", "false"]
        }),
        Values::Choice(words) => {
            json_schema!({ "description": description, "default": default, "enum": words })
        }
        Values::Number { min, max } => number(vec![range(min, max)]),
        Values::NumberOrUnset { min, max } => {
            number(vec![range(min, max), serde_json::json!({ "const": 0 })])
        }
    }
}
