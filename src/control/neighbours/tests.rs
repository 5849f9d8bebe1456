//! What is asked and handed on, step by step, on a clock of the test's own.

use super::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

fn hop(last: u8) -> Hop {
    Hop { interface: InterfaceId(1), address: IpAddr::from([10, 0, 0, last]) }
}

/// The machine, and the time.
struct Clockwork {
    neighbours: Neighbours,
    now: Instant,
}

impl Clockwork {
    fn new(fixed: &[(Hop, MacAddr)]) -> Clockwork {
        let neighbours = Neighbours::new(fixed.iter().copied().collect());
        Clockwork { neighbours, now: Instant::now() }
    }

    fn name(&mut self, hops: &[Hop]) -> Vec<Action> {
        self.neighbours.name(hops.iter().copied().collect(), self.now);
        self.neighbours.take_actions()
    }

    fn worker_asks(&mut self, hop: Hop) -> Vec<Action> {
        self.neighbours.worker_asks(hop, self.now);
        self.neighbours.take_actions()
    }

    fn heard(&mut self, heard: Heard) -> Vec<Action> {
        self.neighbours.heard(heard, self.now);
        self.neighbours.take_actions()
    }

    fn is(&mut self, hop: Hop, state: Reachability, mac: MacAddr) -> Vec<Action> {
        self.heard(Heard::Is(hop, state, Some(mac)))
    }

    fn after(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.neighbours.tick(self.now);
        self.neighbours.take_actions()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_named_neighbour_is_asked_for_at_once_and_told_when_it_answers() {
    let mut clock = Clockwork::new(&[]);
    assert_eq!(clock.name(&[hop(1)]), [Action::Ask(hop(1))]);
    assert_eq!(clock.heard(Heard::Is(hop(1), Reachability::Incomplete, None)), []);
    assert_eq!(clock.is(hop(1), Reachability::Reachable, A), [Action::Tell(hop(1), Some(A))]);
    assert_eq!(clock.neighbours.mac(&hop(1)), Some(A));
    assert_eq!(clock.name(&[hop(1)]), [], "it is named already");
    assert_eq!(clock.after(1000 * SECOND), [], "the kernel tells when it is reachable no longer");
}

#[test]
fn what_the_kernel_knows_already_is_told_without_a_question() {
    let mut clock = Clockwork::new(&[]);
    assert_eq!(clock.is(hop(1), Reachability::Reachable, A), [], "nobody wants it yet");
    assert_eq!(clock.worker_asks(hop(1)), [Action::Tell(hop(1), Some(A))]);
    assert_eq!(clock.worker_asks(hop(1)), [Action::Tell(hop(1), Some(A))], "another worker is told too");
}

#[test]
fn a_wanted_neighbour_that_turns_stale_is_asked_for_again_and_an_unwanted_one_is_not() {
    let mut clock = Clockwork::new(&[]);
    clock.worker_asks(hop(1));
    clock.is(hop(1), Reachability::Reachable, A);
    clock.is(hop(2), Reachability::Reachable, B);
    clock.now += 30 * SECOND;
    assert_eq!(clock.is(hop(1), Reachability::Stale, A), [Action::Ask(hop(1))]);
    assert_eq!(clock.is(hop(2), Reachability::Stale, B), []);
    assert_eq!(clock.after(9 * SECOND), [], "the kernel needs its time");
    // The answer was lost: the kernel would have told of an end by now.
    assert_eq!(clock.after(SECOND), [Action::Ask(hop(1))]);
    assert_eq!(clock.is(hop(1), Reachability::Reachable, A), [], "the same address is no news");
    assert_eq!(clock.after(1000 * SECOND), []);
}

#[test]
fn another_address_is_told_at_once_and_confirmed() {
    let mut clock = Clockwork::new(&[]);
    clock.name(&[hop(1)]);
    clock.is(hop(1), Reachability::Reachable, A);
    clock.now += 5 * SECOND;
    let gratuitous = clock.is(hop(1), Reachability::Stale, B);
    assert_eq!(gratuitous, [Action::Tell(hop(1), Some(B)), Action::Ask(hop(1))]);
}

#[test]
fn one_is_asked_for_once_a_second_at_most() {
    let mut clock = Clockwork::new(&[]);
    assert_eq!(clock.worker_asks(hop(1)), [Action::Ask(hop(1))]);
    clock.now += SECOND / 2;
    assert_eq!(clock.worker_asks(hop(1)), [], "it was asked for half a second ago");
    assert_eq!(clock.after(SECOND / 2), [Action::Ask(hop(1))]);
}

#[test]
fn a_named_one_that_fails_is_taken_back_and_tried_again() {
    let mut clock = Clockwork::new(&[]);
    clock.name(&[hop(1)]);
    clock.is(hop(1), Reachability::Reachable, A);
    let failed = Heard::Is(hop(1), Reachability::Failed, None);
    clock.now += 60 * SECOND;
    assert_eq!(clock.heard(failed), [Action::Tell(hop(1), None)]);
    assert_eq!(clock.neighbours.mac(&hop(1)), None);
    assert_eq!(clock.after(2 * SECOND), []);
    assert_eq!(clock.after(SECOND), [Action::Ask(hop(1))]);
    assert_eq!(clock.heard(failed), [], "that it has none is no news");
    assert_eq!(clock.after(3 * SECOND), [Action::Ask(hop(1))], "again and again, as long as it is named");
    assert_eq!(clock.is(hop(1), Reachability::Reachable, B), [Action::Tell(hop(1), Some(B))]);
}

#[test]
fn one_that_only_a_worker_wanted_is_forgotten_when_it_fails() {
    let mut clock = Clockwork::new(&[]);
    clock.worker_asks(hop(1));
    assert_eq!(clock.heard(Heard::Is(hop(1), Reachability::Failed, None)), []);
    assert_eq!(clock.after(100 * SECOND), [], "nobody asks, nobody is told");
    assert_eq!(clock.worker_asks(hop(1)), [Action::Ask(hop(1))]);
    clock.is(hop(1), Reachability::Reachable, A);
    assert_eq!(
        clock.heard(Heard::Is(hop(1), Reachability::Failed, Some(A))),
        [Action::Tell(hop(1), None)],
        "the address that the kernel still has of it is a dead one"
    );
    clock.heard(Heard::Gone(hop(1)));
    assert!(clock.neighbours.entries.is_empty() && clock.neighbours.due.is_empty());
}

#[test]
fn one_that_the_kernel_forgot_is_used_until_it_is_known_not_to_answer() {
    let mut clock = Clockwork::new(&[]);
    clock.worker_asks(hop(1));
    clock.is(hop(1), Reachability::Reachable, A);
    clock.now += 60 * SECOND;
    assert_eq!(clock.heard(Heard::Gone(hop(1))), [Action::Ask(hop(1))]);
    assert_eq!(clock.neighbours.mac(&hop(1)), Some(A));
    assert_eq!(clock.heard(Heard::Refused(hop(1))), [], "the kernel's table is full: it may well be there");
    assert_eq!(clock.after(PATIENCE), [Action::Ask(hop(1))]);
    assert_eq!(clock.heard(Heard::Is(hop(1), Reachability::Failed, None)), [Action::Tell(hop(1), None)]);
}

#[test]
fn a_question_that_the_kernel_refuses_is_asked_again_later() {
    let mut clock = Clockwork::new(&[]);
    clock.name(&[hop(1)]);
    assert_eq!(clock.heard(Heard::Refused(hop(1))), []);
    assert_eq!(clock.after(BETWEEN_ATTEMPTS), [Action::Ask(hop(1))]);
    assert_eq!(clock.worker_asks(hop(2)), [Action::Ask(hop(2))]);
    clock.heard(Heard::Refused(hop(2)));
    assert!(!clock.neighbours.entries.contains_key(&hop(2)), "the worker will ask again");
}

#[test]
fn a_target_that_is_named_no_longer_is_let_go() {
    let mut clock = Clockwork::new(&[]);
    clock.name(&[hop(1), hop(2)]);
    clock.is(hop(1), Reachability::Reachable, A);
    clock.worker_asks(hop(2));
    assert_eq!(clock.name(&[]), [Action::Tell(hop(1), None)], "the worker still wants the other");
    assert_eq!(clock.is(hop(1), Reachability::Stale, A), []);
    assert_eq!(clock.neighbours.on(InterfaceId(1)), [hop(2)]);
}

#[test]
fn a_given_neighbour_is_never_asked_for_and_wins_over_what_the_kernel_finds() {
    let mut clock = Clockwork::new(&[(hop(1), A)]);
    assert_eq!(clock.neighbours.take_actions(), [Action::Tell(hop(1), Some(A))]);
    assert_eq!(clock.name(&[hop(1)]), []);
    assert_eq!(clock.is(hop(1), Reachability::Reachable, B), []);
    assert_eq!(clock.is(hop(1), Reachability::Failed, B), []);
    assert_eq!(clock.worker_asks(hop(1)), [Action::Tell(hop(1), Some(A))]);
    assert_eq!(
        (clock.neighbours.mac(&hop(1)), clock.neighbours.standing(&hop(1))),
        (Some(A), Standing::Static)
    );
    assert_eq!(clock.after(1000 * SECOND), []);
}

#[test]
fn what_a_new_account_leaves_out_is_gone() {
    let mut clock = Clockwork::new(&[]);
    clock.name(&[hop(1), hop(2)]);
    for (last, mac) in [(1, A), (2, B), (3, B)] {
        clock.is(hop(last), Reachability::Reachable, mac);
    }
    clock.now += 60 * SECOND;
    assert_eq!(clock.heard(Heard::Anew), []);
    assert_eq!(clock.is(hop(1), Reachability::Reachable, A), []);
    assert_eq!(clock.heard(Heard::Complete), [Action::Ask(hop(2))]);
    assert!(!clock.neighbours.entries.contains_key(&hop(3)));
}

#[test]
fn a_storm_of_questions_is_bounded() {
    let mut clock = Clockwork::new(&[]);
    for n in 0..=u32::try_from(MAX_KNOWN).expect("small") {
        let address = IpAddr::from(n.to_be_bytes());
        clock.neighbours.worker_asks(Hop { interface: InterfaceId(0), address }, clock.now);
    }
    assert_eq!(clock.neighbours.take_actions().len(), MAX_KNOWN);
    assert_eq!((clock.neighbours.entries.len(), clock.neighbours.due.len()), (MAX_KNOWN, MAX_KNOWN));
}

proptest::proptest! {
    /// Whatever happens: what was handed on last is what `mac` says, one is asked for once a second at
    /// most, and nothing stays that nobody wants and the kernel does not know.
    #[test]
    fn what_was_handed_on_is_what_is_known(
        steps in proptest::collection::vec((0u8..10, 1u8..4, 0u8..2, 0u64..4000), 1..200),
    ) {
        let mut clock = Clockwork::new(&[(hop(3), A)]);
        let mut told: HashMap<Hop, MacAddr> = HashMap::new();
        let mut asked: HashMap<Hop, Instant> = HashMap::new();
        for (what, last, which, ms) in steps {
            clock.now += Duration::from_millis(ms);
            let (hop, now, mac) = (hop(last), clock.now, Some([A, B][usize::from(which)]));
            let neighbours = &mut clock.neighbours;
            match what {
                0 => neighbours.worker_asks(hop, now),
                1 => neighbours.name([hop].into(), now),
                2 => neighbours.name(HashSet::new(), now),
                3 => neighbours.heard(Heard::Gone(hop), now),
                4 => neighbours.heard(Heard::Refused(hop), now),
                5 => neighbours.heard(Heard::Is(hop, Reachability::Failed, mac), now),
                6 => neighbours.heard(Heard::Is(hop, Reachability::Stale, mac), now),
                7 => neighbours.heard(Heard::Is(hop, Reachability::Probe, mac), now),
                8 => neighbours.heard(Heard::Is(hop, Reachability::Reachable, mac), now),
                _ => neighbours.tick(now),
            }
            for action in neighbours.take_actions() {
                match action {
                    Action::Tell(hop, Some(mac)) => { told.insert(hop, mac); }
                    Action::Tell(hop, None) => { told.remove(&hop); }
                    Action::Ask(hop) => {
                        if let Some(before) = asked.insert(hop, now) {
                            proptest::prop_assert!(now >= before + BETWEEN_QUESTIONS);
                        }
                    }
                }
            }
            // One that was forgotten altogether may be asked for anew: the kernel forgot it too.
            asked.retain(|hop, _| neighbours.entries.contains_key(hop));
            for (hop, entry) in &neighbours.entries {
                proptest::prop_assert_eq!(neighbours.mac(hop), told.get(hop).copied());
                proptest::prop_assert!(entry.kernel.is_some() || neighbours.is_wanted(hop) || neighbours.fixed.contains_key(hop));
                proptest::prop_assert_eq!(entry.due.is_some(), neighbours.due.iter().any(|(_, due)| due == hop));
            }
        }
    }
}
