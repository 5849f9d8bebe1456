//! The laboratory itself, with a plain bridge where the gateway would be: what the other tests ask
//! of the gateway is asked of this first, so that a failure of theirs is the gateway's.

use crate::lab::capture::{ACK, Capture, RST, SYN};
use crate::lab::frames::{TcpFrame, send_frame};
use crate::lab::traffic::{datagram_must_cross, exchange, ping, udp_pair};
use crate::lab::{CLIENT_MAC, ETH, Family, Lab, SERVER_MAC};

use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn traffic_crosses_the_laboratory_where_a_bridge_stands_for_the_gateway() {
    let lab = Lab::new(1);
    lab.bridge_instead_of_gateway();
    for family in Family::BOTH {
        exchange(&mut lab.connect(family), 4 << 20);
        let (client, server) = udp_pair(&lab, family);
        datagram_must_cross(&client, &server, &[7; 1400]);
        datagram_must_cross(&server, &client, b"");
        assert_eq!(ping(&lab, family, 3, 56), 3);
    }
}

#[test]
fn captures_see_handmade_frames_and_kernel_packets_as_they_are() {
    let lab = Lab::new(0);
    lab.bridge_instead_of_gateway();
    for family in Family::BOTH {
        let capture = Capture::start(&lab.client, ETH, "tcp");
        let source = SocketAddr::new(family.client(), 1234);
        let destination = SocketAddr::new(family.server(), 9);
        let frame = TcpFrame {
            source_mac: CLIENT_MAC,
            destination_mac: SERVER_MAC,
            vlans: vec![],
            source,
            destination,
            seq: 1000,
            ack: 2000,
            flags: ACK,
            payload: b"out of the blue".to_vec(),
        };
        send_frame(&lab.client, ETH, &frame.build());
        // Nobody listens there: the server's kernel answers as RFC 9293 has it, so the handmade
        // packet was right, checksums included.
        let reset = capture.wait_for_tcp("the server's reset", Duration::from_secs(2), |p| p.is(RST));
        assert_eq!((reset.seq, reset.source, reset.destination), (2000, destination, source));
        assert!(reset.checksums_right);
        let sent = capture.wait_for_tcp("the handmade packet", Duration::from_secs(2), |p| p.seq == 1000);
        assert_eq!((sent.ack, sent.payload, sent.flags, sent.vlans.len()), (2000, 15, ACK, 0));
        assert!(sent.checksums_right && sent.dont_fragment);

        let mut tagged = frame.clone();
        tagged.vlans = vec![42];
        tagged.seq = 5000;
        tagged.flags = SYN;
        let there = Capture::start(&lab.server, ETH, "");
        send_frame(&lab.client, ETH, &tagged.build());
        let arrived = there.wait_for_tcp("the tagged packet", Duration::from_secs(2), |p| p.seq == 5000);
        assert_eq!((arrived.vlans, arrived.checksums_right), (vec![42], true));
        assert!(there.frames().iter().any(|seen| seen.bytes == tagged.build()), "byte for byte");
    }
}
