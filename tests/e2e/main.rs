//! End to end: real kernel sockets, a real daemon, real appliances, in network namespaces (see
//! [`lab`]). Needs root, and the packages of `scripts/install-packages`.
//!
//! `cargo test --test e2e -- --test-threads=1`

mod anew;
mod appliance;
mod applications;
mod bad_start;
mod captures;
mod checks;
mod confirm;
mod crowd;
mod doctor;
mod explain;
mod failover;
mod faults;
mod four_views;
mod idle;
mod inband;
mod kills;
mod lab;
mod laboratory;
mod logs;
mod objects;
mod privileges;
mod prometheus;
mod report;
mod reset;
mod restart;
mod routed;
mod silent;
mod sizes;
mod slow_disk;
mod speed;
mod top;
mod wire;
