//! The daemon as a service: what it does without ports, what it tells the service manager, what a reload and a
//! second start do, and where its threads run.

mod cores;
mod daemon;
mod idle;
mod threads;
mod told;
