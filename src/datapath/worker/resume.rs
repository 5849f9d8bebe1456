//! A worker that goes on with the flows of one whose process is gone.

use super::{LINKS, Worker};
use crate::datapath::links::LinkTable;
use crate::flow::{HashSeed, KeptLinks};
use crate::id::{Millis, PortId, TargetId};
use crate::io::PortQueue;

/// What it goes on with besides its table.
pub struct Resumed<'a> {
    /// The link-layer headers that the table's flows refer to, where they are kept.
    pub links: Option<KeptLinks>,
    /// Whether a port is the one that had its number before.
    pub is_same_port: &'a dyn Fn(PortId) -> bool,
    /// Keys the table of link-layer headers.
    pub link_seed: HashSeed,
    /// Targets that are unhealthy, and since when by the clock.
    pub unhealthy: &'a [(TargetId, Millis)],
    /// Until when, by the clock, TCP packets of no flow begin one, as flows were lost by the restart (F-8).
    pub adopt_until: Option<Millis>,
}

impl<Q: PortQueue> Worker<Q> {
    /// To be called before the first round.
    pub fn resume(&mut self, resumed: Resumed<'_>) {
        let Resumed { links, is_same_port, link_seed, unhealthy, adopt_until } = resumed;
        let links = links.map(|links| LinkTable::resumed(LINKS, link_seed, links, is_same_port));
        let pipeline = &mut self.pipeline;
        let beat = pipeline.flows.table.beat();
        // Its flows' times leave out all pauses that there ever were.
        self.clock_ahead = self.clock_ahead.wrapping_sub(beat.paused);
        let own_time = |at: Millis| Millis(at.0.wrapping_sub(beat.paused));
        pipeline.flows.resume(links, adopt_until.map(own_time), &pipeline.counters);
        let unhealthy: Vec<_> = unhealthy.iter().map(|(target, since)| (*target, own_time(*since))).collect();
        pipeline.conditions.resume(&unhealthy);
        // The hand goes on from where it was, and makes up for the time in which nobody moved it.
        self.aged_at = beat.round;
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::datapath::worker::WorkerParts;
    use crate::flow::{FilePages, InFile, Keep, Pages, Table, TableConfig};
    use crate::id::WorkerId;
    use crate::io::clock::Clock;
    use crate::io::memory::MemoryPort;

    fn worker(table: Table) -> Worker<MemoryPort> {
        let seed = HashSeed::from_secret(b"a secret for the tests");
        Worker::new(WorkerParts::alone(
            Vec::new(),
            table,
            seed,
            (rtrb::RingBuffer::new(1).1, rtrb::RingBuffer::new(1).0),
        ))
    }

    // F-9
    #[test]
    fn pauses_count_for_no_flow_after_a_restart_either() {
        let seed = HashSeed::from_secret(b"a secret for the tests");
        let config = TableConfig {
            capacity: 64,
            worker: WorkerId(0),
            workers: 1,
            pages: Pages::Small,
            seed: seed.clone(),
        };
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(config.file_bytes(FilePages::Small).unwrap() as u64).unwrap();
        let place = InFile { file: &file, pages: FilePages::Small, making: 1 };
        let mut clock = Clock::start();
        let mut one = worker(Table::create_in(&config, &place).unwrap());
        let mut own_time = Millis(0);
        // The one after a restart has them from the one before, and a third one from both.
        for restarts in 0..3 {
            if restarts > 0 {
                let mut table = Table::find_in(&config, &place).unwrap();
                table.take_over(|_| Keep::Yes);
                let links = table.kept_links();
                one = worker(table);
                let adopt_until = Some(clock.now().plus(5000));
                let (is_same_port, link_seed) = (&|_| true, seed.clone());
                one.resume(Resumed { links, is_same_port, link_seed, unhealthy: &[], adopt_until });
            }
            one.counted_round(&clock, clock.now(), clock.cycles());
            let silent = one.pipeline.now.since(own_time);
            assert!(restarts == 0 || silent < 400, "{silent} ms after restart {restarts}");
            clock.advance(400_000);
            one.counted_round(&clock, clock.now(), clock.cycles());
            own_time = one.pipeline.now;
            assert!(one.pipeline.flows.table.beat().paused >= 400_000 * (restarts + 1));
        }
    }
}
