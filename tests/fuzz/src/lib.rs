//! Fuzz targets: everything in Flowgate that reads bytes which somebody else wrote.
//!
//! A target is a function that takes any bytes and panics when a promise is broken. Each promises more than
//! that nothing panics; its file says what. `scripts/fuzz` lets libFuzzer call them (`main.rs`), and an ordinary
//! `cargo test` replays what is in `corpus` (`tests/corpus.rs`).

#![forbid(unsafe_code)]

mod bytes;
mod capture_filter;
mod command_line;
mod daemon;
#[path = "../../control_socket/fake.rs"]
#[expect(dead_code, reason = "the daemon in it serves the control socket's tests")]
mod fake;
#[path = "../../pipeline/foresight.rs"]
mod foresight;
mod geneve;
#[path = "../../pipeline/harness.rs"]
#[expect(dead_code, reason = "much of it serves the pipeline's tests")]
#[expect(clippy::cast_possible_truncation, reason = "test packets are small")]
mod harness;
mod http;
mod kept;
mod mutate;
#[path = "../../pipeline/network.rs"]
mod network;
mod node;
mod objects;
mod packet;
mod pipeline;
mod query;
mod reading;
mod signature;
mod socket;
mod stored;
mod table;
mod text;
#[path = "../../pipeline/watched.rs"]
#[expect(dead_code, reason = "some of it serves the pipeline's tests")]
mod watched;

pub use mutate::mutate;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As `scripts/fuzz` is given it, and as its folder in `corpus` is called.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]),
    /// Whether its inputs are text, of which words may be exchanged.
    pub is_text: bool,
}

impl Target {
    const fn text(name: &'static str, run: fn(&[u8])) -> Target {
        Target { name, run, is_text: true }
    }

    const fn bytes(name: &'static str, run: fn(&[u8])) -> Target {
        Target { name, run, is_text: false }
    }
}

/// All targets.
pub const TARGETS: [Target; 14] = [
    Target::bytes("pipeline", pipeline::run),
    Target::bytes("packet", packet::run),
    Target::bytes("geneve", geneve::run),
    Target::bytes("table", table::run),
    Target::bytes("kept", kept::run),
    Target::bytes("capture-filter", capture_filter::run),
    Target::text("socket", socket::run),
    Target::text("http", http::run),
    Target::text("query", query::run),
    Target::text("signature", signature::run),
    Target::text("node", node::run),
    Target::text("objects", objects::run),
    Target::text("stored", stored::run),
    Target::text("command-line", command_line::run),
];
