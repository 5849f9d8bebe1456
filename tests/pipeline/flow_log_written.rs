//! Flow logs from packets to what is read elsewhere: JSON lines in a file, and IPFIX as tshark decodes it.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flowgate::control::flow_log::{
    self, Destination, KeepFiles, MadeBy, Names, OneIn, Options, TargetNames, Threads, WorkerFacts,
};
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::FromWorker;
use flowgate::flow::HashSeed;
use flowgate::id::TargetId;
use flowgate::io::clock::Clock;
use serde_json::Value;

use crate::failover::resets;
use crate::harness::*;

/// A log of what `bench` does, written where `to` says, until it is over.
struct Log {
    made: MadeBy,
    threads: Threads,
}

impl Log {
    fn start(bench: &mut Bench, to: Destination) -> Log {
        let facts =
            |(worker, counters): (&flowgate::datapath::worker::Worker<_>, &std::sync::Arc<_>)| WorkerFacts {
                capacity: worker.flows().table.capacity(),
                counters: std::sync::Arc::clone(counters),
            };
        let workers = bench.workers.iter().zip(&bench.counters).map(facts).collect();
        let options = Options { to, one_in: OneIn::default(), interim: None };
        let (threads, seed) = (Threads::default(), HashSeed::from_secret(b"x"));
        let made = flow_log::start(
            &options,
            flow_log::open(&options).unwrap(),
            seed,
            workers,
            Clock::start(),
            &threads,
        )
        .unwrap();
        let names = (0..bench.targets).map(|n| {
            let names = TargetNames {
                load_balancer: "gw".to_owned(),
                target_group: "fw".to_owned(),
                target: target_address(n),
            };
            ((TargetId(n), 0), names)
        });
        made.shared.set_names(Names::default().next(vec!["lan".to_owned()], names, Instant::now()));
        let logs = made.made.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        let mut logs = logs.into_iter();
        bench.start_with(|| logs.next().unwrap());
        Log { made, threads }
    }

    /// Has it end, as the control core does.
    fn stop(self, bench: &mut Bench) -> flow_log::Progress {
        bench.stop_flow_log();
        for told in std::mem::take(&mut bench.told) {
            if let FromWorker::FlowLogOver(log) = told {
                self.made.back.send(log).unwrap();
            }
        }
        assert_eq!(self.threads.join(Instant::now() + Duration::from_secs(10)), 0);
        let progress = self.made.shared.progress();
        assert!(progress.is_over);
        progress
    }
}

/// A closed flow, one that is reset by the gateway as its target has failed, and an IPv6 flow of UDP that goes on.
fn traffic(bench: &mut Bench) {
    for (n, flags) in [SYN, ACK, ACK, FIN | ACK].into_iter().enumerate() {
        let (_, out) = bench.one(LEFT, &client(4000, flags).with_payload(&vec![0; 10 * n]).frame());
        bench.one(UNDER, &answer(&out, None));
    }
    let (_, out) = bench.one(RIGHT, &client(4000, FIN | ACK).reversed().frame());
    let fails = bench.target_of(&out);
    bench.one(LEFT, &client(4001, 0).udp().over_ipv6().with_payload(&[0; 100]).frame());
    bench.pass(10_000);
    let mut to = |port: &u16| {
        let (_, out) = bench.one(LEFT, &client(*port, SYN).frame());
        bench.target_of(&out)
    };
    let port = (5000..6000).find(|port| to(port) == fails).expect("some flow of that target");
    bench.one(LEFT, &client(port, ACK).frame());
    bench.set_condition(fails, Condition::Unhealthy);
    bench.one(LEFT, &client(port, ACK).frame());
}

#[test]
fn a_file_has_a_line_of_each_flow_with_names_times_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow-logs/flows.jsonl");
    let mut bench = Bench::new(4);
    resets(&mut bench);
    bench.publish();
    let to = Destination::File { path: path.clone(), rotate_bytes: 1 << 30, keep: KeepFiles::default() };
    let log = Log::start(&mut bench, to);
    traffic(&mut bench);
    let progress = log.stop(&mut bench);

    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((progress.written, progress.failed, progress.error), (lines.len() as u64, 0, None));
    let closed = lines.iter().find(|line| line["Reason"] == "fin").unwrap();
    let expected = [
        ("Record", "flow"),
        ("Endpoint", "lan"),
        ("LoadBalancer", "gw"),
        ("TargetGroup", "fw"),
        ("Protocol", "tcp"),
        ("Source", CLIENT),
        ("Destination", SERVER),
    ];
    assert!(expected.iter().all(|(key, value)| closed[key] == *value), "{closed}");
    assert_eq!(
        (&closed["SourcePort"], &closed["DestinationPort"], &closed["Whole"]),
        (&4000.into(), &80.into(), &true.into())
    );
    let counts = |line: &Value| {
        [
            "ForwardPackets",
            "ForwardBytes",
            "ReversePackets",
            "ReturnedForwardPackets",
            "ReturnedForwardBytes",
            "ReturnedReversePackets",
        ]
        .map(|key| line[key].as_u64().unwrap())
    };
    assert_eq!(counts(closed), [4, 220, 1, 4, 220, 0]);
    let reset = lines.iter().find(|line| line["Reason"] == "reset-unhealthy").unwrap();
    assert_eq!(
        (&reset["Target"], counts(reset)[0]),
        (&closed["Target"], 2),
        "both had the target that failed"
    );
    let udp = lines.iter().find(|line| line["Protocol"] == "udp").unwrap();
    assert_eq!((&udp["Reason"], &udp["Source"], counts(udp)[1]), (&"log-over".into(), &CLIENT6.into(), 148));
    let reports: u64 = bench.counters.iter().map(|all| all.flow_reports.get()).sum();
    assert_eq!(lines.len() as u64, reports);
}

/// UDP datagrams as a capture of raw IP has them.
fn write_capture(path: &Path, port: u16, datagrams: &[Vec<u8>]) {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(65_535_u32.to_le_bytes());
    file.extend(101_u32.to_le_bytes()); // LINKTYPE_RAW
    for (nth, datagram) in (0_u32..).zip(datagrams) {
        let (udp, ip) = (8 + datagram.len() as u16, 28 + datagram.len() as u16);
        for word in [0, nth, u32::from(ip), u32::from(ip)] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0x45, 0]);
        file.extend(ip.to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        for word in [40_000, port, udp, 0] {
            file.extend(word.to_be_bytes());
        }
        file.extend(datagram);
    }
    std::fs::write(path, file).unwrap();
}

/// What tshark says of each of these fields, over all messages; the occurrences in a message with commas between.
fn decoded(datagrams: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ipfix.pcap");
    write_capture(&path, 4739, datagrams);
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&path).args([
        "-d",
        "udp.port==4739,cflow",
        "-T",
        "fields",
        "-E",
        "separator=;",
        "-E",
        "occurrence=a",
    ]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_reads_of_ipfix_what_was_sent() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let address: SocketAddr = collector.local_addr().unwrap();
    let mut bench = Bench::new(4);
    resets(&mut bench);
    bench.publish();
    let log = Log::start(&mut bench, Destination::Ipfix { collector: address, domain: 77 });
    traffic(&mut bench);
    let progress = log.stop(&mut bench);
    assert_eq!((progress.failed, progress.error), (0, None));
    let mut datagrams = Vec::new();
    let mut buffer = [0; 2000];
    while let Ok(len) = collector.recv(&mut buffer) {
        datagrams.push(buffer[..len].to_vec());
    }
    let fields = [
        "cflow.version",
        "cflow.od_id",
        "cflow.srcaddr",
        "cflow.srcaddrv6",
        "cflow.srcport",
        "cflow.protocol",
        "cflow.flow_end_reason",
        "cflow.packets",
        "cflow.octets",
        "cflow.post_packets",
        "cflow.nexthop",
        "cflow.if_name",
        "cflow.appl_name",
        "_ws.malformed",
    ];
    let messages = decoded(&datagrams, &fields);
    let all = |field: &str| -> Vec<&str> {
        let at = fields.iter().position(|name| *name == field).unwrap();
        messages.iter().flat_map(|message| message[at].split(',')).filter(|value| !value.is_empty()).collect()
    };
    assert_eq!(all("_ws.malformed"), Vec::<&str>::new());
    assert!(all("cflow.version").iter().all(|version| *version == "10"));
    assert!(all("cflow.od_id").iter().all(|domain| *domain == "77"));
    let records = progress.written as usize;
    // In the order in which they ended: the closed flow first.
    assert_eq!(all("cflow.flow_end_reason").len(), records, "{messages:?}");
    assert_eq!(
        (all("cflow.flow_end_reason")[0], all("cflow.srcport")[0], all("cflow.protocol")[0]),
        ("3", "4000", "6")
    );
    assert_eq!((all("cflow.srcaddr")[0], all("cflow.srcaddrv6")), (CLIENT, vec![CLIENT6]));
    assert_eq!((all("cflow.packets")[0], all("cflow.octets")[0]), ("4", "220"));
    assert!(all("cflow.flow_end_reason").contains(&"4"), "a reset is a forced end");
    assert!(all("cflow.appl_name").iter().all(|name| *name == "gw/fw"));
    assert!(all("cflow.if_name").iter().all(|name| *name == "lan") && all("cflow.if_name").len() == records);
}
