//! What a neighbour's news costs the control core: a new forwarding state of everything, of which only one
//! target's link-layer address is another.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowgate::balance::Row;
use flowgate::control::compile::{Compiler, NodeFacts};
use flowgate::control::health::damping::Verdict;
use flowgate::control::health::{NodeScope, TargetKey};
use flowgate::control::model::State;
use flowgate::control::neighbours::Hop;
use flowgate::control::node::NodeConfig;
use flowgate::control::slots::Slots;
use flowgate::datapath::forwarding::{Forwarding, Underlay};
use flowgate::flow::HashSeed;
use flowgate::wire::ethernet::MacAddr;

const LOAD_BALANCERS: usize = 256;
const TARGETS: usize = 16;
const REPETITIONS: usize = 21;

const NODE: &str = r#"
[workers]
cores = [1]
[[ports]]
name = "left"
device = "net_null0"
[[ports]]
name = "right"
device = "net_null1"
[[ports]]
name = "under"
device = "net_null2"
[underlay]
port = "under"
address = "10.9.0.100/8"
[[endpoints]]
name = "edge"
id = 1
kind = "wire"
ports = ["left", "right"]
load_balancer = "lb-0"
"#;

fn objects() -> String {
    let balancer = |n| format!(r#"{{"name": "lb-{n}", "listener": {{"target_group": "tg-{n}"}}}}"#);
    let target = |n, m| format!(r#"{{"address": "10.9.{n}.{m}"}}"#);
    let group = |n| {
        let targets: Vec<String> = (101..101 + TARGETS).map(|m| target(n, m)).collect();
        format!(r#"{{"name": "tg-{n}", "targets": [{}]}}"#, targets.join(","))
    };
    let balancers: Vec<String> = (0..LOAD_BALANCERS).map(balancer).collect();
    let groups: Vec<String> = (0..LOAD_BALANCERS).map(group).collect();
    format!(
        r#"{{"version": 1, "load_balancers": [{}], "target_groups": [{}]}}"#,
        balancers.join(","),
        groups.join(",")
    )
}

/// Compiles one state after the other and prints how long that takes, and how long it would take to copy all tables.
pub fn measure() {
    let config = NodeConfig::parse(NODE).expect("a sound configuration");
    let node = NodeFacts {
        scope: NodeScope::default(),
        subnets: BTreeMap::new(),
        ports: Vec::new(),
        endpoints: Vec::new(),
        interfaces: Vec::new(),
        underlay: Underlay::default(),
        underlay_mac: MacAddr::BROADCAST,
        routes: config.underlay,
    };
    let state = State::from_document(&objects()).expect("sound objects");
    let mut compiler = Compiler::new(node, HashSeed::from_secret(b"bench"));
    let mut slots = Slots::default();
    let mut compile = |last: u8| -> Forwarding {
        let mac = |_: &Hop| Some(MacAddr([2, 0, 0, 0, 0, last]));
        let mut forwarding = compiler.compile(&state, &mut slots, |_: &TargetKey| Verdict::Healthy, mac);
        forwarding.prepare();
        forwarding
    };
    let (first, forwarding) = timed(|| compile(0));
    let again = super::median((0..REPETITIONS).map(|_| timed(|| black_box(compile(1))).0).collect());
    let copy = || -> Vec<Arc<[Row]>> {
        let maps = forwarding.gateways.iter().flatten().map(|gateway| &gateway.map);
        maps.map(|map| map.rows.iter().copied().collect()).collect()
    };
    let copied = super::median((0..REPETITIONS).map(|_| timed(|| black_box(copy())).0).collect());
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("control core, {LOAD_BALANCERS} load balancers of {TARGETS} targets");
    println!("{:44} {:9.1} ms", "the first forwarding state", ms(first));
    println!("{:44} {:9.1} ms", "the next, of a neighbour's news", ms(again));
    println!("{:44} {:9.1} ms", "to copy all tables, as was done before", ms(copied));
}

fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let made = what();
    (start.elapsed(), made)
}
