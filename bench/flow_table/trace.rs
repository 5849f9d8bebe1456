//! Which flows leave and which come, burst by burst, in random order and decided beforehand, so that each
//! contender reads it front to back, as it would its packets.

use flowgate::flow::FlowKey;

use super::{BATCH, BURST, Random};

pub struct Trace {
    /// In the table.
    live: Vec<FlowKey>,
    /// Not in it, the one that left last at the end of the circle.
    spare: Vec<FlowKey>,
    next_spare: usize,
    random: Random,
}

/// One burst's flows.
pub struct Change<K> {
    pub leave: [K; BURST],
    pub come: [K; BURST],
}

impl Trace {
    pub fn new(live: Vec<FlowKey>, mut spare: Vec<FlowKey>) -> Self {
        Random(9).shuffle(&mut spare);
        Trace { live, spare, next_spare: 0, random: Random(11) }
    }

    /// Who is there at first.
    pub fn live(&self) -> &[FlowKey] {
        &self.live
    }

    /// A batch of changes, each key as the contender wants it.
    pub fn batch<K>(&mut self, cut: impl Fn(&FlowKey) -> K) -> Vec<Change<K>> {
        (0..BATCH).map(|_| self.burst(&cut)).collect()
    }

    fn burst<K>(&mut self, cut: impl Fn(&FlowKey) -> K) -> Change<K> {
        let pairs: [(FlowKey, FlowKey); BURST] = std::array::from_fn(|i| {
            // Each from a part of its own, so that none leaves twice.
            let part = self.live.len() / BURST;
            let at = i * part + self.random.below(part);
            let (live, spare) = (&mut self.live[at], &mut self.spare[self.next_spare]);
            std::mem::swap(live, spare);
            let pair = (*spare, *live);
            self.next_spare = (self.next_spare + 1) % self.spare.len();
            pair
        });
        Change { leave: pairs.map(|pair| cut(&pair.0)), come: pairs.map(|pair| cut(&pair.1)) }
    }
}
