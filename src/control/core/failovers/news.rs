//! Records that begin and end, as they are told: to subscribers as events, and in the log with the number by which
//! `flowgate report` has the rest.

use crate::control::events::{Event, What};
use crate::control::failover::{EndReason, Failover, News};

/// Why a record ended. One that has ended says so.
fn why(record: &Failover) -> EndReason {
    record.ended.map_or(EndReason::Interrupted, |ended| ended.why)
}

/// The line of the log.
pub(super) fn log(news: &News, generation: u64) {
    match news {
        News::Started(record) => tracing::info!(
            name: "failover_started", id = record.id, cause = %record.cause,
            load_balancer = record.load_balancer.as_deref().unwrap_or_default(),
            target_group = record.target_group, target = %record.target, flows = record.flows.at_decision,
            generation, "a target is lost to its flows, and a failover record begins"
        ),
        News::Ended(record) => tracing::info!(
            name: "failover_ended", id = record.id, cause = %record.cause,
            load_balancer = record.load_balancer.as_deref().unwrap_or_default(),
            target_group = record.target_group, target = %record.target, flows = record.flows.at_decision,
            flows_reset = record.flows.reset, flows_moved = record.flows.moved, flows_left = record.flows.left,
            resets = record.resets.total, why = why(record).as_str(), generation, "a failover record ends"
        ),
    }
}

/// The event.
pub(super) fn told(news: &News) -> Event {
    match news {
        News::Started(record) => {
            let what = What::FailoverStarted {
                id: record.id,
                cause: record.cause,
                target_group: record.target_group.clone(),
                target: record.target,
                flows: record.flows.at_decision,
            };
            Event { at: record.decided, what }
        }
        News::Ended(record) => Event::now(What::FailoverEnded {
            id: record.id,
            cause: record.cause,
            target_group: record.target_group.clone(),
            target: record.target,
            why: why(record),
            flows: record.flows.at_decision,
            flows_reset: record.flows.reset,
            flows_moved: record.flows.moved,
            flows_left: record.flows.left,
        }),
    }
}
