//! Packets that wait for the link-layer address of their next hop.
//!
//! A packet whose next hop is not a known neighbour waits here while the kernel resolves it, so that the
//! first packet of a conversation is late and not lost (RFC 1122 2.3.2.2). Everything is bounded: so many
//! next hops are asked for at once, so many packets wait for one of them and for all together, and nobody
//! waits longer than [`PATIENCE_MS`]. A scan of empty addresses by some stranger fills this room and no
//! more; it costs a look at one small set of next hops a packet.

use arrayvec::ArrayVec;

use super::neighbours::NextHop;
use super::outbound::Fate;
use crate::flow::HashSeed;
use crate::id::Millis;

/// Packets that wait at most. Each holds a buffer of its port's pool, which must not run dry for them.
pub const PACKETS: usize = 256;

/// Packets that wait for one next hop at most, so that one silent host does not keep the rest out.
pub const PACKETS_A_HOP: usize = 8;

/// Next hops that are asked for at once, so that the kernel is spared a storm of questions.
pub const HOPS: usize = 256;

/// How long a packet waits, and how long after asking for a next hop it is asked for again.
pub const PATIENCE_MS: u32 = 1000;

/// Next hops that share a hash, and the most that are looked at for one.
const WAYS: usize = 8;
const SETS: usize = HOPS / WAYS;

/// A next hop that was asked for.
struct Asked {
    hop: NextHop,
    since: Millis,
    /// Places of its packets, oldest first.
    packets: ArrayVec<u16, PACKETS_A_HOP>,
}

/// A packet that waits, from its IP header on, and what it is.
#[derive(Debug)]
pub struct Waiter<B> {
    /// The packet.
    pub packet: B,
    /// What is counted when it leaves.
    pub fate: Fate,
}

/// The packets that waited for one next hop, oldest first.
pub type Waiters<B> = ArrayVec<Waiter<B>, PACKETS_A_HOP>;

/// What became of a packet that was to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whether it waits; else it is gone and the caller counts it.
    pub waits: bool,
    /// Whether the next hop is to be asked for.
    pub ask: bool,
}

/// A worker's packets that wait.
pub struct Waiting<B> {
    sets: Box<[[Option<Asked>; WAYS]]>,
    packets: Box<[Option<Waiter<B>>]>,
    /// Empty places of `packets`.
    free: ArrayVec<u16, PACKETS>,
    asked: usize,
    /// The set that is looked at next for packets whose time is over.
    hand: usize,
    seed: HashSeed,
}

impl<B> Waiting<B> {
    /// Nobody waits. Next hops are hashed under `seed`.
    pub fn new(seed: HashSeed) -> Waiting<B> {
        #[expect(clippy::cast_possible_truncation, reason = "256 places")]
        let free = (0..PACKETS as u16).collect();
        Waiting {
            sets: (0..SETS).map(|_| [const { None }; WAYS]).collect(),
            packets: (0..PACKETS).map(|_| None).collect(),
            free,
            asked: 0,
            hand: 0,
            seed,
        }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        PACKETS - self.free.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets a packet wait for `hop`, if there is room. With no room among the next hops nothing is asked,
    /// as it could not be known when it was asked last.
    pub fn hold(&mut self, hop: NextHop, waiter: Waiter<B>, now: Millis) -> Held {
        let set = self.set_of(&hop);
        let Waiting { sets, packets, free, asked, .. } = self;
        let Some(set) = sets.get_mut(set) else { return Held { waits: false, ask: false } };
        let place = set.iter().position(|slot| slot.as_ref().is_some_and(|asked| asked.hop == hop));
        let ask = place.is_none();
        let Some(slot) =
            place.or_else(|| set.iter().position(Option::is_none)).and_then(|at| set.get_mut(at))
        else {
            return Held { waits: false, ask: false };
        };
        if ask {
            *asked += 1;
        }
        let entry = slot.get_or_insert_with(|| Asked { hop, since: now, packets: ArrayVec::new() });
        if entry.packets.is_full() {
            return Held { waits: false, ask };
        }
        let Some(number) = free.pop() else { return Held { waits: false, ask } };
        if let Some(place) = packets.get_mut(usize::from(number)) {
            *place = Some(waiter);
            entry.packets.push(number);
        }
        Held { waits: true, ask }
    }

    /// The packets that wait for `hop`. `answered`: the next hop is known now; else it stays noted as
    /// asked for, so that it is not asked for again too soon.
    pub fn release(&mut self, hop: &NextHop, answered: bool) -> Waiters<B> {
        let set = self.set_of(hop);
        let Waiting { sets, packets, free, asked, .. } = self;
        let slot = sets
            .get_mut(set)
            .and_then(|set| set.iter_mut().find(|slot| slot.as_ref().is_some_and(|asked| asked.hop == *hop)));
        let Some(slot) = slot else { return Waiters::new() };
        let waiters = slot.as_mut().map_or_else(Waiters::new, |entry| taken(entry, packets, free));
        if answered {
            *slot = None;
            *asked -= 1;
        }
        waiters
    }

    /// The packets of a next hop whose time is over, if there is one where the hand is: a call looks at one
    /// set, so the last of them is found [`HOPS`] calls late at most.
    #[inline]
    pub fn overdue(&mut self, now: Millis) -> Option<(NextHop, Waiters<B>)> {
        if self.asked == 0 { None } else { self.look(now) }
    }

    #[cold]
    fn look(&mut self, now: Millis) -> Option<(NextHop, Waiters<B>)> {
        let Waiting { sets, packets, free, asked, hand, .. } = self;
        let over = |asked: &Asked| now.since(asked.since) >= PATIENCE_MS;
        let slot =
            sets.get_mut(*hand).and_then(|set| set.iter_mut().find(|slot| slot.as_ref().is_some_and(over)));
        let Some(slot) = slot else {
            *hand = (*hand + 1) % SETS;
            return None;
        };
        let mut entry = slot.take()?;
        *asked -= 1;
        Some((entry.hop, taken(&mut entry, packets, free)))
    }

    /// Drops all packets, as the worker stops, and says what they were.
    pub fn give_up(&mut self) -> impl Iterator<Item = Fate> + use<B> {
        let before = std::mem::replace(self, Waiting::new(self.seed.clone()));
        before.packets.into_iter().flatten().map(|waiter| waiter.fate)
    }

    /// How many packets that came in are not settled yet because they, or their last pieces, wait.
    pub fn unsettled(&self) -> usize {
        self.packets.iter().flatten().filter(|waiter| waiter.fate.settles()).count()
    }

    fn set_of(&self, hop: &NextHop) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of sets")]
        let hash = hop.hash(&self.seed) as usize;
        hash & (SETS - 1)
    }
}

/// Takes a next hop's packets out of their places.
fn taken<B>(
    entry: &mut Asked,
    packets: &mut [Option<Waiter<B>>],
    free: &mut ArrayVec<u16, PACKETS>,
) -> Waiters<B> {
    let mut waiters = Waiters::new();
    for number in entry.packets.drain(..) {
        if let Some(waiter) = packets.get_mut(usize::from(number)).and_then(Option::take) {
            free.push(number);
            waiters.push(waiter);
        }
    }
    waiters
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::id::InterfaceId;

    fn waiting() -> Waiting<u32> {
        Waiting::new(HashSeed::from_secret(b"a secret of sixteen"))
    }

    fn hop(n: u32) -> NextHop {
        NextHop::new(InterfaceId(0), Ipv4Addr::from_bits(n).into())
    }

    fn waiter(packet: u32) -> Waiter<u32> {
        Waiter { packet, fate: Fate::Crossed }
    }

    fn released(waiting: &mut Waiting<u32>, hop: &NextHop, answered: bool) -> Vec<u32> {
        waiting.release(hop, answered).into_iter().map(|waiter| waiter.packet).collect()
    }

    /// All whose time is over, the hand gone round.
    fn overdue(waiting: &mut Waiting<u32>, now: u32) -> Vec<u32> {
        let round = (0..HOPS + SETS).filter_map(|_| waiting.overdue(Millis(now)));
        round.flat_map(|(_, waiters)| waiters).map(|waiter| waiter.packet).collect()
    }

    #[test]
    fn packets_leave_in_the_order_they_came_when_their_next_hop_is_known() {
        let mut waiting = waiting();
        for n in 0..12 {
            let held = waiting.hold(hop(n % 2), waiter(n), Millis(5));
            assert_eq!(held, Held { waits: true, ask: n < 2 }, "packet {n}");
        }
        assert_eq!(released(&mut waiting, &hop(1), true), [1, 3, 5, 7, 9, 11]);
        assert!(released(&mut waiting, &hop(1), true).is_empty());
        assert_eq!(waiting.len(), 6);
        assert_eq!(released(&mut waiting, &hop(0), true), [0, 2, 4, 6, 8, 10]);
        assert!(waiting.is_empty());
        assert!(waiting.hold(hop(0), waiter(0), Millis(6)).ask, "a known one is asked for when it is gone");
    }

    #[test]
    fn so_many_wait_for_one_next_hop_and_the_next_is_refused() {
        let mut waiting = waiting();
        for n in 0..8 {
            assert!(waiting.hold(hop(0), waiter(n), Millis(0)).waits);
        }
        assert_eq!(waiting.hold(hop(0), waiter(8), Millis(0)), Held { waits: false, ask: false });
        assert_eq!(released(&mut waiting, &hop(0), true), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_next_hop_is_asked_for_once_a_second_though_it_fails_at_once() {
        let mut waiting = waiting();
        assert!(waiting.hold(hop(0), waiter(0), Millis(0)).ask);
        assert_eq!(released(&mut waiting, &hop(0), false), [0]);
        assert_eq!(waiting.hold(hop(0), waiter(1), Millis(900)), Held { waits: true, ask: false });
        assert!(overdue(&mut waiting, 999).is_empty());
        assert_eq!(overdue(&mut waiting, 1000), [1]);
        assert!(waiting.hold(hop(0), waiter(2), Millis(1000)).ask);
    }

    #[test]
    fn a_storm_of_next_hops_is_bounded_in_questions_and_packets_and_passes() {
        let mut waiting = waiting();
        let (mut asked, mut held) = (HashSet::new(), 0);
        for n in 0..100_000 {
            let result = waiting.hold(hop(n), waiter(n), Millis(0));
            assert!(!result.ask || asked.insert(n));
            held += usize::from(result.waits);
        }
        assert_eq!((asked.len(), held), (HOPS, PACKETS));
        assert!(overdue(&mut waiting, PATIENCE_MS - 1).is_empty());
        assert_eq!(overdue(&mut waiting, PATIENCE_MS).len(), PACKETS);
        assert!(waiting.is_empty());
        assert_eq!(waiting.hold(hop(1 << 20), waiter(0), Millis(2000)), Held { waits: true, ask: true });
    }

    #[test]
    fn a_worker_that_stops_gives_up_whoever_waits() {
        let mut waiting = waiting();
        for n in 0..20 {
            waiting.hold(hop(n % 7), waiter(n), Millis(0));
        }
        assert_eq!((waiting.give_up().count(), waiting.len(), waiting.give_up().count()), (20, 0, 0));
        assert!(waiting.hold(hop(0), waiter(0), Millis(1)).ask);
    }

    proptest! {
        #[test]
        fn it_agrees_with_lists_in_a_map(
            steps in prop::collection::vec((0u8..8, 0u32..5, 0u32..300), 1..300),
        ) {
            let mut waiting = waiting();
            let mut model: BTreeMap<u32, (u32, Vec<u32>)> = BTreeMap::new();
            let mut now = 0;
            for (number, (what, n, later)) in (0..).zip(steps) {
                match what {
                    0 | 1 => {
                        let packets = released(&mut waiting, &hop(n), what == 0);
                        let expected = model.get_mut(&n).map(|known| std::mem::take(&mut known.1));
                        prop_assert_eq!(packets, expected.unwrap_or_default());
                        if what == 0 {
                            model.remove(&n);
                        }
                    }
                    2 => {
                        now += later;
                        let mut over = overdue(&mut waiting, now);
                        let mut expected = Vec::new();
                        model.retain(|_, (since, packets)| {
                            let stays = now - *since < PATIENCE_MS;
                            if !stays {
                                expected.append(packets);
                            }
                            stays
                        });
                        over.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(over, expected);
                    }
                    _ => {
                        let held = waiting.hold(hop(n), waiter(number), Millis(now));
                        let ask = !model.contains_key(&n);
                        let known = model.entry(n).or_insert((now, Vec::new()));
                        let waits = known.1.len() < PACKETS_A_HOP;
                        if waits {
                            known.1.push(number);
                        }
                        prop_assert_eq!(held, Held { waits, ask });
                    }
                }
                prop_assert_eq!(waiting.len(), model.values().map(|known| known.1.len()).sum::<usize>());
            }
        }
    }
}
