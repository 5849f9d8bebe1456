//! From a line to its answer: the table of methods and what is common to all of them.
//!
//! A method is one function from typed parameters to a typed result. It is registered once, with its name
//! and one sentence; reading the parameters (and saying exactly what is wrong with them), writing the
//! result and describing both as JSON Schema follow from the types. Called by every connection, one
//! line at a time.

#![forbid(unsafe_code)]

use super::rpc::{self, Id, METHOD_NOT_FOUND, Request, RpcError};
use super::service::Service;
use super::session::Session;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// What a method may use besides its parameters.
pub struct Call<'a> {
    /// The control core.
    pub service: &'a dyn Service,
    /// The connection that called.
    pub session: &'a Session,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<String, RpcError>> + 'a>>;
type Run = Box<dyn for<'a> Fn(&'a Call<'a>, Map<String, Value>) -> Running<'a>>;

/// A registered method.
pub struct Method {
    /// As a request names it.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The schema of its parameters.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
    run: Run,
}

/// The table of methods.
#[derive(Default)]
pub struct Dispatcher {
    methods: BTreeMap<&'static str, Method>,
}

impl Dispatcher {
    /// Registers a method that is answered from what the control core has at hand.
    pub fn method<P, R>(
        &mut self,
        name: &'static str,
        summary: &'static str,
        function: fn(&Call<'_>, P) -> Result<R, RpcError>,
    ) where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
    {
        self.add::<P, R>(
            name,
            summary,
            Box::new(move |call, params| {
                let result = read(params).and_then(|params| function(call, params)).and_then(|r| write(&r));
                Box::pin(std::future::ready(result))
            }),
        );
    }

    /// Registers a method that waits, for the workers or for a disk.
    pub fn waiting_method<P, R, F>(&mut self, name: &'static str, summary: &'static str, function: F)
    where
        P: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + 'static,
        F: AsyncFn(&Call<'_>, P) -> Result<R, RpcError> + 'static,
    {
        let function = Rc::new(function);
        self.add::<P, R>(
            name,
            summary,
            Box::new(move |call, params| {
                let function = Rc::clone(&function);
                Box::pin(async move { write(&function(call, read(params)?).await?) })
            }),
        );
    }

    fn add<P: JsonSchema, R: JsonSchema>(&mut self, name: &'static str, summary: &'static str, run: Run) {
        let params = |generator: &mut SchemaGenerator| P::json_schema(generator);
        let result = |generator: &mut SchemaGenerator| R::json_schema(generator);
        let before = self.methods.insert(name, Method { name, summary, params, result, run });
        debug_assert!(before.is_none(), "method {name} is registered twice");
    }

    /// Every method, by name.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        self.methods.values()
    }

    /// The line to answer `line` with, newline included; none for a notification.
    pub async fn answer(&self, call: &Call<'_>, line: &[u8]) -> Option<String> {
        let Request { id, method, params } = match rpc::parse(line) {
            Ok(request) => request,
            Err((id, error)) => return Some(rpc::refusal(&id, &error)),
        };
        let outcome = match self.methods.get(method.as_str()) {
            Some(method) => (method.run)(call, params).await,
            None => Err(self.unknown(&method)),
        };
        let id: Id = id?;
        Some(match outcome {
            Ok(result) => rpc::answer(&id, &result),
            Err(error) => rpc::refusal(&id, &error),
        })
    }

    fn unknown(&self, name: &str) -> RpcError {
        let shown: String = name.chars().take(64).collect();
        let message = format!("there is no method {}", Value::from(shown.as_str()));
        let error = RpcError::new(METHOD_NOT_FOUND, "InvalidAction", message).at("method");
        match self.nearest(&shown) {
            Some(nearest) => error.hint(format!("did you mean {nearest}?")),
            None => error,
        }
    }

    /// The method whose name is most like `name`, if any is enough like it to be what was meant.
    fn nearest(&self, name: &str) -> Option<&'static str> {
        // AWS's API says `RegisterTargets` where its command line says `register-targets`.
        let folded = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let name = folded(name);
        let likeness = |known: &&'static str| (strsim::jaro_winkler(&folded(known), &name), *known);
        self.methods
            .keys()
            .map(likeness)
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, known)| known)
    }
}

/// The parameters as their type, or where they are not of it.
fn read<P: DeserializeOwned>(params: Map<String, Value>) -> Result<P, RpcError> {
    serde_path_to_error::deserialize(Value::Object(params)).map_err(|error| {
        let path = error.path().to_string();
        let fault = error.inner().to_string();
        // A missing or unknown name is told by serde without its place below the top.
        let path = if path == "." { "params".to_owned() } else { path };
        RpcError::invalid_params(path, fault)
    })
}

fn write(result: &impl Serialize) -> Result<String, RpcError> {
    serde_json::to_string(result).map_err(|error| {
        RpcError::new(
            rpc::INTERNAL_ERROR,
            "InternalFailure",
            format!("the answer cannot be written: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::control::socket::methods;

    #[test]
    fn a_misspelt_method_is_answered_with_the_nearest_there_is() {
        let table = methods::dispatcher();
        let hint = |name: &str| table.unknown(name).data.hint;
        assert_eq!(hint("describe-wrokers").as_deref(), Some("did you mean describe-workers?"));
        assert_eq!(hint("RegisterTargets").as_deref(), Some("did you mean register-targets?"));
        assert_eq!(hint("xyzzy"), None);
        assert_eq!(hint(""), None);
    }

    #[test]
    fn a_name_as_long_as_a_line_is_not_sent_back_whole() {
        let error = methods::dispatcher().unknown(&"x".repeat(1 << 20));
        assert!(error.message.len() < 100);
    }
}
