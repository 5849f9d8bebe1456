//! Tables of load balancers, listeners, target groups and attributes. Objects go by their names; the ARNs are in
//! the JSON.

#![forbid(unsafe_code)]

use super::table::{Look, name_of, number, setting, text};
use crate::control::socket::methods::attributes::Attributes;
use crate::control::socket::methods::balancers::{Listeners, LoadBalancers};
use crate::control::socket::methods::groups::TargetGroups;

pub(super) fn load_balancers(result: &LoadBalancers, look: &Look) -> String {
    let rows = result.load_balancers.iter().map(|balancer| {
        let zones: Vec<&str> =
            balancer.availability_zones.iter().map(|zone| zone.zone_name.as_str()).collect();
        let ip = serde_json::to_value(balancer.ip_address_type).unwrap_or_default();
        [
            text(&balancer.load_balancer_name),
            text(&balancer.state.code),
            text(ip.as_str().unwrap_or("-")),
            text(if zones.is_empty() { "all".to_owned() } else { zones.join(" ") }),
        ]
    });
    look.table(["LOAD BALANCER", "STATE", "IP", "ZONES"], rows.collect())
}

pub(super) fn listeners(result: &Listeners, look: &Look) -> String {
    let rows = result.listeners.iter().flat_map(|listener| {
        let balancer = name_of(&listener.load_balancer_arn);
        listener.default_actions.iter().map(move |action| {
            [text(balancer), text(&action.kind), text(name_of(action.target_group().unwrap_or("-")))]
        })
    });
    look.table(["LISTENER OF", "ACTION", "TARGET GROUP"], rows.collect())
}

pub(super) fn target_groups(result: &TargetGroups, look: &Look) -> String {
    let rows = result.target_groups.iter().map(|group| {
        let used_by: Vec<&str> = group.load_balancer_arns.iter().map(|arn| name_of(arn)).collect();
        let path = group.health_check_path.as_deref().unwrap_or_default();
        let check = format!("{} {}{path}", group.health_check_protocol, group.health_check_port);
        [
            text(&group.target_group_name),
            text(if used_by.is_empty() { "-".to_owned() } else { used_by.join(" ") }),
            number(group.registered_targets),
            text(check),
            number(setting(group.health_check_interval_ms)),
            number(setting(group.health_check_timeout_ms)),
            number(format!("{}/{}", group.healthy_threshold_count, group.unhealthy_threshold_count)),
            number(setting(group.detection_time_ms)),
        ]
    });
    let headings =
        ["TARGET GROUP", "LOAD BALANCER", "TARGETS", "CHECK", "INTERVAL", "TIMEOUT", "UP/DOWN", "DETECTION"];
    look.table(headings, rows.collect())
}

pub(super) fn attributes(result: &Attributes, look: &Look) -> String {
    let rows = result.attributes.iter().map(|attribute| [text(&attribute.key), text(&attribute.value)]);
    let mut shown = look.table(["KEY", "VALUE"], rows.collect());
    if let Some(ms) = result.detection_time_ms {
        shown.push_str(&format!("\nA dead target is detected within {}.\n", setting(ms)));
    }
    shown
}
