//! Tags: what operators and their tools note on load balancers, listeners and target groups. They mean
//! nothing to this node; they are kept, shown, and bound by the limits that AWS has.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::change::{Outcome, entry};
use super::error::{ErrorCode, ModelError};
use super::objects::State;
use super::resource::Resource;
use crate::control::fault_path;

/// The most tags of one object.
pub const MAX_TAGS: usize = 50;
/// The longest key, in characters.
pub const MAX_TAG_KEY: usize = 128;
/// The longest value, in characters.
pub const MAX_TAG_VALUE: usize = 256;
/// What no key begins with, in any case: AWS keeps it for its own tags.
const RESERVED: &str = "aws:";

/// The tags of one object, by key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tags(BTreeMap<String, String>);

impl Tags {
    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These and `given`, which take the place of those of their keys.
    ///
    /// # Errors
    /// `DuplicateTagKeys` if a key is given twice, `TooManyTags`, or `ValidationError` for a key or
    /// value that no tag can have; the path is `tags."KEY"`.
    pub(super) fn with(&self, given: &[(String, String)]) -> Result<Tags, ModelError> {
        let mut named = BTreeMap::new();
        for (key, value) in given {
            let at = || format!("tags.{}", fault_path::key(key));
            check(key, value).map_err(|error| error.under(&at()))?;
            if named.insert(key.clone(), value.clone()).is_some() {
                let message = format!("Tag key '{key}' was specified more than once");
                return Err(ModelError::new(ErrorCode::DuplicateTagKeys, message).under(&at()));
            }
        }
        let mut after = self.clone();
        after.0.extend(named);
        if after.0.len() > MAX_TAGS {
            let message = format!("A resource would have {} tags; it can have {MAX_TAGS}", after.0.len());
            return Err(ModelError::new(ErrorCode::TooManyTags, message).under("tags"));
        }
        Ok(after)
    }

    /// These without those of `keys`; a key that is not there is no error.
    fn without(&self, keys: &[String]) -> Tags {
        let mut after = self.clone();
        after.0.retain(|key, _| !keys.contains(key));
        after
    }
}

/// What AWS allows in keys and values: letters, separators and digits of any script, and a few signs.
fn check(key: &str, value: &str) -> Result<(), ModelError> {
    // Marks that belong to letters count as letters here. Of white space, a control character is no separator.
    let allowed = |c: char| {
        c.is_alphabetic()
            || c.is_numeric()
            || (c.is_whitespace() && !c.is_control())
            || "_.:/=+-@".contains(c)
    };
    let refused = |what: &str, text: &str, longest: usize| {
        let shown: String = text.chars().take(longest).collect();
        ModelError::invalid(format!(
            "The tag {what} '{shown}' must be {} to {longest} letters, digits, spaces and '_.:/=+-@'",
            u8::from(what == "key")
        ))
    };
    let fits = |text: &str, longest: usize| text.chars().count() <= longest && text.chars().all(allowed);
    if key.is_empty() || !fits(key, MAX_TAG_KEY) {
        return Err(refused("key", key, MAX_TAG_KEY));
    }
    if key.get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED)) {
        return Err(ModelError::invalid(format!("The tag key '{key}' cannot begin with '{RESERVED}'")));
    }
    if !fits(value, MAX_TAG_VALUE) {
        return Err(refused("value", value, MAX_TAG_VALUE));
    }
    Ok(())
}

impl State {
    pub(super) fn add_tags(
        &mut self,
        resources: &[String],
        tags: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        at_least_one(tags, "tags", "tag")?;
        self.change_tags(resources, |before| before.with(tags))
    }

    pub(super) fn remove_tags(
        &mut self,
        resources: &[String],
        keys: &[String],
    ) -> Result<Outcome, ModelError> {
        at_least_one(keys, "tag_keys", "tag key")?;
        self.change_tags(resources, |before| Ok(before.without(keys)))
    }

    fn change_tags(
        &mut self,
        resources: &[String],
        change: impl Fn(&Tags) -> Result<Tags, ModelError>,
    ) -> Result<Outcome, ModelError> {
        at_least_one(resources, "resources", "resource")?;
        let mut changed = Vec::new();
        for (position, reference) in resources.iter().enumerate() {
            let resource =
                self.resource(reference).map_err(|error| error.under(&format!("resources[{position}]")))?;
            let after = change(resource.tags())?;
            if after == *resource.tags() {
                continue;
            }
            changed.push(resource.arn());
            match resource {
                Resource::LoadBalancer(balancer) => {
                    let name = balancer.name.clone();
                    entry(&mut self.load_balancers, &name).tags = after;
                }
                Resource::Listener(balancer, _) => {
                    let name = balancer.name.clone();
                    if let Some(listener) = &mut entry(&mut self.load_balancers, &name).listener {
                        listener.tags = after;
                    }
                }
                Resource::TargetGroup(group) => {
                    let name = group.name.clone();
                    entry(&mut self.target_groups, &name).tags = after;
                }
            }
        }
        Ok(Outcome::Tags { changed })
    }
}

fn at_least_one<T>(given: &[T], path: &str, what: &str) -> Result<(), ModelError> {
    if given.is_empty() {
        return Err(ModelError::invalid(format!("At least one {what} must be given")).under(path));
    }
    Ok(())
}
