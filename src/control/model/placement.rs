//! Where a load balancer serves: in every zone, in some, or in those of the subnets that it was created
//! with. This node has no subnets; it keeps and shows those that AWS's tools speak of, and goes by the
//! zone that each stands for, where it knows one.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{ErrorCode, ModelError};
use super::name::{ForeignId, Zone};

/// The zones and subnets of a load balancer. None: it serves every zone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement(Vec<Place>);

/// A zone, a subnet, or a subnet in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The zone; none for a subnet of which nobody told which zone it stands for.
    pub zone: Option<Zone>,
    /// The subnet, if it is one.
    pub subnet: Option<ForeignId>,
}

impl Placement {
    /// Every zone.
    #[must_use]
    pub fn everywhere() -> Placement {
        Placement::default()
    }

    /// In `zones`; in every zone if there are none.
    #[must_use]
    pub fn of_zones(zones: impl IntoIterator<Item = Zone>) -> Placement {
        let mut places: Vec<_> =
            zones.into_iter().map(|zone| Place { zone: Some(zone), subnet: None }).collect();
        places.sort();
        places.dedup();
        Placement(places)
    }

    /// In the zones that `subnets` stand for; in every zone if nobody told which.
    ///
    /// # Errors
    /// `InvalidConfigurationRequest` for two subnets of one zone, for a subnet that is given twice, and where
    /// the zones of some are known and those of others are not; the path is `[INDEX]`.
    pub fn of_subnets(subnets: Vec<(ForeignId, Option<Zone>)>) -> Result<Placement, ModelError> {
        let mut places: BTreeMap<ForeignId, Option<Zone>> = BTreeMap::new();
        let mut zones = BTreeSet::new();
        for (position, (id, zone)) in subnets.into_iter().enumerate() {
            let refused = |message: String| {
                let error = ModelError::new(ErrorCode::InvalidConfigurationRequest, message);
                Err(error.under(&format!("[{position}]")))
            };
            if places.contains_key(&id) {
                return refused(format!("The subnet '{id}' is given twice"));
            }
            if zone.as_ref().is_some_and(|zone| !zones.insert(zone.clone())) {
                return refused(
                    "A load balancer cannot be attached to multiple subnets in the same Availability Zone"
                        .to_owned(),
                );
            }
            if places.first_key_value().is_some_and(|(_, first)| first.is_some() != zone.is_some()) {
                return refused(format!(
                    "The zones of all subnets of a load balancer must be known, or of none; that of '{id}' is {}",
                    if zone.is_some() { "known" } else { "not" }
                ));
            }
            places.insert(id, zone);
        }
        let place = |(id, zone)| Place { zone, subnet: Some(id) };
        let mut places: Vec<Place> = places.into_iter().map(place).collect();
        places.sort();
        Ok(Placement(places))
    }

    /// Whether targets of `zone` are in it.
    #[must_use]
    pub fn serves(&self, zone: &Zone) -> bool {
        // Either every place has a zone or none has.
        self.0.first().is_none_or(|first| first.zone.is_none())
            || self.0.iter().any(|place| place.zone.as_ref() == Some(zone))
    }

    /// The zones and subnets that were given, in the order of their names.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::try_from(name.to_owned()).expect("a zone")
    }

    fn subnets(given: &[(&str, Option<&str>)]) -> Result<Placement, ModelError> {
        let subnet = |(id, name): &(&str, Option<&str>)| {
            (ForeignId::try_from((*id).to_owned()).expect("an id"), name.map(zone))
        };
        Placement::of_subnets(given.iter().map(subnet).collect())
    }

    // O-1
    #[test]
    fn what_names_no_zone_serves_every_zone() {
        let unmapped = subnets(&[("subnet-1", None), ("subnet-2", None)]).expect("allowed");
        for everywhere in [Placement::everywhere(), Placement::of_zones([]), unmapped] {
            assert!(everywhere.serves(&zone("a")), "{everywhere:?}");
        }
        let mapped = subnets(&[("subnet-2", Some("b")), ("subnet-1", Some("a"))]).expect("allowed");
        for some in [Placement::of_zones([zone("b"), zone("a"), zone("b")]), mapped] {
            assert_eq!(some.places().len(), 2);
            assert!(some.serves(&zone("a")) && some.serves(&zone("b")) && !some.serves(&zone("c")));
        }
    }

    #[test]
    fn the_order_of_subnets_makes_no_difference() {
        let one = subnets(&[("subnet-1", Some("a")), ("subnet-2", Some("b"))]);
        assert_eq!(one, subnets(&[("subnet-2", Some("b")), ("subnet-1", Some("a"))]));
    }

    #[test]
    fn subnets_that_contradict_each_other_are_refused() {
        for (given, at, message) in [
            (
                [("subnet-1", Some("a")), ("subnet-2", Some("a"))],
                "[1]",
                "A load balancer cannot be attached to multiple subnets in the same Availability Zone",
            ),
            ([("subnet-1", None), ("subnet-1", None)], "[1]", "The subnet 'subnet-1' is given twice"),
            (
                [("subnet-1", Some("a")), ("subnet-2", None)],
                "[1]",
                "The zones of all subnets of a load balancer must be known, or of none; that of 'subnet-2' is not",
            ),
        ] {
            let error = subnets(&given).expect_err(message);
            assert_eq!(error.code, ErrorCode::InvalidConfigurationRequest);
            assert_eq!((error.path.as_deref(), error.message.as_str()), (Some(at), message));
        }
    }
}
