//! The answers that are on their way. Each may be megabytes, and a client that does not read would keep them: there are
//! so many at most, and the oldest gives way.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::control::http::Visit;

/// Answers on their way at a time: more scrapers than a node has, and a few dozen megabytes.
pub const HELD: usize = 8;

/// Bytes that are given to the connection at a time. It takes the next when it has sent some, so that an answer is
/// here until its client has read nearly all of it.
const PIECE: usize = 16 * 1024;

/// The answers that are on their way, oldest first.
#[derive(Default)]
pub struct Held {
    answers: RefCell<Vec<(Weak<()>, Weak<Visit>)>>,
    written: Cell<u64>,
    given_up: Cell<u64>,
}

impl Held {
    /// A body of these bytes for the connection of `visit`, which ends if it is the oldest of too many.
    pub fn hold(
        &self,
        bytes: Bytes,
        visit: &Rc<Visit>,
    ) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
        self.written.set(self.written.get() + 1);
        let mut answers = self.answers.borrow_mut();
        answers.retain(|(alive, _)| alive.strong_count() > 0);
        if answers.len() >= HELD {
            let (_, oldest) = answers.remove(0);
            if let Some(oldest) = oldest.upgrade() {
                oldest.evict();
            }
            self.given_up.set(self.given_up.get() + 1);
        }
        let alive = Rc::new(());
        answers.push((Rc::downgrade(&alive), Rc::downgrade(visit)));
        Answer { left: bytes, _alive: alive }
    }

    /// How many answers there were, and how many of them were given up.
    pub fn counts(&self) -> (u64, u64) {
        (self.written.get(), self.given_up.get())
    }
}

struct Answer {
    left: Bytes,
    _alive: Rc<()>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = PIECE.min(self.left.len());
        Poll::Ready((piece > 0).then(|| Ok(Frame::data(self.left.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
