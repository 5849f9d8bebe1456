//! `flowgate rpc METHOD [JSON]`: any method as it is, for what has no verb, and for scripts.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::RpcFlags;
use super::client::CliError;
use serde_json::{Map, Value};
use std::io::Read;

pub(super) fn call(session: &mut Session, flags: RpcFlags) -> Result<(), CliError> {
    let text = match flags.params.as_deref() {
        None => "{}".to_owned(),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| {
                CliError::Misnamed(format!("the parameters cannot be read from standard input: {error}"))
            })?;
            text
        }
        Some(text) => text.to_owned(),
    };
    let params: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|error| CliError::Misnamed(format!("the parameters are no JSON object: {error}")))?;
    let result = session.client.call(&flags.method, &params)?;
    session.output.emit_plain(&result)
}
