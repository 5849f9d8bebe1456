//! The whole data path over memory ports: any packets in any bursts, any table states that they lead to, and any
//! messages of the control core's in between. An input is a game: its first bytes say what kind of gateway there is, and
//! each of those that follow makes a move.
//!
//! Promises (`laws.rs`): every packet that came in is counted once by what became of it (C-1), and none is kept for
//! ever; nothing comes out that no count speaks of; no frame is larger than its link takes; a packet is answered at most once
//! and by no longer a reset than it was itself, and ICMP errors are no more bytes than what they are about; the packets of a flow go to one target, under a cookie that no other
//! flow has (F-2, F-11); the table, walked, agrees with the counts and has no flow twice. Where the game has it, every frame
//! is asked about first, and what was foreseen must come (`tests/pipeline/foresight.rs`), or all is captured, and the capture must
//! say what the counters do (`tests/pipeline/watched.rs`).

mod frames;
mod laws;
mod moves;

use crate::bytes::Bytes;
use crate::harness::{Bench, UNDER};
use crate::network::Network;
use laws::Laws;
use std::collections::VecDeque;

const LONGEST: usize = 1024;
/// Moves of a game: what takes more is found by fewer.
const MOVES: usize = 60;
/// Encapsulated frames that may still be answered.
const REMEMBERED: usize = 16;
const CAPACITIES: [u32; 4] = [2, 5, 16, 64];

pub fn run(input: &[u8]) {
    if input.len() > LONGEST {
        return;
    }
    let mut bytes = Bytes(input);
    let mut game = Game::new(&mut bytes);
    for number in 0..MOVES {
        if bytes.is_empty() {
            break;
        }
        game.step(&mut bytes);
        game.laws.at_rest(&mut game.bench);
        if number % 8 == 7 {
            game.laws.tables(&mut game.bench);
        }
    }
    game.end();
}

/// A gateway, and what was seen of it.
struct Game {
    bench: Bench,
    laws: Laws,
    is_routed: bool,
    /// What targets were sent, the newest last.
    sent: VecDeque<Vec<u8>>,
    targets: u16,
    /// Bytes of packets that came and were told nothing, less what ICMP errors were longer than what they are about.
    untold: usize,
}

impl Game {
    fn new(bytes: &mut Bytes<'_>) -> Game {
        let (kind, targets) = (bytes.byte(), u16::from(bytes.byte() % 4));
        let (workers, capacity) = (1 + (kind & 1) + (kind >> 7), CAPACITIES[usize::from(kind >> 1 & 3)]);
        let is_routed = kind & 8 != 0;
        let wires = if is_routed { 1 } else { 2 };
        let mut bench = Bench::wired(wires, targets, workers, capacity);
        bench.foresees = kind & 16 != 0;
        if kind & 32 != 0 {
            bench.workers.iter_mut().for_each(|worker| worker.without_fast_path());
        }
        if is_routed {
            bench.network = Network::routed();
            bench.publish();
        }
        if kind & 64 != 0 {
            bench.watch_all();
        }
        let laws = Laws::new(&bench, u64::from(capacity) * u64::from(workers));
        Game { bench, laws, is_routed, sent: VecDeque::new(), targets, untold: 0 }
    }

    /// Remembers what targets were sent, and judges all that came out.
    fn came_out(&mut self, out: Vec<(usize, Vec<u8>)>) {
        for (port, frame) in out {
            self.laws.frame(&self.bench, port, &frame);
            if port == UNDER && self.laws.is_encapsulated(&frame) {
                self.sent.push_back(frame);
            }
        }
        while self.sent.len() > REMEMBERED {
            self.sent.pop_front();
        }
    }

    /// Lets everything that waits come to its end.
    fn end(&mut self) {
        for worker in &mut self.bench.workers {
            worker.ports_mut().iter_mut().for_each(|port| port.room = None);
        }
        for _ in 0..3 {
            // A round looks at a few of those that wait.
            self.bench.pass(4000);
            let out = self.bench.take();
            self.came_out(out);
        }
        self.laws.at_rest(&mut self.bench);
        self.laws.tables(&mut self.bench);
        let kept: usize = self.bench.workers.iter().map(|worker| worker.unsettled()).sum();
        assert_eq!((kept, self.bench.waiting()), (0, 0), "packets are kept for ever");
        if self.bench.watched_from_the_start {
            self.bench.assert_watched();
        }
    }
}
