//! From where on something is wrong. `get-overview`, and with it `flowgate top`, `flowgate status` and the web page,
//! `flowgate audit`, `/readyz` and the alerts of docs/monitoring go by these; a test holds the alerts to them.

use std::time::Duration;

use crate::control::duration::milliseconds;
use crate::control::health::HealthState;
use crate::control::heartbeat::STUCK_AFTER;
use crate::datapath::counters::DropReason;

/// A worker that went no round for so long stands still.
pub const WORKER_STILL: Duration = STUCK_AFTER;

/// A target that has been sent packets and has returned none for so long is not slow but dumb. Less may only be that
/// it was looked at while a packet was with it.
pub const TARGET_SILENT: Duration = Duration::from_secs(1);

/// Whether a target that passes its checks returns nothing of what it is sent. One that `is_sent_to` no more may
/// be silent for ever, and nothing is wrong.
pub fn is_silent(state: HealthState, silent_for_ms: u64, is_sent_to: bool) -> bool {
    state == HealthState::Healthy && silent_for_ms >= milliseconds(TARGET_SILENT) && is_sent_to
}

/// A flow table this full, in percent, fills with the next peak; then flows are turned away.
pub const TABLE_FILLING_PERCENT: u64 = 85;

/// A worker that is busy for more of its time, in percent, has no room for a burst of traffic.
pub const WORKER_BUSY_PERCENT: u64 = 90;

/// Where so many of a group's targets are out that less are left, in percent, these carry more than twice their share.
pub const FEW_HEALTHY_PERCENT: u64 = 50;

/// A change that has waited for the disk for so long will wait longer: a disk that is only slow takes tenths of a second.
pub const STORE_WAITS: Duration = Duration::from_secs(5);

/// For so long it is told that a start lost the flow tables: by then connections that live have been heard.
pub const TABLES_LOST: Duration = Duration::from_secs(600);

/// More packets a second are lost than happens by itself.
pub const LOST_PER_SECOND: u64 = 1;

/// Drops that are a fault of this node or of its neighbours, not of the packet.
pub const FAULTS: [DropReason; 11] = [
    DropReason::TransmitFull,
    DropReason::HandoffFull,
    DropReason::HostFull,
    DropReason::NoBuffer,
    DropReason::NoHeadroom,
    DropReason::NeighbourUnknown,
    DropReason::LinkTableFull,
    DropReason::WaitFull,
    DropReason::FrameSegmented,
    DropReason::NoLoadBalancer,
    DropReason::PortUnused,
];
