//! Which link-layer addresses the data path needs, what the kernel says of them, what must be asked, and
//! what is handed on: a state machine without sockets and clocks. The control core owns it, feeds it what
//! `netlink` hears and what workers ask for, and carries its [`Action`]s out.
//!
//! A neighbour is *wanted* if the configuration names it (a target's next hop, a router of a route: always)
//! or a worker has asked for it (as long as it answers). The kernel resolves it, but it does not know that
//! we use it: left alone, the entry would go stale and stay so though the neighbour is long gone. So a
//! wanted entry that turns stale is asked for again, and the kernel then probes it. What the kernel hears
//! by itself, a gratuitous ARP for one, is handed on the moment it tells.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::id::InterfaceId;
use crate::wire::ethernet::MacAddr;

/// A neighbour: an address on an interface's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The interface.
    pub interface: InterfaceId,
    /// The address.
    pub address: IpAddr,
}

/// What the kernel holds of a neighbour (its NUD states).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// It was asked for and has not answered yet.
    Incomplete,
    /// It answered, or gave a sign of life, of late.
    Reachable,
    /// It has not given one for a while.
    Stale,
    /// It was used while stale: it will be probed if it gives none within seconds.
    Delay,
    /// It is being probed.
    Probe,
    /// It did not answer.
    Failed,
    /// Somebody entered it by hand.
    Permanent,
}

impl Reachability {
    /// Whether the link-layer address is to be used.
    fn is_usable(self) -> bool {
        !matches!(self, Reachability::Incomplete | Reachability::Failed)
    }
}

/// What the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A neighbour is in this state, with this link-layer address if it has one.
    Is(Hop, Reachability, Option<MacAddr>),
    /// It forgot a neighbour.
    Gone(Hop),
    /// It refused to look for a neighbour: no room, no address to ask with, the link is down.
    Refused(Hop),
    /// All that is known is about to be told again; what is not told by the time of [`Heard::Complete`] is
    /// gone.
    Anew,
    /// All was told.
    Complete,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have the kernel look for it.
    Ask(Hop),
    /// Hand on that this is its link-layer address now; `None`: it has none.
    Tell(Hop, Option<MacAddr>),
}

/// What is known of a neighbour, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is given in the configuration.
    Static,
    /// The kernel says so; `None`: it has not said anything.
    Kernel(Option<Reachability>),
}

/// Neighbours that are remembered: what a worker remembers. More are not asked for.
const MAX_KNOWN: usize = 65_536;

/// One is asked for no more often than this, as RFC 1122 2.3.2.1 has it.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);

/// The kernel is done with a question after this: it asks three times, a second apart, and before that
/// waits five seconds for a sign of life if it knew an address. Then we look again.
const PATIENCE: Duration = Duration::from_secs(10);

/// One that the configuration names and that did not answer is asked for again after this.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Entry {
    kernel: Option<(Reachability, Option<MacAddr>)>,
    /// What was handed on.
    told: Option<MacAddr>,
    /// A worker asked for it.
    by_worker: bool,
    asked: Option<Instant>,
    due: Option<Instant>,
    /// Told since [`Heard::Anew`].
    confirmed: bool,
}

/// The neighbours of this node's interfaces.
#[derive(Debug, Default)]
pub struct Neighbours {
    fixed: HashMap<Hop, MacAddr>,
    /// Those that the configuration and the targets name.
    named: HashSet<Hop>,
    entries: HashMap<Hop, Entry>,
    /// When to look at an entry again.
    due: BTreeSet<(Instant, Hop)>,
    actions: Vec<Action>,
}

impl Neighbours {
    /// Neighbours of which these are given and never asked for. They are handed on first.
    pub fn new(fixed: HashMap<Hop, MacAddr>) -> Neighbours {
        let actions = fixed.iter().map(|(hop, mac)| Action::Tell(*hop, Some(*mac))).collect();
        Neighbours { fixed, actions, ..Neighbours::default() }
    }

    /// What is to be done since this was asked last, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The link-layer address of a neighbour, as it was handed on.
    pub fn mac(&self, hop: &Hop) -> Option<MacAddr> {
        self.fixed.get(hop).copied().or_else(|| self.entries.get(hop)?.told)
    }

    /// What is known of a neighbour.
    pub fn standing(&self, hop: &Hop) -> Standing {
        if self.fixed.contains_key(hop) {
            return Standing::Static;
        }
        let kernel = self.entries.get(hop).and_then(|entry| entry.kernel);
        Standing::Kernel(kernel.map(|(state, _)| state))
    }

    /// The wanted and the given neighbours on an interface, by address.
    pub fn on(&self, interface: InterfaceId) -> Vec<Hop> {
        let wanted = self.entries.iter().filter(|(hop, entry)| entry.by_worker || self.named.contains(*hop));
        let all: BTreeSet<Hop> = wanted.map(|(hop, _)| hop).chain(self.fixed.keys()).copied().collect();
        all.into_iter().filter(|hop| hop.interface == interface).collect()
    }

    /// From now on exactly these are named: the targets' next hops and the routers of routes.
    pub fn name(&mut self, named: HashSet<Hop>, now: Instant) {
        let before = std::mem::replace(&mut self.named, named);
        let new: Vec<Hop> = self.named.difference(&before).copied().collect();
        for hop in new {
            self.want(hop, now);
        }
        for hop in before {
            self.forget_if_unwanted(&hop);
        }
    }

    /// A worker has packets for a neighbour whose address it does not know.
    pub fn worker_asks(&mut self, hop: Hop, now: Instant) {
        if let Some(mac) = self.mac(&hop) {
            // It has lost it, or another worker knew it first.
            self.actions.push(Action::Tell(hop, Some(mac)));
            return;
        }
        if self.entries.len() >= MAX_KNOWN && !self.entries.contains_key(&hop) {
            return;
        }
        self.entries.entry(hop).or_default().by_worker = true;
        self.want(hop, now);
    }

    /// The kernel tells something.
    pub fn heard(&mut self, heard: Heard, now: Instant) {
        match heard {
            Heard::Is(hop, state, mac) => self.is(hop, state, mac, now),
            Heard::Gone(hop) => self.gone(hop, now),
            Heard::Refused(hop) => {
                // What was known of it may still be right; it is asked again when it is due.
                if self.is_wanted(&hop) && self.entries.get(&hop).is_some_and(|entry| entry.told.is_none()) {
                    self.failed(hop, now);
                }
            }
            Heard::Anew => self.entries.values_mut().for_each(|entry| entry.confirmed = false),
            Heard::Complete => {
                let stale =
                    self.entries.iter().filter(|(_, entry)| entry.kernel.is_some() && !entry.confirmed);
                for hop in stale.map(|(hop, _)| *hop).collect::<Vec<_>>() {
                    self.gone(hop, now);
                }
            }
        }
    }

    /// Looks at what is due.
    pub fn tick(&mut self, now: Instant) {
        while let Some(&(at, hop)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            if let Some(entry) = self.entries.get_mut(&hop) {
                entry.due = None;
            }
            self.review(hop, now);
        }
    }

    fn is_wanted(&self, hop: &Hop) -> bool {
        let by_worker = self.entries.get(hop).is_some_and(|entry| entry.by_worker);
        (by_worker || self.named.contains(hop)) && !self.fixed.contains_key(hop)
    }

    /// A neighbour became wanted: what is known is handed on, what is not is asked for.
    fn want(&mut self, hop: Hop, now: Instant) {
        if self.fixed.contains_key(&hop) {
            return;
        }
        let entry = self.entries.entry(hop).or_default();
        if let Some((state, mac @ Some(_))) = entry.kernel
            && state.is_usable()
        {
            self.tell(hop, mac);
        }
        self.review(hop, now);
    }

    fn is(&mut self, hop: Hop, state: Reachability, mac: Option<MacAddr>, now: Instant) {
        if self.entries.len() >= MAX_KNOWN && !self.entries.contains_key(&hop) {
            return;
        }
        let entry = self.entries.entry(hop).or_default();
        entry.kernel = Some((state, mac));
        entry.confirmed = true;
        if !self.is_wanted(&hop) {
            return;
        }
        match (state, mac) {
            (Reachability::Failed, _) => self.failed(hop, now),
            // The question is under way: what was known before is used until there is an answer.
            (Reachability::Incomplete, _) | (_, None) => {}
            (_, mac) => {
                self.tell(hop, mac);
                self.review(hop, now);
            }
        }
    }

    /// The kernel forgot it: to make room, or by somebody's hand. Whether it is still there is asked; until
    /// there is an answer the address is used as before.
    fn gone(&mut self, hop: Hop, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&hop) {
            entry.kernel = None;
            self.review(hop, now);
            self.forget_if_unwanted(&hop);
        }
    }

    fn failed(&mut self, hop: Hop, now: Instant) {
        self.tell(hop, None);
        if let Some(entry) = self.entries.get_mut(&hop) {
            // Should packets for it still come, the worker asks again.
            entry.by_worker = false;
        }
        if self.named.contains(&hop) {
            self.look_again(hop, now + BETWEEN_ATTEMPTS);
        } else {
            self.forget_if_unwanted(&hop);
        }
    }

    /// Asks if there is something to be asked and it is time, and sees to it that it is looked at again
    /// should no answer come.
    fn review(&mut self, hop: Hop, now: Instant) {
        if !self.is_wanted(&hop) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&hop) else { return };
        use Reachability::{Delay, Failed, Incomplete, Permanent, Probe, Reachable, Stale};
        match entry.kernel.map(|(state, _)| state) {
            // It will be told when that ends.
            Some(Reachable | Permanent) => {}
            Some(Delay | Probe) => self.look_again(hop, now + PATIENCE),
            None | Some(Incomplete | Failed | Stale) => match entry.asked {
                Some(asked) if now < asked + BETWEEN_QUESTIONS => {
                    self.look_again(hop, asked + BETWEEN_QUESTIONS);
                }
                _ => {
                    entry.asked = Some(now);
                    self.actions.push(Action::Ask(hop));
                    self.look_again(hop, now + PATIENCE);
                }
            },
        }
    }

    fn look_again(&mut self, hop: Hop, at: Instant) {
        let Some(entry) = self.entries.get_mut(&hop) else { return };
        if let Some(before) = entry.due.replace(at) {
            self.due.remove(&(before, hop));
        }
        self.due.insert((at, hop));
    }

    fn tell(&mut self, hop: Hop, mac: Option<MacAddr>) {
        let Some(entry) = self.entries.get_mut(&hop) else { return };
        if entry.told != mac {
            entry.told = mac;
            self.actions.push(Action::Tell(hop, mac));
        }
    }

    /// Nobody wants it any more: what was handed on is taken back, and it is remembered only while the
    /// kernel does.
    fn forget_if_unwanted(&mut self, hop: &Hop) {
        if self.is_wanted(hop) {
            return;
        }
        self.tell(*hop, None);
        let Some(entry) = self.entries.get_mut(hop) else { return };
        if let Some(due) = entry.due.take() {
            self.due.remove(&(due, *hop));
        }
        if entry.kernel.is_none() {
            self.entries.remove(hop);
        }
    }
}

#[cfg(test)]
mod tests;
