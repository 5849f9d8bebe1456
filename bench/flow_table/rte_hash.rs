//! DPDK's `rte_hash` over the same keys: as they are (40 bytes), and cut to what an IPv4 flow needs (16),
//! as a program of IPv4 alone would have it.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use flowgate::flow::{Direction, FlowKey};

use super::trace::{Change, Trace};
use super::{BURST, Bursts, Contender};

/// Starts EAL once; says which pages it has.
fn eal() -> &'static str {
    static PAGES: OnceLock<&str> = OnceLock::new();
    PAGES.get_or_init(|| {
        let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        let free = Path::new(free).exists().then(|| std::fs::read_to_string(free).ok()).flatten();
        let free: u32 = free.and_then(|free| free.trim().parse().ok()).unwrap_or(0);
        // The largest of these tables takes 600 MiB.
        let (pages, memory) = if free >= 400 {
            ("hugepages of 2 MiB", ["--in-memory", "--iova-mode=va"].as_slice())
        } else {
            ("ordinary pages", ["--no-huge", "--no-shconf", "-m", "1600"].as_slice())
        };
        let common = ["bench", "--no-telemetry", "--no-pci", "--log-level=4"];
        let prefix = format!("--file-prefix=bench{}", std::process::id());
        let args = common.iter().chain(memory).copied().chain([prefix.as_str(), "--lcores=0@(0-1)"]);
        let args: Vec<CString> = args.map(|arg| CString::new(arg).expect("no zero byte")).collect();
        let mut argv: Vec<_> = args.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
        let argc = i32::try_from(argv.len()).expect("a few");
        // SAFETY: argv has argc strings that live until EAL has read them.
        let started = unsafe { dpdk_sys::rte_eal_init(argc, argv.as_mut_ptr()) };
        assert!(started >= 0, "EAL does not start");
        pages
    })
}

/// An `rte_hash` of keys of `N` bytes.
struct RteHash<const N: usize>(NonNull<dpdk_sys::rte_hash>);

impl<const N: usize> RteHash<N> {
    fn new(entries: u32) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        eal();
        let name =
            CString::new(format!("{N}-{entries}-{}", NUMBER.fetch_add(1, Relaxed))).expect("no zero byte");
        let parameters = dpdk_sys::rte_hash_parameters {
            name: name.as_ptr(),
            // It does not fill to the last one.
            entries: entries + entries / 8,
            reserved: 0,
            key_len: u32::try_from(N).expect("16 or 40"),
            // Its own default: CRC32 by instruction.
            hash_func: None,
            hash_func_init_val: 0,
            socket_id: 0,
            extra_flag: 0,
        };
        // SAFETY: the parameters are complete, and EAL runs.
        let hash = unsafe { dpdk_sys::rte_hash_create(&raw const parameters) };
        RteHash(NonNull::new(hash).expect("memory for rte_hash"))
    }

    fn filled(flows: &[FlowKey], cut: fn(&FlowKey) -> [u8; N]) -> Self {
        let mut hash = RteHash::new(u32::try_from(flows.len()).expect("a size of ours"));
        for (value, key) in flows.iter().enumerate() {
            hash.add(&cut(key), value);
        }
        hash
    }

    fn add(&mut self, key: &[u8; N], value: usize) {
        let value = std::ptr::without_provenance_mut::<c_void>(value);
        // SAFETY: the key has N bytes; the value is a number in a pointer's clothes.
        let added = unsafe { dpdk_sys::rte_hash_add_key_data(self.0.as_ptr(), key.as_ptr().cast(), value) };
        assert_eq!(added, 0);
    }

    fn delete(&mut self, key: &[u8; N]) {
        // SAFETY: the key has N bytes.
        let place = unsafe { dpdk_sys::rte_hash_del_key(self.0.as_ptr(), key.as_ptr().cast()) };
        assert!(place >= 0);
    }

    /// How many of the keys are there.
    fn look_up(&self, keys: &[[u8; N]]) -> u32 {
        let mut pointers = [std::ptr::null::<c_void>(); BURST];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        let (mut hits, mut values) = (0, [null_mut(); BURST]);
        let count = u32::try_from(keys.len().min(BURST)).expect("a burst");
        // SAFETY: `count` pointers to keys of N bytes, and room for as many values.
        unsafe {
            dpdk_sys::rte_hash_lookup_bulk_data(
                self.0.as_ptr(),
                pointers.as_mut_ptr(),
                count,
                &raw mut hits,
                values.as_mut_ptr(),
            );
        }
        hits.count_ones()
    }
}

impl<const N: usize> Drop for RteHash<N> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, used by nobody after.
        unsafe { dpdk_sys::rte_hash_free(self.0.as_ptr()) };
    }
}

fn whole(key: &FlowKey) -> [u8; 40] {
    let mut bytes = [0; 40];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(key.words()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Two addresses, two ports, protocol, endpoint.
fn ipv4(key: &FlowKey) -> [u8; 16] {
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

struct LookUp<const N: usize> {
    hash: RteHash<N>,
    keys: Bursts<[u8; N]>,
}

impl<const N: usize> Contender for LookUp<N> {
    fn name(&self) -> String {
        format!("rte_hash, bulk, {N}-byte keys, {}", eal())
    }

    fn prepare(&mut self) {
        self.keys.prepare();
    }

    fn run(&mut self) {
        for keys in self.keys.of_batch() {
            assert_eq!(self.hash.look_up(keys), 32);
        }
    }
}

/// Both widths.
pub fn look_up(inserted: &[FlowKey], wanted: &[FlowKey]) -> Vec<Box<dyn Contender>> {
    fn one<const N: usize>(
        inserted: &[FlowKey],
        wanted: &[FlowKey],
        cut: fn(&FlowKey) -> [u8; N],
    ) -> Box<dyn Contender> {
        let keys = Bursts::of(wanted.iter().map(cut).collect());
        Box::new(LookUp { hash: RteHash::filled(inserted, cut), keys })
    }
    vec![one(inserted, wanted, whole), one(inserted, wanted, ipv4)]
}

struct Changing<const N: usize> {
    hash: RteHash<N>,
    trace: Trace,
    cut: fn(&FlowKey) -> [u8; N],
    batch: Vec<Change<[u8; N]>>,
}

impl<const N: usize> Contender for Changing<N> {
    fn name(&self) -> String {
        format!("rte_hash, {N}-byte keys, {}", eal())
    }

    fn prepare(&mut self) {
        self.batch = self.trace.batch(self.cut);
    }

    fn run(&mut self) {
        for Change { leave, come } in &self.batch {
            leave.iter().for_each(|key| self.hash.delete(key));
            come.iter().zip(1..).for_each(|(key, value)| self.hash.add(key, value));
        }
    }
}

/// Both widths.
pub fn change(trace: impl Fn() -> Trace) -> Vec<Box<dyn Contender>> {
    fn one<const N: usize>(trace: Trace, cut: fn(&FlowKey) -> [u8; N]) -> Box<dyn Contender> {
        Box::new(Changing { hash: RteHash::filled(trace.live(), cut), trace, cut, batch: Vec::new() })
    }
    vec![one(trace(), whole), one(trace(), ipv4)]
}
