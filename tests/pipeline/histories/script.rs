//! A history as a script: one step a line, as a failing one is printed and as one can be pasted into a
//! test ([`crate::histories::replay`]).

use std::fmt::{self, Write as _};

use crate::harness::{ACK, FIN, PSH, RST, SYN};
use crate::histories::model::{Attributes, Health, Name, Side, Stickiness, Unknown};
use crate::histories::packets::{by_label, label};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `client tcp SYN at 1 spoiled`: a side sends a packet, which arrives at that worker; spoiled is its
    /// IPv4 header checksum.
    Packet { flow: Name, from: Side, flags: u8, at: usize, spoiled: bool },
    /// `return tcp 0 as server RST`: the packet of the conversation that was sent so many before the last
    /// comes back, or one in a side's name instead.
    Return { flow: Name, before: usize, own: Option<(Side, u8)>, at: usize },
    /// `forge tcp 0 80000001`: the same with these bits of its cookie turned.
    Forge { flow: Name, before: usize, bits: u32, at: usize },
    /// `target 0 Unhealthy`
    Target { target: usize, health: Health },
    /// `set rebalance sticky=3`: these attributes, and all others at their defaults.
    Set(Attributes),
    /// `wait 350000 hand`: time passes; with `hand`, or with several workers, the ageing hand goes round.
    Wait { ms: u32, hand: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub workers: u8,
    /// Flows that each worker has room for.
    pub capacity: u32,
    pub targets: u16,
    pub steps: Vec<Step>,
}

const FLAGS: [(&str, u8); 8] = [
    ("FIN", FIN),
    ("SYN", SYN),
    ("RST", RST),
    ("PSH", PSH),
    ("ACK", ACK),
    ("URG", 0x20),
    ("ECE", 0x40),
    ("CWR", 0x80),
];
const HEALTH: [Health; 5] =
    [Health::Initial, Health::Healthy, Health::Unhealthy, Health::Draining, Health::Removed];

fn flags_in_words(flags: u8) -> String {
    let set: Vec<_> = FLAGS.iter().filter(|(_, bit)| flags & bit != 0).map(|(name, _)| *name).collect();
    if set.is_empty() { "-".to_owned() } else { set.join("|") }
}

fn flags_of(text: &str) -> Option<u8> {
    if text == "-" {
        return Some(0);
    }
    let bit = |name: &str| FLAGS.iter().find(|(known, _)| *known == name).map(|(_, bit)| *bit);
    text.split('|').try_fold(0, |flags, name| Some(flags | bit(name)?))
}

fn side(from: Side) -> &'static str {
    match from {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn side_of(text: &str) -> Option<Side> {
    [Side::Client, Side::Server].into_iter().find(|each| side(*each) == text)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrives = |at: usize| if at == 0 { String::new() } else { format!(" at {at}") };
        match self {
            Step::Packet { flow, from, flags, at, spoiled } => {
                write!(f, "{} {} {}{}", side(*from), label(flow), flags_in_words(*flags), arrives(*at))?;
                f.write_str(if *spoiled { " spoiled" } else { "" })
            }
            Step::Return { flow, before, own, at } => {
                write!(f, "return {} {before}", label(flow))?;
                if let Some((from, flags)) = own {
                    write!(f, " as {} {}", side(*from), flags_in_words(*flags))?;
                }
                f.write_str(&arrives(*at))
            }
            Step::Forge { flow, before, bits, at } => {
                write!(f, "forge {} {before} {bits:08x}{}", label(flow), arrives(*at))
            }
            Step::Target { target, health } => write!(f, "target {target} {health:?}"),
            Step::Set(attributes) => write!(f, "set{}", in_words(attributes)),
            Step::Wait { ms, hand } => write!(f, "wait {ms}{}", if *hand { " hand" } else { "" }),
        }
    }
}

/// What is other than its default.
fn in_words(attributes: &Attributes) -> String {
    let defaults = Attributes::default();
    let mut words = String::new();
    let sticky = match attributes.stickiness {
        Stickiness::Five => "",
        Stickiness::Three => " sticky=3",
        Stickiness::Two => " sticky=2",
    };
    let unknown = match attributes.unknown {
        Unknown::Drop => "",
        Unknown::Adopt => " unknown=adopt",
        Unknown::Reset => " unknown=reset",
    };
    let switches = [
        (attributes.rebalance, " rebalance"),
        (attributes.reset_unhealthy, " reset-unhealthy"),
        (attributes.reset_deregistered, " reset-deregistered"),
        (attributes.reset_idle, " reset-idle"),
        (!attributes.syn_reselect, " no-reselect"),
        (attributes.both_ends, " both-ends"),
        (attributes.proactive, " proactive"),
    ];
    let switches = switches.into_iter().filter(|(on, _)| *on).map(|(_, word)| word);
    words.extend([sticky, unknown].into_iter().chain(switches));
    let times = [
        ("established", attributes.established, defaults.established),
        ("half-open", attributes.half_open, defaults.half_open),
        ("closed", attributes.closed, defaults.closed),
        ("other", attributes.other, defaults.other),
        ("hold", attributes.hold, defaults.hold),
        ("min-healthy", attributes.min_healthy_percent, defaults.min_healthy_percent),
    ];
    for (key, value, default) in times {
        if value != default {
            write!(words, " {key}={value}").expect("a String");
        }
    }
    words
}

fn attributes_of<'a>(words: impl Iterator<Item = &'a str>) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    for word in words {
        match word.split_once('=') {
            None => match word {
                "rebalance" => attributes.rebalance = true,
                "reset-unhealthy" => attributes.reset_unhealthy = true,
                "reset-deregistered" => attributes.reset_deregistered = true,
                "reset-idle" => attributes.reset_idle = true,
                "no-reselect" => attributes.syn_reselect = false,
                "both-ends" => attributes.both_ends = true,
                "proactive" => attributes.proactive = true,
                _ => return None,
            },
            Some(("sticky", "3")) => attributes.stickiness = Stickiness::Three,
            Some(("sticky", "2")) => attributes.stickiness = Stickiness::Two,
            Some(("unknown", "adopt")) => attributes.unknown = Unknown::Adopt,
            Some(("unknown", "reset")) => attributes.unknown = Unknown::Reset,
            Some((key, value)) => {
                let value = value.parse().ok()?;
                match key {
                    "established" => attributes.established = value,
                    "half-open" => attributes.half_open = value,
                    "closed" => attributes.closed = value,
                    "other" => attributes.other = value,
                    "hold" => attributes.hold = value,
                    "min-healthy" => attributes.min_healthy_percent = value,
                    _ => return None,
                }
            }
        }
    }
    Some(attributes)
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let History { workers, capacity, targets, .. } = self;
        writeln!(f, "gateway workers={workers} capacity={capacity} targets={targets}")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl History {
    /// Reads a script. Blank lines and what follows a `#` are passed over.
    pub fn parse(script: &str) -> Result<History, String> {
        let mut history = History { workers: 1, capacity: 64, targets: 3, steps: Vec::new() };
        for line in script.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(words) = line.strip_prefix("gateway") {
                history.shape(words).ok_or_else(|| format!("no such gateway: {line}"))?;
            } else if !line.is_empty() {
                history.steps.push(step_of(line).ok_or_else(|| format!("no step: {line}"))?);
            }
        }
        Ok(history)
    }

    fn shape(&mut self, words: &str) -> Option<()> {
        for word in words.split_whitespace() {
            match word.split_once('=')? {
                ("workers", number) => self.workers = number.parse().ok()?,
                ("capacity", number) => self.capacity = number.parse().ok()?,
                ("targets", number) => self.targets = number.parse().ok()?,
                _ => return None,
            }
        }
        Some(())
    }
}

fn step_of(line: &str) -> Option<Step> {
    let mut words = line.split_whitespace().peekable();
    let verb = words.next()?;
    let step = match verb {
        "set" => return Some(Step::Set(attributes_of(words)?)),
        "target" => {
            let target = words.next()?.parse().ok()?;
            let health = words.next()?;
            let health = HEALTH.into_iter().find(|each| format!("{each:?}") == health)?;
            Step::Target { target, health }
        }
        "wait" => {
            let ms = words.next()?.parse().ok()?;
            Step::Wait { ms, hand: words.next_if_eq(&"hand").is_some() }
        }
        "return" | "forge" => {
            let flow = by_label(words.next()?)?;
            let before = words.next()?.parse().ok()?;
            let mut own = None;
            let mut bits = 0;
            if verb == "forge" {
                bits = u32::from_str_radix(words.next()?, 16).ok()?;
            } else if words.next_if_eq(&"as").is_some() {
                own = Some((side_of(words.next()?)?, flags_of(words.next()?)?));
            }
            let at = arrives(&mut words)?;
            match verb {
                "forge" => Step::Forge { flow, before, bits, at },
                _ => Step::Return { flow, before, own, at },
            }
        }
        from => {
            let from = side_of(from)?;
            let flow = by_label(words.next()?)?;
            let flags = flags_of(words.next()?)?;
            let at = arrives(&mut words)?;
            Step::Packet { flow, from, flags, at, spoiled: words.next_if_eq(&"spoiled").is_some() }
        }
    };
    words.next().is_none().then_some(step)
}

/// The worker that `at N` names; the first where nothing is said.
fn arrives<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Option<usize> {
    match words.next_if_eq(&"at") {
        Some(_) => words.next()?.parse().ok(),
        None => Some(0),
    }
}
