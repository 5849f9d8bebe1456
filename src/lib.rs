//! Flowgate: a Gateway Load Balancer for bare metal.
//!
//! Rooms, and who may look into whom (an arrow never points back):
//!
//! ```text
//! bin → cli → control → datapath → balance → flow → wire
//!                       datapath → io → dpdk-sys
//! bin → reflector → datapath::reset, wire
//! ```
//!
//! `wire`, `flow`, `balance` and `datapath::decide` know bytes and numbers only: no DPDK, no
//! socket, no clock.

pub mod balance;
pub mod cli;
pub mod control;
pub mod datapath;
pub mod flow;
pub mod id;
pub mod io;
pub mod reflector;
pub mod wire;
