//! What an appliance may put into a flow by itself, and what it may not. The packets are sent from an
//! appliance's machine by hand, under a GENEVE header that was seen on the underlay.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::lab::capture::{ACK, Capture, Frame, RST, Tcp, parse_tcp};
use crate::lab::frames::TcpFrame;
use crate::lab::gateway::Attributes;
use crate::lab::traffic::{Connection, PATIENCE, exchange, must_be_reset};
use crate::lab::{
    CLIENT_MAC, ETH, Family, Lab, SERVER_MAC, Side, TO_GATEWAY, UNDERLAY, UNDERLAY_MAC, wait_for,
};

/// The outer Ethernet, IPv4 and UDP headers.
const BEFORE_GENEVE: usize = 14 + 20 + 8;
/// The GENEVE header with the 32 bytes of options of W-2.
const GENEVE: usize = 8 + 32;

/// A connection, the GENEVE header of its flow, and the client's last packet in it.
struct Tapped {
    connection: Connection,
    geneve: Vec<u8>,
    last: Tcp,
}

fn tapped(lab: &Lab) -> Tapped {
    let underlay = Capture::start(&lab.underlay, TO_GATEWAY, "udp port 6081");
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    let client = connection.address(Side::Client);
    let inner = |frame: &Frame| {
        let to_appliance = frame.bytes.get(6..12)? == UNDERLAY_MAC;
        let packet = frame.bytes.get(BEFORE_GENEVE + GENEVE..)?;
        let bytes = [&[0; 12][..], &[8, 0], packet].concat();
        parse_tcp(&Frame { at: frame.at, bytes }).filter(|tcp| to_appliance && tcp.source == client)
    };
    // The client has acknowledged all fourteen bytes that the server sent.
    let (geneve, last) = wait_for("the client's last acknowledgement on the underlay", PATIENCE, || {
        let frames = underlay.frames();
        let first = frames.iter().find_map(inner)?;
        let (frame, last) = frames.iter().rev().find_map(|frame| Some((frame, inner(frame)?)))?;
        let start = frames.iter().filter_map(inner).map(|tcp| tcp.ack).find(|ack| *ack != 0)?;
        let header = frame.bytes[BEFORE_GENEVE..BEFORE_GENEVE + GENEVE].to_vec();
        (first.ack != last.ack && last.ack == start.wrapping_add(14)).then_some((header, last))
    });
    Tapped { connection, geneve, last }
}

impl Tapped {
    /// The reset that the server would send now, without its Ethernet header.
    fn reset_from_server(&self) -> Vec<u8> {
        let frame = TcpFrame {
            source_mac: SERVER_MAC,
            destination_mac: CLIENT_MAC,
            vlans: vec![],
            source: self.last.destination,
            destination: self.last.source,
            seq: self.last.ack,
            ack: self.last.seq,
            flags: RST | ACK,
            payload: vec![],
        };
        frame.build().split_off(14)
    }
}

/// Sends GENEVE from appliance `n`, by a source port that is not the flow's (W-4).
fn send_from(lab: &Lab, n: usize, geneve: &[u8], inner: &[u8]) {
    let appliance = &lab.appliances[n];
    let socket =
        appliance.netns.run(|| UdpSocket::bind((appliance.address, 0))).expect("it has this address");
    let gateway = SocketAddr::new(UNDERLAY.into(), 6081);
    socket.send_to(&[geneve, inner].concat(), gateway).expect("the kernel takes it");
}

#[test]
fn an_appliance_may_end_a_connection_by_a_reset_of_its_own() {
    // W-4: the other direction of the flow inside; W-6
    let lab = Lab::started(2, Attributes::default());
    let mut tapped = tapped(&lab);
    let capture = Capture::start(&lab.client, ETH, "tcp");
    let inner = tapped.reset_from_server();
    send_from(&lab, lab.appliance_of(&tapped.connection), &tapped.geneve, &inner);
    must_be_reset(&mut tapped.connection.client);
    let arrived =
        capture.wait_for_frame("the appliance's reset", PATIENCE, |frame| frame[14..].starts_with(&inner));
    assert_eq!((&arrived.bytes[..6], &arrived.bytes[6..12]), (&CLIENT_MAC[..], &SERVER_MAC[..]));
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0, "it is not the gateway's");
}

#[test]
fn a_reset_in_answer_to_the_first_packet_refuses_the_connection() {
    // W-4: what a firewall does that rejects.
    let mut lab = Lab::started(1, Attributes::default());
    lab.kill_reflector(0);
    lab.start_reflector(0, &["--reset"]);
    lab.wait_for_state(0, "healthy");
    for family in Family::BOTH {
        let address = lab.listen(family).local_addr().expect("bound");
        let refused =
            lab.client.run(|| TcpStream::connect_timeout(&address, PATIENCE)).expect_err("it is rejected");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    }
}

#[test]
fn every_way_of_answering_that_is_allowed_is_taken() {
    // W-4, W-6
    let mut lab = Lab::started(1, Attributes::default());
    let ways: [&[&str]; 6] = [
        &["--udp-checksum"],
        &["--reverse-options"],
        &["--extra-option"],
        &["--source-port", "50000"],
        &["--ttl-decrement"],
        &[
            "--udp-checksum",
            "--reverse-options",
            "--extra-option",
            "--source-port",
            "50000",
            "--ttl-decrement",
        ],
    ];
    for way in ways {
        lab.kill_reflector(0);
        lab.start_reflector(0, way);
        for family in Family::BOTH {
            let there = Capture::start(&lab.server, ETH, "tcp");
            let mut connection = lab.connect(family);
            exchange(&mut connection, 200_000);
            let port = connection.address(Side::Client).port();
            let ttl = if way.contains(&"--ttl-decrement") { 63 } else { 64 };
            let arrived = there.wait_for_tcp("the client's SYN", PATIENCE, |p| p.source.port() == port);
            assert_eq!((arrived.ttl, arrived.checksums_right), (ttl, true), "{way:?}");
        }
    }
}

#[test]
fn what_an_appliance_sends_under_another_flows_name_is_dropped_and_counted() {
    // W-5, F-11
    let lab = Lab::started(2, Attributes::default());
    let mut tapped = tapped(&lab);
    let right = lab.appliance_of(&tapped.connection);
    let inner = tapped.reset_from_server();
    let mut strange = tapped.geneve.clone();
    strange[GENEVE - 1] ^= 0x40;
    let mut other = inner.clone();
    other[23] ^= 1;
    let cases: [(&str, usize, &[u8], &[u8]); 3] = [
        ("not_from_target", 1 - right, &tapped.geneve, &inner),
        ("cookie_stale", right, &strange, &inner),
        ("inner_mismatch", right, &tapped.geneve, &other),
    ];
    for (reason, from, geneve, inner) in cases {
        let before = lab.dropped(reason);
        send_from(&lab, from, geneve, inner);
        wait_for(reason, PATIENCE, || (lab.dropped(reason) > before).then_some(()));
    }
    tapped.connection.must_work();
}
