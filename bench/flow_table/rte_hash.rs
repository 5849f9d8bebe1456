//! DPDK's `rte_hash` over the same keys: as they are (40 bytes), and cut to what an IPv4 flow needs (16),
//! as a program of IPv4 alone would have it.

use std::ffi::CString;
use std::path::Path;
use std::sync::OnceLock;

use flowgate::flow::FlowKey;

use super::trace::{Change, Trace};
use super::{Bursts, Contender};

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

/// `flowgate-bench` has the same contender.
#[path = "../flowgate-bench/contenders/rte_hash.rs"]
mod binding;

use binding::{RteHash, ipv4, whole};

fn filled<const N: usize>(flows: &[FlowKey], cut: fn(&FlowKey) -> [u8; N]) -> RteHash<N> {
    eal();
    let count = u32::try_from(flows.len()).expect("a size of ours");
    RteHash::filled(count, flows.iter().map(cut)).expect("an rte_hash")
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
            assert_eq!(self.hash.look_up(keys, &mut [0; binding::BURST]).count_ones(), 32);
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
        Box::new(LookUp { hash: filled(inserted, cut), keys })
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
            leave.iter().for_each(|key| assert!(self.hash.remove(key)));
            come.iter().zip(1..).for_each(|(key, value)| self.hash.add(key, value).expect("room"));
        }
    }
}

/// Both widths.
pub fn change(trace: impl Fn() -> Trace) -> Vec<Box<dyn Contender>> {
    fn one<const N: usize>(trace: Trace, cut: fn(&FlowKey) -> [u8; N]) -> Box<dyn Contender> {
        Box::new(Changing { hash: filled(trace.live(), cut), trace, cut, batch: Vec::new() })
    }
    vec![one(trace(), whole), one(trace(), ipv4)]
}
