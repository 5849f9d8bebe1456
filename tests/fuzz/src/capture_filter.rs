//! A capture's filter over frames, its ring, and what it writes of them.
//!
//! Promises, held against a second reading: a filter takes what an operator would say that it names, from either end, and
//! `may_match` never refuses what `matches` takes. What comes out of the ring is what went in, in its order, and
//! the rest is counted. A record is read as it was written, and its comment is one line that no terminal obeys.

use crate::bytes::Bytes;
use crate::reading::{be16, read};
use crate::text::is_one_line;
use flowgate::control::capture::words::{Names, comment};
use flowgate::datapath::capture::filter::{End, Filter, Points, Prefix, Reasons};
use flowgate::datapath::capture::record::{HEADER_LEN, Point, Record, Verdict};
use flowgate::datapath::capture::{Bounds, Capture, Seen};
use flowgate::datapath::counters::{DropReason, IcmpAnswer, ResetTrigger};
use flowgate::id::{EndpointId, GatewayId, Millis, PortId, WorkerId};
use flowgate::io::clock::Clock;
use flowgate::wire::ip::IpVersion;
use std::sync::OnceLock;

const MOST_FRAMES: usize = 12;

/// A filter, as it was asked for.
struct Asked {
    points: Vec<Point>,
    reasons: Option<Vec<DropReason>>,
    ends: [AskedEnd; 2],
    protocol: Option<u8>,
    target: Option<u32>,
    gateway: Option<u16>,
    endpoint: Option<u16>,
}

#[derive(Clone, Copy)]
struct AskedEnd {
    /// Whether it is IPv6, the address, and how many bits of it count.
    address: Option<(bool, u128, u8)>,
    port: Option<u16>,
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let mut header = [0; HEADER_LEN];
    header.iter_mut().for_each(|byte| *byte = bytes.byte());
    if let Some(record) = Record::decode(&header) {
        assert_eq!(Record::decode(&record.encode()), Some(record));
        is_one_line(&comment(&record, &names()));
    }
    let asked = asked(&mut bytes);
    let bounds = Bounds { snap_len: bytes.below(160), rate: 1_000_000, ring: 64 + bytes.below(256) * 4 };
    let (mut capture, mut captured) = Capture::new(filter(&asked), bounds, 3, clock());
    let (mut expected, mut matching) = (Vec::new(), 0);
    for _ in 0..MOST_FRAMES {
        if bytes.is_empty() {
            break;
        }
        let (record, seen, frame) = arriving(&mut bytes);
        let free = bounds.ring - expected.iter().map(|(_, kept)| HEADER_LEN + Vec::len(kept)).sum::<usize>();
        let kept = &frame[..frame.len().min(bounds.snap_len)];
        let wanted = takes(&asked, &record, &seen, frame);
        assert!(!wanted || filter(&asked).may_match(&seen), "it is not even looked at: {record:?}");
        assert_eq!(filter(&asked).matches(&record, &seen), wanted, "{record:?}, {seen:?}");
        capture.take(&record, &seen, frame, Millis(7));
        matching += u64::from(wanted);
        if wanted && free >= HEADER_LEN + kept.len() {
            expected.push((Record { kept: u32::try_from(kept.len()).unwrap(), ..record }, kept.to_vec()));
        }
    }
    for (record, kept) in &expected {
        let packet = captured.take_next().expect("what was taken is there");
        assert_eq!((&packet.record, &packet.bytes), (record, kept));
        is_one_line(&comment(record, &names()));
    }
    assert_eq!(captured.take_next(), None);
    let sum = |of: fn(&flowgate::datapath::capture::PortCounts) -> u64| {
        captured.counts().iter().map(of).sum::<u64>()
    };
    assert_eq!(sum(|port| port.matched.get()), matching);
    let lost = sum(|port| port.ring_full.get()) + sum(|port| port.over_rate.get());
    assert_eq!(lost, matching - u64::try_from(expected.len()).unwrap());
}

fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).clone()
}

fn names() -> Names {
    Names {
        endpoints: vec!["office".to_owned()],
        gateways: vec![("inspection".to_owned(), Some("firewalls".to_owned())), ("bare".to_owned(), None)],
    }
}

fn asked(bytes: &mut Bytes<'_>) -> Asked {
    let points = bytes.byte();
    let points = Point::ALL.iter().filter(|point| points & 1 << point.index() == 0);
    Asked {
        points: points.copied().collect(),
        reasons: bytes.maybe(|bytes| (0..bytes.below(4)).map(|_| bytes.of(DropReason::ALL)).collect()),
        ends: [(); 2].map(|()| AskedEnd {
            address: bytes.maybe(|bytes| {
                let (six, length) = (bytes.bit(), bytes.byte());
                let address =
                    if six { u128::from(bytes.double()) << 96 | 0x10 } else { bytes.double().into() };
                (six, address, length)
            }),
            port: bytes.maybe(Bytes::word),
        }),
        protocol: bytes.maybe(Bytes::byte),
        target: bytes.maybe(|bytes| bytes.byte().into()),
        gateway: bytes.maybe(|bytes| bytes.byte().into()),
        endpoint: bytes.maybe(|bytes| bytes.byte().into()),
    }
}

fn filter(asked: &Asked) -> Filter {
    let end = |end: AskedEnd| End {
        address: end.address.map(|(six, address, length)| {
            Prefix::new(if six { IpVersion::V6 } else { IpVersion::V4 }, address, length)
        }),
        port: end.port,
    };
    Filter {
        points: Points::of(asked.points.iter().copied()),
        reasons: asked.reasons.as_ref().map(|reasons| Reasons::of(reasons.iter().copied())),
        ends: asked.ends.map(end),
        protocol: asked.protocol,
        target: asked.target,
        gateway: asked.gateway.map(GatewayId),
        endpoint: asked.endpoint.map(EndpointId),
    }
}

/// A frame, and what the data path would know of it.
fn arriving<'a>(bytes: &mut Bytes<'a>) -> (Record, Seen, &'a [u8]) {
    let verdict = match bytes.below(5) {
        0 => Verdict::Dropped(bytes.of(DropReason::ALL)),
        1 => Verdict::Reset(bytes.of(ResetTrigger::ALL)),
        2 => Verdict::Answered(bytes.of(IcmpAnswer::ALL)),
        3 => Verdict::Forwarded,
        _ => Verdict::Delivered,
    };
    let point = bytes.of(Point::ALL);
    let endpoint = bytes.maybe(|bytes| EndpointId(bytes.byte().into()));
    let gateway = bytes.maybe(|bytes| GatewayId(bytes.byte().into()));
    let target = bytes.maybe(|bytes| bytes.byte().into());
    let port = bytes.maybe(|bytes| PortId(bytes.byte().into()));
    let frame = bytes.some();
    let seen = Seen { endpoint, gateway, target, ..Seen::of_frame(frame) };
    let worker = WorkerId(bytes.byte());
    (Record { port, worker, ..Record::new(point, verdict, &seen, frame.len()) }, seen, frame)
}

/// Two ends and a protocol.
type Ends = (bool, u8, (u128, u16), (u128, u16));

/// What the packet in an Ethernet frame is of, and what it quotes if that is whole.
fn ends_of(frame: &[u8]) -> Option<(Ends, Option<&[u8]>)> {
    let mut at = 12;
    // As many tags as are taken for some.
    while at < 20 && matches!(be16(frame, at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let (kind, ip) = (be16(frame, at)?, frame.get(at + 2..)?);
    if !matches!(kind, 0x0800 | 0x86dd) {
        return None;
    }
    let read = read(ip)?;
    let ends = (read.six, read.protocol, (read.src, read.ports.0), (read.dst, read.ports.1));
    Some((ends, read.quotes.map(|at| &ip[at..read.total])))
}

fn takes(asked: &Asked, record: &Record, seen: &Seen, frame: &[u8]) -> bool {
    let of_reason = match (&asked.reasons, record.verdict) {
        (None, _) => true,
        (Some(reasons), Verdict::Dropped(reason)) => reasons.contains(&reason),
        (Some(_), _) => false,
    };
    let any_ends = asked.ends.iter().all(|end| end.address.is_none() && end.port.is_none());
    // What the second reading says of the frame itself; what is quoted, often cut, is as the gateway read it.
    let mut ends: Vec<Ends> = ends_of(frame).map(|(ends, _)| ends).into_iter().collect();
    assert_eq!(seen.tuple.is_some(), !ends.is_empty(), "{frame:02x?}");
    let quoted = seen.quoted.map(|it| (it.version == IpVersion::V6, it.protocol, it.source, it.destination));
    ends.extend(quoted);
    let of_ends = any_ends && asked.protocol.is_none() || ends.iter().any(|ends| is_of(asked, ends));
    asked.points.contains(&record.point)
        && of_reason
        && of_ends
        && (asked.target.is_none() || asked.target == record.target)
        && (asked.gateway.is_none() || asked.gateway == record.gateway.map(|id| id.0))
        && (asked.endpoint.is_none() || asked.endpoint == record.endpoint.map(|id| id.0))
}

fn is_of(asked: &Asked, (six, protocol, source, destination): &Ends) -> bool {
    let is = |end: &AskedEnd, (address, port): &(u128, u16)| {
        let addressed = end.address.is_none_or(|(of_six, wanted, length)| {
            let bits = if of_six { 128 } else { 32 };
            let counts = u32::from(length).min(bits);
            of_six == *six && (0..counts).all(|bit| (address ^ wanted) >> (bits - 1 - bit) & 1 == 0)
        });
        addressed && end.port.is_none_or(|wanted| wanted == *port)
    };
    let [one, other] = &asked.ends;
    asked.protocol.is_none_or(|wanted| wanted == *protocol)
        && (is(one, source) && is(other, destination) || is(one, destination) && is(other, source))
}
