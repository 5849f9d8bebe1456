//! The methods, by the objects they are about, and the table that lists them all.
//!
//! Names are those of AWS's command line; parameters and results have the names of its JSON. Wherever
//! AWS has an ARN a name serves too. A method is one function: to add one is to write it and to
//! add its line here and its section in `docs/control-socket.md`.

#![forbid(unsafe_code)]

pub mod actions;
pub mod attributes;
pub mod audit;
pub mod balancers;
pub mod capture;
pub mod explain;
pub mod failovers;
pub(super) mod fault;
pub mod flow_log;
pub mod groups;
pub mod health;
pub mod history;
pub mod limits;
pub mod log_level;
pub mod node;
pub mod overview;
pub mod page;
#[cfg(any(debug_assertions, feature = "faults"))]
pub mod put_fault;
pub mod registration;
pub mod rules;
pub mod subnets;
pub mod subscribe;
pub mod tags;
pub mod whole;

use super::dispatcher::Dispatcher;

/// The table of methods of a daemon in service.
pub fn dispatcher() -> Dispatcher {
    let mut table = in_service();
    table.describe_itself();
    table
}

/// All of them but `rpc.discover`.
fn in_service() -> Dispatcher {
    let mut table = Dispatcher::default();
    balancers::register(&mut table);
    subnets::register(&mut table);
    rules::register(&mut table);
    groups::register(&mut table);
    attributes::register(&mut table);
    registration::register(&mut table);
    health::register(&mut table);
    tags::register(&mut table);
    limits::register(&mut table);
    node::register(&mut table);
    overview::register(&mut table);
    subscribe::register(&mut table);
    capture::register(&mut table);
    whole::register(&mut table);
    history::register(&mut table);
    failovers::register(&mut table);
    explain::register(&mut table);
    audit::register(&mut table);
    log_level::register(&mut table);
    flow_log::register(&mut table);
    table
}

/// The table of methods of a daemon that was started for tests: those of [`dispatcher`], and
/// `debug-advance-clock`.
pub fn debug_dispatcher() -> Dispatcher {
    let mut table = in_service();
    node::register_debug(&mut table);
    table.describe_itself();
    table
}

/// The same, and what puts faults into a daemon where the build has that.
pub fn test_dispatcher() -> Dispatcher {
    let mut table = in_service();
    node::register_debug(&mut table);
    #[cfg(any(debug_assertions, feature = "faults"))]
    put_fault::register(&mut table);
    table.describe_itself();
    table
}
