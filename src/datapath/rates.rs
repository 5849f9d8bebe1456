//! How many resets may be sent in a second: two token buckets for each load balancer, in each worker. One is for
//! resets of flows (`flowgate.reset.max_per_second`), the other for those of packets that are of none
//! (`flowgate.reset.no_flow_max_per_second`): these anybody can provoke, and must not use up what a failover needs.
//!
//! The workers share nothing, so each has its share of the limit. Resets are spaced rather than sent in
//! bursts: a bucket holds what one millisecond brings, or two resets (both ends of a flow) where that is
//! less. So no second sees more than the limit and those two for each worker.

use super::counters::ResetTrigger;
use super::forwarding::Policy;
use crate::id::{GatewayId, Millis};

/// The buckets of one worker.
pub struct Rates {
    /// What a reset costs in a bucket's units, of which `max_per_second` come in a millisecond.
    cost: u64,
    /// By [`Drawn::place`].
    buckets: Box<[Bucket]>,
    /// The bucket that [`age`](Rates::age) looks at next.
    hand: usize,
}

/// Which bucket a reset is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It is of a flow that ends for its target's sake.
    OfFlow,
    /// It answers a packet of no live flow.
    OfNone,
}

impl Drawn {
    /// The bucket of a reset with this trigger.
    #[inline]
    pub fn by(trigger: ResetTrigger) -> Drawn {
        match trigger {
            ResetTrigger::IdleTimeout | ResetTrigger::NoFlow => Drawn::OfNone,
            ResetTrigger::Unhealthy
            | ResetTrigger::Deregistration
            | ResetTrigger::BothEnds
            | ResetTrigger::Proactive => Drawn::OfFlow,
        }
    }

    /// What a load balancer's policy allows in a second; 0: any number.
    #[inline]
    pub fn most(self, policy: &Policy) -> u32 {
        match self {
            Drawn::OfFlow => policy.guards.max_per_second,
            Drawn::OfNone => policy.no_flow_resets_per_second,
        }
    }

    #[inline]
    fn place(self, gateway: GatewayId) -> usize {
        2 * gateway.index() + self as usize
    }
}

/// Every bucket is full again after so long: the slowest is that of one reset a second in 255 workers, whose
/// two resets take 510 s.
const FULL_AFTER_MS: u32 = 600_000;

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// When `units` was right; `None`: it is full.
    at: Option<Millis>,
    units: u64,
}

impl Rates {
    /// Full buckets for so many load balancers, in one of so many workers.
    pub fn new(gateways: usize, workers: u8) -> Rates {
        let buckets = vec![Bucket::default(); 2 * gateways].into();
        Rates { cost: 1000 * u64::from(workers.max(1)), buckets, hand: 0 }
    }

    /// Looks at one bucket, so that no time is kept for so long that it would seem to lie ahead. To be
    /// called once a round.
    #[inline]
    pub fn age(&mut self, now: Millis) {
        match self.buckets.get_mut(self.hand) {
            Some(bucket) => {
                if bucket.at.is_some_and(|at| now.since(at) >= FULL_AFTER_MS) {
                    bucket.at = None;
                }
                self.hand += 1;
            }
            None => self.hand = 0,
        }
    }

    /// Whether so many resets may be sent now, one or two. `max_per_second` 0: any number.
    #[inline]
    pub fn allow(
        &self,
        (gateway, drawn): (GatewayId, Drawn),
        max_per_second: u32,
        resets: u64,
        now: Millis,
    ) -> bool {
        max_per_second == 0 || self.units(drawn.place(gateway), max_per_second, now) >= resets * self.cost
    }

    /// Counts so many resets as sent.
    pub fn spend(
        &mut self,
        (gateway, drawn): (GatewayId, Drawn),
        max_per_second: u32,
        resets: u64,
        now: Millis,
    ) {
        if max_per_second == 0 {
            return;
        }
        let place = drawn.place(gateway);
        let units = self.units(place, max_per_second, now).saturating_sub(resets * self.cost);
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket = Bucket { at: Some(now), units };
        }
    }

    /// What is in a bucket now.
    fn units(&self, place: usize, max_per_second: u32, now: Millis) -> u64 {
        let rate = u64::from(max_per_second);
        let full = rate.max(2 * self.cost);
        match self.buckets.get(place) {
            Some(&Bucket { at: Some(at), units }) => (units + u64::from(now.since(at)) * rate).min(full),
            _ => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: (GatewayId, Drawn) = (GatewayId(1), Drawn::OfFlow);

    /// How many resets of ever so many that are asked for each millisecond are sent in so many of them.
    fn sent(rates: &mut Rates, max: u32, start: Millis, ms: u32) -> u64 {
        let mut sent = 0;
        for now in (0..ms).map(|ms| start.plus(ms)) {
            while rates.allow(GATEWAY, max, 1, now) && sent < 1_000_000 {
                rates.spend(GATEWAY, max, 1, now);
                sent += 1;
            }
        }
        sent
    }

    //
    #[test]
    fn no_more_are_sent_in_a_second_than_the_limit_and_two_and_not_many_fewer() {
        for max in [1, 2, 3, 7, 100, 999, 1000, 1001, 50_000] {
            for start in [Millis(5), Millis(u32::MAX - 300)] {
                let mut rates = Rates::new(2, 1);
                for second in 0..3 {
                    let sent = sent(&mut rates, max, start.plus(second * 1000), 1000);
                    assert!(sent <= u64::from(max) + 2, "{sent} of {max}");
                    assert!(sent + 1 >= u64::from(max), "{sent} of {max}");
                }
            }
        }
    }

    //
    #[test]
    fn the_workers_share_the_limit() {
        for workers in [2u8, 4] {
            let all: u64 =
                (0..workers).map(|_| sent(&mut Rates::new(2, workers), 1000, Millis(0), 1000)).sum();
            assert!((1000 - u64::from(workers)..=1000 + 2 * u64::from(workers)).contains(&all), "{all}");
        }
    }

    //
    #[test]
    fn a_limit_that_was_reached_a_month_ago_holds_nothing_back() {
        let mut rates = Rates::new(2, 255);
        assert_eq!(sent(&mut rates, 1, Millis(7), 1), 2);
        let mut now = Millis(7);
        // A month in steps of an hour, as a worker's rounds would be at the rarest.
        for _ in 0..30 * 24 {
            now = now.plus(3_600_000);
            (0..3).for_each(|_| rates.age(now));
        }
        assert!(rates.allow(GATEWAY, 1, 2, now));
    }

    #[test]
    fn without_a_limit_nothing_is_counted_and_load_balancers_do_not_share() {
        let mut rates = Rates::new(2, 1);
        assert_eq!(sent(&mut rates, 0, Millis(0), 1), 1_000_000);
        assert_eq!(sent(&mut rates, 1, Millis(0), 1), 2);
        assert!(!rates.allow(GATEWAY, 1, 1, Millis(1)));
        assert!(rates.allow((GatewayId(0), Drawn::OfFlow), 1, 2, Millis(1)));
        assert!(
            rates.allow((GatewayId(77), Drawn::OfFlow), 1, 2, Millis(1)),
            "one that there is not has no flows"
        );
    }

    //
    #[test]
    fn resets_of_no_flow_use_up_nothing_of_what_flows_have() {
        let mut rates = Rates::new(2, 1);
        let of_none = (GatewayId(1), Drawn::OfNone);
        while rates.allow(of_none, 1000, 1, Millis(0)) {
            rates.spend(of_none, 1000, 1, Millis(0));
        }
        assert!(rates.allow(GATEWAY, 1, 2, Millis(0)));
        assert!(rates.allow((GatewayId(0), Drawn::OfNone), 1000, 2, Millis(0)));
        for now in (0..3 * 600).map(|n| Millis(n * 1000)) {
            rates.age(now);
        }
        assert!(rates.buckets.iter().all(|bucket| bucket.at.is_none()), "the hand comes by all of them");
    }
}
