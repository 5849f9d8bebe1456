//! What testpmd's `5tswap` does, in this process and by the same rings as Flowgate: receive a burst, swap
//! the link, network and transport addresses of each packet, transmit it by the port that it came by. By
//! itself it shows what the bench's way of feeding costs beside testpmd's own loop; with a flow table
//! looked up for every burst it is the least that a stateful program over that table could be.

use flowgate::io::dpdk::{Mbuf, Queue};
use flowgate::io::{BURST, Burst, PacketBuf, PortQueue};

use super::rte_hash::RteHash;
use crate::frames::Shuffled;
use crate::stand::Forwarder;

/// A flow as a program of IPv4 alone would name it: the lower end's address and port first.
pub type Tuple = [u8; 16];

/// The flow table of such a program.
pub trait Flows {
    /// Whether it is one at all: if not, no tuples are read.
    const KEPT: bool = true;

    /// A burst's flows: looked up, and those that are not there added, if there is room.
    fn see(&mut self, tuples: &[Tuple]);

    /// Removes a flow; whether it was there.
    fn forget(&mut self, tuple: &Tuple) -> bool;
}

/// No flow table.
pub struct Stateless;

impl Flows for Stateless {
    const KEPT: bool = false;

    fn see(&mut self, _: &[Tuple]) {}

    fn forget(&mut self, _: &Tuple) -> bool {
        false
    }
}

/// `rte_hash` and its bulk look-up.
pub struct InRteHash {
    pub table: RteHash<16>,
    /// Flows that were added, and those that found no room.
    pub added: u64,
    pub refused: u64,
}

impl Flows for InRteHash {
    fn see(&mut self, tuples: &[Tuple]) {
        for tuples in tuples.chunks(super::rte_hash::BURST) {
            let mut values = [0; super::rte_hash::BURST];
            let hits = self.table.look_up(tuples, &mut values);
            std::hint::black_box(&values);
            for (place, tuple) in tuples.iter().enumerate() {
                if hits >> place & 1 == 0 {
                    match self.table.add(tuple, 1) {
                        Ok(()) => self.added += 1,
                        Err(_) => self.refused += 1,
                    }
                }
            }
        }
    }

    fn forget(&mut self, tuple: &Tuple) -> bool {
        self.table.remove(tuple)
    }
}

/// `rte_hash` with so many other flows, of which one at random is looked up for each packet: what a stateful program
/// with as many live flows has to fetch at least.
pub struct AtRandom {
    table: RteHash<16>,
    order: Shuffled,
}

impl AtRandom {
    /// With so many flows.
    pub fn among(flows: u32) -> Result<AtRandom, &'static str> {
        let table = RteHash::filled(flows, (0..flows).map(AtRandom::tuple))?;
        Ok(AtRandom { table, order: Shuffled::below(flows) })
    }

    fn tuple(number: u32) -> Tuple {
        (u128::from(number) + 1).to_le_bytes()
    }
}

impl Flows for AtRandom {
    fn see(&mut self, tuples: &[Tuple]) {
        for tuples in tuples.chunks(super::rte_hash::BURST) {
            let mut picked = [[0; 16]; super::rte_hash::BURST];
            for (tuple, number) in picked[..tuples.len()].iter_mut().zip(&mut self.order) {
                *tuple = AtRandom::tuple(number);
            }
            let mut values = [0; super::rte_hash::BURST];
            std::hint::black_box(self.table.look_up(&picked[..tuples.len()], &mut values));
        }
    }

    fn forget(&mut self, _: &Tuple) -> bool {
        false
    }
}

/// `hashbrown` with so many flows at most, one look-up after the other.
pub struct InHashbrown {
    pub table: hashbrown::HashMap<Tuple, u32>,
    pub room: usize,
    pub added: u64,
    pub refused: u64,
}

impl Flows for InHashbrown {
    fn see(&mut self, tuples: &[Tuple]) {
        for tuple in tuples {
            if let Some(value) = self.table.get(tuple) {
                std::hint::black_box(value);
            } else if self.table.len() < self.room {
                self.table.insert(*tuple, 1);
                self.added += 1;
            } else {
                self.refused += 1;
            }
        }
    }

    fn forget(&mut self, tuple: &Tuple) -> bool {
        self.table.remove(tuple).is_some()
    }
}

/// The loop.
pub struct Swap<F> {
    pub ports: Vec<Queue>,
    pub flows: F,
}

const IP: usize = 14;
const TRANSPORT: usize = IP + 20;

impl<F: Flows> Forwarder for Swap<F> {
    fn round(&mut self) -> usize {
        let mut handled = 0;
        for port in &mut self.ports {
            let mut burst: Burst<Mbuf> = Burst::new();
            port.receive(&mut burst);
            if burst.is_empty() {
                continue;
            }
            handled += burst.len();
            burst.iter().for_each(PacketBuf::prefetch);
            if F::KEPT {
                let mut tuples = [[0; 16]; BURST];
                for (tuple, packet) in tuples.iter_mut().zip(&burst) {
                    *tuple = tuple_of(packet.bytes());
                }
                self.flows.see(&tuples[..burst.len()]);
            }
            burst.iter_mut().for_each(|packet| swap(packet.bytes_mut()));
            port.transmit(&mut burst);
            port.discard(&mut burst);
        }
        handled
    }
}

/// The flow of a frame of IPv4 without options, TCP or UDP: nothing else is put in.
pub fn tuple_of(frame: &[u8]) -> Tuple {
    let Some(ends) = frame.get(IP + 12..).and_then(|rest| rest.first_chunk::<12>()) else { return [0; 16] };
    let word = |at: usize| u32::from_be_bytes([ends[at], ends[at + 1], ends[at + 2], ends[at + 3]]);
    let (source, destination, ports) = (word(0), word(4), word(8));
    let (source, destination) = ((source, ports >> 16), (destination, ports & 0xffff));
    let (low, high) = if source <= destination { (source, destination) } else { (destination, source) };
    let mut tuple = [0; 16];
    tuple[..8].copy_from_slice(&(u64::from(low.0) << 32 | u64::from(high.0)).to_le_bytes());
    let rest = u64::from(low.1 << 16 | high.1) << 32 | u64::from(frame[IP + 9]);
    tuple[8..].copy_from_slice(&rest.to_le_bytes());
    tuple
}

/// Swaps MAC addresses, IPv4 addresses and ports, as testpmd does: after a look at what it is.
fn swap(frame: &mut [u8]) {
    let Some(front) = frame.first_chunk_mut::<{ TRANSPORT + 4 }>() else { return };
    let (to, from) = front[..12].split_at_mut(6);
    to.swap_with_slice(from);
    if front[12..14] != [8, 0] {
        return;
    }
    let (source, destination) = front[IP + 12..IP + 20].split_at_mut(4);
    source.swap_with_slice(destination);
    if matches!(front[IP + 9], 6 | 17) {
        let (source, destination) = front[TRANSPORT..].split_at_mut(2);
        source.swap_with_slice(destination);
    }
}
