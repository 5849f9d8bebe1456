//! What happened, with a number to each event: the newest in a journal out of which streams are sent, and the last
//! hour's in a timeline for whoever opens the page. Pure: events go in.
//!
//! The broadcast that subscribers hear has no memory; a browser that lost its connection asks for what came after
//! a number. The journal is bounded in bytes. The timeline is bounded for each kind of event by itself, so that a flood
//! of resets pushes no change of health out, and resets of one target for one reason make one entry as
//! long as they go on.

#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};

use hyper::body::Bytes;
use serde::Serialize;

use crate::control::events::{Event, EventKind, Timestamp, What};

/// Bytes of events that a stream may be behind: over a second of ten thousand events a second.
const JOURNAL_BYTES: usize = 4 << 20;
/// Entries of the timeline, of each kind.
const KEPT: usize = 512;
/// Single resets that the timeline has with their flow.
const KEPT_SAMPLES: usize = 128;
/// Entries older than this are forgotten.
const HOUR_MS: i64 = 3_600_000;
/// Resets that come no later than this after those before belong to the same entry ...
const SAME_MS: i64 = 5_000;
/// ... unless it is so long already.
const LONGEST_MS: i64 = 60_000;

/// Where a reader is: the number of the last event that it has, of the daemon that started at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// When the daemon started: its numbers are its own.
    pub boot: i64,
    /// The event's number.
    pub event: u64,
}

impl Place {
    /// From an id as streams have it: `BOOT-EVENT`.
    pub fn parse(text: &str) -> Option<Place> {
        let (boot, event) = text.split_once('-')?;
        Some(Place { boot: boot.parse().ok()?, event: event.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.boot, self.event)
    }
}

/// Events and their numbers.
#[derive(Debug)]
pub struct Timeline {
    boot: i64,
    /// The number of the last event; 0 before the first.
    last: u64,
    journal: VecDeque<Bytes>,
    journal_bytes: usize,
    kept: HashMap<Kept, VecDeque<Entry>>,
    forgotten: u64,
}

/// The kinds that are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kept {
    Kind(EventKind),
    /// Single resets: a sample.
    Sampled,
    Lost,
}

/// Something that happened, and how long it went on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Entry {
    /// The number of its last event.
    pub number: u64,
    /// The first event; of resets that went on, with the count of them all.
    #[serde(flatten)]
    pub event: Happened,
    /// When the last event of it happened.
    pub until: Timestamp,
}

/// What an entry tells of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Happened {
    /// An event.
    Event(Event),
    /// Events that came too fast to be kept.
    Lost(Lost),
}

/// Events that nobody can be told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Lost {
    /// When that was noticed.
    pub at: Timestamp,
    /// `EventsLost`.
    pub event: &'static str,
    /// How many.
    pub count: u64,
}

/// The last hour.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TimelineView {
    /// From where a stream goes on.
    pub last_event_id: String,
    /// The oldest first.
    pub entries: Vec<Entry>,
    /// Entries of this hour that there was no room for.
    pub forgotten: u64,
}

/// What a reader has not had yet.
#[derive(Debug, PartialEq)]
pub struct News {
    /// Server-sent events.
    pub bytes: Bytes,
    /// Where the reader is when it has them.
    pub place: Place,
}

impl Timeline {
    /// Of a daemon that started at `boot`.
    pub fn new(boot: Timestamp) -> Timeline {
        Timeline {
            boot: boot.unix_ms(),
            last: 0,
            journal: VecDeque::new(),
            journal_bytes: 0,
            kept: HashMap::new(),
            forgotten: 0,
        }
    }

    /// The place of the last event.
    pub fn end(&self) -> Place {
        Place { boot: self.boot, event: self.last }
    }

    /// Takes an event.
    pub fn take(&mut self, event: Event) {
        let at = event.at;
        self.write(&Happened::Event(event), at);
    }

    /// Takes note that `count` events came too fast.
    pub fn lose(&mut self, count: u64, at: Timestamp) {
        self.write(&Happened::Lost(Lost { at, event: "EventsLost", count }), at);
    }

    fn write(&mut self, happened: &Happened, at: Timestamp) {
        self.last += 1;
        // What derives its JSON from such types cannot fail.
        let json = serde_json::to_string(happened).unwrap_or_default();
        let frame = Bytes::from(format!("id: {}\nevent: happened\ndata: {json}\n\n", self.end()));
        self.journal_bytes += frame.len();
        self.journal.push_back(frame);
        while self.journal_bytes > JOURNAL_BYTES {
            let Some(oldest) = self.journal.pop_front() else { break };
            self.journal_bytes -= oldest.len();
        }
        self.keep(happened, at);
    }

    fn keep(&mut self, happened: &Happened, at: Timestamp) {
        let number = self.last;
        let kind = Kept::of(happened);
        let entries = self.kept.entry(kind).or_default();
        while entries.front().is_some_and(|entry| at.unix_ms() - entry.until.unix_ms() > HOUR_MS) {
            entries.pop_front();
        }
        // The latest entries alone: an older one of the same target would be told out of its place.
        let near =
            entries.iter_mut().rev().take_while(|entry| at.unix_ms() - entry.until.unix_ms() <= SAME_MS);
        for entry in near.take(64) {
            if entry.goes_on(happened, at) {
                entry.number = number;
                entry.until = at;
                return;
            }
        }
        if entries.len() == kind.room() {
            entries.pop_front();
            if kind != Kept::Sampled {
                self.forgotten += 1;
            }
        }
        entries.push_back(Entry { number, event: happened.clone(), until: at });
    }

    /// The last hour's entries.
    pub fn view(&self, now: Timestamp) -> TimelineView {
        let recent = |entry: &&Entry| now.unix_ms() - entry.until.unix_ms() <= HOUR_MS;
        let mut entries: Vec<Entry> = self.kept.values().flatten().filter(recent).cloned().collect();
        entries.sort_by_key(|entry| (entry.until, entry.number));
        TimelineView { last_event_id: self.end().to_string(), entries, forgotten: self.forgotten }
    }

    /// What came after `place`, at most `most` bytes and one event; `None` if nothing did. Where events are not
    /// there any more, or `place` is another daemon's, that is told first.
    pub fn after(&self, place: Place, most: usize) -> Option<News> {
        let same = place.boot == self.boot && place.event <= self.last;
        let oldest = self.last + 1 - self.journal.len() as u64;
        let from = if same { place.event + 1 } else { oldest };
        let missed = oldest.saturating_sub(from);
        let from = from.max(oldest);
        if same && missed == 0 && from > self.last {
            return None;
        }
        let mut text = Vec::new();
        if missed > 0 || !same {
            // No id: whoever breaks off here is told again.
            let told =
                if same { format!(r#"{{"Missed":{missed}}}"#) } else { r#"{"Restarted":true}"#.to_owned() };
            text.extend_from_slice(format!("event: gap\ndata: {told}\n\n").as_bytes());
        }
        let mut event = from - 1;
        let skip = usize::try_from(from - oldest).unwrap_or(usize::MAX);
        for frame in self.journal.iter().skip(skip) {
            if !text.is_empty() && text.len() + frame.len() > most {
                break;
            }
            text.extend_from_slice(frame);
            event += 1;
        }
        Some(News { bytes: Bytes::from(text), place: Place { boot: self.boot, event } })
    }
}

impl Entry {
    /// Whether `next` is more of this entry, and if so adds it.
    fn goes_on(&mut self, next: &Happened, at: Timestamp) -> bool {
        let (Happened::Event(before), Happened::Event(next)) = (&mut self.event, next) else { return false };
        if at.unix_ms() - before.at.unix_ms() > LONGEST_MS {
            return false;
        }
        match (&mut before.what, &next.what) {
            (
                What::FlowsReset { load_balancer, target_group, target, trigger, count },
                What::FlowsReset {
                    load_balancer: next_balancer,
                    target_group: next_group,
                    target: next_target,
                    trigger: next_trigger,
                    count: more,
                },
            ) if (&*load_balancer, &*target_group, *target, *trigger)
                == (next_balancer, next_group, *next_target, *next_trigger) =>
            {
                *count = count.saturating_add(*more);
                true
            }
            _ => false,
        }
    }
}

impl Kept {
    fn of(happened: &Happened) -> Kept {
        match happened {
            Happened::Lost(_) => Kept::Lost,
            Happened::Event(Event { what: What::TcpReset { .. }, .. }) => Kept::Sampled,
            Happened::Event(event) => Kept::Kind(event.what.kind()),
        }
    }

    fn room(self) -> usize {
        if self == Kept::Sampled { KEPT_SAMPLES } else { KEPT }
    }
}

#[cfg(test)]
mod tests;
