//! What a worker does with a packet.

pub mod reset;
