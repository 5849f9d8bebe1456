//! The safe layer over DPDK: [`Eal`] starts it, a [`Mempool`] holds packets, a [`Port`] is a started
//! device, a [`Queue`] one worker's queue pair of it, an [`Mbuf`] one packet that frees itself.
//!
//! What each needs it keeps alive: a queue its port, a port its pools, a pool EAL. The last of them
//! to go takes its part of DPDK down, in the right order, whatever order they are dropped in.
//!
//! On the packets' way there is one C call a burst and none a packet, but for the freeing of a
//! single one: see [`Mbuf`] and [`Queue`].

mod capture;
mod device;
mod eal;
mod error;
mod in_flight;
mod kernel;
mod mbuf;
mod mempool;
mod packet_sockets;
mod port;
mod prefault;
mod queue;
mod ring;
mod rss;
mod unmapping;

pub use eal::{Eal, EalError, WorkerThread};
pub use error::PortError;
pub use in_flight::InFlight;
pub use mbuf::Mbuf;
pub use mempool::{Mempool, MempoolConfig, MempoolError};
pub use port::{Capabilities, Link, Offloads, Port, PortConfig, PortStats};
pub use prefault::Prefault;
pub use queue::Queue;
pub use ring::crossed_ports;
pub use rss::Rss;
