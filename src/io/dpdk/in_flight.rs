//! The end of a process that does not wait for its packet sockets.
//!
//! The kernel waits for three grace periods (RCU) of some 10 to 15 ms with each packet socket that it closes, one after the other. It
//! does so in the end of a process that was killed, too, and nobody can start another daemon until that has ended: with three
//! ports and two workers that was 200 ms in which nothing is forwarded.
//!
//! So each has a second holder that needs no time to end: a message that was sent over a pair of Unix sockets and is
//! never read, with the end that it waits at in it. As the process ends nobody has that end but the message itself, and
//! the kernel's collector of such rings closes what is in it. Where that is a thread of the kernel's (Linux 6.9, and
//! older ones that it was brought to) the sockets are closed there, beside the start of the next daemon. Where it works in the
//! process that ends, that takes its time as it would have.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};

use super::packet_sockets;

/// Descriptors that the kernel takes with one message: fewer than its `SCM_MAX_FD`, 253.
const IN_A_MESSAGE: usize = 128;

/// Holds the packet sockets that this process has. Dropped, it does no more.
#[derive(Debug)]
pub struct InFlight {
    _ends: (OwnedFd, OwnedFd),
}

impl InFlight {
    /// Those that there are now; `None` if there are none. To be called while it may still send descriptors.
    ///
    /// # Errors
    /// The kernel's, as when it has too many descriptors under way; then the end of the process waits for all.
    pub fn packet_sockets() -> io::Result<Option<InFlight>> {
        let sockets = packet_sockets::all();
        if sockets.is_empty() {
            return Ok(None);
        }
        InFlight::of(&sockets).map(Some)
    }

    fn of(sockets: &[RawFd]) -> io::Result<InFlight> {
        let (near, far) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)?;
        for some in sockets.chunks(IN_A_MESSAGE) {
            // The end that holds the message is in it: nobody else has that one in the end.
            let held: Vec<RawFd> = some.iter().copied().chain([far.as_raw_fd()]).collect();
            let rights = [ControlMessage::ScmRights(&held)];
            sendmsg::<()>(near.as_raw_fd(), &[IoSlice::new(b"held")], &rights, MsgFlags::MSG_DONTWAIT, None)?;
        }
        Ok(InFlight { _ends: (near, far) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    /// Whether the kernel has a packet socket of this inode.
    fn is_there(inode: u64) -> bool {
        let table = fs::read_to_string("/proc/net/packet").expect("packet sockets are listed");
        table.lines().any(|line| line.split_whitespace().next_back() == Some(&inode.to_string()))
    }

    #[test]
    fn a_packet_socket_outlives_its_descriptor_for_as_long_as_it_is_held_and_no_longer() {
        let socket =
            nix::sys::socket::socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
                .expect("as root");
        let inode = nix::sys::stat::fstat(&socket).expect("open").st_ino;
        assert!(packet_sockets::all().contains(&socket.as_raw_fd()));
        let held = InFlight::of(&[socket.as_raw_fd()]).expect("the kernel takes it");
        drop(socket);
        assert!(is_there(inode), "the message has it");
        drop(held);
        let begun = Instant::now();
        while is_there(inode) {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited for the kernel to collect it");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
