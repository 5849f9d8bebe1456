//! The node of `control/troubles/fixture` as the view is told of it, and events.

use crate::control::events::{Event, ResetTrigger, What};
use crate::control::health::{HealthState, ReasonCode};
use crate::control::socket::views::Overview;
pub(super) use crate::control::troubles::fixture::{at, well};
use crate::control::troubles::fixture::{bare, judged};
use std::net::Ipv4Addr;

/// The node as the `reading`th look finds it.
pub(in crate::cli) fn overview(reading: u64) -> Overview {
    judged((reading.saturating_sub(59).max(1)..=reading).map(bare))
}

pub(super) fn died(reading: u64) -> Event {
    let what = What::TargetHealthChanged {
        target_group: "firewalls".to_owned(),
        target: Ipv4Addr::new(10, 0, 0, 2),
        from: HealthState::Healthy,
        to: HealthState::Unhealthy,
        reason: Some(ReasonCode::Timeout),
        description: "Request timed out".to_owned(),
    };
    Event { at: at(reading), what }
}

pub(super) fn resets(last: u8, count: u64, reading: u64) -> Event {
    let what = What::FlowsReset {
        load_balancer: "inspection".to_owned(),
        target_group: "firewalls".to_owned(),
        target: Some(Ipv4Addr::new(10, 0, 0, last)),
        trigger: ResetTrigger::Unhealthy,
        count,
    };
    Event { at: at(reading), what }
}

pub(super) fn one_reset(reading: u64) -> Event {
    let what = What::TcpReset {
        endpoint: "edge".to_owned(),
        target_group: "firewalls".to_owned(),
        target: Some(Ipv4Addr::new(10, 0, 0, 2)),
        trigger: ResetTrigger::Unhealthy,
        sent_to: Ipv4Addr::new(192, 0, 2, 1).into(),
        sent_to_port: 40_000,
        peer: Ipv4Addr::new(198, 51, 100, 1).into(),
        peer_port: 443,
    };
    Event { at: at(reading), what }
}
