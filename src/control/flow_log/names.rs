//! The names of what a worker knows by number. The control core makes them anew whenever they may be others; a report
//! that was made before names its target all the same, as those that are gone are remembered for a while.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::id::{EndpointId, TargetId};

/// How long a target that is gone is remembered: much longer than a report takes from a worker to its reader.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A target, and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetNames {
    /// The load balancer's name; empty if its group serves none.
    pub load_balancer: String,
    /// The target group's name.
    pub target_group: String,
    /// The target's address.
    pub target: Ipv4Addr,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    endpoints: Vec<String>,
    /// By slot and which holder of it; with when it was last known to be there.
    targets: HashMap<(TargetId, u16), (TargetNames, Instant)>,
}

impl Names {
    /// Names of endpoints in the order of their numbers, and of the targets that there are now.
    #[must_use]
    pub fn next(
        &self,
        endpoints: Vec<String>,
        targets: impl Iterator<Item = ((TargetId, u16), TargetNames)>,
        now: Instant,
    ) -> Names {
        let mut all = self.targets.clone();
        all.retain(|_, (_, seen)| now.saturating_duration_since(*seen) < REMEMBERED);
        all.extend(targets.map(|(slot, names)| (slot, (names, now))));
        Names { endpoints, targets: all }
    }

    /// An endpoint's name; empty if it is not known.
    pub fn endpoint(&self, id: EndpointId) -> &str {
        self.endpoints.get(id.index()).map_or("", String::as_str)
    }

    /// A target's names.
    pub fn target(&self, id: TargetId, generation: u16) -> Option<&TargetNames> {
        self.targets.get(&(id, generation)).map(|(names, _)| names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_gone_is_remembered_for_a_minute() {
        let names = |last: u8| TargetNames {
            load_balancer: "gw".to_owned(),
            target_group: "fw".to_owned(),
            target: Ipv4Addr::new(10, 0, 0, last),
        };
        let begun = Instant::now();
        let first =
            Names::default().next(vec!["lan".to_owned()], [((TargetId(0), 1), names(1))].into_iter(), begun);
        // Its slot has another holder.
        let second = first.next(vec![], [((TargetId(0), 2), names(2))].into_iter(), begun + REMEMBERED / 2);
        assert_eq!(second.target(TargetId(0), 1), Some(&names(1)));
        assert_eq!(second.target(TargetId(0), 2), Some(&names(2)));
        assert_eq!((first.endpoint(EndpointId(0)), second.endpoint(EndpointId(0))), ("lan", ""));
        let third = second.next(vec![], std::iter::empty(), begun + REMEMBERED);
        assert_eq!(third.target(TargetId(0), 1), None);
        assert_eq!(third.target(TargetId(0), 2), Some(&names(2)));
    }
}
