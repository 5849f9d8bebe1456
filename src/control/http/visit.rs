//! A connection, as its server looks at it: who it is, when it asked, and when a byte of it moved.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A connection, as its server looks at it.
pub struct Visit {
    peer: SocketAddr,
    local: Option<SocketAddr>,
    stays: Cell<bool>,
    asked: Cell<Instant>,
    moved: Cell<Instant>,
    evicted: Notify,
}

impl Visit {
    /// That of a peer that has just connected, to the address `local`.
    pub fn new(peer: SocketAddr, local: Option<SocketAddr>) -> Self {
        let now = Instant::now();
        let (asked, moved) = (Cell::new(now), Cell::new(now));
        Visit { peer, local, stays: Cell::new(false), asked, moved, evicted: Notify::new() }
    }

    /// Who it is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it came to an address by which only this machine reaches itself.
    pub fn is_local(&self) -> bool {
        self.local.is_some_and(|local| local.ip().is_loopback())
    }

    /// Notes that a request's head is here.
    pub fn ask(&self) {
        self.asked.set(Instant::now());
        self.stays.set(false);
    }

    /// Notes that the answer is a stream that is meant to last, so that others make room before it. Whoever says
    /// so bounds how many there are.
    pub fn stay(&self) {
        self.stays.set(true);
    }

    /// Whether it is the last that is to make room.
    pub fn is_to_stay(&self) -> bool {
        self.stays.get()
    }

    /// When the last request's head came; when it connected, if none did.
    pub fn asked(&self) -> Instant {
        self.asked.get()
    }

    /// Asks the connection's task to end.
    pub fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Waits until somebody calls [`Visit::evict`].
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Waits until no byte has moved for so long.
    pub async fn silent_for(&self, time: Duration) {
        loop {
            let end = self.moved.get() + time;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

/// A stream that notes in its [`Visit`] when a byte moves.
pub struct Progress<S> {
    stream: S,
    visit: Rc<Visit>,
}

impl<S> Progress<S> {
    /// `stream`, noted in `visit`.
    pub fn new(stream: S, visit: Rc<Visit>) -> Self {
        Progress { stream, visit }
    }

    fn moved(&self, bytes: usize) {
        if bytes > 0 {
            self.visit.moved.set(Instant::now());
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.moved(buffer.filled().len() - before);
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.moved(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.moved(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
