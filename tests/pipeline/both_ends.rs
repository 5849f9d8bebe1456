//! after one end of a flow was reset, the other end's next packet is reset too, once.

use flowgate::datapath::counters::{DropReason, Outcome, ResetTrigger};
use flowgate::datapath::forwarding::{Condition, UnknownFlow};
use flowgate::datapath::messages::FromWorker;
use flowgate::id::{GatewayId, TargetId};

use crate::failover::{data, established, reset_for, resets};
use crate::harness::*;

fn both_ends(bench: &mut Bench) {
    resets(bench);
    bench.policy.both_ends = true;
}

/// The server's side of the same conversation.
fn reply() -> Segment {
    client(4000, ACK | PSH).with_payload(b"reply").reversed()
}

/// A flow whose client was reset, and its target.
fn client_was_told() -> (Bench, u16) {
    let (mut bench, target) = established(both_ends);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    (bench, target)
}

fn counted(bench: &Bench, trigger: ResetTrigger) -> u64 {
    bench.counters.iter().map(|all| all.gateway(GatewayId(0)).resets[trigger.index()].get()).sum()
}

fn owing(bench: &Bench) -> u64 {
    let targets = (0..bench.targets).map(TargetId);
    targets.flat_map(|id| bench.counters.iter().map(move |all| all.target(id).owing_flows.get())).sum()
}

fn entries(bench: &Bench) -> u64 {
    bench.counters.iter().map(|all| all.flow_entries.get()).sum()
}

//
#[test]
fn the_other_end_is_told_by_its_next_packet_once_whichever_end_was_first() {
    for (workers, six, vlan, server_first) in
        [(1, false, false, false), (1, true, true, true), (2, true, false, false), (4, false, true, true)]
    {
        let dress = |segment: Segment| {
            let vlans = if vlan { vec![0x2007] } else { vec![] };
            let segment = Segment { vlans, ..segment };
            if six { segment.over_ipv6() } else { segment }
        };
        let mut bench = Bench::with(4, workers, 1024);
        both_ends(&mut bench);
        bench.publish();
        let out = bench.one(LEFT, &dress(client(4000, SYN)).frame()).1;
        let target = bench.target_of(&out);
        bench.one(LEFT, &dress(client(4000, ACK)).frame());
        bench.set_condition(target, Condition::Unhealthy);

        let ends = [(LEFT, dress(data())), (RIGHT, dress(reply()))];
        let [first, second] = if server_first { [&ends[1], &ends[0]] } else { [&ends[0], &ends[1]] };
        assert_eq!(bench.one(first.0, &first.1.frame()), (first.0, reset_for(&first.1)));
        assert_eq!((bench.live_flows(target), owing(&bench), entries(&bench)), (0, 1, 1), "remembered");
        // Whoever was told is of no flow.
        assert_eq!(bench.dropped(first.0, &first.1.frame()), DropReason::UnknownFlow);
        // By way of another worker, where there is one.
        let out = bench.put_at(usize::from(workers) - 1, second.0, &second.1.frame());
        assert_eq!(out, [(second.0, reset_for(&second.1))]);
        assert_eq!(bench.dropped(second.0, &second.1.frame()), DropReason::UnknownFlow, "once");
        assert_eq!((owing(&bench), entries(&bench)), (0, 0), "the entry goes");

        assert_eq!(
            (counted(&bench, ResetTrigger::Unhealthy), counted(&bench, ResetTrigger::BothEnds)),
            (1, 1)
        );
        let of_target = |trigger: ResetTrigger| -> u64 {
            let each = bench.counters.iter();
            each.map(|all| all.target(TargetId(target)).resets[trigger.index()].get()).sum()
        };
        assert_eq!(of_target(ResetTrigger::BothEnds), 1, "R-8");
        let told = bench.told.iter().filter_map(|told| match told {
            FromWorker::Reset(record) => Some((record.trigger, record.to.1)),
            _ => None,
        });
        let ports = [first.1.ports.0, second.1.ports.0];
        assert!(told.eq([(ResetTrigger::Unhealthy, ports[0]), (ResetTrigger::BothEnds, ports[1])]));
        bench.assert_settled();
    }
}

// off by default.
#[test]
fn by_default_the_other_end_is_not_told_and_nothing_is_remembered() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    assert_eq!((owing(&bench), entries(&bench)), (0, 0));
    assert_eq!(bench.dropped(RIGHT, &reply().frame()), DropReason::UnknownFlow);
    assert_eq!(bench.outcome(Outcome::Answered), 1);
}

//
#[test]
fn it_holds_for_deregistration_and_for_the_idle_timeout() {
    let (mut bench, target) = established(both_ends);
    bench.set_condition(target, Condition::Removed);
    bench.publish();
    bench.one(LEFT, &data().frame());
    assert_eq!(bench.one(RIGHT, &reply().frame()), (RIGHT, reset_for(&reply())));
    assert_eq!(counted(&bench, ResetTrigger::Deregistration), 1);

    for aged_by_hand in [false, true] {
        let (mut bench, _) = established(|bench| {
            both_ends(bench);
            bench.policy.reset_on_idle = true;
        });
        if aged_by_hand {
            bench.pass(400_000);
        } else {
            bench.now += 400_000;
        }
        bench.one(LEFT, &data().frame());
        bench.now += 300_000; // The idle timeout runs from the first reset.
        assert_eq!(bench.one(RIGHT, &reply().frame()), (RIGHT, reset_for(&reply())));
        assert_eq!(
            (counted(&bench, ResetTrigger::IdleTimeout), counted(&bench, ResetTrigger::BothEnds)),
            (1, 1)
        );
        assert_eq!(entries(&bench), 0);
        bench.assert_settled();
    }
}

// R-9, F-8
#[test]
fn the_end_that_was_told_is_not_adopted_and_takes_nothing_from_the_debt() {
    let (mut bench, _) = client_was_told();
    bench.policy.unknown_flow = UnknownFlow::Adopt;
    bench.publish();
    for _ in 0..3 {
        assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::UnknownFlow);
    }
    bench.policy.unknown_flow = UnknownFlow::Reset;
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    assert_eq!(counted(&bench, ResetTrigger::NoFlow), 1);
    assert_eq!(bench.one(RIGHT, &reply().frame()), (RIGHT, reset_for(&reply())));
    assert_eq!(counted(&bench, ResetTrigger::BothEnds), 1);
}

// RFC 5961 4
#[test]
fn a_syn_meanwhile_starts_a_new_flow_and_the_servers_challenge_ack_is_reset_without_ending_it() {
    let (mut bench, target) = client_was_told();
    let syn = client(4000, SYN);
    let (port, first) = bench.one(LEFT, &syn.frame());
    assert_eq!(port, UNDER);
    let now_at = bench.target_of(&first);
    assert_ne!(now_at, target);
    assert_eq!((bench.live_flows(now_at), owing(&bench)), (1, 0));

    // The server still has the old connection: it answers the SYN with an ACK of that.
    let challenge = client(4000, ACK).reversed();
    let challenge = Segment { seq: 77_000, ack: 5_500, ..challenge };
    assert_eq!(bench.one(RIGHT, &challenge.frame()), (RIGHT, reset_for(&challenge)));
    assert_eq!(counted(&bench, ResetTrigger::BothEnds), 1);

    // The SYN again, now to a server that has forgotten, and the connection stands.
    let again = bench.one(LEFT, &syn.frame()).1;
    assert_eq!((bench.target_of(&again), cookie(&again)), (now_at, cookie(&first)), "the new flow goes on");
    for (port, segment) in [
        (RIGHT, client(4000, SYN | ACK).reversed()),
        (LEFT, client(4000, ACK)),
        (RIGHT, reply()),
        (LEFT, data()),
    ] {
        let (port, out) = bench.one(port, &segment.frame());
        assert_eq!((port, cookie(&out)), (UNDER, cookie(&first)));
    }
    assert_eq!(bench.outcome(Outcome::Answered), 2);
    bench.assert_settled();
}

//
#[test]
fn what_shows_that_the_old_connection_is_gone_cancels_the_debt() {
    // The server's SYN-ACK; the client's ACK to one that went another way; the server's refusal.
    for (port, shows) in [
        (RIGHT, client(4000, SYN | ACK).reversed()),
        (LEFT, client(4000, ACK)),
        (RIGHT, client(4000, RST | ACK).reversed()),
    ] {
        let (mut bench, _) = client_was_told();
        let first = bench.one(LEFT, &client(4000, SYN).frame()).1;
        assert_eq!(bench.one(port, &shows.frame()).0, UNDER);
        let (port, out) = bench.one(RIGHT, &reply().frame());
        assert_eq!((port, cookie(&out)), (UNDER, cookie(&first)), "{shows:?}");
        assert_eq!(counted(&bench, ResetTrigger::BothEnds), 0);
    }
    // A connection that the owed end opens itself.
    let (mut bench, _) = client_was_told();
    assert_eq!(bench.one(RIGHT, &client(4000, SYN).reversed().frame()).0, UNDER);
    assert_eq!(bench.one(RIGHT, &reply().frame()).0, UNDER);
}

//
#[test]
fn a_debt_is_over_an_idle_timeout_after_the_first_reset_whatever_the_told_end_sends() {
    for aged_by_hand in [false, true] {
        let (mut bench, _) = client_was_told();
        for _ in 0..3 {
            bench.now += 100_000;
            bench.dropped(LEFT, &data().frame());
        }
        if aged_by_hand {
            bench.pass(49_999);
            assert_eq!(entries(&bench), 1);
            bench.pass(1);
            assert_eq!((entries(&bench), owing(&bench)), (0, 0), "the hand has forgotten it");
        } else {
            bench.now += 50_000;
        }
        assert_eq!(bench.counters[0].flows_expired.get(), 0, "no flow idled out");
        assert_eq!(bench.dropped(RIGHT, &reply().frame()), DropReason::UnknownFlow);
        assert_eq!((entries(&bench), owing(&bench)), (0, 0));
    }
    let (mut bench, _) = client_was_told();
    bench.now += 349_999;
    assert_eq!(bench.one(RIGHT, &reply().frame()), (RIGHT, reset_for(&reply())));
}

//
#[test]
fn a_packet_that_must_not_be_answered_leaves_the_debt_and_a_reset_settles_it() {
    let (mut bench, _) = client_was_told();
    let mut bad_checksum = reply().frame();
    bad_checksum[24] ^= 0xff;
    assert_eq!(bench.dropped(RIGHT, &bad_checksum), DropReason::NotAnswerable);
    assert_eq!(owing(&bench), 1);
    let reset = Segment { flags: RST, ..reply() };
    assert_eq!(bench.dropped(RIGHT, &reset.frame()), DropReason::UnknownFlow);
    assert_eq!(entries(&bench), 0, "the server has ended it itself");
}

// R-9, F-11
#[test]
fn what_the_appliance_returns_for_a_flow_that_owes_is_stale() {
    let (mut bench, target) = established(both_ends);
    let out = bench.one(LEFT, &data().frame()).1;
    bench.set_condition(target, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::CookieStale);
}

// R-9, F-12
#[test]
fn flows_that_owe_make_room_for_others_and_never_push_out_the_living() {
    const ROOM: u16 = 64;
    let mut bench = Bench::with(4, 1, u32::from(ROOM));
    both_ends(&mut bench);
    bench.publish();
    let connect = |bench: &mut Bench, port: u16| {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    };
    for port in 1..=ROOM {
        connect(&mut bench, port);
    }
    let dead: Vec<u16> = (0..2).collect();
    for target in &dead {
        bench.set_condition(*target, Condition::Unhealthy);
    }
    for port in 1..=ROOM {
        bench.one(LEFT, &client(port, ACK | PSH).with_payload(b"still there?").frame());
    }
    let owed = owing(&bench);
    let living = u64::from(ROOM) - owed;
    assert!(owed > 10 && living > 10, "some of each: {owed} owing, {living} live");
    assert_eq!(entries(&bench), u64::from(ROOM), "full");

    // As many new flows as there are memories, and then some.
    for port in 1000..1000 + ROOM {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    assert_eq!(owing(&bench), 0);
    assert_eq!(bench.counters[0].flows_evicted.get(), owed);
    let live: u64 = (0..4).map(|target| bench.live_flows(target)).sum();
    assert_eq!(live, u64::from(ROOM));
    for port in 1..=ROOM {
        // Those that lived are as they were.
        let out = bench.put(LEFT, &client(port, ACK).frame());
        assert!(out.iter().all(|(port, _)| *port == UNDER), "{out:02x?}");
    }
    bench.assert_settled();
}

// the server's half of the flow is settled with the flow: its link header is let go, and the target's
// slot is not given away while a reset may still be counted for it.
#[test]
fn a_removed_targets_debt_is_counted_at_the_target_until_it_is_paid() {
    let (mut bench, target) = established(both_ends);
    bench.set_condition(target, Condition::Removed);
    bench.publish();
    bench.one(RIGHT, &reply().frame());
    let owing = |bench: &Bench| bench.counters[0].target(TargetId(target)).owing_flows.get();
    assert_eq!((bench.live_flows(target), owing(&bench)), (0, 1));
    bench.one(LEFT, &data().frame());
    assert_eq!((bench.live_flows(target), owing(&bench)), (0, 0));
    let resets = &bench.counters[0].target(TargetId(target)).resets;
    assert_eq!(resets[ResetTrigger::BothEnds.index()].get(), 1);
}
