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
