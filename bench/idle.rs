//! What an idle worker costs, and what its naps add to a packet's way.
//!
//! A worker without flows has one port, into which another thread puts a packet now and then with the time
//! on it. When the worker takes the packet it notes how old it is: that is what its sleep adds. Its CPU time
//! is the kernel's account of its thread. Nothing else is measured; the packet is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flowgate::datapath::worker::{Idle, Worker, WorkerParts};
use flowgate::flow::{HashSeed, Pages, Table, TableConfig};
use flowgate::id::WorkerId;
use flowgate::io::clock::Clock;
use flowgate::io::memory::MemoryBuf;
use flowgate::io::{Burst, PortQueue, affinity};

/// How long each is looked at.
const LONG: Duration = Duration::from_secs(2);

/// A port into which another thread puts packets.
struct Port {
    arriving: rtrb::Consumer<Instant>,
    ages: rtrb::Producer<Duration>,
}

impl PortQueue for Port {
    type Buf = MemoryBuf;

    fn receive(&mut self, burst: &mut Burst<MemoryBuf>) {
        while !burst.is_full() {
            let Ok(put_in) = self.arriving.pop() else { break };
            self.ages.push(put_in.elapsed()).expect("room");
            burst.push(MemoryBuf::new(&[0; 60]));
        }
    }

    fn transmit(&mut self, burst: &mut Burst<MemoryBuf>) -> usize {
        burst.drain(..).count()
    }

    fn allocate(&mut self) -> Option<MemoryBuf> {
        None
    }
}

/// The CPU time of this thread so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps account");
    let nanoseconds = stat.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    Duration::from_nanos(nanoseconds)
}

/// Of a hundred, how much CPU time the worker took, and the ages of its packets, sorted.
fn play(idle: Idle, every: Option<Duration>) -> (f64, Vec<Duration>) {
    let seed = HashSeed::from_secret(b"bench");
    let table = Table::new(TableConfig {
        capacity: 1 << 20,
        worker: WorkerId(0),
        workers: 1,
        pages: Pages::Small,
        seed: seed.clone(),
    });
    let (mut put, arriving) = rtrb::RingBuffer::new(1 << 16);
    let (ages, mut seen) = rtrb::RingBuffer::new(1 << 16);
    let (_control, inbox) = rtrb::RingBuffer::new(8);
    let (events, _events) = rtrb::RingBuffer::new(8);
    let mut worker = Worker::new(WorkerParts::alone(
        vec![Port { arriving, ages }],
        table.expect("a table"),
        seed,
        (inbox, events),
    ));
    let stop = AtomicBool::new(false);
    let share = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            affinity::wake_on_time().expect("the kernel allows it");
            let (before, start) = (cpu_time(), Instant::now());
            worker.run(&Clock::start(), idle, &stop);
            100.0 * (cpu_time() - before).as_secs_f64() / start.elapsed().as_secs_f64()
        });
        affinity::wake_on_time().expect("the kernel allows it");
        let start = Instant::now();
        while start.elapsed() < LONG {
            match every {
                None => std::thread::sleep(LONG),
                Some(every) => {
                    std::thread::sleep(every);
                    put.push(Instant::now()).expect("room");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("a worker")
    });
    let mut ages: Vec<Duration> = std::iter::from_fn(|| seen.pop().ok()).collect();
    ages.sort_unstable();
    (share, ages)
}

fn main() {
    println!(
        "{:14} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "idle", "a packet", "CPU %", "median µs", "99 % µs", "longest µs"
    );
    let kinds = [None, Some(10), Some(50), Some(200), Some(1000)];
    for longest in kinds {
        let (name, idle) = match longest {
            None => ("poll".to_owned(), Idle::Poll),
            Some(us) => (format!("sleep, {us} µs"), Idle::Sleep(Duration::from_micros(us))),
        };
        for every in [None, Some(10_000), Some(1_000), Some(100)] {
            let (share, ages) = play(idle, every.map(Duration::from_micros));
            let at = |place: usize| {
                ages.get(place)
                    .map_or_else(|| "-".to_owned(), |age| format!("{:.1}", age.as_secs_f64() * 1e6))
            };
            let last = ages.len().saturating_sub(1);
            let every = every.map_or_else(|| "never".to_owned(), |us| format!("{us} µs"));
            println!(
                "{name:14} {every:>10} {share:12.1} {:>12} {:>12} {:>12}",
                at(last / 2),
                at(last * 99 / 100),
                at(last)
            );
        }
    }
}
