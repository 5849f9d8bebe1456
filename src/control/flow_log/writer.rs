//! The thread that reads the workers' rings and writes records.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rtrb::Consumer;

use super::file::RotatedFile;
use super::ipfix::{Exporter, NotSent};
use super::json;
use super::names::Names;
use super::options::{Destination, Options};
use super::record::Record;
use crate::control::events::Timestamp;
use crate::control::wall;
use crate::datapath::counters::WorkerCounters;
use crate::datapath::flow_log::{FlowLog, FlowReport, Sampling};
use crate::flow::{Accounts, HashSeed, Pages};
use crate::io::clock::Clock;
use crate::io::confine::{self, ThreadKind};

/// Reports that fit into a worker's ring.
const RING: usize = 1 << 16;

/// Reports that are taken from one ring in a row.
const IN_A_ROW: usize = 4096;

/// How long the thread sleeps when the rings are empty.
const PAUSE: Duration = Duration::from_millis(5);

/// How long written lines wait in memory at most.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// How often what was lost is told in the log.
const LOST_EVERY: Duration = Duration::from_secs(1);

/// Has the thread panic once, for tests of what becomes of it.
#[cfg(any(debug_assertions, feature = "faults"))]
pub static PANICS: AtomicBool = AtomicBool::new(false);

/// What is known of a worker.
#[derive(Clone)]
pub struct WorkerFacts {
    /// Flows that its table holds.
    pub capacity: u32,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
}

/// What the thread and the control core share.
#[derive(Default)]
pub struct Shared {
    names: Mutex<Arc<Names>>,
    taken: AtomicU64,
    failed: AtomicU64,
    error: Mutex<Option<String>>,
    over: AtomicBool,
}

/// How far a log is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records that were written.
    pub written: u64,
    /// Records that the disk or the network did not take.
    pub failed: u64,
    /// What it said, last.
    pub error: Option<String>,
    /// The thread has ended.
    pub is_over: bool,
}

impl Shared {
    /// The names from now on.
    pub fn set_names(&self, names: Names) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    /// The names.
    pub fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let failed = self.failed.load(Ordering::Relaxed);
        Progress {
            written: self.taken.load(Ordering::Relaxed).saturating_sub(failed),
            failed,
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            // Last: what it wrote before it ended is seen by whoever sees that.
            is_over: self.over.load(Ordering::Acquire),
        }
    }

    fn note(&self, result: Result<(), (u64, io::Error)>) {
        if let Err((records, error)) = result {
            self.failed.fetch_add(records, Ordering::Relaxed);
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
    }
}

/// The threads of this process's flow logs, for whoever waits for their end.
#[derive(Clone, Default)]
pub struct Threads(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Threads {
    fn add(&self, thread: JoinHandle<()>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|thread| !thread.is_finished());
        all.push(thread);
    }

    /// Waits until all that workers have reported is written, but no longer than until then; how many threads are not
    /// done with it. They end by themselves once no worker has a part of a log any more.
    #[must_use]
    pub fn join(&self, until: Instant) -> usize {
        let threads = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // One that panicked has nothing more to write.
            threads.retain(|thread| !thread.is_finished());
            if threads.is_empty() || Instant::now() >= until {
                return threads.len();
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What workers are to be given, in their order, or why there is nothing.
pub type Made = Result<Vec<Box<FlowLog>>, String>;

/// A log that has begun.
pub struct MadeBy {
    /// What workers are to be given, once it is made.
    pub made: Receiver<Made>,
    /// Where they give it back.
    pub back: Sender<Box<FlowLog>>,
    /// How far the log is.
    pub shared: Arc<Shared>,
}

/// What a log writes to, open.
pub struct Opened(Sink);

/// Opens what a log is to write to. May wait for the disk.
///
/// # Errors
/// If it cannot be opened.
pub fn open(options: &Options) -> Result<Opened, String> {
    Sink::open(options).map(Opened).map_err(|error| format!("{}: {error}", options.to))
}

/// Begins a log: has a thread make what workers need, and write what they report.
///
/// # Errors
/// If there is no thread to be had.
pub fn start(
    options: &Options,
    Opened(sink): Opened,
    seed: HashSeed,
    workers: Vec<WorkerFacts>,
    clock: Clock,
    threads: &Threads,
) -> Result<MadeBy, String> {
    let shared = Arc::new(Shared::default());
    let ((give, made), (back, given_back)) = (channel(), channel());
    let one_in = u32::try_from(options.one_in.get()).unwrap_or(u32::MAX);
    let interim_ms = options.interim.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    let own = Arc::clone(&shared);
    let run = move || {
        if let Err(error) = confine::enter(ThreadKind::FlowLog) {
            // As below.
            give.send(Err(error.to_string())).ok();
            own.over.store(true, Ordering::Release);
            return;
        }
        let sampling = Sampling { seed, one_in };
        match make(&workers, &sampling, interim_ms) {
            Ok((logs, rings)) => {
                let base = Lost::of(&workers);
                // If nobody waits for them they are dropped, and the rings are found to be nobody's.
                give.send(Ok(logs)).ok();
                let log = Log {
                    sink,
                    rings,
                    given_back,
                    shared: Arc::clone(&own),
                    workers,
                    clock,
                    base,
                    told: Lost::default(),
                };
                // What was reported and not written then is lost with the rings; a worker counts what it finds no room for.
                if catch_unwind(AssertUnwindSafe(|| log.run())).is_err() {
                    own.note(Err((0, io::Error::other("the thread that writes it panicked"))));
                }
            }
            Err(error) => drop(give.send(Err(error))),
        }
        own.over.store(true, Ordering::Release);
    };
    let thread = std::thread::Builder::new().name("flow-log".to_owned()).spawn(run);
    threads.add(thread.map_err(|error| format!("no thread for the flow log: {error}"))?);
    Ok(MadeBy { made, back, shared })
}

type Parts = (Vec<Box<FlowLog>>, Vec<Consumer<FlowReport>>);

fn make(workers: &[WorkerFacts], sampling: &Sampling, interim_ms: Option<u32>) -> Result<Parts, String> {
    let (mut logs, mut rings) = (Vec::new(), Vec::new());
    for worker in workers {
        let accounts = Accounts::new(worker.capacity, Pages::Huge)
            .map_err(|error| format!("memory to count {} flows in: {error}", worker.capacity))?;
        let (reports, ring) = rtrb::RingBuffer::new(RING);
        logs.push(Box::new(FlowLog::new(accounts, reports, sampling.clone(), interim_ms)));
        rings.push(ring);
    }
    Ok((logs, rings))
}

/// What workers had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost(NotSent);

impl Lost {
    fn of(workers: &[WorkerFacts]) -> Lost {
        let sum = |of: fn(&WorkerCounters) -> &crate::datapath::counters::Counter| {
            workers.iter().fold(0_u64, |sum, worker| sum.wrapping_add(of(&worker.counters).get()))
        };
        Lost(NotSent {
            records: sum(|all| &all.flow_reports_lost),
            packets: sum(|all| &all.flow_report_packets_lost),
            bytes: sum(|all| &all.flow_report_bytes_lost),
        })
    }

    fn since(self, earlier: Lost) -> Lost {
        Lost(NotSent {
            records: self.0.records.wrapping_sub(earlier.0.records),
            packets: self.0.packets.wrapping_sub(earlier.0.packets),
            bytes: self.0.bytes.wrapping_sub(earlier.0.bytes),
        })
    }
}

/// Where records go.
enum Sink {
    File(RotatedFile),
    Ipfix(Box<Exporter>),
}

impl Sink {
    fn open(options: &Options) -> io::Result<Sink> {
        Ok(match &options.to {
            Destination::File { path, rotate_bytes, keep } => {
                Sink::File(RotatedFile::open(path, *rotate_bytes, keep.get())?)
            }
            Destination::Ipfix { collector, domain } => {
                Sink::Ipfix(Box::new(Exporter::new(*collector, *domain, options.one_in.get())?))
            }
        })
    }

    fn write(&mut self, record: &Record<'_>) -> Result<(), (u64, io::Error)> {
        match self {
            Sink::File(file) => {
                json::write(record, file.buffer());
                file.added().map_err(|failed| (failed.lines, failed.error))
            }
            Sink::Ipfix(exporter) => exporter.add(record).map_err(|failed| (failed.records, failed.error)),
        }
    }

    /// Tells what was lost in all, and since it was told last.
    fn tell_lost(&mut self, all: Lost, since: Lost) -> Result<(), (u64, io::Error)> {
        match self {
            Sink::File(_) if since == Lost::default() => Ok(()),
            Sink::File(file) => {
                let Lost(NotSent { records, packets, bytes }) = since;
                json::write_lost(Timestamp::now(), (records, packets, bytes), file.buffer());
                file.added().map_err(|failed| (failed.lines, failed.error))
            }
            Sink::Ipfix(exporter) => {
                exporter.tend(all.0, Instant::now()).map_err(|failed| (failed.records, failed.error))
            }
        }
    }

    fn flush(&mut self) -> Result<(), (u64, io::Error)> {
        match self {
            Sink::File(file) => file.flush().map_err(|failed| (failed.lines, failed.error)),
            Sink::Ipfix(exporter) => exporter.flush().map_err(|failed| (failed.records, failed.error)),
        }
    }
}

struct Log {
    sink: Sink,
    rings: Vec<Consumer<FlowReport>>,
    given_back: Receiver<Box<FlowLog>>,
    shared: Arc<Shared>,
    workers: Vec<WorkerFacts>,
    clock: Clock,
    /// What was lost before this log.
    base: Lost,
    told: Lost,
}

impl Log {
    fn run(mut self) {
        let (mut flushed, mut told) = (Instant::now(), None::<Instant>);
        loop {
            #[cfg(any(debug_assertions, feature = "faults"))]
            assert!(!PANICS.swap(false, Ordering::Relaxed), "a fault that was put in: the flow log's thread");
            // Asked before the rings are read: what comes in between is read the next time.
            let is_over = self.rings.iter().all(Consumer::is_abandoned);
            let now = Instant::now();
            if is_over || told.is_none_or(|told| now.duration_since(told) >= LOST_EVERY) {
                told = Some(now);
                self.tell_lost();
            }
            let taken = self.take();
            if taken == 0 || now.duration_since(flushed) >= FLUSH_EVERY {
                flushed = now;
                let result = self.sink.flush();
                self.shared.note(result);
            }
            // Their memory is freed here, which may take long.
            self.given_back.try_iter().for_each(drop);
            match (taken, is_over) {
                (0, true) => return,
                (0, false) => std::thread::sleep(PAUSE),
                _ => {}
            }
        }
    }

    /// Writes some of what there is; returns how much that was.
    fn take(&mut self) -> usize {
        let Log { sink, rings, shared, clock, .. } = self;
        let names = shared.names();
        let (wall, cycles) = (wall::now(), clock.cycles());
        let mut taken = 0;
        for ring in rings {
            for _ in 0..IN_A_ROW {
                let Ok(report) = ring.pop() else { break };
                taken += 1;
                let ago = clock.duration_of(cycles.saturating_sub(report.at_cycles));
                let record = Record::new(&report, wall.checked_sub(ago).unwrap_or(wall), &names);
                shared.taken.fetch_add(1, Ordering::Relaxed);
                let result = sink.write(&record);
                shared.note(result);
            }
        }
        taken
    }

    fn tell_lost(&mut self) {
        let all = Lost::of(&self.workers).since(self.base);
        let result = self.sink.tell_lost(all, all.since(self.told));
        self.told = all;
        self.shared.note(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_threads_is_waited_for_and_no_longer_than_it_may_take() {
        let threads = Threads::default();
        let (thaw, frozen) = channel::<()>();
        threads.add(std::thread::spawn(move || frozen.recv().unwrap_or_default()));
        threads.add(std::thread::spawn(|| ()));
        let began = Instant::now();
        assert_eq!(threads.join(began + Duration::from_millis(50)), 1, "the disk hangs");
        assert!(began.elapsed() >= Duration::from_millis(50));
        drop(thaw);
        let patience = Duration::from_secs(60);
        assert_eq!(threads.join(Instant::now() + patience), 0);
        assert!(began.elapsed() < patience, "they are done");
    }
}
