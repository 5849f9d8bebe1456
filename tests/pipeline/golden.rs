//! Golden captures: conversations that scapy made (`tests/golden/make.py`), played through the whole
//! pipeline. The frames that go in and every byte that must come out are scapy's.
//!
//! Two fields of the outer headers are the gateway's own choice: the flow cookie and the UDP source port.
//! The captures have a stand-in for each of their flows. The first frame of a flow that comes out says
//! what the gateway chose, which then takes the stand-in's place, in what is expected and in the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::forwarding::Condition;

use crate::harness::*;
use crate::network::Network;
use crate::routed::introduce;

/// What becomes of the next frame of a capture.
#[derive(Clone, Copy)]
enum Step {
    /// Put in by the first port it comes out by the second, as the frame after it.
    Becomes(usize, usize),
    /// Put in by the first port it comes out by the second as so many frames, those after it in this order;
    /// none if it waits.
    Makes(usize, usize, usize),
    /// Put in by this port it is dropped.
    Dropped(usize, DropReason),
    /// No frame: something happens to the gateway.
    Then(fn(&mut Bench)),
}

use Step::{Becomes, Dropped, Makes, Then};

/// A packet of the client's through the target to the server, and one of the server's to the client.
const FROM_CLIENT: [Step; 2] = [Becomes(LEFT, UNDER), Becomes(UNDER, RIGHT)];
const FROM_SERVER: [Step; 2] = [Becomes(RIGHT, UNDER), Becomes(UNDER, LEFT)];

/// A capture and how it is to be played.
struct Golden {
    name: &'static str,
    configure: fn(&mut Bench),
    steps: Vec<Step>,
}

impl Golden {
    fn new(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Golden {
        Golden { name, configure: |_| {}, steps: steps.into_iter().collect() }
    }

    fn configured(self, configure: fn(&mut Bench)) -> Golden {
        Golden { configure, ..self }
    }

    /// Plays it; gives back what came out.
    fn play(&self) -> Vec<(usize, Vec<u8>)> {
        let path = folder().join(self.name).with_extension("pcap");
        let mut frames = read_capture(&path).into_iter();
        let mut frame = || frames.next().expect("the capture is shorter than its steps");
        let mut bench = Bench::new(1);
        (self.configure)(&mut bench);
        bench.publish();
        let mut chosen = Chosen::default();
        let mut sent = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            match *step {
                Becomes(by, leaves_by) => {
                    sent.extend(self.pass(number, &mut bench, &mut chosen, (by, leaves_by, 1), &mut frame));
                }
                Makes(by, leaves_by, count) => {
                    sent.extend(self.pass(
                        number,
                        &mut bench,
                        &mut chosen,
                        (by, leaves_by, count),
                        &mut frame,
                    ));
                }
                Dropped(by, reason) => {
                    let given = chosen.put_into(frame());
                    assert_eq!(bench.dropped(by, &given), reason, "{}, step {number}", self.name);
                }
                Then(happens) => happens(&mut bench),
            }
        }
        assert!(frames.next().is_none(), "the capture is longer than its steps");
        bench.assert_settled();
        sent
    }

    /// Puts the next frame in by a port; those after it must come out by the other.
    fn pass(
        &self,
        step: usize,
        bench: &mut Bench,
        chosen: &mut Chosen,
        (by, leaves_by, count): (usize, usize, usize),
        frame: &mut impl FnMut() -> Vec<u8>,
    ) -> Vec<(usize, Vec<u8>)> {
        let sent = bench.put(by, &chosen.put_into(frame()));
        assert_eq!(sent.len(), count, "{}, step {step}: {:?}", self.name, bench.drops());
        for (port, out) in &sent {
            let mut expected = frame();
            if *port == UNDER {
                chosen.learn(&expected, out);
                expected = chosen.put_into(expected);
            }
            assert_eq!(*port, leaves_by, "{}, step {step}", self.name);
            assert_eq!(hex(out), hex(&expected), "{}, step {step}", self.name);
        }
        sent
    }
}

/// Where the outer headers end in a frame with more options than ours.
const OUTER_AT_MOST: usize = 94;
const SOURCE_PORT: std::ops::Range<usize> = 34..36;
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// What the gateway chose, by the stand-in.
#[derive(Default)]
struct Chosen {
    cookies: BTreeMap<[u8; 4], [u8; 4]>,
    ports: BTreeMap<[u8; 4], [u8; 2]>,
}

impl Chosen {
    /// The stand-in for the cookie that a frame of the target side has, and where it is.
    fn stand_in(frame: &[u8]) -> Option<(usize, [u8; 4])> {
        let outer = &frame[..frame.len().min(OUTER_AT_MOST)];
        let at = outer.windows(3).position(|bytes| bytes == [0xc0, 0x0c, 0x1e])?;
        Some((at, frame[at..at + 4].try_into().unwrap()))
    }

    /// Notes what a frame to the target has in the stand-ins' places, by the rules for each: one cookie
    /// and one port for a flow's life and both its directions, no cookie for two flows.
    fn learn(&mut self, expected: &[u8], out: &[u8]) {
        let (at, stand_in) = Chosen::stand_in(expected).expect("a frame to the target has a cookie");
        let cookie: [u8; 4] = out[at..at + 4].try_into().unwrap();
        let port: [u8; 2] = out[SOURCE_PORT].try_into().unwrap();
        assert_eq!(*self.cookies.entry(stand_in).or_insert(cookie), cookie, "F-11: one for both directions");
        assert_eq!(*self.ports.entry(stand_in).or_insert(port), port, "W-3: one for a flow's life");
        assert!(u16::from_be_bytes(port) >= 49152, "W-3");
        let distinct: BTreeSet<_> = self.cookies.values().collect();
        assert_eq!(distinct.len(), self.cookies.len(), "F-11: no two flows have the same cookie");
    }

    /// Puts what was chosen in the stand-ins' places.
    fn put_into(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let Some((at, stand_in)) = Chosen::stand_in(&frame) else { return frame };
        let (Some(cookie), Some(port)) = (self.cookies.get(&stand_in), self.ports.get(&stand_in)) else {
            return frame;
        };
        replace(&mut frame, at, cookie);
        // An answer may come from another port than the flow's (W-4).
        if frame[SOURCE_PORT] == (49152 + u16::from(stand_in[3])).to_be_bytes() {
            replace(&mut frame, SOURCE_PORT.start, port);
        }
        frame
    }
}

/// Changes some bytes that the outer UDP checksum is over; if there is one, it stays right.
fn replace(frame: &mut [u8], at: usize, with: &[u8]) {
    let old = frame[at..at + with.len()].to_vec();
    frame[at..at + with.len()].copy_from_slice(with);
    let sum = frame[UDP_CHECKSUM].to_vec();
    if sum != [0, 0] {
        // RFC 1624: HC' = ~(~HC + ~m + m')
        let inverted: Vec<u8> = old.iter().chain(&sum).map(|byte| !byte).collect();
        frame[UDP_CHECKSUM].copy_from_slice(&checksum(&[&inverted, with]).to_be_bytes());
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The frames of a classic capture file in little endian, as scapy writes it.
fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(file[..4], 0xa1b2_c3d4u32.to_le_bytes());
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(262_144u32.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for (number, frame) in (0u32..).zip(frames) {
        let len = frame.len() as u32;
        for word in [number, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// A frame for people to compare: 16 bytes a line.
fn hex(frame: &[u8]) -> String {
    frame.chunks(16).map(|line| format!("\n{line:02x?}")).collect()
}

fn times(count: usize, steps: &[Step]) -> Vec<Step> {
    steps.repeat(count)
}

// W-1, W-2, W-3, W-4, W-6, F-2
fn tcp(name: &'static str) -> Golden {
    let order = [FROM_CLIENT, FROM_SERVER, FROM_CLIENT, FROM_CLIENT, FROM_SERVER, FROM_CLIENT, FROM_SERVER];
    Golden::new(name, order.into_iter().chain([FROM_CLIENT]).flatten())
}

// W-6, F-1, F-2
fn udp() -> Golden {
    Golden::new("udp", times(3, &[FROM_CLIENT, FROM_SERVER, FROM_CLIENT].concat()))
}

// W-6, F-1: an echo's identifier tells flows apart, and its answer is of the same flow.
fn icmp_echo() -> Golden {
    Golden::new("icmp_echo", times(4, &[FROM_CLIENT, FROM_SERVER].concat()))
}

// W-6, F-1, F-8: any packet of another protocol makes a flow; by addresses and protocol, SCTP by its ports.
fn other_protocols() -> Golden {
    let there_and_back = times(5, &[FROM_CLIENT, FROM_SERVER].concat());
    Golden::new("other_protocols", FROM_CLIENT.into_iter().chain(there_and_back))
}

// W-6, O-4
fn vlan() -> Golden {
    Golden::new("vlan", times(6, &[FROM_CLIENT, FROM_SERVER, FROM_CLIENT].concat()))
}

// W-6: Ethernet's padding is of no packet, neither the client's nor the appliance's.
fn padding() -> Golden {
    Golden::new("padding", times(2, &FROM_CLIENT))
}

// W-3: a right checksum on demand.
fn udp_checksum() -> Golden {
    Golden::new("udp_checksum", times(8, &FROM_CLIENT)).configured(|bench| bench.udp_checksum = true)
}

// W-4, W-5, W-6: what an appliance may do to the outer headers, and answers of its own.
fn accepted_answers(name: &'static str) -> Golden {
    let steps = [Becomes(LEFT, UNDER)].into_iter().chain(times(11, &[Becomes(UNDER, RIGHT)]));
    Golden::new(name, steps.chain(times(2, &[Becomes(UNDER, LEFT)])))
}

// W-5, F-11
fn wrong_answers() -> Golden {
    let reasons = [
        DropReason::NotFromTarget,
        DropReason::CookieStale, // the cookie of the flow before on this tuple
        DropReason::CookieStale,
        DropReason::CookieMissing,
        DropReason::GeneveVersion,
        DropReason::GeneveCritical, // a control message
        DropReason::GeneveCritical, // a critical option
        DropReason::GeneveOptions,  // cut
        DropReason::GeneveOptions,  // overlapping
        DropReason::InnerMismatch,
        DropReason::InnerMismatch, // an ICMP error's quote
        DropReason::InnerMalformed,
        DropReason::OuterMalformed, // UDP checksum
        DropReason::OuterMalformed, // IPv4 header checksum
    ];
    let opening = times(4, &[Becomes(LEFT, UNDER)]);
    let wrong = reasons.map(|reason| Dropped(UNDER, reason));
    Golden::new("wrong_answers", opening.into_iter().chain(wrong).chain(times(2, &[Becomes(UNDER, RIGHT)])))
}

// W-5, O-4: the flow's cookie is right, and something else is not.
fn wrong_options() -> Golden {
    let reasons = [
        DropReason::InnerMismatch,  // another endpoint
        DropReason::GeneveOptions,  // no endpoint
        DropReason::GeneveOptions,  // no attachment
        DropReason::GeneveOptions,  // two cookies
        DropReason::GeneveOptions,  // a cookie of 8 bytes
        DropReason::InnerMalformed, // Ethernet inside
        DropReason::InnerMismatch,  // another IP version
        DropReason::InnerMalformed, // an IPv6 header that is cut
        DropReason::InnerMalformed, // nothing inside
        DropReason::OuterMalformed, // UDP shorter than its header
        DropReason::OuterMalformed, // UDP longer than its packet
    ];
    let opening = [Becomes(LEFT, UNDER)].into_iter();
    let wrong = reasons.map(|reason| Dropped(UNDER, reason));
    Golden::new("wrong_options", opening.chain(wrong).chain([Becomes(UNDER, RIGHT)]))
}

// O-4
fn crossing() -> Golden {
    Golden::new("crossing", times(9, &[Becomes(LEFT, RIGHT)]))
}

// R-1, R-4, R-5 (options are no part of the length), R-7: ten kinds of segments from either side.
fn resets(name: &'static str) -> Golden {
    let opening = times(40, &[Becomes(LEFT, UNDER)]);
    let resets = [times(10, &[Becomes(LEFT, LEFT)]), times(10, &[Becomes(RIGHT, RIGHT)])].concat();
    let unhealthy = Then(|bench| bench.set_condition(0, Condition::Unhealthy));
    let all_reset = Then(|bench| {
        assert_eq!((bench.outcome(Outcome::Answered), bench.live_flows(0)), (20, 0));
    });
    Golden::new(name, opening.into_iter().chain([unhealthy]).chain(resets).chain([all_reset]))
        .configured(|bench| bench.policy.reset_on_unhealthy = true)
}

// R-3, R-4, R-7
fn resets_of_no_flow() -> Golden {
    let sides = [Becomes(LEFT, LEFT), Becomes(LEFT, LEFT), Becomes(RIGHT, RIGHT), Becomes(RIGHT, RIGHT)];
    Golden::new("resets_of_no_flow", sides.into_iter().chain([Becomes(LEFT, LEFT)])).configured(|bench| {
        bench.policy.reset_on_idle = true;
        // They all come at once.
        bench.policy.no_flow_resets_per_second = 0;
    })
}

// M-2, R-7's way back
fn too_big() -> Golden {
    let sides = [times(4, &[Becomes(LEFT, LEFT)]), times(4, &[Becomes(RIGHT, RIGHT)])].concat();
    Golden::new("too_big", sides)
}

// M-2, W-5: 4,008 bytes of UDP in pieces of 1,512, and each half of them again in two.
fn split() -> Golden {
    let there = Makes(LEFT, UNDER, 3);
    let whole = [there, Becomes(UNDER, RIGHT), Becomes(UNDER, RIGHT), Becomes(UNDER, RIGHT)];
    let halves = [Makes(LEFT, UNDER, 2), Makes(LEFT, UNDER, 2), Makes(LEFT, UNDER, 1)];
    Golden::new("split", times(2, &whole).into_iter().chain(halves))
}

// M-3: twelve SYNs with the option and one without, then as many SYN-ACKs, then no SYN; IPv4 and IPv6.
fn mss_clamp() -> Golden {
    let sides = [times(13, &FROM_CLIENT), times(13, &FROM_SERVER), FROM_CLIENT.to_vec()].concat();
    Golden::new("mss_clamp", times(2, &sides)).configured(|bench| {
        bench.policy.mss_clamp = true;
        bench.policy.unknown_flow = flowgate::datapath::forwarding::UnknownFlow::Adopt;
    })
}

// M-4, W-5, W-7: in order, then with the first fragment last.
fn fragments() -> Golden {
    let in_order = times(6, &FROM_CLIENT);
    let wait = Makes(LEFT, UNDER, 0);
    let reversed = [wait, wait, Makes(LEFT, UNDER, 3), Becomes(UNDER, RIGHT), Becomes(UNDER, RIGHT)];
    let reversed = times(2, &[&reversed[..], &[Becomes(UNDER, RIGHT)]].concat());
    Golden::new("fragments", in_order.into_iter().chain(reversed))
}

// M-4: RFC 1858.
fn hiding_fragments() -> Golden {
    let two = [Dropped(LEFT, DropReason::FragmentTiny), Dropped(LEFT, DropReason::FragmentInHeader)];
    Golden::new("hiding_fragments", times(2, &two))
}

// M-5, W-5
fn icmp_errors() -> Golden {
    let steps = [FROM_CLIENT, FROM_SERVER, FROM_CLIENT].into_iter().flatten();
    let errors = [times(12, &FROM_SERVER), FROM_CLIENT.to_vec(), times(13, &FROM_SERVER)].concat();
    Golden::new("icmp_errors", steps.chain(errors))
}

// M-6
fn extension_headers() -> Golden {
    let steps = [times(7, &FROM_CLIENT), times(7, &FROM_SERVER), times(3, &FROM_CLIENT)].concat();
    Golden::new("extension_headers", steps)
}

/// The network of `network.rs` instead of a wire, its neighbours known.
fn over_routes(golden: Golden) -> Golden {
    let steps = [Then(introduce)].into_iter().chain(golden.steps);
    Golden { steps: steps.collect(), ..golden }.configured(|bench| bench.network = Network::routed())
}

// O-4, W-6
fn routed() -> Golden {
    let conversation = [FROM_CLIENT, FROM_SERVER, FROM_CLIENT, FROM_CLIENT, FROM_SERVER].concat();
    over_routes(Golden::new("routed", times(2, &conversation)))
}

// O-4, W-6, M-2
fn routed_errors() -> Golden {
    let time_exceeded = times(4, &[Becomes(LEFT, LEFT)]);
    // Shorter than the errors about them: told the second time.
    let short = [Dropped(RIGHT, DropReason::TtlExceeded), Becomes(RIGHT, RIGHT)];
    let no_route = [Becomes(LEFT, UNDER), Dropped(UNDER, DropReason::NoRoute)];
    let told = [Becomes(LEFT, UNDER), Becomes(UNDER, LEFT)];
    let steps = time_exceeded.into_iter().chain(short).chain(no_route).chain(told);
    over_routes(Golden::new("routed_errors", steps))
}

fn all() -> Vec<Golden> {
    vec![
        tcp("tcp_ipv4"),
        tcp("tcp_ipv6"),
        udp(),
        icmp_echo(),
        other_protocols(),
        vlan(),
        padding(),
        udp_checksum(),
        accepted_answers("accepted_answers"),
        accepted_answers("accepted_answers_ipv6"),
        wrong_answers(),
        wrong_options(),
        crossing(),
        resets("resets_ipv4"),
        resets("resets_ipv6"),
        resets("resets_vlan"),
        resets_of_no_flow(),
        too_big(),
        split(),
        mss_clamp(),
        fragments(),
        hiding_fragments(),
        icmp_errors(),
        extension_headers(),
        routed(),
        routed_errors(),
    ]
}

// O-4, W-1 to W-6, R-1, R-3, R-4, R-7, M-2, M-3, M-4, M-5, M-6
#[test]
fn every_capture_goes_through_as_scapy_has_it() {
    for golden in all() {
        golden.play();
    }
}

#[test]
fn every_capture_in_the_folder_is_played() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let captures = files.filter(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    let names: BTreeSet<String> =
        captures.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names, all().iter().map(|golden| golden.name.to_owned()).collect());
}

/// What tshark makes of frames: each one's fields, separated by blanks, every occurrence separated by
/// commas, outer before inner.
fn tshark(frames: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("sent.pcap");
    write_capture(&capture, frames);
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&capture);
    tshark.args(["-T", "fields", "-E", "separator=/s", "-E", "occurrence=a"]);
    for protocol in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("this test needs tshark; scripts/test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), frames.len());
    lines
}

// W-1, W-2, R-4: what really came out, the gateway's own choices in it, before a second decoder.
#[test]
fn tshark_finds_no_wrong_checksum_and_the_right_geneve_in_all_that_came_out() {
    let played: Vec<_> = all().iter().flat_map(|golden| golden.play()).collect();
    let frames: Vec<_> = played.iter().map(|(_, frame)| frame.clone()).collect();
    let statuses = [
        "ip.checksum.status",
        "udp.checksum.status",
        "tcp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
        "_ws.malformed",
    ];
    let mut good = 0;
    for ((_, frame), line) in played.iter().zip(tshark(&frames, &statuses)) {
        // 0 bad, 1 good, 2 not verified (the inside of an ICMP error), 3 none there; and no word of a
        // malformed packet.
        let right = |status: &str| matches!(status, "" | "1" | "2" | "3");
        assert!(line.split([' ', ',']).all(right), "{line}{}", hex(frame));
        good += line.matches('1').count();
    }
    assert!(good > frames.len(), "tshark did verify");

    let to_target: Vec<_> =
        played.iter().filter(|(port, _)| *port == UNDER).map(|(_, frame)| frame.clone()).collect();
    let fields = [
        "geneve.version",
        "geneve.flags",
        "geneve.vni",
        "geneve.option.class",
        "geneve.option.type",
        "geneve.option.length",
        "geneve.proto_type",
        "geneve.options",
    ];
    for (frame, line) in to_target.iter().zip(tshark(&to_target, &fields)) {
        let protocol = if inner(frame)[0] >> 4 == 4 { "0x0800" } else { "0x86dd" };
        let cookie = cookie(frame);
        let options = format!("01080102{ENDPOINT_ID:016x}01080202{ATTACHMENT_ID:016x}01080301{cookie:08x}");
        assert_eq!(
            line,
            format!("0 0x00 0x000000 0x0108,0x0108,0x0108 0x01,0x02,0x03 32,12,12,8 {protocol} {options}")
        );
    }
}

// M-2, M-4: what the target gets in pieces a second decoder puts together again, inside GENEVE.
#[test]
fn tshark_puts_together_again_what_reaches_the_target_in_pieces() {
    for (golden, expected) in
        [(split(), [vec!["4008"; 3], vec![]]), (fragments(), [vec!["3008"; 2], vec!["3008"; 2]])]
    {
        let sent = golden.play().into_iter().filter(|(port, _)| *port == UNDER);
        let frames: Vec<_> = sent.map(|(_, frame)| frame).collect();
        let lines =
            ["ip.reassembled.length", "ipv6.reassembled.length"].map(|field| tshark(&frames, &[field]));
        let found = lines.map(|lines| lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>());
        assert_eq!(found, expected, "{}", golden.name);
    }
}
