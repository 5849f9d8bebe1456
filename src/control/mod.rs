//! The control core: objects, health, drain clocks, the socket.
#![forbid(unsafe_code)]

mod fault_path;
pub mod model;
pub mod node;
