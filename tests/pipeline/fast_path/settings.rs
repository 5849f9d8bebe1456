//! What the control core may say: policies, timers, the target side, and who holds which slot.

use std::sync::{Arc, OnceLock};

use flowgate::datapath::forwarding::{Failover, Policy, PortRole, ResetGuards, UnknownFlow};
use flowgate::datapath::steering::Steering;
use flowgate::flow::{Timers, Tuple};
use flowgate::id::QueueId;
use flowgate::wire::ethernet::MacAddr;
use flowgate::wire::geneve::outer::OuterTemplate;
use proptest::prelude::*;
use proptest::sample::select;

use crate::harness::*;

/// Slots for targets.
pub const TARGETS: u16 = 3;

/// One forwarding state.
#[derive(Clone, Debug)]
pub struct Setting {
    pub policy: Policy,
    pub timers: Timers,
    pub mtu: u16,
    pub udp_checksum: bool,
    pub dualstack: bool,
    pub steered: bool,
    pub slots: [Slot; TARGETS as usize],
    pub wire: Wire,
}

/// Who is in a target's slot.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub generation: u16,
    pub holder: Holder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Known,
    /// Its link-layer address is not known.
    Unresolved,
    Nobody,
}

/// What is the matter with wire 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Fine,
    /// It has no load balancer.
    Alone,
    /// Its client's end is unplugged.
    HalfUnused,
    /// Its endpoint has another id.
    Renamed,
}

impl Setting {
    /// As everything begins.
    pub fn first() -> Setting {
        let timers = Timers { tcp_idle_ms: 400, other_idle_ms: 300, closed_ms: 60, half_open_ms: 120 };
        Setting {
            policy: Policy::default(),
            timers,
            mtu: 1600,
            udp_checksum: false,
            dualstack: true,
            steered: false,
            slots: [Slot { generation: 0, holder: Holder::Known }; 3],
            wire: Wire::Fine,
        }
    }

    pub fn publish(&self, bench: &mut Bench) {
        (bench.policy, bench.timers, bench.mtu) = (self.policy, self.timers, self.mtu);
        (bench.udp_checksum, bench.dualstack) = (self.udp_checksum, self.dualstack);
        bench.steering = self.steered.then(|| steering(bench.workers.len())).flatten();
        bench.publish_but(|forwarding| {
            for ((n, slot), target) in (0..).zip(self.slots).zip(&mut forwarding.targets) {
                let Some(holder) = target else { continue };
                // The second is the first, registered again; the third has another address.
                let address = target_address(n + TARGETS * (slot.generation / 2));
                let mac = MacAddr([2, 0, 0, 0, 2 + slot.generation as u8, n as u8]);
                (holder.generation, holder.address) = (slot.generation, address.to_bits());
                holder.template = (slot.holder == Holder::Known)
                    .then(|| OuterTemplate::new(MacAddr(GATEWAY_MAC), mac, TUNNEL, address));
                if slot.holder == Holder::Nobody {
                    *target = None;
                }
            }
            match self.wire {
                Wire::Fine => {}
                Wire::Alone => forwarding.endpoints[0].gateway = None,
                Wire::HalfUnused => forwarding.ports[LEFT] = PortRole::Unused,
                Wire::Renamed => forwarding.endpoints[0].id ^= 1,
            }
        });
    }
}

/// The steering of so many workers, made once as that takes its time.
fn steering(workers: usize) -> Option<Arc<Steering>> {
    static MADE: [OnceLock<Option<Arc<Steering>>>; 5] = [const { OnceLock::new() }; 5];
    let made = MADE[workers].get_or_init(|| {
        let queues: Vec<QueueId> = (0..64).map(|entry| QueueId(entry % workers as u16)).collect();
        Steering::new(&queues, workers as u8).map(Arc::new)
    });
    made.clone()
}

fn policy() -> impl Strategy<Value = Policy> {
    let flags = any::<[bool; 7]>();
    let proactive = prop::bool::weighted(0.15);
    let unknown = select(vec![UnknownFlow::Drop, UnknownFlow::Adopt, UnknownFlow::Reset]);
    let stickiness = select(vec![Tuple::Five, Tuple::Three, Tuple::Two]);
    let guards = prop_oneof![
        2 => Just(ResetGuards::default()),
        1 => (0u32..200, 0u32..100, 0u32..20).prop_map(|(hold_ms, min_healthy_percent, max_per_second)| {
            ResetGuards { hold_ms, min_healthy_percent, max_per_second }
        }),
    ];
    let no_flow = select(vec![0u32, 20, 1000]);
    (flags, proactive, unknown, stickiness, guards, no_flow).prop_map(
        |(flags, proactive, unknown_flow, stickiness, guards, no_flow_resets_per_second)| Policy {
            stickiness,
            failover: if flags[0] { Failover::Rebalance } else { Failover::NoRebalance },
            reset_on_unhealthy: flags[1],
            reset_on_deregistration: flags[2],
            reset_on_idle: flags[3],
            unknown_flow,
            syn_reselect: flags[4],
            both_ends: flags[5],
            proactive,
            guards,
            no_flow_resets_per_second,
            mss_clamp: flags[6],
        },
    )
}

/// Any state that the control core may publish.
pub fn setting() -> impl Strategy<Value = Setting> {
    let timers = prop_oneof![
        3 => Just(Setting::first().timers),
        1 => Just(Timers::default()),
        1 => (1u32..100, 1u32..100, 1u32..100, 1u32..100).prop_map(|(tcp, other, closed, half_open)| Timers {
            tcp_idle_ms: tcp, other_idle_ms: other, closed_ms: closed, half_open_ms: half_open,
        }),
    ];
    let mtu = prop_oneof![6 => Just(1600u16), 2 => 120u16..200, 1 => select(vec![0u16, 1500, 9000])];
    let holder =
        prop_oneof![16 => Just(Holder::Known), 1 => Just(Holder::Unresolved), 1 => Just(Holder::Nobody)];
    let slot = (prop_oneof![4 => Just(0u16), 1 => 1u16..3], holder)
        .prop_map(|(generation, holder)| Slot { generation, holder });
    let wire = prop_oneof![
        8 => Just(Wire::Fine),
        1 => select(vec![Wire::Alone, Wire::HalfUnused, Wire::Renamed]),
    ];
    let [checksum, no_six, steered] = [0.1, 0.1, 0.3].map(prop::bool::weighted);
    (policy(), timers, mtu, checksum, no_six, steered, [slot.clone(), slot.clone(), slot], wire).prop_map(
        |(policy, timers, mtu, udp_checksum, no_six, steered, slots, wire)| Setting {
            policy,
            timers,
            mtu,
            udp_checksum,
            dualstack: !no_six,
            steered,
            slots,
            wire,
        },
    )
}
