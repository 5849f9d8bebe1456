//! A tap: a network device of the kernel's whose other end is ours. What the kernel sends by it is read
//! here, what is written here arrives at the kernel. The host interface of a port that the kernel does not
//! see (`control::host`); one for each interface, so that the kernel needs no VLANs.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The host's side of an interface: frames with an Ethernet header, without VLAN tags. Nothing waits.
pub trait HostLink: Sized {
    /// Gives the host a frame.
    ///
    /// # Errors
    /// When the host does not take it: its side is down, or its queue is full. The frame is lost.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Takes a frame of the host's into `room` and returns its length; `None` if there is none. A frame
    /// longer than the room is cut.
    ///
    /// # Errors
    /// When the device is gone.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>>;

    /// Waits until one of these links has a frame of the host's, at most so long.
    fn wait(links: &[Self], patience: Duration);
}

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The device that makes them is not there, or we may not open it.
    #[error("the tap {name} cannot be made: /dev/net/tun: {source}")]
    NoDevice {
        /// Its name.
        name: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel refuses.
    #[error("the tap {name} cannot be made: {source}{}", hint(source))]
    Refused {
        /// Its name.
        name: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EINVAL) => "; there is a device of that name that is no tap",
        Some(libc::EBUSY) => "; another program has it",
        Some(libc::EPERM) => "; CAP_NET_ADMIN is missing",
        _ => "",
    }
}

/// An open tap. It is gone when this is dropped, unless it was there before and made to stay.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Makes the tap `name` (at most 15 bytes), or opens one that is there already. It is down at first.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn open(name: &str) -> Result<Tap, TapError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|source| TapError::NoDevice { name: name.to_owned(), source })?;
        // SAFETY: a C struct of integers and arrays, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero.
        let room = request.ifr_name.len() - 1;
        for (to, byte) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = byte.cast_signed();
        }
        // Both flags are of the low 16 bits.
        #[expect(clippy::cast_possible_truncation, reason = "both flags are of the low 16 bits")]
        let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        request.ifr_ifru.ifru_flags = flags;
        // SAFETY: TUNSETIFF takes a pointer to an `ifreq`, which outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
            return Err(TapError::Refused { name: name.to_owned(), source: io::Error::last_os_error() });
        }
        Ok(Tap { file, name: name.to_owned() })
    }

    /// The kernel's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl HostLink for Tap {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // A tap takes a frame whole or not at all.
        self.file.write(frame).map(drop)
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match self.file.read(room) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait(links: &[Tap], patience: Duration) {
        let mut fds: Vec<PollFd<'_>> =
            links.iter().map(|tap| PollFd::new(tap.file.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        // A signal may end it early: the caller looks for itself. A tap that was deleted has an error to tell
        // for ever, and waiting for it is no pause.
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        let told = poll(&mut fds, timeout).is_ok();
        let is_gone = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| events.intersects(gone));
        if !told || fds.iter().any(is_gone) {
            std::thread::sleep(patience);
        }
    }
}
