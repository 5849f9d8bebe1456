//! Where lines go: straight to standard error at first, and, once the daemon runs, by way of a bounded queue to a
//! thread of its own. A reader of standard error that has stopped then fills the queue and nothing else: lines that
//! find no room are counted, and their number is told when there is some.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::io::confine::{self, ConfineError, ThreadKind};

/// Lines that wait at most.
const QUEUE: usize = 4096;

/// How long the end of the process waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Panics in a row after which the thread gives up: each may tell of itself in a line, over which it panics again.
const PANICS: u32 = 8;

type Out = Box<dyn Write + Send>;

/// What the thread is given.
enum Job {
    Line(String),
    /// Say so when everything before this has been written.
    Flush(SyncSender<()>),
}

enum Way {
    Straight(Out),
    Queued(SyncSender<Job>),
}

/// See the module.
pub struct Writer {
    way: Mutex<Way>,
    sunk: Arc<Sunk>,
    told: AtomicU64,
}

/// What did not come out.
#[derive(Default)]
struct Sunk {
    lines: AtomicU64,
    /// The last line did not: to tell how many there were would be one more.
    broken: AtomicBool,
}

impl Writer {
    /// To standard error.
    pub fn to_stderr() -> Writer {
        Writer::to(Box::new(std::io::stderr()))
    }

    /// To whatever takes bytes.
    pub fn to(out: Out) -> Writer {
        Writer { way: Mutex::new(Way::Straight(out)), sunk: Arc::default(), told: AtomicU64::new(0) }
    }

    /// Writes a line, or sees to it that it is written, or counts it as lost.
    pub fn write(&self, line: String) {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *way {
            Way::Straight(out) => self.sunk.write(out, &line),
            Way::Queued(queue) => match queue.try_send(Job::Line(line)) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.sunk.lines.fetch_add(1, Ordering::Relaxed);
                }
            },
        }
    }

    /// From here on a thread writes, which is on the CPUs that the calling thread may be on.
    ///
    /// # Errors
    /// If there is none to be had; lines are written as before then.
    pub fn start_thread(&self) -> std::io::Result<()> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, jobs) = sync_channel(QUEUE);
        let Way::Straight(out) = std::mem::replace(&mut *way, Way::Queued(queue)) else { return Ok(()) };
        // The thread may not be, so that it is given what it writes to only when it is there.
        let (give, given) = sync_channel(1);
        let thread = std::thread::Builder::new().name("log".to_owned());
        let sunk = Arc::clone(&self.sunk);
        let run = move || {
            let confined = confine::enter(ThreadKind::Log);
            given.recv().map(|out| write_all(out, &jobs, &sunk, confined))
        };
        match thread.spawn(run) {
            // It waits for it.
            Ok(_) => give.send(out).map_err(|_| std::io::ErrorKind::BrokenPipe.into()),
            Err(error) => {
                *way = Way::Straight(out);
                Err(error)
            }
        }
    }

    /// Waits until what was written so far is out, for a second at most.
    pub fn flush(&self) {
        let queue = match &*self.way.lock().unwrap_or_else(PoisonError::into_inner) {
            Way::Straight(_) => return,
            Way::Queued(queue) => queue.clone(),
        };
        let (done, flushed) = sync_channel(1);
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if queue.try_send(Job::Flush(done.clone())).is_ok() {
                // If nobody reads, that is no reason not to end.
                flushed.recv_timeout(PATIENCE.saturating_sub(began.elapsed())).ok();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lines that were lost since this was last asked; none as long as no line comes out at all.
    pub fn take_lost(&self) -> u64 {
        if self.sunk.broken.load(Ordering::Relaxed) {
            return 0;
        }
        let lost = self.lost();
        lost.wrapping_sub(self.told.swap(lost, Ordering::Relaxed))
    }

    /// Lines that were lost so far.
    pub fn lost(&self) -> u64 {
        self.sunk.lines.load(Ordering::Relaxed)
    }
}

impl Sunk {
    /// Writes a line or counts it: with standard error closed, or on a full disk, there is nobody to tell.
    fn write(&self, out: &mut Out, line: &str) {
        let failed = out.write_all(line.as_bytes()).is_err();
        self.broken.store(failed, Ordering::Relaxed);
        self.lines.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Counts one that does not come out.
    fn lose(&self) {
        self.broken.store(true, Ordering::Relaxed);
        self.lines.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_all(mut out: Out, jobs: &Receiver<Job>, sunk: &Sunk, confined: Result<(), ConfineError>) {
    if let Err(error) = confined {
        // The log cannot say so through itself here; and who has more rights than it should must not go on.
        writeln!(out, "flowgated: the log's thread: {error}").ok();
        return;
    }
    let mut panics = 0;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Line(line) => {
                if panics == PANICS {
                    sunk.lose();
                    continue;
                }
                // One over which it panics is lost, and not those after it.
                match catch_unwind(AssertUnwindSafe(|| sunk.write(&mut out, &line))) {
                    Ok(()) => panics = 0,
                    Err(_) => {
                        panics += 1;
                        sunk.lose();
                    }
                }
            }
            Job::Flush(done) => {
                done.send(()).ok();
            }
        }
    }
}
