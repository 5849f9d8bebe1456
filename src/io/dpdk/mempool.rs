//! Pools of packets. A worker has one of its own for what it receives, so that taking and giving
//! back stays in the worker's cache.

use std::ffi::CString;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys::{SHIM_MEMPOOL_CACHE_MAX_SIZE, SHIM_PKTMBUF_HEADROOM};

use super::eal::{Eal, last_error};
use super::mbuf::Mbuf;
use crate::io::{Burst, PacketBuf};

/// What a pool is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolConfig {
    /// A name no other pool of this process has; at most 25 bytes.
    pub name: String,
    /// Packets in it: at least the descriptors of all queues that receive into it, plus what the
    /// workers hold, plus `cache` for each of them. One less than a power of two wastes least.
    pub count: u32,
    /// Bytes of each for headroom (128) and frame together.
    pub data_room: u16,
    /// Packets that each registered thread keeps at hand, at most 512 and at most two thirds of `count`.
    pub cache: u32,
    /// The NUMA node, or any.
    pub socket: Option<u16>,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum MempoolError {
    /// The memory is not there.
    #[error(
        "no memory for {count} packets of {data_room} bytes (about {megabytes} MiB): raise memory_mb, or reserve more \
         hugepages"
    )]
    NoMemory {
        /// Packets asked for.
        count: u32,
        /// Bytes of each.
        data_room: u16,
        /// What that comes to.
        megabytes: u64,
    },
    /// The settings make no pool.
    #[error(
        "a pool of {count} packets with {cache} cached a thread: the cache must be at most 512 and two thirds of the pool"
    )]
    Cache {
        /// Packets asked for.
        count: u32,
        /// Cached ones asked for.
        cache: u32,
    },
    /// A pool of that name is there, or the name is no name.
    #[error("no pool can be named {name:?}: {source}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Anything else.
    #[error("pool {name:?} could not be made: {source}")]
    Create {
        /// Its name.
        name: String,
        /// DPDK's error.
        source: io::Error,
    },
}

/// A pool of packets; clones are the same pool. Its memory is given back when the last clone is
/// gone, provided that every packet is back by then. A packet that is still out keeps the pool's
/// memory (and EAL) for the rest of the process.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: NonNull<dpdk_sys::rte_mempool>,
    data_room: u16,
    /// Dropped by hand: not while packets are out.
    eal: std::mem::ManuallyDrop<Eal>,
}

// SAFETY: a mempool is DPDK's multi-producer multi-consumer kind: any thread may take from it and
// give back to it, and its counters may be read meanwhile.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // A packet that is out points into the pool's memory. Packets come from the pool by a
        // `Mempool` (this was the last) or by a port (which holds one): none can go out any more.
        // SAFETY: the pool lives until it is freed below.
        if unsafe { dpdk_sys::rte_mempool_in_use_count(self.pool.as_ptr()) } == 0 {
            // SAFETY: no packet is out and nobody has the pool.
            unsafe { dpdk_sys::rte_mempool_free(self.pool.as_ptr()) };
            // SAFETY: once, here.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.eal) };
        }
    }
}

impl Mempool {
    /// Makes a pool.
    ///
    /// # Errors
    /// See [`MempoolError`].
    pub fn new(eal: &Eal, config: &MempoolConfig) -> Result<Mempool, MempoolError> {
        let MempoolConfig { name, count, data_room, cache, socket } = config;
        if *cache > SHIM_MEMPOOL_CACHE_MAX_SIZE || u64::from(*cache) * 3 > u64::from(*count) * 2 {
            return Err(MempoolError::Cache { count: *count, cache: *cache });
        }
        let c_name = CString::new(name.as_str())
            .map_err(|error| MempoolError::Name { name: name.clone(), source: error.into() })?;
        // SAFETY: `c_name` is a C string, which DPDK copies; EAL runs.
        let pool = unsafe {
            dpdk_sys::rte_pktmbuf_pool_create(
                c_name.as_ptr(),
                *count,
                *cache,
                0,
                *data_room,
                socket.map_or(-1, i32::from),
            )
        };
        let Some(pool) = NonNull::new(pool) else {
            let source = last_error();
            return Err(match source.raw_os_error() {
                Some(libc::ENOMEM) => {
                    // Two cache lines of mbuf, and one of the pool's, before each frame.
                    let bytes = u64::from(*count) * (u64::from(*data_room) + 192);
                    MempoolError::NoMemory {
                        count: *count,
                        data_room: *data_room,
                        megabytes: bytes.div_ceil(1 << 20),
                    }
                }
                Some(libc::EEXIST | libc::ENAMETOOLONG) => MempoolError::Name { name: name.clone(), source },
                _ => MempoolError::Create { name: name.clone(), source },
            });
        };
        let eal = std::mem::ManuallyDrop::new(eal.clone());
        Ok(Mempool(Arc::new(Inner { pool, data_room: *data_room, eal })))
    }

    /// One empty packet with full headroom; `None` if the pool is empty.
    pub fn allocate(&self) -> Option<Mbuf> {
        let mut burst = Burst::new();
        self.allocate_burst(&mut burst, 1);
        burst.pop()
    }

    /// Appends `count` empty packets to `burst`, all or none; whether it did. One C call.
    pub fn allocate_burst(&self, burst: &mut Burst<Mbuf>, count: usize) -> bool {
        let Ok(wanted) = u32::try_from(count) else { return false };
        if count > burst.remaining_capacity() {
            return false;
        }
        let len = burst.len();
        // SAFETY: `Mbuf` is a transparent, non-null pointer; the burst has room for `count` more,
        // and the call fills them all or fails.
        unsafe {
            let spare = burst.as_mut_ptr().add(len).cast::<*mut dpdk_sys::Mbuf>();
            if dpdk_sys::shim_pktmbuf_alloc_bulk(self.0.pool.as_ptr(), spare, wanted) != 0 {
                return false;
            }
            burst.set_len(len + count);
        }
        true
    }

    /// A packet with these bytes; `None` if the pool is empty or they do not fit in one segment.
    pub fn packet(&self, frame: &[u8]) -> Option<Mbuf> {
        let mut packet = self.allocate()?;
        packet.append(frame.len())?;
        packet.bytes_mut().copy_from_slice(frame);
        Some(packet)
    }

    /// Packets in the pool, in the threads' caches too. Walks over all of those: not for workers.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives while `self` does.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.0.pool.as_ptr()) }
    }

    /// Packets out: with a device, in a ring, or held as an [`Mbuf`]. Not for workers.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives while `self` does.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.0.pool.as_ptr()) }
    }

    /// Bytes of a page that the pool lies in, ordinary or huge; 0 if DPDK does not know.
    pub fn page_size(&self) -> u64 {
        // SAFETY: only looked up among the segments of DPDK's memory; the pool lives while `self` does.
        unsafe { dpdk_sys::shim_page_size(self.0.pool.as_ptr().cast()) }
    }

    /// The longest frame that one packet of the pool holds behind a full headroom.
    pub fn frame_room(&self) -> usize {
        usize::from(self.0.data_room).saturating_sub(SHIM_PKTMBUF_HEADROOM as usize)
    }

    pub(super) fn as_ptr(&self) -> *mut dpdk_sys::rte_mempool {
        self.0.pool.as_ptr()
    }
}
