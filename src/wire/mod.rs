//! Headers as typed views over bytes. A view's constructor proves the length once; after it,
//! accessors are plain loads. Nothing here knows DPDK, sockets or clocks, nothing allocates, and
//! no input panics: a malformed packet is an error with a name.
//!
//! Callers: the flow key is made from [`packet::Packet`]; the pipeline parses and builds GENEVE with
//! [`geneve`]; resets use [`checksum`] and [`tcp`]; the reflector shares all of it.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod ethernet;
pub mod fragment;
pub mod geneve;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod load;
pub mod packet;
pub mod plain;
#[cfg(test)]
pub(crate) mod sample;
pub mod split;
pub mod tcp;
pub mod toeplitz;
pub mod ttl;
pub mod udp;
