//! Tags in the objects document: an object of keys and values, no key of it twice.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::control::model::error::ModelError;
use crate::control::model::tags::{MAX_TAG_KEY, MAX_TAG_VALUE, MAX_TAGS, Tags};

/// Tags as a document has them, in its order.
#[derive(Clone, Debug, Default)]
pub(super) struct TagEntries(Vec<(String, String)>);

impl TagEntries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn read(self) -> Result<Tags, ModelError> {
        Tags::default().with(&self.0)
    }

    pub(super) fn write(tags: &Tags) -> TagEntries {
        TagEntries(tags.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }
}

impl Serialize for TagEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for TagEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = TagEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tag keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TagEntries(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// The JSON Schema of tags.
pub(super) struct TagsSchema;

impl JsonSchema for TagsSchema {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tags".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "maxProperties": MAX_TAGS,
            "propertyNames": { "minLength": 1, "maxLength": MAX_TAG_KEY },
            "additionalProperties": { "type": "string", "maxLength": MAX_TAG_VALUE }
        })
    }
}
