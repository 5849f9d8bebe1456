//! What the kernel dropped at `net_af_packet`'s sockets because their rings were full. The driver does not ask for it, so
//! that frames which nobody took in time, as when the process was stopped, would be counted nowhere.
//!
//! The sockets are the driver's: they are found among this process's descriptors by the interface that they are bound to.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct tpacket_stats` of linux/if_packet.h.
#[repr(C)]
#[derive(Default)]
struct Stats {
    packets: u32,
    drops: u32,
}

/// The sockets of one port.
#[derive(Debug, Default)]
pub(super) struct PacketSockets {
    fds: Vec<RawFd>,
    /// The kernel begins at 0 whenever it is asked.
    dropped: AtomicU64,
}

impl PacketSockets {
    /// Those that are bound to the interface of this index; none if there are none.
    pub fn of(index: u32) -> PacketSockets {
        let bound = |fd: &RawFd| index != 0 && bound_to(*fd) == i32::try_from(index).ok();
        PacketSockets { fds: descriptors().filter(bound).collect(), dropped: AtomicU64::new(0) }
    }

    /// Frames that found the rings full so far. The port whose sockets they are must be open.
    pub fn dropped(&self) -> u64 {
        let now: u64 = self.fds.iter().map(|fd| u64::from(dropped_since(*fd))).sum();
        self.dropped.fetch_add(now, Ordering::Relaxed) + now
    }
}

/// This process's descriptors.
fn descriptors() -> impl Iterator<Item = RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// This process's packet sockets, whatever they are bound to.
pub(super) fn all() -> Vec<RawFd> {
    descriptors().filter(|fd| bound_to(*fd).is_some()).collect()
}

/// The index of the interface that a packet socket is bound to; none for any other descriptor.
fn bound_to(fd: RawFd) -> Option<i32> {
    // SAFETY: a C struct of integers, for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).ok()?;
    // SAFETY: the kernel writes no more than `length` bytes; a descriptor that is no socket, or closed meanwhile, is an error.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut length) };
    (result == 0 && i32::from(address.sll_family) == libc::AF_PACKET).then_some(address.sll_ifindex)
}

/// What a socket dropped since it was last asked.
fn dropped_since(fd: RawFd) -> u32 {
    let mut stats = Stats::default();
    let Ok(mut length) = libc::socklen_t::try_from(size_of::<Stats>()) else { return 0 };
    // SAFETY: the kernel writes no more than `length` bytes, which `stats` has.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    if result == 0 { stats.drops } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn a_packet_socket_is_found_by_its_interface_and_others_are_not() {
        // SAFETY: no pointers; a negative result is handled.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "as root");
        // SAFETY: opened above, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a C string.
        let index = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        assert_eq!(bound_to(socket.as_raw_fd()), Some(0));
        // SAFETY: as above.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
        address.sll_ifindex = i32::try_from(index).unwrap();
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
        // SAFETY: `length` bytes are read.
        assert_eq!(unsafe { libc::bind(fd, (&raw const address).cast(), length) }, 0);
        let found = PacketSockets::of(index);
        assert!(found.fds.contains(&fd), "{found:?}");
        assert_eq!(found.dropped(), 0);
        assert!(PacketSockets::of(0).fds.is_empty());
    }
}
