//! What DPDK's own thread waits for before it takes memory out of the process.
//!
//! The driver `net_memif` has the rings of a peer mapped, and unmaps them when the peer goes: on DPDK's thread for
//! interrupts, while workers poll the port. A burst that begins after that finds that there is no peer; one that had begun
//! before would touch memory that is no more, and the process would end by SIGSEGV. So that thread waits, before it unmaps
//! anything, until each worker has left the burst that it was in. Workers do nothing for it: they count their rounds anyway.

use std::io;
use std::sync::OnceLock;

use super::eal::Eal;

type Wait = Box<dyn Fn() + Send + Sync>;

/// One for the process, as there is one EAL.
static WAIT: OnceLock<Wait> = OnceLock::new();

/// Called by that thread. A panic would unwind into C, and ends the process instead.
extern "C" fn wait() {
    if let Some(wait) = WAIT.get() {
        wait();
    }
}

impl Eal {
    /// Has DPDK's thread for interrupts call `wait` before it unmaps memory. Only the first of a process counts.
    ///
    /// # Errors
    /// When it cannot be told so; see [`Eal::on_its_own_thread`].
    pub fn wait_before_unmapping(&self, wait_for: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        WAIT.get_or_init(|| Box::new(wait_for));
        // SAFETY: sets a variable of the thread that it is called on to a function that is there for good.
        self.on_its_own_thread(|| unsafe { dpdk_sys::shim_wait_before_unmapping(Some(wait)) })
    }

    /// Whether drivers' unmapping comes by us; false where the linker has left out what does it.
    pub fn unmapping_is_ours() -> bool {
        // SAFETY: looks a symbol up.
        unsafe { dpdk_sys::shim_unmapping_is_ours() }
    }
}
