use std::time::UNIX_EPOCH;

use super::*;
use crate::control::flow_log::names::TargetNames;
use crate::control::flow_log::record::{Counted, Reason};
use crate::datapath::flow_log::Why;

fn names() -> TargetNames {
    TargetNames {
        load_balancer: "gw".to_owned(),
        target_group: "fw".to_owned(),
        target: Ipv4Addr::new(10, 9, 1, 1),
    }
}

fn record(target: &TargetNames, source: &str, destination: &str) -> Record<'static> {
    let counted = |n| Counted { packets: n, bytes: n * 100 };
    Record {
        at: UNIX_EPOCH + Duration::from_millis(5000),
        reason: Reason(Why::Fin),
        endpoint: "lan",
        target: Box::leak(Box::new(target.clone())),
        protocol: 6,
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        first: UNIX_EPOCH + Duration::from_millis(1000),
        last: UNIX_EPOCH + Duration::from_millis(4000),
        is_whole: true,
        forward: counted(3),
        reverse: counted(2),
        returned_forward: counted(1),
        returned_reverse: counted(0),
        cookie: 0x2a,
    }
}

/// RFC 7011 3: the bytes written out.
#[test]
fn a_record_of_an_ipv4_flow_is_these_bytes() {
    let mut messages = Messages::new(7, 1400);
    assert!(messages.add(&record(&names(), "192.0.2.1:40000", "198.51.100.1:443")));
    let (message, records) = messages.take(UNIX_EPOCH + Duration::from_secs(9));
    assert_eq!(records, 1);
    let mut expected = vec![0, 10, 0, 136, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7]; // header
    expected.extend([1, 0, 0, 120]); // set of template 256
    expected.extend(1000_u64.to_be_bytes());
    expected.extend(4000_u64.to_be_bytes());
    expected.extend([192, 0, 2, 1, 198, 51, 100, 1, 0x9c, 0x40, 0x01, 0xbb, 6, 3, 10, 9, 1, 1]);
    expected.extend(0x2a_u64.to_be_bytes());
    for count in [3_u64, 300, 2, 200, 1, 100, 0, 0] {
        expected.extend(count.to_be_bytes());
    }
    expected.extend(b"\x03lan\x05gw/fw");
    assert_eq!(message, expected);
}

#[test]
fn records_of_one_kind_share_a_set_and_the_sequence_counts_them() {
    let mut messages = Messages::new(1, 1400);
    messages.add_templates();
    messages.add_reliability(1, NotSent::default(), 1.0);
    let (_, records) = messages.take(UNIX_EPOCH);
    assert_eq!(records, 1, "templates are no records");
    for (source, destination) in
        [("1.1.1.1:1", "2.2.2.2:2"), ("1.1.1.1:3", "2.2.2.2:2"), ("[::1]:1", "[::2]:2")]
    {
        assert!(messages.add(&record(&names(), source, destination)));
    }
    let (message, _) = messages.take(UNIX_EPOCH);
    assert_eq!(message[8..12], 1_u32.to_be_bytes(), "one record before it");
    assert_eq!(message[16..20], [1, 0, 0, 236], "two of IPv4 in one set");
    assert_eq!(message[252..254], [1, 1], "then a set of IPv6");
    assert_eq!(usize::from(u16::from_be_bytes([message[2], message[3]])), message.len());
    assert_eq!(messages.take(UNIX_EPOCH).0[8..12], 4_u32.to_be_bytes());
}

#[test]
fn a_message_is_no_longer_than_it_may_be_and_no_record_is_cut() {
    for longest in [512, 513, 700, 1452] {
        let mut messages = Messages::new(1, longest);
        let mut added = 0;
        while messages.add(&record(&names(), "1.1.1.1:1", "2.2.2.2:2")) {
            added += 1;
        }
        let (message, records) = messages.take(UNIX_EPOCH);
        assert_eq!(records, added);
        assert_eq!(message.len(), 20 + 116 * added as usize);
        assert!(message.len() <= longest && message.len() + 116 > longest);
        assert!(messages.is_empty());
    }
}

#[test]
fn templates_and_the_longest_record_fit_into_the_shortest_message() {
    let mut messages = Messages::new(1, SHORT);
    messages.add_templates();
    messages.add_reliability(1, NotSent::default(), 1.0);
    assert!(messages.take(UNIX_EPOCH).0.len() <= SHORT);
    let name = "n".repeat(400);
    let long = TargetNames { load_balancer: "l".repeat(32), target_group: "t".repeat(32), ..names() };
    let mut record = record(&long, "[::1]:1", "[::2]:2");
    record.endpoint = &name[..32];
    assert!(messages.add(&record));
    let _ = messages.take(UNIX_EPOCH);
}

#[test]
fn what_a_collector_gets_is_what_was_added_and_what_was_lost() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut exporter = Exporter::new(collector.local_addr().unwrap(), 1, 4).unwrap();
    let read = || {
        let mut message = [0; 2000];
        let len = collector.recv(&mut message).unwrap();
        message[..len].to_vec()
    };
    let start = Instant::now();
    exporter.tend(NotSent::default(), start).unwrap();
    assert_eq!(read()[16..18], TEMPLATE_SET.to_be_bytes());
    exporter.add(&record(&names(), "1.1.1.1:1", "2.2.2.2:2")).unwrap();
    exporter.flush().unwrap();
    assert_eq!(read()[16..18], V4_FLOW.to_be_bytes());
    exporter.tend(NotSent::default(), start).unwrap();
    exporter.tend(NotSent { records: 3, packets: 9, bytes: 900 }, start).unwrap();
    let told = read();
    assert_eq!(told[16..18], RELIABILITY.to_be_bytes());
    assert_eq!(told[24..32], 3_u64.to_be_bytes());
    assert_eq!(told[48..56], 0.25_f64.to_be_bytes());
    exporter.tend(NotSent { records: 3, packets: 9, bytes: 900 }, start + TEMPLATES_EVERY).unwrap();
    assert_eq!(read()[16..18], TEMPLATE_SET.to_be_bytes(), "again, as one may have been lost");
}

/// RFC 7011 3.2: the first bit says whether an enterprise's number follows; RFC 5103 6.1: 29305 is that of the reverse.
#[test]
fn a_field_of_an_enterprise_is_marked_and_one_of_iana_is_not() {
    let mut messages = Messages::new(1, 1400);
    messages.add_templates();
    let (message, _) = messages.take(UNIX_EPOCH);
    let has = |field: &[u8]| message.windows(field.len()).any(|bytes| bytes == field);
    assert!(has(&[0x80, 24, 0, 8, 0, 0, 0x72, 0x79]), "reversePacketTotalCount or its like: {message:?}");
    assert!(has(&[0, 82, 0xff, 0xff]), "interfaceName: {message:?}");
}
