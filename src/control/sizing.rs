//! How much memory a node's packets and flow tables need, from its configuration alone: what the daemon takes at
//! its start and what `flowgate doctor` looks for before.

#![forbid(unsafe_code)]

use super::host::HOST_RING;
use super::node::{NodeConfig, Port};
use crate::datapath::fragments::HELD;
use crate::datapath::outbound::{HANDOFF_RING, SPILL};
use crate::datapath::waiting;
use crate::flow::{self, FilePages};
use crate::io::BURST;

/// Bytes before a frame in its buffer: room for the headers that are put in front.
pub const HEADROOM: u16 = 128;

/// Ethernet header, two VLAN tags and checksum.
const FRAME_OVERHEAD: u16 = 14 + 8 + 4;

/// Packets that a worker's thread keeps at hand.
pub const POOL_CACHE: u32 = 256;

/// Packets of the pool that the host's frames are in: the ring to worker 0 full, as many again on their
/// way out of a port, and the cache.
pub const HOST_PACKETS: u32 = 4095;
const _: () = assert!(HOST_PACKETS as usize >= 2 * HOST_RING + POOL_CACHE as usize);

/// What DPDK needs besides packets: its own tables, rings of virtual devices.
const EAL_MEMORY_MB: u32 = 64;

/// Whether any interface may need a tap.
#[must_use]
pub fn may_need_taps(config: &NodeConfig) -> bool {
    config.interfaces().iter().any(|interface| !interface.kept_by_kernel || !interface.vlans.is_empty())
}

/// Bytes of a buffer that takes the longest frame of any port.
#[must_use]
pub fn data_room(config: &NodeConfig) -> u16 {
    const LEAST: u16 = 2048;
    let of_port = |port: &Port| (port.mtu + FRAME_OVERHEAD).max(LEAST) + HEADROOM;
    config.ports.iter().map(of_port).max().unwrap_or(0)
}

/// Packets in each worker's pool: all its descriptors full both ways, a burst of each port in hand, what
/// that may be split into, fragments that wait for their first, what waits for neighbours, what it has given
/// to other workers and to the host, and the cache.
#[must_use]
pub fn pool_size(config: &NodeConfig) -> u32 {
    let descriptors: u32 =
        config.ports.iter().map(|port| u32::from(port.rx_descriptors) + u32::from(port.tx_descriptors)).sum();
    let other_workers = config.workers.cores.len().saturating_sub(1);
    let waiting = SPILL + HELD + waiting::PACKETS + other_workers * HANDOFF_RING + HOST_RING;
    let in_hand = 2 * BURST * config.ports.len() + waiting;
    let packets =
        descriptors.saturating_add(u32::try_from(in_hand).unwrap_or(u32::MAX)).saturating_add(2 * POOL_CACHE);
    // One less than a power of two is what DPDK's rings waste least with.
    packets.checked_next_power_of_two().unwrap_or(u32::MAX) - 1
}

/// Bytes of all packets' buffers.
#[must_use]
pub fn packet_bytes(config: &NodeConfig) -> usize {
    /// What a packet takes besides its data: its mbuf and the pool's own header.
    const PACKET_OVERHEAD: usize = 256;
    let of_host = if may_need_taps(config) { HOST_PACKETS as usize } else { 0 };
    let packets = config.workers.cores.len() * pool_size(config) as usize + of_host;
    packets.saturating_mul(usize::from(data_room(config)) + PACKET_OVERHEAD)
}

/// Memory for DPDK in MiB: what the configuration says, else what its packets need.
#[must_use]
pub fn packet_memory_mb(config: &NodeConfig) -> u32 {
    if let Some(given) = config.eal.memory_mb {
        return given;
    }
    u32::try_from(packet_bytes(config).div_ceil(1 << 20)).unwrap_or(u32::MAX).saturating_add(EAL_MEMORY_MB)
}

/// Memory of one worker's flow table in MiB, rounded up.
#[must_use]
pub fn table_memory_mb(config: &NodeConfig) -> u64 {
    // A capacity that no table has is refused with the configuration.
    let bytes = flow::file_bytes(config.workers.flow_capacity(), FilePages::Small).unwrap_or(0);
    (bytes as u64).div_ceil(1 << 20)
}
