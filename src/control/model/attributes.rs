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

    /// That this set may take the place of `before`, as if it had been reached by one change that named
    /// every key whose value is another. What was there before is not held against it.
    pub(super) fn check_in_place_of(&self, before: &AttributeSet) -> Result<(), ModelError> {
        let other = |attribute: &'static Attribute| self.get(attribute) != before.get(attribute);
        let mut named: BTreeMap<_, _> = self
            .describe()
            .filter(|(attribute, _)| other(attribute))
            .map(|(attribute, value)| (attribute.key, value))
            .collect();
        // A whole names both failover keys, be it by leaving one at its default.
        let failover = [&registry::FAILOVER_ON_UNHEALTHY, &registry::FAILOVER_ON_DEREGISTRATION];
        if failover.into_iter().any(other) {
            named.extend(failover.map(|attribute| (attribute.key, self.get(attribute))));
        }
        self.check_failover(&named)?;
        self.check_resets(&named)
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

#[cfg(test)]
mod tests {
    use super::super::fixture::pairs;
    use super::*;

    const FAILOVER: [&str; 2] = ["target_failover.on_unhealthy", "target_failover.on_deregistration"];
    const RESETS: [&str; 2] =
        ["send_tcp_reset.on_unhealthy.enabled", "send_tcp_reset.on_deregistration.enabled"];

    fn group(given: &[(&str, &str)]) -> AttributeSet {
        AttributeSet::new(ObjectKind::TargetGroup).modified(&pairs(given)).expect("allowed")
    }

    fn refusal(set: &AttributeSet, changes: &[(&str, &str)]) -> String {
        set.modified(&pairs(changes)).expect_err("not allowed").message
    }

    #[test]
    fn a4_the_failover_keys_are_set_in_one_change_to_one_value() {
        let set = group(&[(FAILOVER[0], "rebalance"), (FAILOVER[1], "rebalance")]);
        for changes in [
            &[(FAILOVER[0], "no_rebalance")][..],
            &[(FAILOVER[1], "no_rebalance")],
            // Also where one alone would make no difference: AWS asks for both.
            &[(FAILOVER[1], "rebalance")],
            &[(FAILOVER[0], "no_rebalance"), (FAILOVER[1], "rebalance")],
        ] {
            assert_eq!(
                refusal(&set, changes),
                "Target group attribute keys 'target_failover.on_unhealthy' and \
                 'target_failover.on_deregistration' must both be set to the same value for this target group",
                "{changes:?}"
            );
        }
        let back = pairs(&[(FAILOVER[1], "no_rebalance"), (FAILOVER[0], "no_rebalance")]);
        set.modified(&back).expect("both, to the same value");
    }

    #[test]
    fn a5_a_reset_is_refused_beside_stickiness_or_rebalance_whichever_comes_second() {
        let sticky = [("stickiness.enabled", "true")];
        let rebalance = [(FAILOVER[0], "rebalance"), (FAILOVER[1], "rebalance")];
        for reset in RESETS {
            let reset = [(reset, "true")];
            for rival in [&sticky[..], &rebalance] {
                let key = rival[0].0;
                let expected = format!(
                    "Target group attribute '{}' cannot be 'true' while '{key}' is '{}'",
                    reset[0].0, rival[0].1
                );
                assert_eq!(refusal(&group(rival), &reset), expected);
                assert_eq!(refusal(&group(&reset), rival), expected);
                assert_eq!(refusal(&group(&[]), &[rival, &reset[..]].concat()), expected);
            }
        }
    }

    #[test]
    fn a5_the_two_resets_do_not_depend_on_each_other() {
        for (first, second) in [("true", "false"), ("false", "true"), ("true", "true")] {
            let set = group(&[(RESETS[0], first), (RESETS[1], second)]);
            assert_eq!(set.flag(&registry::RESET_ON_UNHEALTHY), first == "true");
            assert_eq!(set.flag(&registry::RESET_ON_DEREGISTRATION), second == "true");
        }
    }

    #[test]
    fn r9_r10_r11_our_own_keys_of_resets_and_r12s_are_refused_beside_nothing_in_either_order() {
        let own = [
            ("flowgate.reset.both_ends", "true"),
            ("flowgate.reset.proactive", "true"),
            ("flowgate.reset.hold_ms", "1000"),
            ("flowgate.inband.silence_ms", "100"),
        ];
        let rivals = [
            &[("stickiness.enabled", "true")][..],
            &[(FAILOVER[0], "rebalance"), (FAILOVER[1], "rebalance")],
            &[(RESETS[0], "true"), (RESETS[1], "true")],
            &[(RESETS[0], "false"), (RESETS[1], "false")],
        ];
        for rival in rivals {
            let one = group(&own).modified(&pairs(rival)).expect("not refused");
            assert_eq!(group(rival).modified(&pairs(&own)).expect("nor the other way round"), one);
            assert_eq!(group(&[rival, &own[..]].concat()), one);
        }
    }

    #[test]
    fn a5_one_change_may_trade_a_reset_for_stickiness() {
        let set = group(&[(RESETS[0], "true")]);
        set.modified(&pairs(&[(RESETS[0], "false"), ("stickiness.enabled", "true")]))
            .expect("the result holds no contradiction");
        // The kind of stickiness alone contradicts nothing while it is off.
        set.modified(&pairs(&[("stickiness.type", "source_ip_dest_ip")])).expect("off");
    }

    #[test]
    fn a5_a_contradiction_that_was_stored_does_not_stand_in_the_way_of_other_keys() {
        let entries = pairs(&[(RESETS[0], "true"), ("stickiness.enabled", "true")]);
        let stored = AttributeSet::stored(ObjectKind::TargetGroup, &entries).expect("read as it is");
        let delay = pairs(&[("deregistration_delay.timeout_seconds", "5")]);
        let after = stored.modified(&delay).expect("has nothing to do with it");
        assert_eq!(after.number(&registry::DEREGISTRATION_DELAY), 5);
        after.modified(&pairs(&[(RESETS[0], "false")])).expect("the way out");
        assert!(after.modified(&pairs(&[(RESETS[0], "true")])).is_err(), "the way further in");
    }

    #[test]
    fn a11_one_bad_key_and_nothing_is_changed_and_its_path_is_told() {
        let set = group(&[("deregistration_delay.timeout_seconds", "7")]);
        let changes = pairs(&[("deregistration_delay.timeout_seconds", "8"), ("stickiness.type", "none")]);
        let error = set.modified(&changes).expect_err("the second is bad");
        assert_eq!(error.path.as_deref(), Some("attributes.\"stickiness.type\""));
        assert_eq!(error.message, "'none' must be one of [source_ip_dest_ip_proto, source_ip_dest_ip]");
        assert_eq!(set.number(&registry::DEREGISTRATION_DELAY), 7);
    }

    #[test]
    fn a11_keys_not_named_keep_their_values() {
        let set = group(&[("deregistration_delay.timeout_seconds", "7"), (RESETS[1], "true")]);
        let after = set.modified(&pairs(&[(RESETS[1], "false")])).expect("allowed");
        assert_eq!(after.number(&registry::DEREGISTRATION_DELAY), 7);
        assert!(!after.flag(&registry::RESET_ON_DEREGISTRATION));
    }

    //
    #[test]
    fn a_key_named_twice_in_one_change_is_refused() {
        let key = "deregistration_delay.timeout_seconds";
        assert_eq!(
            refusal(&group(&[]), &[(key, "1"), (key, "1")]),
            format!("Target group attribute key '{key}' is given twice")
        );
    }

    #[test]
    fn a12_a_description_lists_every_key_of_its_kind_and_no_other_with_ours_among_them() {
        let set = group(&[("flowgate.health_check.interval_ms", "50")]);
        let described: Vec<_> =
            set.describe().map(|(attribute, value)| (attribute.key, value.to_string())).collect();
        let keys: Vec<_> = described.iter().map(|(key, _)| *key).collect();
        assert_eq!(
            keys,
            [
                "deregistration_delay.timeout_seconds",
                "stickiness.enabled",
                "stickiness.type",
                "target_failover.on_deregistration",
                "target_failover.on_unhealthy",
                "send_tcp_reset.on_unhealthy.enabled",
                "send_tcp_reset.on_deregistration.enabled",
                "flowgate.health_check.interval_ms",
                "flowgate.health_check.timeout_ms",
                "flowgate.reset.both_ends",
                "flowgate.reset.proactive",
                "flowgate.reset.hold_ms",
                "flowgate.reset.min_healthy_percent",
                "flowgate.reset.max_per_second",
                "flowgate.inband.silence_ms",
            ]
        );
        assert!(described.contains(&("flowgate.health_check.interval_ms", "50".to_owned())));
        assert!(described.contains(&("stickiness.type", "source_ip_dest_ip_proto".to_owned())));
    }
}
