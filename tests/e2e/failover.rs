//! Which appliance a flow goes through when appliances fail, leave, come back or are not there at
//! all.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::lab::capture::{Capture, RST};
use crate::lab::gateway::Attributes;
use crate::lab::traffic::{
    Connection, PATIENCE, datagram_must_cross, exchange, is_silent, must_be_reset, udp_pair,
};
use crate::lab::{ETH, Family, Lab, Side, wait_for};

const REBALANCE: Attributes<'_> = Attributes {
    target_group: &[
        ("target_failover.on_deregistration", "rebalance"),
        ("target_failover.on_unhealthy", "rebalance"),
    ],
    listener: &[],
};

/// Connections until `wanted` of them go through appliance `n`; the others are closed.
fn connections_through(lab: &Lab, n: usize, wanted: usize) -> Vec<Connection> {
    let mut found = Vec::new();
    for _ in 0..64 {
        if found.len() == wanted {
            return found;
        }
        let connection = lab.connect(Family::V4);
        if lab.appliance_of(&connection) == n {
            found.push(connection);
        }
    }
    panic!("of 64 connections {} go through appliance {}", found.len(), n + 1);
}

#[test]
fn a_draining_appliance_keeps_its_flows_and_is_given_no_new_ones() {
    // T-3, H-4
    let lab = Lab::started(2, Attributes::default());
    let mut old = lab.connect(Family::V6);
    let leaving = lab.appliance_of(&old);
    lab.deregister(leaving);
    assert_eq!(
        lab.state_of(leaving),
        Some(("draining".into(), Some("Target.DeregistrationInProgress".into())))
    );
    for _ in 0..12 {
        assert_ne!(lab.appliance_of(&lab.connect(Family::V4)), leaving);
    }
    exchange(&mut old, 1 << 20);
    assert_eq!(lab.appliance_of(&old), leaving);
    let started = lab.gateway().events.wait_for("the drain starts", |event| event["Event"] == "DrainStarted");
    assert_eq!(started["Flows"], 1, "{started}");
}

#[test]
fn after_the_drain_the_flow_goes_on_while_its_appliance_still_answers() {
    // T-4, A-5 default
    let lab = Lab::started(
        2,
        Attributes { target_group: &[("deregistration_delay.timeout_seconds", "0")], listener: &[] },
    );
    let mut old = lab.connect(Family::V4);
    let leaving = lab.appliance_of(&old);
    lab.deregister(leaving);
    lab.gateway().events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
    let unused = Some(("unused".to_owned(), Some("Target.NotRegistered".to_owned())));
    wait_for("the target to have left the group", PATIENCE, || {
        (lab.state_of(leaving) == unused).then_some(())
    });
    exchange(&mut old, 1 << 20);
    assert_eq!(lab.appliance_of(&old), leaving, "it is known until its last flow ends");
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);
}

#[test]
fn an_appliance_registered_again_while_it_drains_keeps_its_flows_and_starts_from_initial() {
    // T-7, H-4
    let lab = Lab::started(2, Attributes::default());
    let mut old = lab.connect(Family::V4);
    let leaving = lab.appliance_of(&old);
    lab.deregister(leaving);
    lab.register(leaving);
    lab.gateway().events.state_of(lab.appliances[leaving].address, "initial");
    old.must_work();
    lab.wait_for_state(leaving, "healthy");
    old.must_work();
    assert_eq!(lab.appliance_of(&old), leaving);
    assert_eq!(lab.appliance_of(&connections_through(&lab, leaving, 1)[0]), leaving, "and is given new ones");
}

#[test]
fn with_rebalance_the_flows_of_a_dead_appliance_move_at_their_next_packet_and_the_others_stay() {
    // T-1, T-2, T-5, A-4
    let mut lab = Lab::started(2, REBALANCE);
    let dead = 0;
    let mut moving = connections_through(&lab, dead, 2);
    let mut staying = connections_through(&lab, 1, 2);
    let datagrams = udp_pair(&lab, Family::V4);
    datagram_must_cross(&datagrams.0, &datagrams.1, b"before");
    let capture = Capture::start(&lab.client, ETH, "tcp");
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    // Nobody sends a datagram a second time.
    lab.wait_until_applied();
    for connection in moving.iter_mut().chain(&mut staying) {
        exchange(connection, 100_000);
        assert_eq!(lab.appliance_of(connection), 1);
    }
    datagram_must_cross(&datagrams.0, &datagrams.1, b"after");
    assert!(capture.tcp().iter().all(|packet| !packet.is(RST)), "rebalance resets nobody");
    lab.start_reflector(dead, &[]);
    lab.wait_for_state(dead, "healthy");
    for connection in &mut moving {
        connection.must_work();
        assert_eq!(lab.appliance_of(connection), 1, "T-5: nothing moves back");
    }
}

#[test]
fn with_every_appliance_unhealthy_new_flows_are_made_all_the_same_and_are_not_reset() {
    // F-6, T-6: the reflectors forward, only their checks fail.
    let mut lab = Lab::new(2);
    for n in 0..2 {
        lab.start_reflector_without_checks(n);
    }
    lab.write_configuration(Attributes {
        target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")],
        listener: &[],
    });
    lab.start_gateway();
    for n in 0..2 {
        lab.wait_for_state(n, "unhealthy");
    }
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 100_000);
    let chosen = lab.appliance_of(&connection);
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);

    // The other one recovers: now a reset has somewhere to go, and the flow is an unhealthy target's.
    lab.kill_reflector(1 - chosen);
    lab.start_reflector(1 - chosen, &[]);
    lab.wait_for_state(1 - chosen, "healthy");
    connection.client.write_all(b"and now?").expect("the kernel takes it");
    must_be_reset(&mut connection.client);
    assert_eq!(lab.appliance_of(&lab.connect_to(connection.listener)), 1 - chosen);
}

#[test]
fn with_no_appliance_registered_flows_are_rejected_and_counted() {
    // F-7
    let lab = Lab::started(0, Attributes::default());
    let listener = lab.listen(Family::V4);
    let address = listener.local_addr().expect("bound");
    let attempt = lab.client.run(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)));
    assert_eq!(attempt.expect_err("nobody forwards it").kind(), std::io::ErrorKind::TimedOut);
    assert!(lab.counted("RejectedFlowCount_TCP") >= 1);
    let (client, _server) = udp_pair(&lab, Family::V4);
    client.send(b"hello?").expect("the kernel takes it");
    wait_for("the rejected datagram to be counted", PATIENCE, || {
        (lab.counted("RejectedFlowCount") > lab.counted("RejectedFlowCount_TCP")).then_some(())
    });
    wait_for("both to be dropped for it", PATIENCE, || (lab.dropped("no_target") >= 2).then_some(()));
}

#[test]
fn a_connection_attempt_caught_by_an_appliances_death_succeeds_at_its_next_syn() {
    // F-14, T-1. Checks as slow as they may be for the death to be found out, by the second, before the second SYN.
    let slower = [("flowgate.health_check.interval_ms", "300"), ("flowgate.health_check.timeout_ms", "300")];
    let mut lab = Lab::started(2, Attributes { target_group: &slower, listener: &[] });
    let listener = lab.listen(Family::V4);
    let address = listener.local_addr().expect("bound");
    lab.kill_reflector(0);
    // All within the time that detection takes. Half of them are lost with the appliance; that none
    // of sixteen were happens once in 65,536 runs.
    let client = &lab.client;
    let took: Vec<Duration> = std::thread::scope(|scope| {
        let attempts: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(move || {
                    let start = Instant::now();
                    let connected = client.run(|| TcpStream::connect_timeout(&address, PATIENCE));
                    connected.expect("the second SYN finds a healthy appliance");
                    start.elapsed()
                })
            })
            .collect();
        attempts.into_iter().map(|attempt| attempt.join().expect("connected")).collect()
    });
    // The kernel sends the second SYN after one second, the third after three.
    let second = Duration::from_millis(900)..Duration::from_millis(2000);
    assert!(took.iter().any(|time| second.contains(time)), "some first SYN was lost: {took:?}");
    assert!(took.iter().all(|time| *time < second.end), "no second SYN was lost: {took:?}");
    assert!(lab.flows().iter().all(|flow| lab.appliance_at(flow.target) == 1), "{:?}", lab.flows());
}

#[test]
fn the_ports_of_a_flow_whose_appliance_died_can_be_used_again_at_once() {
    // F-14, F-11: the client's new connection has the old one's five-tuple.
    let mut lab = Lab::started(2, Attributes::default());
    let mut old = lab.connect(Family::V4);
    let ends: [SocketAddr; 2] = Side::BOTH.map(|side| old.address(side));
    let before = lab.flow_of(&old);
    let dead = lab.appliance_at(before.target);
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    old.client.write_all(b"into the void").expect("the kernel takes it");
    assert!(is_silent(&mut old.client, Duration::from_millis(200)));
    let listener = lab.forget(old);
    let start = Instant::now();
    let stream = lab.connect_from(ends[0], ends[1]);
    let (accepted, _) = listener.accept().expect("connected");
    assert!(start.elapsed() < Duration::from_millis(900), "at its first SYN, not at a retransmission");
    let mut again = Connection::new(stream, accepted, listener);
    exchange(&mut again, 100_000);
    let after = lab.flow_of(&again);
    assert_ne!(lab.appliance_at(after.target), dead);
    assert_ne!(after.cookie, before.cookie, "F-11");
}
