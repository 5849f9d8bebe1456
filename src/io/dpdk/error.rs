//! Why a port is not open, each as a sentence that says what to do.

use std::io;
use std::time::Duration;

/// Why a port is not open.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// DPDK has no such device.
    #[error(
        "no such device: {device}; DPDK has {}: name a net_… device that is configured, or bind the PCI device to vfio-pci \
         (`dpdk-devbind.py --status`)",
        list(known)
    )]
    NoSuchDevice {
        /// What was asked for.
        device: String,
        /// What there is.
        known: Vec<String>,
    },
    /// DPDK's driver tried to open the device when EAL started, and could not.
    #[error(
        "device {device} could not be opened: check its arguments, that its interface exists, and that the process has \
         CAP_NET_RAW and CAP_NET_ADMIN ({said})"
    )]
    NotOpened {
        /// Its name.
        device: String,
        /// DPDK's own words.
        said: String,
    },
    /// The device is open as another port.
    #[error("device {device} is open already: a device can be one port only")]
    InUse {
        /// Its name.
        device: String,
    },
    /// No pool was given, so no queue.
    #[error("device {device} needs at least one queue: configure at least one worker core")]
    NoQueues {
        /// Its name.
        device: String,
    },
    /// The device cannot have so many queues.
    #[error(
        "device {device} has {max} queue pairs at most and {wanted} workers want one each: configure fewer cores, or \
         give the device more queues (net_af_packet: qpairs={wanted})"
    )]
    Queues {
        /// Its name.
        device: String,
        /// Queue pairs asked for.
        wanted: usize,
        /// Queue pairs it can have.
        max: u16,
    },
    /// The device, or the interface below it, does not take the MTU.
    #[error(
        "device {device} has an MTU of {has} and refuses {wanted}: set it on the interface below \
         (`ip link set DEV mtu {wanted}`), or ask for less"
    )]
    Mtu {
        /// Its name.
        device: String,
        /// MTU asked for, in bytes.
        wanted: u16,
        /// MTU that it has.
        has: u16,
    },
    /// The pool's packets are too short.
    #[error(
        "device {device} with an MTU of {mtu} receives frames of {needed} bytes and the pool's packets hold {room}: \
         make them larger, or the MTU smaller"
    )]
    FrameRoom {
        /// Its name.
        device: String,
        /// Its MTU in bytes.
        mtu: u16,
        /// The longest frame, in bytes.
        needed: usize,
        /// What fits in a packet, in bytes.
        room: usize,
    },
    /// The kernel's interface below the device is down.
    #[error("device {device} is down: `ip link set {interface} up`")]
    InterfaceDown {
        /// Its name.
        device: String,
        /// The interface's name.
        interface: String,
    },
    /// There is no link.
    #[error("device {device} has had no link for {} s: check the cable and the other end", waited.as_secs())]
    LinkDown {
        /// Its name.
        device: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The process lacks a right.
    #[error("no permission to {step} device {device}: run as root, or with CAP_NET_ADMIN and CAP_NET_RAW")]
    Permission {
        /// Its name.
        device: String,
        /// What was tried.
        step: &'static str,
    },
    /// The device refused something else.
    #[error("could not {step} device {device}: {source}{}", words(said))]
    Step {
        /// Its name.
        device: String,
        /// What was tried.
        step: &'static str,
        /// DPDK's error.
        source: io::Error,
        /// DPDK's own words.
        said: String,
    },
}

impl PortError {
    /// Adds DPDK's own words where they explain.
    pub(super) fn with_words(mut self, words: String) -> PortError {
        if let PortError::Step { said, .. } = &mut self {
            *said = words;
        }
        self
    }
}

/// DPDK's words in parentheses, if there are any.
fn words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

fn list(devices: &[String]) -> String {
    if devices.is_empty() { "none".to_owned() } else { devices.join(", ") }
}
