//! What `wire` and the reset write, read back by tshark: a decoder that shares nothing with us. The
//! frames go through a capture file; tshark judges lengths and checksums and names the fields.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use flowgate::datapath::reset::write_reset;
use flowgate::wire::ethernet::{MacAddr, ethertype};
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate, fill_udp_checksum};
use flowgate::wire::packet::Packet;

#[path = "../src/wire/sample.rs"]
#[expect(dead_code, reason = "the unit tests use the rest of it")]
mod sample;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];
const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const SERVER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// Writes a classic capture file (Ethernet, one packet a microsecond).
fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(262_144u32.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for (nth, frame) in (0u32..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap();
        for word in [0, nth, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// What tshark reads of each frame: its fields, separated by blanks, every occurrence of a field (outer
/// before inner) separated by commas.
fn read_back(frames: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("written.pcap");
    write_capture(&capture, frames);
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&capture).args([
        "-T",
        "fields",
        "-E",
        "separator=/s",
        "-E",
        "occurrence=a",
    ]);
    for protocol in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    tshark.args(["-o", "tcp.relative_sequence_numbers:FALSE"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("these tests need tshark; scripts/test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), frames.len());
    lines
}

fn encapsulate(inner: &[u8], fields: OuterFields, udp_checksum: bool) -> Vec<u8> {
    let template = OuterTemplate::new(
        MacAddr([2, 0, 0, 0, 0, 1]),
        MacAddr([2, 0, 0, 0, 0, 9]),
        Ipv4Addr::new(10, 1, 0, 1),
        Ipv4Addr::new(10, 1, 0, 9),
    );
    let mut frame = vec![0xee; OUTER_LEN];
    template.write(frame.first_chunk_mut().unwrap(), &fields);
    frame.extend(inner);
    if udp_checksum {
        fill_udp_checksum(&mut frame);
    }
    frame
}

fn fields_of(inner: &[u8]) -> OuterFields {
    OuterFields {
        inner_len: u16::try_from(inner.len()).unwrap(),
        protocol: if inner[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 },
        source_port: 50_000,
        endpoint_id: 0x1112_1314_1516_1718,
        attachment_id: 0x2122_2324_2526_2728,
        cookie: 0x3132_3334,
    }
}

// W-1, W-2, W-3
#[test]
fn tshark_reads_our_geneve_as_it_was_meant() {
    let v4 = sample::ipv4(CLIENT, SERVER, 17, &sample::udp((1111, 9999), b"query"));
    let v6 = sample::ipv6(CLIENT6, SERVER6, 6, &sample::tcp((2222, 9999), 1, 2, 0x10, &[], b"data"));
    let frames = [encapsulate(&v4, fields_of(&v4), false), encapsulate(&v6, fields_of(&v6), true)];
    let read = read_back(
        &frames,
        &[
            "frame.protocols",
            "eth.src",
            "eth.dst",
            "ip.src",
            "ip.dst",
            "ip.len",
            "ip.ttl",
            "ip.flags.df",
            "ip.id",
            "ip.checksum.status",
            "udp.srcport",
            "udp.dstport",
            "udp.length",
            "udp.checksum.status",
        ],
    );
    // Checksum status: 1 good, 2 not verified, 3 not present. The samples' own UDP has none.
    assert_eq!(
        read,
        [
            "eth:ethertype:ip:udp:geneve:ip:udp:data 02:00:00:00:00:01 02:00:00:00:00:09 \
             10.1.0.1,10.0.0.1 10.1.0.9,192.0.2.7 101,33 255,61 1,1 0x0000,0x1234 1,1 50000,1111 6081,9999 81,13 3,3",
            "eth:ethertype:ip:udp:geneve:ipv6:tcp:data 02:00:00:00:00:01 02:00:00:00:00:09 \
             10.1.0.1 10.1.0.9 132 255 1 0x0000 1 50000 6081 112 1",
        ]
    );
    let read = read_back(
        &frames,
        &[
            "geneve.version",
            "geneve.flags",
            "geneve.proto_type",
            "geneve.vni",
            "geneve.reserved",
            "geneve.option.class",
            "geneve.option.type",
            "geneve.option.length",
            "geneve.options",
        ],
    );
    let options = "0x0108,0x0108,0x0108 0x01,0x02,0x03 32,12,12,8 \
                   0108010211121314151617180108020221222324252627280108030131323334";
    assert_eq!(read[0], format!("0 0x00 0x0800 0x000000 0x00 {options}"));
    assert_eq!(read[1], format!("0 0x00 0x86dd 0x000000 0x00 {options}"));
}

// W-1: right for every length, also of the longest packets (M-1), with the checksum on demand (W-3).
#[test]
fn tshark_finds_every_checksum_right() {
    let mut frames = Vec::new();
    for len in (0..200).chain([1_431, 1_432, 8_472]) {
        let payload: Vec<u8> = (0..len).map(|at| u8::try_from(at * at * 7 % 251).unwrap()).collect();
        let inner = sample::ipv4(CLIENT, SERVER, 253, &payload);
        let fields = OuterFields {
            source_port: 49_152 + u16::try_from(len).unwrap(),
            cookie: 0x9e37_79b9u32.wrapping_mul(u32::try_from(len).unwrap()),
            ..fields_of(&inner)
        };
        frames.push(encapsulate(&inner, fields, true));
    }
    for (frame, read) in
        frames.iter().zip(read_back(&frames, &["ip.checksum.status", "udp.checksum.status", "ip.len"]))
    {
        assert_eq!(read, format!("1,1 1 {},{}", frame.len() - 14, frame.len() - 82));
    }
}

/// The frame of the reset that answers `ip`.
fn reset(mut ip: Vec<u8>) -> Vec<u8> {
    let packet = Packet::parse(&ip).unwrap();
    let len = write_reset(&mut ip, &packet).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if ip[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 }.to_be_bytes());
    frame.extend(&ip[..len]);
    frame
}

// R-4, R-7
#[test]
fn tshark_reads_our_resets_as_rfc_9293_has_them() {
    let data = sample::tcp((40_000, 443), 1_000, 5_000, 0x18, &[1; 12], &[0; 100]);
    let syn = sample::tcp((40_000, 443), 1_000, 0, 0x02, &[2, 4, 5, 0xb4], &[]);
    let frames: Vec<Vec<u8>> = [&data, &syn]
        .into_iter()
        .flat_map(|segment| {
            [
                sample::ipv4_with(CLIENT, SERVER, 6, 0x4000, &[1; 8], segment),
                sample::ipv6(CLIENT6, SERVER6, 6, segment),
            ]
        })
        .map(reset)
        .collect();
    let read = read_back(
        &frames,
        &[
            "ip.src",
            "ip.dst",
            "ip.ttl",
            "ip.flags.df",
            "ip.checksum.status",
            "ipv6.src",
            "ipv6.dst",
            "ipv6.hlim",
            "tcp.srcport",
            "tcp.dstport",
            "tcp.seq_raw",
            "tcp.ack_raw",
            "tcp.flags",
            "tcp.window_size_value",
            "tcp.hdr_len",
            "tcp.len",
            "tcp.checksum.status",
        ],
    );
    let v4 = "192.0.2.7 10.0.0.1 64 1 1    443 40000";
    let v6 = "     2001:db8::2 2001:db8::1 64 443 40000";
    let to_data = "5000 0 0x0004 0 20 0 1";
    let to_syn = "0 1001 0x0014 0 20 0 1";
    assert_eq!(
        read,
        [
            format!("{v4} {to_data}"),
            format!("{v6} {to_data}"),
            format!("{v4} {to_syn}"),
            format!("{v6} {to_syn}")
        ]
    );
}
