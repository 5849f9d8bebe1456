//! Any bytes at any routed port, from any target and from the host: each packet ends once, under a name, or
//! waits; never a panic (C-1).

use flowgate::datapath::host::FromHost;
use flowgate::datapath::waiting::PATIENCE_MS;
use flowgate::io::memory::MemoryBuf;
use proptest::prelude::*;

use super::*;

/// Somewhere that packets go to: servers, clients, the gateway itself, a group, nowhere.
const PLACES: [&str; 8] = [
    "198.51.100.20",
    "203.0.113.9",
    "192.0.2.10",
    "192.0.2.1",
    "100.64.3.3",
    "239.1.1.1",
    "127.0.0.1",
    "169.254.1.1",
];
const PLACES_6: [&str; 6] =
    ["2001:db8:1::20", "2001:db8:f::9", "2001:db8::1", "fe80::1", "ff02::1", "2001:db9::9"];

type Changes = Vec<(prop::sample::Index, u8)>;

fn changes(most: usize) -> impl Strategy<Value = Changes> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..most)
}

fn changed(mut frame: Vec<u8>, changes: &Changes, cut: usize) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(frame.len());
        frame[at] = *byte;
    }
    frame.truncate(frame.len().saturating_sub(cut));
    frame
}

/// A frame as one of the four networks' stations sends it, and the port.
fn station(place: usize, ip: &[u8]) -> (usize, Vec<u8>) {
    match place {
        0 => (LEFT, framed(LEFT_MAC, CLIENT_MAC, VLAN_100, ip)),
        1 => (LEFT, framed(LEFT_MAC, OTHER_CLIENT, VLAN_200, ip)),
        2 => (RIGHT, framed(RIGHT_MAC, NEAR_ROUTER, NO_TAG, ip)),
        _ => (RIGHT, framed(RIGHT_MAC, OTHER_ROUTER, VLAN_7_300, ip)),
    }
}

fn frame() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let segment = (
        1u16..6,
        any::<u8>(),
        any::<bool>(),
        any::<prop::sample::Index>(),
        any::<bool>(),
        0u8..6,
        0usize..1500,
    );
    (segment, 0usize..4, changes(4), 0usize..30).prop_map(
        |((port, flags, six, dst, udp, ttl, payload), place, changes, cut)| {
            let mut segment = Segment { ttl, payload: vec![0; payload], ..client(port, flags) };
            if six {
                segment = segment.over_ipv6();
                segment.dst = dst.get(&PLACES_6).parse().unwrap();
            } else {
                segment.dst = dst.get(&PLACES).parse().unwrap();
            }
            if udp {
                segment = segment.udp();
            }
            let (port, frame) = station(place, &segment.ip());
            (port, changed(frame, &changes, cut))
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Frame(usize, Vec<u8>),
    /// An answer to an encapsulated frame, with some bytes changed and so much cut off.
    Answer(Changes, usize),
    Host(u16, Vec<u8>),
    Neighbour(u16, prop::sample::Index, bool),
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let raw = || prop::collection::vec(any::<u8>(), 0..100);
    let step = prop_oneof![
        6 => frame().prop_map(|(port, frame)| Step::Frame(port, frame)),
        1 => (0usize..3, raw()).prop_map(|(port, frame)| Step::Frame(port, frame)),
        6 => (changes(3), 0usize..20).prop_map(|(changes, cut)| Step::Answer(changes, cut)),
        1 => (0u16..8, raw()).prop_map(|(interface, frame)| Step::Host(interface, frame)),
        2 => (0u16..7, any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(interface, address, known)| Step::Neighbour(interface, address, known)),
        1 => (0u32..2000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    // C-1, F-13
    #[test]
    fn whatever_arrives_ends_once_or_waits_and_nothing_breaks(
        steps in steps(), workers in 1u8..3, capacity in 1u32..40, small_mtu: bool,
    ) {
        let mut bench = lonely(workers, capacity);
        if small_mtu {
            bench.network.interfaces.iter_mut().for_each(|interface| interface.mtu = 600);
        }
        bench.publish();
        let mut last: Option<Vec<u8>> = None;
        for step in steps {
            let out = match step {
                Step::Frame(port, frame) => bench.put(port, &frame),
                Step::Answer(changes, cut) => {
                    let Some(out) = &last else { continue };
                    bench.put(UNDER, &changed(answer(out, None), &changes, cut))
                }
                Step::Host(interface, frame) => {
                    let packet = MemoryBuf::new(&frame);
                    bench.from_host.push(FromHost { interface: InterfaceId(interface), packet }).unwrap();
                    bench.rounds();
                    bench.take()
                }
                Step::Neighbour(interface, address, known) => {
                    let known_ones = ["203.0.113.253", "203.0.113.254", "fe80::53", CLIENT, CLIENT6];
                    let address = *address.get(&known_ones);
                    tell(&mut bench, InterfaceId(interface), address, known.then_some(NEAR_ROUTER));
                    bench.take()
                }
                Step::Pass(ms) => {
                    bench.pass(ms);
                    bench.take()
                }
            };
            hosted(&mut bench);
            let encapsulated = |(port, frame): &(usize, Vec<u8>)| *port == UNDER && frame.len() >= 82;
            last = out.into_iter().filter(encapsulated).map(|(_, frame)| frame).next_back().or(last);
            let received: u64 = bench.counters.iter().map(|all| all.received.get()).sum();
            let settled: u64 = bench.counters.iter().map(|all| all.settled()).sum();
            let waiting: usize = bench.workers.iter().map(|worker| worker.unsettled()).sum();
            prop_assert_eq!(received, settled + waiting as u64, "drops: {:?}", bench.drops());
        }
        bench.pass(PATIENCE_MS);
        bench.pass(PATIENCE_MS);
        bench.assert_settled();
    }
}
