//! What DPDK has to say while it starts or opens a device, caught instead of spread over the
//! terminal: from it comes the sentence for the operator when that fails.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file in memory, made at the first capture. DPDK's own threads may write to its stream at any
/// moment, so it is never closed.
static LOG: Mutex<Option<Log>> = Mutex::new(None);

unsafe extern "C" {
    /// C's standard error, set by the C library before the program begins.
    #[link_name = "stderr"]
    static STDERR: *mut libc::FILE;
}

struct Log {
    stream: *mut libc::FILE,
    file: File,
}

// SAFETY: C's streams lock themselves.
unsafe impl Send for Log {}

impl Log {
    fn new() -> io::Result<Log> {
        // SAFETY: the name is a C string; a negative result is handled.
        let fd = unsafe { libc::memfd_create(c"flowgate-dpdk-log".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was opened above and nobody else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let own = file.try_clone()?.into_raw_fd();
        // SAFETY: an open descriptor that is the stream's from here on.
        let stream = unsafe { libc::fdopen(own, c"w".as_ptr()) };
        if stream.is_null() { Err(io::Error::last_os_error()) } else { Ok(Log { stream, file }) }
    }
}

/// Held while DPDK's log goes into the file; dropped, the log goes to standard error again. One at a
/// time: a second waits.
pub(super) struct Capture {
    log: MutexGuard<'static, Option<Log>>,
    /// Standard output and error as they were, if they are caught too.
    streams: Vec<(RawFd, OwnedFd)>,
}

impl Capture {
    /// Catches DPDK's log from here on.
    pub fn log() -> io::Result<Capture> {
        let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        if log.is_none() {
            *log = Some(Log::new()?);
        }
        let mut capture = Capture { log, streams: Vec::new() };
        if let Some(log) = capture.log.as_mut() {
            log.file.set_len(0)?;
            log.file.rewind()?;
            // SAFETY: the stream is never closed.
            unsafe { dpdk_sys::rte_openlog_stream(log.stream.cast()) };
        }
        Ok(capture)
    }

    /// Catches also what is written to standard output and error, by anyone in this process: EAL
    /// prints its usage, and its last words, past its own log.
    pub fn everything() -> io::Result<Capture> {
        let mut capture = Capture::log()?;
        flush();
        if let Some(log) = capture.log.as_ref() {
            for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
                // SAFETY: standard streams are open for as long as the process runs.
                let saved = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
                // SAFETY: both descriptors are open.
                if unsafe { libc::dup2(log.file.as_raw_fd(), fd) } < 0 {
                    return Err(io::Error::last_os_error());
                }
                capture.streams.push((fd, saved));
            }
        }
        Ok(capture)
    }

    /// Ends the capture and returns what was said, as one line.
    pub fn finish(mut self) -> io::Result<String> {
        flush();
        let mut said = Vec::new();
        if let Some(log) = self.log.as_mut() {
            // All descriptors share one offset: reading to the end leaves it there.
            log.file.rewind()?;
            log.file.read_to_end(&mut said)?;
        }
        let said = String::from_utf8_lossy(&said);
        let mut lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.dedup();
        Ok(lines.join("; "))
    }
}

/// Writes out what Rust and C have buffered for the standard streams.
fn flush() {
    // A closed standard output is not this module's concern.
    drop(io::stdout().flush());
    // SAFETY: null means every stream that C has open.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Has DPDK's log go to standard error. Its default goes to syslog too, for which a socket and files are opened at the first
/// line: a thread that is confined by then would not live through it.
pub(super) fn log_to_standard_error() {
    // SAFETY: C's standard error is never closed.
    unsafe { dpdk_sys::rte_openlog_stream(STDERR.cast()) };
}

impl Drop for Capture {
    fn drop(&mut self) {
        flush();
        for (fd, saved) in &self.streams {
            // SAFETY: both descriptors are open.
            unsafe { libc::dup2(saved.as_raw_fd(), *fd) };
        }
        log_to_standard_error();
    }
}
