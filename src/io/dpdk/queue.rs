//! One worker's queue pair of a port: the receive and the transmit queue of one number, each burst
//! one C call.

use std::sync::Arc;

use super::device::Device;
use super::mbuf::Mbuf;
use crate::id::QueueId;
use crate::io::{Burst, PortQueue};

/// A queue pair. There is one for each number at a time, so that no two threads are in one queue
/// (DPDK's queues take no locks); it may move to another thread. Keeps its port started.
#[derive(Debug)]
pub struct Queue {
    device: Arc<Device>,
    /// DPDK's number of the port, at hand for the bursts.
    port: u16,
    queue: QueueId,
}

impl Queue {
    /// The caller has claimed `queue` of `device`.
    pub(super) fn new(device: Arc<Device>, queue: QueueId) -> Queue {
        Queue { port: device.number, device, queue }
    }

    /// Its number.
    pub fn id(&self) -> QueueId {
        self.queue
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.device.release_queue(self.queue);
    }
}

impl PortQueue for Queue {
    type Buf = Mbuf;

    /// Some drivers take packets in fours only: a burst with room for fewer than four may get none.
    #[inline]
    fn receive(&mut self, burst: &mut Burst<Mbuf>) {
        let len = burst.len();
        #[expect(clippy::cast_possible_truncation, reason = "a burst is 32")]
        let room = burst.remaining_capacity() as u16;
        // SAFETY: the port is started while `self.device` lives, the queue is one of its own and
        // nobody else's. `Mbuf` is a transparent, non-null pointer; the burst has room for `room`
        // of them, and the call fills as many as it returns with packets that are then ours.
        unsafe {
            let spare = burst.as_mut_ptr().add(len).cast::<*mut dpdk_sys::Mbuf>();
            let taken = dpdk_sys::shim_rx_burst(self.port, self.queue.0, spare, room);
            burst.set_len(len + usize::from(taken));
        }
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let len = burst.len();
        #[expect(clippy::cast_possible_truncation, reason = "a burst is 32")]
        let count = len as u16;
        // SAFETY: as in `receive`. The device owns the packets it took: they are moved out of the
        // burst without being dropped, the others to its front.
        unsafe {
            let packets = burst.as_mut_ptr();
            let sent = usize::from(dpdk_sys::shim_tx_burst(
                self.port,
                self.queue.0,
                packets.cast::<*mut dpdk_sys::Mbuf>(),
                count,
            ));
            std::ptr::copy(packets.add(sent), packets, len - sent);
            burst.set_len(len - sent);
            sent
        }
    }

    fn allocate(&mut self) -> Option<Mbuf> {
        self.device.pool(self.queue)?.allocate()
    }

    #[inline]
    fn discard(&mut self, burst: &mut Burst<Mbuf>) {
        Mbuf::free_burst(burst);
    }
}
