//! What is other in one state than in the one before, each difference as one sentence: for an operator
//! to read before a document is applied, and afterwards in the history.
//!
//! Two states between which there is no difference mean the same: only the generation, and attributes that
//! were given their default, may tell them apart.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::attributes::AttributeSet;
use super::change::TargetChange;
use super::health_check::{HealthCheck, HealthCheckPort};
use super::name::{ForeignId, Name, Zone};
use super::objects::{IpAddressType, Listener, LoadBalancer, State, Target, TargetGroup};
use super::placement::Placement;
use super::registry::ObjectKind;
use super::tags::Tags;

/// One thing that is other than it was. Displays as one sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Of what kind of object.
    pub kind: ObjectKind,
    /// The object's name (a listener's: its load balancer's).
    pub name: Name,
    /// What is other.
    pub what: Differs,
}

/// What can be other about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differs {
    /// It is new. What it has besides the defaults follows.
    Created,
    /// It is gone, with all that was in it.
    Deleted,
    /// It is another one of the same name: its ARN is another.
    Replaced,
    /// A setting has another value.
    Setting {
        /// Its name in the objects document or, if it is an attribute, its key.
        setting: &'static str,
        /// The value before; none where the object is new.
        from: Option<String>,
        /// The value now.
        to: String,
    },
    /// A tag came, went or has another value.
    Tag {
        /// Its key.
        key: String,
        /// The value before; none: it is new.
        from: Option<String>,
        /// The value now; none: it is gone.
        to: Option<String>,
    },
    /// A target came, went or is another.
    Target {
        /// Its address.
        address: Ipv4Addr,
        /// What it was; none: it is new in its group.
        was: Option<Target>,
        /// What it is; none: it is no longer of the group.
        is: Option<Target>,
    },
}

/// What is other in `new` than in `old`: load balancers first, each kind in the order of the names.
#[must_use]
pub fn difference(old: &State, new: &State) -> Vec<Difference> {
    let mut found = Differences(Vec::new());
    for (name, was, is) in side_by_side(&old.load_balancers, &new.load_balancers) {
        found.load_balancer(name, was.map(AsRef::as_ref), is.map(AsRef::as_ref));
    }
    for (name, was, is) in side_by_side(&old.target_groups, &new.target_groups) {
        // A group that no change touched is the very same.
        if was.zip(is).is_none_or(|(was, is)| !Arc::ptr_eq(was, is)) {
            found.target_group(name, was.map(AsRef::as_ref), is.map(AsRef::as_ref));
        }
    }
    found.0
}

struct Differences(Vec<Difference>);

impl Differences {
    fn load_balancer(&mut self, name: &Name, was: Option<&LoadBalancer>, is: Option<&LoadBalancer>) {
        let kind = ObjectKind::LoadBalancer;
        let Some(is) = is else { return self.add(kind, name, Differs::Deleted) };
        let LoadBalancer {
            name: _,
            id,
            ip_address_type,
            placement,
            // It goes with the id.
            created_unix_ms: _,
            tags,
            attributes,
            listener,
        } = is;
        match was {
            None => self.add(kind, name, Differs::Created),
            Some(was) if was.id != *id => self.add(kind, name, Differs::Replaced),
            Some(_) => {}
        }
        let types = (was.map(|was| was.ip_address_type), *ip_address_type, IpAddressType::default());
        self.setting(kind, name, "ip_address_type", types, type_text);
        let everywhere = Placement::everywhere();
        let places = (was.map(|was| &was.placement), placement, &everywhere);
        self.setting(kind, name, "zones", places, listed);
        self.tags(kind, name, was.map(|was| &was.tags), tags);
        self.attributes(kind, name, was.map(|was| &was.attributes), attributes);
        self.listener(name, was.and_then(|was| was.listener.as_ref()), listener.as_ref());
    }

    fn listener(&mut self, name: &Name, was: Option<&Listener>, is: Option<&Listener>) {
        let kind = ObjectKind::Listener;
        let Some(is) = is else {
            if was.is_some() {
                self.add(kind, name, Differs::Deleted);
            }
            return;
        };
        let Listener { id, target_group, tags, attributes } = is;
        match was {
            None => self.add(kind, name, Differs::Created),
            Some(was) if was.id != *id => self.add(kind, name, Differs::Replaced),
            Some(_) => {}
        }
        let from = was.map(|was| &was.target_group);
        if from != Some(target_group) {
            let from = from.map(ToString::to_string);
            let to = target_group.to_string();
            self.add(kind, name, Differs::Setting { setting: "target_group", from, to });
        }
        self.tags(kind, name, was.map(|was| &was.tags), tags);
        self.attributes(kind, name, was.map(|was| &was.attributes), attributes);
    }

    fn target_group(&mut self, name: &Name, was: Option<&TargetGroup>, is: Option<&TargetGroup>) {
        let kind = ObjectKind::TargetGroup;
        let Some(is) = is else { return self.add(kind, name, Differs::Deleted) };
        let TargetGroup { name: _, id, vpc_id, tags, health_check, attributes, targets } = is;
        match was {
            None => self.add(kind, name, Differs::Created),
            Some(was) if was.id != *id => self.add(kind, name, Differs::Replaced),
            Some(_) => {}
        }
        let vpc = (was.map(|was| was.vpc_id.as_ref()), vpc_id.as_ref(), None);
        let text = |id: Option<&ForeignId>| id.map_or("none".to_owned(), ToString::to_string);
        self.setting(kind, name, "vpc_id", vpc, text);
        self.tags(kind, name, was.map(|was| &was.tags), tags);
        self.health_check(name, was.map(|was| &was.health_check), health_check);
        self.attributes(kind, name, was.map(|was| &was.attributes), attributes);
        let none = BTreeMap::new();
        for (address, was, is) in side_by_side(was.map_or(&none, |was| &was.targets), targets) {
            if was != is {
                let (address, was, is) = (*address, was.cloned(), is.cloned());
                self.add(kind, name, Differs::Target { address, was, is });
            }
        }
    }

    fn health_check(&mut self, name: &Name, was: Option<&HealthCheck>, is: &HealthCheck) {
        let default = HealthCheck::default();
        let HealthCheck {
            probe,
            port,
            interval_seconds,
            timeout_seconds,
            healthy_threshold,
            unhealthy_threshold,
        } = is;
        let kind = ObjectKind::TargetGroup;
        let path = |check: &HealthCheck| check.probe.question().map(|(path, _)| path.to_owned());
        let matcher = |check: &HealthCheck| check.probe.question().map(|(_, matcher)| matcher.to_string());
        let of = |of: fn(&HealthCheck) -> u32| (was.map(of), of(&default));
        let protocols = (was.map(|was| was.probe.protocol()), probe.protocol(), default.probe.protocol());
        self.setting(kind, name, "health_check.protocol", protocols, str::to_owned);
        // Where nothing is asked for any more there is nothing to tell about it.
        for (setting, from, to) in [
            ("health_check.path", was.map(path), path(is)),
            ("health_check.matcher", was.map(matcher), matcher(is)),
        ] {
            let from = from.map(Option::unwrap_or_default);
            let to = to.filter(|to| from.as_deref() != Some(to.as_str()));
            if let Some(to) = to {
                let from = from.filter(|from| !from.is_empty());
                self.add(kind, name, Differs::Setting { setting, from, to });
            }
        }
        let ports = (was.map(|was| was.port), *port, default.port);
        self.setting(kind, name, "health_check.port", ports, port_text);
        for (setting, (was, default), is) in [
            ("health_check.interval_seconds", of(|check| check.interval_seconds), *interval_seconds),
            ("health_check.timeout_seconds", of(|check| check.timeout_seconds), *timeout_seconds),
            (
                "health_check.healthy_threshold",
                of(|check| check.healthy_threshold.into()),
                (*healthy_threshold).into(),
            ),
            (
                "health_check.unhealthy_threshold",
                of(|check| check.unhealthy_threshold.into()),
                (*unhealthy_threshold).into(),
            ),
        ] {
            self.setting(kind, name, setting, (was, is, default), |number| number.to_string());
        }
    }

    fn attributes(&mut self, kind: ObjectKind, name: &Name, was: Option<&AttributeSet>, is: &AttributeSet) {
        for (attribute, value) in is.describe() {
            let values = (was.map(|was| was.get(attribute)), value, attribute.default);
            self.setting(kind, name, attribute.key, values, |value| value.to_string());
        }
    }

    fn tags(&mut self, kind: ObjectKind, name: &Name, was: Option<&Tags>, is: &Tags) {
        let map = |tags: &Tags| -> BTreeMap<String, String> {
            tags.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        for (key, from, to) in side_by_side(&was.map(map).unwrap_or_default(), &map(is)) {
            if from != to {
                let (key, from, to) = (key.clone(), from.cloned(), to.cloned());
                self.add(kind, name, Differs::Tag { key, from, to });
            }
        }
    }

    /// A setting by the values that it has had, if there was an object, that it has, and that it has by
    /// default.
    fn setting<T: PartialEq>(
        &mut self,
        kind: ObjectKind,
        name: &Name,
        setting: &'static str,
        (was, is, default): (Option<T>, T, T),
        text: impl Fn(T) -> String,
    ) {
        if is != *was.as_ref().unwrap_or(&default) {
            let (from, to) = (was.map(&text), text(is));
            self.add(kind, name, Differs::Setting { setting, from, to });
        }
    }

    fn add(&mut self, kind: ObjectKind, name: &Name, what: Differs) {
        self.0.push(Difference { kind, name: name.clone(), what });
    }
}

/// Every key of either map, with what each has under it.
fn side_by_side<'a, K: Ord, V>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> {
    let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    keys.into_iter().map(move |key| (key, old.get(key), new.get(key)))
}

/// Zones and subnets, each subnet with the zone that it stands for.
fn listed(placement: &Placement) -> String {
    let places = placement.places().iter().map(|place| match (&place.zone, &place.subnet) {
        (Some(zone), Some(subnet)) => format!("{zone} ({subnet})"),
        (Some(zone), None) => zone.to_string(),
        (None, Some(subnet)) => subnet.to_string(),
        (None, None) => Zone::ALL.to_owned(),
    });
    let names: Vec<String> = places.collect();
    if names.is_empty() { Zone::ALL.to_owned() } else { names.join(", ") }
}

fn type_text(kind: IpAddressType) -> String {
    match kind {
        IpAddressType::Ipv4 => "ipv4".to_owned(),
        IpAddressType::Dualstack => "dualstack".to_owned(),
    }
}

fn port_text(port: HealthCheckPort) -> String {
    match port {
        HealthCheckPort::Port(number) => number.to_string(),
        HealthCheckPort::TrafficPort => HealthCheckPort::TRAFFIC_PORT.to_owned(),
    }
}

/// What became of a target, by what it was and is; none where it is as it was.
pub(super) fn target_change(was: Option<&Target>, is: Option<&Target>) -> Option<TargetChange> {
    match (was, is) {
        (None, None) => None,
        (None, Some(_)) => Some(TargetChange::Registered),
        (Some(_), None) => Some(TargetChange::Removed),
        (Some(was), Some(is)) => match (was.is_registered(), is.is_registered()) {
            (true, false) => Some(TargetChange::Draining),
            (false, true) => Some(TargetChange::Reregistered),
            _ => (was != is).then_some(TargetChange::Updated),
        },
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, name, what } = self;
        match kind {
            ObjectKind::Listener => write!(f, "Listener of load balancer '{name}'")?,
            ObjectKind::LoadBalancer | ObjectKind::TargetGroup => write!(f, "{} '{name}'", kind.noun())?,
        }
        match what {
            Differs::Created => f.write_str(" is created"),
            Differs::Deleted => f.write_str(" is deleted"),
            Differs::Replaced => f.write_str(" is replaced by another of the same name, with another ARN"),
            Differs::Setting { setting, from: Some(from), to } => {
                write!(f, ": '{setting}' changes from '{from}' to '{to}'")
            }
            Differs::Setting { setting, from: None, to } => write!(f, ": '{setting}' is '{to}'"),
            Differs::Tag { key, from: Some(from), to: Some(to) } => {
                write!(f, ": tag '{key}' changes from '{from}' to '{to}'")
            }
            Differs::Tag { key, from: _, to: Some(to) } => write!(f, ": tag '{key}' is '{to}'"),
            Differs::Tag { key, .. } => write!(f, ": tag '{key}' is taken away"),
            Differs::Target { address, was, is } => {
                write!(f, ": target {address} ")?;
                of_target(f, was.as_ref(), is.as_ref())
            }
        }
    }
}

/// What became of a target, to follow its address.
fn of_target(f: &mut fmt::Formatter<'_>, was: Option<&Target>, is: Option<&Target>) -> fmt::Result {
    match (target_change(was, is), was, is) {
        (Some(TargetChange::Registered), _, Some(is)) => {
            f.write_str(if is.is_registered() { "is registered" } else { "is draining" })?;
            weight_and_zone(f, is)
        }
        (Some(TargetChange::Reregistered), _, Some(is)) => {
            f.write_str("was draining and is registered again")?;
            weight_and_zone(f, is)
        }
        (Some(TargetChange::Draining), ..) => f.write_str("is deregistered and drains"),
        (Some(TargetChange::Removed), Some(was), _) if was.is_registered() => f.write_str("is removed"),
        (Some(TargetChange::Removed), ..) => f.write_str("has drained and is removed"),
        (_, Some(was), Some(is)) => {
            let mut changes = Vec::new();
            if was.weight != is.weight {
                changes.push(format!("weight from {} to {}", was.weight.get(), is.weight.get()));
            }
            if was.zone != is.zone {
                changes.push(format!("zone from '{}' to '{}'", zone_text(was), zone_text(is)));
            }
            if was.registration != is.registration {
                changes.push("the start of its drain".to_owned());
            }
            write!(f, "changes: {}", changes.join(", "))
        }
        _ => Ok(()),
    }
}

/// What a target has besides the defaults.
fn weight_and_zone(f: &mut fmt::Formatter<'_>, target: &Target) -> fmt::Result {
    let weight = (target.weight.get() != 1).then(|| format!("weight {}", target.weight.get()));
    let zone = target.zone.as_ref().map(|zone| format!("zone '{zone}'"));
    let parts: Vec<String> = weight.into_iter().chain(zone).collect();
    if parts.is_empty() { Ok(()) } else { write!(f, " ({})", parts.join(", ")) }
}

fn zone_text(target: &Target) -> &str {
    target.zone.as_ref().map_or(Zone::ALL, Zone::as_str)
}
