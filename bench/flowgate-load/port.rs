//! A port as an end or an appliance uses it: what is to be sent gathers in a burst, and a port that takes
//! no more is felt as room that is not there.

use flowgate::io::dpdk::{Mbuf, Mempool};
use flowgate::io::{BURST, Burst, PacketBuf, PortQueue};

/// Where empty packets come from.
pub trait Source {
    type Buf: PacketBuf;

    /// An empty packet; `None` if there is none now.
    fn take(&mut self) -> Option<Self::Buf>;
}

/// A pool, from which bursts are taken.
pub struct PoolSource {
    pool: Mempool,
    spare: Burst<Mbuf>,
}

impl PoolSource {
    pub fn new(pool: Mempool) -> PoolSource {
        PoolSource { pool, spare: Burst::new() }
    }
}

impl Source for PoolSource {
    type Buf = Mbuf;

    fn take(&mut self) -> Option<Mbuf> {
        if self.spare.is_empty() {
            self.pool.allocate_burst(&mut self.spare, BURST);
        }
        self.spare.pop()
    }
}

/// A port and what is to leave by it, in order.
pub struct Port<Q: PortQueue> {
    queue: Q,
    out: Burst<Q::Buf>,
    /// What comes after `out`: room for answers while the port takes nothing.
    behind: Burst<Q::Buf>,
}

impl<Q: PortQueue> Port<Q> {
    pub fn new(queue: Q) -> Port<Q> {
        Port { queue, out: Burst::new(), behind: Burst::new() }
    }

    /// How many packets of one's own accord can be put in now.
    pub fn room(&self) -> usize {
        if self.behind.is_empty() { self.out.remaining_capacity() } else { 0 }
    }

    /// Whether all that was put in has left.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes what has arrived.
    pub fn receive(&mut self, burst: &mut Burst<Q::Buf>) {
        self.queue.receive(burst);
    }

    /// Puts a packet in; whether there was room.
    pub fn put(&mut self, packet: Q::Buf) -> bool {
        if self.room() > 0 { self.out.try_push(packet) } else { self.behind.try_push(packet) }.is_ok()
    }

    /// Makes a packet of `len` bytes and puts it in; whether it could.
    pub fn write<S: Source<Buf = Q::Buf>>(
        &mut self,
        source: &mut S,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.behind.is_full() {
            return false;
        }
        let Some(mut packet) = source.take() else { return false };
        let Some(frame) = packet.append(len) else { return false };
        write(frame);
        self.put(packet)
    }

    /// Sends what the device takes; the rest stays.
    pub fn flush(&mut self) {
        if self.out.is_empty() {
            return;
        }
        self.queue.transmit(&mut self.out);
        if self.out.is_empty() && !self.behind.is_empty() {
            std::mem::swap(&mut self.out, &mut self.behind);
            self.queue.transmit(&mut self.out);
        }
    }

    /// Drops a burst's packets.
    pub fn discard(&mut self, burst: &mut Burst<Q::Buf>) {
        self.queue.discard(burst);
    }

    #[cfg(test)]
    pub fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }
}
