//! What DPDK has to say while it starts, caught instead of spread over the terminal: from it comes
//! the sentence for the operator when the start fails.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{FromRawFd, OwnedFd};

/// DPDK's log, sent into a file in memory until this is dropped; then it goes to standard error
/// again, as DPDK has it by itself.
pub(super) struct Capture {
    stream: *mut libc::FILE,
    file: File,
}

impl Capture {
    /// Sends DPDK's log into memory from here on.
    pub fn start() -> io::Result<Capture> {
        // SAFETY: the name is a C string; a negative result is handled.
        let fd = unsafe { libc::memfd_create(c"flowgate-eal-log".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was opened above and nobody else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: `fd` is open. The stream gets a descriptor of its own, since `fclose` closes it.
        let stream = unsafe {
            let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
            if own < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::fdopen(own, c"w".as_ptr())
        };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the stream is open, and stays so until DPDK was told otherwise in `drop`.
        unsafe { dpdk_sys::rte_openlog_stream(stream.cast()) };
        Ok(Capture { stream, file })
    }

    /// What was said so far.
    pub fn text(&mut self) -> io::Result<String> {
        // SAFETY: the stream is open until `drop`.
        unsafe { libc::fflush(self.stream) };
        let mut said = Vec::new();
        // The two descriptors share one offset: read from the start, which leaves it at the end.
        self.file.rewind()?;
        self.file.read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: a null stream puts DPDK's default back; after it DPDK does not know ours any more
        // and it may be closed.
        unsafe {
            dpdk_sys::rte_openlog_stream(std::ptr::null_mut());
            libc::fclose(self.stream);
        }
    }
}
