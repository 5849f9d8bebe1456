//! The table of attributes (A-1..A-12): for each key, whose it is, its default, the values it
//! takes, the rule it comes from and a sentence for people.
//!
//! Everything that has to do with a key reads this table: parsing, refusals, `describe-*`, the JSON
//! Schema and the reference in `docs/configuration.md`. To add an attribute is to add one entry
//! here and one field in `settings.rs`.

use std::fmt;

use super::error::ModelError;

/// What kind of object an attribute, or a change, belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A load balancer (gateway).
    LoadBalancer,
    /// A load balancer's listener.
    Listener,
    /// A target group.
    TargetGroup,
}

impl ObjectKind {
    /// The kind as a sentence begins with it.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            ObjectKind::LoadBalancer => "Load balancer",
            ObjectKind::Listener => "Listener",
            ObjectKind::TargetGroup => "Target group",
        }
    }
}

/// The values that an attribute takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// `true` or `false`.
    Flag,
    /// One of these words, the default first.
    Choice(&'static [&'static str]),
    /// A whole number from `min` to `max`, both included.
    Number {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// As `Number`, or 0 for "not set".
    NumberOrUnset {
        /// The least value other than 0.
        min: u64,
        /// The greatest value.
        max: u64,
    },
}

/// An attribute's value, as parsed. Displays as it is written in requests and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of `Values::Flag`.
    Flag(bool),
    /// Of `Values::Choice`: one of its words.
    Choice(&'static str),
    /// Of `Values::Number` or `Values::NumberOrUnset`.
    Number(u64),
}

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The key, AWS's or, where it starts with `flowgate.` or AWS has none, our own.
    pub key: &'static str,
    /// Whose attribute it is.
    pub kind: ObjectKind,
    /// The value that holds where none was given.
    pub default: Value,
    /// The values it takes.
    pub values: Values,
    /// The rule in the project's semantics that it comes from.
    pub rule: &'static str,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
}

macro_rules! registry {
    ($($constant:ident = $kind:ident $key:literal, $default:ident($value:expr), $values:expr, $rule:literal, $doc:literal;)+) => {
        $(
            #[doc = $doc]
            pub static $constant: Attribute = Attribute {
                key: $key,
                kind: ObjectKind::$kind,
                default: Value::$default($value),
                values: $values,
                rule: $rule,
                doc: $doc,
            };
        )+

        /// The whole table, in the order in which `describe-*` and the documentation list it.
        pub static ATTRIBUTES: &[&Attribute] = &[$(&$constant),+];
    };
}

registry! {
    DEREGISTRATION_DELAY = TargetGroup "deregistration_delay.timeout_seconds", Number(300), Values::Number { min: 0, max: 3600 }, "A-1",
        "How long a deregistered target stays `draining`, in seconds: its flows go on, new ones go elsewhere.";
    STICKINESS_ENABLED = TargetGroup "stickiness.enabled", Flag(false), Values::Flag, "A-2",
        "Chooses the target by `stickiness.type` instead of by the 5-tuple.";
    STICKINESS_TYPE = TargetGroup "stickiness.type", Choice("source_ip_dest_ip_proto"),
        Values::Choice(&["source_ip_dest_ip_proto", "source_ip_dest_ip"]), "A-3",
        "With stickiness: the 3-tuple (addresses and protocol) or the 2-tuple (addresses).";
    FAILOVER_ON_DEREGISTRATION = TargetGroup "target_failover.on_deregistration", Choice("no_rebalance"),
        Values::Choice(&["no_rebalance", "rebalance"]), "A-4",
        "What becomes of the flows of a target whose drain has ended. Set together with `target_failover.on_unhealthy`, to the same value.";
    FAILOVER_ON_UNHEALTHY = TargetGroup "target_failover.on_unhealthy", Choice("no_rebalance"),
        Values::Choice(&["no_rebalance", "rebalance"]), "A-4",
        "What becomes of the flows of an unhealthy target. Set together with `target_failover.on_deregistration`, to the same value.";
    RESET_ON_UNHEALTHY = TargetGroup "send_tcp_reset.on_unhealthy.enabled", Flag(false), Values::Flag, "A-5",
        "Answers the next packet of a TCP flow whose target is unhealthy with a reset. Not with stickiness, not with `rebalance`.";
    RESET_ON_DEREGISTRATION = TargetGroup "send_tcp_reset.on_deregistration.enabled", Flag(false), Values::Flag, "A-5",
        "Answers the next packet of a TCP flow whose target's drain has ended with a reset. Not with stickiness, not with `rebalance`.";
    CHECK_INTERVAL_MS = TargetGroup "flowgate.health_check.interval_ms", Number(0), Values::NumberOrUnset { min: 10, max: 300_000 }, "H-2",
        "The health check's interval in milliseconds, instead of its seconds; 0 leaves it to the seconds. Thresholds of 1 are allowed while it is set.";
    CHECK_TIMEOUT_MS = TargetGroup "flowgate.health_check.timeout_ms", Number(0), Values::NumberOrUnset { min: 10, max: 120_000 }, "H-2",
        "The health check's timeout in milliseconds, instead of its seconds; 0 leaves it to the seconds. Thresholds of 1 are allowed while it is set.";
    RESET_BOTH_ENDS = TargetGroup "flowgate.reset.both_ends", Flag(false), Values::Flag, "R-9",
        "After one side of a flow was reset, the other side's next packet is reset too, once, within the idle timeout, even if a SYN has started a new flow meanwhile. Nothing is refused beside it: where no reset is on, it has no effect.";
    RESET_PROACTIVE = TargetGroup "flowgate.reset.proactive", Flag(false), Values::Flag, "R-10",
        "When a target's flows are to be reset (`send_tcp_reset.*`) and another target is healthy, also tells both ends of silent flows, without waiting for a packet. Flows that have sent nothing since this was turned on are told by their next packet. Nothing is refused beside it: where no `send_tcp_reset.*` is on, it has no effect.";
    RESET_HOLD_MS = TargetGroup "flowgate.reset.hold_ms", Number(0), Values::Number { min: 0, max: 3_600_000 }, "R-11",
        "How long a target must have been unhealthy before its flows are reset, in milliseconds. Until then they go on to it.";
    RESET_MIN_HEALTHY_PERCENT = TargetGroup "flowgate.reset.min_healthy_percent", Number(0), Values::Number { min: 0, max: 100 }, "R-11",
        "While fewer than this share of the targets in scope are healthy, no flow of an unhealthy target is reset: a check that fails everywhere is the check's fault; 0 for no such guard.";
    RESET_MAX_PER_SECOND = TargetGroup "flowgate.reset.max_per_second", Number(0), Values::Number { min: 0, max: 10_000_000 }, "R-11",
        "Resets of flows sent in a second at most, over all workers, evenly; each worker has its share and may send two at once. What is not reset goes on to its target, or is dropped if it has none. Those that answer packets of no live flow have a limit of their own, the listener's `flowgate.reset.no_flow_max_per_second`. 0 for no limit.";
    INBAND_SILENCE_MS = TargetGroup "flowgate.inband.silence_ms", Number(0), Values::NumberOrUnset { min: 50, max: 60_000 }, "R-12",
        "A target that is sent traffic and returns none for so long is checked at once, out of turn; 0 for no such check.";

    TCP_IDLE_TIMEOUT = Listener "tcp.idle_timeout.seconds", Number(350), Values::Number { min: 60, max: 6000 }, "A-7",
        "How long an established TCP flow may be silent, in seconds. With stickiness it is 350 and cannot be changed.";
    RESET_ON_IDLE_TIMEOUT = Listener "send_tcp_reset.on_idle_timeout.enabled", Flag(false), Values::Flag, "A-6",
        "Answers a TCP packet without SYN that belongs to an expired flow, or to none, with a reset.";
    UDP_IDLE_TIMEOUT = Listener "udp.idle_timeout.seconds", Number(120), Values::Number { min: 1, max: 6000 }, "A-10",
        "How long a flow of UDP, or of any protocol other than TCP, may be silent, in seconds. AWS has 120 and no key for it.";
    UNKNOWN_FLOW = Listener "flowgate.tcp.unknown_flow", Choice("drop"), Values::Choice(&["drop", "adopt", "reset"]), "F-8",
        "What a TCP packet without SYN that belongs to no flow meets. `adopt` takes it as a new flow, for a restart or a change of routes; of what is left `send_tcp_reset.on_idle_timeout.enabled` resets all.";
    NO_FLOW_RESETS = Listener "flowgate.reset.no_flow_max_per_second", Number(1000), Values::Number { min: 0, max: 10_000_000 }, "R-11",
        "Resets in answer to TCP packets of no live flow (`flowgate.tcp.unknown_flow`, `send_tcp_reset.on_idle_timeout.enabled`) sent in a second at most, over all workers, evenly; each worker has its share and may send two at once. Anybody who forges a sender can ask for them. What is not answered is dropped. 0 for no limit.";
    SYN_RESELECT = Listener "flowgate.tcp.syn_reselect", Flag(true), Values::Flag, "F-14",
        "A SYN on a live flow whose target is unhealthy or deregistered starts a new flow on a healthy target.";
    CLOSED_TIMEOUT = Listener "flowgate.tcp.closed_timeout_seconds", Number(10), Values::Number { min: 1, max: 6000 }, "F-9",
        "How long a TCP flow that was closed by both sides, or by a reset, is kept, in seconds.";
    HALF_OPEN_TIMEOUT = Listener "flowgate.tcp.half_open_timeout_seconds", Number(60), Values::Number { min: 1, max: 6000 }, "F-9",
        "How long a TCP flow of which only SYNs were seen, from one side, may be silent, in seconds.";
    MSS_CLAMP = Listener "flowgate.tcp.mss_clamp", Flag(false), Values::Flag, "M-3",
        "Lowers the MSS of SYNs, in both directions, to what fits the target side with its encapsulation.";

    CROSS_ZONE = LoadBalancer "load_balancing.cross_zone.enabled", Flag(false), Values::Flag, "A-8",
        "Gives new flows to the targets of every zone instead of the node's own.";
    DELETION_PROTECTION = LoadBalancer "deletion_protection.enabled", Flag(false), Values::Flag, "A-9",
        "Refuses to delete the load balancer.";
}

/// The attribute of `kind` that is called `key`.
///
/// # Errors
/// `ValidationError` for a key that this kind does not have, also if another kind has it.
pub fn find(kind: ObjectKind, key: &str) -> Result<&'static Attribute, ModelError> {
    of(kind).find(|attribute| attribute.key == key).ok_or_else(|| {
        ModelError::invalid(format!("{} attribute key '{key}' is not recognized", kind.noun()))
    })
}

/// The attributes of `kind`, in the table's order.
pub fn of(kind: ObjectKind) -> impl Iterator<Item = &'static Attribute> {
    ATTRIBUTES.iter().copied().filter(move |attribute| attribute.kind == kind)
}

impl Attribute {
    /// Reads a value of this attribute.
    ///
    /// # Errors
    /// `ValidationError` in AWS's words.
    pub fn parse(&self, text: &str) -> Result<Value, ModelError> {
        match self.values {
            Values::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(not_one_of(text, &["true", "false"])),
            },
            Values::Choice(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Ok(Value::Choice(word)),
                None => Err(not_one_of(text, words)),
            },
            Values::Number { min, max } => match number(text) {
                Some(n) if (min..=max).contains(&n) => Ok(Value::Number(n)),
                _ => Err(self.out_of_range(text, min, max, "")),
            },
            Values::NumberOrUnset { min, max } => match number(text) {
                Some(n) if n == 0 || (min..=max).contains(&n) => Ok(Value::Number(n)),
                _ => Err(self.out_of_range(text, min, max, ", or 0 for not set")),
            },
        }
    }

    fn out_of_range(&self, text: &str, min: u64, max: u64, otherwise: &str) -> ModelError {
        let key = self.key;
        ModelError::invalid(format!(
            "'{key}' value '{text}' must be between '{min}-{max}' inclusive{otherwise}"
        ))
    }
}

fn not_one_of(text: &str, words: &[&str]) -> ModelError {
    ModelError::invalid(format!("'{text}' must be one of [{}]", words.join(", ")))
}

/// Digits and nothing else: `u64::from_str` would take a `+` too.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Choice(word) => f.write_str(word),
            Value::Number(number) => write!(f, "{number}"),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Flag => f.write_str("true, false"),
            Values::Choice(words) => f.write_str(&words.join(", ")),
            Values::Number { min, max } => write!(f, "{min}–{max}"),
            Values::NumberOrUnset { min, max } => write!(f, "0, {min}–{max}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    //
    #[test]
    fn every_default_is_a_value_that_the_attribute_itself_accepts() {
        for attribute in ATTRIBUTES {
            assert_eq!(
                attribute.parse(&attribute.default.to_string()),
                Ok(attribute.default),
                "{}",
                attribute.key
            );
            if let Values::Choice(words) = attribute.values {
                assert_eq!(attribute.default, Value::Choice(words[0]), "{}", attribute.key);
            }
        }
    }

    #[test]
    fn no_key_is_in_the_table_twice() {
        let keys: BTreeSet<_> = ATTRIBUTES.iter().map(|attribute| attribute.key).collect();
        assert_eq!(keys.len(), ATTRIBUTES.len());
    }

    #[test]
    fn a1_to_a10_the_table_is_that_of_the_semantics() {
        use ObjectKind::{Listener, LoadBalancer, TargetGroup};
        // Written out here from the rules, not computed from the table.
        let rows: [(&str, ObjectKind, &str, &str, &str); 12] = [
            ("A-1", TargetGroup, "deregistration_delay.timeout_seconds", "300", "0–3600"),
            ("A-2", TargetGroup, "stickiness.enabled", "false", "true, false"),
            (
                "A-3",
                TargetGroup,
                "stickiness.type",
                "source_ip_dest_ip_proto",
                "source_ip_dest_ip_proto, source_ip_dest_ip",
            ),
            (
                "A-4",
                TargetGroup,
                "target_failover.on_deregistration",
                "no_rebalance",
                "no_rebalance, rebalance",
            ),
            ("A-4", TargetGroup, "target_failover.on_unhealthy", "no_rebalance", "no_rebalance, rebalance"),
            ("A-5", TargetGroup, "send_tcp_reset.on_unhealthy.enabled", "false", "true, false"),
            ("A-5", TargetGroup, "send_tcp_reset.on_deregistration.enabled", "false", "true, false"),
            ("A-6", Listener, "send_tcp_reset.on_idle_timeout.enabled", "false", "true, false"),
            ("A-7", Listener, "tcp.idle_timeout.seconds", "350", "60–6000"),
            ("A-8", LoadBalancer, "load_balancing.cross_zone.enabled", "false", "true, false"),
            ("A-9", LoadBalancer, "deletion_protection.enabled", "false", "true, false"),
            ("A-10", Listener, "udp.idle_timeout.seconds", "120", "1–6000"),
        ];
        for (rule, kind, key, default, values) in rows {
            let attribute = find(kind, key).expect(key);
            assert_eq!(attribute.rule, rule, "{key}");
            assert_eq!(attribute.default.to_string(), default, "{key}");
            assert_eq!(attribute.values.to_string(), values, "{key}");
        }
        let own = ATTRIBUTES.iter().filter(|attribute| attribute.key.starts_with("flowgate."));
        assert_eq!(rows.len() + own.count(), ATTRIBUTES.len(), "a key of no rule is in the table");
    }

    #[test]
    fn a11_refusals_are_in_the_words_of_aws() {
        let refusal = |attribute: &Attribute, text: &str| attribute.parse(text).expect_err(text).to_string();
        for text in ["3601", "-1", "", "+5", "5.0", "five", "99999999999999999999"] {
            assert_eq!(
                refusal(&DEREGISTRATION_DELAY, text),
                format!(
                    "'deregistration_delay.timeout_seconds' value '{text}' must be between '0-3600' inclusive"
                )
            );
        }
        assert_eq!(
            refusal(&STICKINESS_TYPE, "lb_cookie"),
            "'lb_cookie' must be one of [source_ip_dest_ip_proto, source_ip_dest_ip]"
        );
        assert_eq!(refusal(&CROSS_ZONE, "True"), "'True' must be one of [true, false]");
        let unknown = find(ObjectKind::TargetGroup, "slow_start.duration_seconds");
        assert_eq!(
            unknown.expect_err("not ours").to_string(),
            "Target group attribute key 'slow_start.duration_seconds' is not recognized"
        );
        let of_another_kind = find(ObjectKind::Listener, "stickiness.enabled");
        assert_eq!(
            of_another_kind.expect_err("a target group's").to_string(),
            "Listener attribute key 'stickiness.enabled' is not recognized"
        );
    }

    //
    #[test]
    fn both_ends_of_a_range_are_in_it() {
        for attribute in ATTRIBUTES {
            let (min, max) = match attribute.values {
                Values::Number { min, max } | Values::NumberOrUnset { min, max } => (min, max),
                Values::Flag | Values::Choice(_) => continue,
            };
            assert_eq!(attribute.parse(&min.to_string()), Ok(Value::Number(min)));
            assert_eq!(attribute.parse(&max.to_string()), Ok(Value::Number(max)));
            assert!(attribute.parse(&(max + 1).to_string()).is_err(), "{}", attribute.key);
            if min > 1 {
                assert!(attribute.parse(&(min - 1).to_string()).is_err(), "{}", attribute.key);
            }
        }
    }
}
