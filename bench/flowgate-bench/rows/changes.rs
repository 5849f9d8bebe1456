//! What a change costs the packets that come with it: by how much the longest round grows when a new
//! forwarding state, or a target's new condition, reaches a worker that has 1 M flows, under traffic of
//! all of them.
//!
//! Batches of 32 rounds, each round measured by itself: with nothing, with a forwarding state, with a
//! condition, in turn. Of each batch the longest round counts, by CPU time. A batch during which the CPU took an
//! interrupt, or the thread lost it to another, is left out (`disturbances.rs`).

use std::sync::Arc;
use std::time::Duration;

use flowgate::datapath::forwarding::{Condition, Forwarding};
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::id::TargetId;
use flowgate::io::BURST;

use super::Bench;
use crate::Failure;
use crate::contenders::gateway::{Gateway, Shape, seed};
use crate::disturbances::Disturbances;
use crate::frames::Shuffled;
use crate::one_wire::forwarding;
use crate::report::{Figure, Row, Share, at_most, count};
use crate::rings::BATCH;
use crate::series::{Series, quantile};

/// Targets behind the gateway: more than most have.
const MANY_TARGETS: u16 = 100;

/// Rounds of the bench, and how often each kind of change is made in each. The longest of a round is the longest of
/// so many changes; the verdict is by the round in which it was the least, of each kind.
const TURNS: u32 = 12;
const REPETITIONS: u32 = 300;
const REPETITIONS_IN_SHORT: u32 = 10;

/// What reaches the worker at the start of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Forwarding,
    Condition,
}

/// Longest rounds, in microseconds.
struct Longest {
    change: Change,
    name: &'static str,
    rounds: Vec<f64>,
    /// The longest of each turn.
    turns: Series,
    dropped: u32,
}

impl Longest {
    fn of(change: Change, name: &'static str) -> Longest {
        Longest { change, name, rounds: Vec::new(), turns: Series::default(), dropped: 0 }
    }

    /// The longest round of so great a share of the batches.
    fn quantile(&mut self, share: f64) -> f64 {
        self.rounds.sort_by(f64::total_cmp);
        quantile(&self.rounds, share)
    }
}

/// A gateway that things change for, and forwarding states that come and go.
struct Changing {
    gateway: Gateway,
    order: Shuffled,
    spare: Vec<Arc<Forwarding>>,
    sequence: u64,
}

impl Changing {
    fn send(&mut self, change: Change) -> Result<(), Failure> {
        let message = match change {
            Change::Nothing => return Ok(()),
            Change::Forwarding => {
                ToWorker::Forwarding(self.spare.pop().ok_or("the worker returns no forwarding state")?)
            }
            Change::Condition => {
                self.sequence += 1;
                let condition =
                    if self.sequence % 2 == 1 { Condition::Unhealthy } else { Condition::Healthy };
                let target = TargetId(0);
                ToWorker::Condition { target, generation: 0, condition, sequence: self.sequence }
            }
        };
        self.gateway.control.push(message).map_err(|_| "the worker takes no messages")?;
        Ok(())
    }

    /// What the worker has said, and gives back to be used again.
    fn listen(&mut self) {
        while let Ok(event) = self.gateway.events.pop() {
            if let FromWorker::Retired { forwarding, .. } = event
                && forwarding.configuration > 0
            {
                self.spare.push(forwarding);
            }
        }
    }

    /// A batch at whose start the change comes; its longest round, or nothing if it was disturbed.
    fn batch(&mut self, change: Change, machine: &mut Disturbances) -> Result<Option<Duration>, Failure> {
        let mut expected = self.order.clone();
        self.gateway.put_client_packets(BATCH, &mut self.order)?;
        self.send(change)?;
        let before = machine.count()?;
        let mut longest = Duration::ZERO;
        self.gateway.stand.work_by_rounds(BATCH, |took| longest = longest.max(took))?;
        let disturbed = machine.count()? != before;
        self.gateway.take_client_packets(BATCH, &mut expected)?;
        self.listen();
        Ok((!disturbed).then_some(longest))
    }
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let flows = bench.size(1 << 20);
    let repetitions = if bench.short { REPETITIONS_IN_SHORT } else { REPETITIONS };
    bench.says(format_args!("changes, {} flows: opening them", count(flows)));
    let shape = Shape { targets: MANY_TARGETS, ..Shape::full(flows) };
    let mut changing = Changing {
        gateway: Gateway::new(&bench.rings, shape)?,
        order: Shuffled::below(flows),
        spare: (2..4)
            .map(|configuration| Arc::new(forwarding(&seed(), configuration, MANY_TARGETS)))
            .collect(),
        sequence: 0,
    };
    changing.listen();
    let mut all = [
        Longest::of(Change::Nothing, "nothing changes"),
        Longest::of(Change::Forwarding, "a new forwarding state"),
        Longest::of(Change::Condition, "a target's new condition"),
    ];
    let mut machine = Disturbances::of(bench.cpu)?;
    for turn in 1..=TURNS {
        let begun = all.each_ref().map(|longest| longest.rounds.len());
        for _ in 0..repetitions {
            for longest in &mut all {
                match changing.batch(longest.change, &mut machine)? {
                    Some(round) => longest.rounds.push(round.as_secs_f64() * 1e6),
                    None => longest.dropped += 1,
                }
            }
        }
        for (longest, begun) in all.iter_mut().zip(begun) {
            // A turn that was disturbed from first to last has none.
            if let Some(most) = longest.rounds[begun..].iter().copied().reduce(f64::max) {
                longest.turns.push(most);
            }
        }
        if turn.is_multiple_of(4) {
            bench.says(format_args!("  round {turn} of {TURNS}"));
        }
    }
    let mut row = Row::new(
        "changes",
        format!("longest round with a change, {} flows, {MANY_TARGETS} targets", count(flows)),
    );
    let [nothing, changes @ ..] = &mut all;
    let (usual, without) = (nothing.quantile(0.5), nothing.turns.best());
    for change in changes {
        let growth = change.turns.best() - without;
        row.verdicts.push(at_most(format!("growth with {}", change.name), growth, 20.0, "µs"));
        let typical = change.quantile(0.5) - usual;
        row.notes
            .push(format!("With {} the usual batch's longest round grows by {typical:.2} µs.", change.name));
    }
    for longest in &mut all {
        let mut figure = Figure::new(longest.name, "µs");
        figure.shares =
            [0.5, 0.99, 1.0].map(|share| Share { share, value: longest.quantile(share) }).to_vec();
        row.figures.push(figure);
    }
    let longest: Vec<String> =
        all.iter().map(|longest| format!("{} {:.1}", longest.name, longest.turns.best())).collect();
    let dropped: u32 = all.iter().map(|longest| longest.dropped).sum();
    row.notes.push(format!(
        "Above, the longest of {} rounds of the worker, which so great a share of the batches does not pass. The longest \
         of {repetitions} batches, in the best of {TURNS} rounds: {} µs; of these the verdict is. {dropped} of {} batches \
         were disturbed by the machine and left out.",
        BATCH / BURST,
        longest.join(", "),
        repetitions * TURNS * 3,
    ));
    Ok(vec![row])
}
