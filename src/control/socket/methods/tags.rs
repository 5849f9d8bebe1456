//! `add-tags`, `remove-tags`, `describe-tags`: what operators and their tools note on objects.

#![forbid(unsafe_code)]

use super::balancers::{Done, changed};
use super::fault;
use crate::control::model::{Change, Tags};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most objects whose tags one call describes, as AWS has it.
const MAX_DESCRIBED: usize = 20;

pub(super) fn register(table: &mut Dispatcher) {
    table.change(
        "add-tags",
        "Tags load balancers, listeners and target groups; a key that is there already has another value from then on.",
        add_tags,
    );
    table.change(
        "remove-tags",
        "Takes tags away from load balancers, listeners and target groups; a key that is not there is no error.",
        remove_tags,
    );
    table.method(
        "describe-tags",
        "Lists the tags of up to 20 load balancers, listeners and target groups.",
        describe_tags,
    );
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Tag {
    /// 1 to 128 characters, not beginning with `aws:`.
    pub key: String,
    /// Up to 256 characters; empty if it is not given.
    #[serde(default)]
    pub value: String,
}

/// Objects and the tags that they are to have besides their own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct AddTags {
    /// ARNs, or the names of load balancers and target groups.
    pub resource_arns: Vec<String>,
    /// At least one.
    pub tags: Vec<Tag>,
}

/// Objects and the tags that they are to have no longer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct RemoveTags {
    /// ARNs, or the names of load balancers and target groups.
    pub resource_arns: Vec<String>,
    /// At least one.
    pub tag_keys: Vec<String>,
}

/// The objects whose tags are asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeTags {
    /// 1 to 20 ARNs, or names of load balancers and target groups.
    pub resource_arns: Vec<String>,
}

/// The tags of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TagDescriptions {
    /// In the order in which they were asked for.
    pub tag_descriptions: Vec<TagDescription>,
}

/// The tags of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TagDescription {
    /// Its ARN.
    pub resource_arn: String,
    /// By key.
    pub tags: Vec<Tag>,
}

fn add_tags(call: &Call<'_>, asked: AddTags) -> Result<Done, RpcError> {
    let change = Change::AddTags { resources: asked.resource_arns, tags: pairs(asked.tags) };
    Ok(Done { generation: changed(call, &change, "ResourceArns")? })
}

fn remove_tags(call: &Call<'_>, asked: RemoveTags) -> Result<Done, RpcError> {
    let change = Change::RemoveTags { resources: asked.resource_arns, keys: asked.tag_keys };
    Ok(Done { generation: changed(call, &change, "ResourceArns")? })
}

fn describe_tags(call: &Call<'_>, asked: DescribeTags) -> Result<TagDescriptions, RpcError> {
    let count = asked.resource_arns.len();
    if !(1..=MAX_DESCRIBED).contains(&count) {
        let message = format!("the tags of 1 to {MAX_DESCRIBED} resources can be described, not of {count}");
        return Err(RpcError::invalid_params("ResourceArns", message));
    }
    let state = call.service.state();
    let describe = |(index, reference): (usize, &String)| match state.resource(reference) {
        Ok(resource) => Ok(TagDescription { resource_arn: resource.arn(), tags: listed(resource.tags()) }),
        Err(error) => Err(fault::of_model(error, &format!("ResourceArns[{index}]"), &state)),
    };
    let tag_descriptions = asked.resource_arns.iter().enumerate().map(describe).collect::<Result<_, _>>()?;
    Ok(TagDescriptions { tag_descriptions })
}

fn listed(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag { key: key.to_owned(), value: value.to_owned() }).collect()
}

/// Tags as the model takes them.
pub(super) fn pairs(tags: Vec<Tag>) -> Vec<(String, String)> {
    tags.into_iter().map(|tag| (tag.key, tag.value)).collect()
}
