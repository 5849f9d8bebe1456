//! The monitoring endpoint: how the node stands, by HTTP, for reading only. Prometheus scrapes it, an upstream
//! balancer's health check asks it, and a browser opens it.
//!
//! | path | |
//! |---|---|
//! | `/`, `/api/…`, `/events` | the page, and what it shows (`page`) |
//! | `/metrics` | every counter, in Prometheus's text format or OpenMetrics (`metrics`) |
//! | `/healthz` | whether the daemon works (`ready`) |
//! | `/readyz` | whether the node is to be given traffic (`ready`) |
//!
//! The way of a request: `server` (where it listens, who may ask) → `routes` (which path) → what answers there, with
//! a body of `answer`. An answer that never ends is opened by `streams`, which bounds how many there are. Runs on the
//! control core; nothing here touches a worker but by reading its counters, and what takes long (writing a scrape of a
//! thousand targets) is done on a thread of its own.
//!
//! Reading is not secret from whoever reaches the address, but a web page that a browser on this machine shows does
//! not get it: `Host` must be this machine's where it is asked over loopback, and what a page of another origin has a
//! browser ask is refused.

#![forbid(unsafe_code)]

mod answer;
mod history;
pub mod metrics;
mod page;
mod ready;
mod recorder;
mod routes;
mod server;
mod streams;
mod timeline;

use std::rc::Rc;

pub use answer::AnswerBody;
use metrics::Snapshot;
pub use ready::{Condition, NotReadyFile, Readiness};
pub use recorder::{Recorder, Watched};
pub use server::{BindError, Endpoint, converse, serve};
pub use streams::{Feed, MAX_STREAMS, Streams, WAITING};

/// What the endpoint shows, asked for on the control core's own thread.
pub trait Source {
    /// How the node stands.
    fn readiness(&self) -> Readiness;

    /// What the node has counted; [`Snapshot::monitor`] is left to the endpoint.
    fn snapshot(&self) -> Snapshot;
}

/// What is behind the endpoint.
#[derive(Clone)]
pub struct Behind {
    /// How the node stands, and what it has counted.
    pub source: Rc<dyn Source>,
    /// What it did in the last hour.
    pub recorder: Rc<Recorder>,
    /// The file that takes the node out of service while it is there.
    pub not_ready_file: Rc<NotReadyFile>,
}
