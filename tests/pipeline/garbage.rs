//! Any bytes on any port: counted under a named reason and dropped, or passed; never a panic (C-1).

use flowgate::datapath::forwarding::Condition;
use proptest::prelude::*;

use crate::harness::*;

/// Frames that are nearly right: one of the harness's, with some bytes changed, cut or grown.
fn mutated() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let frame = (1u16..6, any::<u8>(), any::<bool>(), any::<bool>(), any::<bool>(), 0usize..3).prop_map(
        |(port, flags, udp, six, back, vlans)| {
            let mut segment = Segment { vlans: vec![9; vlans], ..client(port, flags) };
            if udp {
                segment = segment.udp();
            }
            if six {
                segment = segment.over_ipv6();
            }
            if back {
                segment = segment.reversed();
            }
            segment.frame()
        },
    );
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (0usize..3, frame, changes, 0usize..40, any::<bool>()).prop_map(
        |(port, mut frame, changes, cut, grow)| {
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if grow {
                frame.resize(frame.len() + cut, 0xaa);
            } else {
                frame.truncate(frame.len().saturating_sub(cut));
            }
            (port, frame)
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Frame(usize, Vec<u8>),
    /// An answer to the last encapsulated frame, with some bytes changed and so much cut off.
    Answer(Vec<(prop::sample::Index, u8)>, usize),
    Condition(u16, Condition),
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let condition = prop::sample::select(vec![
        Condition::Initial,
        Condition::Healthy,
        Condition::Unhealthy,
        Condition::Draining,
        Condition::Removed,
    ]);
    let raw = (0usize..3, prop::collection::vec(any::<u8>(), 0..200));
    let step = prop_oneof![
        4 => mutated().prop_map(|(port, frame)| Step::Frame(port, frame)),
        1 => raw.prop_map(|(port, frame)| Step::Frame(port, frame)),
        4 => (prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), 0usize..30)
            .prop_map(|(changes, cut)| Step::Answer(changes, cut)),
        1 => (0u16..3, condition).prop_map(|(target, condition)| Step::Condition(target, condition)),
        1 => (0u32..400_000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // C-1, R-5
    #[test]
    fn whatever_arrives_is_settled_and_nothing_breaks(
        steps in steps(), resets: bool, idle: bool, workers in 1u8..3, capacity in 1u32..40,
    ) {
        let mut bench = Bench::with(3, workers, capacity);
        bench.policy.reset_on_unhealthy = resets;
        bench.policy.reset_on_deregistration = resets;
        bench.policy.reset_on_idle = idle;
        bench.publish();
        let mut last: Option<Vec<u8>> = None;
        for step in steps {
            let waited = bench.waiting() as usize;
            let out = match step {
                Step::Frame(port, frame) => bench.put(port, &frame),
                Step::Answer(changes, cut) => {
                    let Some(out) = &last else { continue };
                    let mut back = answer(out, None);
                    for (at, byte) in changes {
                        let at = at.index(back.len());
                        back[at] = byte;
                    }
                    back.truncate(back.len() - cut);
                    bench.put(UNDER, &back)
                }
                Step::Condition(target, condition) => {
                    bench.set_condition(target, condition);
                    Vec::new()
                }
                Step::Pass(ms) => {
                    bench.pass(ms);
                    Vec::new()
                }
            };
            // A first fragment may bring those along that waited for it (M-4).
            prop_assert!(out.len() <= 1 + waited, "one packet in, {} out, {waited} waited", out.len());
            if let Some((UNDER, frame)) = out.into_iter().next() {
                last = Some(frame);
            }
            bench.assert_settled();
        }
        bench.pass(1001);
        prop_assert_eq!(bench.waiting(), 0);
        bench.assert_settled();
        let live: u64 = (0..3).map(|target| bench.live_flows(target)).sum();
        prop_assert!(live <= u64::from(capacity) * u64::from(workers));
    }
}

/// One thing that is made wrong in a good frame.
#[derive(Clone, Debug)]
pub enum Spoil {
    Bit(prop::sample::Index),
    Cut(prop::sample::Index),
    /// The length at this place says so many more or fewer.
    Length(usize, i16),
    /// An option's type and length, at this place.
    Option(usize, u8, u8),
    /// IPv6 with this chain of extension headers in the packet's place.
    Chain(Vec<u8>),
}

/// Spoils of frames whose lengths and options stand at these places.
pub fn spoils(lengths: &'static [usize], options: usize) -> impl Strategy<Value = Spoil> {
    // Hop-by-hop, routing, fragment, authentication, destination options, shim6, none, and no extension.
    let header = prop::sample::select(vec![0u8, 43, 44, 51, 60, 140, 59, 41, 6, 17, 58]);
    prop_oneof![
        3 => any::<prop::sample::Index>().prop_map(Spoil::Bit),
        2 => any::<prop::sample::Index>().prop_map(Spoil::Cut),
        3 => (prop::sample::select(lengths), any::<i16>()).prop_map(|(at, more)| Spoil::Length(at, more)),
        2 => (0usize..12, any::<u8>(), any::<u8>())
            .prop_map(move |(place, kind, len)| Spoil::Option(options + 3 * place, kind, len)),
        2 => prop::collection::vec(header, 1..12).prop_map(Spoil::Chain),
    ]
}

/// A packet over IPv6 behind a chain of extension headers of 8 bytes each.
pub fn chained(chain: &[u8]) -> Vec<u8> {
    let mut ip = client(1, ACK).over_ipv6().ip();
    let rest = ip.split_off(40);
    let mut next = chain.iter().skip(1).chain([&6]);
    ip[6] = chain[0];
    for _ in chain {
        ip.extend([*next.next().expect("one more than headers"), 0, 0, 0, 0, 0, 0, 0]);
    }
    let payload = (chain.len() * 8 + rest.len()) as u16;
    ip[4..6].copy_from_slice(&payload.to_be_bytes());
    [ip, rest].concat()
}

/// Spoils an untagged frame of a side's; an answer but for its chains.
pub fn spoil(mut frame: Vec<u8>, how: &Spoil) -> Vec<u8> {
    match how {
        Spoil::Bit(_) | Spoil::Cut(_) if frame.is_empty() => {}
        Spoil::Bit(at) => {
            let bit = at.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        Spoil::Cut(at) => frame.truncate(at.index(frame.len())),
        Spoil::Length(at, more) => {
            if let Some(field) = frame.get_mut(*at..at + 2) {
                let length = u16::from_be_bytes([field[0], field[1]]).wrapping_add_signed(*more);
                field.copy_from_slice(&length.to_be_bytes());
            }
        }
        Spoil::Option(at, kind, len) => {
            if let Some(option) = frame.get_mut(*at..at + 2) {
                option.copy_from_slice(&[*kind, *len]);
            }
        }
        Spoil::Chain(chain) if frame.len() >= 14 => {
            frame.truncate(12);
            frame.extend([0x86, 0xdd]);
            frame.extend(chained(chain));
        }
        Spoil::Chain(_) => {}
    }
    frame
}

/// Where lengths stand in a frame of a side's: IPv4, IPv6, UDP, and where TCP has its data offset.
const LENGTHS: [usize; 5] = [16, 18, 14, 38, 46];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // C-1, R-5, M-6, F-8
    #[test]
    fn whatever_is_wrong_with_an_arrival_it_has_one_end_and_leaves_its_flow_alone(
        six: bool, udp: bool, back: bool, unhealthy: bool, spoils in prop::collection::vec(spoils(&LENGTHS, 34), 1..4),
    ) {
        let mut bench = Bench::new(1);
        bench.policy.reset_on_unhealthy = true;
        bench.policy.reset_on_idle = true;
        bench.publish();
        // A flow that nothing here is of.
        let bystander = Segment { src: "192.0.2.77".parse().unwrap(), ..client(7777, SYN) };
        let (_, out) = bench.one(LEFT, &bystander.frame());
        bench.one(LEFT, &Segment { flags: ACK, ..bystander.clone() }.frame());
        if unhealthy {
            bench.set_condition(0, Condition::Unhealthy);
        }
        let segment = client(1, ACK | PSH).with_payload(b"twelve bytes");
        let segment = if udp { segment.udp() } else { segment };
        let segment = if six { segment.over_ipv6() } else { segment };
        let (port, segment) = if back { (RIGHT, segment.reversed()) } else { (LEFT, segment) };
        let mut frame = segment.frame();
        for how in &spoils {
            frame = spoil(frame, how);
        }
        let seen = bench.put(port, &frame);
        prop_assert!(seen.len() <= 1);
        bench.assert_settled();
        bench.set_condition(0, Condition::Healthy);
        let (_, again) = bench.one(LEFT, &Segment { flags: ACK, ..bystander }.frame());
        prop_assert_eq!(cookie(&again), cookie(&out));
    }
}
