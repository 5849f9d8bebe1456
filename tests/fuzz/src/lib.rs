//! Fuzz targets: everything in Flowgate that reads bytes which somebody else wrote.
//!
//! A target is a function that takes any bytes and panics when a promise is broken. Each promises more than
//! that nothing panics; its file says what. `scripts/fuzz` lets libFuzzer call them (`main.rs`), and an ordinary
//! `cargo test` replays what is in `corpus` (`tests/corpus.rs`).

#![forbid(unsafe_code)]

mod command_line;
mod daemon;
#[path = "../../control_socket/fake.rs"]
#[expect(dead_code, reason = "the daemon in it serves the control socket's tests")]
mod fake;
mod http;
mod mutate;
mod node;
mod objects;
mod query;
mod signature;
mod socket;
mod stored;
mod text;

pub use mutate::mutate;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As `scripts/fuzz` is given it, and as its folder in `corpus` is called.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target { name: "socket", run: socket::run },
    Target { name: "http", run: http::run },
    Target { name: "query", run: query::run },
    Target { name: "signature", run: signature::run },
    Target { name: "node", run: node::run },
    Target { name: "objects", run: objects::run },
    Target { name: "stored", run: stored::run },
    Target { name: "command-line", run: command_line::run },
];
