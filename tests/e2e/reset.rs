//! The gateway's TCP resets, as a real kernel at either end meets them: who is told, when, and by
//! what packet; and who never is.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;

use crate::lab::capture::{ACK, Capture, FIN, RST, SYN, Tcp};
use crate::lab::frames::{TcpFrame, fix_ipv4_checksum, send_frame};
use crate::lab::gateway::{Attributes, CHECK_INTERVAL, UNHEALTHY_THRESHOLD};
use crate::lab::traffic::{
    Connection, PATIENCE, datagram_must_cross, exchange, is_silent, must_be_reset, udp_pair,
};
use crate::lab::{
    CLIENT_MAC, CLIENT_V4, CLIENT_V6, ETH, Family, Lab, PAUSE, SERVER_MAC, SERVER_V4, SERVER_V6, Side, now,
    wait_for,
};

const ON_UNHEALTHY: Attributes<'_> =
    Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };
const ON_DEREGISTRATION: Attributes<'_> = Attributes {
    target_group: &[
        ("send_tcp_reset.on_deregistration.enabled", "true"),
        ("deregistration_delay.timeout_seconds", "1"),
    ],
    listener: &[],
};
const ON_IDLE_TIMEOUT: Attributes<'_> =
    Attributes { target_group: &[], listener: &[("send_tcp_reset.on_idle_timeout.enabled", "true")] };

/// What a sent reset may take after the packet that it answers. The gateway needs microseconds; the
/// rest is this machine's.
const AT_ONCE: Duration = PAUSE;
/// Longer than the default idle timeout of TCP.
const IDLE: Duration = Duration::from_secs(351);

/// Checks the reset that `side` of `connection` got: it answers `side`'s first packet after
/// `decision`, at once, with the header of R-4, back the way the packet came. There is no other,
/// unless packets of no flow are reset too and its kernel sent one more before it heard of the first.
fn the_reset_is_right(
    capture: &Capture,
    connection: &Connection,
    side: Side,
    decision: Duration,
    each_packet: bool,
) -> Tcp {
    let (me, peer) = match side {
        Side::Client => (connection.address(Side::Client), connection.address(Side::Server)),
        Side::Server => (connection.address(Side::Server), connection.address(Side::Client)),
    };
    let reset =
        capture.wait_for_tcp("the reset", PATIENCE, |packet| packet.is(RST) && packet.destination == me);
    std::thread::sleep(Duration::from_millis(300));
    let packets = capture.tcp();
    let mine: Vec<&Tcp> =
        packets.iter().filter(|packet| packet.source == me && packet.at <= reset.at).collect();
    let answered = mine.last().expect("a reset answers a packet");
    assert!(reset.at - answered.at < AT_ONCE, "the reset came {:?} after its packet", reset.at - answered.at);
    let resets = capture.resets_to(me).len();
    let after = packets.iter().filter(|packet| packet.source == me && packet.at + AT_ONCE > decision).count();
    assert!(resets == 1 || (each_packet && resets <= after), "{resets} resets for {after} packets");
    let missed: Vec<_> = mine.iter().filter(|p| p.at > decision + AT_ONCE && p.at < answered.at).collect();
    assert!(missed.is_empty(), "decided at {decision:?}, and yet {missed:?} were not answered");

    // R-4, for a packet with ACK.
    assert!(answered.is(ACK) && !answered.is(SYN));
    assert_eq!((reset.flags, reset.seq), (RST, answered.ack));
    assert_eq!((reset.source, reset.destination), (peer, me));
    assert_eq!((reset.window, reset.options, reset.payload, reset.ttl), (0, 0, 0, 64));
    assert!(reset.dont_fragment && reset.checksums_right);
    assert_eq!((reset.source_mac, reset.destination_mac), (answered.destination_mac, answered.source_mac));
    assert!(reset.vlans.is_empty());
    reset
}

impl Lab {
    /// resets were sent so far for `trigger` first, and they are counted under their triggers.
    fn counts_a_reset(&self, trigger: &str) {
        let triggers = ["unhealthy", "deregistration", "idle_timeout", "no_flow", "both_ends", "proactive"];
        let counts = wait_for("the sum of the resets by their triggers", PATIENCE, || {
            let set = self.counters("load-balancer")["Counters"].take();
            let count = |name: &str| set[name].as_u64().unwrap_or_else(|| panic!("no {name} in {set}"));
            let counts = triggers.map(|each| count(&format!("TCP_ELB_Reset_Count_{each}")));
            let all = count("TCP_ELB_Reset_Count");
            (all > 0 && counts.iter().sum::<u64>() == all).then_some(counts)
        });
        for (each, count) in triggers.into_iter().zip(counts) {
            // Once its flow is gone, a packet that was sent before the reset came is of no flow.
            let late = each == "no_flow" && trigger == "idle_timeout";
            assert!(if each == trigger { count >= 1 } else { late || count == 0 }, "{each}: {count}");
        }
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

#[test]
fn an_appliance_dies_and_the_side_that_sends_is_told_at_its_next_packet() {
    // H-7; the kernel takes the reset without a challenge.
    for (family, side) in Family::BOTH.into_iter().flat_map(|f| Side::BOTH.map(|s| (f, s))) {
        let mut lab = Lab::started(2, ON_UNHEALTHY);
        let mut connection = lab.connect(family);
        exchange(&mut connection, 100_000);
        connection.settle();
        let dead = lab.appliance_of(&connection);
        let capture = Capture::start(lab.host(side), ETH, "tcp");

        let killed = now();
        lab.kill_reflector(dead);
        connection.end(side).write_all(b"into the void").expect("the kernel takes it");
        let decision = lab.gateway().events.state_of(lab.appliances[dead].address, "unhealthy");
        // A kill that comes just after a check is found out by the second check after it, and not by a third.
        let promised = CHECK_INTERVAL * (UNHEALTHY_THRESHOLD + 1);
        assert!(
            decision < killed + promised + PAUSE,
            "detected after {:?}, promised in {promised:?}",
            decision - killed
        );
        let record = lab.gateway().rpc.must("describe-failovers", json!({}))["Failovers"][0].take();
        let failed = record["FailedChecks"].as_array().map(Vec::len);
        assert_eq!(failed, usize::try_from(UNHEALTHY_THRESHOLD).ok(), "{record}");

        must_be_reset(connection.end(side));
        let reset = the_reset_is_right(&capture, &connection, side, decision, false);
        assert!(reset.at + Duration::from_millis(1) >= decision, "no reset before the decision");
        assert!(
            is_silent(connection.end(other(side)), Duration::from_millis(300)),
            "the side that is silent is not told"
        );
        lab.counts_a_reset("unhealthy");
        // H-7: under 1 ms where a worker has a core of its own. Here it sleeps when it is idle, and shares the
        // machine with whatever else the tests run.
        let slowest = lab.slowest_condition();
        assert!(!slowest.is_zero() && slowest < PAUSE, "H-7: {slowest:?}");

        // The next connection goes through the appliance that lives.
        let mut again = lab.connect_to(connection.listener);
        exchange(&mut again, 1 << 20);
        assert_ne!(lab.appliance_of(&again), dead);
    }
}

#[test]
fn an_appliance_that_falls_silent_is_found_out_by_the_checks_timeout_and_its_flows_are_reset() {
    // no refusal helps here, the cable is cut.
    let lab = Lab::started(2, ON_UNHEALTHY);
    let mut connection = lab.connect(Family::V4);
    connection.settle();
    let dead = lab.appliance_of(&connection);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    lab.set_link(dead, "down");
    connection.client.write_all(b"into the void").expect("the kernel takes it");
    let decision = lab.gateway().events.state_of(lab.appliances[dead].address, "unhealthy");
    must_be_reset(&mut connection.client);
    the_reset_is_right(&capture, &connection, Side::Client, decision, false);
}

#[test]
fn with_the_defaults_nobody_is_reset_and_the_flow_goes_on_when_the_appliance_comes_back() {
    // A-5, T-1, T-5, F-5
    let mut lab = Lab::started(2, Attributes::default());
    let mut connection = lab.connect(Family::V4);
    connection.settle();
    let dead = lab.appliance_of(&connection);
    let captures = Side::BOTH.map(|side| Capture::start(lab.host(side), ETH, "tcp"));
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    let start = now();
    connection.client.write_all(b"still there?").expect("the kernel takes it");
    connection.server.write_all(b"still there?").expect("the kernel takes it");
    for (side, capture) in Side::BOTH.into_iter().zip(&captures) {
        let me = connection.address(side);
        // Each kernel sends again and again, and is left in the dark.
        wait_for("three transmissions", PATIENCE, || {
            let sent =
                capture.tcp().into_iter().filter(|p| p.source == me && p.payload > 0 && p.at > start).count();
            (sent >= 3).then_some(())
        });
        assert!(is_silent(connection.end(side), Duration::from_millis(100)));
        assert_eq!(capture.resets_to(me), [], "{side:?}");
    }
    assert_eq!(lab.appliance_of(&connection), dead, "F-5: the choice lasts");
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);

    lab.start_reflector(dead, &[]);
    let mut heard = [0; 12];
    for side in Side::BOTH {
        std::io::Read::read_exact(connection.end(side), &mut heard).expect("the retransmission arrives");
        assert_eq!(&heard, b"still there?");
    }
    connection.must_work();
}

#[test]
fn a_udp_flow_of_a_dead_appliance_is_not_reset_but_goes_on_to_it() {
    // T-2
    let mut lab = Lab::started(2, ON_UNHEALTHY);
    let (client, server) = udp_pair(&lab, Family::V4);
    datagram_must_cross(&client, &server, b"one");
    let ends = (client.local_addr().expect("bound"), server.local_addr().expect("bound"));
    let dead = lab.appliance_at(lab.flow_between(ends.0, ends.1).expect("a flow").target);
    let capture = Capture::start(&lab.client, ETH, "");
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    client.send(b"two").expect("the kernel takes it");
    server.set_read_timeout(Some(Duration::from_millis(200))).expect("not zero");
    server.recv(&mut [0; 8]).expect_err("the appliance is dead");
    assert_eq!(lab.appliance_at(lab.flow_between(ends.0, ends.1).expect("a flow").target), dead);
    assert_eq!(
        capture.frames().iter().filter(|f| f.bytes[..6] == CLIENT_MAC && f.bytes[12..14] == [8, 0]).count(),
        0
    );
    lab.start_reflector(dead, &[]);
    server.set_read_timeout(Some(PATIENCE)).expect("not zero");
    lab.wait_for_state(dead, "healthy");
    datagram_must_cross(&client, &server, b"three");
}

#[test]
fn a_deregistered_appliances_flow_goes_on_for_the_delay_and_then_its_sender_is_reset() {
    // R-2, T-3, T-4
    for side in Side::BOTH {
        let lab = Lab::started(2, ON_DEREGISTRATION);
        let mut connection = lab.connect(Family::V4);
        let leaving = lab.appliance_of(&connection);
        let capture = Capture::start(lab.host(side), ETH, "tcp");
        lab.deregister(leaving);
        connection.must_work();
        connection.settle();
        assert_eq!(lab.appliance_of(&connection), leaving, "T-3");
        let ended = lab.gateway().events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
        let decision = crate::lab::rpc::moment(&ended);
        assert_eq!(capture.resets_to(connection.address(side)), []);
        connection.end(side).write_all(b"am I heard?").expect("the kernel takes it");
        must_be_reset(connection.end(side));
        the_reset_is_right(&capture, &connection, side, decision, false);
        assert!(is_silent(connection.end(other(side)), Duration::from_millis(200)));
        lab.counts_a_reset("deregistration");
        let mut again = lab.connect_to(connection.listener);
        exchange(&mut again, 100_000);
        assert_ne!(lab.appliance_of(&again), leaving);
    }
}

#[test]
fn a_packet_of_a_flow_that_was_idle_for_too_long_is_reset() {
    // R-3, F-10, A-6, A-7
    for side in Side::BOTH {
        let lab = Lab::started(2, ON_IDLE_TIMEOUT);
        let mut connection = lab.connect(Family::V4);
        lab.advance_clock(IDLE - Duration::from_secs(10));
        connection.must_work();
        connection.settle();
        let capture = Capture::start(lab.host(side), ETH, "tcp");
        lab.advance_clock(IDLE);
        let decision = now();
        connection.end(side).write_all(b"am I late?").expect("the kernel takes it");
        must_be_reset(connection.end(side));
        the_reset_is_right(&capture, &connection, side, decision, true);
        lab.counts_a_reset("idle_timeout");
        lab.connect_to(connection.listener).must_work();
    }
}

#[test]
fn with_the_reset_on_idle_timeout_off_a_late_packet_is_dropped_without_a_word() {
    // default
    let lab = Lab::started(2, Attributes::default());
    let mut connection = lab.connect(Family::V4);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    lab.advance_clock(IDLE);
    let start = now();
    connection.client.write_all(b"am I late?").expect("the kernel takes it");
    let me = connection.address(Side::Client);
    wait_for("three transmissions", PATIENCE, || {
        let sent =
            capture.tcp().into_iter().filter(|p| p.source == me && p.payload > 0 && p.at > start).count();
        (sent >= 3).then_some(())
    });
    assert_eq!(capture.resets_to(me), []);
    assert!(is_silent(&mut connection.server, Duration::from_millis(50)));
    wait_for("each to be counted", PATIENCE, || {
        (lab.dropped("expired_flow") + lab.dropped("unknown_flow") >= 3).then_some(())
    });
}

#[test]
fn after_the_gateway_was_started_anew_a_packet_of_no_flow_is_reset() {
    // R-3, F-8
    for side in Side::BOTH {
        let mut lab = Lab::started(2, ON_IDLE_TIMEOUT);
        let mut connection = lab.connect(Family::V4);
        connection.must_work();
        connection.settle();
        lab.restart_gateway();
        let capture = Capture::start(lab.host(side), ETH, "tcp");
        let decision = now();
        connection.end(side).write_all(b"who am I?").expect("the kernel takes it");
        must_be_reset(connection.end(side));
        the_reset_is_right(&capture, &connection, side, decision, true);
        lab.counts_a_reset("no_flow");
        lab.connect_to(connection.listener).must_work();
    }
}

/// A packet of no flow, as the client would send it.
fn stranger(family: Family) -> TcpFrame {
    TcpFrame {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlans: vec![],
        source: SocketAddr::new(family.client(), 40_000),
        destination: SocketAddr::new(family.server(), 9),
        seq: 1000,
        ack: 77_000,
        flags: ACK,
        payload: b"hello?".to_vec(),
    }
}

#[test]
fn what_must_never_be_answered_with_a_reset_is_not() {
    // Each is a packet of no flow, which with this setting is reset if it may be: the last
    // of them, which differs from the others in nothing but that it may, shows it.
    let lab = Lab::started(1, ON_IDLE_TIMEOUT);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    let mut never: Vec<(&str, Vec<u8>)> = Vec::new();
    for family in Family::BOTH {
        never.push(("a reset", TcpFrame { flags: RST | ACK, ..stranger(family) }.build()));
        never.push(("a bare reset", TcpFrame { flags: RST, ..stranger(family) }.build()));
        let mut cut = TcpFrame { payload: vec![], ..stranger(family) }.build();
        cut.truncate(cut.len() - 8);
        match family {
            Family::V4 => {
                cut[16..18].copy_from_slice(&32_u16.to_be_bytes());
                fix_ipv4_checksum(&mut cut, 14);
            }
            Family::V6 => cut[18..20].copy_from_slice(&12_u16.to_be_bytes()),
        }
        never.push(("a cut TCP header", cut));
    }
    let mut later = stranger(Family::V4).build();
    later[20..22].copy_from_slice(&8_u16.to_be_bytes());
    fix_ipv4_checksum(&mut later, 14);
    never.push(("a fragment that is not the first", later));
    let whole = stranger(Family::V6).build();
    let mut later = whole[..54].to_vec();
    later[20] = 44;
    later[18..20].copy_from_slice(&(u16::from_be_bytes([whole[18], whole[19]]) + 8).to_be_bytes());
    later.extend([6, 0, 0, 8, 0, 0, 0, 1]);
    later.extend(&whole[54..]);
    never.push(("an IPv6 fragment that is not the first", later));
    let mut damaged = stranger(Family::V4).build();
    damaged[24] ^= 0x55;
    never.push(("a wrong IPv4 header checksum", damaged));
    let group_mac = [0x01, 0x00, 0x5e, 0, 0, 5];
    for (source, destination, mac) in [
        (IpAddr::V4(CLIENT_V4), IpAddr::V4(Ipv4Addr::new(239, 0, 0, 5)), group_mac),
        (CLIENT_V4.into(), Ipv4Addr::BROADCAST.into(), [0xff; 6]),
        (CLIENT_V4.into(), SERVER_V4.into(), [0xff; 6]),
        (Ipv4Addr::new(239, 0, 0, 5).into(), SERVER_V4.into(), SERVER_MAC),
        (Ipv4Addr::BROADCAST.into(), SERVER_V4.into(), SERVER_MAC),
        (CLIENT_V6.into(), "ff02::5".parse().expect("an address"), [0x33, 0x33, 0, 0, 0, 5]),
        ("ff02::5".parse().expect("an address"), SERVER_V6.into(), SERVER_MAC),
    ] {
        let frame = TcpFrame {
            source: SocketAddr::new(source, 40_000),
            destination: SocketAddr::new(destination, 9),
            destination_mac: mac,
            ..stranger(Family::V4)
        };
        never.push(("multicast or broadcast", frame.build()));
    }
    for (_, frame) in &never {
        send_frame(&lab.client, ETH, frame);
    }
    for family in Family::BOTH {
        let may = TcpFrame { ack: 99_000, ..stranger(family) };
        send_frame(&lab.client, ETH, &may.build());
        let reset = capture.wait_for_tcp("the reset that may be", PATIENCE, |p| {
            p.is(RST) && p.seq == 99_000 && p.destination == may.source
        });
        assert_eq!((reset.source, reset.destination), (may.destination, may.source));
    }
    std::thread::sleep(Duration::from_millis(100));
    let told: Vec<_> =
        capture.tcp().into_iter().filter(|p| p.source_mac != CLIENT_MAC && p.is(RST)).collect();
    let names: Vec<_> = never.iter().map(|(name, _)| name).collect();
    assert_eq!(told.len(), 2, "of {names:?} none, and yet: {told:?}");
}

#[test]
fn a_packet_without_ack_is_reset_by_the_sequence_it_would_have_reached() {
    // SEQ = 0, ACK = SEG.SEQ + SEG.LEN, where FIN counts one.
    let lab = Lab::started(1, ON_IDLE_TIMEOUT);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    for family in Family::BOTH {
        let packet = TcpFrame { flags: FIN, seq: u32::MAX - 2, ..stranger(family) };
        send_frame(&lab.client, ETH, &packet.build());
        let reset =
            capture.wait_for_tcp("the reset", PATIENCE, |p| p.is(RST) && p.destination == packet.source);
        assert_eq!((reset.flags, reset.seq, reset.ack), (RST | ACK, 0, 4));
        assert!(reset.checksums_right);
    }
}

#[test]
fn a_syn_meets_no_reset_of_the_gateways_but_a_new_flow() {
    // port 9 is closed, so the one reset there is comes from the server's own kernel.
    let lab = Lab::started(1, ON_IDLE_TIMEOUT);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    let there = Capture::start(&lab.server, ETH, "tcp");
    let syn = TcpFrame { flags: SYN, payload: vec![], ..stranger(Family::V4) };
    send_frame(&lab.client, ETH, &syn.build());
    there.wait_for_tcp("the SYN", PATIENCE, |p| p.is(SYN) && p.source == syn.source);
    there.wait_for_tcp("the server's refusal", PATIENCE, |p| p.is(RST) && p.source == syn.destination);
    capture.wait_for_tcp("the server's refusal at the client", PATIENCE, |p| p.is(RST) && p.ack == 1001);
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);
}

#[test]
fn a_reset_carries_the_vlan_tag_of_the_packet_that_it_answers() {
    // The kernels here know no VLANs: both ends are played by hand.
    let mut lab = Lab::started(2, ON_UNHEALTHY);
    let here = Capture::start(&lab.client, ETH, "");
    let there = Capture::start(&lab.server, ETH, "");
    for (family, vlans) in [(Family::V4, vec![0x202a]), (Family::V6, vec![0x0007])] {
        let syn = TcpFrame { flags: SYN, payload: vec![], vlans: vlans.clone(), ..stranger(family) };
        send_frame(&lab.client, ETH, &syn.build());
        let arrived = there.wait_for_tcp("the tagged SYN", PATIENCE, |p| p.source == syn.source && p.is(SYN));
        assert_eq!(arrived.vlans, vlans);
        let dead = lab.appliance_at(lab.flow_between(syn.source, syn.destination).expect("a flow").target);
        lab.kill_reflector(dead);
        lab.wait_for_state(dead, "unhealthy");
        // Nobody sends it a second time.
        lab.wait_until_applied();
        let ack = TcpFrame { vlans: vlans.clone(), ..stranger(family) };
        send_frame(&lab.client, ETH, &ack.build());
        let reset = here.wait_for_tcp("the reset", PATIENCE, |p| p.is(RST) && p.destination == ack.source);
        assert_eq!((reset.vlans, reset.seq, reset.checksums_right), (vlans, ack.ack, true));
        assert_eq!((reset.source_mac, reset.destination_mac), (SERVER_MAC, CLIENT_MAC));
        lab.start_reflector(dead, &[]);
        lab.wait_for_state(dead, "healthy");
    }
    assert!(there.tcp().iter().all(|p| !p.is(RST)), "and it leaves by the port that the packet came by");
}
