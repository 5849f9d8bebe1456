//! What reading and writing headers costs, a packet at a time and with the packet in L1: what remains is
//! the instructions. The memory that real packets wait for is in `bench/pipeline.rs`.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use flowgate::datapath::reset::write_reset;
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, Link, MacAddr, ethertype};
use flowgate::wire::geneve;
use flowgate::wire::geneve::outer::{self, OUTER_LEN, OuterFields, OuterTemplate};
use flowgate::wire::packet::Packet;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const TARGET: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);
const PAYLOAD: usize = 64;

/// A TCP segment from port 40,000 to 443, ACK and PSH, 64 bytes of payload.
fn segment() -> Vec<u8> {
    let mut segment =
        vec![0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0xfa, 0xf0, 0, 0, 0, 0];
    segment.resize(segment.len() + PAYLOAD, 0xab);
    segment
}

fn ipv4() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 104, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 10, 198, 51, 100, 20];
    let checksum = Sum::ZERO.bytes(&packet).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(segment());
    packet
}

fn ipv6() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 84, 6, 64];
    packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]);
    packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20]);
    packet.extend(segment());
    packet
}

fn template() -> OuterTemplate {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    OuterTemplate::new(mac(1), mac(2), OURS, TARGET)
}

fn fields() -> OuterFields {
    OuterFields {
        inner_len: 104,
        protocol: ethertype::IPV4,
        source_port: 0xc123,
        endpoint_id: 0x1122_3344_5566_7788,
        attachment_id: 7,
        cookie: 0x0102_0304,
    }
}

/// A frame as it goes to the target; one that comes back differs in its addresses only.
fn encapsulated() -> Vec<u8> {
    let mut headers = [0; OUTER_LEN];
    template().write(&mut headers, &fields());
    [headers.to_vec(), ipv4()].concat()
}

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(1));
    let frame = |ethertype: u16, ip: Vec<u8>| [vec![2; 12], ethertype.to_be_bytes().to_vec(), ip].concat();
    for (name, frame) in
        [("IPv4 TCP", frame(ethertype::IPV4, ipv4())), ("IPv6 TCP", frame(ethertype::IPV6, ipv6()))]
    {
        assert!(Packet::parse(&frame[ethernet::HEADER_LEN..]).is_ok());
        group.bench_function(name, |b| {
            b.iter(|| {
                let frame = black_box(frame.as_slice());
                let link = Link::parse(frame).ok()?;
                Packet::parse(frame.get(usize::from(link.header_len)..)?).ok()
            });
        });
    }
    let frame = encapsulated();
    group.bench_function("GENEVE answer with IPv4 TCP", |b| {
        b.iter(|| {
            let frame = black_box(frame.as_slice());
            let link = Link::parse(frame).ok()?;
            let ip = frame.get(usize::from(link.header_len)..)?;
            let outer = outer::parse(ip).ok()?;
            let geneve = geneve::parse(outer.payload(ip)).ok()?;
            let inner = Packet::parse(outer.payload(ip).get(usize::from(geneve.inner_offset)..)?).ok()?;
            Some((outer, geneve, inner))
        });
    });
    group.finish();
}

fn tunnel(c: &mut Criterion) {
    let mut group = c.benchmark_group("tunnel");
    group.throughput(Throughput::Elements(1));
    let (template, fields, mut frame) = (template(), fields(), encapsulated());
    group.bench_function("encapsulate", |b| {
        b.iter(|| {
            if let Some(headers) = black_box(frame.as_mut_slice()).first_chunk_mut() {
                black_box(&template).write(headers, black_box(&fields));
            }
        });
    });
    let ip = &frame[ethernet::HEADER_LEN..];
    assert!(outer::parse(ip).is_ok_and(|outer| geneve::parse(outer.payload(ip)).is_ok()));
    group.bench_function("decapsulate", |b| {
        b.iter(|| {
            let ip = black_box(ip);
            let outer = outer::parse(ip).ok()?;
            let geneve = geneve::parse(outer.payload(ip)).ok()?;
            Some((outer, geneve))
        });
    });
    group.finish();
}

/// The reset is written over the packet that it answers, so each run has a fresh copy, made untimed.
fn reset(c: &mut Criterion) {
    let mut group = c.benchmark_group("reset");
    group.throughput(Throughput::Elements(1));
    for (name, packet) in [("IPv4", ipv4()), ("IPv6", ipv6())] {
        let parsed = Packet::parse(&packet).expect("a packet");
        let mut fresh = [0; 128];
        fresh[..packet.len()].copy_from_slice(&packet);
        assert!(write_reset(&mut fresh.clone(), &parsed).is_ok());
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || fresh,
                |packet| black_box(write_reset(packet, black_box(&parsed))),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = parse, tunnel, reset }
criterion_main!(benches);
