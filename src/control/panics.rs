//! Panics of this process's threads, noted where they happen and told by the control core.
//!
//! The hook writes nothing: whoever panics may be a worker, and standard error a pipe that nobody reads. It says on which
//! thread a panic was, as tasks of the control core's thread are caught by the runtime, which tells nobody.

#![forbid(unsafe_code)]

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::future::Future;
use std::panic::PanicHookInfo;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::io::confine::may_open_files;

/// Panics that are kept until they are told.
const KEPT: usize = 16;

/// A panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The thread's name.
    pub thread: String,
    /// What was said.
    pub what: String,
    /// File and line.
    pub place: String,
    /// Which calls led there, if `RUST_BACKTRACE` asks for it.
    pub calls: Option<String>,
}

impl std::fmt::Display for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.what, self.place)
    }
}

/// How many there were so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of the control core.
    pub control: u64,
    /// Of single conversations with clients, on the control core's thread.
    pub conversations: u64,
    /// Of other threads.
    pub others: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Other,
    Control,
    Conversation,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Other) };
}

static CONTROL: AtomicU64 = AtomicU64::new(0);
static CONVERSATIONS: AtomicU64 = AtomicU64::new(0);
static OTHERS: AtomicU64 = AtomicU64::new(0);
static UNTOLD: Mutex<Vec<Panic>> = Mutex::new(Vec::new());

/// From here on panics are noted; the calling thread is the control core's.
pub fn note_from_here() {
    PLACE.set(Place::Control);
    std::panic::set_hook(Box::new(note));
}

fn note(panic: &PanicHookInfo<'_>) {
    let counter = match PLACE.get() {
        Place::Other => &OTHERS,
        Place::Control => &CONTROL,
        Place::Conversation => &CONVERSATIONS,
    };
    // Files with the names of functions are not for every thread to open.
    let backtrace = if may_open_files() { Backtrace::capture() } else { Backtrace::disabled() };
    let noted = Panic {
        thread: std::thread::current().name().unwrap_or("without a name").to_owned(),
        what: panic.payload_as_str().unwrap_or("a panic without words").to_owned(),
        place: panic.location().map(ToString::to_string).unwrap_or_default(),
        calls: (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string()),
    };
    let mut untold = UNTOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if untold.len() < KEPT {
        untold.push(noted);
    }
    drop(untold);
    // Last: whoever sees the count finds the panic.
    counter.fetch_add(1, Ordering::Release);
}

/// How many there were so far.
pub fn counts() -> Counts {
    Counts {
        control: CONTROL.load(Ordering::Acquire),
        conversations: CONVERSATIONS.load(Ordering::Acquire),
        others: OTHERS.load(Ordering::Acquire),
    }
}

/// Those that nobody has told yet.
pub fn untold() -> Vec<Panic> {
    std::mem::take(&mut UNTOLD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A conversation with one client: a panic in it is counted as one, as it need not be the control core's.
pub fn in_conversation<F: Future>(future: F) -> Conversation<F> {
    Conversation(Box::pin(future))
}

/// See [`in_conversation`].
pub struct Conversation<F>(Pin<Box<F>>);

impl<F: Future> Future for Conversation<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        /// Back to what it was, also by a panic.
        struct Back(Place);
        impl Drop for Back {
            fn drop(&mut self) {
                PLACE.set(self.0);
            }
        }
        let before = PLACE.get();
        let _back = Back(before);
        if before == Place::Control {
            PLACE.set(Place::Conversation);
        }
        self.0.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, take_hook};

    use super::*;

    // One test, as a process has one hook.
    #[test]
    fn a_panic_is_noted_with_its_thread_and_place_and_counted_where_it_was() {
        let hook = take_hook();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let thread = std::thread::Builder::new().name("panics-test".to_owned());
        let control = thread.spawn(move || {
            note_from_here();
            let before = counts();
            let in_one = AssertUnwindSafe(|| runtime.block_on(in_conversation(async { panic!("one") })));
            assert!(catch_unwind(in_one).is_err());
            let control = AssertUnwindSafe(|| runtime.block_on(async { panic!("two {}", 2) }));
            assert!(catch_unwind(control).is_err());
            (before, counts())
        });
        let (before, after) = control.unwrap().join().unwrap();
        std::panic::set_hook(hook);
        assert_eq!(after.conversations - before.conversations, 1);
        assert_eq!(after.control - before.control, 1);
        let ours: Vec<Panic> = untold().into_iter().filter(|panic| panic.thread == "panics-test").collect();
        let words: Vec<&str> = ours.iter().map(|panic| panic.what.as_str()).collect();
        assert_eq!(words, ["one", "two 2"]);
        assert!(ours[0].place.starts_with("src/control/panics.rs:"), "{ours:?}");
    }
}
