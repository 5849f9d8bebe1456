//! The monitoring endpoint from outside: real connections, and a node of the test's making behind them.

#[path = "../elbv2/client.rs"]
#[expect(dead_code, reason = "what posts forms is for the elbv2 endpoint's tests")]
mod client;
mod crowds;
mod documents;
mod metrics;
mod page;
mod paths;
mod sample;
mod served;
