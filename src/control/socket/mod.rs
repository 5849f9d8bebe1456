//! The control socket: JSON-RPC 2.0, one request or batch a line, on a Unix stream socket.
//!
//! The daemon binds a [`ControlListener`] early, builds the table of [`methods`], and runs [`serve`] on the
//! control core. A method is one function in [`methods`], on the [`Service`] trait that the control core implements.
//! Promises that any bytes get a JSON-RPC error and harm nobody, that memory is bounded
//! whatever clients do, and that a client too slow for the events is told how many it lost.
//! `docs/control-socket.md` shows every method at work.

#![forbid(unsafe_code)]

mod acting;
pub mod base64;
mod batch;
mod common;
mod connection;
mod dispatcher;
mod framing;
mod listener;
pub mod methods;
mod openrpc;
mod role;
pub mod rpc;
mod server;
mod service;
mod session;
pub mod views;

pub use batch::MAX_BATCH;
pub use common::Common;
pub use connection::run as converse;
pub use connection::{CloseReason, Closing, Hello, Lost, ProtocolVersion};
use dispatcher::rehearse;
pub use dispatcher::{Call, Dispatcher, Method};
pub use framing::MAX_LINE;
pub use listener::{BindError, ControlListener};
pub use role::{Admins, Peer, Role};
pub use server::serve;
pub use service::{
    Applied, CaptureError, ChangeError, Drafted, FlowLogRefused, Service, TargetStatus, Turn, Unavailable,
    Waiting,
};
pub use session::{Limits, Session, Subscribers};

/// Where the daemon listens and the command line connects, unless told otherwise.
pub const DEFAULT_PATH: &str = "/run/flowgate/flowgated.sock";

/// The name that the hello gives.
pub const PRODUCT: &str = "flowgate";
/// Raised when something of the protocol is removed or changes its meaning.
pub const API_MAJOR: u16 = 1;
/// Raised when something is added, and what it is said under "Versions" in `docs/control-socket.md`.
pub const API_MINOR: u16 = 3;
