//! What is counted and timed. The generator's thread writes into an [`Interval`] and hands it over every
//! tenth of a second; whoever shows figures adds intervals up.

use std::ops::AddAssign;

use flowgate::io::clock::Clock;
use hdrhistogram::Histogram;

use super::names::Way;

/// How long an interval is.
pub const INTERVALS_A_SECOND: u32 = 10;

/// Latencies above this, in nanoseconds, count as this: what is older has no clock in common with us.
const LONGEST_NS: u64 = 60_000_000_000;

/// Counters by way: up, down.
pub type ByWay = [u64; 2];

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// What was counted since the last interval, or in all.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl AddAssign<&Counts> for Counts {
            fn add_assign(&mut self, other: &Counts) {
                $(self.$name.add(&other.$name);)*
            }
        }
    };
}

/// Adding up, for numbers and pairs alike.
trait Add {
    fn add(&mut self, other: &Self);
}

impl Add for u64 {
    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

impl Add for ByWay {
    fn add(&mut self, other: &ByWay) {
        self[0] += other[0];
        self[1] += other[1];
    }
}

counts! {
    /// Data packets that the port at their end took.
    sent: ByWay,
    /// Their bytes, check sequences included.
    sent_bytes: ByWay,
    /// Data packets that an appliance received.
    at_appliance: ByWay,
    /// Of these, what it swallowed, as it was told to.
    swallowed: ByWay,
    /// Of these, what went back to the gateway.
    returned: ByWay,
    /// Data packets that arrived at the other end.
    arrived: ByWay,
    /// Their bytes, check sequences included.
    arrived_bytes: ByWay,
    /// Of these, what came after a later one of its flow.
    out_of_order: ByWay,
    /// Of these, what came when its flow had ended or begun anew.
    late: ByWay,
    /// Resets that arrived: at a server (up), at a client (down).
    resets: ByWay,
    /// Flows that were opened.
    opened: u64,
    /// Flows that both ends closed.
    closed: u64,
    /// SYNs and FINs that had no answer in time and were sent again.
    retried: u64,
    /// Packets of the SYN flood: sent, at an appliance, at a server.
    flood_sent: u64,
    flood_at_appliance: u64,
    flood_arrived: u64,
    /// Packets of an attack: that the port took, and the bytes of their IP packets.
    attack_sent: u64,
    attack_bytes: u64,
    /// The same that the port had no room for.
    attack_refused: u64,
    /// The same that came to an appliance, and to an end.
    attack_at_appliance: u64,
    attack_arrived: u64,
    /// What the gateway answered to an attack, and the bytes of these IP packets.
    attack_answers: u64,
    attack_answer_bytes: u64,
    /// Packets that are none of ours, or of a flow that was never opened.
    strangers: u64,
    /// Packets of other people's ends that came to an appliance that is played alone.
    others: u64,
    /// Packets with a wrong checksum or payload.
    damaged: u64,
    /// Tunnel packets that are not what a gateway may send.
    bad_tunnel: u64,
    /// Packets of a flow that came to another target than the one before.
    moved: u64,
    /// Of these, off a target that was told to die: what `rebalance` is for.
    moved_off_dead: u64,
    /// Packets of a flow whose cookie was another than before.
    cookie_changed: u64,
    /// Data packets that were due while attacks are played, and that the port had no room for: a full queue of a NIC would
    /// have dropped them.
    left_out: ByWay,
    /// Packets that were due and could not be made: no buffer was free, or the port was full.
    stalled: u64,
}

impl Counts {
    /// What must never happen, whatever the gateway's load.
    pub fn violations(&self) -> u64 {
        self.strangers + self.damaged + self.bad_tunnel + self.moved - self.moved_off_dead
            + self.out_of_order.iter().sum::<u64>()
    }
}

/// The sides that this process plays: only between two of them can it know what was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    pub clients: bool,
    pub servers: bool,
    pub targets: bool,
}

impl Played {
    pub const ALL: Played = Played { clients: true, servers: true, targets: true };

    /// Whether the end that sends this way is played, and the one that receives.
    fn ends(self, way: Way) -> (bool, bool) {
        match way {
            Way::Up => (self.clients, self.servers),
            Way::Down => (self.servers, self.clients),
        }
    }

    /// Data packets lost between the end and the appliance, or still on their way; `None` if nobody here can know.
    pub fn lost_to_appliance(self, counts: &Counts, way: Way) -> Option<u64> {
        let lost = || counts.sent[way.index()].saturating_sub(counts.at_appliance[way.index()]);
        (self.ends(way).0 && self.targets).then(lost)
    }

    /// The same between the appliance and the other end.
    pub fn lost_from_appliance(self, counts: &Counts, way: Way) -> Option<u64> {
        let lost = || counts.returned[way.index()].saturating_sub(counts.arrived[way.index()]);
        (self.ends(way).1 && self.targets).then(lost)
    }

    /// All that is known to be lost and should not have been. With other people's appliances it is what did not arrive,
    /// whoever lost it.
    pub fn lost(self, counts: &Counts) -> u64 {
        let lost = |way| match (self.targets, self.ends(way)) {
            (false, (true, true)) => counts.sent[way.index()].saturating_sub(counts.arrived[way.index()]),
            _ => {
                self.lost_to_appliance(counts, way).unwrap_or(0)
                    + self.lost_from_appliance(counts, way).unwrap_or(0)
            }
        };
        Way::BOTH.into_iter().map(lost).sum()
    }

    /// `lost` of what was sent.
    pub fn loss(self, counts: &Counts) -> f64 {
        share(self.lost(counts), counts.sent.iter().sum())
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are shown to a few digits")]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Latencies in nanoseconds, right to 1 %.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        Latency(Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are sound"))
    }
}

impl Latency {
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this share of the packets did not exceed.
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    fn add(&mut self, other: &Latency) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0.reset();
        }
    }
}

/// Latencies by way.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// From one end to the other.
    pub whole: [Latency; 2],
    /// From the end to the appliance.
    pub to_appliance: [Latency; 2],
    /// From the appliance to the other end.
    pub from_appliance: [Latency; 2],
}

/// How many flows there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    pub established: u32,
    pub closed: u32,
}

/// What happened in a time.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    pub counts: Counts,
    pub latencies: Latencies,
    /// Data packets of both ways by the target that they came to.
    pub by_target: Vec<u64>,
    /// Health checks that each target answered.
    pub checks_by_target: Vec<u64>,
    /// How the flows stood at its end; nothing from a thread that plays no end.
    pub ends: Standings,
}

impl Interval {
    pub fn new(targets: usize) -> Interval {
        Interval { by_target: vec![0; targets], checks_by_target: vec![0; targets], ..Interval::default() }
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.counts = Counts::default();
        let Latencies { whole, to_appliance, from_appliance } = &mut self.latencies;
        whole.iter_mut().chain(to_appliance).chain(from_appliance).for_each(Latency::clear);
        self.by_target.fill(0);
        self.checks_by_target.fill(0);
    }

    /// Adds a later one.
    pub fn add(&mut self, later: &Interval) {
        self.counts += &later.counts;
        let pairs = [
            (&mut self.latencies.whole, &later.latencies.whole),
            (&mut self.latencies.to_appliance, &later.latencies.to_appliance),
            (&mut self.latencies.from_appliance, &later.latencies.from_appliance),
        ];
        for (sums, parts) in pairs {
            sums.iter_mut().zip(parts).for_each(|(sum, part)| sum.add(part));
        }
        for (sums, parts) in
            [(&mut self.by_target, &later.by_target), (&mut self.checks_by_target, &later.checks_by_target)]
        {
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        if later.ends != Standings::default() {
            self.ends = later.ends;
        }
    }

    /// The latencies of both ways together.
    pub fn both_ways(of: &[Latency; 2]) -> Latency {
        let mut both = of[0].clone();
        both.add(&of[1]);
        both
    }
}

/// Cycles as nanoseconds, by a multiplication.
#[derive(Clone, Copy, Debug)]
pub struct Nanoseconds {
    /// In units of 2⁻³².
    per_cycle: u64,
}

impl Nanoseconds {
    pub fn of(clock: &Clock) -> Nanoseconds {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0.2 to 1000 ns")]
        let per_cycle = (clock.nanoseconds_per_cycle() * 4_294_967_296.0) as u64;
        Nanoseconds { per_cycle }
    }

    pub fn of_cycles(self, cycles: u64) -> u64 {
        let nanoseconds = (u128::from(cycles) * u128::from(self.per_cycle)) >> 32;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_told_apart_and_what_was_swallowed_on_purpose_is_none() {
        let counts = Counts {
            sent: [100, 50],
            at_appliance: [97, 50],
            swallowed: [7, 0],
            returned: [90, 50],
            arrived: [90, 45],
            ..Counts::default()
        };
        let all = Played::ALL;
        assert_eq!(all.lost_to_appliance(&counts, Way::Up), Some(3));
        assert_eq!(all.lost_from_appliance(&counts, Way::Down), Some(5));
        assert_eq!(all.lost(&counts), 8);
        assert!((all.loss(&counts) - 8.0 / 150.0).abs() < 1e-9);
    }

    #[test]
    fn what_somebody_else_plays_is_not_called_lost() {
        let counts = Counts { sent: [100, 50], arrived: [0, 49], ..Counts::default() };
        let clients = Played { servers: false, targets: false, ..Played::ALL };
        assert_eq!((clients.lost_to_appliance(&counts, Way::Up), clients.lost(&counts)), (None, 0));
        let both_ends = Played { targets: false, ..Played::ALL };
        assert_eq!((both_ends.lost_from_appliance(&counts, Way::Down), both_ends.lost(&counts)), (None, 101));
    }

    #[test]
    fn a_move_off_a_dead_target_is_no_violation() {
        let counts = Counts { moved: 5, moved_off_dead: 5, late: [3, 0], ..Counts::default() };
        assert_eq!(counts.violations(), 0);
        assert_eq!(Counts { moved: 6, damaged: 2, ..counts }.violations(), 3);
    }

    #[test]
    fn intervals_add_up() {
        let mut sum = Interval::new(2);
        let mut part = Interval::new(2);
        for round in 1..=3 {
            part.clear();
            part.counts.sent = [round, 1];
            part.by_target[1] = 4;
            part.latencies.whole[0].record(1000 * round);
            sum.add(&part);
        }
        assert_eq!(sum.counts.sent, [6, 3]);
        assert_eq!(sum.by_target, [0, 12]);
        assert_eq!(sum.latencies.whole[0].count(), 3);
        let middle = sum.latencies.whole[0].quantile(0.5);
        assert!((1980..=2020).contains(&middle), "{middle}");
    }
}
