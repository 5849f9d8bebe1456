//! A device on its way from a name to being ready to start: found, claimed, configured, its queues
//! set up. [`Port::open`](super::Port::open) goes through the steps in this order.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys::{RTE_ETH_MQ_RX_RSS, SHIM_MAX_PORTS, SHIM_PORT_NAME_LEN, rte_eth_dev_info};

use super::eal::Eal;
use super::error::PortError;
use super::kernel::KernelInterface;
use super::mempool::Mempool;
use super::port::{Capabilities, Offloads};
use super::rss::{self, Rss};
use crate::id::QueueId;
use crate::io::eal_config;

/// What comes before and after a frame's payload: Ethernet header, two VLAN tags, CRC.
const FRAME_OVERHEAD: usize = 14 + 2 * 4 + 4;

/// A device that is this process's alone. A port and each of its queues hold it; the last of them
/// stops and closes it.
#[derive(Debug)]
pub(super) struct Device {
    pub name: String,
    /// DPDK's number of its port.
    pub number: u16,
    /// Which of its queue pairs are with a worker.
    claimed: Vec<AtomicBool>,
    /// What it receives into, a pool a queue: must stay as long as it runs.
    pools: Vec<Mempool>,
    eal: Eal,
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: claimed from `eal` by number, so nobody else has it; no queue is left. A device
        // that was not started yet, or fails to stop, is closed all the same.
        unsafe {
            dpdk_sys::rte_eth_dev_stop(self.number);
            dpdk_sys::rte_eth_dev_close(self.number);
        }
        self.eal.release_port(self.number);
    }
}

impl Device {
    /// Finds the device by its name and claims it.
    pub fn claim(eal: &Eal, device: &str, pools: &[Mempool]) -> Result<Device, PortError> {
        let name = eal_config::Device::parse(device).map_or_else(|_| device.to_owned(), |device| device.name);
        let no_such_device = || {
            match eal.start_log() {
                // With its arguments: it is they that are wrong, mostly.
                said if said.contains(&name) => {
                    PortError::NotOpened { device: device.to_owned(), said: said.to_owned() }
                }
                _ => PortError::NoSuchDevice { device: name.clone(), known: known_devices() },
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
        let claimed = pools.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Device { name, number, claimed, pools: pools.to_vec(), eal: eal.clone() })
    }

    /// Queue pairs that it is to have.
    pub fn queues(&self) -> usize {
        self.pools.len()
    }

    /// What a queue receives into.
    pub fn pool(&self, queue: QueueId) -> Option<&Mempool> {
        self.pools.get(usize::from(queue.0))
    }

    /// Takes a queue pair for a worker; `false` if there is none of that number or it is taken.
    pub fn claim_queue(&self, queue: QueueId) -> bool {
        self.claimed.get(queue.index()).is_some_and(|claimed| !claimed.swap(true, Ordering::AcqRel))
    }

    /// The worker is done with it.
    pub fn release_queue(&self, queue: QueueId) {
        if let Some(claimed) = self.claimed.get(queue.index()) {
            claimed.store(false, Ordering::Release);
        }
    }

    /// Turns a DPDK result into a `Result` with what was tried.
    pub fn check(&self, step: &'static str, result: c_int) -> Result<(), PortError> {
        if result >= 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(-result);
        let device = self.name.clone();
        Err(if source.kind() == io::ErrorKind::PermissionDenied {
            PortError::Permission { device, step }
        } else {
            PortError::Step { device, step, source, said: String::new() }
        })
    }

    /// What it can.
    pub fn info(&self) -> Result<rte_eth_dev_info, PortError> {
        // SAFETY: a C struct of integers and pointers, for which all zeros is a value.
        let mut info: rte_eth_dev_info = unsafe { zeroed() };
        // SAFETY: the device exists; `info` is filled.
        self.check("ask", unsafe { dpdk_sys::rte_eth_dev_info_get(self.number, &raw mut info) })?;
        Ok(info)
    }

    /// The same in our words, with the version of its firmware.
    pub fn capabilities(&self, info: &rte_eth_dev_info) -> Capabilities {
        let hashes = |over: u64| info.flow_type_rss_offloads & over != 0;
        Capabilities {
            firmware: self.firmware(),
            max_queues: info.max_rx_queues.min(info.max_tx_queues),
            hash_key_length: info.hash_key_size,
            table_size: info.reta_size,
            hashes_addresses: hashes(dpdk_sys::SHIM_RSS_IP),
            hashes_tcp: hashes(dpdk_sys::SHIM_RSS_TCP),
            hashes_udp: hashes(dpdk_sys::SHIM_RSS_UDP),
        }
    }

    /// The version of its firmware; `None` if it has none or does not tell.
    fn firmware(&self) -> Option<String> {
        /// Longer than any driver's; what is longer is not told.
        const LONGEST: usize = 128;
        let mut text: [c_char; LONGEST] = [0; LONGEST];
        // SAFETY: the device exists; at most `LONGEST` bytes are filled, and 0 says that all are there with their
        // final zero.
        let result = unsafe { dpdk_sys::rte_eth_dev_fw_version_get(self.number, text.as_mut_ptr(), LONGEST) };
        let bytes = text.map(c_char::cast_unsigned);
        let version = CStr::from_bytes_until_nul(&bytes).ok().filter(|_| result == 0)?;
        Some(version.to_string_lossy().trim().to_owned()).filter(|version| !version.is_empty())
    }

    /// Configures its queue pairs, symmetric RSS if there are several and it can, and those of the offloads
    /// wanted that it has.
    pub fn configure(
        &self,
        info: &rte_eth_dev_info,
        wanted_offloads: Offloads,
    ) -> Result<(Option<Rss>, Offloads), PortError> {
        let (wanted, max) = (self.queues(), info.max_rx_queues.min(info.max_tx_queues));
        let queues = match u16::try_from(wanted) {
            Ok(0) => return Err(PortError::NoQueues { device: self.name.clone() }),
            Ok(queues) if queues <= max => queues,
            _ => return Err(PortError::Queues { device: self.name.clone(), wanted, max }),
        };
        let both = dpdk_sys::SHIM_RSS_TCP | dpdk_sys::SHIM_RSS_UDP;
        let ports = both & info.flow_type_rss_offloads;
        let fields = dpdk_sys::SHIM_RSS_IP & info.flow_type_rss_offloads | ports;
        let mut rss = (queues > 1 && fields != 0).then(|| Rss {
            key: rss::symmetric_key(info.hash_key_size),
            ports: ports == both,
            delivered: info.rx_offload_capa & dpdk_sys::SHIM_RX_OFFLOAD_RSS_HASH != 0,
            table: Vec::new(),
        });
        // SAFETY: a C struct of integers and pointers, for which all zeros is a value: no offloads.
        let mut conf: dpdk_sys::rte_eth_conf = unsafe { zeroed() };
        if let Some(rss) = &mut rss {
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = fields;
            if !rss.key.is_empty() {
                conf.rx_adv_conf.rss_conf.rss_key = rss.key.as_mut_ptr();
                conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
            }
            if rss.delivered {
                conf.rxmode.offloads = dpdk_sys::SHIM_RX_OFFLOAD_RSS_HASH;
            }
        }
        let can = info.tx_offload_capa & dpdk_sys::SHIM_TX_OFFLOAD_UDP_CKSUM != 0;
        let offloads = Offloads { udp_checksum: wanted_offloads.udp_checksum && can };
        if offloads.udp_checksum {
            conf.txmode.offloads = dpdk_sys::SHIM_TX_OFFLOAD_UDP_CKSUM;
        }
        // SAFETY: the device is not started; the driver copies the key.
        let result = unsafe { dpdk_sys::rte_eth_dev_configure(self.number, queues, queues, &raw const conf) };
        self.check("configure", result)?;
        Ok((rss, offloads))
    }

    /// Sets the MTU, and checks that a pool's packet holds such a frame: chained packets are slow, so
    /// none are asked for.
    pub fn set_mtu(&self, info: &rte_eth_dev_info, wanted: Option<u16>) -> Result<u16, PortError> {
        let mut mtu = self.mtu(info)?;
        if let Some(wanted) = wanted
            && wanted != mtu
        {
            // SAFETY: the device is configured and not started.
            let result = unsafe { dpdk_sys::rte_eth_dev_set_mtu(self.number, wanted) };
            mtu = self.mtu(info)?;
            // A device without an MTU (a ring, a capture) takes what comes. One that refuses may still
            // have enough: DPDK 22.11 thinks that af_packet ends at 1,500 whatever the interface has.
            if mtu < wanted && result != -libc::ENOTSUP {
                return Err(PortError::Mtu { device: self.name.clone(), wanted, has: mtu });
            }
            mtu = wanted;
        }
        let room = self.pools.iter().map(Mempool::frame_room).min().unwrap_or(0);
        let needed = usize::from(mtu) + FRAME_OVERHEAD;
        if needed > room {
            return Err(PortError::FrameRoom { device: self.name.clone(), mtu, needed, room });
        }
        Ok(mtu)
    }

    /// The MTU now. An interface that the kernel shares has the kernel's, whatever DPDK believes.
    fn mtu(&self, info: &rte_eth_dev_info) -> Result<u16, PortError> {
        let mut mtu = 0;
        // SAFETY: the device exists; `mtu` is filled.
        self.check("read the MTU of", unsafe { dpdk_sys::rte_eth_dev_get_mtu(self.number, &raw mut mtu) })?;
        let kernels = KernelInterface::below(info.if_index);
        Ok(kernels.map_or(mtu, |interface| u16::try_from(interface.mtu).unwrap_or(u16::MAX)))
    }

    /// Sets up a queue pair for each pool, with rings of these sizes; the sizes as the device took them.
    pub fn set_up_queues(&self, mut rx: u16, mut tx: u16) -> Result<(u16, u16), PortError> {
        // SAFETY: the device is configured; both sizes are filled.
        let result =
            unsafe { dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.number, &raw mut rx, &raw mut tx) };
        self.check("size the rings of", result)?;
        // SAFETY: the device exists. One without a NUMA node says -1: any.
        let socket = unsafe { dpdk_sys::rte_eth_dev_socket_id(self.number) }.cast_unsigned();
        for (queue, pool) in (0u16..).zip(&self.pools) {
            // SAFETY: configured and not started; the pool outlives the device, which holds it; null:
            // the driver's own settings.
            let result = unsafe {
                dpdk_sys::rte_eth_rx_queue_setup(self.number, queue, rx, socket, ptr::null(), pool.as_ptr())
            };
            self.check("set up a receive queue of", result)?;
            // SAFETY: as above.
            let result =
                unsafe { dpdk_sys::rte_eth_tx_queue_setup(self.number, queue, tx, socket, ptr::null()) };
            self.check("set up a transmit queue of", result)?;
        }
        Ok((rx, tx))
    }

    /// Starts it, taking frames for any address if asked to.
    pub fn start(&self, promiscuous: bool) -> Result<(), PortError> {
        // SAFETY: configured, with its queues set up.
        self.check("start", unsafe { dpdk_sys::rte_eth_dev_start(self.number) })?;
        if promiscuous {
            // SAFETY: started.
            let result = unsafe { dpdk_sys::rte_eth_promiscuous_enable(self.number) };
            // A device that filters nothing has no such mode.
            if result != -libc::ENOTSUP {
                self.check("set promiscuous", result)?;
            }
        }
        Ok(())
    }
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
