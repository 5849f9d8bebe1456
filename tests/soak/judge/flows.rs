//! Which target each flow's packets go to, as seen on the wire before the appliances (F-2, F-4, F-5, F-8, F-11).

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use super::At;
use super::history::History;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const TCP: u8 = 6;
/// A cookie's bit that says that the packet was sent without state (F-12).
const STATELESS: u32 = 1 << 31;

/// What a packet may be early or late by against what was done: captures, events and messages to workers.
pub const SLACK: At = At::from_millis(1000);
/// A-10, and less: a datagram's flow that rests so long may be another.
const IDLE: At = At::from_secs(119);

/// For how long a flow that was not seen again is remembered: longer than any lives in silence.
pub const REMEMBERED: At = At::from_secs(600);

/// An encapsulated packet on its way to an appliance.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub at: At,
    pub target: Ipv4Addr,
    pub cookie: u32,
    pub protocol: u8,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// TCP's control bits.
    pub flags: u8,
}

/// A flow, as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub cookie: u32,
    pub target: Ipv4Addr,
    pub first: At,
    pub last: At,
    /// A FIN or a RST was seen.
    pub ended: bool,
}

/// Protocol and both ends, in order.
pub type Key = (u8, SocketAddr, SocketAddr);

pub fn key(protocol: u8, one: SocketAddr, other: SocketAddr) -> Key {
    if one <= other { (protocol, one, other) } else { (protocol, other, one) }
}

/// All flows that were seen.
#[derive(Debug, Default)]
pub struct Flows {
    pub seen: HashMap<Key, Flow>,
    /// The flows before those, of the same ends.
    pub before: HashMap<Key, Flow>,
    pub targets: Vec<Ipv4Addr>,
    pub packets: u64,
    pub begun: u64,
    pub moved: u64,
}

impl Flows {
    /// The flow between two ends as it was at a moment: another may have begun since.
    pub fn at(&self, at: At, protocol: u8, one: SocketAddr, other: SocketAddr) -> Option<&Flow> {
        let key = key(protocol, one, other);
        let there = |flow: &&Flow| flow.first <= at;
        self.seen.get(&key).filter(there).or_else(|| self.before.get(&key).filter(there))
    }

    /// Forgets what was not seen for long.
    pub fn forget(&mut self, now: At) {
        self.seen.retain(|_, flow| flow.last + REMEMBERED > now);
        self.before.retain(|_, flow| flow.last + REMEMBERED > now);
    }

    /// Takes a packet in, in the order of their times; what is wrong with where it goes.
    pub fn saw(&mut self, packet: &Packet, history: &History) -> Result<(), String> {
        self.packets += 1;
        if packet.cookie & STATELESS != 0 {
            return Ok(());
        }
        let key = key(packet.protocol, packet.from, packet.to);
        let ends = packet.protocol == TCP && packet.flags & (FIN | RST) != 0;
        let now = Flow {
            cookie: packet.cookie,
            target: packet.target,
            first: packet.at,
            last: packet.at,
            ended: ends,
        };
        match self.seen.get(&key).copied() {
            Some(before) if before.cookie == packet.cookie => {
                let ended = before.ended || ends;
                self.seen.insert(key, Flow { first: before.first, ended, ..now });
                if before.target == packet.target {
                    return Ok(());
                }
                self.moved += 1;
                may_move(packet, &before, history)
            }
            before => {
                self.begun += 1;
                if let Some(earlier) = self.seen.insert(key, now) {
                    self.before.insert(key, earlier);
                }
                may_begin(packet, before.as_ref(), history)?;
                self.is_chosen(packet, history)
            }
        }
    }

    /// F-4, F-6: a new flow goes to a healthy target, if there is one.
    fn is_chosen(&self, packet: &Packet, history: &History) -> Result<(), String> {
        let (from, to) = (packet.at.saturating_sub(SLACK), packet.at + SLACK);
        let healthy = |target| history.may_have_been_in(target, &["healthy"], from, to);
        let other = |target: Ipv4Addr| {
            history.may_have_been_in(
                target,
                &["initial", "unhealthy", "draining", "unused", "gone"],
                from,
                to,
            )
        };
        if healthy(packet.target) || self.targets.iter().all(|target| other(*target)) {
            return Ok(());
        }
        Err(format!("F-4: {} begins at a target that is not healthy, while another is", told(packet)))
    }
}

/// A-4, T-1, T-4: a flow moves only from a target that is out, where that is asked for.
fn may_move(packet: &Packet, before: &Flow, history: &History) -> Result<(), String> {
    let (from, to) = (before.last.saturating_sub(SLACK), packet.at + SLACK);
    let asked = history.may_have_been("target_failover.on_unhealthy", "rebalance", from, to);
    let out = history.may_have_been_in(
        before.target,
        &["unhealthy", "draining", "unused", "gone", "initial"],
        from,
        to,
    ) || history.was_deregistered(before.target, before.first.saturating_sub(SLACK), to);
    if asked && out {
        return Ok(());
    }
    let why = if asked { "which is well" } else { "though failover is not rebalance" };
    Err(format!("F-5: {} was at {} before, {why}", told(packet), before.target))
}

/// F-8, F-10, F-11: what makes a new flow.
fn may_begin(packet: &Packet, before: Option<&Flow>, history: &History) -> Result<(), String> {
    let from = before.map_or(packet.at, |flow| flow.last).saturating_sub(SLACK);
    let to = packet.at + SLACK;
    // Where nothing is known of a flow, it may have begun at any time while nobody saw.
    let looked = if before.is_none() { packet.at.saturating_sub(REMEMBERED) } else { from };
    if history.was_blind(looked, to) {
        return Ok(());
    }
    if packet.protocol == TCP {
        let adopted = history.may_have_been("flowgate.tcp.unknown_flow", "adopt", from, to);
        if packet.flags & SYN != 0 || adopted || history.adopted_in(from, to) {
            return Ok(());
        }
        return Err(format!("F-8: {} has a new cookie without a SYN", told(packet)));
    }
    let Some(before) = before else { return Ok(()) };
    let idle = packet.at.saturating_sub(before.last) >= IDLE;
    if idle || history.lost_in(from, to) || history.leapt_in(from, to) {
        return Ok(());
    }
    Err(format!("F-11: {} had the cookie {:08x} and never rested", told(packet), before.cookie))
}

fn told(packet: &Packet) -> String {
    let Packet { protocol, from, to, cookie, target, flags, .. } = packet;
    format!(
        "the flow {from} to {to} (protocol {protocol}, flags {flags:#04x}, cookie {cookie:08x}, to {target})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 11);
    const TWO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 12);

    fn at(seconds: u64) -> At {
        At::from_secs(1000 + seconds)
    }

    /// A gateway of two healthy targets, whose failover is this.
    fn gateway(failover: &str) -> (Flows, History) {
        let mut history = History::default();
        history.attribute("target_failover.on_unhealthy", failover, at(0), at(0));
        history.attribute("flowgate.tcp.unknown_flow", "drop", at(0), at(0));
        history.state(ONE, "healthy", at(0));
        history.state(TWO, "healthy", at(0));
        (Flows { targets: vec![ONE, TWO], ..Flows::default() }, history)
    }

    fn packet(seconds: u64, cookie: u32, target: Ipv4Addr, flags: u8) -> Packet {
        Packet {
            at: at(seconds),
            target,
            cookie,
            protocol: TCP,
            from: "192.0.2.10:4000".parse().unwrap(),
            to: "192.0.2.20:80".parse().unwrap(),
            flags,
        }
    }

    fn back(packet: Packet) -> Packet {
        Packet { from: packet.to, to: packet.from, ..packet }
    }

    // F-2, F-5
    #[test]
    fn a_flow_on_two_targets_is_told() {
        let (mut flows, history) = gateway("no_rebalance");
        flows.saw(&packet(10, 7, ONE, SYN), &history).unwrap();
        flows.saw(&back(packet(11, 7, ONE, SYN)), &history).unwrap();
        let told = flows.saw(&back(packet(12, 7, TWO, 0)), &history).unwrap_err();
        assert!(told.starts_with("F-5: ") && told.ends_with("though failover is not rebalance"), "{told}");
    }

    #[test]
    fn a_flow_is_known_as_it_was_before_another_of_its_ends_began() {
        let (mut flows, history) = gateway("no_rebalance");
        flows.saw(&packet(10, 7, ONE, SYN), &history).unwrap();
        flows.saw(&packet(20, 8, TWO, SYN), &history).unwrap();
        let Packet { from, to, .. } = packet(0, 0, ONE, 0);
        let target = |seconds| flows.at(at(seconds), TCP, to, from).map(|flow| flow.target);
        assert_eq!([target(9), target(15), target(20)], [None, Some(ONE), Some(TWO)]);
    }

    // A-4, T-1
    #[test]
    fn a_move_is_explained_by_rebalance_and_a_target_that_is_out() {
        let (mut flows, mut history) = gateway("rebalance");
        flows.saw(&packet(10, 7, ONE, SYN), &history).unwrap();
        flows.saw(&packet(20, 7, TWO, 0), &history).expect_err("its target is well");
        history.state(TWO, "unhealthy", at(30));
        flows.saw(&packet(31, 7, ONE, 0), &history).unwrap();
        assert_eq!(flows.moved, 2);
    }

    // F-8, F-11
    #[test]
    fn a_new_cookie_without_a_reason_is_told() {
        let (mut flows, mut history) = gateway("no_rebalance");
        flows.saw(&packet(9, 6, ONE, 0), &history).expect_err("it begins without a SYN");
        flows.saw(&packet(10, 7, ONE, SYN), &history).unwrap();
        let told = flows.saw(&packet(11, 8, ONE, 0), &history).unwrap_err();
        assert!(told.ends_with("has a new cookie without a SYN"), "{told}");
        flows.saw(&packet(12, 9, ONE, SYN), &history).unwrap();
        history.attribute("flowgate.tcp.unknown_flow", "adopt", at(20), at(20));
        flows.saw(&packet(21, 10, ONE, 0), &history).unwrap();
        let udp = |seconds, cookie| Packet { protocol: 17, ..packet(seconds, cookie, ONE, 0) };
        flows.saw(&udp(30, 20), &history).unwrap();
        flows.saw(&udp(31, 21), &history).expect_err("it never rested");
        // A restart takes its flows over, unless it is told to have lost them.
        history.attribute("flowgate.tcp.unknown_flow", "drop", at(35), at(35));
        flows.saw(&packet(38, 10, ONE, 0), &history).unwrap();
        history.went_down(at(40));
        history.came_up(at(41));
        flows.saw(&udp(42, 22), &history).expect_err("the restart has taken it over");
        flows.saw(&packet(43, 11, ONE, 0), &history).expect_err("and that of TCP, too");
        history.went_down(at(50));
        history.came_up(at(51));
        history.lost_flows(at(0));
        flows.saw(&udp(52, 23), &history).unwrap();
        flows.saw(&packet(53, 12, ONE, 0), &history).unwrap();
        flows.saw(&udp(200, 24), &history).unwrap();
    }

    // F-4, F-6
    #[test]
    fn a_flow_that_begins_at_a_sick_target_is_told_unless_all_are() {
        let (mut flows, mut history) = gateway("no_rebalance");
        history.state(ONE, "unhealthy", at(5));
        let told = flows.saw(&packet(10, 7, ONE, SYN), &history).unwrap_err();
        assert!(told.starts_with("F-4: "), "{told}");
        history.state(TWO, "unhealthy", at(20));
        flows.saw(&packet(30, 8, ONE, SYN), &history).unwrap();
    }
}
