//! Two ports in one process, crossed: what one sends the other receives, queue by queue. For tests,
//! benches and harnesses, which stand at one port as the NIC and the world behind it.

use std::ffi::CString;
use std::io;

use super::eal::{Eal, last_error};

/// Makes two crossed `net_ring` devices with `queues` (at most 16) queue pairs each and rings of
/// `size` (a power of two; one place stays empty) in each direction of each. Returns the names by
/// which [`Port::open`](super::Port::open) finds them.
///
/// A packet in a ring when the ports are closed stays there: the rings are kept for the rest of the
/// process.
///
/// # Errors
/// When there is no memory, or a device of that name is there.
pub fn crossed_ports(_eal: &Eal, name: &str, queues: u16, size: u32) -> io::Result<[String; 2]> {
    let names = [format!("{name}a"), format!("{name}b")];
    let ring = |from: &str, queue: u16| {
        let name = CString::new(format!("{from}_{queue}"))?;
        // One sends and one receives, as a port gives each of its queues to one worker: without the locked instructions
        // that many would take, as DPDK's own `net_ring` devices are.
        // SAFETY: a C string, which DPDK copies; EAL runs.
        let ring =
            unsafe { dpdk_sys::rte_ring_create(name.as_ptr(), size, -1, dpdk_sys::SHIM_RING_ONE_TO_ONE) };
        if ring.is_null() { Err(last_error()) } else { Ok(ring) }
    };
    let a_to_b = (0..queues).map(|queue| ring(&names[0], queue)).collect::<io::Result<Vec<_>>>()?;
    let b_to_a = (0..queues).map(|queue| ring(&names[1], queue)).collect::<io::Result<Vec<_>>>()?;
    let count = u32::from(queues);
    for (name, receive, send) in [(&names[0], &b_to_a, &a_to_b), (&names[1], &a_to_b, &b_to_a)] {
        let name = CString::new(name.as_str())?;
        let (receive, send) = (receive.as_ptr(), send.as_ptr());
        // SAFETY: `count` rings each, which are never freed; DPDK copies the arrays and the name.
        let port = unsafe { dpdk_sys::rte_eth_from_rings(name.as_ptr(), receive, count, send, count, 0) };
        if port < 0 {
            return Err(last_error());
        }
    }
    Ok(names.map(|name| format!("net_ring_{name}")))
}
