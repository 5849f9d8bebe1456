//! What is measured side by side.

pub mod gateway;
pub mod rte_hash;
pub mod swap;
pub mod testpmd;
