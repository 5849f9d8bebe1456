//! `rpc.discover`: the protocol described by itself, as an OpenRPC document.
//!
//! Made of the table of methods and their types, so that it cannot say anything else than what is served.
//! `docs/openrpc.json` is the same document, and a test keeps it so.

#![forbid(unsafe_code)]

use super::common::Common;
use super::connection::{Closing, Hello, Lost};
use super::dispatcher::Method;
use super::rpc::{
    ErrorData, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, REFUSED,
};
use super::views::{CaptureEnded, CapturedChunk, Plan};
use super::{API_MAJOR, API_MINOR, DEFAULT_PATH};
use crate::control::events::Event;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The version of OpenRPC that the document is written in, whose schemas are of JSON Schema's draft 7.
const OPENRPC: &str = "1.3.2";

/// What each error's code means, by the name that the document gives it.
const ERRORS: [(&str, i32, &str); 6] = [
    ("ParseError", PARSE_ERROR, "the line is not JSON, or not UTF-8"),
    ("InvalidRequest", INVALID_REQUEST, "it is JSON, but not a request"),
    ("MethodNotFound", METHOD_NOT_FOUND, "there is no such method"),
    ("InvalidParams", INVALID_PARAMS, "a parameter is missing, unknown, or of the wrong type"),
    ("InternalError", INTERNAL_ERROR, "the daemon could not do it"),
    ("Refused", REFUSED, "the request was understood and is refused"),
];

/// What any method that is there may be answered with.
const ERRORS_OF_METHODS: [&str; 3] = ["InvalidParams", "InternalError", "Refused"];

/// The result of `rpc.discover`.
pub(super) struct Document;

impl JsonSchema for Document {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OpenRpcDocument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "description": "An OpenRPC document, as https://spec.open-rpc.org has it."})
    }
}

/// The document of `methods`.
pub(super) fn document<'a>(methods: impl Iterator<Item = &'a Method>) -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let methods: Vec<Value> = methods.map(|method| described(method, &mut generator)).collect();
    let told = told(&mut generator);
    generator.subschema_for::<ErrorData>();
    let errors: Map<String, Value> = ERRORS
        .iter()
        .map(|(name, code, message)| ((*name).to_owned(), json!({"code": code, "message": message})))
        .collect();
    json!({
        "openrpc": OPENRPC,
        "info": {
            "title": "Flowgate's control socket",
            "description": "JSON-RPC 2.0 on a Unix stream socket, one request or batch a line. The `data` of every \
                error is an `ErrorData`, and its `kind` is what programs match. `x-role` is the least role that may \
                call a method, `x-notifications` is what the daemon says unasked.",
            "version": format!("{API_MAJOR}.{API_MINOR}"),
            "license": {"name": "Apache-2.0 OR MIT"}
        },
        "servers": [{"name": "flowgated", "url": format!("unix://{DEFAULT_PATH}")}],
        "methods": methods,
        "components": {"schemas": generator.take_definitions(true), "errors": errors},
        "x-notifications": told
    })
}

fn described(method: &Method, generator: &mut SchemaGenerator) -> Value {
    let own = (method.params)(generator);
    let mut params = parameters(&own, generator);
    if method.is_change {
        let common = Common::json_schema(generator);
        params.extend(parameters(&common, generator));
    }
    // OpenRPC has those that may be left out behind the others.
    params.sort_by_key(|param| param["required"] == false);
    let mut result = transformed((method.result)(generator), generator);
    if method.is_change {
        // With `DryRun`.
        let plan = transformed(generator.subschema_for::<Plan>(), generator);
        result = json!({"anyOf": [result, plan]});
    }
    let errors: Vec<Value> =
        ERRORS_OF_METHODS.iter().map(|name| json!({"$ref": format!("#/components/errors/{name}")})).collect();
    json!({
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": params,
        "result": {"name": "result", "schema": result},
        "errors": errors,
        "x-role": method.role
    })
}

/// The properties of an object as parameters.
fn parameters(object: &Schema, generator: &mut SchemaGenerator) -> Vec<Value> {
    let required = object.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = object.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let is_required = required.iter().any(|required| required == name);
            let mut param = json!({"name": name, "required": is_required});
            let mut property = Schema::try_from(property.clone()).unwrap_or_default();
            if let Some(description) = property.remove("description") {
                param["description"] = description;
            }
            param["schema"] = transformed(property, generator);
            param
        })
        .collect()
}

/// What the daemon says unasked, with its parameters.
fn told(generator: &mut SchemaGenerator) -> Vec<Value> {
    let told = |name: &str, summary: &str, params: Schema| json!({"name": name, "summary": summary, "params": params});
    vec![
        told("hello", "The first line of every connection.", generator.subschema_for::<Hello>()),
        told("event", "Something happened; to those who subscribed.", generator.subschema_for::<Event>()),
        told("lost", "A reader was too slow for the events.", generator.subschema_for::<Lost>()),
        told(
            "captured",
            "The next packets of a capture; to who called `capture`.",
            generator.subschema_for::<CapturedChunk>(),
        ),
        told("capture-ended", "A capture has ended.", generator.subschema_for::<CaptureEnded>()),
        told(
            "closing",
            "The last line of a connection that the daemon ends.",
            generator.subschema_for::<Closing>(),
        ),
    ]
}

/// A schema in the words of draft 7.
fn transformed(mut schema: Schema, generator: &mut SchemaGenerator) -> Value {
    generator.transforms_mut().for_each(|transform| transform.transform(&mut schema));
    schema.to_value()
}
