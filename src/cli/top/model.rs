//! What the view knows and where its operator is in it. Pure: readings, events and keys go in, and what is to be
//! done about it (an [`Order`]) comes out. What the screen shows is a function of this alone.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use super::keys::Key;
use super::reading::Reading;
use super::rows::{self, Row, Sort};
use crate::control::events::{Event, Timestamp, What};
use crate::control::failover::Failover;
use crate::control::health::TargetKey;
use crate::control::socket::views::{Overview, Plan};
use std::collections::VecDeque;

/// Events kept: more than a screen has lines, and those of a target in a crowd.
const EVENTS: usize = 500;
/// The longest filter.
const FILTER: usize = 40;

/// All of it.
pub(super) struct Model {
    /// What is shown.
    pub(super) reading: Option<Reading>,
    /// The newest last.
    pub(super) events: VecDeque<Event>,
    /// Events that were not told, as they came too fast.
    pub(super) lost: u64,
    /// Why no events come, if none do.
    pub(super) deaf: Option<String>,
    /// Whether single resets are among the events; their sums always are.
    pub(super) single_resets: bool,
    pub(super) link: Link,
    pub(super) place: Place,
    pub(super) pane: Pane,
    pub(super) sort: Sort,
    pub(super) descending: bool,
    pub(super) filter: String,
    pub(super) selected: Option<TargetKey>,
    /// How far the panes other than that of targets are scrolled.
    pub(super) scrolled: usize,
    /// The latest of what came while the view stands still.
    pub(super) paused: Option<Paused>,
    /// The failover records of the target that was looked at last, the newest first.
    pub(super) failovers: Option<(TargetKey, Vec<Failover>)>,
    /// What became of the last order.
    pub(super) said: Option<String>,
    /// Milliseconds between two readings, as the operator chose.
    pub(super) interval_ms: u64,
}

/// What came while the view stood still.
#[derive(Default)]
pub(super) struct Paused {
    latest: Option<Reading>,
    pub(super) events: u64,
}

/// The connection to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It answers.
    Up,
    /// It was asked so many milliseconds ago, which is too long, and has not answered.
    Slow(u64),
    /// It is gone, for this reason; it is tried again all the time.
    Down(String),
}

/// Where in the view its operator is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    List,
    /// Typing what targets to show.
    Filter,
    /// Looking at one target.
    Target(TargetKey),
    /// Asked for what a drain would do; not answered yet.
    Planning(TargetKey),
    /// Asked whether to drain it, by this plan. Where to go back to.
    Confirm(TargetKey, Box<Plan>),
    Help,
}

/// The parts of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Targets,
    Balancers,
    Workers,
    Events,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    Quit,
    /// Read anew, now.
    Refresh,
    /// Read so often from now on, in milliseconds.
    Interval(u64),
    /// Ask what a drain of this target would do.
    Plan(TargetKey),
    /// Read the failover records of this target too, with each reading; none: of no target.
    Watch(Option<TargetKey>),
    /// Drain it, if the configuration is still of this generation.
    Drain(TargetKey, u64),
}

/// Said while an order is carried out.
pub(super) const UNDER_WAY: &str = "…";

/// The intervals that `+` and `-` go through, in milliseconds.
const INTERVALS: [u64; 8] = [250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

impl Model {
    pub(super) fn new(interval_ms: u64) -> Model {
        Model {
            reading: None,
            events: VecDeque::new(),
            lost: 0,
            deaf: None,
            single_resets: false,
            link: Link::Up,
            place: Place::List,
            pane: Pane::Targets,
            sort: Sort::Trouble,
            descending: false,
            filter: String::new(),
            selected: None,
            scrolled: 0,
            paused: None,
            failovers: None,
            said: None,
            interval_ms,
        }
    }

    /// Takes what the daemon said of itself.
    pub(super) fn read(&mut self, overview: Overview) {
        self.link = Link::Up;
        let reading = Reading::new(overview, self.newest().map(|reading| &reading.overview));
        match &mut self.paused {
            Some(paused) => paused.latest = Some(reading),
            None => self.show(reading),
        }
    }

    fn newest(&self) -> Option<&Reading> {
        let waiting = self.paused.as_ref().and_then(|paused| paused.latest.as_ref());
        waiting.or(self.reading.as_ref())
    }

    fn show(&mut self, reading: Reading) {
        self.reading = Some(reading);
        if self.selected_target().is_none() {
            self.selected = None;
        }
        if let Place::Target(key) = &self.place
            && self.reading.as_ref().is_some_and(|reading| reading.target(key).is_none())
        {
            self.said = Some(format!("{key} is gone"));
            self.place = Place::List;
        }
    }

    /// Takes an event. Resets of one target and trigger that follow each other are one line.
    pub(super) fn hear(&mut self, event: Event) {
        self.deaf = None;
        if let Some(paused) = &mut self.paused {
            paused.events += 1;
        }
        if let (
            Some(Event { at, what: What::FlowsReset { target: last, trigger: by, count: sum, .. } }),
            What::FlowsReset { target, trigger, count, .. },
        ) = (self.events.back_mut(), &event.what)
            && (&*last, &*by) == (target, trigger)
        {
            *sum += count;
            *at = event.at;
            return;
        }
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The events to show, the newest first; those of `of` alone, if one is named.
    pub(super) fn events_of<'a>(&'a self, of: Option<&'a TargetKey>) -> impl Iterator<Item = &'a Event> {
        let single = |event: &&Event| self.single_resets || !matches!(event.what, What::TcpReset { .. });
        let whose = move |event: &&Event| of.is_none_or(|key| concerns(&event.what, key));
        self.events.iter().rev().filter(single).filter(whose)
    }

    /// The time by the daemon's clock.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.reading.as_ref().map(|reading| reading.overview.at)
    }

    /// The targets to list.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let Some(reading) = &self.reading else { return Vec::new() };
        rows::of(reading, &self.filter, self.sort, self.descending)
    }

    /// The target that keys are about, and its place in the list.
    pub(super) fn selected_target(&self) -> Option<(usize, TargetKey)> {
        let rows = self.rows();
        let place = |key: &TargetKey| rows.iter().position(|row| row.key == *key);
        let place = self.selected.as_ref().and_then(place).unwrap_or(0);
        rows.get(place).map(|row| (place, row.key.clone()))
    }

    /// The target whose failovers are looked at.
    pub(super) fn watched(&self) -> Option<&TargetKey> {
        match &self.place {
            Place::Target(key) => Some(key),
            _ => None,
        }
    }

    /// What the plan asked for says; none: it was refused, for this reason.
    pub(super) fn planned(&mut self, key: &TargetKey, plan: Result<Plan, String>) {
        if self.place != Place::Planning(key.clone()) {
            return;
        }
        self.place = Place::List;
        match plan {
            Ok(plan) if plan.differences.is_empty() => self.said = Some(format!("{key} drains already")),
            Ok(plan) => self.place = Place::Confirm(key.clone(), Box::new(plan)),
            Err(refused) => self.said = Some(refused),
        }
    }

    /// What became of a drain.
    pub(super) fn drained(&mut self, key: &TargetKey, outcome: Result<(), String>) {
        self.said = Some(match outcome {
            Ok(()) => format!("{key} drains: it is given no new flows"),
            Err(refused) => refused,
        });
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: Key) -> Option<Order> {
        if key == Key::Interrupt {
            return Some(Order::Quit);
        }
        match &self.place {
            Place::Filter => self.type_filter(key),
            Place::Confirm(target, plan) => {
                let order = Order::Drain(target.clone(), plan.generation);
                self.place = Place::List;
                match key {
                    Key::Char('y' | 'Y') => {
                        self.said = Some(UNDER_WAY.to_owned());
                        Some(order)
                    }
                    _ => {
                        self.said = Some("nothing was done".to_owned());
                        None
                    }
                }
            }
            Place::Planning(_) | Place::Help | Place::Target(_) | Place::List => self.command(key),
        }
    }

    fn type_filter(&mut self, key: Key) -> Option<Order> {
        match key {
            Key::Enter => self.place = Place::List,
            Key::Escape => {
                self.filter.clear();
                self.place = Place::List;
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(sign) if self.filter.chars().count() < FILTER && !sign.is_control() => {
                self.filter.push(sign);
            }
            _ => {}
        }
        None
    }

    fn command(&mut self, key: Key) -> Option<Order> {
        self.said = None;
        let at_list = self.place == Place::List;
        match key {
            Key::Char('q') => return Some(Order::Quit),
            Key::Escape if at_list => self.filter.clear(),
            Key::Escape | Key::Backspace => self.place = Place::List,
            Key::Char('?' | 'h') => {
                self.place = if self.place == Place::Help { Place::List } else { Place::Help };
            }
            Key::Char('p' | ' ') => self.pause(),
            Key::Char('r') => return Some(Order::Refresh),
            Key::Char('e') => self.single_resets = !self.single_resets,
            Key::Char('+' | '=') => return Some(self.other_interval(true)),
            Key::Char('-') => return Some(self.other_interval(false)),
            Key::Char('d') => return self.plan(),
            _ if !at_list => {}
            Key::Enter if self.pane == Pane::Targets => {
                if let Some((_, key)) = self.selected_target() {
                    self.place = Place::Target(key);
                }
            }
            Key::Char('/') => {
                self.pane = Pane::Targets;
                self.place = Place::Filter;
            }
            Key::Char('s') => {
                self.sort = self.sort.next();
                self.descending = self.sort.is_larger_first();
            }
            Key::Char('S') => self.descending = !self.descending,
            Key::Tab => {
                self.scrolled = 0;
                self.pane = match self.pane {
                    Pane::Targets => Pane::Balancers,
                    Pane::Balancers => Pane::Workers,
                    Pane::Workers => Pane::Events,
                    Pane::Events => Pane::Targets,
                };
            }
            Key::Up | Key::Char('k') => self.walk(|place, _| place.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.walk(|place, _| place + 1),
            Key::PageUp => self.walk(|place, _| place.saturating_sub(10)),
            Key::PageDown => self.walk(|place, _| place + 10),
            Key::Home | Key::Char('g') => self.walk(|_, _| 0),
            Key::End | Key::Char('G') => self.walk(|_, last| last),
            _ => {}
        }
        None
    }

    /// Goes elsewhere in the list; `to` is given the place and the last one.
    fn walk(&mut self, to: impl Fn(usize, usize) -> usize) {
        if self.pane == Pane::Targets {
            let rows = self.rows();
            let last = rows.len().saturating_sub(1);
            let place = self.selected_target().map_or(0, |(place, _)| place);
            self.selected = rows.get(to(place, last).min(last)).map(|row| row.key.clone());
        } else {
            let last = match (&self.reading, self.pane) {
                (Some(reading), Pane::Balancers) => reading.overview.load_balancers.len(),
                (Some(reading), Pane::Workers) => reading.overview.workers.len(),
                (_, Pane::Events) => self.events_of(None).count(),
                _ => 0,
            };
            let last = last.saturating_sub(1);
            self.scrolled = to(self.scrolled, last).min(last);
        }
    }

    fn pause(&mut self) {
        match self.paused.take() {
            None => self.paused = Some(Paused::default()),
            Some(Paused { latest: Some(latest), .. }) => self.show(latest),
            Some(_) => {}
        }
    }

    fn other_interval(&mut self, longer: bool) -> Order {
        let now = self.interval_ms;
        let found = if longer {
            INTERVALS.into_iter().find(|ms| *ms > now)
        } else {
            INTERVALS.into_iter().rev().find(|ms| *ms < now)
        };
        self.interval_ms = found.unwrap_or(now);
        Order::Interval(self.interval_ms)
    }

    fn plan(&mut self) -> Option<Order> {
        let key = match &self.place {
            Place::Target(key) => key.clone(),
            Place::List if self.pane == Pane::Targets => self.selected_target()?.1,
            _ => return None,
        };
        self.place = Place::Planning(key.clone());
        Some(Order::Plan(key))
    }
}

/// Whether `what` is about this target.
fn concerns(what: &What, key: &TargetKey) -> bool {
    let (group, address) = match what {
        What::TargetHealthChanged { target_group, target, .. }
        | What::TargetSilent { target_group, target, .. }
        | What::DrainStarted { target_group, target, .. }
        | What::DrainEnded { target_group, target, .. } => (target_group, Some(*target)),
        What::FailoverStarted { target_group, target, .. }
        | What::FailoverEnded { target_group, target, .. } => (target_group, Some(*target)),
        What::FlowsReset { target_group, target, .. } | What::TcpReset { target_group, target, .. } => {
            (target_group, *target)
        }
        What::ConfigChanged { .. }
        | What::FlowRecordsLost { .. }
        | What::PortDown { .. }
        | What::PortUp { .. }
        | What::WorkerStuck { .. }
        | What::WorkerWentOn { .. }
        | What::WorkerPanicked { .. }
        | What::FlowTablesTakenOver { .. }
        | What::FlowTablesLost { .. } => return false,
    };
    *group == *key.group && address == Some(key.address)
}
