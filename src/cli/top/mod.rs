//! `flowgate top`: the node on one screen, live.
//!
//! [`model`] knows, [`draw`] shows, both pure; [`feed`] brings readings, events and keys, [`terminal`] has the
//! screen. What leads to a frame is bounded: a reading or a key at once, events four times a second, and never more
//! bytes than [`BYTES_A_SECOND`] allows, so that a slow line is not kept busy.

#![forbid(unsafe_code)]

mod draw;
mod feed;
#[cfg(test)]
pub(super) mod fixture;
mod keys;
mod model;
mod reading;
mod rows;
mod terminal;

use super::Session;
use super::arguments::TopFlags;
use super::client::{CliError, typed};
use super::output::print;
use super::table::Look;
use crate::control::duration::milliseconds;
use crate::control::socket::methods::overview::GetOverview;
use crate::control::socket::views::Overview;
use draw::{Means, Palette};
use feed::Message;
use model::{Link, Model, Order};
use std::io::{self, IsTerminal};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use terminal::Screen;

/// What a screen is sent at most, but for a frame that alone is more: 128 kbit/s.
const BYTES_A_SECOND: u32 = 16 << 10;
/// Frames that only show more events are so far apart.
const EVENTS_APART: Duration = Duration::from_millis(250);
/// Messages taken before the screen is looked at again.
const AT_A_TIME: usize = 8192;
/// A daemon that has not answered for so long, or for three intervals, is said to be slow.
const SLOW: Duration = Duration::from_secs(3);

/// Shows the node until its operator has seen enough; or, with `--once`, one frame of it.
pub(super) fn run(session: Session, flags: &TopFlags) -> Result<(), CliError> {
    if flags.once || !session.output.is_for_people() {
        return once(session, flags.interval);
    }
    if !io::stdout().is_terminal() {
        return Err(CliError::NoTerminal("standard output is no terminal"));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(CliError::NoTerminal("this terminal cannot be drawn on (TERM says so)"));
    }
    live(session, flags.interval)
}

/// One frame as text, with the rates of `interval`.
fn once(mut session: Session, interval: Duration) -> Result<(), CliError> {
    let mut ask = || session.client.call("get-overview", &GetOverview::default());
    let first = ask()?;
    if !session.output.is_for_people() {
        return session.output.emit(first, |_: &Overview, _| String::new());
    }
    let mut model = Model::new(milliseconds(interval));
    model.read(typed(first)?);
    std::thread::sleep(interval);
    model.read(typed(ask()?)?);
    let look = &session.output.look;
    let means = Means { palette: Palette::new(false), look };
    print(&draw::whole(&model, &means, look.width()))
}

fn live(session: Session, interval: Duration) -> Result<(), CliError> {
    let look = Look::new(true);
    let means = Means { palette: Palette::new(look.has_colour()), look: &look };
    let mut model = Model::new(milliseconds(interval));
    let (inbox, orders) = feed::start(session.client, interval);
    let mut screen = Screen::open().map_err(CliError::Output)?;
    let mut pace = Pace::new(Instant::now());
    let mut heard = Instant::now();
    let mut foot = Foot::new(heard);
    loop {
        match inbox.recv_timeout(pace.wait(Instant::now())) {
            Ok(first) => {
                let more = std::iter::from_fn(|| inbox.try_recv().ok());
                for message in std::iter::once(first).chain(more).take(AT_A_TIME) {
                    if matches!(message, Message::Read(_)) {
                        heard = Instant::now();
                    }
                    pace.want(&message, Instant::now());
                    let watched = model.watched().cloned();
                    match take(&mut model, message) {
                        Some(Order::Quit) => return Ok(()),
                        // A reader that is gone has told why; so below.
                        Some(order) => drop(orders.send(order)),
                        None => {}
                    }
                    if model.watched() != watched.as_ref() {
                        orders.send(Order::Watch(model.watched().cloned())).ok();
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let silent = heard.elapsed();
        let slow = silent > SLOW.max(Duration::from_millis(model.interval_ms) * 3);
        if slow && !matches!(model.link, Link::Down(_)) {
            model.link = Link::Slow(milliseconds(silent));
        }
        let now = Instant::now();
        if foot.is_old(model.said.as_deref(), now) {
            model.said = None;
        }
        if pace.is_due(now) {
            let bytes = screen.draw(|area, buffer| draw::screen(&model, &means, area, buffer));
            pace.drawn(Instant::now(), bytes.map_err(CliError::Output)?);
        }
    }
}

/// Lets the model know. What is to be done about it.
fn take(model: &mut Model, message: Message) -> Option<Order> {
    match message {
        Message::Read(overview) => model.read(*overview),
        Message::Down(why) => model.link = Link::Down(why),
        Message::Event(event) => model.hear(event),
        Message::Lost(count) => model.lost += count,
        Message::NoEvents(why) => model.deaf = Some(why),
        Message::Planned(key, plan) => model.planned(&key, plan),
        Message::Failovers(key, records) => model.failovers = Some((key, records)),
        Message::Drained(key, outcome) => model.drained(&key, outcome),
        Message::Key(key) => return model.press(key),
        Message::Resized => {}
        Message::Ended => return Some(Order::Quit),
    }
    None
}

/// What was said last, and since when it stands in the last line: it gives way to the keys, and is not there any
/// more when it has long ceased to be true.
struct Foot {
    said: Option<String>,
    since: Instant,
}

impl Foot {
    const STANDS: Duration = Duration::from_secs(6);

    fn new(now: Instant) -> Foot {
        Foot { said: None, since: now }
    }

    /// Whether `said` has stood there long enough. What is still being done stands until it is done.
    fn is_old(&mut self, said: Option<&str>, now: Instant) -> bool {
        if self.said.as_deref() != said {
            *self = Foot { said: said.map(str::to_owned), since: now };
        }
        said.is_some_and(|said| said != model::UNDER_WAY) && now - self.since >= Foot::STANDS
    }
}

/// When the next frame is to be drawn.
struct Pace {
    /// When something is there to be shown.
    due: Instant,
    /// Before this the line is still busy with the last frame.
    free: Instant,
    last: Instant,
}

impl Pace {
    /// How long the screen may stay as it is: what it says of a daemon that is silent changes too.
    const LONGEST: Duration = Duration::from_secs(1);

    fn new(now: Instant) -> Pace {
        Pace { due: now, free: now, last: now }
    }

    fn want(&mut self, message: &Message, now: Instant) {
        let at = match message {
            Message::Event(_) | Message::Lost(_) => self.last + EVENTS_APART,
            _ => now,
        };
        self.due = self.due.min(at);
    }

    fn at(&self) -> Instant {
        self.due.max(self.free)
    }

    fn wait(&self, now: Instant) -> Duration {
        self.at().saturating_duration_since(now)
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.at()
    }

    fn drawn(&mut self, now: Instant, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.free = now + Duration::from_secs(1) * bytes / BYTES_A_SECOND;
        self.due = now + Pace::LONGEST;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_gives_way_to_the_keys_but_not_before_it_is_done() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut foot = Foot::new(start);
        assert!(!foot.is_old(None, at(60)), "nothing was said");
        assert!(!foot.is_old(Some(model::UNDER_WAY), at(61)));
        assert!(!foot.is_old(Some(model::UNDER_WAY), at(99)), "it is still under way");
        assert!(!foot.is_old(Some("it drains"), at(100)), "said just now");
        assert!(!foot.is_old(Some("it drains"), at(105)));
        assert!(!foot.is_old(Some("nothing was done"), at(105)), "something else, just now");
        assert!(!foot.is_old(Some("nothing was done"), at(110)));
        assert!(foot.is_old(Some("nothing was done"), at(111)));
        assert!(!foot.is_old(None, at(111)));
        assert!(!foot.is_old(Some("nothing was done"), at(112)), "the same once more is new");
    }

    #[test]
    fn a_screen_is_sent_no_more_than_a_slow_line_carries_whatever_happens() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut now, mut bytes, mut frames) = (start, 0_u32, 0_u32);
        // Keys without end, each with a frame of 2,000 bytes, for ten seconds.
        while now < start + Duration::from_secs(10) {
            pace.want(&Message::Resized, now);
            if pace.is_due(now) {
                (bytes, frames) = (bytes + 2000, frames + 1);
                pace.drawn(now, 2000);
            }
            now += Duration::from_millis(1);
        }
        assert!(bytes <= 10 * BYTES_A_SECOND + 2000, "{bytes}");
        assert!(frames > 70, "{frames}");
        // Events alone: four frames a second, however small.
        let mut pace = Pace::new(start);
        pace.drawn(start, 10);
        let (mut now, mut frames) = (start, 0);
        while now < start + Duration::from_secs(2) {
            pace.want(&Message::Lost(1), now);
            if pace.is_due(now) {
                frames += 1;
                pace.drawn(now, 10);
            }
            now += Duration::from_millis(1);
        }
        assert_eq!(frames, 7);
    }
}
