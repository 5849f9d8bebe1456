//! The control core: objects, health, drain clocks, the socket.
#![forbid(unsafe_code)]

pub mod drain;
mod fault_path;
pub mod health;
pub mod model;
pub mod node;
