//! The way between the workers and the host's network stack: one thread on a control core that moves
//! frames between the workers' rings (`datapath::host`) and the taps (`io::tap`).
//!
//! It never makes a worker wait: what a worker gives is taken in every round, a bounded number from each;
//! what the kernel sends stays in the tap's own queue while worker 0 has no room for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::datapath::host::{FromHost, HostPort, ToHost};
use crate::id::InterfaceId;
use crate::io::PacketBuf;
use crate::io::tap::HostLink;

/// Frames that fit into each ring: what a kernel's own receive queue holds by default.
pub const HOST_RING: usize = 1024;

/// Frames moved one way for one worker or one link in a round at most.
const FRAMES_A_ROUND: usize = 64;

/// The longest frame: the largest MTU of a port, and its Ethernet header.
const LONGEST_FRAME: usize = 9600 + 14;

/// How long the thread waits when there is nothing to move; the workers do not wake it, as that is a call
/// of the kernel.
const PAUSE: Duration = Duration::from_millis(1);

/// After a panic, until it goes on.
const AFTER_PANIC: Duration = Duration::from_millis(100);

/// What passed between an interface and the host.
#[derive(Debug, Default)]
pub struct HostCounters {
    /// Frames that the host took.
    pub to_host: AtomicU64,
    /// Frames of the host's, on their way to worker 0.
    pub from_host: AtomicU64,
    /// Frames that were lost: the host did not take them, or there was no buffer for them.
    pub lost: AtomicU64,
}

/// What is known by a host interface that is ours: the link, and what passed.
pub struct HostInterface<L> {
    /// The interface.
    pub interface: InterfaceId,
    /// The host's side of it.
    pub link: L,
    /// What passed.
    pub counters: Arc<HostCounters>,
}

/// Makes a packet of a frame.
type MakePacket<B> = Box<dyn FnMut(&[u8]) -> Option<B> + Send>;

/// The mover, not running by itself: [`HostMover::run`] is its thread.
pub struct HostMover<B, L> {
    from_workers: Vec<Consumer<ToHost<B>>>,
    to_worker: Producer<FromHost<B>>,
    interfaces: Vec<InterfaceId>,
    links: Vec<L>,
    counters: Vec<Arc<HostCounters>>,
    /// Makes a packet of a frame; `None` if there is no buffer.
    packet: MakePacket<B>,
    room: Vec<u8>,
}

impl<B: PacketBuf, L: HostLink> HostMover<B, L> {
    /// A mover for so many workers, and the workers' ends of its rings.
    pub fn new(
        workers: usize,
        interfaces: Vec<HostInterface<L>>,
        packet: impl FnMut(&[u8]) -> Option<B> + Send + 'static,
    ) -> (HostMover<B, L>, Vec<HostPort<B>>) {
        let (to_worker, from_host) = RingBuffer::new(HOST_RING);
        let mut from_host = Some(from_host);
        let (mut from_workers, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (to, from) = RingBuffer::new(HOST_RING);
            from_workers.push(from);
            ports.push(HostPort::new(Some(to), from_host.take()));
        }
        let mut mover = HostMover {
            from_workers,
            to_worker,
            interfaces: Vec::new(),
            links: Vec::new(),
            counters: Vec::new(),
            packet: Box::new(packet),
            room: vec![0; LONGEST_FRAME],
        };
        for HostInterface { interface, link, counters } in interfaces {
            mover.interfaces.push(interface);
            mover.links.push(link);
            mover.counters.push(counters);
        }
        (mover, ports)
    }

    /// Moves until `stop`. A frame over which this panics is lost, and those after it are moved, a moment later: what panics
    /// again and again is to cost little.
    pub fn run(&mut self, stop: &AtomicBool) {
        while catch_unwind(AssertUnwindSafe(|| self.rounds(stop))).is_err() {
            std::thread::sleep(AFTER_PANIC);
        }
    }

    fn rounds(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if self.round() == 0 {
                if self.to_worker.is_full() {
                    // The taps may be readable, and waiting for them would be no pause.
                    std::thread::sleep(PAUSE);
                } else {
                    L::wait(&self.links, PAUSE);
                }
            }
        }
    }

    /// One round; returns how many frames were moved or lost.
    pub fn round(&mut self) -> usize {
        self.feed_host() + self.drain_host()
    }

    fn feed_host(&mut self) -> usize {
        let mut moved = 0;
        for worker in &mut self.from_workers {
            for _ in 0..FRAMES_A_ROUND {
                let Ok(ToHost { interface, packet }) = worker.pop() else { break };
                moved += 1;
                let Some(place) = self.interfaces.iter().position(|known| *known == interface) else {
                    continue;
                };
                let taken = packet.is_contiguous() && self.links[place].send(packet.bytes()).is_ok();
                let counters = &self.counters[place];
                let counter = if taken { &counters.to_host } else { &counters.lost };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        moved
    }

    fn drain_host(&mut self) -> usize {
        let mut moved = 0;
        for ((interface, link), counters) in self.interfaces.iter().zip(&mut self.links).zip(&self.counters) {
            for _ in 0..FRAMES_A_ROUND {
                if self.to_worker.is_full() {
                    return moved;
                }
                // A device that somebody took away has nothing more to say.
                let Ok(Some(length)) = link.receive(&mut self.room) else { break };
                moved += 1;
                let packet = self.room.get(..length).and_then(&mut self.packet);
                let given = packet.is_some_and(|packet| {
                    self.to_worker.push(FromHost { interface: *interface, packet }).is_ok()
                });
                let counter = if given { &counters.from_host } else { &counters.lost };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests;
