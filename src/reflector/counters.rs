//! What a reflector counted. The thread of packets adds, the control socket reads.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) received: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) reflected: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) send_failed: AtomicU64,
    pub(super) health_checks: AtomicU64,
    /// By name of the fault or deviation. Locked only when there is one.
    remarks: Mutex<BTreeMap<&'static str, u64>>,
}

/// The counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Packets that came to UDP port 6081.
    pub received: u64,
    /// Their bytes, outer IPv4 header included.
    pub received_bytes: u64,
    /// Packets sent back.
    pub reflected: u64,
    /// Packets answered with a reset.
    pub resets: u64,
    /// Packets swallowed: told to, malformed, or out of hops.
    pub dropped: u64,
    /// Answers that the kernel did not take.
    pub send_failed: u64,
    /// Health check connections accepted.
    pub health_checks: u64,
    /// What was not as it should be, by name.
    pub remarks: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Counts a remark and returns how often it was made, this time included.
    pub(super) fn remark(&self, name: &'static str) -> u64 {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        let count = remarks.entry(name).or_default();
        *count += 1;
        *count
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            received: self.received.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            reflected: self.reflected.load(Relaxed),
            resets: self.resets.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            send_failed: self.send_failed.load(Relaxed),
            health_checks: self.health_checks.load(Relaxed),
            remarks: self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
