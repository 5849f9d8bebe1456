//! The control socket from outside: a real Unix socket, the real methods and rules, and a control core
//! of the test's making behind them.

mod bad_input;
mod batches;
mod captures;
mod changes;
mod client;
mod command_judging;
mod command_line;
mod command_output;
mod command_short;
mod command_terminal;
mod command_tools;
mod command_top;
mod command_whole;
mod crowds;
mod discover;
mod documentation;
mod failovers;
mod fake;
mod methods;
mod objects;
mod roles;
mod schema;
mod screen;
mod subscription;
mod whole;
