//! The node's configuration.
//!
//! Promises: a refusal is one line. What is accepted is accepted with the same meaning when it is written again in
//! TOML's plain form; and what it says of itself holds, by a second look: names and cores are there once, and
//! every port that is named exists.

use crate::text::is_one_line;
use flowgate::control::node::NodeConfig;
use std::collections::BTreeSet;

const LONGEST: usize = 8192;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.len() > LONGEST {
        return;
    }
    let read = NodeConfig::parse(text);
    match &read {
        Err(refusal) => is_one_line(&refusal.to_string()),
        Ok(config) => agrees_with_itself(config),
    }
    // A table of this library has no room for the numbers above 63 bits that an id may be.
    if let Ok(table) = toml::from_str::<toml::Table>(text) {
        let again = NodeConfig::parse(&toml::to_string(&table).unwrap());
        // Of several faults another may be told first.
        let shown = |config: &NodeConfig| format!("{config:?}");
        assert_eq!(read.as_ref().map(shown).ok(), again.as_ref().map(shown).ok(), "{read:?} {again:?}");
    }
}

fn agrees_with_itself(config: &NodeConfig) {
    let ports: BTreeSet<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(ports.len(), config.ports.len());
    let endpoints: BTreeSet<&str> = config.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(endpoints.len(), config.endpoints.len());
    let cores: BTreeSet<u16> = config.workers.cores.iter().copied().collect();
    assert_eq!(cores.len(), config.workers.cores.len());
    assert_eq!(config.underlay.is_none(), ports.is_empty(), "a node without ports is idle, and no other is");
    assert!(config.underlay.is_none() || !(cores.is_empty() || endpoints.is_empty()));
    let of_endpoints = config.endpoints.iter().flat_map(|endpoint| {
        let of_interfaces = endpoint.interfaces.iter().map(|interface| interface.port.as_str());
        endpoint.ports.iter().map(flowgate::control::model::Name::as_str).chain(of_interfaces)
    });
    let of_underlay = config.underlay.iter().map(|underlay| underlay.port.as_str());
    let named: BTreeSet<&str> = of_endpoints.chain(of_underlay).collect();
    assert_eq!(named, ports);
    assert!((1..=107).contains(&config.socket.path.as_os_str().len()));
}
