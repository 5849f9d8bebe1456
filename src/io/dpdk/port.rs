//! A port: a device configured with one queue pair a worker, and started.

use std::cell::Cell;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::capture::Capture;
use super::device::Device;
use super::eal::Eal;
use super::error::PortError;
use super::kernel::KernelInterface;
use super::mempool::Mempool;
use super::packet_sockets::PacketSockets;
use super::queue::Queue;
use super::rss::{self, Rss};
use crate::id::QueueId;

/// What an operator sets of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The device as EAL was told of it, with or without its arguments: `0000:3b:00.0`,
    /// `net_af_packet0,iface=eth1`.
    pub device: String,
    /// The longest IP packet, in bytes; `None`: as the device has it.
    pub mtu: Option<u16>,
    /// Takes frames for any address: what a `wire` endpoint needs.
    pub promiscuous: bool,
    /// Receive descriptors a queue; the device may round.
    pub rx_ring: u16,
    /// Transmit descriptors a queue; the device may round.
    pub tx_ring: u16,
}

/// What a device is to do instead of us. Each costs something on some NICs, as their fastest paths have none,
/// so that none is asked for without need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// It computes the UDP checksums that
    /// [`PacketBuf::offload_udp_checksum`](crate::io::PacketBuf::offload_udp_checksum) leaves to it.
    pub udp_checksum: bool,
}

/// A link's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether frames pass.
    pub up: bool,
    /// Megabits a second, where the device knows.
    pub speed_mbps: Option<u32>,
    /// Both ways at once.
    pub full_duplex: bool,
}

/// What a device can, whatever is asked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of its firmware, in its driver's words; `None` if it does not tell.
    pub firmware: Option<String>,
    /// Queue pairs that it has at most.
    pub max_queues: u16,
    /// Bytes of the key that it hashes with; 0 if it takes none.
    pub hash_key_length: u8,
    /// Entries of its indirection table; 0 if it has none.
    pub table_size: u16,
    /// It can hash over addresses.
    pub hashes_addresses: bool,
    /// It can hash over the ports of TCP.
    pub hashes_tcp: bool,
    /// It can hash over the ports of UDP.
    pub hashes_udp: bool,
}

/// What the device counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that found the receive queue full: the workers are too slow.
    pub rx_missed: u64,
    /// Packets that came in broken.
    pub rx_errors: u64,
    /// Packets that the device failed to send.
    pub tx_errors: u64,
    /// Packets that found the pool empty.
    pub rx_no_buffer: u64,
}

/// A started port. Dropping it and its queues stops and closes the device.
///
/// For one thread (not `Sync`): DPDK's calls about a port must not run at once. Its queues go to the
/// workers.
#[derive(Debug)]
pub struct Port {
    device: Arc<Device>,
    driver: String,
    mac: [u8; 6],
    mtu: u16,
    rings: (u16, u16),
    rss: Option<Rss>,
    capabilities: Capabilities,
    offloads: Offloads,
    kernel_index: u32,
    sockets: PacketSockets,
    _one_thread: PhantomData<Cell<()>>,
}

impl Port {
    /// Configures and starts a device with as many queue pairs as there are pools; queue `n` receives
    /// into pool `n` (one pool may be named several times).
    ///
    /// # Errors
    /// See [`PortError`]. The device is closed then, and cannot be opened again in this process.
    pub fn open(eal: &Eal, config: &PortConfig, pools: &[Mempool]) -> Result<Port, PortError> {
        Port::open_with(eal, config, pools, Offloads::default())
    }

    /// Like [`Port::open`], with those of these offloads that the device has: see [`Port::offloads`].
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn open_with(
        eal: &Eal,
        config: &PortConfig,
        pools: &[Mempool],
        offloads: Offloads,
    ) -> Result<Port, PortError> {
        // What the driver says belongs into the error; if it cannot be caught, it goes to standard error.
        let capture = Capture::log().ok();
        let result = Port::configure_and_start(eal, config, pools, offloads);
        let said = capture.and_then(|capture| capture.finish().ok()).unwrap_or_default();
        match result {
            Ok(port) => {
                if !said.is_empty() {
                    tracing::debug!(name: "dpdk_said", device = config.device, said, "DPDK said something of a device");
                }
                Ok(port)
            }
            Err(error) => Err(error.with_words(said)),
        }
    }

    fn configure_and_start(
        eal: &Eal,
        config: &PortConfig,
        pools: &[Mempool],
        offloads: Offloads,
    ) -> Result<Port, PortError> {
        let device = Device::claim(eal, &config.device, pools)?;
        let info = device.info()?;
        let (rss, offloads) = device.configure(&info, offloads)?;
        let mtu = device.set_mtu(&info, config.mtu)?;
        let rings = device.set_up_queues(config.rx_ring, config.tx_ring)?;
        device.start(config.promiscuous)?;

        if let Some(interface) = KernelInterface::below(info.if_index)
            && !interface.up
        {
            return Err(PortError::InterfaceDown { device: device.name.clone(), interface: interface.name });
        }
        let mut mac = dpdk_sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: started; `mac` is filled.
        device.check("read the address of", unsafe {
            dpdk_sys::rte_eth_macaddr_get(device.number, &raw mut mac)
        })?;
        let rss = rss.map(|rss| Rss { table: rss::query_table(device.number, info.reta_size), ..rss });
        // SAFETY: a C string that the driver keeps, or null.
        let driver = unsafe { info.driver_name.as_ref().map(|name| CStr::from_ptr(name)) };
        Ok(Port {
            driver: driver.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            mac: mac.addr_bytes,
            mtu,
            rings,
            rss,
            capabilities: device.capabilities(&info),
            offloads,
            kernel_index: info.if_index,
            sockets: PacketSockets::of(info.if_index),
            device: Arc::new(device),
            _one_thread: PhantomData,
        })
    }

    /// Queue pair `queue`, for one worker; `None` if there is no such queue, or a worker has it.
    pub fn queue(&self, queue: QueueId) -> Option<Queue> {
        self.device.claim_queue(queue).then(|| Queue::new(Arc::clone(&self.device), queue))
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device.name
    }

    /// The driver's name, such as `net_af_packet` or `net_ice`.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Queue pairs.
    pub fn queues(&self) -> usize {
        self.device.queues()
    }

    /// The device's link-layer address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The longest IP packet, in bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Descriptors a queue, receive and transmit, as the device took them.
    pub fn rings(&self) -> (u16, u16) {
        self.rings
    }

    /// How the device spreads packets over the queues; `None` if there is one queue, or if the device
    /// cannot: then packets come to any queue.
    pub fn rss(&self) -> Option<&Rss> {
        self.rss.as_ref()
    }

    /// What the device can, as it said when it was opened.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What it does instead of us.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The NUMA node, if the device has one.
    pub fn socket(&self) -> Option<u16> {
        // SAFETY: the port is open.
        u16::try_from(unsafe { dpdk_sys::rte_eth_dev_socket_id(self.device.number) }).ok()
    }

    /// The link's state now: the device's, and that of the kernel's interface below where there is one.
    ///
    /// # Errors
    /// When the device does not tell.
    pub fn link(&self) -> Result<Link, PortError> {
        let mut link = dpdk_sys::shim_link { speed_mbps: 0, up: false, full_duplex: false };
        // SAFETY: the port is open; `link` is filled.
        let result = unsafe { dpdk_sys::shim_link_get_nowait(self.device.number, &raw mut link) };
        self.device.check("read the link of", result)?;
        // One that is gone has none.
        let carrier = self.kernel_index == 0
            || KernelInterface::below(self.kernel_index).is_some_and(|interface| interface.carrier);
        let known = link.speed_mbps != 0 && link.speed_mbps != dpdk_sys::SHIM_SPEED_UNKNOWN;
        Ok(Link {
            up: link.up && carrier,
            speed_mbps: known.then_some(link.speed_mbps),
            full_duplex: link.full_duplex,
        })
    }

    /// Waits until the link is up: a NIC takes some seconds after its start. Blocks.
    ///
    /// # Errors
    /// [`PortError::LinkDown`] when it is not within `patience`.
    pub fn wait_until_up(&self, patience: Duration) -> Result<Link, PortError> {
        let deadline = Instant::now() + patience;
        loop {
            let link = self.link()?;
            if link.up {
                return Ok(link);
            }
            if Instant::now() >= deadline {
                return Err(PortError::LinkDown { device: self.device.name.clone(), waited: patience });
            }
            std::thread::sleep(Duration::from_millis(50).min(patience));
        }
    }

    /// What the device counted since it was started.
    ///
    /// # Errors
    /// When the device does not count.
    pub fn stats(&self) -> Result<PortStats, PortError> {
        // SAFETY: a C struct of integers, for which all zeros is a value.
        let mut stats: dpdk_sys::rte_eth_stats = unsafe { zeroed() };
        // SAFETY: the port is open; `stats` is filled.
        let result = unsafe { dpdk_sys::rte_eth_stats_get(self.device.number, &raw mut stats) };
        self.device.check("read the counters of", result)?;
        Ok(PortStats {
            rx_packets: stats.ipackets,
            tx_packets: stats.opackets,
            rx_bytes: stats.ibytes,
            tx_bytes: stats.obytes,
            rx_missed: stats.imissed + self.sockets.dropped(),
            rx_errors: stats.ierrors,
            tx_errors: stats.oerrors,
            rx_no_buffer: stats.rx_nombuf,
        })
    }
}
