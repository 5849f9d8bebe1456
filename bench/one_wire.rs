//! One wire and its load balancer, with any number of healthy targets: the forwarding state that the benches'
//! gateways go by, and who the targets are.

use std::net::Ipv4Addr;

use flowgate::balance::Builder;
use flowgate::datapath::forwarding::{
    Condition, Endpoint, EndpointKind, Forwarding, Gateway as LoadBalancer, Policy, PortRole, Target,
    Underlay,
};
use flowgate::flow::{HashSeed, Timers};
use flowgate::id::{EndpointId, GatewayId, PortId, TargetId};
use flowgate::wire::ethernet::MacAddr;
use flowgate::wire::geneve::outer::OuterTemplate;

/// The clients' end of the wire, the servers' end, the target side: places among the ports.
pub const CLIENTS: usize = 0;
pub const SERVERS: usize = 1;
pub const TARGETS: usize = 2;

/// Established flows never idle out here: a bench sets the clock forward again and again.
pub const TIMERS: Timers =
    Timers { tcp_idle_ms: 1 << 30, other_idle_ms: 120_000, closed_ms: 10_000, half_open_ms: 60_000 };

/// The endpoint's identity, as GENEVE carries it.
pub const ENDPOINT: (u64, u64) = (0x1122_3344_5566_7788, 7);

pub const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x60]);

pub fn target_address(n: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a09_0101 + u32::from(n))
}

pub fn target_mac(n: u16) -> MacAddr {
    let [high, low] = n.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// SplitMix64's output function: a bijection that leaves no trace of the order.
pub fn mixed(n: u64) -> u64 {
    let x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The headers of the targets' answers.
pub fn answer_templates(targets: u16) -> Vec<OuterTemplate> {
    let answer = |n| OuterTemplate::new(target_mac(n), GATEWAY_MAC, target_address(n), TUNNEL);
    (0..targets).map(answer).collect()
}

/// The forwarding state of a wire with so many healthy targets.
pub fn forwarding(seed: &HashSeed, configuration: u64, targets: u16) -> Forwarding {
    let mut builder = Builder::new(seed.clone());
    builder.update(&(0..targets).map(|n| (TargetId(n), target_address(n), 1)).collect::<Vec<_>>());
    let target = |n| {
        let template = OuterTemplate::new(GATEWAY_MAC, target_mac(n), TUNNEL, target_address(n));
        Some(Target {
            generation: 0,
            address: target_address(n).to_bits(),
            gateway: Some(GatewayId(0)),
            template: Some(template),
        })
    };
    let wire = |peer| PortRole::Wire { endpoint: EndpointId(0), peer: PortId(peer) };
    Forwarding {
        configuration,
        ports: [wire(1), wire(0), PortRole::Underlay].into(),
        interfaces: [].into(),
        endpoints: [Endpoint {
            id: ENDPOINT.0,
            attachment_id: ENDPOINT.1,
            gateway: Some(GatewayId(0)),
            kind: EndpointKind::Wire,
        }]
        .into(),
        gateways: [Some(LoadBalancer {
            dualstack: true,
            timers: TIMERS,
            policy: Policy::default(),
            map: builder.map(),
        })]
        .into(),
        targets: (0..targets).map(target).collect(),
        conditions: vec![Condition::Healthy; usize::from(targets)].into(),
        underlay: Underlay { port: PortId(2), address: TUNNEL.to_bits(), mtu: 1600, ..Underlay::default() },
    }
}
