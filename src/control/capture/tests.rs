use serde_json::Value;

use super::*;
use crate::control::logging::paper::events;
use crate::datapath::capture::filter::Filter;
use crate::datapath::capture::record::{Point, Verdict};
use crate::datapath::capture::{Bounds, Capture, Seen};
use crate::id::{Millis, WorkerId};

struct Bench {
    workers: Vec<Box<Capture>>,
    stream: CaptureStream,
    slot: Rc<()>,
}

fn bench(workers: u8, limits: Limits, ring: usize) -> Bench {
    let clock = Clock::start();
    let bounds = Bounds { snap_len: 2000, rate: 100_000, ring };
    let ends = (0..workers).map(|_| Capture::new(Filter::default(), bounds, 2, clock.clone()));
    let (workers, captured) = ends.unzip();
    let slot = Rc::new(());
    let stream = CaptureStream::new(CaptureParts {
        workers: captured,
        ports: vec!["lan0".to_owned(), "fabric".to_owned()],
        names: Rc::default(),
        began: (clock.cycles(), SystemTime::now()),
        clock,
        limits,
        snap_len: 2000,
        filter: "all packets".to_owned(),
        slot: Rc::clone(&slot),
    });
    Bench { workers, stream, slot }
}

const NO_LIMITS: Limits = Limits { packets: None, bytes: u64::MAX, duration: None };

impl Bench {
    fn capture(&mut self, worker: u8, after_ns: u64, bytes: &[u8]) {
        let seen = Seen::default();
        let record = Record {
            at_cycles: self.stream.anchor.0
                + after_ns * self.stream.clock.cycles_per_second() / 1_000_000_000,
            port: Some(PortId(1)),
            worker: WorkerId(worker),
            ..Record::new(Point::Arrived, Verdict::Forwarded, &seen, bytes.len())
        };
        self.workers[usize::from(worker)].take(&record, &seen, bytes, Millis(0));
    }

    /// The whole file, from chunks read one by one, and why it ended.
    fn file(&mut self) -> (Vec<u8>, CaptureTotals, CaptureEnd) {
        let mut file = Vec::new();
        loop {
            let chunk = self.stream.ready().expect("there is a chunk until the end");
            file.extend(&chunk.bytes);
            assert_eq!(chunk.totals.bytes, file.len() as u64);
            if let Some(end) = chunk.end {
                assert_eq!(self.stream.ready(), None, "nothing after the end");
                return (file, chunk.totals, end);
            }
        }
    }
}

/// Kinds and bodies of a file's blocks, read by the lengths at both ends.
fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let length = word(&file[4..]) as usize;
        assert_eq!(word(&file[length - 4..]) as usize, length);
        blocks.push((word(file), file[8..length - 4].to_vec()));
        file = &file[length..];
    }
    blocks
}

#[test]
fn the_packets_of_all_workers_come_in_the_order_of_their_time() {
    let mut bench = bench(3, NO_LIMITS, 1 << 16);
    for (worker, at) in [(0, 1000), (0, 5000), (1, 2000), (1, 3000), (2, 4000)] {
        bench.capture(worker, at, &[worker; 60]);
    }
    bench.stream.stop();
    let (file, totals, end) = bench.file();
    assert_eq!((totals.packets, end), (5, CaptureEnd::Stopped));
    let blocks = blocks(&file);
    let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
    // Section, two ports and the one without link headers, packets, statistics of each interface.
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 1, 6, 6, 6, 6, 6, 5, 5, 5]);
    let first_bytes: Vec<u8> =
        blocks.iter().filter(|(kind, _)| *kind == 6).map(|(_, body)| body[20]).collect();
    assert_eq!(first_bytes, [0, 1, 1, 2, 0]);
    let times: Vec<u64> = blocks
        .iter()
        .filter(|(kind, _)| *kind == 6)
        .map(|(_, body)| {
            let word = |at: usize| u64::from(u32::from_le_bytes(body[at..at + 4].try_into().unwrap()));
            word(4) << 32 | word(8)
        })
        .collect();
    for (time, after) in times.iter().zip([1000, 2000, 3000, 4000, 5000]) {
        assert!((time - bench.stream.anchor.1).abs_diff(after) <= 2, "to the nanosecond, but for rounding");
    }
}

#[test]
fn a_capture_ends_with_as_many_packets_as_were_asked_for_and_not_one_more() {
    let mut bench = bench(1, Limits { packets: Some(2), ..NO_LIMITS }, 1 << 16);
    for n in 0..5 {
        bench.capture(0, n, &[0; 60]);
    }
    let (file, totals, end) = bench.file();
    assert_eq!((totals.packets, end), (2, CaptureEnd::Packets));
    assert_eq!(blocks(&file).iter().filter(|(kind, _)| *kind == 6).count(), 2);
}

#[test]
fn a_capture_ends_before_its_packets_are_larger_than_it_may_be() {
    let mut bench = bench(1, Limits { bytes: 100_000, ..NO_LIMITS }, 1 << 20);
    for n in 0..100 {
        bench.capture(0, n, &[0; 1500]);
    }
    let (file, totals, end) = bench.file();
    assert_eq!(end, CaptureEnd::Bytes);
    let statistics: usize =
        blocks(&file).iter().filter(|(kind, _)| *kind == 5).map(|(_, body)| body.len() + 12).sum();
    let without = file.len() - statistics;
    assert!(without <= 100_000 && without > 98_000, "{without} bytes in {} packets", totals.packets);
}

#[test]
fn a_capture_ends_when_its_time_is_over() {
    let mut bench = bench(1, Limits { duration: Some(Duration::ZERO), ..NO_LIMITS }, 1 << 16);
    bench.capture(0, 1, &[0; 60]);
    let (_, totals, end) = bench.file();
    assert_eq!((totals.packets, end), (1, CaptureEnd::Seconds));
}

#[test]
fn what_a_slow_reader_misses_is_told_and_stands_in_the_file() {
    let mut bench = bench(1, NO_LIMITS, 1000);
    for n in 0..50 {
        bench.capture(0, n, &[0; 60]);
    }
    bench.stream.stop();
    let (file, totals, _) = bench.file();
    // 1,000 bytes have room for 10 of 100.
    let expected = CaptureTotals { packets: 10, unread: 40, over_rate: 0, bytes: file.len() as u64 };
    assert_eq!(totals, expected);
    let told = b"not captured: 0 over the rate, 40 as the reader was too slow";
    assert!(file.windows(told.len()).any(|window| window == told));
}

#[test]
fn nothing_new_is_nothing_told() {
    let mut bench = bench(1, NO_LIMITS, 1 << 16);
    let first = bench.stream.ready().expect("the beginning of the file comes at once");
    assert_eq!(blocks(&first.bytes).len(), 4);
    assert_eq!(bench.stream.ready(), None);
    bench.capture(0, 1, &[0; 60]);
    assert_eq!(bench.stream.ready().map(|chunk| chunk.totals.packets), Some(1));
    assert_eq!(bench.stream.ready(), None);
}

#[test]
fn a_stream_that_is_dropped_ends_the_captures_of_the_workers_and_gives_its_place_back() {
    let bench = bench(2, NO_LIMITS, 1 << 16);
    assert_eq!(Rc::strong_count(&bench.slot), 2);
    drop(bench.stream);
    assert!(bench.workers.iter().all(|capture| capture.is_over()));
    assert_eq!(Rc::strong_count(&bench.slot), 1);
}

#[test]
fn the_log_says_how_much_a_capture_was_and_why_it_ended_and_says_it_once() {
    let lines = events("capture_ended", || {
        let mut stopped = bench(1, NO_LIMITS, 1000);
        for n in 0..50 {
            stopped.capture(0, n, &[0; 60]);
        }
        stopped.stream.stop();
        stopped.file();
        drop(stopped);
        let mut left = bench(1, NO_LIMITS, 1000);
        for n in 0..50 {
            left.capture(0, n, &[0; 60]);
        }
        drop(left);
    });
    let said = |line: &Value| {
        let numbers = ["packets", "unread", "over_rate"].map(|id| line[id].as_u64().unwrap());
        (line["why"].as_str().unwrap().to_owned(), line["filter"] == "all packets", numbers)
    };
    let expected = [("stopped".to_owned(), true, [10, 40, 0]), ("reader-gone".to_owned(), true, [0, 40, 0])];
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), expected);
    assert!(lines[0]["bytes"].as_u64() > Some(1000) && lines[0]["lasted_ms"].is_u64(), "{}", lines[0]);
}
