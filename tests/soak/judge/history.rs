//! What was done to a gateway and what it told, with its times, so that a judge can ask what may have held when.
//!
//! A change takes hold somewhere between the request and its answer, and a packet's time is that of a capture; so every
//! question is about a span of time, and is answered by "may have been".

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::At;

/// A value from some moment on, which lies in a span.
#[derive(Clone, Debug)]
struct Since<T> {
    asked: At,
    done: At,
    value: T,
}

/// What may have held when.
#[derive(Clone, Debug, Default)]
pub struct History {
    attributes: BTreeMap<String, Vec<Since<String>>>,
    states: BTreeMap<Ipv4Addr, Vec<Since<String>>>,
    deregistered: Vec<(Ipv4Addr, At)>,
    /// When the daemon ended, and when it was there again.
    restarts: Vec<(At, Option<At>)>,
    /// Of these, those over which flows were lost.
    lost: Vec<(At, Option<At>)>,
    /// When a TCP packet of no flow began one, as flows were lost.
    adopting: Vec<(At, Option<At>)>,
    /// When nobody heard what the daemon told, though it ran, and when somebody did again.
    deaf: Vec<(At, Option<At>)>,
    leaps: Vec<At>,
    /// When nothing was seen of what the gateway sent to appliances, and when it was again.
    blind: Vec<(At, Option<At>)>,
}

impl History {
    /// An attribute has a value from a moment between `asked` and `done` on.
    pub fn attribute(&mut self, key: &str, value: &str, asked: At, done: At) {
        let since = Since { asked, done, value: value.to_owned() };
        self.attributes.entry(key.to_owned()).or_default().push(since);
    }

    /// A target is in a state from `at` on.
    pub fn state(&mut self, target: Ipv4Addr, state: &str, at: At) {
        let all = self.states.entry(target).or_default();
        // What is told may be older than what was done meanwhile.
        let place = all.partition_point(|since| since.asked <= at);
        all.insert(place, Since { asked: at, done: at, value: state.to_owned() });
    }

    pub fn deregistered(&mut self, target: Ipv4Addr, at: At) {
        self.deregistered.push((target, at));
    }

    pub fn went_down(&mut self, at: At) {
        self.restarts.push((at, None));
    }

    pub fn came_up(&mut self, at: At) {
        if let Some((_, up)) = self.restarts.last_mut() {
            *up = Some(at);
        }
    }

    /// Over the last restart flows were lost, and for so long whatever has none begins one.
    pub fn lost_flows(&mut self, adopts_for: At) {
        if let Some(&(down, up)) = self.restarts.last() {
            self.lost.push((down, up));
            self.adopting.push((down, Some(up.unwrap_or(down) + adopts_for)));
        }
    }

    /// The control core fell, and the workers went on.
    pub fn went_deaf(&mut self, at: At) {
        self.deaf.push((at, None));
    }

    pub fn hears_again(&mut self, at: At) {
        if let Some((_, until)) = self.deaf.last_mut() {
            *until = Some(at);
        }
    }

    /// The workers' clock was set forward.
    pub fn leapt(&mut self, at: At) {
        self.leaps.push(at);
    }

    /// The link on which packets to appliances are seen went down.
    pub fn went_blind(&mut self, at: At) {
        self.blind.push((at, None));
    }

    pub fn sees_again(&mut self, at: At) {
        if let Some((_, until)) = self.blind.last_mut() {
            *until = Some(at);
        }
    }

    /// Forgets what nobody asks for any more, as it was over before that moment.
    pub fn forget(&mut self, before: At) {
        for all in self.attributes.values_mut().chain(self.states.values_mut()) {
            let over = all.partition_point(|since| since.done < before).saturating_sub(1);
            all.drain(..over);
        }
        self.deregistered.retain(|(_, at)| *at >= before);
        self.leaps.retain(|at| *at >= before);
        let Self { restarts, lost, adopting, deaf, blind, .. } = self;
        for spans in [restarts, lost, adopting, deaf, blind] {
            spans.retain(|(_, until)| until.is_none_or(|until| until >= before));
        }
    }

    /// Whether an attribute may have had this value at some time in a span. One that was never set is as it is by default:
    /// the caller sets all that he asks for at the start.
    pub fn may_have_been(&self, key: &str, value: &str, from: At, to: At) -> bool {
        self.attributes.get(key).is_some_and(|all| may(all, from, to, |is| is == value))
    }

    /// Whether a target may have been in one of these states at some time in a span.
    pub fn may_have_been_in(&self, target: Ipv4Addr, states: &[&str], from: At, to: At) -> bool {
        // While the daemon or its control core begins, nobody hears what it finds.
        let unheard = self
            .restarts
            .iter()
            .chain(&self.deaf)
            .any(|(down, up)| *down <= to && up.is_none_or(|up| from <= up + UNHEARD));
        let in_one = |all: &Vec<Since<String>>| may(all, from, to, |is| states.contains(&is.as_str()));
        unheard || self.states.get(&target).is_none_or(in_one)
    }

    /// Whether a target was deregistered in a span.
    pub fn was_deregistered(&self, target: Ipv4Addr, from: At, to: At) -> bool {
        self.deregistered.iter().any(|(whose, at)| *whose == target && (from..=to).contains(at))
    }

    /// Whether flows were lost at some time in a span, as the daemon was started without them.
    pub fn lost_in(&self, from: At, to: At) -> bool {
        overlaps(&self.lost, from, to)
    }

    /// Whether, at some time in a span, a TCP packet of no flow began one, as flows were lost.
    pub fn adopted_in(&self, from: At, to: At) -> bool {
        overlaps(&self.adopting, from, to)
    }

    /// Whether, at some time in a span, flows may have begun and ended unseen.
    pub fn was_blind(&self, from: At, to: At) -> bool {
        overlaps(&self.blind, from, to)
    }

    pub fn leapt_in(&self, from: At, to: At) -> bool {
        self.leaps.iter().any(|at| (from..=to).contains(at))
    }
}

/// For how long after its start the daemon may have found what no subscriber heard.
const UNHEARD: At = At::from_millis(1500);

fn overlaps(spans: &[(At, Option<At>)], from: At, to: At) -> bool {
    spans.iter().any(|(begun, over)| *begun <= to && over.is_none_or(|over| from <= over))
}

/// Whether one of the values that may have held in a span fits.
fn may<T>(all: &[Since<T>], from: At, to: At, fits: impl Fn(&T) -> bool) -> bool {
    all.iter().enumerate().any(|(n, since)| {
        // Until the one after it holds for sure.
        let until = all.get(n + 1).map(|next| next.done);
        since.asked <= to && until.is_none_or(|until| from <= until) && fits(&since.value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> At {
        At::from_secs(seconds)
    }

    #[test]
    fn a_value_may_hold_from_when_it_is_asked_for_until_the_next_is_there() {
        let mut history = History::default();
        history.attribute("k", "off", s(0), s(1));
        history.attribute("k", "on", s(10), s(12));
        history.attribute("k", "off", s(20), s(22));
        let on = |from, to| history.may_have_been("k", "on", s(from), s(to));
        assert!(!on(2, 9) && on(9, 10) && on(15, 16) && on(21, 21) && !on(23, 30));
        let off = |from, to| history.may_have_been("k", "off", s(from), s(to));
        assert!(off(11, 11) && !off(13, 19) && off(20, 20));
        assert!(!history.may_have_been("other", "on", s(0), s(99)));
    }

    #[test]
    fn what_held_at_a_moment_is_known_when_what_was_before_is_forgotten() {
        let mut history = History::default();
        history.attribute("k", "off", s(0), s(1));
        history.attribute("k", "on", s(10), s(12));
        history.went_blind(s(2));
        history.sees_again(s(3));
        history.went_blind(s(40));
        history.forget(s(30));
        assert!(
            history.may_have_been("k", "on", s(30), s(30))
                && !history.may_have_been("k", "off", s(30), s(30))
        );
        assert!(
            !history.was_blind(s(2), s(3))
                && history.was_blind(s(41), s(42))
                && !history.was_blind(s(30), s(39))
        );
    }

    #[test]
    fn a_start_hides_states_for_a_while_and_no_longer() {
        let target = Ipv4Addr::new(198, 51, 100, 11);
        let mut history = History::default();
        history.state(target, "healthy", s(1));
        history.went_down(s(10));
        history.came_up(s(12));
        let unhealthy = |from, to| history.may_have_been_in(target, &["unhealthy"], s(from), s(to));
        assert!(!unhealthy(2, 9) && unhealthy(9, 10) && unhealthy(13, 13) && !unhealthy(14, 20));
        history.went_deaf(s(20));
        history.hears_again(s(21));
        let unhealthy = |at| history.may_have_been_in(target, &["unhealthy"], s(at), s(at));
        assert!(unhealthy(20) && !unhealthy(23));
    }

    // F-5, F-8
    #[test]
    fn a_restart_explains_lost_flows_only_if_they_were_lost_and_adopting_only_for_a_while() {
        let mut history = History::default();
        history.went_down(s(10));
        history.came_up(s(12));
        assert!(!history.lost_in(s(11), s(11)) && !history.adopted_in(s(11), s(20)));
        history.went_down(s(30));
        history.came_up(s(31));
        history.lost_flows(s(300));
        assert!(
            history.lost_in(s(30), s(30)) && !history.lost_in(s(11), s(29)) && !history.lost_in(s(32), s(40))
        );
        assert!(history.adopted_in(s(300), s(301)) && !history.adopted_in(s(332), s(333)));
    }
}
