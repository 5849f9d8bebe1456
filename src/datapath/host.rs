//! The way between a worker and the host's network stack, for ports that the kernel does not see.
//!
//! Addresses, ARP, neighbour discovery, ping and routing protocols are the kernel's. What arrives for it
//! goes, without its VLAN tags and with the interface named, into a ring from which a thread of the control
//! core feeds the interface's tap; what the kernel sends comes by another ring to worker 0. Both are
//! bounded and nobody waits: what finds no room is dropped and counted.

use rtrb::{Consumer, Producer};

use crate::id::InterfaceId;

/// A frame for the host's network stack.
#[derive(Debug)]
pub struct ToHost<B> {
    /// Where it came in.
    pub interface: InterfaceId,
    /// The frame, without VLAN tags.
    pub packet: B,
}

/// A frame that the host's network stack sends.
#[derive(Debug)]
pub struct FromHost<B> {
    /// Where it is to leave.
    pub interface: InterfaceId,
    /// The frame, without VLAN tags.
    pub packet: B,
}

/// A worker's ends of the rings.
#[derive(Debug)]
pub struct HostPort<B> {
    /// Frames for the host; `None` where every port is shared with the kernel.
    pub to: Option<Producer<ToHost<B>>>,
    /// Frames of the host; worker 0 alone has it.
    pub from: Option<Consumer<FromHost<B>>>,
}

impl<B> HostPort<B> {
    /// No way to the host: every port is shared with the kernel.
    pub fn none() -> HostPort<B> {
        HostPort { to: None, from: None }
    }
}
