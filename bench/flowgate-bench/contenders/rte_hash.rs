//! DPDK's `rte_hash`, with keys of `N` bytes and a number as each key's data. EAL must run.

use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use flowgate::flow::{Direction, FlowKey};

/// Keys that are looked up together at most.
pub const BURST: usize = 32;

/// Tables need names of their own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// An `rte_hash`.
pub struct RteHash<const N: usize>(NonNull<dpdk_sys::rte_hash>);

/// Every entry is taken.
#[derive(Debug)]
pub struct Full;

impl<const N: usize> RteHash<N> {
    /// For so many entries. `None` if there is no memory for it.
    pub fn new(entries: u32) -> Option<Self> {
        let name = format!("bench{}", MADE.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).ok()?;
        let parameters = dpdk_sys::rte_hash_parameters {
            name: name.as_ptr(),
            entries,
            reserved: 0,
            key_len: u32::try_from(N).ok()?,
            // Its own default: CRC32 by instruction.
            hash_func: None,
            hash_func_init_val: 0,
            socket_id: 0,
            extra_flag: 0,
        };
        // SAFETY: the parameters are complete, and EAL runs.
        NonNull::new(unsafe { dpdk_sys::rte_hash_create(&raw const parameters) }).map(RteHash)
    }

    /// With so many entries, and the eighth more that it needs to take them all: its buckets do not fill
    /// to the last place.
    pub fn with_room_for(entries: u32) -> Option<Self> {
        // A bucket of eight is the least that there is.
        Self::new((entries + entries / 8).max(8))
    }

    /// With these keys, `count` of them, each with its place among them as data.
    pub fn filled(count: u32, keys: impl IntoIterator<Item = [u8; N]>) -> Result<Self, &'static str> {
        let mut table = Self::with_room_for(count).ok_or("no memory for rte_hash")?;
        for (place, key) in keys.into_iter().enumerate() {
            table.add(&key, place).map_err(|_| "rte_hash has no room for its flows")?;
        }
        Ok(table)
    }

    /// Adds a key, or gives it other data.
    pub fn add(&mut self, key: &[u8; N], value: usize) -> Result<(), Full> {
        let value = std::ptr::without_provenance_mut::<c_void>(value);
        // SAFETY: the key has N bytes; the value is a number in a pointer's clothes.
        let added = unsafe { dpdk_sys::rte_hash_add_key_data(self.0.as_ptr(), key.as_ptr().cast(), value) };
        if added == 0 { Ok(()) } else { Err(Full) }
    }

    /// Removes a key; whether it was there.
    pub fn remove(&mut self, key: &[u8; N]) -> bool {
        // SAFETY: the key has N bytes.
        unsafe { dpdk_sys::rte_hash_del_key(self.0.as_ptr(), key.as_ptr().cast()) >= 0 }
    }

    /// Which of the keys are there, a bit each, and the data of those that are. Looks at the first
    /// [`BURST`].
    pub fn look_up(&self, keys: &[[u8; N]], values: &mut [usize; BURST]) -> u64 {
        let mut pointers = [null::<c_void>(); BURST];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        let (mut hits, mut found) = (0, [null_mut::<c_void>(); BURST]);
        #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
        let count = keys.len().min(BURST) as u32;
        // SAFETY: `count` pointers to keys of N bytes, and room for as many values.
        unsafe {
            dpdk_sys::rte_hash_lookup_bulk_data(
                self.0.as_ptr(),
                pointers.as_mut_ptr(),
                count,
                &raw mut hits,
                found.as_mut_ptr(),
            );
        }
        *values = found.map(|value| value.addr());
        hits
    }
}

impl<const N: usize> Drop for RteHash<N> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, used by nobody after.
        unsafe { dpdk_sys::rte_hash_free(self.0.as_ptr()) };
    }
}

/// A flow's key as it is.
pub fn whole(key: &FlowKey) -> [u8; 40] {
    let mut bytes = [0; 40];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(key.words()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// What a program of IPv4 alone needs of it: two addresses, two ports, protocol, endpoint.
pub fn ipv4(key: &FlowKey) -> [u8; 16] {
    let ((low, low_port), (high, high_port)) =
        (key.source(Direction::LowToHigh), key.destination(Direction::LowToHigh));
    let mut bytes = [0; 16];
    bytes[0..4].copy_from_slice(&low.to_le_bytes()[..4]);
    bytes[4..8].copy_from_slice(&high.to_le_bytes()[..4]);
    bytes[8..10].copy_from_slice(&low_port.to_le_bytes());
    bytes[10..12].copy_from_slice(&high_port.to_le_bytes());
    bytes[12] = key.protocol();
    bytes[13..15].copy_from_slice(&key.endpoint().0.to_le_bytes());
    bytes
}
