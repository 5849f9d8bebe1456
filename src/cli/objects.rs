//! Tables of load balancers, listeners, target groups, attributes and tags. Objects go by their names; the ARNs are in
//! the JSON.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::LoadBalancerFlag;
use super::client::CliError;
use super::table::{Look, name_of, number, setting, text};
use crate::control::model::IpAddressType;
use crate::control::socket::methods::attributes::Attributes;
use crate::control::socket::methods::balancers::{AvailabilityZone, Listeners, LoadBalancers};
use crate::control::socket::methods::groups::TargetGroups;
use crate::control::socket::methods::limits::AccountLimits;
use crate::control::socket::methods::rules::Rules;
use crate::control::socket::methods::subnets::{IpAddressTypeSet, Subnets};
use crate::control::socket::methods::tags::TagDescriptions;
use serde_json::{Value, json};

/// Nothing can be reserved; what is asked for must be there all the same.
pub(super) fn reservation(session: &mut Session, flags: LoadBalancerFlag) -> Result<(), CliError> {
    session.client.call("describe-load-balancer-attributes", &flags.params())?;
    let result = json!({"DecreaseRequestsRemaining": 0, "CapacityReservationState": []});
    session
        .output
        .emit(result, |_: &Value, _| "Nothing is reserved: this node gives all that it has.\n".to_owned())
}

pub(super) fn load_balancers(result: &LoadBalancers, look: &Look) -> String {
    let rows = result.load_balancers.iter().map(|balancer| {
        let zones: Vec<String> = balancer.availability_zones.iter().map(place).collect();
        [
            text(&balancer.load_balancer_name),
            text(&balancer.state.code),
            text(inside(balancer.ip_address_type)),
            text(if zones.is_empty() { "all".to_owned() } else { zones.join(" ") }),
        ]
    });
    look.table(["LOAD BALANCER", "STATE", "IP", "ZONES"], rows.collect())
}

/// A zone, with the subnet that stands for it.
fn place(zone: &AvailabilityZone) -> String {
    match &zone.subnet_id {
        Some(subnet) => format!("{} ({subnet})", zone.zone_name),
        None => zone.zone_name.clone(),
    }
}

/// What may travel inside GENEVE.
fn inside(kind: IpAddressType) -> &'static str {
    match kind {
        IpAddressType::Ipv4 => "ipv4",
        IpAddressType::Dualstack => "dualstack",
    }
}

pub(super) fn subnets(result: &Subnets, _: &Look) -> String {
    let places: Vec<String> = result.availability_zones.iter().map(place).collect();
    let places = if places.is_empty() { "every zone".to_owned() } else { places.join(", ") };
    format!(
        "It serves {places} and lets {} through.\n\nThe configuration's generation is {}.\n",
        inside(result.ip_address_type),
        result.generation
    )
}

pub(super) fn ip_address_type(result: &IpAddressTypeSet, _: &Look) -> String {
    let (kind, generation) = (inside(result.ip_address_type), result.generation);
    format!("It lets {kind} through.\n\nThe configuration's generation is {generation}.\n")
}

pub(super) fn rules(result: &Rules, look: &Look) -> String {
    let rows = result.rules.iter().flat_map(|rule| {
        rule.actions.iter().map(move |action| {
            let group = name_of(action.target_group().unwrap_or("-"));
            [text(name_of(&rule.rule_arn)), text(&rule.priority), text(&action.kind), text(group)]
        })
    });
    look.table(["LISTENER OF", "PRIORITY", "ACTION", "TARGET GROUP"], rows.collect())
}

pub(super) fn tags(result: &TagDescriptions, look: &Look) -> String {
    let rows = result.tag_descriptions.iter().flat_map(|described| {
        let (kind, name) = (kind_of(&described.resource_arn), name_of(&described.resource_arn));
        described.tags.iter().map(move |tag| [text(kind), text(name), text(&tag.key), text(&tag.value)])
    });
    look.table(["OF", "NAME", "KEY", "VALUE"], rows.collect())
}

/// What an ARN is of.
fn kind_of(arn: &str) -> &str {
    match arn.rsplit(':').next().and_then(|path| path.split('/').next()) {
        Some("loadbalancer") => "load balancer",
        Some("targetgroup") => "target group",
        Some(other) => other,
        None => arn,
    }
}

pub(super) fn limits(result: &AccountLimits, look: &Look) -> String {
    let rows = result.limits.iter().map(|limit| [text(&limit.name), number(&limit.max)]);
    look.table(["LIMIT", "MAX"], rows.collect())
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
