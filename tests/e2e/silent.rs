//! Ends that no reset in answer to their own packets could reach, told all the same: both ends of a flow
//! and silent ones, as real kernels meet it.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::lab::capture::{ACK, Capture, RST, SYN, Tcp};
use crate::lab::gateway::Attributes;
use crate::lab::traffic::{PATIENCE, exchange, is_silent, must_be_reset};
use crate::lab::{ETH, Family, Lab, PAUSE, Side, now};

const PROACTIVE: Attributes<'_> = Attributes {
    target_group: &[
        ("send_tcp_reset.on_unhealthy.enabled", "true"),
        ("send_tcp_reset.on_deregistration.enabled", "true"),
        ("deregistration_delay.timeout_seconds", "1"),
        ("flowgate.reset.proactive", "true"),
    ],
    listener: &[],
};
const BOTH_ENDS: Attributes<'_> = Attributes {
    target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true"), ("flowgate.reset.both_ends", "true")],
    listener: &[],
};

/// What a walk over the flow tables may take on this machine.
const SOON: Duration = PAUSE;

/// Waits until so many resets were sent for a trigger.
fn must_be_counted(lab: &Lab, trigger: &str, resets: u64) {
    lab.wait_until_counted(&format!("TCP_ELB_Reset_Count_{trigger}"), resets);
}

/// The one reset that an end got: unasked, from its own last acknowledgement, and believed at once.
fn told_unasked(packets: &[Tcp], me: std::net::SocketAddr, peer: std::net::SocketAddr, decision: Duration) {
    let resets: Vec<&Tcp> = packets.iter().filter(|p| p.is(RST) && p.destination == me).collect();
    let [reset] = resets[..] else { panic!("{} resets to {me}", resets.len()) };
    let mine: Vec<&Tcp> = packets.iter().filter(|packet| packet.source == me).collect();
    let last = mine.last().expect("it has said something");
    assert!(last.at < decision, "nobody has sent anything: {last:?}");
    assert_eq!((reset.flags, reset.seq, reset.source), (RST, last.ack, peer));
    assert_eq!((reset.window, reset.options, reset.payload, reset.ttl), (0, 0, 0, 64));
    assert!(reset.dont_fragment && reset.checksums_right);
    assert_eq!((reset.source_mac, reset.destination_mac), (last.destination_mac, last.source_mac));
    assert!(reset.at + Duration::from_millis(1) >= decision && reset.at < decision + SOON);
}

//
#[test]
fn an_appliance_dies_and_a_silent_client_and_a_silent_server_are_both_told() {
    for family in Family::BOTH {
        let mut lab = Lab::started(2, PROACTIVE);
        let mut connection = lab.connect(family);
        exchange(&mut connection, 100_000);
        connection.settle();
        let dead = lab.appliance_of(&connection);
        let captures = Side::BOTH.map(|side| Capture::start(lab.host(side), ETH, "tcp"));
        // What each end acknowledged last is in the capture.
        connection.must_work();
        connection.settle();

        lab.kill_reflector(dead);
        let decision = lab.gateway().events.state_of(lab.appliances[dead].address, "unhealthy");
        for (side, capture) in Side::BOTH.into_iter().zip(&captures) {
            must_be_reset(connection.end(side));
            let me = connection.address(side);
            capture.wait_for_tcp("the reset", PATIENCE, |tcp| tcp.is(RST) && tcp.destination == me);
        }
        std::thread::sleep(Duration::from_millis(300));
        let (client, server) = (connection.address(Side::Client), connection.address(Side::Server));
        told_unasked(&captures[0].tcp(), client, server, decision);
        told_unasked(&captures[1].tcp(), server, client, decision);
        must_be_counted(&lab, "proactive", 2);
        lab.wait_until_counted("TCP_ELB_Reset_Count", 2);
        let event = lab.gateway().events.wait_for("the resets are told", |event| {
            event["Event"] == "FlowsReset" && event["Trigger"] == "proactive"
        });
        assert_eq!(event["Target"], lab.appliances[dead].address.to_string());

        let mut again = lab.connect_to(connection.listener);
        exchange(&mut again, 100_000);
        assert_ne!(lab.appliance_of(&again), dead);
    }
}

//
#[test]
fn a_drain_ends_and_the_flows_that_are_silent_are_told() {
    let lab = Lab::started(2, PROACTIVE);
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    connection.settle();
    let leaving = lab.appliance_of(&connection);
    let began = Instant::now();
    lab.deregister(leaving);
    for side in Side::BOTH {
        must_be_reset(connection.end(side));
        let after = began.elapsed();
        assert!(after >= Duration::from_millis(990), "not before the delay is over, but after {after:?}");
    }
    must_be_counted(&lab, "proactive", 2);
}

// a server that has accepted and never said a word.
#[test]
fn a_connection_on_which_nothing_was_ever_said_is_told_at_both_ends() {
    let mut lab = Lab::started(2, PROACTIVE);
    let mut connection = lab.connect(Family::V4);
    connection.settle();
    lab.kill_reflector(lab.appliance_of(&connection));
    for side in Side::BOTH {
        must_be_reset(connection.end(side));
    }
    must_be_counted(&lab, "proactive", 2);
}

//
#[test]
fn after_one_end_was_reset_the_other_is_told_by_its_next_packet() {
    for (first, second) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
        let mut lab = Lab::started(2, BOTH_ENDS);
        let mut connection = lab.connect(Family::V4);
        connection.must_work();
        connection.settle();
        let dead = lab.appliance_of(&connection);
        lab.kill_reflector(dead);
        lab.wait_for_state(dead, "unhealthy");
        connection.end(first).write_all(b"are you there?").expect("the kernel takes it");
        must_be_reset(connection.end(first));
        assert!(is_silent(connection.end(second), Duration::from_millis(300)), "nobody tells it unasked");
        connection.end(second).write_all(b"hello?").expect("the kernel takes it");
        must_be_reset(connection.end(second));
        must_be_counted(&lab, "unhealthy", 1);
        must_be_counted(&lab, "both_ends", 1);
        lab.connect_to(connection.listener).must_work();
    }
}

// RFC 5961 4: the server's kernel answers the SYN of the new connection with an ACK of the old
// one, and is told by what answers that.
#[test]
fn a_client_that_comes_back_from_its_old_port_has_the_servers_old_connection_ended() {
    let mut lab = Lab::started(2, BOTH_ENDS);
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    connection.settle();
    let dead = lab.appliance_of(&connection);
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    connection.client.write_all(b"are you there?").expect("the kernel takes it");
    must_be_reset(&mut connection.client);

    let (from, to) = (connection.address(Side::Client), connection.address(Side::Server));
    let capture = Capture::start(&lab.server, ETH, "tcp");
    let began = now();
    let crate::lab::traffic::Connection { client, mut server, listener } = connection;
    drop(client);
    let client = lab.connect_from(from, to);
    let (accepted, _) = listener.accept().expect("the server takes the new connection");
    must_be_reset(&mut server);
    let mut again = crate::lab::traffic::Connection::new(client, accepted, listener);
    again.must_work();

    let reset =
        capture.wait_for_tcp("the reset", PATIENCE, |packet| packet.is(RST) && packet.destination == to);
    std::thread::sleep(Duration::from_millis(300));
    let packets = capture.tcp();
    let challenge = packets.iter().find(|p| p.source == to && p.flags == ACK).expect("a challenge ACK");
    let syns = packets.iter().filter(|p| p.source == from && p.is(SYN) && !p.is(ACK)).count();
    assert!(syns >= 2, "the first SYN met the old connection");
    assert_eq!((reset.seq, reset.flags), (challenge.ack, RST));
    assert!(challenge.at > began && reset.at - challenge.at < SOON);
    must_be_counted(&lab, "both_ends", 1);
    assert_ne!(lab.appliance_of(&again), dead);
}

// with the defaults neither is told.
#[test]
fn by_default_a_silent_end_is_told_nothing() {
    let attributes =
        Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };
    let mut lab = Lab::started(2, attributes);
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    connection.settle();
    let dead = lab.appliance_of(&connection);
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    for side in Side::BOTH {
        assert!(is_silent(connection.end(side), Duration::from_millis(500)), "{side:?}");
    }
    connection.client.write_all(b"are you there?").expect("the kernel takes it");
    must_be_reset(&mut connection.client);
    connection.server.write_all(b"hello?").expect("the kernel takes it");
    assert!(is_silent(&mut connection.server, Duration::from_millis(500)), "its packets are of no flow");
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 1);
}

//
#[test]
fn a_check_that_fails_everywhere_resets_nobody_and_is_counted() {
    let attributes = Attributes {
        target_group: &[
            ("send_tcp_reset.on_unhealthy.enabled", "true"),
            ("flowgate.reset.proactive", "true"),
            ("flowgate.reset.min_healthy_percent", "60"),
        ],
        listener: &[],
    };
    let mut lab = Lab::started(2, attributes);
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    let alive = lab.appliance_of(&connection);
    // The appliance goes on, only its checks fail: it is restarted without them.
    lab.kill_reflector(alive);
    lab.start_reflector_without_checks(alive);
    lab.wait_for_state(alive, "unhealthy");
    connection.must_work();
    for side in Side::BOTH {
        assert!(is_silent(connection.end(side), Duration::from_millis(300)), "{side:?}");
    }
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);
    assert!(lab.counted("SuppressedResetCount_min_healthy") >= 2);
    assert_eq!(lab.counted("SuppressedResetCount"), lab.counted("SuppressedResetCount_min_healthy"));
}
