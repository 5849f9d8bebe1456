//! How the node stands, in one sentence: for the service manager's status line and for whoever asks by `flowgate status`.

#![forbid(unsafe_code)]

use super::Overview;
use crate::control::health::HealthState;
use crate::control::shown::counted;

impl Overview {
    /// Whether the node's configuration has no data path: nothing is forwarded and no port is touched.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.workers.is_empty()
    }

    /// Whether there is a load balancer that leads to a target.
    #[must_use]
    pub fn leads_somewhere(&self) -> bool {
        self.load_balancers.iter().any(|balancer| balancer.target_group.is_some())
            && self
                .target_groups
                .iter()
                .any(|group| group.load_balancer.is_some() && !group.targets.is_empty())
    }

    /// How it stands, as a sentence without its full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.is_idle() {
            return "Idle: the configuration has no ports, and nothing is forwarded".to_owned();
        }
        let targets = self.target_groups.iter().filter(|group| group.load_balancer.is_some());
        let (mut all, mut healthy) = (0_u64, 0_u64);
        for target in targets.flat_map(|group| &group.targets) {
            all += 1;
            healthy += u64::from(target.state == HealthState::Healthy);
        }
        let size = format!(
            "{}, {}, {}",
            counted(self.workers.len() as u64, "worker"),
            counted(self.ports.len() as u64, "port"),
            counted(self.totals.flows, "flow")
        );
        if self.leads_somewhere() {
            format!("Forwards: {healthy} of {} healthy; {size}", counted(all, "target"))
        } else {
            format!("Drops what comes, as no load balancer leads to a target; {size}")
        }
    }
}
