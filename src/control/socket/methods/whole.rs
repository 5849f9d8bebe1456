//! `export`, `diff`, `apply`: the objects as one document.

#![forbid(unsafe_code)]

use super::fault;
use super::node::Nothing;
use crate::control::model::{Change, ObjectsDocument, Outcome};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rehearse;
use crate::control::socket::rpc::RpcError;
use crate::control::socket::service::ChangeError;
use crate::control::socket::views::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method("export", "Reads all objects as one document, to be kept, changed and applied.", export);
    table.waiting_method("diff", "Says what applying a document would change, and changes nothing.", diff);
    table.change(
        "apply",
        "Makes the objects those of a document: all that differs is changed, or nothing is.",
        apply,
    );
}

/// All objects.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Export {
    /// The objects as they are meant to be: without targets that are draining.
    pub document: ObjectsDocument,
    /// The configuration's number.
    pub generation: u64,
}

/// A document.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Document {
    /// The objects as they are to be. What it leaves out is deleted; ids that it leaves out stay.
    #[schemars(with = "ObjectsDocument")]
    pub document: serde_json::Value,
}

/// What was made different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Differences {
    /// Each in one sentence; empty: nothing, as all was as asked for.
    pub differences: Vec<String>,
    /// The configuration's number, this change included.
    pub generation: u64,
}

fn export(call: &Call<'_>, Nothing {}: Nothing) -> Result<Export, RpcError> {
    let state = call.service.state();
    Ok(Export { document: state.export(), generation: state.generation() })
}

async fn diff(call: &Call<'_>, asked: Document) -> Result<Plan, RpcError> {
    rehearse(call, |call| apply(call, asked)).await
}

fn apply(call: &Call<'_>, asked: Document) -> Result<Differences, RpcError> {
    let now_unix_ms = call.service.now_unix_ms();
    let change = Change::ApplyDocument { document: asked.document, now_unix_ms };
    make(call, &change).map_err(|error| match error {
        ChangeError::Refused(error) => {
            let path = error.path.as_ref().map_or("Document".to_owned(), |path| format!("Document.{path}"));
            fault::of_model(error, "Document", &call.service.state()).at(path)
        }
        error @ ChangeError::NotStored(_) => fault::of_change(error, "Document", &call.service.state()),
    })
}

/// Makes a change of the whole.
pub(super) fn make(call: &Call<'_>, change: &Change) -> Result<Differences, ChangeError> {
    let applied = call.service.apply(change)?;
    let differences = match applied.outcome {
        Outcome::Whole { differences } => differences.iter().map(ToString::to_string).collect(),
        Outcome::Object { .. }
        | Outcome::Attributes { .. }
        | Outcome::Tags { .. }
        | Outcome::Targets { .. } => Vec::new(),
    };
    Ok(Differences { differences, generation: applied.generation })
}
