//! Tells what happened, and keeps count of it: from two counts a subscriber that lost its connection knows how much it
//! missed.

#![forbid(unsafe_code)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::broadcast::{self, Receiver, Sender};

use super::events::{Event, EventKind};

/// So many events of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct EventCounts {
    /// Of the kind `health`.
    pub health: u64,
    /// Of the kind `resets`.
    pub resets: u64,
    /// Of the kind `drains`.
    pub drains: u64,
    /// Of the kind `failovers`.
    pub failovers: u64,
    /// Of the kind `config`.
    pub config: u64,
    /// Of the kind `flow-log`.
    pub flow_log: u64,
    /// Of the kind `faults`.
    pub faults: u64,
}

impl EventCounts {
    /// Those of these kinds together; none named: of all.
    pub fn of(&self, kinds: &[EventKind]) -> u64 {
        let wanted = |kind: EventKind| kinds.is_empty() || kinds.contains(&kind);
        let all = [
            (EventKind::Health, self.health),
            (EventKind::Resets, self.resets),
            (EventKind::Drains, self.drains),
            (EventKind::Failovers, self.failovers),
            (EventKind::Config, self.config),
            (EventKind::FlowLog, self.flow_log),
            (EventKind::Faults, self.faults),
        ];
        all.into_iter().filter(|(kind, _)| wanted(*kind)).map(|(_, count)| count).sum()
    }
}

/// How many events this process has told, whichever control core did.
#[derive(Debug, Default)]
pub struct Told([AtomicU64; EventKind::KINDS]);

impl Told {
    fn count(&self, kind: EventKind) {
        if let Some(count) = self.0.get(kind as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As they stand.
    pub fn counts(&self) -> EventCounts {
        let of = |kind: EventKind| self.0.get(kind as usize).map_or(0, |count| count.load(Ordering::Relaxed));
        EventCounts {
            health: of(EventKind::Health),
            resets: of(EventKind::Resets),
            drains: of(EventKind::Drains),
            failovers: of(EventKind::Failovers),
            config: of(EventKind::Config),
            flow_log: of(EventKind::FlowLog),
            faults: of(EventKind::Faults),
        }
    }
}

/// Where events go.
pub struct Teller {
    listeners: Sender<Event>,
    told: Arc<Told>,
}

impl Teller {
    /// Keeps `queue` events for a listener that is slow, and counts on in `told`.
    pub fn new(queue: usize, told: Arc<Told>) -> Teller {
        let (listeners, _) = broadcast::channel(queue);
        Teller { listeners, told }
    }

    /// Tells an event.
    pub fn tell(&self, event: Event) {
        self.told.count(event.what.kind());
        // An error means that nobody listens.
        self.listeners.send(event).ok();
    }

    /// Hears what is told from now on.
    pub fn listen(&self) -> Receiver<Event> {
        self.listeners.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::What;

    #[test]
    fn events_are_counted_by_kind_whoever_listens_and_on_from_what_was_told_before() {
        let told = Arc::new(Told::default());
        let teller = Teller::new(4, Arc::clone(&told));
        teller.tell(Event::now(What::ConfigChanged { generation: 1 }));
        drop(teller);
        let teller = Teller::new(4, Arc::clone(&told));
        let mut hears = teller.listen();
        teller.tell(Event::now(What::ConfigChanged { generation: 2 }));
        teller.tell(Event::now(What::PortUp { port: "left".to_owned() }));
        assert_eq!(hears.try_recv().unwrap().what, What::ConfigChanged { generation: 2 });
        let counts = told.counts();
        assert_eq!(counts, EventCounts { config: 2, faults: 1, ..EventCounts::default() });
        assert_eq!(
            (counts.of(&[]), counts.of(&[EventKind::Config]), counts.of(&[EventKind::Drains])),
            (3, 2, 0)
        );
    }
}
