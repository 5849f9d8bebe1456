//! JSON-RPC 2.0 as this socket speaks it: one request a line in, one answer a line out.
//!
//! Called by the dispatcher for every line that arrived. Promises that any bytes at all become either
//! a [`Request`] or an [`RpcError`] with the id to answer under, in time linear in the line's length;
//! nesting is bounded by `serde_json` (128 levels). A batch is cut into its requests before (`batch.rs`).

#![forbid(unsafe_code)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A line that is not JSON (JSON-RPC 2.0, section 5.1).
pub const PARSE_ERROR: i32 = -32700;
/// JSON that is not a request.
pub const INVALID_REQUEST: i32 = -32600;
/// No method of that name.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The method's parameters have the wrong names, types or values.
pub const INVALID_PARAMS: i32 = -32602;
/// The daemon's own fault.
pub const INTERNAL_ERROR: i32 = -32603;
/// The request was understood and is refused; `data.kind` says why.
pub const REFUSED: i32 = -32000;

/// An error as a client sees it.
///
/// Programs match `data.kind`, which is stable and wherever AWS has a code for the case is that
/// code; `message` is a sentence for people and may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcError {
    /// One of the constants of this module.
    pub code: i32,
    /// One sentence: what was seen and what was expected.
    pub message: String,
    /// What a program needs.
    pub data: Box<ErrorData>,
}

/// The part of an error that a program may rely on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// AWS's error code, such as `TargetGroupNotFound` or `ValidationError`.
    pub kind: String,
    /// The parameter at fault, such as `Targets[1].Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl RpcError {
    /// An error of `code` and `kind`, with no path and no hint.
    pub fn new(code: i32, kind: impl Into<String>, message: impl Into<String>) -> Self {
        let data = ErrorData { kind: kind.into(), path: None, hint: None };
        RpcError { code, message: message.into(), data: Box::new(data) }
    }

    /// A well-formed request that is refused for the reason `kind`.
    pub fn refused(kind: impl Into<String>, message: impl Into<String>) -> Self {
        RpcError::new(REFUSED, kind, message)
    }

    /// A parameter at `path` that cannot be taken.
    pub fn invalid_params(path: impl Into<String>, message: impl Into<String>) -> Self {
        RpcError::new(INVALID_PARAMS, "ValidationError", message).at(path)
    }

    /// The same error, saying which parameter is at fault.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.data.path = Some(path.into());
        self
    }

    /// The same error, saying what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.data.hint = Some(hint.into());
        self
    }
}

/// What an answer is sent under: the `id` of its request, echoed as it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Id {
    /// No id could be read, or the request itself said `null`.
    Null,
    /// An integer.
    Number(serde_json::Number),
    /// A string.
    Text(String),
}

/// A request whose envelope is sound. Its parameters are not looked at yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// None: a notification, which gets no answer, not even an error.
    pub id: Option<Id>,
    /// The method's name.
    pub method: String,
    /// The parameters by name; empty when the request had none.
    pub params: Map<String, Value>,
}

/// Reads one line, or one element of a batch.
///
/// # Errors
/// The error and the id to send it under: the request's own where it could be read, else null.
pub fn parse(line: &[u8]) -> Result<Request, (Id, RpcError)> {
    let value: Value = serde_json::from_slice(line).map_err(|error| (Id::Null, not_json(line, &error)))?;
    let mut envelope = match value {
        Value::Object(envelope) => envelope,
        other => {
            return Err((Id::Null, invalid(format!("expected an object, found {}", describe(&other)))));
        }
    };
    let id = match envelope.remove("id") {
        None => None,
        Some(Value::Null) => Some(Id::Null),
        Some(Value::String(text)) => Some(Id::Text(text)),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => Some(Id::Number(number)),
        Some(other) => {
            let message = format!("expected a string or an integer of 64 bits, found {}", describe(&other));
            return Err((Id::Null, invalid(message).at("id")));
        }
    };
    envelope_fields(envelope, id.clone()).map_err(|error| (id.unwrap_or(Id::Null), error))
}

fn envelope_fields(mut envelope: Map<String, Value>, id: Option<Id>) -> Result<Request, RpcError> {
    match envelope.remove("jsonrpc") {
        Some(Value::String(version)) if version == "2.0" => {}
        Some(other) => {
            return Err(
                invalid(format!("expected the string \"2.0\", found {}", describe(&other))).at("jsonrpc")
            );
        }
        None => return Err(invalid("\"jsonrpc\":\"2.0\" is missing").at("jsonrpc")),
    }
    let method = match envelope.remove("method") {
        Some(Value::String(method)) => method,
        Some(other) => {
            return Err(invalid(format!("expected a string, found {}", describe(&other))).at("method"));
        }
        None => return Err(invalid("the name of a method is missing").at("method")),
    };
    let params = match envelope.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(other) => {
            let message = format!("expected an object of named parameters, found {}", describe(&other));
            return Err(RpcError::invalid_params("params", message));
        }
    };
    // A misspelt `params` would otherwise run the method with its defaults.
    if let Some(name) = envelope.keys().next() {
        return Err(invalid("a request has jsonrpc, id, method and params").at(name.clone()));
    }
    Ok(Request { id, method, params })
}

/// A request refused for its envelope.
fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_REQUEST, "InvalidRequest", message)
}

pub(super) fn not_json(line: &[u8], error: &serde_json::Error) -> RpcError {
    let message = match std::str::from_utf8(line) {
        Err(utf8) => format!("not UTF-8: byte {} of the line is wrong", utf8.valid_up_to() + 1),
        Ok(text) if text.trim().is_empty() => "an empty line".to_owned(),
        Ok(_) => format!("not JSON: {error}"),
    };
    RpcError::new(PARSE_ERROR, "ParseError", message).hint("send one JSON-RPC 2.0 request or batch a line")
}

/// A value in a few words; what a client sent is not echoed at length.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => {
            format!("the string {}", Value::from(text.as_str()))
        }
        Value::String(_) => "a long string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The line that carries `result`, which is JSON already, for the request `id`.
pub fn answer(id: &Id, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", to_json(id))
}

/// The line that carries `error`.
pub fn refusal(id: &Id, error: &RpcError) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}\n", to_json(id), to_json(error))
}

/// The line of a notification from the daemon.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{}}}\n", to_json(&method), to_json(params))
}

/// JSON on one line. The types of this protocol are structs, enums, strings, integers and maps with
/// string keys, none of which `serde_json` can fail on; were one added that can, the client gets `null`
/// rather than the daemon a panic.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fault(line: &str) -> (Id, i32, Option<String>) {
        let (id, error) = parse(line.as_bytes()).unwrap_err();
        (id, error.code, error.data.path)
    }

    #[test]
    fn a_request_is_read_whole() {
        let request = parse(br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"A":1}}"#).unwrap();
        assert_eq!(request.id, Some(Id::Number(7.into())));
        assert_eq!(request.method, "m");
        assert_eq!(request.params["A"], 1);
    }

    #[test]
    fn no_id_is_a_notification_and_a_null_id_is_not() {
        assert_eq!(parse(br#"{"jsonrpc":"2.0","method":"m"}"#).unwrap().id, None);
        assert_eq!(parse(br#"{"jsonrpc":"2.0","method":"m","id":null}"#).unwrap().id, Some(Id::Null));
    }

    #[test]
    fn what_is_not_json_is_a_parse_error_under_a_null_id() {
        for line in ["", " ", "nonsense", "{", "{\"a\":}", "\u{0}", "{}{}"] {
            assert_eq!(fault(line), (Id::Null, PARSE_ERROR, None), "{line:?}");
        }
        let (id, error) = parse(b"{\"method\":\"\xff\"}").unwrap_err();
        assert_eq!((id, error.code), (Id::Null, PARSE_ERROR));
        assert_eq!(error.message, "not UTF-8: byte 12 of the line is wrong");
    }

    #[test]
    fn deep_nesting_is_a_parse_error() {
        let line = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(fault(&line), (Id::Null, PARSE_ERROR, None));
    }

    #[test]
    fn other_json_is_an_invalid_request() {
        for line in ["[]", "[1]", "1", "null", "\"x\"", "true"] {
            assert_eq!(fault(line), (Id::Null, INVALID_REQUEST, None), "{line}");
        }
    }

    #[test]
    fn a_fault_in_the_envelope_names_its_place_under_the_requests_id() {
        let one = Id::Number(1.into());
        let at = |id: &Id, code, path: &str| (id.clone(), code, Some(path.to_owned()));
        for (line, expected) in [
            (r#"{"id":1,"method":"m"}"#, at(&one, INVALID_REQUEST, "jsonrpc")),
            (r#"{"id":1,"jsonrpc":"1.0","method":"m"}"#, at(&one, INVALID_REQUEST, "jsonrpc")),
            (r#"{"id":1,"jsonrpc":"2.0"}"#, at(&one, INVALID_REQUEST, "method")),
            (r#"{"id":1,"jsonrpc":"2.0","method":5}"#, at(&one, INVALID_REQUEST, "method")),
            (r#"{"id":1,"jsonrpc":"2.0","method":"m","params":[1]}"#, at(&one, INVALID_PARAMS, "params")),
            (r#"{"id":1,"jsonrpc":"2.0","method":"m","parms":{}}"#, at(&one, INVALID_REQUEST, "parms")),
            (r#"{"id":{},"jsonrpc":"2.0","method":"m"}"#, at(&Id::Null, INVALID_REQUEST, "id")),
            (r#"{"id":1.5,"jsonrpc":"2.0","method":"m"}"#, at(&Id::Null, INVALID_REQUEST, "id")),
            (
                r#"{"id":99999999999999999999,"jsonrpc":"2.0","method":"m"}"#,
                at(&Id::Null, INVALID_REQUEST, "id"),
            ),
        ] {
            assert_eq!(fault(line), expected, "{line}");
        }
    }

    #[test]
    fn answers_are_one_line_each_and_echo_the_id() {
        let id = Id::Text("a\nb".to_owned());
        assert_eq!(answer(&id, "{}"), "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"result\":{}}\n");
        let error = RpcError::refused("TargetGroupNotFound", "no\nsuch").at("X").hint("look");
        assert_eq!(
            refusal(&Id::Null, &error),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"no\\nsuch\",\
             \"data\":{\"kind\":\"TargetGroupNotFound\",\"path\":\"X\",\"hint\":\"look\"}}}\n"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err((_, error)) = parse(&line) {
                prop_assert!(matches!(error.code, PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS));
            }
        }
    }
}
