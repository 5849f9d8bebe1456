//! Long lists: all their pages as one result, or as much as was asked for.

#![forbid(unsafe_code)]

use super::arguments::Paging;
use super::client::{CliError, Client};
use serde::Serialize;
use serde_json::{Value, json};

/// The most that a page holds.
const PAGE: u64 = 400;

/// Calls `method`, whose result has a list under `list`, until all pages of it are there, or as many
/// items as `part` says.
pub(super) fn call(
    client: &mut Client,
    method: &str,
    params: &impl Serialize,
    list: &str,
    part: &Paging,
) -> Result<Value, CliError> {
    let mut params = serde_json::to_value(params).map_err(|error| CliError::Unreadable(error.to_string()))?;
    if part.no_paginate || part.marker.is_some() {
        for (name, value) in [("PageSize", json!(part.page_size)), ("Marker", json!(part.marker))] {
            params[name] = value;
        }
        return client.call(method, &params);
    }
    let whole = part.page_size.is_none() && part.max_items.is_none();
    let mut marker = part.starting_token.clone().map(Value::from);
    let mut items: Vec<Value> = Vec::new();
    loop {
        let left = part.max_items.map_or(PAGE, |max| max - items.len() as u64);
        if !whole {
            params["PageSize"] = json!(part.page_size.unwrap_or(PAGE).min(left).min(PAGE));
        }
        if let Some(marker) = marker.take() {
            params["Marker"] = marker;
        }
        let mut result = client.call(method, &params)?;
        if let Value::Array(page) = result[list].take() {
            items.extend(page);
        }
        let next = result.as_object_mut().and_then(|result| result.remove("NextMarker"));
        let enough = part.max_items.is_some_and(|max| items.len() as u64 >= max);
        match next {
            Some(next) if !enough => marker = Some(next),
            next => {
                result[list] = Value::Array(items);
                if let Some(next) = next {
                    result["NextToken"] = next;
                }
                return Ok(result);
            }
        }
    }
}
