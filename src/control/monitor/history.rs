//! The last hour, as charts want it: what the node and each of its targets did, second by second for the last five
//! minutes and in steps of ten seconds for the hour. Pure: readings go in, columns of numbers come out.
//!
//! Memory is bounded whatever there is to watch: a track takes 18 KiB, and there are the
//! node's and [`MAX_TRACKS`] targets', 19 MiB in all; targets beyond that have no history, which is told. A
//! target that is gone keeps its track until an hour after or until the room is wanted for one that is there.

#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use crate::control::events::Timestamp;
use crate::control::health::HealthState;

/// Time between two readings.
pub const FINE_STEP: Duration = Duration::from_millis(STEP_MS);
const STEP_MS: u64 = 1000;
/// Readings that are kept as they came: five minutes.
const FINE: usize = 300;
/// Readings that a coarse sample sums up.
const FINE_A_COARSE: u64 = 10;
/// Coarse samples that are kept: an hour.
const COARSE: usize = 360;
/// Ticks in it.
const HOUR: u64 = COARSE as u64 * FINE_A_COARSE;
/// Targets with a history.
pub const MAX_TRACKS: usize = 1024;
/// What a track takes.
const TRACK_BYTES: usize = (FINE + COARSE) * size_of::<Sample>();
const _: () = assert!(TRACK_BYTES <= 19 << 10, "what is promised above");

/// What was counted of something up to a moment: all but `flows` and `state` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Live flows.
    pub flows: u64,
    /// Flows that began.
    pub opened: u64,
    /// Packets sent to it.
    pub packets_to: u64,
    /// Packets it returned.
    pub packets_from: u64,
    /// Bytes both ways.
    pub bytes: u64,
    /// Resets sent.
    pub resets: u64,
    /// Its health; none for what has none.
    pub state: Option<HealthState>,
}

/// What happened in a step. Rates are means over it, per second; 32 bits are enough for a line on a screen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    flows: u32,
    opened: f32,
    packets_to: f32,
    packets_from: f32,
    bytes: f32,
    resets: u32,
    presence: Presence,
}

/// Whether something was there, and how it stood at the worst in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Presence {
    Absent,
    There(Option<HealthState>),
}

impl Sample {
    const ABSENT: Sample = Sample {
        flows: 0,
        opened: 0.0,
        packets_to: 0.0,
        packets_from: 0.0,
        bytes: 0.0,
        resets: 0,
        presence: Presence::Absent,
    };
}

/// The history of one thing.
#[derive(Debug)]
struct Track {
    before: Reading,
    /// The number of the tick of the last sample; samples of earlier ticks come before it, none left out.
    tick: u64,
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// Fine samples that are not in a coarse one yet.
    open: Vec<Sample>,
}

/// The history of the node and its targets.
#[derive(Debug, Default)]
pub struct History {
    tick: u64,
    at: Option<Timestamp>,
    node: Option<Track>,
    targets: HashMap<String, Track>,
    left_out: usize,
}

/// How far back to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Five minutes, by the second.
    Fine,
    /// An hour, by ten seconds.
    Coarse,
}

/// A history as a chart has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HistoryView {
    /// The moment of the last sample.
    pub at: Option<Timestamp>,
    /// Targets that have no history, for want of room.
    pub targets_left_out: usize,
    /// What was read.
    #[serde(flatten)]
    pub columns: Columns,
}

/// Samples, the latest last. Where there was nothing to be counted, a column has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Columns {
    /// Milliseconds between two of them.
    pub step_ms: u64,
    /// Milliseconds from the end of the last of them to the moment of the view.
    pub ended_ms_ago: u64,
    /// Live flows at the end of each step.
    pub flows: Vec<Option<u32>>,
    /// Flows that began, per second.
    pub new_flows: Vec<Option<f32>>,
    /// Packets sent to targets, per second.
    pub packets_to_target: Vec<Option<f32>>,
    /// Packets that targets returned, per second.
    pub packets_from_target: Vec<Option<f32>>,
    /// Bytes both ways, per second.
    pub bytes: Vec<Option<f32>>,
    /// Resets sent in each step.
    pub resets: Vec<Option<u32>>,
    /// The worst health in each step.
    pub state: Vec<Option<HealthState>>,
}

impl History {
    /// Takes the readings of `now`, `passed` after the last ones. Several steps may have passed at once, if
    /// whoever calls was held up: each of them then has the mean.
    pub fn note<'a>(
        &mut self,
        at: Timestamp,
        passed: Duration,
        node: Reading,
        targets: impl IntoIterator<Item = (&'a str, Reading)>,
    ) {
        let before = self.tick;
        let steps = steps_in(passed);
        self.tick = before.saturating_add(steps);
        self.at = Some(at);
        let tick = self.tick;
        self.node.get_or_insert_with(|| Track::new(node, tick)).note(node, passed, steps, tick);
        let mut gone = self.longest_gone(before);
        self.left_out = 0;
        for (name, reading) in targets {
            if let Some(track) = self.targets.get_mut(name) {
                track.note(reading, passed, steps, tick);
                continue;
            }
            if self.targets.len() >= MAX_TRACKS {
                let Some(name) = gone.pop() else {
                    self.left_out += 1;
                    continue;
                };
                self.targets.remove(&name);
            }
            let mut track = Track::new(reading, tick);
            track.note(reading, passed, steps, tick);
            self.targets.insert(name.to_owned(), track);
        }
        // An hour and no sample: there is nothing left to show.
        self.targets.retain(|_, track| tick - track.tick < HOUR);
    }

    /// The targets that were not there at the last reading, if the house is full; that which has been gone
    /// longest comes last.
    fn longest_gone(&self, last: u64) -> Vec<String> {
        if self.targets.len() < MAX_TRACKS {
            return Vec::new();
        }
        let mut gone: Vec<_> = self.targets.iter().filter(|(_, track)| track.tick < last).collect();
        gone.sort_by_key(|(_, track)| std::cmp::Reverse(track.tick));
        gone.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// The history of the node, or of a target by name; none if it has none.
    pub fn view(&self, target: Option<&str>, span: Span) -> Option<HistoryView> {
        let track = match target {
            None => self.node.as_ref(),
            Some(name) => self.targets.get(name),
        }?;
        let ago = |tick: u64| self.tick.saturating_sub(tick) * STEP_MS;
        let columns = match span {
            Span::Fine => Columns::of(&track.fine, STEP_MS, ago(track.tick)),
            Span::Coarse => {
                let ended = ago(track.tick - track.tick % FINE_A_COARSE);
                Columns::of(&track.coarse, STEP_MS * FINE_A_COARSE, ended)
            }
        };
        Some(HistoryView { at: self.at, targets_left_out: self.left_out, columns })
    }
}

/// How many steps a time is, to the nearest, and one at least.
fn steps_in(passed: Duration) -> u64 {
    let whole = passed.saturating_add(FINE_STEP / 2).as_millis() / u128::from(STEP_MS);
    u64::try_from(whole).unwrap_or(u64::MAX).max(1)
}

impl Track {
    fn new(reading: Reading, tick: u64) -> Track {
        Track {
            before: reading,
            tick: tick.saturating_sub(1),
            fine: VecDeque::with_capacity(FINE),
            coarse: VecDeque::with_capacity(COARSE),
            open: Vec::with_capacity(10),
        }
    }

    fn note(&mut self, reading: Reading, passed: Duration, steps: u64, tick: u64) {
        // It was gone for a while: what it counted meanwhile happened at no known time.
        let away = (tick - self.tick).saturating_sub(steps);
        for missed in 0..away.min(HOUR) {
            self.push(Sample::ABSENT, tick - steps - away + missed + 1);
        }
        if away > 0 {
            self.before = reading;
        }
        let sample = sample(&self.before, &reading, passed);
        for step in (0..steps.min(HOUR)).rev() {
            // Resets are a number and no rate: they are told once.
            let resets = if step == 0 { sample.resets } else { 0 };
            self.push(Sample { resets, ..sample }, tick - step);
        }
        self.before = reading;
        self.tick = tick;
    }

    fn push(&mut self, sample: Sample, tick: u64) {
        keep(&mut self.fine, sample, FINE);
        self.open.push(sample);
        // On ticks that are the same for all, so that coarse samples stand below each other.
        if tick.is_multiple_of(FINE_A_COARSE) {
            let whole = sum_up(&self.open);
            self.open.clear();
            keep(&mut self.coarse, whole, COARSE);
        }
    }
}

fn keep(samples: &mut VecDeque<Sample>, sample: Sample, most: usize) {
    if samples.len() == most {
        samples.pop_front();
    }
    samples.push_back(sample);
}

/// Between two readings.
fn sample(before: &Reading, now: &Reading, passed: Duration) -> Sample {
    let seconds = passed.as_secs_f64().max(1e-3);
    // A counter that fell began anew.
    let grown = |of: fn(&Reading) -> u64| of(now).saturating_sub(of(before));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "for a line on a screen"
    )]
    let rate = |of: fn(&Reading) -> u64| (grown(of) as f64 / seconds) as f32;
    Sample {
        flows: u32::try_from(now.flows).unwrap_or(u32::MAX),
        opened: rate(|reading| reading.opened),
        packets_to: rate(|reading| reading.packets_to),
        packets_from: rate(|reading| reading.packets_from),
        bytes: rate(|reading| reading.bytes),
        resets: u32::try_from(grown(|reading| reading.resets)).unwrap_or(u32::MAX),
        presence: Presence::There(now.state),
    }
}

/// Several samples as one: means of what is a rate, the most flows, all resets, the worst state.
fn sum_up(samples: &[Sample]) -> Sample {
    let there = || samples.iter().filter(|sample| sample.presence != Presence::Absent);
    let Some(last) = there().next_back() else { return Sample::ABSENT };
    #[expect(clippy::cast_precision_loss, reason = "there are ten")]
    let count = there().count() as f32;
    let mean = |of: fn(&Sample) -> f32| there().map(of).sum::<f32>() / count;
    let state = |sample: &Sample| match sample.presence {
        Presence::There(state) => state,
        Presence::Absent => None,
    };
    let worst = there().filter_map(state).max_by_key(|state| badness(*state)).or_else(|| state(last));
    Sample {
        flows: there().map(|sample| sample.flows).max().unwrap_or(0),
        opened: mean(|sample| sample.opened),
        packets_to: mean(|sample| sample.packets_to),
        packets_from: mean(|sample| sample.packets_from),
        bytes: mean(|sample| sample.bytes),
        resets: there().fold(0, |sum, sample| sum.saturating_add(sample.resets)),
        presence: Presence::There(worst),
    }
}

/// How much a state is to be told rather than another.
fn badness(state: HealthState) -> u8 {
    match state {
        HealthState::Unhealthy => 5,
        HealthState::Draining => 4,
        HealthState::Initial => 3,
        HealthState::Unavailable => 2,
        HealthState::Unused => 1,
        HealthState::Healthy => 0,
    }
}

impl Columns {
    fn of(samples: &VecDeque<Sample>, step_ms: u64, ended_ms_ago: u64) -> Columns {
        fn column<T>(samples: &VecDeque<Sample>, of: impl Fn(&Sample) -> T) -> Vec<Option<T>> {
            let there = |sample: &Sample| (sample.presence != Presence::Absent).then(|| of(sample));
            samples.iter().map(there).collect()
        }
        // To three digits or so: nobody sees more in a line, and they would be most of the answer.
        let round = |value: f32| if value < 100.0 { (value * 10.0).round() / 10.0 } else { value.round() };
        Columns {
            step_ms,
            ended_ms_ago,
            flows: column(samples, |sample| sample.flows),
            new_flows: column(samples, |sample| round(sample.opened)),
            packets_to_target: column(samples, |sample| round(sample.packets_to)),
            packets_from_target: column(samples, |sample| round(sample.packets_from)),
            bytes: column(samples, |sample| round(sample.bytes)),
            resets: column(samples, |sample| sample.resets),
            state: samples
                .iter()
                .map(|sample| match sample.presence {
                    Presence::There(state) => state,
                    Presence::Absent => None,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
