//! The table of all families, a file for each kind of object.

mod failovers;
mod flows;
mod groups;
mod node;
mod ports;
mod targets;
mod workers;

use super::family::Family;

/// Every family, in the order in which they are served, by what they are about.
pub const FAMILIES: &[(&str, &[Family])] = &[
    ("The node", node::FAMILIES),
    ("Load balancers", flows::BALANCERS),
    ("Zones", flows::ZONES),
    ("Target groups: traffic", flows::GROUPS),
    ("Target groups: health", groups::FAMILIES),
    ("Targets: traffic", flows::TARGETS),
    ("Targets: health", targets::FAMILIES),
    ("Targets: the last failover", failovers::FAMILIES),
    ("Endpoints and ports", ports::FAMILIES),
    ("Workers", workers::FAMILIES),
];
