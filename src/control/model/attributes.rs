//! The attributes that one object was given: a checked set of key and value that knows its kind,
//! and the rules that bind keys of one target group to each other.

use std::collections::BTreeMap;

use super::error::ModelError;
use super::registry::{self, Attribute, ObjectKind, Value};
use crate::control::fault_path;

/// Attributes of one object. Only what was given is kept; the rest holds its default, so that a
/// stored set says what the operator meant and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeSet {
    kind: ObjectKind,
    given: BTreeMap<&'static str, Value>,
}

impl AttributeSet {
    /// The set in which every attribute has its default.
    #[must_use]
    pub fn new(kind: ObjectKind) -> AttributeSet {
        AttributeSet { kind, given: BTreeMap::new() }
    }

    /// The value that holds: the given one, or the default.
    #[must_use]
    pub fn get(&self, attribute: &'static Attribute) -> Value {
        self.given.get(attribute.key).copied().unwrap_or(attribute.default)
    }

    /// Every attribute of this kind with the value that holds, in the registry's order.
    pub fn describe(&self) -> impl Iterator<Item = (&'static Attribute, Value)> {
        registry::of(self.kind).map(|attribute| (attribute, self.get(attribute)))
    }

    /// The attributes that were given, by key.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.given.iter().map(|(key, value)| (*key, *value))
    }

    /// The set after `changes`; keys not named keep their values.
    ///
    /// # Errors
    /// `ValidationError`, with the path `attributes."KEY"` where one key is at fault.
    pub fn modified(&self, changes: &[(String, String)]) -> Result<AttributeSet, ModelError> {
        let (after, named) = self.read(changes)?;
        after.check_failover(&named)?;
        after.check_resets(&named)?;
        Ok(after)
    }

    /// The set that a state file holds. What keys say of each other is not held against it: a
    /// contradiction is settled by the typed view, and never keeps the daemon from starting.
    pub(super) fn stored(kind: ObjectKind, entries: &[(String, String)]) -> Result<AttributeSet, ModelError> {
        AttributeSet::new(kind).read(entries).map(|(set, _)| set)
    }

    pub(super) fn flag(&self, attribute: &'static Attribute) -> bool {
        self.get(attribute) == Value::Flag(true)
    }

    pub(super) fn word(&self, attribute: &'static Attribute) -> &'static str {
        match self.get(attribute) {
            Value::Choice(word) => word,
            // The registry's parser gives an attribute no other kind of value.
            value => unreachable!("'{}' holds '{value}', which is no word", attribute.key),
        }
    }

    pub(super) fn number(&self, attribute: &'static Attribute) -> u64 {
        match self.get(attribute) {
            Value::Number(number) => number,
            // The registry's parser gives an attribute no other kind of value.
            value => unreachable!("'{}' holds '{value}', which is no number", attribute.key),
        }
    }

    fn read(
        &self,
        entries: &[(String, String)],
    ) -> Result<(AttributeSet, BTreeMap<&'static str, Value>), ModelError> {
        let mut named = BTreeMap::new();
        for (key, text) in entries {
            let at = || format!("attributes.{}", fault_path::key(key));
            let attribute = registry::find(self.kind, key).map_err(|error| error.under(&at()))?;
            let value = attribute.parse(text).map_err(|error| error.under(&at()))?;
            if named.insert(attribute.key, value).is_some() {
                let message = format!("{} attribute key '{key}' is given twice", self.kind.noun());
                return Err(ModelError::invalid(message).under(&at()));
            }
        }
        let mut after = self.clone();
        after.given.extend(&named);
        Ok((after, named))
    }

    /// both failover keys in one change, with one value.
    fn check_failover(&self, named: &BTreeMap<&'static str, Value>) -> Result<(), ModelError> {
        let on_unhealthy = named.get(registry::FAILOVER_ON_UNHEALTHY.key);
        let on_deregistration = named.get(registry::FAILOVER_ON_DEREGISTRATION.key);
        if on_unhealthy == on_deregistration {
            return Ok(());
        }
        Err(ModelError::invalid(
            "Target group attribute keys 'target_failover.on_unhealthy' and \
             'target_failover.on_deregistration' must both be set to the same value for this target group",
        )
        .under("attributes"))
    }

    /// no reset beside stickiness or `rebalance`, whichever of the two comes second. A change
    /// that touches none of them is not held responsible for what a state file brought.
    fn check_resets(&self, named: &BTreeMap<&'static str, Value>) -> Result<(), ModelError> {
        let resets = [&registry::RESET_ON_UNHEALTHY, &registry::RESET_ON_DEREGISTRATION];
        let rivals = [
            (&registry::STICKINESS_ENABLED, Value::Flag(true)),
            (&registry::FAILOVER_ON_UNHEALTHY, Value::Choice("rebalance")),
        ];
        for reset in resets.into_iter().filter(|reset| self.flag(reset)) {
            for (rival, value) in rivals.iter().filter(|(rival, value)| self.get(rival) == *value) {
                if named.contains_key(reset.key) || named.contains_key(rival.key) {
                    return Err(ModelError::invalid(format!(
                        "Target group attribute '{}' cannot be 'true' while '{}' is '{value}'",
                        reset.key, rival.key
                    ))
                    .under("attributes"));
                }
            }
        }
        Ok(())
    }
}
