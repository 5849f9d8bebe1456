//! What happens to a packet.
//!
//! Start with [`pipeline`]: a packet's way from top to bottom. What becomes of it is decided by the
//! pure functions of [`decide`]; what may be relied on is the immutable [`forwarding`] state that the
//! control core publishes; the loop around it is the [`worker`]'s; how the two cores talk is in
//! [`messages`].

#![forbid(unsafe_code)]

pub mod ages;
pub mod answer;
pub mod arrival;
pub mod capture;
mod conditions;
pub mod counters;
pub mod decide;
pub mod enquiry;
pub mod fast_path;
pub mod flow_log;
pub mod flows;
mod followers;
pub mod forwarding;
pub mod fragments;
pub mod host;
pub mod icmp_errors;
mod idle;
pub mod interfaces;
mod judging;
pub mod leaving;
pub mod links;
pub mod load;
pub mod messages;
pub mod neighbours;
mod opening;
pub mod outbound;
pub mod pipeline;
pub mod rates;
pub mod reset;
mod returned;
pub mod routes;
mod sizes;
pub mod steering;
pub mod sweep;
mod telling;
pub mod unposted;
pub mod waiting;
pub mod worker;
