//! The engine as a whole. `states` and `changes` run it over a scripted checker on a clock that is
//! moved, not waited for; `load` runs it over real sockets.

mod changes;
mod load;
mod scripted;
mod states;
