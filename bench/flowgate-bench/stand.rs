//! The bench at the outer ends of a contender's ports: it puts frames in, lets the contender work, and
//! looks at every frame that comes out. Only the work is timed, by the thread's CPU time.

use std::sync::Arc;
use std::time::Duration;

use flowgate::io::dpdk::{Mbuf, Queue};
use flowgate::io::{BURST, Burst, PacketBuf, PortQueue};

use crate::rings::{BATCH, Rings};
use crate::{Failure, cpu_time};

/// The clients' end of the wire, the servers' end, the target side: the ports of every contender.
pub use crate::one_wire::{CLIENTS, SERVERS, TARGETS};

pub const PORTS: usize = 3;

/// What is measured: a loop over bursts.
pub trait Forwarder {
    /// One turn of it; returns how many packets it received.
    fn round(&mut self) -> usize;

    /// Its work begins (again) now; what time has passed since it last ended is none of its own.
    fn resume(&mut self) {}
}

/// A contender with the bench around it.
pub struct Stand<F> {
    pub forwarder: F,
    nothing: cpu_time::Nothing,
    outside: Vec<Queue>,
    rings: Arc<Rings>,
}

/// A frame to be made: its length, and what writes it.
pub trait Make: FnMut(&mut Mbuf) -> Result<(), Failure> {}
impl<T: FnMut(&mut Mbuf) -> Result<(), Failure>> Make for T {}

/// Gives an empty packet `len` bytes and has them written.
pub fn fill(packet: &mut Mbuf, len: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Failure> {
    write(packet.append(len).ok_or("a packet without room")?);
    Ok(())
}

impl<F: Forwarder> Stand<F> {
    /// Puts `packets` packets, made by `make`, into one port and gives what came out of the other to
    /// `see`: all of them must, and in order. Returns the CPU time of the forwarder's work.
    pub fn play(
        &mut self,
        (into, out_of): (usize, usize),
        packets: usize,
        mut make: impl Make,
        mut see: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        let mut spent = Duration::ZERO;
        let mut left = packets;
        while left > 0 {
            let count = left.min(BATCH);
            self.put(into, count, &mut make)?;
            spent += self.work(count)?;
            let seen = self.take(out_of, &mut see)?;
            if seen != count {
                return Err(format!("{count} packets went in and {seen} came out").into());
            }
            left -= count;
        }
        Ok(spent)
    }

    /// [`play`](Stand::play)s batches until the work has taken `time`; returns nanoseconds a packet.
    pub fn play_for(
        &mut self,
        time: Duration,
        ports: (usize, usize),
        mut make: impl Make,
        mut see: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        let (mut spent, mut packets) = (Duration::ZERO, 0);
        while spent < time {
            spent += self.play(ports, BATCH, &mut make, &mut see)?;
            packets += BATCH;
        }
        Ok(cpu_time::each(spent, packets))
    }

    /// Lets the forwarder work until it has received `count` packets; returns its CPU time, without what reading the
    /// clock takes of it.
    pub fn work(&mut self, count: usize) -> Result<Duration, Failure> {
        self.forwarder.resume();
        let (time, left) = self.nothing.off(|| {
            let mut left = count;
            // A round takes a burst; one without any packet is one too many.
            while left > 0 {
                match self.forwarder.round() {
                    0 => break,
                    handled => left = left.saturating_sub(handled),
                }
            }
            left
        });
        if left > 0 { Err(format!("{left} of {count} packets were not received").into()) } else { Ok(time) }
    }

    /// [`work`](Stand::work), round by round: gives the CPU time of each to `round`. Each has most of a
    /// reading of the clock in it.
    pub fn work_by_rounds(&mut self, count: usize, mut round: impl FnMut(Duration)) -> Result<(), Failure> {
        self.forwarder.resume();
        let mut left = count;
        let mut before = cpu_time::now();
        while left > 0 {
            let handled = self.forwarder.round();
            let after = cpu_time::now();
            round(after.saturating_sub(before));
            before = after;
            if handled == 0 {
                return Err(format!("{left} of {count} packets were not received").into());
            }
            left = left.saturating_sub(handled);
        }
        Ok(())
    }
}

impl<F> Stand<F> {
    /// `outside` are the other ends of the forwarder's ports.
    pub fn new(rings: &Arc<Rings>, outside: Vec<Queue>, forwarder: F) -> Stand<F> {
        Stand { forwarder, nothing: cpu_time::Nothing::measure(), outside, rings: Arc::clone(rings) }
    }

    /// Puts packets into a port.
    pub fn put(&mut self, into: usize, count: usize, make: &mut impl Make) -> Result<(), Failure> {
        let mut left = count;
        while left > 0 {
            let mut burst = self.rings.empty(left.min(BURST))?;
            left -= burst.len();
            burst.iter_mut().try_for_each(&mut *make)?;
            self.outside[into].transmit(&mut burst);
            if !burst.is_empty() {
                return Err("a ring has no room for a batch".into());
            }
        }
        Ok(())
    }

    /// Takes all that came out of a port; returns how many packets that were.
    pub fn take(
        &mut self,
        out_of: usize,
        see: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut seen = 0;
        loop {
            let mut burst = Burst::new();
            self.outside[out_of].receive(&mut burst);
            if burst.is_empty() {
                return Ok(seen);
            }
            burst.iter().try_for_each(|packet| see(packet.bytes()))?;
            seen += burst.len();
            Mbuf::free_burst(&mut burst);
        }
    }
}
