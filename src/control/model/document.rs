//! The objects document: what an operator writes to seed a node, and what the node stores. One
//! shape serves both; a stored document also has the generation, the ids and the drains under way.
//!
//! Reading goes through serde (shape, types, unknown keys) and then through the same rules as a
//! change. Every refusal names its path in the document.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::attributes::AttributeSet;
use super::change::{check_address, check_idle_timeout};
use super::error::{ErrorCode, ModelError};
use super::health_check::HealthCheckDocument;
use super::name::{Name, ObjectId, Zone};
use super::objects::{
    IpAddressType, Listener, LoadBalancer, Registration, State, Target, TargetGroup, Weight,
};
use super::registry::{self, Attribute, ObjectKind, Value, Values};
use super::settings;
use crate::control::fault_path;

/// The version of the document that this program reads and writes.
const VERSION: u64 = 1;

/// The objects of a Flowgate node: load balancers, listeners, target groups and targets.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Flowgate objects")]
pub(super) struct ObjectsDocument {
    /// The version of this format.
    #[schemars(extend("const" = VERSION))]
    version: u64,
    /// How many changes made this state; written by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// The load balancers (gateways), each with its one listener.
    #[serde(default)]
    load_balancers: Vec<LoadBalancerDocument>,
    /// The target groups, each used by at most one load balancer.
    #[serde(default)]
    target_groups: Vec<TargetGroupDocument>,
}

/// A load balancer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LoadBalancer")]
struct LoadBalancerDocument {
    /// 1 to 32 letters, digits and hyphens.
    name: Name,
    /// The last part of its ARN; made up from the name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<ObjectId>,
    /// `ipv4` (the default) or `dualstack`, which lets IPv6 through too.
    #[serde(default)]
    ip_address_type: IpAddressType,
    /// The zones that it serves; every zone where it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    zones: Vec<Zone>,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "load_balancer_attributes")]
    attributes: AttributeEntries,
    /// Where its flows go.
    listener: ListenerDocument,
}

/// A load balancer's listener.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Listener")]
struct ListenerDocument {
    /// The last part of its ARN; made up from the load balancer's name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<ObjectId>,
    /// The name of the target group that it forwards to.
    target_group: Name,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "listener_attributes")]
    attributes: AttributeEntries,
}

/// A target group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TargetGroup")]
struct TargetGroupDocument {
    /// 1 to 32 letters, digits and hyphens.
    name: Name,
    /// The last part of its ARN; made up from the name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<ObjectId>,
    /// `GENEVE`, which is also the default.
    #[serde(default = "geneve")]
    #[schemars(extend("const" = "GENEVE"))]
    protocol: String,
    /// 6081, which is also the default.
    #[serde(default = "geneve_port")]
    #[schemars(extend("const" = super::GENEVE_PORT))]
    port: u16,
    /// How its targets are checked.
    #[serde(default)]
    health_check: HealthCheckDocument,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "target_group_attributes")]
    attributes: AttributeEntries,
    /// Its targets.
    #[serde(default)]
    targets: Vec<TargetDocument>,
}

/// A target.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target")]
struct TargetDocument {
    /// Its IPv4 address.
    address: Ipv4Addr,
    /// The zone that it is in; every zone where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<Zone>,
    /// Its share of new flows relative to the other targets; 1 by default.
    #[serde(default)]
    weight: Weight,
    /// When its drain started, in milliseconds since 1970; written by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draining_since_unix_ms: Option<u64>,
}

fn geneve() -> String {
    "GENEVE".to_owned()
}

fn geneve_port() -> u16 {
    super::GENEVE_PORT
}

/// What is held against a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// An operator's: every rule.
    Seed,
    /// Our own: all but what attributes say of each other, which the typed view settles.
    Stored,
}

impl State {
    /// The state that an operator's document describes. Ids that it leaves out are derived from
    /// the names, so that every node of a fleet has the same.
    ///
    /// # Errors
    /// The first fault, with its path in the document, the value seen and what was expected.
    pub fn from_document(json: &str) -> Result<State, ModelError> {
        ObjectsDocument::parse(json)?.read(Source::Seed)
    }

    /// The state that `to_document` wrote. A contradiction between attributes is not held against
    /// it: the typed view settles it, and the daemon starts.
    ///
    /// # Errors
    /// As `from_document`; also if the generation is missing.
    pub fn from_stored(json: &str) -> Result<State, ModelError> {
        let document = ObjectsDocument::parse(json)?;
        if document.generation.is_none() {
            return Err(ModelError::invalid("the generation is missing").under("generation"));
        }
        document.read(Source::Stored)
    }

    /// The state as JSON, objects in the order of their names and targets in that of their
    /// addresses: the same state is the same text.
    #[must_use]
    pub fn to_document(&self) -> String {
        let document = ObjectsDocument::write(self);
        let mut text = serde_json::to_string_pretty(&document)
            .expect("a document of strings, numbers and lists can always be written as JSON");
        text.push('\n');
        text
    }
}

/// The JSON Schema of the objects document.
#[must_use]
pub fn objects_schema() -> Schema {
    schemars::schema_for!(ObjectsDocument)
}

impl ObjectsDocument {
    fn parse(json: &str) -> Result<ObjectsDocument, ModelError> {
        // First of all the version: what a newer format has that this one does not is no typing
        // mistake.
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        if let Ok(Versioned { version }) = serde_json::from_str(json)
            && version != VERSION
        {
            let message = format!("version {version} of the format is not known here, only {VERSION}");
            return Err(ModelError::invalid(message).under("version"));
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let document: ObjectsDocument =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| ModelError {
                code: ErrorCode::ValidationError,
                path: fault_path::of(error.path()),
                message: error.into_inner().to_string(),
            })?;
        deserializer.end().map_err(|error| ModelError::invalid(error.to_string()))?;
        Ok(document)
    }

    fn read(self, source: Source) -> Result<State, ModelError> {
        let mut state = State { generation: self.generation.unwrap_or(0), ..State::default() };
        for (position, document) in self.target_groups.into_iter().enumerate() {
            let at = format!("target_groups[{position}]");
            let group = document.read(source).map_err(|error| error.under(&at))?;
            let name = group.name.clone();
            if state.target_groups.insert(name.clone(), Arc::new(group)).is_some() {
                let message = format!("another target group is called '{name}' already");
                let error = ModelError::new(ErrorCode::DuplicateTargetGroupName, message);
                return Err(error.under("name").under(&at));
            }
            state.check_target_counts(&name).map_err(|error| error.under("targets").under(&at))?;
        }
        for (position, document) in self.load_balancers.into_iter().enumerate() {
            let at = format!("load_balancers[{position}]");
            let balancer = document.read(source, &state).map_err(|error| error.under(&at))?;
            state.load_balancers.insert(balancer.name.clone(), Arc::new(balancer));
        }
        Ok(state)
    }

    fn write(state: &State) -> ObjectsDocument {
        ObjectsDocument {
            version: VERSION,
            generation: Some(state.generation()),
            load_balancers: state.load_balancers().map(LoadBalancerDocument::write).collect(),
            target_groups: state.target_groups().map(TargetGroupDocument::write).collect(),
        }
    }
}

impl LoadBalancerDocument {
    /// `state` holds every target group, and the load balancers before this one.
    fn read(self, source: Source, state: &State) -> Result<LoadBalancer, ModelError> {
        let name = self.name;
        if state.load_balancers.contains_key(&name) {
            let message = format!("another load balancer is called '{name}' already");
            return Err(ModelError::new(ErrorCode::DuplicateLoadBalancerName, message).under("name"));
        }
        let listener = self.listener.read(&name, source, state).map_err(|error| error.under("listener"))?;
        Ok(LoadBalancer {
            id: self.id.unwrap_or_else(|| ObjectId::derive("loadbalancer", &name, 0)),
            ip_address_type: self.ip_address_type,
            zones: self.zones.into_iter().collect(),
            attributes: self.attributes.read(ObjectKind::LoadBalancer, source)?,
            listener,
            name,
        })
    }

    fn write(balancer: &LoadBalancer) -> LoadBalancerDocument {
        LoadBalancerDocument {
            name: balancer.name.clone(),
            id: Some(balancer.id),
            ip_address_type: balancer.ip_address_type,
            zones: balancer.zones.iter().cloned().collect(),
            attributes: AttributeEntries::write(&balancer.attributes),
            listener: ListenerDocument {
                id: Some(balancer.listener.id),
                target_group: balancer.listener.target_group.clone(),
                attributes: AttributeEntries::write(&balancer.listener.attributes),
            },
        }
    }
}

impl ListenerDocument {
    fn read(self, balancer: &Name, source: Source, state: &State) -> Result<Listener, ModelError> {
        let at_group = |code, message| ModelError::new(code, message).under("target_group");
        let name = self.target_group;
        let Some(group) = state.target_groups.get(&name) else {
            let message = format!("there is no target group '{name}' in this document");
            return Err(at_group(ErrorCode::TargetGroupNotFound, message));
        };
        if let Some(other) = state.load_balancer_using(&name) {
            let message =
                format!("the target group '{name}' is used by the load balancer '{}' already", other.name);
            return Err(at_group(ErrorCode::TargetGroupAssociationLimit, message));
        }
        let attributes = self.attributes.read(ObjectKind::Listener, source)?;
        if source == Source::Seed {
            let defaults = AttributeSet::new(ObjectKind::Listener);
            let stickiness = settings::stickiness(&group.attributes);
            check_idle_timeout(&defaults, &attributes, stickiness)?;
        }
        Ok(Listener {
            id: self.id.unwrap_or_else(|| ObjectId::derive("listener", balancer, 0)),
            target_group: name,
            attributes,
        })
    }
}

impl TargetGroupDocument {
    fn read(self, source: Source) -> Result<TargetGroup, ModelError> {
        let name = self.name;
        if self.protocol != "GENEVE" {
            let message = format!("'{}' must be 'GENEVE'", self.protocol);
            return Err(ModelError::new(ErrorCode::UnsupportedProtocol, message).under("protocol"));
        }
        if self.port != super::GENEVE_PORT {
            let message = format!("'{}' must be '{}'", self.port, super::GENEVE_PORT);
            return Err(ModelError::invalid(message).under("port"));
        }
        let health_check = self.health_check.read().map_err(|error| error.under("health_check"))?;
        let attributes = self.attributes.read(ObjectKind::TargetGroup, source)?;
        health_check.agrees_with(&attributes)?;
        let mut targets = BTreeMap::new();
        for (position, document) in self.targets.into_iter().enumerate() {
            let at = format!("targets[{position}]");
            let address = document.address;
            check_address(address).map_err(|error| error.under(&at))?;
            if targets.insert(address, document.read()).is_some() {
                // To register twice is to register once (O-3), but a document that lists an
                // address twice may give it two weights, and only its author knows which is meant.
                let message = format!("the address '{address}' is in this group already");
                let error = ModelError::new(ErrorCode::InvalidTarget, message);
                return Err(error.under("address").under(&at));
            }
        }
        let id = self.id.unwrap_or_else(|| ObjectId::derive("targetgroup", &name, 0));
        Ok(TargetGroup { name, id, health_check, attributes, targets })
    }

    fn write(group: &TargetGroup) -> TargetGroupDocument {
        TargetGroupDocument {
            name: group.name.clone(),
            id: Some(group.id),
            protocol: geneve(),
            port: super::GENEVE_PORT,
            health_check: HealthCheckDocument::write(&group.health_check),
            attributes: AttributeEntries::write(&group.attributes),
            targets: group.targets.iter().map(TargetDocument::write).collect(),
        }
    }
}

impl TargetDocument {
    fn read(self) -> Target {
        let registration = match self.draining_since_unix_ms {
            None => Registration::Registered,
            Some(since_unix_ms) => Registration::Draining { since_unix_ms },
        };
        Target { zone: self.zone, weight: self.weight, registration }
    }

    fn write((address, target): (&Ipv4Addr, &Target)) -> TargetDocument {
        TargetDocument {
            address: *address,
            zone: target.zone.clone(),
            weight: target.weight,
            draining_since_unix_ms: match target.registration {
                Registration::Registered => None,
                Registration::Draining { since_unix_ms } => Some(since_unix_ms),
            },
        }
    }
}

/// Attributes as a document has them: an object of key and value, the value a string as in AWS's
/// API, or the number or truth value that it stands for.
#[derive(Clone, Debug, Default)]
struct AttributeEntries(Vec<(String, String)>);

impl AttributeEntries {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read(self, kind: ObjectKind, source: Source) -> Result<AttributeSet, ModelError> {
        match source {
            Source::Seed => AttributeSet::new(kind).modified(&self.0),
            Source::Stored => AttributeSet::stored(kind, &self.0),
        }
    }

    fn write(attributes: &AttributeSet) -> AttributeEntries {
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

fn load_balancer_attributes(_: &mut SchemaGenerator) -> Schema {
    attributes_schema(ObjectKind::LoadBalancer)
}

fn listener_attributes(_: &mut SchemaGenerator) -> Schema {
    attributes_schema(ObjectKind::Listener)
}

fn target_group_attributes(_: &mut SchemaGenerator) -> Schema {
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
