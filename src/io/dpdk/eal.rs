//! DPDK's environment (EAL): started once in a process, with arguments that
//! [`EalConfig`](crate::io::eal_config::EalConfig) composes.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, NulError, OsStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::capture::{Capture, log_to_standard_error};

/// Whether EAL was ever started in this process. DPDK cannot start twice, not even after a failure.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Why EAL did not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// There is one EAL a process.
    #[error("DPDK was already started in this process, and can be only once: restart the process")]
    AlreadyStarted,
    /// An argument has a NUL inside.
    #[error("an EAL argument has a NUL byte in it: {0}")]
    Argument(#[from] NulError),
    /// EAL does not know an option, or its value is none.
    #[error("DPDK does not understand its arguments: correct those given to EAL ({said})")]
    Options {
        /// DPDK's own words.
        said: String,
    },
    /// The memory asked for is not there.
    #[error(
        "DPDK found no memory: reserve hugepages (`echo 512 > /proc/sys/vm/nr_hugepages`), ask for less (memory_mb), or \
         set hugepages to \"never\" ({said})"
    )]
    Memory {
        /// DPDK's own words.
        said: String,
    },
    /// Something needs a right that the process does not have.
    #[error(
        "DPDK may not do what it must: run as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_IPC_LOCK ({said})"
    )]
    Permission {
        /// DPDK's own words.
        said: String,
    },
    /// A device that was named could not be opened.
    #[error(
        "DPDK could not open the device: check its name, its arguments and that the interface exists ({said})"
    )]
    Device {
        /// DPDK's own words.
        said: String,
    },
    /// Anything else.
    #[error("DPDK did not start: {errno} ({said})")]
    Init {
        /// DPDK's error number.
        errno: io::Error,
        /// DPDK's own words.
        said: String,
    },
    /// Its log could not be caught.
    #[error("no memory file for DPDK's log: {0}")]
    Capture(#[source] io::Error),
}

/// How long DPDK's own thread may take to come to an alarm.
const ALARM_PATIENCE: Duration = Duration::from_secs(5);

type Alarm = Box<dyn FnOnce() + Send>;

/// Runs an [`Alarm`]; DPDK calls it once for each that is set.
extern "C" fn ring_alarm(argument: *mut c_void) {
    // SAFETY: made by `into_raw` in `on_its_own_thread`, and given to this call alone.
    let task = unsafe { Box::from_raw(argument.cast::<Alarm>()) };
    task();
}

/// A hold on the running EAL. The last one dropped shuts it down.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Running>);

#[derive(Debug)]
struct Running {
    /// The numbers of the ports that are open, so that none is opened twice.
    open_ports: Mutex<BTreeSet<u16>>,
    /// What EAL said while it started: why a device is missing.
    said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: pools, ports and queues each hold an `Eal`, so none is left, and neither is a
        // packet: a pool with packets out keeps its hold for good.
        unsafe { dpdk_sys::rte_eal_cleanup() };
    }
}

impl Eal {
    /// Starts EAL with these arguments (without a program name). Takes some 50 ms, and what its devices take; 100 ms more with
    /// real hardware on a CPU that does not tell the rate of its counter.
    ///
    /// What DPDK (and anyone else) prints meanwhile is caught and comes back in the error or in
    /// [`Eal::start_log`]; later warnings go to standard error. An operator who gives `--log-level`
    /// sees everything at once. The calling
    /// thread becomes DPDK's main thread; its CPU affinity is the same afterwards as before.
    ///
    /// # Errors
    /// When DPDK refuses. It cannot be tried again in this process.
    pub fn start(args: &[String]) -> Result<Eal, EalError> {
        let no_hardware = args.iter().any(|arg| arg == "--no-pci");
        let asked_for_log = args.iter().any(|arg| arg.starts_with("--log-level"));
        let quiet = (!asked_for_log).then_some("--log-level=warning");
        let args = std::iter::once("flowgated")
            .chain(quiet)
            .chain(args.iter().map(String::as_str))
            .map(CString::new)
            .collect::<Result<Vec<CString>, NulError>>()?;

        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyStarted);
        }
        let capture =
            if asked_for_log { None } else { Some(Capture::everything().map_err(EalError::Capture)?) };
        // EAL pins the calling thread to the cores of its main lcore.
        let affinity = sched_getaffinity(Pid::from_raw(0));
        let result = init(args, no_hardware);
        let said = capture.map_or_else(|| Ok(String::new()), Capture::finish).map_err(EalError::Capture)?;
        log_to_standard_error();
        if let Ok(affinity) = affinity
            && let Err(error) = sched_setaffinity(Pid::from_raw(0), &affinity)
        {
            tracing::warn!(name: "affinity_not_put_back", %error, "the CPU affinity of DPDK's main thread could not be put back");
        }
        remove_empty_runtime_folder();
        match result {
            Ok(()) => Ok(Eal(Arc::new(Running { open_ports: Mutex::default(), said }))),
            Err(errno) => Err(EalError::explain(errno, said)),
        }
    }

    /// What EAL warned of while it started; empty if it went to standard error instead.
    pub fn start_log(&self) -> &str {
        &self.0.said
    }

    /// DPDK's version, such as `DPDK 22.11.11`.
    pub fn version() -> String {
        // SAFETY: a C string that DPDK keeps for good.
        let version = unsafe { CStr::from_ptr(dpdk_sys::rte_version()) };
        version.to_string_lossy().into_owned()
    }

    /// Whether DPDK's sleeps can be shortened; false where the linker has left out what does it.
    pub fn sleeps_are_ours() -> bool {
        // SAFETY: looks a symbol up.
        unsafe { dpdk_sys::shim_sleeps_are_ours() }
    }

    /// Whether packets lie in hugepages.
    pub fn has_hugepages(&self) -> bool {
        // SAFETY: EAL runs while `self` lives.
        unsafe { dpdk_sys::rte_eal_has_hugepages() != 0 }
    }

    /// Runs `task` on the thread that DPDK started for interrupts and alarms, and waits until that is done.
    ///
    /// # Errors
    /// When DPDK sets no alarm, or the thread does not come to it within [`ALARM_PATIENCE`].
    pub fn on_its_own_thread<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let task: Alarm = Box::new(move || {
            // Whoever waited has given up, if there is nobody.
            done.send(task()).ok();
        });
        // A pointer to a trait object has two words; what DPDK hands on has one.
        let argument = Box::into_raw(Box::new(task));
        // SAFETY: EAL runs while `self` lives; `ring_alarm` takes what `argument` is, once.
        let set = unsafe { dpdk_sys::rte_eal_alarm_set(1, Some(ring_alarm), argument.cast()) };
        if set != 0 {
            // SAFETY: made by `into_raw` above; as the alarm is not set, nobody else has it.
            drop(unsafe { Box::from_raw(argument) });
            return Err(io::Error::from_raw_os_error(-set));
        }
        result.recv_timeout(ALARM_PATIENCE).map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// Marks a port as open; `false` if it is already.
    pub(super) fn claim_port(&self, number: u16) -> bool {
        self.0.open_ports.lock().unwrap_or_else(PoisonError::into_inner).insert(number)
    }

    /// The port is closed.
    pub(super) fn release_port(&self, number: u16) {
        self.0.open_ports.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

fn init(args: Vec<CString>, no_hardware: bool) -> Result<(), io::Error> {
    // EAL reorders the array and keeps pointers into the strings: both stay for good.
    let mut pointers: Vec<*mut c_char> = args.into_iter().map(CString::into_raw).collect();
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    let count = c_int::try_from(pointers.len() - 1).unwrap_or(c_int::MAX);
    // SAFETY: a null-terminated array of C strings that are never freed; the first call in this
    // process, by `STARTED`. The others set a variable of this thread.
    let result = unsafe {
        dpdk_sys::shim_measure_short(no_hardware);
        let result = dpdk_sys::rte_eal_init(count, pointers.as_mut_ptr());
        dpdk_sys::shim_measure_short(false);
        result
    };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

/// EAL makes a folder for this process's files also when it is told to make no files, and never
/// removes it. A folder that does hold files stays.
fn remove_empty_runtime_folder() {
    // SAFETY: a C string that EAL keeps for good; empty if EAL did not get that far.
    let folder = unsafe { CStr::from_ptr(dpdk_sys::rte_eal_get_runtime_dir()) };
    let folder = Path::new(OsStr::from_bytes(folder.to_bytes()));
    if let Err(error) = fs::remove_dir(folder) {
        tracing::debug!(name: "dpdk_folder_stays", folder = %folder.display(), %error, "DPDK's folder stays");
    }
}

/// The calling thread's `rte_errno`.
pub(super) fn last_error() -> io::Error {
    // SAFETY: reads a thread-local variable.
    io::Error::from_raw_os_error(unsafe { dpdk_sys::shim_errno() })
}

impl EalError {
    /// The error that fits what DPDK said: its number alone tells little.
    fn explain(errno: io::Error, said: String) -> EalError {
        // After an option that it does not know, EAL prints all those it does.
        if let Some((before, _usage)) = said.split_once("; Usage:") {
            return EalError::Options { said: before.to_owned() };
        }
        let mentions = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if mentions(&["Cannot get hugepage information", "Not enough memory available", "Cannot init memory"])
        {
            EalError::Memory { said }
        } else if mentions(&["Operation not permitted", "Permission denied"])
            || errno.kind() == io::ErrorKind::PermissionDenied
        {
            EalError::Permission { said }
        } else if mentions(&["device"]) {
            EalError::Device { said }
        } else {
            EalError::Init { errno, said }
        }
    }
}

/// A thread that DPDK knows: without it, taking packets from a pool and giving them back costs
/// twice as much. Made on the thread it is for, after the thread was pinned (its NUMA node is read
/// then), and dropped there. The packets in its cache stay there for the next thread that registers.
#[derive(Debug)]
pub struct WorkerThread {
    _eal: Eal,
    /// The registration is the thread's own: not `Send`.
    _here: PhantomData<*const ()>,
}

impl WorkerThread {
    /// Makes the calling thread known.
    ///
    /// # Errors
    /// When DPDK has no room for one more (128 by default), or knows the thread already.
    pub fn register(eal: &Eal) -> io::Result<WorkerThread> {
        // SAFETY: EAL runs while `eal` lives.
        if unsafe { dpdk_sys::rte_thread_register() } != 0 {
            return Err(last_error());
        }
        Ok(WorkerThread { _eal: eal.clone(), _here: PhantomData })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        // SAFETY: on the thread that was registered, as this type cannot leave it.
        unsafe { dpdk_sys::rte_thread_unregister() };
    }
}
