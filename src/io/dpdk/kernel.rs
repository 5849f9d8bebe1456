//! The kernel's interface below a port that it shares (af_packet, af_xdp, tap, mlx5): asked by its
//! index, in the network namespace of this process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What the kernel says of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelInterface {
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// Has a carrier (and is up).
    pub carrier: bool,
    pub mtu: u32,
}

impl KernelInterface {
    /// The interface below a port, if it has one (its index is not 0) and this namespace knows it.
    pub fn below(index: u32) -> Option<KernelInterface> {
        if index == 0 { None } else { KernelInterface::by_index(index).ok() }
    }

    fn by_index(index: u32) -> io::Result<KernelInterface> {
        // SAFETY: no pointers; a negative result is handled.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: opened above, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };

        // SAFETY: a C struct of integers and arrays, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = i32::try_from(index).map_err(io::Error::other)?;
        ask(&socket, libc::SIOCGIFNAME, &mut request)?;
        let name: String = request
            .ifr_name
            .iter()
            .take_while(|&&byte| byte != 0)
            .map(|&byte| char::from(byte.cast_unsigned()))
            .collect();

        ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS fills this member of the union.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        ask(&socket, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU fills this member of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(KernelInterface {
            name,
            up: flags & libc::IFF_UP != 0,
            carrier: flags & libc::IFF_RUNNING != 0,
            mtu: u32::try_from(mtu).unwrap_or(0),
        })
    }
}

fn ask(socket: &OwnedFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: an interface request, which takes a pointer to an `ifreq` and fills it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), what, std::ptr::from_mut(request)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_known_by_its_index() {
        // SAFETY: a C string.
        let index = unsafe { libc::if_nametoindex(c"lo".as_ptr()) };
        let interface = KernelInterface::by_index(index).expect("every namespace has a loopback interface");
        assert_eq!(interface.name, "lo");
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("sysfs");
        assert_eq!(interface.mtu.to_string(), mtu.trim());
        let flags = std::fs::read_to_string("/sys/class/net/lo/flags").expect("sysfs");
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).expect("hexadecimal");
        assert_eq!(interface.up, flags & 1 == 1);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let error = KernelInterface::by_index(0x7fff_0000).expect_err("no machine has that many");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
