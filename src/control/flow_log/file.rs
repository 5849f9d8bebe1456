//! A file of lines that is set aside when it is long: `NAME` is written to, `NAME.1` was before it, `NAME.2` before
//! that, and so on to a bounded number.
//!
//! Lines are written many at once. What a full disk does not take is lost and counted; a line that was cut off then
//! ends with the next write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines that were not written, and why.
#[derive(Debug)]
pub struct NotWritten {
    /// How many.
    pub lines: u64,
    /// Why.
    pub error: io::Error,
}

/// See the module.
pub struct RotatedFile {
    path: PathBuf,
    rotate_bytes: u64,
    keep: u64,
    file: File,
    len: u64,
    waiting: Vec<u8>,
    lines: u64,
    /// The last line in the file has no end.
    torn: bool,
}

/// Bytes that wait before they are written, however soon more come.
const MANY: usize = 64 * 1024;

impl RotatedFile {
    /// Goes on writing to `path`, which is made if it is not there, as is its folder.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, rotate_bytes: u64, keep: u64) -> io::Result<RotatedFile> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = open(path)?;
        let len = file.metadata()?.len();
        let path = path.to_owned();
        Ok(RotatedFile { path, rotate_bytes, keep, file, len, waiting: Vec::new(), lines: 0, torn: false })
    }

    /// Where a line is put, newline included, before [`added`](RotatedFile::added).
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// A line was put into the buffer.
    ///
    /// # Errors
    /// As [`flush`](RotatedFile::flush).
    pub fn added(&mut self) -> Result<(), NotWritten> {
        self.lines += 1;
        if self.waiting.len() >= MANY { self.flush() } else { Ok(()) }
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// What was not written is lost then.
    pub fn flush(&mut self) -> Result<(), NotWritten> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let written = self.rotate_if_long().and_then(|()| self.write());
        self.waiting.clear();
        written.map_err(|error| NotWritten { lines, error })
    }

    fn write(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = self.waiting.as_slice();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.len += count as u64;
                    self.torn = rest.get(count - 1) != Some(&b'\n');
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn rotate_if_long(&mut self) -> io::Result<()> {
        if self.len == 0 || self.len + self.waiting.len() as u64 <= self.rotate_bytes {
            return Ok(());
        }
        let aside = |number: u64| {
            let mut path = self.path.clone().into_os_string();
            path.push(format!(".{number}"));
            PathBuf::from(path)
        };
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.keep).rev() {
                rename_if_there(&aside(number), &aside(number + 1))?;
            }
            fs::rename(&self.path, aside(1))?;
        }
        self.file = open(&self.path)?;
        (self.len, self.torn) = (0, false);
        Ok(())
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(file: &mut RotatedFile, line: &str) -> Result<(), NotWritten> {
        file.buffer().extend_from_slice(line.as_bytes());
        file.added()?;
        file.flush()
    }

    #[test]
    fn a_file_that_is_long_is_set_aside_and_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/flows");
        let mut file = RotatedFile::open(&path, 10, 2).unwrap();
        for line in ["one 4567\n", "two\n", "three\n", "four 567\n", "five 567\n"] {
            put(&mut file, line).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join("sub").join(name)).ok();
        assert_eq!(read("flows").as_deref(), Some("five 567\n"));
        assert_eq!(read("flows.1").as_deref(), Some("four 567\n"));
        assert_eq!(read("flows.2").as_deref(), Some("two\nthree\n"));
        assert_eq!(read("flows.3"), None, "the oldest is gone");
        drop(file);
        // A daemon that starts again goes on.
        let mut file = RotatedFile::open(&path, 100, 0).unwrap();
        put(&mut file, "six\n").unwrap();
        assert_eq!(read("flows").as_deref(), Some("five 567\nsix\n"));
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_counted_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = RotatedFile::open(&folder.path().join("flows"), u64::MAX, 0).unwrap();
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        for _ in 0..3 {
            file.buffer().extend_from_slice(b"line\n");
            file.added().unwrap();
        }
        let failed = file.flush().unwrap_err();
        assert_eq!((failed.lines, failed.error.raw_os_error()), (3, Some(libc::ENOSPC)));
        file.file = open(&folder.path().join("flows")).unwrap();
        file.torn = true;
        put(&mut file, "whole\n").unwrap();
        assert_eq!(fs::read(folder.path().join("flows")).unwrap(), b"\nwhole\n");
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows");
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(RotatedFile::open(&path, 10, 1).is_err());
    }
}
