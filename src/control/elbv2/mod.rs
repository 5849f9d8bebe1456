//! The elbv2 endpoint: AWS's Elastic Load Balancing API, version 2015-12-01, over HTTP, so that the `aws` command
//! line, the SDKs and Terraform drive this node as they drive AWS.
//!
//! A face of the control socket: each action is a method of its table under AWS's names (`actions`). The way of a request:
//! `server` (the endpoint; connections and limits are [`http`](super::http)'s) → `http` (one request, or its refusal) → `signature` (who asks) → `query` (the
//! form as a tree) → `shape` (the tree as JSON) → the method → `shape` → `xml`. Runs on the control core; promises
//! that any bytes get an answer with its reason or an end, that memory is bounded whatever clients do, and that
//! without credentials nobody but this machine's own programs is served: no other host and no web page.
//! `docs/elbv2.md` is the user's guide.

#![forbid(unsafe_code)]

mod actions;
mod credentials;
mod fault;
mod http;
mod once;
mod query;
mod reloaded;
mod requests;
mod server;
mod shape;
mod signature;
mod tls;
mod xml;

pub use super::http::Limits;
pub use credentials::{Key, Keys};
pub use fault::Fault;
pub use query::{Tree, parse as parse_form};
pub use server::{BindError, Endpoint, converse, serve};
pub use signature::verify as verify_signature;
