//! The objects document: what an operator writes to seed a node, and what the node stores. One
//! shape serves both; a stored document also has the generation, the ids and the drains under way.
//!
//! Reading goes through serde (shape, types, unknown keys) and then through the same rules as a
//! change. Every refusal names its path in the document.

mod attributes;
mod convert;
mod health_check;
mod record;
mod tags;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use self::attributes::AttributeEntries;
use self::health_check::HealthCheckDocument;
pub use self::record::ChangeRecord;
use self::tags::TagEntries;
use super::error::{ErrorCode, ModelError};
use super::name::{ForeignId, Name, ObjectId, Zone};
use super::objects::{IpAddressType, State, Weight};
use super::registry::ObjectKind;
use crate::control::fault_path;

/// The version of the document that this program reads and writes.
const VERSION: u64 = 1;

/// The objects of a Flowgate node: load balancers, listeners, target groups and targets.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(title = "Flowgate objects")]
pub struct ObjectsDocument {
    /// The version of this format.
    #[schemars(extend("const" = VERSION))]
    version: u64,
    /// That of the rest of the file which the daemon keeps; written by it, and looked at nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    /// How many changes made this state; written by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// The change that led to this state; written by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_change: Option<ChangeRecord>,
    /// The load balancers (gateways), each with its one listener.
    #[serde(default)]
    load_balancers: Vec<LoadBalancerDocument>,
    /// The target groups, each used by at most one load balancer.
    #[serde(default)]
    target_groups: Vec<TargetGroupDocument>,
}

/// A load balancer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
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
    /// Instead of zones, the subnets that AWS's tools speak of, each with the zone that it stands for. Where no zone is
    /// told it serves every zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subnets: Vec<SubnetDocument>,
    /// When it was created, in milliseconds since 1970; written by the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_unix_ms: Option<u64>,
    /// Notes of its operator: up to 50, by key.
    #[serde(default, skip_serializing_if = "TagEntries::is_empty")]
    #[schemars(with = "tags::TagsSchema")]
    tags: TagEntries,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "attributes::load_balancer_attributes")]
    attributes: AttributeEntries,
    /// Where its flows go; without a listener they are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listener: Option<ListenerDocument>,
}

/// A subnet of a load balancer. Nothing is known of it here; it is kept and shown.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "Subnet")]
struct SubnetDocument {
    /// What AWS's tools call it.
    id: ForeignId,
    /// The zone that it stands for; told of all subnets of a load balancer or of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<Zone>,
}

/// A load balancer's listener.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "Listener")]
struct ListenerDocument {
    /// The last part of its ARN; made up from the load balancer's name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<ObjectId>,
    /// The name of the target group that it forwards to.
    target_group: Name,
    /// Notes of its operator: up to 50, by key.
    #[serde(default, skip_serializing_if = "TagEntries::is_empty")]
    #[schemars(with = "tags::TagsSchema")]
    tags: TagEntries,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "attributes::listener_attributes")]
    attributes: AttributeEntries,
}

/// A target group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
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
    /// The VPC that AWS's tools have it in. Nothing is known of it here; it is kept and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vpc_id: Option<ForeignId>,
    /// Notes of its operator: up to 50, by key.
    #[serde(default, skip_serializing_if = "TagEntries::is_empty")]
    #[schemars(with = "tags::TagsSchema")]
    tags: TagEntries,
    /// How its targets are checked.
    #[serde(default)]
    health_check: HealthCheckDocument,
    /// Attributes other than their defaults.
    #[serde(default, skip_serializing_if = "AttributeEntries::is_empty")]
    #[schemars(schema_with = "attributes::target_group_attributes")]
    attributes: AttributeEntries,
    /// Its targets.
    #[serde(default)]
    targets: Vec<TargetDocument>,
}

/// A target.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "Target")]
struct TargetDocument {
    /// Its IPv4 address.
    #[serde(deserialize_with = "ipv4_address")]
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

/// An address, or a refusal that tells what was there instead (the standard library's does not).
fn ipv4_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ipv4Addr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let refused = || D::Error::custom(format!("'{text}' must be an IPv4 address such as 192.0.2.1"));
    text.parse().map_err(|_| refused())
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

    /// What the objects are meant to be, as a document for an operator to keep, change and apply: the
    /// state without its generation, the times of creation and the targets that are draining.
    #[must_use]
    pub fn export(&self) -> ObjectsDocument {
        let mut document = ObjectsDocument::write(self);
        document.generation = None;
        for balancer in &mut document.load_balancers {
            balancer.created_unix_ms = None;
        }
        for group in &mut document.target_groups {
            group.targets.retain(|target| target.draining_since_unix_ms.is_none());
        }
        document
    }

    /// The state as JSON, objects in the order of their names and targets in that of their
    /// addresses: the same state is the same text.
    #[must_use]
    pub fn to_document(&self) -> String {
        self.to_stored(None)
    }

    /// The same with the change that led to it.
    #[must_use]
    pub fn to_stored(&self, change: Option<&ChangeRecord>) -> String {
        let document = ObjectsDocument { last_change: change.cloned(), ..ObjectsDocument::write(self) };
        let mut text = serde_json::to_string_pretty(&document)
            .expect("a document of strings, numbers and lists can always be written as JSON");
        text.push('\n');
        text
    }
}

/// Refuses a version that is given and not this program's.
fn check_version(version: Option<u64>) -> Result<(), ModelError> {
    match version {
        None | Some(VERSION) => Ok(()),
        Some(other) => {
            let message = format!("version {other} of the format is not known here, only {VERSION}");
            let error = ModelError::invalid(message).under("version");
            Err(ModelError { unknown_version: Some(other), ..error })
        }
    }
}

/// The JSON Schema of the objects document.
#[must_use]
pub fn objects_schema() -> Schema {
    schemars::schema_for!(ObjectsDocument)
}

impl ObjectsDocument {
    /// The document that a request carries, told apart from one of another version.
    pub(super) fn from_json(json: &serde_json::Value) -> Result<ObjectsDocument, ModelError> {
        check_version(json.get("version").and_then(serde_json::Value::as_u64))?;
        serde_path_to_error::deserialize(json).map_err(|error| ModelError {
            path: fault_path::of(error.path()),
            ..ModelError::invalid(error.into_inner().to_string())
        })
    }

    /// The state that this document describes to a node that is in the state `known`: what is there
    /// already keeps its id where none is given, and what is not gets one that nothing of its name had
    /// before (O-5). What attributes say of each other is not looked at.
    pub(super) fn read_beside(mut self, known: &State) -> Result<State, ModelError> {
        let next = known.generation() + 1;
        for document in &mut self.load_balancers {
            let name = document.name.clone();
            let balancer = known.load_balancers.get(&name);
            let derived = || ObjectId::derive("loadbalancer", &name, next);
            document.id.get_or_insert_with(|| balancer.map_or_else(derived, |known| known.id));
            let listener = balancer.and_then(|balancer| balancer.listener.as_ref());
            if let Some(document) = &mut document.listener {
                let derived = || ObjectId::derive("listener", &name, next);
                document.id.get_or_insert_with(|| listener.map_or_else(derived, |known| known.id));
            }
        }
        for document in &mut self.target_groups {
            let name = document.name.clone();
            let group = known.target_groups.get(&name);
            let derived = || ObjectId::derive("targetgroup", &name, next);
            document.id.get_or_insert_with(|| group.map_or_else(derived, |known| known.id));
        }
        self.read(Source::Stored)
    }

    /// Where the object `name` is in this document.
    pub(super) fn place_of(&self, kind: ObjectKind, name: &Name) -> String {
        let (list, place, part) = match kind {
            ObjectKind::TargetGroup => {
                ("target_groups", self.target_groups.iter().position(|group| group.name == *name), "")
            }
            ObjectKind::LoadBalancer | ObjectKind::Listener => {
                let part = if kind == ObjectKind::Listener { ".listener" } else { "" };
                ("load_balancers", self.load_balancers.iter().position(|known| known.name == *name), part)
            }
        };
        place.map_or_else(|| list.to_owned(), |place| format!("{list}[{place}]{part}"))
    }

    fn parse(json: &str) -> Result<ObjectsDocument, ModelError> {
        // First of all the version: what a newer format has that this one does not is no typing
        // mistake.
        #[derive(Deserialize)]
        struct Versioned {
            version: u64,
        }
        if let Ok(Versioned { version }) = serde_json::from_str(json) {
            check_version(Some(version))?;
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let document: ObjectsDocument =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| ModelError {
                path: fault_path::of(error.path()),
                ..ModelError::invalid(error.into_inner().to_string())
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
            state.check_target_group_count().map_err(|error| error.under(&at))?;
            state.check_target_counts(&name).map_err(|error| error.under("targets").under(&at))?;
        }
        for (position, document) in self.load_balancers.into_iter().enumerate() {
            let at = format!("load_balancers[{position}]");
            let balancer = document.read(source, &state).map_err(|error| error.under(&at))?;
            state.load_balancers.insert(balancer.name.clone(), Arc::new(balancer));
            state.check_load_balancer_count().map_err(|error| error.under(&at))?;
        }
        Ok(state)
    }

    fn write(state: &State) -> ObjectsDocument {
        ObjectsDocument {
            version: VERSION,
            checksum: None,
            generation: Some(state.generation()),
            last_change: None,
            load_balancers: state.load_balancers().map(LoadBalancerDocument::write).collect(),
            target_groups: state.target_groups().map(TargetGroupDocument::write).collect(),
        }
    }
}
