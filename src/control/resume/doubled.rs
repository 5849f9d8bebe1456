//! A piece of data in a file that somebody may be killed over while he writes it: there are two places, written by
//! turns, each with a number and a checksum. What was being written when the writer died is not whole, and the one before
//! it is.
//!
//! Neither is synced to a disk: it is for memory that outlives a process, not for one that outlives the machine. A write
//! is one system call to an open file, so that it needs no right that is given up after the start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What stands before the data in either place: number, length, checksum.
const HEAD: usize = 8 + 8 + 32;

/// A place in a file for data that is written as a whole.
#[derive(Debug)]
pub struct Doubled {
    file: File,
    offset: u64,
    room: usize,
    sequence: u64,
}

impl Doubled {
    /// Bytes of a file that a place for so much data takes.
    pub const fn size(room: usize) -> u64 {
        2 * (HEAD + room) as u64
    }

    /// The place at `offset` of a file, for at most `room` bytes, and the newest data in it that are whole.
    ///
    /// # Errors
    /// If the file cannot be read. A file that ends before has no data.
    pub fn open(file: File, offset: u64, room: usize) -> io::Result<(Doubled, Option<Vec<u8>>)> {
        let mut doubled = Doubled { file, offset, room, sequence: 0 };
        let mut newest = None;
        for number in 0..2 {
            if let Some((sequence, data)) = doubled.read(number)?
                && sequence > doubled.sequence
            {
                doubled.sequence = sequence;
                newest = Some(data);
            }
        }
        Ok((doubled, newest))
    }

    /// Writes data in the place of the older ones.
    ///
    /// # Errors
    /// If they are too long, or the file cannot be written. What was written before is still there.
    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        if data.len() > self.room {
            let sentence = format!("{} bytes are too many for a place of {}", data.len(), self.room);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, sentence));
        }
        let sequence = self.sequence + 1;
        let mut all = Vec::with_capacity(HEAD + data.len());
        all.extend(sequence.to_le_bytes());
        all.extend((data.len() as u64).to_le_bytes());
        all.extend(checksum(sequence, data));
        all.extend(data);
        self.file.write_all_at(&all, self.place(sequence % 2))?;
        self.sequence = sequence;
        Ok(())
    }

    fn place(&self, number: u64) -> u64 {
        self.offset + number * (HEAD + self.room) as u64
    }

    fn read(&self, number: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
        let mut head = [0; HEAD];
        let place = self.place(number);
        if !read_at(&self.file, &mut head, place)? {
            return Ok(None);
        }
        let (sequence, length) = (number_at(&head, 0), number_at(&head, 8));
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= self.room) else {
            return Ok(None);
        };
        let mut data = vec![0; length];
        let whole = read_at(&self.file, &mut data, place + HEAD as u64)?
            && head.get(16..) == Some(checksum(sequence, &data).as_slice());
        Ok((whole && sequence > 0).then_some((sequence, data)))
    }
}

/// Fills `buffer`; false if the file ends before.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn number_at(head: &[u8; HEAD], at: usize) -> u64 {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn checksum(sequence: u64, data: &[u8]) -> Vec<u8> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    context.update(&sequence.to_le_bytes());
    context.update(&(data.len() as u64).to_le_bytes());
    context.update(data);
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 100;

    fn open(file: &File) -> (Doubled, Option<Vec<u8>>) {
        Doubled::open(file.try_clone().unwrap(), 64, ROOM).unwrap()
    }

    #[test]
    fn the_newest_is_read_by_whoever_comes_next() {
        let file = tempfile::tempfile().unwrap();
        let (mut doubled, nothing) = open(&file);
        assert_eq!(nothing, None);
        for n in 1..=9_u8 {
            let data = vec![n; usize::from(n) * 11];
            doubled.write(&data).unwrap();
            let (again, found) = open(&file);
            assert_eq!(found, Some(data));
            doubled = again;
        }
        assert!(doubled.write(&[1; ROOM + 1]).is_err());
        assert_eq!(open(&file).1, Some(vec![9; 99]), "what did not fit harms nothing");
        assert!(file.metadata().unwrap().len() <= 64 + Doubled::size(ROOM));
    }

    #[test]
    fn a_write_that_was_cut_anywhere_leaves_the_one_before() {
        let file = tempfile::tempfile().unwrap();
        let (mut doubled, _) = open(&file);
        doubled.write(b"the one before the last").unwrap();
        doubled.write(b"the last").unwrap();
        let mut before = vec![0; usize::try_from(64 + Doubled::size(ROOM)).unwrap()];
        let length = file.metadata().unwrap().len();
        file.read_exact_at(&mut before[..usize::try_from(length).unwrap()], 0).unwrap();
        doubled.write(b"the one that is being written").unwrap();
        let place = doubled.place(doubled.sequence % 2);
        let mut after = vec![0; HEAD + 29];
        file.read_exact_at(&mut after, place).unwrap();
        for cut in 0..=after.len() {
            file.write_all_at(&before, 0).unwrap();
            file.write_all_at(&after[..cut], place).unwrap();
            let expected: &[u8] =
                if cut == after.len() { b"the one that is being written" } else { b"the last" };
            assert_eq!(open(&file).1.as_deref(), Some(expected), "cut at {cut}");
        }
    }

    #[test]
    fn a_changed_bit_is_seen() {
        let file = tempfile::tempfile().unwrap();
        let (mut doubled, _) = open(&file);
        doubled.write(b"first").unwrap();
        doubled.write(b"second").unwrap();
        let place = doubled.place(0);
        for at in place..place + (HEAD + 6) as u64 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
            assert_eq!(open(&file).1.as_deref(), Some(b"first".as_slice()), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
    }
}
