//! A connection that counts what comes in, keeps the first bytes of it for the description, and gives
//! no more than a bound: whatever a target sends into a TLS session, and however long it goes on, the
//! check takes so much of it and no more.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::http::SHOWN;

/// `stream`, of which at most `limit` bytes are read.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    limit: usize,
    received: usize,
    begin: Vec<u8>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, limit: usize) -> Self {
        Self { stream, limit, received: 0, begin: Vec::with_capacity(SHOWN) }
    }

    /// Bytes received so far; never more than the limit.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// The first [`SHOWN`] of them.
    pub(super) fn begin(&self) -> &[u8] {
        &self.begin
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let room = this.limit - this.received;
        if room == 0 {
            let more = format!("the target sent more than {} bytes", this.limit);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, more)));
        }
        let before = buffer.filled().len();
        let mut part = (&mut this.stream).take(u64::try_from(room).unwrap_or(u64::MAX));
        let outcome = Pin::new(&mut part).poll_read(context, buffer);
        let new = &buffer.filled()[before..];
        let missing = SHOWN - this.begin.len();
        this.begin.extend_from_slice(&new[..missing.min(new.len())]);
        this.received += new.len();
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_than_the_limit_is_read_and_the_begin_is_kept() {
        // H-3: a source without an end.
        let mut metered = Metered::new(tokio::io::repeat(b'x'), 1000);
        let mut taken = Vec::new();
        let error = metered.read_to_end(&mut taken).await.unwrap_err();
        assert_eq!(error.to_string(), "the target sent more than 1000 bytes");
        assert_eq!((taken.len(), metered.received()), (1000, 1000));
        assert_eq!(metered.begin(), [b'x'; SHOWN]);
    }

    #[tokio::test]
    async fn what_comes_in_pieces_is_counted_and_shown_as_one() {
        let source = (&b"begin "[..]).chain(&b"and end"[..]);
        let mut metered = Metered::new(source, 1000);
        let mut taken = Vec::new();
        metered.read_to_end(&mut taken).await.unwrap();
        assert_eq!((metered.begin(), metered.received()), (&b"begin and end"[..], 13));
        assert_eq!(taken, b"begin and end");
    }
}
