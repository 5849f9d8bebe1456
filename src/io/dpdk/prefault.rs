//! Packets' memory, given by the kernel while DPDK does something else.
//!
//! Without huge pages DPDK takes memory from the kernel page by page, as it first writes to each: the pools of a small node take
//! 40 ms of a start for it, in which nothing is forwarded. DPDK's start is mostly waiting (for sockets, to measure its clock), so
//! that a thread beside it has the kernel give those pages before. What it does is of no effect but on time.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// DPDK's name for its memory where there are no huge pages, as the kernel shows it.
const NAME: &str = "/memfd:nohuge";

/// How often it is looked whether that is there.
const LOOKS: Duration = Duration::from_millis(1);

/// So much at once: what DPDK maps meanwhile waits for it, for less than a millisecond.
const CHUNK: usize = 1 << 20;

/// The work beside DPDK's start; dropped, it ends.
#[derive(Debug)]
pub struct Prefault {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Has the kernel give so many bytes from the end of DPDK's memory, which it deals out from there, once it is mapped.
    /// Made before [`Eal::start`](super::Eal::start) without huge pages, and kept until the pools are made.
    pub fn begin(bytes: usize) -> Prefault {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let work = move || {
            while !told.load(Ordering::Relaxed) {
                let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
                if let Some((from, to)) = find(&maps) {
                    return populate(from.max(to.saturating_sub(bytes)), to, &told);
                }
                std::thread::sleep(LOOKS);
            }
        };
        // Without it the start takes longer.
        let thread = std::thread::Builder::new().name("prefault".to_owned()).spawn(work).ok();
        Prefault { ends, thread }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Where DPDK's memory is.
fn find(maps: &str) -> Option<(usize, usize)> {
    let line = maps.lines().find(|line| line.contains(NAME))?;
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

/// From the end to the beginning; ends early if it is told to, or the kernel does not know of it (before Linux 5.14).
fn populate(from: usize, to: usize, ends: &AtomicBool) {
    let mut end = to;
    while end > from && !ends.load(Ordering::Relaxed) {
        let start = from.max(end.saturating_sub(CHUNK)) & !0xfff;
        let address = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: it changes no byte of any mapping, whatever is mapped there by now: pages that are to be given are given.
        let done = unsafe { libc::madvise(address, end - start, libc::MADV_POPULATE_WRITE) };
        if done != 0 {
            return;
        }
        end = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpdk_s_memory_is_found_by_its_name() {
        let maps = "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12 /usr/sbin/flowgated\n\
                    100161000-106761000 rw-s 00000000 00:01 3074 /memfd:nohuge (deleted)\n\
                    7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n";
        assert_eq!(find(maps), Some((0x1_0016_1000, 0x1_0676_1000)));
        assert_eq!(find("100161000-106761000 rw-s 00000000 00:01 3074 /memfd:other (deleted)\n"), None);
    }

    #[test]
    fn as_much_as_was_asked_for_is_given_from_the_end_on_and_nothing_is_changed() {
        const LENGTH: usize = 8 << 20;
        let file = nix::sys::memfd::memfd_create("nohuge", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        let file = std::fs::File::from(file);
        file.set_len(LENGTH as u64).unwrap();
        // SAFETY: a new mapping that nobody else has.
        let base = unsafe {
            use std::os::fd::AsRawFd as _;
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), LENGTH, protection, flags, file.as_raw_fd(), 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let given = || {
            use std::os::unix::fs::MetadataExt as _;
            usize::try_from(file.metadata().unwrap().blocks()).unwrap() * 512
        };
        assert_eq!(given(), 0);
        let work = Prefault::begin(3 << 20);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while given() < 3 << 20 {
            assert!(std::time::Instant::now() < deadline, "the kernel has given {} bytes", given());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(work);
        // Huge pages (shmem_enabled=always) are given as a whole.
        assert!((3 << 20..LENGTH).contains(&given()), "{} bytes were given", given());
        // SAFETY: the mapping above.
        let bytes = unsafe { std::slice::from_raw_parts(base.cast::<u8>(), LENGTH) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: nobody refers to it any more.
        unsafe { libc::munmap(base, LENGTH) };
    }
}
