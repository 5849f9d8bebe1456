//! `decide` as a table: every rule of sections 4 to 6 that it carries out.

use super::*;
use crate::datapath::forwarding::Policy;
use crate::flow::{Direction, Timers};
use crate::id::Millis;

const NOW: Millis = Millis(1_000_000);

fn tcp(flags: TcpFlags) -> Facts {
    Facts { tcp: true, flags, direction: Direction::LowToHigh }
}

fn data() -> Facts {
    tcp(TcpFlags::ACK | TcpFlags::PSH)
}

fn syn() -> Facts {
    tcp(TcpFlags::SYN)
}

fn rst() -> Facts {
    tcp(TcpFlags::RST | TcpFlags::ACK)
}

fn udp() -> Facts {
    Facts { tcp: false, flags: TcpFlags::empty(), direction: Direction::LowToHigh }
}

fn flow(condition: Condition) -> FlowFacts {
    FlowFacts {
        state: FlowState::Established,
        last_seen: Millis(NOW.0 - 1000),
        fins: Ends::NONE,
        resets: Ends::NONE,
        fail_open: false,
        debts: Debts::NONE,
        condition,
        unhealthy_for: 1000,
    }
}

fn other(condition: Condition) -> FlowFacts {
    FlowFacts { state: FlowState::Other, ..flow(condition) }
}

/// What is done with a packet under a policy, with another target healthy or not.
fn verdict(packet: Facts, flow: Option<FlowFacts>, policy: Policy, any_healthy: bool) -> Verdict {
    let timers = Timers::default();
    decide(&packet, flow.as_ref(), &around(&policy, &timers, any_healthy))
}

fn around<'a>(policy: &'a Policy, timers: &'a Timers, any_healthy: bool) -> Surroundings<'a> {
    let healthy_percent = if any_healthy { 50 } else { 0 };
    Surroundings {
        policy,
        timers,
        any_healthy,
        healthy_percent,
        may_reset: true,
        may_reset_no_flow: true,
        forgot: None,
        now: NOW,
    }
}

/// The verdict of a reset after which nothing is remembered.
fn reset(trigger: ResetTrigger) -> Verdict {
    Verdict::Reset(trigger, Then::Forget)
}

/// The verdict of a drop after which nothing is remembered.
fn dropped(reason: DropReason) -> Verdict {
    Verdict::Drop(reason, Then::Forget)
}

const NEW: Verdict = Verdict::New(Debts::NONE);

fn stays(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Stay(_))
}

fn defaults() -> Policy {
    Policy::default()
}

fn resets() -> Policy {
    Policy { reset_on_unhealthy: true, reset_on_deregistration: true, ..defaults() }
}

fn rebalance() -> Policy {
    Policy { failover: Failover::Rebalance, ..defaults() }
}

fn reset_on_idle() -> Policy {
    Policy { reset_on_idle: true, ..defaults() }
}

use Condition::{Draining, Healthy, Initial, Removed, Unhealthy};
use ResetTrigger::{Deregistration, IdleTimeout, NoFlow};

/// T-1, T-2, T-3, T-4: data of an established flow, by condition of its target and policy, with
/// another target healthy.
#[test]
fn section_5_for_a_packet_that_opens_nothing() {
    enum Then {
        Stays,
        Moves,
        Resets(ResetTrigger),
    }
    use Then::{Moves, Resets, Stays};
    let unhealthy = Resets(ResetTrigger::Unhealthy);
    let table = [
        // condition, TCP: default, with reset, rebalance; others: default, with reset, rebalance
        (Initial, [Stays, Stays, Stays], [Stays, Stays, Stays]),
        (Healthy, [Stays, Stays, Stays], [Stays, Stays, Stays]),
        (Unhealthy, [Stays, unhealthy, Moves], [Stays, Stays, Moves]),
        (Draining, [Stays, Stays, Stays], [Stays, Stays, Stays]),
        (Removed, [Stays, Resets(Deregistration), Moves], [Stays, Stays, Moves]),
    ];
    for (condition, of_tcp, of_others) in table {
        for (column, policy) in [defaults(), resets(), rebalance()].into_iter().enumerate() {
            for (packet, flow, expected) in
                [(data(), flow(condition), &of_tcp[column]), (udp(), other(condition), &of_others[column])]
            {
                let found = verdict(packet, Some(flow), policy, true);
                let as_expected = match expected {
                    Stays => stays(found),
                    Moves => matches!(found, Verdict::Move(_)),
                    Resets(trigger) => found == reset(*trigger),
                };
                assert!(as_expected, "{condition:?}, column {column}, {packet:?}: {found:?}");
            }
        }
    }
}

//
#[test]
fn each_reset_flag_is_for_its_own_event() {
    let unhealthy_only = Policy { reset_on_unhealthy: true, ..defaults() };
    let deregistered_only = Policy { reset_on_deregistration: true, ..defaults() };
    assert!(stays(verdict(data(), Some(flow(Removed)), unhealthy_only, true)));
    assert!(stays(verdict(data(), Some(flow(Unhealthy)), deregistered_only, true)));
}

//
#[test]
fn rebalance_wins_over_a_reset() {
    let both = Policy { failover: Failover::Rebalance, ..resets() };
    assert!(matches!(verdict(data(), Some(flow(Unhealthy)), both, true), Verdict::Move(_)));
    assert!(stays(verdict(data(), Some(flow(Unhealthy)), both, false)));
}

// T-6
#[test]
fn with_nobody_healthy_an_old_flow_is_reset_and_one_that_failed_open_is_not() {
    assert_eq!(verdict(data(), Some(flow(Unhealthy)), resets(), false), reset(ResetTrigger::Unhealthy));
    let failed_open = FlowFacts { fail_open: true, ..flow(Unhealthy) };
    assert!(stays(verdict(data(), Some(failed_open), resets(), false)));
    assert_eq!(verdict(data(), Some(failed_open), resets(), true), reset(ResetTrigger::Unhealthy));
    assert!(stays(verdict(data(), Some(flow(Unhealthy)), rebalance(), false)));
}

// F-6, T-6
#[test]
fn the_fail_open_mark_goes_when_its_target_is_healthy() {
    let failed_open = FlowFacts { fail_open: true, ..flow(Healthy) };
    let Verdict::Stay(update) = verdict(data(), Some(failed_open), resets(), true) else { panic!() };
    assert!(!update.fail_open);
    let still = FlowFacts { fail_open: true, ..flow(Unhealthy) };
    let Verdict::Stay(update) = verdict(data(), Some(still), defaults(), false) else { panic!() };
    assert!(update.fail_open);
}

// F-14, R-6
#[test]
fn a_syn_on_a_flow_whose_target_is_out_starts_a_new_one_in_every_mode() {
    for policy in [defaults(), resets(), rebalance()] {
        for condition in [Initial, Unhealthy, Draining, Removed] {
            let found = verdict(syn(), Some(flow(condition)), policy, true);
            assert_eq!(found, NEW, "{condition:?} {policy:?}");
        }
        assert!(stays(verdict(syn(), Some(flow(Healthy)), policy, true)));
    }
}

// F-14
#[test]
fn without_syn_reselect_a_syn_stays_unless_the_flow_would_be_reset_or_moved() {
    let off = |policy| Policy { syn_reselect: false, ..policy };
    for condition in [Initial, Healthy, Unhealthy, Draining, Removed] {
        assert!(stays(verdict(syn(), Some(flow(condition)), off(defaults()), true)), "{condition:?}");
    }
    for condition in [Unhealthy, Removed] {
        assert_eq!(verdict(syn(), Some(flow(condition)), off(resets()), true), NEW);
        assert_eq!(verdict(syn(), Some(flow(condition)), off(rebalance()), true), NEW);
    }
}

// R-6, F-6
#[test]
fn with_nobody_healthy_a_syn_fails_open_once_and_then_stays() {
    assert_eq!(verdict(syn(), Some(flow(Unhealthy)), resets(), false), NEW);
    let failed_open = FlowFacts { fail_open: true, ..flow(Unhealthy) };
    assert!(stays(verdict(syn(), Some(failed_open), resets(), false)));
    assert!(stays(verdict(syn(), Some(flow(Unhealthy)), defaults(), false)));
    assert_eq!(verdict(syn(), Some(flow(Removed)), defaults(), false), NEW);
}

// "the next packet from either side", a server's SYN-ACK too
#[test]
fn a_syn_ack_is_no_syn() {
    let syn_ack = tcp(TcpFlags::SYN | TcpFlags::ACK);
    assert_eq!(verdict(syn_ack, Some(flow(Unhealthy)), resets(), true), reset(ResetTrigger::Unhealthy));
    assert_eq!(verdict(syn_ack, None, defaults(), true), dropped(DropReason::UnknownFlow));
    assert_eq!(verdict(syn_ack, None, reset_on_idle(), true), reset(NoFlow));
}

//
#[test]
fn a_reset_is_never_answered_with_a_reset() {
    let idle = FlowFacts { last_seen: Millis(NOW.0 - 350_000), ..flow(Healthy) };
    assert!(stays(verdict(rst(), Some(flow(Unhealthy)), resets(), true)));
    assert!(stays(verdict(rst(), Some(flow(Removed)), resets(), true)));
    assert_eq!(verdict(rst(), Some(idle), reset_on_idle(), true), dropped(DropReason::ExpiredFlow));
    assert_eq!(verdict(rst(), None, reset_on_idle(), true), dropped(DropReason::UnknownFlow));
}

// F-8, R-3, A-6
#[test]
fn a_packet_of_no_flow() {
    let unknown_reset = Policy { unknown_flow: UnknownFlow::Reset, ..defaults() };
    assert_eq!(verdict(syn(), None, defaults(), true), NEW);
    assert_eq!(verdict(udp(), None, defaults(), true), NEW);
    assert_eq!(verdict(data(), None, defaults(), true), dropped(DropReason::UnknownFlow));
    assert_eq!(verdict(data(), None, resets(), true), dropped(DropReason::UnknownFlow));
    assert_eq!(verdict(data(), None, reset_on_idle(), true), reset(NoFlow));
    assert_eq!(verdict(data(), None, unknown_reset, true), reset(NoFlow));
    for policy in [defaults(), reset_on_idle()] {
        let adopting = Policy { unknown_flow: UnknownFlow::Adopt, ..policy };
        assert_eq!(verdict(data(), None, adopting, true), NEW);
        assert_eq!(verdict(rst(), None, adopting, true), dropped(DropReason::UnknownFlow));
    }
}

// F-8, F-12
#[test]
fn after_an_overflow_or_a_restart_a_packet_of_no_flow_is_taken_in() {
    for policy in [defaults(), reset_on_idle()] {
        for forgot in [Forgot::Overflow, Forgot::Restart] {
            let timers = Timers::default();
            let around = Surroundings { forgot: Some(forgot), ..around(&policy, &timers, true) };
            assert_eq!(decide(&data(), None, &around), NEW);
        }
    }
}

// F-9, F-12
#[test]
fn after_a_half_open_flow_made_room_its_handshake_goes_on_and_takes_no_more_room_than_a_syn() {
    let timers = Timers::default();
    let (syn_ack, fin) = (tcp(TcpFlags::SYN | TcpFlags::ACK), tcp(TcpFlags::FIN | TcpFlags::ACK));
    for policy in [defaults(), reset_on_idle(), Policy { unknown_flow: UnknownFlow::Reset, ..defaults() }] {
        let around = Surroundings { forgot: Some(Forgot::Eviction), ..around(&policy, &timers, true) };
        for packet in [data(), syn_ack, fin, rst()] {
            assert_eq!(decide(&packet, None, &around), Verdict::Rejoin);
        }
        assert_eq!(decide(&syn(), None, &around), NEW);
        assert_eq!(decide(&udp(), None, &around), NEW);
        // What is known to be over is over.
        let idle = FlowFacts { state: FlowState::Expired, ..flow(Healthy) };
        assert_ne!(decide(&data(), Some(&idle), &around), Verdict::Rejoin);
    }
    let adopting = Policy { unknown_flow: UnknownFlow::Adopt, ..defaults() };
    let around = Surroundings { forgot: Some(Forgot::Eviction), ..around(&adopting, &timers, true) };
    assert_eq!(decide(&data(), None, &around), NEW, "as the operator has it");

    let states = [data(), syn_ack, fin, rst()].map(|packet| rejoined_state(&packet).state);
    let half_open = FlowState::HalfOpen;
    assert_eq!(states, [half_open, half_open, half_open, FlowState::Closed]);
    assert!(rejoined_state(&fin).fins.low);
}

// F-8, F-9, F-12
#[test]
fn a_first_packet_counts_as_it_would_in_a_flow_that_was_there() {
    let (syn_ack, fin) = (tcp(TcpFlags::SYN | TcpFlags::ACK), tcp(TcpFlags::FIN | TcpFlags::ACK));
    let (none, low) = (Ends::NONE, Ends { low: true, high: false });
    let cases = [
        (syn(), FlowState::HalfOpen, none),
        // What a flood can be made of must be able to make room.
        (syn_ack, FlowState::HalfOpen, none),
        (data(), FlowState::Established, none),
        (fin, FlowState::Established, low),
        (rst(), FlowState::Closed, none),
        (udp(), FlowState::Other, none),
    ];
    for (packet, state, fins) in cases {
        let update = Update { state, fins, resets: Ends::NONE, fail_open: false, debts: Debts::NONE };
        assert_eq!(first_state(&packet), update, "{packet:?}");
    }
}

// F-10, R-3, A-6, A-7
#[test]
fn an_idle_flow_expires_to_the_millisecond_whether_the_hand_has_passed_or_not() {
    let idle = |ms| FlowFacts { last_seen: Millis(NOW.0 - ms), ..flow(Healthy) };
    let remembered = FlowFacts { state: FlowState::Expired, last_seen: Millis(0), ..flow(Removed) };
    assert!(stays(verdict(data(), Some(idle(349_999)), reset_on_idle(), true)));
    for expired in [idle(350_000), remembered] {
        assert_eq!(verdict(data(), Some(expired), defaults(), true), dropped(DropReason::ExpiredFlow));
        assert_eq!(verdict(data(), Some(expired), resets(), true), dropped(DropReason::ExpiredFlow));
        assert_eq!(verdict(data(), Some(expired), reset_on_idle(), true), reset(IdleTimeout));
        assert_eq!(verdict(syn(), Some(expired), reset_on_idle(), true), NEW);
    }
}

// F-10, A-10
#[test]
fn an_idle_flow_of_another_protocol_is_simply_new() {
    let idle = |ms| FlowFacts { last_seen: Millis(NOW.0 - ms), ..other(Unhealthy) };
    assert!(stays(verdict(udp(), Some(idle(119_999)), reset_on_idle(), true)));
    assert_eq!(verdict(udp(), Some(idle(120_000)), reset_on_idle(), true), NEW);
}

// F-9
#[test]
fn closed_and_half_open_flows_are_forgotten_sooner() {
    let closed = |ms| FlowFacts { state: FlowState::Closed, last_seen: Millis(NOW.0 - ms), ..flow(Healthy) };
    let half_open = |ms| FlowFacts { state: FlowState::HalfOpen, ..closed(ms) };
    assert!(stays(verdict(data(), Some(closed(9_999)), defaults(), true)));
    assert!(stays(verdict(data(), Some(half_open(59_999)), defaults(), true)));
    for gone in [closed(10_000), half_open(60_000)] {
        assert_eq!(verdict(data(), Some(gone), defaults(), true), dropped(DropReason::UnknownFlow));
        assert_eq!(verdict(data(), Some(gone), reset_on_idle(), true), reset(NoFlow));
        assert_eq!(verdict(syn(), Some(gone), defaults(), true), NEW);
    }
    assert_eq!(verdict(syn(), Some(closed(1)), defaults(), true), NEW);
}

// F-9
#[test]
fn a_flow_opens_with_the_first_packet_without_syn_and_closes_with_both_fins_or_a_reset() {
    let half_open = FlowFacts { state: FlowState::HalfOpen, ..flow(Healthy) };
    let after = |packet, flow| match verdict(packet, Some(flow), defaults(), true) {
        Verdict::Stay(update) => update,
        other => panic!("{other:?}"),
    };
    let back = |packet: Facts| Facts { direction: Direction::HighToLow, ..packet };
    let fin = tcp(TcpFlags::FIN | TcpFlags::ACK);
    let syn_ack = back(tcp(TcpFlags::SYN | TcpFlags::ACK));

    assert_eq!(after(syn(), half_open).state, FlowState::HalfOpen);
    assert_eq!(after(syn_ack, half_open).state, FlowState::HalfOpen);
    assert_eq!(after(data(), half_open).state, FlowState::Established);
    assert_eq!(after(back(data()), half_open).state, FlowState::Established);
    assert_eq!(after(rst(), half_open).state, FlowState::Closed);

    let one_fin = after(fin, flow(Healthy));
    assert_eq!(one_fin.state, FlowState::Established);
    assert_eq!(one_fin.fins, Ends { low: true, high: false });
    let half_closed = FlowFacts { fins: one_fin.fins, ..flow(Healthy) };
    assert_eq!(after(fin, half_closed).state, FlowState::Established, "the same FIN again");
    assert_eq!(after(back(fin), half_closed).state, FlowState::Closed);
    assert_eq!(after(syn(), half_closed).fins, Ends::NONE, "the port is used again");
}

// F-9
#[test]
fn a_reset_whose_sender_goes_on_was_forged_and_closes_nothing() {
    let after = |packet, flow| match verdict(packet, Some(flow), defaults(), true) {
        Verdict::Stay(Update { state, fins, resets, .. }) => FlowFacts { state, fins, resets, ..flow },
        other => panic!("{other:?}"),
    };
    let back = |packet: Facts| Facts { direction: Direction::HighToLow, ..packet };
    let (fin, syn_ack) = (tcp(TcpFlags::FIN | TcpFlags::ACK), tcp(TcpFlags::SYN | TcpFlags::ACK));
    let (low, high) = (Ends { low: true, high: false }, Ends { low: false, high: true });

    let reset = after(rst(), flow(Healthy));
    assert_eq!((reset.state, reset.resets), (FlowState::Closed, low));
    // What the other end sends was on its way; nor does another reset, or a SYN-ACK, show that the end lives.
    for packet in [back(data()), back(fin), rst(), syn_ack] {
        assert_eq!(after(packet, reset).state, FlowState::Closed, "{packet:?}");
    }
    let again = after(data(), reset);
    assert_eq!((again.state, again.resets), (FlowState::Established, Ends::NONE));
    assert_eq!(after(fin, reset).state, FlowState::Established, "and may be closed in order");

    let both = after(back(rst()), reset);
    assert_eq!(both.resets, Ends { low: true, high: true });
    let one = after(data(), both);
    assert_eq!((one.state, one.resets), (FlowState::Closed, high));
    assert_eq!(after(back(data()), one).state, FlowState::Established, "neither was the end's own");

    // What both FINs have closed stays closed.
    let finished = after(back(fin), after(fin, flow(Healthy)));
    assert_eq!(finished.state, FlowState::Closed);
    let then_reset = after(rst(), finished);
    for packet in [data(), back(data())] {
        assert_eq!(after(packet, finished).state, FlowState::Closed);
        assert_eq!(after(packet, then_reset).state, FlowState::Closed);
    }
    assert_eq!(verdict(syn(), Some(reset), defaults(), true), NEW, "a SYN is the port used again");
}

/// All that `decide` can be asked, with each possible value.
fn questions() -> impl Iterator<Item = (Facts, Option<FlowFacts>, Policy, bool)> {
    let packets = [syn(), data(), rst(), udp(), tcp(TcpFlags::SYN | TcpFlags::ACK), tcp(TcpFlags::FIN)];
    let states = FlowState::IN_USE;
    let conditions = [Initial, Healthy, Unhealthy, Draining, Removed];
    packets.into_iter().flat_map(move |packet| {
        (0..states.len() * 5 * 2 * 3 * 4).flat_map(move |n| {
            let flow = FlowFacts {
                state: states[n % 6],
                condition: conditions[n / 6 % 5],
                fail_open: n / 30 % 2 == 1,
                last_seen: Millis(NOW.0 - [5, 100_000, 1_000_000][n / 60 % 3]),
                fins: Ends::NONE,
                resets: Ends { low: n / 30 % 2 == 1, high: n / 180 % 2 == 1 },
                debts: Debts { low: n / 180 % 2 == 1, high: n / 360 == 1 },
                unhealthy_for: 1000,
            };
            let fits = packet.tcp != (flow.state == FlowState::Other);
            (0..128).map(move |bits| {
                let policy = Policy {
                    failover: [Failover::NoRebalance, Failover::Rebalance][bits & 1],
                    reset_on_unhealthy: bits & 2 != 0,
                    reset_on_deregistration: bits & 4 != 0,
                    reset_on_idle: bits & 8 != 0,
                    syn_reselect: bits & 16 != 0,
                    both_ends: bits & 64 != 0,
                    ..defaults()
                };
                (packet, fits.then_some(flow), policy, bits & 32 != 0)
            })
        })
    })
}

// T-2, A-5
#[test]
fn whatever_is_asked_no_reset_answers_a_syn_a_reset_or_another_protocol() {
    for (packet, flow, policy, any_healthy) in questions() {
        let found = verdict(packet, flow, policy, any_healthy);
        if let Verdict::Reset(trigger, _) = found {
            assert!(packet.tcp && !packet.opens() && !packet.resets(), "{packet:?} {flow:?} {policy:?}");
            let allowed = match trigger {
                ResetTrigger::Unhealthy => policy.reset_on_unhealthy,
                ResetTrigger::Deregistration => policy.reset_on_deregistration,
                ResetTrigger::IdleTimeout | ResetTrigger::NoFlow => policy.reset_on_idle,
                ResetTrigger::BothEnds => flow.is_some_and(|flow| flow.debts.to(packet.direction)),
                ResetTrigger::Proactive => false,
            };
            assert!(allowed, "{found:?} {policy:?}");
        }
        if matches!(found, Verdict::Move(_)) {
            assert!(policy.failover == Failover::Rebalance && any_healthy);
        }
        if flow.is_none() {
            assert!(!matches!(found, Verdict::Stay(_) | Verdict::Move(_)));
        }
        assert!(!matches!(found, Verdict::Held(..)), "R-11 is off");
    }
}

// with the defaults nothing is remembered, nothing is owed, nobody is told unasked.
#[test]
fn with_the_defaults_no_flow_owes_anything() {
    for (packet, flow, policy, any_healthy) in questions() {
        let flow = flow.map(|flow| FlowFacts { debts: Debts::NONE, ..flow });
        if policy.both_ends || flow.is_some_and(|flow| flow.state == FlowState::Owing) {
            continue;
        }
        let owed = match verdict(packet, flow, policy, any_healthy) {
            Verdict::Stay(update) | Verdict::Move(update) => update.debts,
            Verdict::New(debts) => debts,
            Verdict::Rejoin => Debts::NONE,
            Verdict::Reset(_, then) | Verdict::Drop(_, then) => {
                assert_eq!(then, Then::Forget);
                Debts::NONE
            }
            Verdict::Held(..) => panic!("no guard is set"),
        };
        assert_eq!(owed, Debts::NONE);
        let timers = Timers::default();
        if let Some(flow) = flow {
            assert_eq!(unasked(&flow, &around(&policy, &timers, any_healthy)), Unasked::No);
        }
    }
}

mod guards;
mod telling;
