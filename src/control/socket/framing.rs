//! Lines out of a byte stream, of a bounded length.
//!
//! Used by every connection, on the daemon's side. Promises that no more than [`MAX_LINE`] bytes and one read are
//! ever held for a peer, whatever it sends, and that a read given up half-way (by `select!`) loses
//! nothing.

#![forbid(unsafe_code)]

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line taken, in bytes, its newline not counted. A thousand targets in one request
/// are about 60 KiB.
pub const MAX_LINE: usize = 1 << 20;

/// Room made for one read.
const READ_SIZE: usize = 16 << 10;

/// What a stream gave next.
#[derive(Debug, PartialEq)]
pub enum Frame {
    /// A line without its newline.
    Line(Vec<u8>),
    /// A line longer than [`MAX_LINE`]; nothing after it can be told apart.
    TooLong,
    /// The peer has closed; a last line without a newline is not a request and is dropped.
    End,
}

/// A reader of lines.
pub struct Lines<R> {
    from: R,
    held: Vec<u8>,
    /// Where the line not yet given out begins in `held`.
    start: usize,
    /// Up to where `held` is known to have no newline, so that a long line is searched once.
    searched: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// A reader of the lines of `from`.
    pub fn new(from: R) -> Self {
        Lines { from, held: Vec::new(), start: 0, searched: 0 }
    }

    /// A frame that is here already, without reading.
    pub fn ready(&mut self) -> Option<Frame> {
        let unsearched = self.held.get(self.searched..)?;
        let Some(found) = unsearched.iter().position(|&byte| byte == b'\n') else {
            self.searched = self.held.len();
            return (self.held.len() - self.start > MAX_LINE).then_some(Frame::TooLong);
        };
        let end = self.searched + found;
        if end - self.start > MAX_LINE {
            return Some(Frame::TooLong);
        }
        let line = self.held[self.start..end].to_vec();
        self.start = end + 1;
        self.searched = self.start;
        Some(Frame::Line(line))
    }

    /// The next frame. Safe to give up at any await and to call again.
    ///
    /// # Errors
    /// Those of the stream.
    pub async fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.ready() {
                return Ok(frame);
            }
            self.make_room();
            if self.from.read_buf(&mut self.held).await? == 0 {
                return Ok(Frame::End);
            }
        }
    }

    /// Forgets lines already given out, and the memory of a long one.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.held.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.held.is_empty() {
            self.held.shrink_to(READ_SIZE);
        }
        self.held.reserve(READ_SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// Gives its chunks one a read, then the end.
    struct Chunks(Vec<Vec<u8>>);

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(first) = self.0.first_mut() {
                let taken = first.len().min(buf.remaining());
                buf.put_slice(&first[..taken]);
                first.drain(..taken);
                if first.is_empty() {
                    self.0.remove(0);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn frames(chunks: Vec<Vec<u8>>) -> Vec<Frame> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lines = Lines::new(Chunks(chunks));
            let mut all = Vec::new();
            loop {
                let frame = lines.next().await.unwrap();
                let last = matches!(frame, Frame::End | Frame::TooLong);
                all.push(frame);
                if last {
                    return all;
                }
            }
        })
    }

    #[test]
    fn a_line_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
        let mut line = vec![b'x'; MAX_LINE];
        line.push(b'\n');
        assert_eq!(frames(vec![line.clone()]), [Frame::Line(vec![b'x'; MAX_LINE]), Frame::End]);
        line.insert(0, b'x');
        assert_eq!(frames(vec![line]), [Frame::TooLong]);
    }

    #[test]
    fn a_stream_without_a_newline_is_given_up_at_the_limit() {
        let chunk = vec![b'x'; READ_SIZE];
        let mut lines = Lines::new(Chunks(vec![chunk; 1000]));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(lines.next()).unwrap(), Frame::TooLong);
        assert!(lines.held.len() <= MAX_LINE + 2 * READ_SIZE, "held {}", lines.held.len());
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let mut long = vec![b'x'; MAX_LINE];
        long.push(b'\n');
        let mut lines = Lines::new(Chunks(vec![long, b"y\n".to_vec()]));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(lines.next()).unwrap();
        runtime.block_on(lines.next()).unwrap();
        assert!(lines.held.capacity() <= 4 * READ_SIZE, "capacity {}", lines.held.capacity());
    }

    proptest! {
        #[test]
        fn however_the_bytes_arrive_the_lines_are_the_same(
            chunks in proptest::collection::vec(proptest::collection::vec(
                prop_oneof![Just(b'\n'), any::<u8>()], 1..20), 0..20)
        ) {
            let whole: Vec<u8> = chunks.concat();
            let mut expected: Vec<Frame> =
                whole.split(|&b| b == b'\n').map(|l| Frame::Line(l.to_vec())).collect();
            // What follows the last newline is no line.
            expected.pop();
            expected.push(Frame::End);
            prop_assert_eq!(frames(chunks), expected);
        }
    }
}
