//! The elbv2 endpoint from outside: real connections, the real methods and rules, and a control core of the
//! test's making behind them.

mod actions;
mod bad_input;
mod client;
mod company;
mod crowds;
mod endpoint;
#[path = "../control_socket/fake.rs"]
#[expect(dead_code, reason = "the daemon in it serves the control socket's tests")]
mod fake;
mod signed;
mod terraform;
mod tls;
