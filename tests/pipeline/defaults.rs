//! With its defaults the gateway behaves as AWS documents: what goes past AWS is off, and a document in which
//! nothing is set but what must be makes a gateway that does none of it.

use std::time::Duration;

use flowgate::control::compile::{Compiler, NodeFacts};
use flowgate::control::health::NodeScope;
use flowgate::control::health::damping::Verdict;
use flowgate::control::model::State;
use flowgate::control::model::registry::{self, ObjectKind, Value};
use flowgate::control::node::NodeConfig;
use flowgate::control::slots::Slots;
use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::forwarding::{Condition, Policy, Underlay};
use flowgate::flow::{HashSeed, Timers};
use flowgate::wire::ethernet::MacAddr;

use crate::harness::*;

const OBJECTS: &str = r#"{
    "version": 1,
    "load_balancers": [{ "name": "gw", "listener": { "target_group": "fw" } }],
    "target_groups": [{ "name": "fw", "targets": [
        { "address": "10.9.1.1" }, { "address": "10.9.1.2" }, { "address": "10.9.1.3" }
    ] }]
}"#;

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
address = "10.9.0.1/16"
[[endpoints]]
name = "edge"
id = 1
kind = "wire"
ports = ["left", "right"]
load_balancer = "gw"
"#;

/// What the control core compiles of a document in which nothing is set.
fn compiled() -> (Policy, Timers) {
    let state = State::from_document(OBJECTS).expect("a document");
    let config = NodeConfig::parse(NODE).expect("a node");
    let node = NodeFacts {
        subnets: Default::default(),
        scope: NodeScope::default(),
        ports: Vec::new(),
        endpoints: Vec::new(),
        interfaces: Vec::new(),
        underlay: Underlay::default(),
        underlay_mac: MacAddr::BROADCAST,
        routes: config.underlay,
    };
    let mut compiler = Compiler::new(node, HashSeed::from_secret(b"a secret of sixteen"));
    let forwarding = compiler.compile(&state, &mut Slots::default(), |_| Verdict::Healthy, |_| None);
    let gateway = forwarding.gateways.first().cloned().flatten().expect("the load balancer");
    assert!(gateway.map.members.iter().all(|member| member.weight() == 1), "O-3: all weigh the same");
    assert!(!gateway.dualstack, "O-1");
    (gateway.policy, gateway.timers)
}

/// A gateway that goes by it.
fn by_defaults() -> Bench {
    let mut bench = Bench::new(3);
    (bench.policy, bench.timers) = compiled();
    bench.publish();
    bench
}

/// A flow that both sides have used, and its target.
fn established(bench: &mut Bench) -> u16 {
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    bench.one(RIGHT, &client(4000, SYN | ACK).reversed().frame());
    bench.one(LEFT, &client(4000, ACK).frame());
    bench.target_of(&out)
}

fn data() -> Segment {
    client(4000, ACK | PSH).with_payload(b"data")
}

// A-1 to A-10, A-12, H-2, O-3, R-9 to R-12, M-3, F-8, F-14
#[test]
fn what_goes_past_aws_is_off_unless_it_says_otherwise() {
    // The limit bounds what others can provoke where one of the resets of no flow was turned on.
    let on_by_default = ["flowgate.tcp.syn_reselect", "flowgate.reset.no_flow_max_per_second"];
    let all = [ObjectKind::TargetGroup, ObjectKind::Listener, ObjectKind::LoadBalancer];
    for attribute in all.into_iter().flat_map(registry::of) {
        let of_aws = !attribute.key.starts_with("flowgate.");
        // Times that AWS has too, but does not let its users set.
        let is_a_time = attribute.key.ends_with("_timeout_seconds");
        let off = match attribute.default {
            Value::Flag(on) => !on,
            Value::Number(number) => number == 0,
            Value::Choice(word) => word == "drop",
        };
        let expected_on = on_by_default.contains(&attribute.key);
        assert!(of_aws || is_a_time || off != expected_on, "{} is {}", attribute.key, attribute.default);
    }
    let (policy, timers) = compiled();
    assert_eq!(policy, Policy::default());
    assert_eq!(timers, Timers::default(), "A-7, A-10");
}

// H-1, H-2, H-7, R-12
#[test]
fn checks_are_those_of_aws_and_nothing_is_checked_out_of_turn() {
    let state = State::from_document(OBJECTS).expect("a document");
    let settings = state.target_group("fw").expect("the group").settings();
    let check = settings.health_check;
    assert_eq!((check.interval, check.timeout), (Duration::from_secs(10), Duration::from_secs(5)));
    assert_eq!((check.healthy_threshold, check.unhealthy_threshold, check.port), (5, 2, 80));
    assert_eq!(settings.inband_silence, None);
}

// T-1, R-1, R-9, R-10, A-5
#[test]
fn a_flow_of_an_unhealthy_target_goes_on_and_nobody_is_told() {
    let mut bench = by_defaults();
    let target = established(&mut bench);
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!(bench.take(), [], "silent sides are left alone");
    for (port, segment) in [(LEFT, data()), (RIGHT, data().reversed())] {
        let (by, out) = bench.one(port, &segment.frame());
        assert_eq!((by, bench.target_of(&out)), (UNDER, target));
    }
    assert_eq!(bench.outcome(Outcome::Answered), 0);
}

// R-1, R-9, R-10, R-11
#[test]
fn with_aws_s_reset_alone_one_side_is_told_at_its_packet_at_once_and_the_other_is_not() {
    let mut bench = by_defaults();
    bench.policy.reset_on_unhealthy = true;
    bench.publish();
    let target = established(&mut bench);
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!(bench.take(), [], "R-10 is off");
    assert_eq!(bench.one(LEFT, &data().frame()).0, LEFT, "R-11 is off: no guard holds it back");
    let reply = data().reversed();
    assert_eq!(bench.dropped(RIGHT, &reply.frame()), DropReason::UnknownFlow, "R-9 is off");
}

// F-8, R-3, A-6
#[test]
fn a_packet_of_no_flow_and_one_of_an_idle_flow_are_dropped_silently() {
    let mut bench = by_defaults();
    assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::UnknownFlow);
    established(&mut bench);
    bench.pass(350_000);
    assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::ExpiredFlow);
}

// A-7, A-10
#[test]
fn tcp_idles_out_after_350_s_and_all_else_after_120_s() {
    let mut bench = by_defaults();
    established(&mut bench);
    bench.one(LEFT, &client(53, 0).udp().frame());
    let live = |bench: &Bench| (0..3).map(|target| bench.live_flows(target)).sum::<u64>();
    let seen = [119_999, 1, 229_999, 1].map(|ms| {
        bench.pass(ms);
        live(&bench)
    });
    assert_eq!(seen, [2, 1, 1, 0]);
}

// M-3
#[test]
fn the_mss_of_a_syn_is_what_its_sender_says() {
    let mut bench = by_defaults();
    let mut syn = client(4000, SYN).frame();
    // A SYN with an MSS of 8,960, far more than fits.
    syn.splice(54..54, [2, 4, 0x23, 0]);
    syn[46] = 0x60;
    syn[16..18].copy_from_slice(&44u16.to_be_bytes());
    syn[24..26].fill(0);
    let sum = checksum(&[&syn[14..34]]);
    syn[24..26].copy_from_slice(&sum.to_be_bytes());
    syn[50..52].fill(0);
    let sum = checksum(&[&syn[26..34], &[0, 6, 0, 24], &syn[34..]]);
    syn[50..52].copy_from_slice(&sum.to_be_bytes());
    let (_, out) = bench.one(LEFT, &syn);
    assert_eq!(inner(&out), &syn[14..]);
}

// A-2, A-3, F-3
#[test]
fn a_target_is_chosen_by_all_five_of_the_tuple() {
    let mut bench = by_defaults();
    let targets = (1000..1050).map(|port| {
        let (_, out) = bench.one(LEFT, &client(port, SYN).frame());
        bench.target_of(&out)
    });
    let targets: std::collections::BTreeSet<u16> = targets.collect();
    assert_eq!(targets.len(), 3, "ports alone spread flows over all targets");
}
