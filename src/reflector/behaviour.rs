//! What a reflector is told to do: as flags at its start, as JSON on its control socket while it runs.

#![forbid(unsafe_code)]

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What happens to packets. All off: they are sent back as W-4 asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::Args)]
pub struct Behaviour {
    /// Swallow every packet, as a dead appliance does
    #[arg(long)]
    pub drop: bool,

    /// Answer every TCP packet with a reset of its own, sent to the packet's sender inside the same GENEVE header
    #[arg(long)]
    pub reset: bool,

    /// Lower the inner packet's TTL or hop limit by one, as a routing appliance does
    #[arg(long)]
    pub ttl_decrement: bool,

    /// Return a flow cookie that is not the one received
    #[arg(long)]
    pub wrong_cookie: bool,

    /// Return the GENEVE options in the opposite order
    #[arg(long)]
    pub reverse_options: bool,

    /// Put a GENEVE option of an experimental class in front of the others
    #[arg(long)]
    pub extra_option: bool,

    /// Send a right UDP checksum instead of 0
    #[arg(long)]
    pub udp_checksum: bool,

    /// Send from this UDP port; 0 leaves the packet's own, as it should be
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub source_port: u16,
}

/// How health checks are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Connections are accepted, HTTP is answered with 200.
    #[default]
    Answer,
    /// Connections are refused: nobody listens.
    Refuse,
    /// Connection attempts are swallowed, and open connections get no answer any more.
    Silent,
    /// Connections are accepted, HTTP is answered with this code.
    Code(u16),
}

/// Text that is no way of answering health checks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' must be one of answer, refuse, silent, or an HTTP code of 100-599")]
pub struct BadHealth(String);

impl Health {
    /// Whether an HTTP code can be sent at all.
    fn checked(self) -> Result<Health, BadHealth> {
        match self {
            Health::Code(code) if !(100..=599).contains(&code) => Err(BadHealth(code.to_string())),
            other => Ok(other),
        }
    }
}

impl FromStr for Health {
    type Err = BadHealth;

    fn from_str(text: &str) -> Result<Health, BadHealth> {
        match text {
            "answer" => Ok(Health::Answer),
            "refuse" => Ok(Health::Refuse),
            "silent" => Ok(Health::Silent),
            code => code.parse().map(Health::Code).map_err(|_| BadHealth(code.to_owned()))?.checked(),
        }
    }
}

/// One line on the control socket: what is named changes, all of it at once; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    drop: Option<bool>,
    reset: Option<bool>,
    ttl_decrement: Option<bool>,
    wrong_cookie: Option<bool>,
    reverse_options: Option<bool>,
    extra_option: Option<bool>,
    udp_checksum: Option<bool>,
    source_port: Option<u16>,
    health: Option<Health>,
    counters: Option<AskForCounters>,
}

/// `{}`, as in `{"counters":{}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskForCounters {}

impl Change {
    /// Reads a line; the error is a sentence for whoever wrote it.
    pub fn parse(line: &str) -> Result<Change, String> {
        let change: Change = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if let Some(health) = change.health {
            health.checked().map_err(|error| error.to_string())?;
        }
        Ok(change)
    }

    /// The behaviour after the change.
    pub fn apply(&self, before: Behaviour) -> Behaviour {
        Behaviour {
            drop: self.drop.unwrap_or(before.drop),
            reset: self.reset.unwrap_or(before.reset),
            ttl_decrement: self.ttl_decrement.unwrap_or(before.ttl_decrement),
            wrong_cookie: self.wrong_cookie.unwrap_or(before.wrong_cookie),
            reverse_options: self.reverse_options.unwrap_or(before.reverse_options),
            extra_option: self.extra_option.unwrap_or(before.extra_option),
            udp_checksum: self.udp_checksum.unwrap_or(before.udp_checksum),
            source_port: self.source_port.unwrap_or(before.source_port),
        }
    }

    /// How health checks are answered from now on, if that changes.
    pub fn health(&self) -> Option<Health> {
        self.health
    }

    /// Whether the counters are asked for.
    pub fn asks_for_counters(&self) -> bool {
        self.counters.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_changes_what_it_names_and_nothing_else() {
        let before = Behaviour { ttl_decrement: true, source_port: 7, ..Behaviour::default() };
        let change = Change::parse(r#"{"drop":true,"source_port":4000}"#).unwrap();
        assert_eq!(
            change.apply(before),
            Behaviour { drop: true, ttl_decrement: true, source_port: 4000, ..before }
        );
        assert_eq!((change.health(), change.asks_for_counters()), (None, false));
        let back = Change::parse(r#"{"drop":false,"source_port":0,"ttl_decrement":false}"#).unwrap();
        assert_eq!(back.apply(change.apply(before)), Behaviour::default());
        assert!(Change::parse(r#"{"counters":{}}"#).unwrap().asks_for_counters());
    }

    #[test]
    fn every_way_of_answering_checks_is_read_from_json_and_from_a_flag() {
        for (json, flag, health) in [
            (r#""answer""#, "answer", Health::Answer),
            (r#""refuse""#, "refuse", Health::Refuse),
            (r#""silent""#, "silent", Health::Silent),
            (r#"{"code":503}"#, "503", Health::Code(503)),
        ] {
            let line = format!(r#"{{"health":{json}}}"#);
            assert_eq!(Change::parse(&line).unwrap().health(), Some(health));
            assert_eq!(flag.parse(), Ok(health));
        }
        assert!("sulk".parse::<Health>().is_err() && "600".parse::<Health>().is_err());
    }

    #[test]
    fn a_line_that_is_not_understood_changes_nothing_and_says_why() {
        for (line, expected) in [
            (r#"{"dorp":true}"#, "unknown field `dorp`"),
            (r#"{"drop":1}"#, "expected a boolean"),
            (r#"{"health":{"code":42}}"#, "'42' must be one of answer, refuse, silent, or an HTTP code"),
            ("nonsense", "expected"),
        ] {
            let error = Change::parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
