//! Flags of the verbs about tags.

#![forbid(unsafe_code)]

use crate::cli::shorthand::{self, Listed};
use crate::control::socket::methods::tags::{AddTags, DescribeTags, RemoveTags, Tag};
use clap::Args;

/// Tags of what is created.
#[derive(Debug, Args)]
pub(in crate::cli) struct TagsFlag {
    /// What is noted on it, up to 50.
    #[arg(long, num_args = 1.., value_name = "Key=KEY,Value=VALUE", value_parser = shorthand::structures::<Tag>)]
    tags: Vec<Listed<Tag>>,
}

impl TagsFlag {
    pub(in crate::cli) fn all(self) -> Vec<Tag> {
        shorthand::all(self.tags)
    }
}

#[derive(Debug, Args)]
struct ResourcesFlag {
    /// Load balancers, listeners and target groups.
    #[arg(long, visible_alias = "resources", num_args = 1.., required = true, value_name = "NAME|ARN")]
    resource_arns: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AddTagsFlags {
    #[command(flatten)]
    resources: ResourcesFlag,
    /// The tags; a key that is there already has another value from then on.
    #[arg(long, num_args = 1.., required = true, value_name = "Key=KEY,Value=VALUE",
          value_parser = shorthand::structures::<Tag>)]
    tags: Vec<Listed<Tag>>,
}

impl AddTagsFlags {
    pub(in crate::cli) fn params(self) -> AddTags {
        AddTags { resource_arns: self.resources.resource_arns, tags: shorthand::all(self.tags) }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RemoveTagsFlags {
    #[command(flatten)]
    resources: ResourcesFlag,
    /// The keys of the tags.
    #[arg(long, num_args = 1.., required = true, value_name = "KEY")]
    tag_keys: Vec<String>,
}

impl RemoveTagsFlags {
    pub(in crate::cli) fn params(self) -> RemoveTags {
        RemoveTags { resource_arns: self.resources.resource_arns, tag_keys: self.tag_keys }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeTagsFlags {
    #[command(flatten)]
    resources: ResourcesFlag,
}

impl DescribeTagsFlags {
    pub(in crate::cli) fn params(self) -> DescribeTags {
        DescribeTags { resource_arns: self.resources.resource_arns }
    }
}
