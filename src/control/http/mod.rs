//! HTTP/1.1 on the control core, for whatever is served by it: AWS's API (`elbv2`) and the monitoring endpoint
//! (`monitor`). Connections, limits and patience are here, and who may ask from where; what is asked and what is
//! answered is the [`Handler`]'s.
//!
//! What is held for clients is bounded: [`Limits::connections`] connections, with one request and one answer each. A
//! newcomer to a full house takes the place of the connection that has been longest without a request, so that
//! clients which hold connections and say nothing, or never end, lock nobody out. Connections over which a stream
//! goes that is meant to last ([`Visit::stay`]) are the last to make room.

#![forbid(unsafe_code)]

mod bare;
mod host;
mod server;
mod visit;

pub use host::is_this_machine;
pub use server::{Handler, Limits, converse, serve};
pub use visit::Visit;
