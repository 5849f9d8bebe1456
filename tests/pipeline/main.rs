//! The whole pipeline over memory ports: frames in, frames out, by the rules of `semantics.md`.
//! Expected bytes are written out or built by the harness, which shares no code with the gateway.

#![expect(clippy::cast_possible_truncation, reason = "test packets are small")]

mod both_ends;
mod captures;
mod defaults;
mod explain;
mod failover;
mod fast_path;
mod faults;
mod flow_log;
mod flow_log_written;
mod flows;
mod foresight;
mod forged;
mod fragments;
mod garbage;
mod golden;
mod guards;
mod harness;
mod histories;
mod icmp_errors;
mod network;
mod pieces;
mod proactive;
mod records;
mod routed;
mod sizes;
mod watched;
mod way;
mod workers;
