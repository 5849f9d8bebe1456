//! Who is at the other end of a Unix socket, as far as `std` and `nix` do not ask the kernel.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Groups asked for at first; most users are in fewer.
const FEW: usize = 32;

/// The supplementary groups that the peer of a connected Unix stream socket had when it connected
/// (`SO_PEERGROUPS`), whatever it or its user's entry in a directory has become since.
///
/// # Errors
/// Those of `getsockopt`: no socket, or none that is connected.
pub fn supplementary_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; FEW];
    loop {
        // No process is in more than 65,536 groups.
        let room = groups.len() * size_of::<u32>();
        let mut bytes = libc::socklen_t::try_from(room).map_err(io::Error::other)?;
        // SAFETY: `groups` has room for `bytes` bytes, which is what the kernel is told; it writes no more,
        // and any bits are a `u32`. Both pointers live for as long as the call.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let told = bytes as usize / size_of::<u32>();
        if outcome == 0 {
            groups.truncate(told);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            // The kernel has said how many there are.
            error if error.raw_os_error() == Some(libc::ERANGE) && told > groups.len() => {
                groups.resize(told, 0);
            }
            error => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn of_our_own_process_the_kernel_says_what_getgroups_says() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut told = supplementary_groups(&ours).unwrap();
        let mut expected: Vec<u32> =
            nix::unistd::getgroups().unwrap().into_iter().map(nix::unistd::Gid::as_raw).collect();
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(supplementary_groups(&file).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
