//! Answers without an end, such as a stream of events: bounded in number, and in what waits in each.
//!
//! Whoever feeds a stream has a [`Feed`] with room for [`WAITING`] pieces; what is not read does not grow, and it is
//! the feeder's to say so to the reader. A stream whose reader is gone closes its feed. One over which no byte moves is
//! ended by the server as any silent connection is, so a feeder that has nothing to say sends
//! something all the same, more often than that.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::Response;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

use super::answer::{self, AnswerBody};
use crate::control::http::Visit;

/// Streams at a time. A browser's page has one; more than some dozens of people do not look at one node.
pub const MAX_STREAMS: usize = 32;

/// Pieces that wait in a stream for its reader.
pub const WAITING: usize = 64;

/// After how long whoever got no stream may ask again, in seconds.
const RETRY_AFTER: u16 = 10;

/// The streams that are open.
#[derive(Default)]
pub struct Streams {
    open: Rc<Cell<usize>>,
    refused: Cell<u64>,
}

/// Where the pieces of a stream are put in. `closed()` waits until its reader is gone.
pub type Feed = mpsc::Sender<Bytes>;

impl Streams {
    /// Opens a stream of this type over the connection of `visit`.
    ///
    /// # Errors
    /// The answer that there are too many.
    pub fn open(
        &self,
        kind: &'static str,
        visit: &Visit,
    ) -> Result<(Feed, Response<AnswerBody>), Box<Response<AnswerBody>>> {
        if self.open.get() >= MAX_STREAMS {
            self.refused.set(self.refused.get() + 1);
            let sentence =
                format!("There are {MAX_STREAMS} streams already, which is as many as there may be.");
            return Err(Box::new(answer::later(RETRY_AFTER, &sentence)));
        }
        visit.stay();
        let (feed, pieces) = mpsc::channel(WAITING);
        let body = Stream { pieces, _place: Place::take(&self.open) };
        Ok((feed, answer::with_body(StatusCode::OK, kind, AnswerBody::from_body(body))))
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.get()
    }

    /// How many were refused, as there were too many.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }
}

/// One of the places that there are for streams.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(open: &Rc<Cell<usize>>) -> Place {
        open.set(open.get() + 1);
        Place(Rc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Stream {
    pieces: mpsc::Receiver<Bytes>,
    _place: Place,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http_body_util::BodyExt as _;

    use super::*;

    fn visit() -> Visit {
        Visit::new(SocketAddr::from(([127, 0, 0, 1], 9)), None)
    }

    #[test]
    fn there_are_so_many_streams_and_a_closed_one_makes_room() {
        let (streams, visit) = (Streams::default(), visit());
        let mut open: Vec<_> =
            (0..MAX_STREAMS).map(|_| streams.open("text/event-stream", &visit).unwrap()).collect();
        assert!(visit.is_to_stay());
        let refused = streams.open("text/event-stream", &visit).expect_err("one too many");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "10");
        assert_eq!((streams.count(), streams.refused()), (MAX_STREAMS, 1));
        let (feed, answer) = open.pop().unwrap();
        drop(answer);
        assert!(feed.is_closed(), "whoever feeds it hears that the reader is gone");
        assert!(streams.open("text/event-stream", &visit).is_ok());
    }

    #[tokio::test]
    async fn what_is_fed_comes_out_in_order_and_what_is_not_read_does_not_grow() {
        let streams = Streams::default();
        let (feed, answer) = streams.open("text/event-stream", &visit()).unwrap();
        let fed = (0..1000).take_while(|n| feed.try_send(Bytes::from(format!("{n}\n"))).is_ok()).count();
        assert_eq!(fed, WAITING);
        drop(feed);
        let read = answer.into_body().collect().await.unwrap().to_bytes();
        let expected: String = (0..WAITING).map(|n| format!("{n}\n")).collect();
        assert_eq!(read, expected);
        assert_eq!(streams.count(), 0);
    }
}
