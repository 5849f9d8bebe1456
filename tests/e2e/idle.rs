//! What silence does to a flow, with the clock advanced instead of waited for.

use std::time::Duration;

use crate::lab::gateway::Attributes;
use crate::lab::traffic::{datagram_must_cross, ping, udp_pair};
use crate::lab::{Family, Lab, Side};

#[test]
fn a_tcp_flow_lives_as_long_as_its_listener_says_and_every_packet_starts_the_time_anew() {
    // A-7, F-9, F-10
    let lab =
        Lab::started(1, Attributes { target_group: &[], listener: &[("tcp.idle_timeout.seconds", "60")] });
    let mut connection = lab.connect(Family::V4);
    let cookie = lab.flow_of(&connection).cookie;
    for _ in 0..3 {
        lab.advance_clock(Duration::from_secs(50));
        connection.must_work();
    }
    assert_eq!(lab.flow_of(&connection).cookie, cookie, "the same flow all along");
    lab.advance_clock(Duration::from_secs(61));
    let ends = Side::BOTH.map(|side| connection.address(side));
    let now = lab.flow_between(ends[0], ends[1]);
    assert!(now.as_ref().is_none_or(|flow| flow.state == "expired"), "{now:?}");
    // F-10: a SYN on the same ports would be a new flow; another connection is one anyway.
    lab.connect_to(connection.listener).must_work();
}

#[test]
fn a_udp_flow_is_a_new_one_after_two_minutes_of_silence_and_the_same_before() {
    // A-10, F-10, F-11
    for family in Family::BOTH {
        let lab = Lab::started(1, Attributes::default());
        let (client, server) = udp_pair(&lab, family);
        let ends = (client.local_addr().expect("bound"), server.local_addr().expect("bound"));
        let cookie = || lab.flow_between(ends.0, ends.1).expect("a datagram makes a flow").cookie;
        datagram_must_cross(&client, &server, b"one");
        let first = cookie();
        lab.advance_clock(Duration::from_secs(110));
        datagram_must_cross(&server, &client, b"two");
        lab.advance_clock(Duration::from_secs(110));
        datagram_must_cross(&client, &server, b"three");
        assert_eq!(cookie(), first);
        let made = lab.counted("NewFlowCount");
        lab.advance_clock(Duration::from_secs(121));
        datagram_must_cross(&client, &server, b"four");
        assert_ne!(cookie(), first);
        lab.wait_until_counted("NewFlowCount", made + 1);
    }
}

#[test]
fn an_echo_flow_idles_out_as_udp_does() {
    // A-10, F-1
    let lab = Lab::started(1, Attributes::default());
    assert_eq!(ping(&lab, Family::V4, 1, 56), 1);
    let active = lab.counted("ActiveFlowCount");
    lab.advance_clock(Duration::from_secs(121));
    crate::lab::wait_for("the flow to be gone", Duration::from_secs(5), || {
        (lab.counted("ActiveFlowCount") < active).then_some(())
    });
}
