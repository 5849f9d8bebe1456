//! A port: a device configured with one queue pair a worker, and started.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dpdk_sys::{RTE_ETH_MQ_RX_RSS, SHIM_MAX_PORTS, SHIM_PORT_NAME_LEN};

use super::capture::Capture;
use super::eal::Eal;
use super::error::PortError;
use super::kernel::KernelInterface;
use super::mempool::Mempool;
use super::queue::Queue;
use super::rss::{self, Rss};
use crate::id::QueueId;
use crate::io::eal_config::Device;

/// What comes before and after a frame's payload: Ethernet header, two VLAN tags, CRC.
const FRAME_OVERHEAD: usize = 14 + 2 * 4 + 4;

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
    started: Arc<Started>,
    driver: String,
    mac: [u8; 6],
    mtu: u16,
    rings: (u16, u16),
    rss: Option<Rss>,
    kernel_index: u32,
    _one_thread: PhantomData<Cell<()>>,
}

/// The device itself, held by the port and by each of its queues; the last of them stops it.
#[derive(Debug)]
pub(super) struct Started {
    device: String,
    number: u16,
    /// Which queues are with a worker.
    claimed: Vec<AtomicBool>,
    /// What the device receives into must stay as long as it runs.
    _pools: Vec<Mempool>,
    eal: Eal,
}

impl Started {
    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn release(&self, queue: QueueId) {
        if let Some(claimed) = self.claimed.get(queue.index()) {
            claimed.store(false, Ordering::Release);
        }
    }

    /// Turns a DPDK result into a `Result` with what was tried.
    fn check(&self, step: &'static str, result: c_int) -> Result<(), PortError> {
        if result >= 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(-result);
        let device = self.device.clone();
        Err(if source.kind() == io::ErrorKind::PermissionDenied {
            PortError::Permission { device, step }
        } else {
            PortError::Step { device, step, source, said: String::new() }
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // SAFETY: claimed from `eal` by number, so nobody else has the port; no queue is left. A
        // device that was not started yet, or fails to stop, is closed all the same.
        unsafe {
            dpdk_sys::rte_eth_dev_stop(self.number);
            dpdk_sys::rte_eth_dev_close(self.number);
        }
        self.eal.release_port(self.number);
    }
}

impl Port {
    /// Configures and starts a device with as many queue pairs as there are pools; queue `n` receives
    /// into pool `n` (one pool may be named several times).
    ///
    /// # Errors
    /// See [`PortError`]. The device is closed then, and cannot be opened again in this process.
    pub fn open(eal: &Eal, config: &PortConfig, pools: &[Mempool]) -> Result<Port, PortError> {
        // What the driver says belongs into the error; if it cannot be caught, it goes to standard error.
        let capture = Capture::log().ok();
        let result = Port::configure_and_start(eal, config, pools);
        let said = capture.and_then(|capture| capture.finish().ok()).unwrap_or_default();
        match result {
            Ok(port) => {
                if !said.is_empty() {
                    tracing::debug!("DPDK, of device {}: {said}", config.device);
                }
                Ok(port)
            }
            Err(error) => Err(error.with_words(said)),
        }
    }

    fn configure_and_start(eal: &Eal, config: &PortConfig, pools: &[Mempool]) -> Result<Port, PortError> {
        let started = find(eal, &config.device, pools)?;
        let info = device_info(&started)?;
        let queues = queue_count(&started, &info, pools.len())?;
        let rss = configure(&started, &info, queues)?;
        let mtu = set_mtu(&started, &info, config.mtu, pools)?;
        let rings = set_up_queues(&started, config, pools)?;

        // SAFETY: configured, with its queues set up.
        started.check("start", unsafe { dpdk_sys::rte_eth_dev_start(started.number) })?;
        if config.promiscuous {
            // SAFETY: started.
            let result = unsafe { dpdk_sys::rte_eth_promiscuous_enable(started.number) };
            // A device that filters nothing has no such mode.
            if result != -libc::ENOTSUP {
                started.check("set promiscuous", result)?;
            }
        }
        if let Some(interface) = kernel_interface(info.if_index)
            && !interface.up
        {
            return Err(PortError::InterfaceDown {
                device: started.device.clone(),
                interface: interface.name,
            });
        }
        let mut mac = dpdk_sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: started; `mac` is filled.
        started.check("read the address of", unsafe {
            dpdk_sys::rte_eth_macaddr_get(started.number, &raw mut mac)
        })?;
        let rss = rss.map(|rss| Rss { table: rss::query_table(started.number, info.reta_size), ..rss });
        // SAFETY: a C string that the driver keeps, or null.
        let driver = unsafe { info.driver_name.as_ref().map(|name| CStr::from_ptr(name)) };
        Ok(Port {
            driver: driver.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            mac: mac.addr_bytes,
            mtu,
            rings,
            rss,
            kernel_index: info.if_index,
            started: Arc::new(started),
            _one_thread: PhantomData,
        })
    }

    /// Queue pair `queue`, for one worker; `None` if there is no such queue, or a worker has it.
    pub fn queue(&self, queue: QueueId) -> Option<Queue> {
        let claimed = self.started.claimed.get(queue.index())?;
        if claimed.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(Queue::new(Arc::clone(&self.started), queue))
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.started.device
    }

    /// The driver's name, such as `net_af_packet` or `net_ice`.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Queue pairs.
    pub fn queues(&self) -> usize {
        self.started.claimed.len()
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

    /// The NUMA node, if the device has one.
    pub fn socket(&self) -> Option<u16> {
        // SAFETY: the port is open.
        u16::try_from(unsafe { dpdk_sys::rte_eth_dev_socket_id(self.started.number) }).ok()
    }

    /// The link's state now: the device's, and that of the kernel's interface below where there is one.
    ///
    /// # Errors
    /// When the device does not tell.
    pub fn link(&self) -> Result<Link, PortError> {
        let mut link = dpdk_sys::shim_link { speed_mbps: 0, up: false, full_duplex: false };
        // SAFETY: the port is open; `link` is filled.
        let result = unsafe { dpdk_sys::shim_link_get_nowait(self.started.number, &raw mut link) };
        self.started.check("read the link of", result)?;
        let carrier = kernel_interface(self.kernel_index).is_none_or(|interface| interface.carrier);
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
                return Err(PortError::LinkDown { device: self.started.device.clone(), waited: patience });
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
        let result = unsafe { dpdk_sys::rte_eth_stats_get(self.started.number, &raw mut stats) };
        self.started.check("read the counters of", result)?;
        Ok(PortStats {
            rx_packets: stats.ipackets,
            tx_packets: stats.opackets,
            rx_bytes: stats.ibytes,
            tx_bytes: stats.obytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            tx_errors: stats.oerrors,
            rx_no_buffer: stats.rx_nombuf,
        })
    }
}

/// Finds the device by its name and claims it.
fn find(eal: &Eal, device: &str, pools: &[Mempool]) -> Result<Started, PortError> {
    let name = Device::parse(device).map_or_else(|_| device.to_owned(), |device| device.name);
    let no_such_device = || {
        let device = name.clone();
        match eal.start_log() {
            said if said.contains(&device) => PortError::NotOpened { device, said: said.to_owned() },
            _ => PortError::NoSuchDevice { device, known: known_devices() },
        }
    };
    let c_name = CString::new(name.as_str()).map_err(|_| no_such_device())?;
    let mut number = 0;
    // SAFETY: a C string; `number` is filled.
    if unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut number) } != 0 {
        return Err(no_such_device());
    }
    if !eal.claim_port(number) {
        return Err(PortError::InUse { device: name });
    }
    Ok(Started {
        device: name,
        number,
        claimed: pools.iter().map(|_| AtomicBool::new(false)).collect(),
        _pools: pools.to_vec(),
        eal: eal.clone(),
    })
}

/// The names of the devices that DPDK has.
fn known_devices() -> Vec<String> {
    let mut devices = Vec::new();
    // SAFETY: for any number; the answer is the next port, or the limit.
    let next = |number: u16| unsafe { dpdk_sys::rte_eth_find_next(number) };
    let mut number = next(0);
    while u32::from(number) < SHIM_MAX_PORTS {
        let mut name = [0; SHIM_PORT_NAME_LEN as usize];
        // SAFETY: the buffer has the length that DPDK asks for.
        if unsafe { dpdk_sys::rte_eth_dev_get_name_by_port(number, name.as_mut_ptr()) } == 0 {
            let bytes = name.map(c_char::cast_unsigned);
            let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
            devices.push(name.to_string_lossy().into_owned());
        }
        number = next(number + 1);
    }
    devices
}

fn device_info(port: &Started) -> Result<dpdk_sys::rte_eth_dev_info, PortError> {
    // SAFETY: a C struct of integers and pointers, for which all zeros is a value.
    let mut info: dpdk_sys::rte_eth_dev_info = unsafe { zeroed() };
    // SAFETY: the port exists; `info` is filled.
    port.check("ask", unsafe { dpdk_sys::rte_eth_dev_info_get(port.number, &raw mut info) })?;
    Ok(info)
}

fn queue_count(port: &Started, info: &dpdk_sys::rte_eth_dev_info, wanted: usize) -> Result<u16, PortError> {
    let max = info.max_rx_queues.min(info.max_tx_queues);
    match u16::try_from(wanted) {
        Ok(0) => Err(PortError::NoQueues { device: port.device.clone() }),
        Ok(count) if count <= max => Ok(count),
        _ => Err(PortError::Queues { device: port.device.clone(), wanted, max }),
    }
}

/// Configures the device with `queues` queue pairs, and with symmetric RSS if there are several and
/// it can.
fn configure(
    port: &Started,
    info: &dpdk_sys::rte_eth_dev_info,
    queues: u16,
) -> Result<Option<Rss>, PortError> {
    let ports = (dpdk_sys::SHIM_RSS_TCP | dpdk_sys::SHIM_RSS_UDP) & info.flow_type_rss_offloads;
    let fields = dpdk_sys::SHIM_RSS_IP & info.flow_type_rss_offloads | ports;
    let mut rss = (queues > 1 && fields != 0).then(|| Rss {
        key: rss::symmetric_key(info.hash_key_size),
        ports: ports != 0,
        delivered: info.rx_offload_capa & dpdk_sys::SHIM_RX_OFFLOAD_RSS_HASH != 0,
        table: Vec::new(),
    });
    // SAFETY: a C struct of integers and pointers, for which all zeros is a value: no offloads.
    let mut conf: dpdk_sys::rte_eth_conf = unsafe { zeroed() };
    if let Some(rss) = &mut rss {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        if !rss.key.is_empty() {
            conf.rx_adv_conf.rss_conf.rss_key = rss.key.as_mut_ptr();
        }
        conf.rx_adv_conf.rss_conf.rss_key_len = u8::try_from(rss.key.len()).unwrap_or(u8::MAX);
        conf.rx_adv_conf.rss_conf.rss_hf = fields;
        if rss.delivered {
            conf.rxmode.offloads = dpdk_sys::SHIM_RX_OFFLOAD_RSS_HASH;
        }
    }
    // SAFETY: the port exists and is not started; the driver copies the key.
    let result = unsafe { dpdk_sys::rte_eth_dev_configure(port.number, queues, queues, &raw const conf) };
    port.check("configure", result)?;
    Ok(rss)
}

/// Sets the MTU, and checks that a pool's packet holds such a frame: chained packets are slow, so
/// none are asked for.
fn set_mtu(
    port: &Started,
    info: &dpdk_sys::rte_eth_dev_info,
    wanted: Option<u16>,
    pools: &[Mempool],
) -> Result<u16, PortError> {
    let current = || {
        let mut mtu = 0;
        // SAFETY: the port exists; `mtu` is filled.
        let result = unsafe { dpdk_sys::rte_eth_dev_get_mtu(port.number, &raw mut mtu) };
        // An interface that the kernel shares has the kernel's, whatever DPDK believes.
        let kernels = kernel_interface(info.if_index);
        let kernels = kernels.map(|interface| u16::try_from(interface.mtu).unwrap_or(u16::MAX));
        port.check("read the MTU of", result).map(|()| kernels.unwrap_or(mtu))
    };
    let mut mtu = current()?;
    if let Some(wanted) = wanted
        && wanted != mtu
    {
        // SAFETY: the port is configured and not started.
        let result = unsafe { dpdk_sys::rte_eth_dev_set_mtu(port.number, wanted) };
        mtu = current()?;
        // A device without an MTU (a ring, a capture) takes what comes. One that refuses may still
        // have enough: DPDK 22.11 thinks that af_packet ends at 1,500 whatever the interface has.
        if mtu < wanted && result != -libc::ENOTSUP {
            return Err(PortError::Mtu { device: port.device.clone(), wanted, has: mtu });
        }
        mtu = wanted;
    }
    let room = pools.iter().map(Mempool::frame_room).min().unwrap_or(0);
    let needed = usize::from(mtu) + FRAME_OVERHEAD;
    if needed > room {
        return Err(PortError::FrameRoom { device: port.device.clone(), mtu, needed, room });
    }
    Ok(mtu)
}

/// Sets up a queue pair for each pool; the ring sizes as the device took them.
fn set_up_queues(port: &Started, config: &PortConfig, pools: &[Mempool]) -> Result<(u16, u16), PortError> {
    let (mut rx, mut tx) = (config.rx_ring, config.tx_ring);
    // SAFETY: the port is configured; both sizes are filled.
    let result = unsafe { dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(port.number, &raw mut rx, &raw mut tx) };
    port.check("size the rings of", result)?;
    // SAFETY: the port exists. A device without a node says -1: any.
    let socket = unsafe { dpdk_sys::rte_eth_dev_socket_id(port.number) }.cast_unsigned();
    for (queue, pool) in (0u16..).zip(pools) {
        // SAFETY: configured and not started; the pool outlives the port, which holds it; null: the
        // driver's own settings.
        let result = unsafe {
            dpdk_sys::rte_eth_rx_queue_setup(port.number, queue, rx, socket, std::ptr::null(), pool.as_ptr())
        };
        port.check("set up a receive queue of", result)?;
        // SAFETY: as above.
        let result =
            unsafe { dpdk_sys::rte_eth_tx_queue_setup(port.number, queue, tx, socket, std::ptr::null()) };
        port.check("set up a transmit queue of", result)?;
    }
    Ok((rx, tx))
}

/// The kernel's interface below the port, if it has one that this namespace knows.
fn kernel_interface(index: u32) -> Option<KernelInterface> {
    if index == 0 { None } else { KernelInterface::by_index(index).ok() }
}
