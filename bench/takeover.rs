//! How long it takes to take over the flow table of a process that is gone: from opening its file until the first packet can
//! be looked up. Memory of the table is there, as it is after a crash; the CPU's caches are not asked to forget anything, but the
//! table is larger than they are.
//!
//! `cargo bench --bench takeover`; under `cargo test` it takes a small table over once.

use std::time::{Duration, Instant};

use flowgate::flow::{
    FilePages, FlowFlags, FlowKey, FlowState, HashSeed, InFile, Keep, LinkId, NewEntry, Pages, Table,
    TableConfig,
};
use flowgate::id::{EndpointId, Millis, TargetId, WorkerId};

/// Times that each is measured.
const TIMES: usize = 5;

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let sizes: &[u32] = if is_bench { &[1 << 16, 1 << 20, 1 << 22] } else { &[1 << 10] };
    println!(
        "{:>10} {:>8} {:>22} {:>10} {:>12} {:>10}",
        "capacity", "flows", "pages", "mapped", "taken over", "worst"
    );
    for capacity in sizes {
        for pages in [FilePages::Small, FilePages::Transparent] {
            for used in [*capacity, capacity / 10] {
                measure(*capacity, used, pages);
            }
        }
    }
}

fn measure(capacity: u32, used: u32, pages: FilePages) {
    let seed = HashSeed::from_secret(b"a secret for the benches");
    let config = TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Huge, seed };
    let file = tempfile::tempfile_in("/dev/shm").expect("there is memory for files");
    let length = config.file_bytes(pages).expect("a size") as u64;
    file.set_len(length).expect("room");
    let place = InFile { file: &file, pages, making: 1 };
    let mut table = Table::create_in(&config, &place).expect("a table");
    let kind = table.pages();
    for n in 0..used {
        let key = FlowKey::new(EndpointId(0), 4, 6, (0x0a00_0000 + n).into(), 0xc0a8_0001, 40_000, 443).0;
        let new = NewEntry {
            state: FlowState::Established,
            flags: FlowFlags::empty(),
            target: TargetId(1),
            target_generation: 0,
            link: [LinkId::NONE; 2],
            now: Millis(n),
        };
        table.insert(table.hash(&key), &key, new).expect("room");
    }
    drop(table);
    let mut spent: Vec<(Duration, Duration)> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            let mut table = Table::find_in(&config, &place).expect("the table");
            let mapped = began.elapsed();
            let came = table.take_over(|_| Keep::Yes);
            assert_eq!((came.kept, came.torn), (used, 0));
            (mapped, began.elapsed() - mapped)
        })
        .collect();
    spent.sort_by_key(|(mapped, taken)| *mapped + *taken);
    let ((mapped, taken), worst) = (spent[TIMES / 2], spent[TIMES - 1]);
    let worst = worst.0 + worst.1;
    println!(
        "{capacity:>10} {used:>8} {:>22} {mapped:>10.1?} {taken:>12.1?} {worst:>10.1?}",
        kind.to_string()
    );
}
