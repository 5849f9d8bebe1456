//! By how much a worker's longest burst grows when the control core has news, with 1 M flows live.
//!
//! A worker takes full bursts of established packets, each of another flow than the one before. Now and
//! then the control core has a message for it: that round, and the rounds right after it, which find a new
//! forwarding state's memory cold, are set against the rounds before. Every forwarding state is made long
//! before it is sent, and a million flows pass through the caches in between, so that none of it is warm.
//!
//! A round is a burst of packets in and out. Times are medians over the repetitions, as a shared machine takes the
//! core away now and then; `after` is the worst of the medians of the 30 rounds that follow.

use std::time::Duration;

use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::{FlowFilter, ToWorker};
use flowgate::id::{InterfaceId, TargetId};
use flowgate::wire::ethernet::MacAddr;

#[path = "stalls/control.rs"]
mod control;
#[path = "stalls/gateway.rs"]
mod gateway;
#[path = "pipeline/ring.rs"]
mod ring;

use gateway::{Gateway, Shape};

/// Times that each message is sent.
const REPETITIONS: usize = 60;

/// Rounds before a message that it is set against.
const BEFORE: usize = 100;

/// Rounds after it that are looked at.
const AFTER: usize = 30;

const SHAPES: [Shape; 3] = [
    Shape { name: "10 targets, 1 load balancer", groups: &[10], proactive: false },
    Shape { name: "1,000 + 255 × 12 targets, 256 load balancers", groups: &[1000, 12], proactive: true },
    Shape {
        name: "16 × 1,000 + 240 × 1 targets, 256 load balancers", groups: &[1000; 16], proactive: true
    },
];

/// What is said to the worker.
struct News {
    name: &'static str,
    /// How the messages of a repetition are made.
    make: fn(&mut Gateway, usize) -> Vec<ToWorker>,
}

const NEWS: [News; 7] = [
    News { name: "nothing", make: |_, _| Vec::new() },
    News { name: "a forwarding state", make: |gateway, _| vec![gateway.forwarding(None)] },
    News {
        name: "a forwarding state, 1,000 targets drained",
        make: |gateway, n| vec![gateway.forwarding(Some([Condition::Draining, Condition::Healthy][n % 2]))],
    },
    News { name: "a health change", make: |_, n| vec![condition(3, n)] },
    News { name: "64 health changes", make: |_, n| (0..64).map(|target| condition(target, n)).collect() },
    News {
        name: "64 neighbours",
        make: |_, n| {
            let neighbour = |host: u32| ToWorker::Neighbour {
                interface: InterfaceId(0),
                address: std::net::Ipv4Addr::from_bits(0x0a00_0000 + host).into(),
                mac: (n % 2 == 0).then_some(MacAddr([2; 6])),
            };
            (0..64).map(neighbour).collect()
        },
    },
    News {
        name: "a question for flows",
        make: |_, _| vec![ToWorker::ScanFlows(FlowFilter { limit: 100, ..FlowFilter::default() })],
    },
];

fn condition(target: u16, n: usize) -> ToWorker {
    let condition = [Condition::Unhealthy, Condition::Healthy][n % 2];
    ToWorker::Condition { target: TargetId(target), generation: 0, condition, sequence: n as u64 }
}

fn main() {
    let flows = 1 << 20;
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for shape in &SHAPES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| shape.name.contains(wanted.as_str())) {
            continue;
        }
        let mut gateway = Gateway::new(shape, flows);
        println!("{}", shape.name);
        println!("{:44} {:>9} {:>9} {:>9} {:>9}", "µs a round", "before", "with", "after", "growth");
        for news in &NEWS {
            // Of both made beforehand, so that their memory is not warm when it is used.
            let mut messages: Vec<_> = (0..REPETITIONS).map(|n| (news.make)(&mut gateway, n)).collect();
            gateway.rounds(2000);
            let mut rounds = vec![Vec::new(); 1 + AFTER];
            let mut before = Vec::new();
            for messages in messages.drain(..) {
                gateway.rounds(BEFORE);
                before.extend(gateway.rounds(BEFORE));
                gateway.tell(messages);
                for (seen, took) in rounds.iter_mut().zip(gateway.rounds(1 + AFTER)) {
                    seen.push(took);
                }
                gateway.rounds(5000);
                gateway.hear();
            }
            let before = median(before);
            let rounds: Vec<Duration> = rounds.into_iter().map(median).collect();
            let after = rounds[1..].iter().max().copied().unwrap_or_default();
            let growth = rounds[0].max(after).saturating_sub(before);
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            println!(
                "{:44} {:9.1} {:9.1} {:9.1} {:9.1}",
                news.name,
                us(before),
                us(rounds[0]),
                us(after),
                us(growth)
            );
        }
        println!("{:44} {:>9} {:9.1}", "ageing: every entry looked at has ended", "", gateway.all_end());
        println!();
    }
    control::measure();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
