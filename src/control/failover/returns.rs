//! Who came back: connections that were reset, and the connections by which their clients tried again. Pure.
//!
//! A client comes back by another port, so that a new connection is held to be its return if it goes from the same
//! address to the same address and port, at the same endpoint, and began after the reset. Each new connection
//! stands for one that was reset. Which end of a connection is the client is not known of one that is over, so that both
//! are looked out for: a server does not open connections to a client's port.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::record::ClientsBack;
use crate::id::EndpointId;

/// Connections that are looked out for, of one record.
pub const SAMPLE: usize = 4096;

/// And of all records at once.
const SAMPLE_OF_ALL: usize = 65_536;

/// An end of a connection.
pub type End = (IpAddr, u16);

/// A connection that was reset: its endpoint and its ends, the lower one first.
type Connection = (EndpointId, End, End);

/// Where a client goes: from this address to that end.
type Errand = (EndpointId, IpAddr, End);

/// The connections of one record.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// With the number that each is looked out for under.
    seen: HashMap<Connection, u64>,
    back: ClientsBack,
}

impl Sample {
    /// What is known of them.
    pub(super) fn told(&self) -> Option<ClientsBack> {
        (self.back.watched > 0).then(|| self.back.clone())
    }

    fn came_back(&mut self, target: Ipv4Addr, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let back = &mut self.back;
        back.came_back += 1;
        *back.by_target.entry(target).or_default() += 1;
        back.fastest_microseconds = Some(back.fastest_microseconds.map_or(took, |fastest| fastest.min(took)));
        back.slowest_microseconds = Some(back.slowest_microseconds.map_or(took, |slowest| slowest.max(took)));
    }
}

/// What the client of a connection would do, whichever end it is.
fn errands((endpoint, one, other): Connection) -> [Errand; 2] {
    [(endpoint, one.0, other), (endpoint, other.0, one)]
}

/// Whom all records look out for.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    /// By what its client would do, the connections whose clients are not back, the first reset first. Some that are
    /// back may stand here still, until they are come upon.
    errands: HashMap<Errand, VecDeque<u64>>,
    /// Those whose clients are not back.
    missing: HashMap<u64, Missing>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    record: u64,
    reset_at: Instant,
}

impl Lookout {
    /// A connection was reset, by which record is to be told of its client. Heard of twice, for its second end, it is
    /// one.
    pub(super) fn reset(
        &mut self,
        (record, sample): (u64, &mut Sample),
        endpoint: EndpointId,
        ends: (End, End),
        reset_at: Instant,
    ) {
        if sample.seen.len() >= SAMPLE || self.missing.len() >= SAMPLE_OF_ALL {
            return;
        }
        let (one, other) = ends;
        let token = self.next;
        let Entry::Vacant(place) = sample.seen.entry((endpoint, one.min(other), one.max(other))) else {
            return;
        };
        place.insert(token);
        sample.back.watched += 1;
        self.next += 1;
        self.missing.insert(token, Missing { record, reset_at });
        for errand in errands((endpoint, one, other)) {
            self.errands.entry(errand).or_default().push_back(token);
        }
    }

    /// A connection began. The record whose connection it stands for, and how long after the reset it began.
    pub(super) fn begun(
        &mut self,
        endpoint: EndpointId,
        from: IpAddr,
        to: End,
        at: Instant,
    ) -> Option<(u64, Duration)> {
        let errand = (endpoint, from, to);
        let tokens = self.errands.get_mut(&errand)?;
        let found = loop {
            let Some(token) = tokens.front() else { break None };
            match self.missing.get(token) {
                Some(missing) if missing.reset_at > at => break None,
                Some(_) => break tokens.pop_front(),
                // It came back by the other way of looking at it.
                None => tokens.pop_front(),
            };
        };
        if tokens.is_empty() {
            self.errands.remove(&errand);
        }
        let Missing { record, reset_at } = self.missing.remove(&found?)?;
        Some((record, at.saturating_duration_since(reset_at)))
    }

    /// Nobody looks out for these connections any more. Costs as much as there are, however many the others have: what
    /// lies behind those of others on the same errand goes with them.
    pub(super) fn forget(&mut self, sample: &Sample) {
        for (connection, token) in &sample.seen {
            self.missing.remove(token);
            for errand in errands(*connection) {
                let Entry::Occupied(mut tokens) = self.errands.entry(errand) else { continue };
                while tokens.get().front().is_some_and(|token| !self.missing.contains_key(token)) {
                    tokens.get_mut().pop_front();
                }
                if tokens.get().is_empty() {
                    tokens.remove();
                }
            }
        }
    }
}

/// Notes that a client of the record that owns `sample` came back.
pub(super) fn note(sample: &mut Sample, target: Ipv4Addr, took: Duration) {
    sample.came_back(target, took);
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: EndpointId = EndpointId(0);
    const SERVER: End = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 443);

    fn client(last: u8, port: u16) -> End {
        (Ipv4Addr::new(192, 0, 2, last).into(), port)
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn each_new_connection_stands_for_one_that_was_reset_and_parallel_ones_for_none() {
        let (start, mut lookout, mut sample) = (Instant::now(), Lookout::default(), Sample::default());
        lookout.reset((7, &mut sample), EDGE, (client(1, 4000), SERVER), start);
        lookout.reset((7, &mut sample), EDGE, (SERVER, client(1, 4001)), after(start, 2));
        let begun =
            |lookout: &mut Lookout, from: End, to, ms| lookout.begun(EDGE, from.0, to, after(start, ms));
        assert_eq!(begun(&mut lookout, client(2, 5000), SERVER, 5), None, "somebody else");
        assert_eq!(begun(&mut lookout, client(1, 5000), (SERVER.0, 80), 5), None, "another service");
        assert_eq!(
            lookout.begun(EndpointId(1), client(1, 1).0, SERVER, after(start, 5)),
            None,
            "another endpoint"
        );
        assert_eq!(begun(&mut lookout, client(1, 5000), SERVER, 5), Some((7, Duration::from_millis(5))));
        assert_eq!(begun(&mut lookout, client(1, 5001), SERVER, 6), Some((7, Duration::from_millis(4))));
        assert_eq!(begun(&mut lookout, client(1, 5002), SERVER, 7), None, "both are back");
        assert!(lookout.missing.is_empty());
        lookout.forget(&sample);
        assert!(lookout.errands.is_empty(), "nothing is left behind");
    }

    #[test]
    fn what_began_before_the_reset_is_no_return() {
        let (start, mut lookout, mut sample) = (Instant::now(), Lookout::default(), Sample::default());
        lookout.reset((1, &mut sample), EDGE, (client(1, 4000), SERVER), after(start, 10));
        assert_eq!(lookout.begun(EDGE, client(1, 0).0, SERVER, after(start, 9)), None);
        assert!(lookout.begun(EDGE, client(1, 0).0, SERVER, after(start, 10)).is_some());
    }

    //
    #[test]
    fn a_connection_both_of_whose_ends_were_told_is_one() {
        let (start, mut lookout, mut sample) = (Instant::now(), Lookout::default(), Sample::default());
        lookout.reset((1, &mut sample), EDGE, (client(1, 4000), SERVER), start);
        lookout.reset((1, &mut sample), EDGE, (SERVER, client(1, 4000)), start);
        assert_eq!(sample.told().map(|back| back.watched), Some(1));
        assert!(lookout.begun(EDGE, client(1, 0).0, SERVER, start).is_some());
        assert_eq!(lookout.begun(EDGE, client(1, 0).0, SERVER, start), None);
        note(&mut sample, Ipv4Addr::LOCALHOST, Duration::from_micros(70));
        note(&mut sample, Ipv4Addr::LOCALHOST, Duration::from_micros(30));
        let back = sample.told().unwrap();
        assert_eq!((back.came_back, back.by_target[&Ipv4Addr::LOCALHOST]), (2, 2));
        assert_eq!((back.fastest_microseconds, back.slowest_microseconds), (Some(30), Some(70)));
    }

    #[test]
    fn a_sample_is_bounded_and_so_are_all_together() {
        let (start, mut lookout) = (Instant::now(), Lookout::default());
        let mut samples: Vec<Sample> = (0..20).map(|_| Sample::default()).collect();
        for (record, sample) in (0..).zip(&mut samples) {
            for port in 1..=5000 {
                lookout.reset((record, sample), EDGE, (client(1, port), SERVER), start);
            }
            assert!(sample.seen.len() <= SAMPLE);
        }
        assert_eq!(samples[0].told().map(|back| back.watched), Some(4096));
        assert_eq!((lookout.missing.len(), samples[19].told()), (SAMPLE_OF_ALL, None));
        samples.iter().for_each(|sample| lookout.forget(sample));
        assert!(lookout.missing.is_empty() && lookout.errands.is_empty());
    }

    #[test]
    fn in_whichever_order_records_on_the_same_errand_end_nothing_is_left_and_nobody_else_is_forgotten() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (start, mut lookout) = (Instant::now(), Lookout::default());
            let mut samples: [Sample; 3] = Default::default();
            // One client and one server, whose connections the three have by turns.
            for port in 1..=90 {
                let record = usize::from(port % 3);
                let it = (record as u64, &mut samples[record]);
                lookout.reset(it, EDGE, (client(1, port), SERVER), start);
            }
            // Some are back.
            let mut told = [0; 3];
            for _ in 0..10 {
                let (record, _) = lookout.begun(EDGE, client(1, 0).0, SERVER, start).unwrap();
                told[usize::try_from(record).unwrap()] += 1;
            }
            assert_eq!(told, [3, 4, 3]);
            for (ended, record) in order.into_iter().enumerate() {
                assert!(!lookout.errands.is_empty());
                lookout.forget(&samples[record]);
                let left: usize = order[ended + 1..].iter().map(|other| 30 - told[*other]).sum();
                assert_eq!(lookout.missing.len(), left, "{order:?}");
            }
            assert!(lookout.missing.is_empty() && lookout.errands.is_empty(), "{order:?}");
        }
    }
}
