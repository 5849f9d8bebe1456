//! Packets in and out. [`PortQueue`] is one worker's queue pair of one port, [`PacketBuf`] one
//! packet; DPDK stands behind them in the daemon, plain memory in tests.
//!
//! Beside them, what a worker needs of the machine: a [`clock`], a place on a CPU ([`affinity`]),
//! hugepages, files in memory that outlive the process ([`shelf`]), whose they are ([`owner`]), what is left to it of the kernel
//! ([`confine`]), and the arguments that DPDK is started with ([`eal_config`]). And what the kernel alone knows of whoever
//! connects to the control socket ([`peer`]).

use arrayvec::ArrayVec;

pub mod affinity;
pub mod clock;
pub mod confine;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod eal_config;
pub mod hugepages;
pub mod isa;
pub mod memory;
pub mod owner;
pub mod peer;
pub mod shelf;
pub mod tap;

/// Packets handled together, at most; no packet waits for others. Twice DPDK's customary burst: what a packet needs of
/// memory is then on its way for as long as memory takes while the others are worked on, and what the burst
/// needs stays in L1.
pub const BURST: usize = 64;

/// A burst of packets.
pub type Burst<B> = ArrayVec<B, BURST>;

/// A burst that changes hands by its address. Made once and used again and again.
pub type BoxedBurst<B> = Box<Burst<B>>;

/// One packet, owned: dropping it gives its memory back.
pub trait PacketBuf: Sized + Send {
    /// The frame from its Ethernet header on.
    fn bytes(&self) -> &[u8];

    /// The frame, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Grows the frame by `len` bytes at its front, contents undefined, and returns the whole frame.
    /// `None` if there is not that much headroom; the frame is then as it was.
    fn prepend(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Cuts `len` bytes off the front. The caller has checked `len <= bytes().len()`; more is
    /// clamped.
    fn trim_front(&mut self, len: usize);

    /// Takes the first `cut` bytes off, puts `N` in their place, contents undefined, and ends the frame after
    /// `rest` bytes more; returns those `N`. `None`, and nothing changed, if the frame is shorter than
    /// `cut + rest` or has no headroom for that. The frame is contiguous, as the caller has seen.
    #[inline]
    fn replace_front<const N: usize>(&mut self, cut: u32, rest: u32) -> Option<&mut [u8; N]> {
        let (cut, rest) = (cut as usize, rest as usize);
        if self.bytes().len() < cut + rest {
            return None;
        }
        if N > cut {
            self.prepend(N - cut)?;
        } else {
            self.trim_front(cut - N);
        }
        self.truncate(N + rest);
        self.bytes_mut().first_chunk_mut()
    }

    /// Cuts the frame to `len` bytes. Longer than it is: nothing happens.
    fn truncate(&mut self, len: usize);

    /// An empty packet with full headroom from where this one's memory came from: for fragments of it.
    /// `None` if there is none to be had now.
    fn another(&self) -> Option<Self>;

    /// Grows the frame by `len` bytes at its end, contents undefined, and returns the whole frame.
    /// `None`, and nothing changed, if there is not that much room.
    fn append(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Whether all of the frame is in `bytes()` (a chained mbuf's is not).
    fn is_contiguous(&self) -> bool {
        true
    }

    /// Bytes of the frame, those that are not in `bytes()` too.
    fn frame_len(&self) -> usize {
        self.bytes().len()
    }

    /// Brings all of the frame into `bytes()`, with a full headroom before it. False, and nothing changed, if it
    /// is longer than one packet of its pool.
    fn make_contiguous(&mut self) -> bool {
        true
    }

    /// Leaves the checksum of the frame's UDP datagram to the port that sends it, which must be one that computes
    /// them. The IPv4 header begins at `l2_len` and is `l3_len` bytes long. False, and nothing changed: the caller
    /// computes it.
    fn offload_udp_checksum(&mut self, _l2_len: u16, _l3_len: u16) -> bool {
        false
    }

    /// Asks the CPU to load the frame's first line.
    fn prefetch(&self) {}
}

/// One worker's queue pair of one port.
pub trait PortQueue {
    /// This device's packets.
    type Buf: PacketBuf;

    /// Takes what has arrived, at most what `burst` has room for. Never waits.
    fn receive(&mut self, burst: &mut Burst<Self::Buf>);

    /// Sends from the front of `burst` as many as the device takes now and returns how many that
    /// were; the rest stay in `burst`, in order. Never waits.
    fn transmit(&mut self, burst: &mut Burst<Self::Buf>) -> usize;

    /// An empty packet with full headroom, for a frame that no arriving packet becomes. `None` if there
    /// is none to be had now.
    fn allocate(&mut self) -> Option<Self::Buf>;

    /// Drops every packet of `burst`, all at once where that is cheaper than one by one.
    fn discard(&mut self, burst: &mut Burst<Self::Buf>) {
        burst.clear();
    }
}
