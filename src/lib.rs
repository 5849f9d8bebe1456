//! Flowgate: a Gateway Load Balancer for bare metal.
//!
//! Rooms, and who may look into whom (an arrow never points back):
//!
//! ```text
//! bin → cli → control → datapath → balance → flow → wire
//!                        datapath → io → dpdk-sys
