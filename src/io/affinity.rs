//! The place of a thread on the machine's CPUs: a worker has one for itself.

use std::io;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Why a thread is not where it should be.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// The process may not use the CPU, or there is none of that number.
    #[error("CPU {cpu} is not one that this process may use: it may use {}", list(allowed))]
    NotAllowed {
        /// The CPU asked for.
        cpu: u16,
        /// Those that there are.
        allowed: Vec<u16>,
    },
    /// The kernel refused.
    #[error("the CPU affinity could not be read or set: {0}")]
    System(#[from] Errno),
}

fn list(cpus: &[u16]) -> String {
    cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// The calling thread's.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The CPUs that the calling thread may run on, in order.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cpus() -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    let highest = u16::try_from(CpuSet::count()).unwrap_or(u16::MAX);
    Ok((0..highest).filter(|&cpu| set.is_set(usize::from(cpu)).unwrap_or(false)).collect())
}

/// Keeps the calling thread, and the threads that it starts from here on, on `cpu` alone.
///
/// # Errors
/// See [`AffinityError`].
pub fn pin_to(cpu: u16) -> Result<(), AffinityError> {
    confine_to(&[cpu])
}

/// Has the kernel wake the calling thread when it asked to be, and not some 50 µs later, together with others,
/// as it does to save power.
///
/// # Errors
/// When the kernel refuses.
pub fn wake_on_time() -> io::Result<()> {
    // SAFETY: sets a number of the calling thread; takes and leaves no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the calling thread, and the threads that it starts from here on, on these CPUs.
///
/// # Errors
/// See [`AffinityError`].
pub fn confine_to(cpus: &[u16]) -> Result<(), AffinityError> {
    confine(THIS_THREAD, cpus)
}

/// Keeps another thread of this process on these CPUs, of those that the calling one may run on.
///
/// # Errors
/// See [`AffinityError`].
pub fn confine(thread: Pid, cpus: &[u16]) -> Result<(), AffinityError> {
    let allowed = allowed_cpus().unwrap_or_default();
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if !allowed.contains(&cpu) || set.set(usize::from(cpu)).is_err() {
            return Err(AffinityError::NotAllowed { cpu, allowed });
        }
    }
    Ok(sched_setaffinity(thread, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_cpu_and_no_other_thread_is_moved() {
        let before = allowed_cpus().expect("affinity");
        let wanted = *before.last().expect("a CPU");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_to(wanted).expect("a CPU that we may use");
                assert_eq!(allowed_cpus().expect("affinity"), [wanted]);
                let running_on = nix::sched::sched_getcpu().expect("CPU");
                assert_eq!(running_on, usize::from(wanted));
            });
        });
        assert_eq!(allowed_cpus().expect("affinity"), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named_with_those_that_are() {
        for cpu in [1000, u16::MAX] {
            let error = pin_to(cpu).expect_err("no machine of ours has so many CPUs").to_string();
            assert!(
                error.starts_with(&format!("CPU {cpu} is not one that this process may use: it may use ")),
                "{error}"
            );
            assert!(error.ends_with(&list(&allowed_cpus().expect("affinity"))), "{error}");
        }
    }
}
