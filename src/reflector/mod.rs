//! A stand-in for an appliance, without DPDK: operators commission a site with it, tests have it as the
//! other side. It takes GENEVE packets at UDP port 6081, says what in them is not as W-1 and W-2 have it, and sends
//! them back as W-4 asks; it answers health checks; and it can be told, at the start or while it
//! runs, to fail in the ways that appliances do.
//!
//! ```text
//! raw socket ▶ judge ▶ reflect ▶ raw socket      a thread of its own (packets)
//! health checks, control socket, signals         tokio, in the main thread (health, control)
//! ```
//!
//! Both sides share [`Shared`]: what it was told, and what it counted.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

pub mod behaviour;
mod control;
pub mod counters;
mod health;
pub mod judge;
mod packets;
pub mod reflect;

use behaviour::{Behaviour, Health};
use counters::Counters;

/// How a reflector is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address that it takes packets at; unspecified: every address of the machine.
    pub address: Ipv4Addr,
    /// Port of the health checks; `None`: no checks are answered, nor is there a listener.
    pub health_port: Option<u16>,
    /// Path of the control socket, if there is to be one.
    pub control: Option<PathBuf>,
    /// What it does until it is told otherwise.
    pub behaviour: Behaviour,
    /// How health checks are answered until it is told otherwise.
    pub health: Health,
}

/// Why a reflector cannot start or go on; each says what to do.
#[derive(Debug, Error)]
pub enum ReflectorError {
    /// Raw sockets are for root.
    #[error("a raw socket was refused ({0}); run as root or with CAP_NET_RAW")]
    RawSocket(std::io::Error),
    /// The GENEVE port is taken, or the address is not this machine's.
    #[error(
        "cannot listen on {address}, UDP port 6081 ({error}); is another reflector running, is the address this machine's?"
    )]
    Bind {
        /// The address asked for.
        address: Ipv4Addr,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The health checks' port is taken.
    #[error("cannot listen for health checks on {address}, TCP port {port} ({error})")]
    HealthPort {
        /// The address asked for.
        address: Ipv4Addr,
        /// The port asked for.
        port: u16,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The control socket cannot be made.
    #[error("cannot make the control socket {} ({error})", path.display())]
    Control {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The thread of packets cannot be started, or its socket failed.
    #[error("the packet socket failed ({0})")]
    Packets(std::io::Error),
}

/// What the thread of packets and the main thread have in common.
#[derive(Debug, Default)]
struct Shared {
    behaviour: Mutex<Behaviour>,
    counters: Counters,
}

impl Shared {
    /// What the reflector is told to do. Held for a few instructions only.
    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        // A behaviour is plain values: one that a panicking thread left behind is as good as any.
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a reflector until SIGINT or SIGTERM, or until its packet socket fails, and logs its counters at the end.
pub async fn run(options: Options) -> Result<(), ReflectorError> {
    let shared = Arc::new(Shared { behaviour: Mutex::new(options.behaviour), counters: Counters::default() });
    let mut packets = packets::start(options.address, Arc::clone(&shared))?;
    let (health, health_changes) = watch::channel(options.health);
    let checks = match options.health_port {
        Some(port) => {
            Some(health::Listener::bind(options.address, port, health_changes, Arc::clone(&shared))?)
        }
        None => None,
    };
    let control = match &options.control {
        Some(path) => Some(control::Server::bind(path, Arc::clone(&shared), health)?),
        None => None,
    };
    info!(address = %options.address, port = 6081, "reflecting");
    let ended = tokio::select! {
        failed = &mut packets => Err(ReflectorError::Packets(
            failed.unwrap_or_else(|_| std::io::Error::other("its thread ended")),
        )),
        never = run_if_some(checks, health::Listener::run) => match never {},
        never = run_if_some(control, control::Server::run) => match never {},
        () = stopped() => Ok(()),
    };
    info!(counters = %serde_json::json!(shared.counters.snapshot()), "ended");
    ended
}

/// Runs what there is; what there is not never ends.
async fn run_if_some<T, F>(what: Option<T>, run: impl FnOnce(T) -> F) -> std::convert::Infallible
where
    F: Future<Output = std::convert::Infallible>,
{
    match what {
        Some(what) => run(what).await,
        None => std::future::pending().await,
    }
}

/// Resolves at SIGINT or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
        }
        // Without a handler the signals' default ends the process just as well.
        _ => std::future::pending().await,
    }
}
