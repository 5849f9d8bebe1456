//! What an operator reads when DPDK does not start or a device does not open. EAL starts once a
//! process, so this one test runs itself again for each case, in a process of its own.
#![cfg(feature = "dpdk")]

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use flowgate::io::affinity;
use flowgate::io::dpdk::{Eal, EalError, Mempool, MempoolConfig, Port, PortConfig};

/// Names the case to the process that runs it.
const CASE: &str = "FLOWGATE_TEST_CASE";

const NO_HUGE: [&str; 6] = ["-m", "64", "--no-huge", "--no-shconf", "--no-telemetry", "--no-pci"];

fn start(args: &[&str]) -> Result<Eal, EalError> {
    let cpus = affinity::allowed_cpus().expect("affinity");
    let lcores = format!("--lcores=0@({})", cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(","));
    let own = [format!("--file-prefix=flowgate-errors-{}", std::process::id()), lcores];
    Eal::start(&own.into_iter().chain(args.iter().map(|&arg| arg.to_owned())).collect::<Vec<_>>())
}

/// What EAL says when it is started so.
fn refused(args: &[&str]) -> String {
    start(args).expect_err("EAL does not start").to_string()
}

/// What opening `device` says, with EAL started for `vdev` and `queues` queues into packets of `room` bytes.
fn not_opened(vdev: &str, device: &str, queues: usize, mtu: Option<u16>, room: u16) -> String {
    let vdev = format!("--vdev={vdev}");
    let eal = start(&[&NO_HUGE[..], &[&vdev]].concat()).expect("EAL starts");
    let pool =
        MempoolConfig { name: "p".to_owned(), count: 511, data_room: room + 128, cache: 0, socket: None };
    let pool = Mempool::new(&eal, &pool).expect("pool");
    let config = PortConfig { device: device.to_owned(), mtu, promiscuous: true, rx_ring: 128, tx_ring: 128 };
    let error = Port::open(&eal, &config, &vec![pool; queues]).expect_err("the port does not open");
    error.to_string()
}

/// Runs in a process of its own and returns what the operator reads.
fn run(case: &str) -> String {
    let af_packet = |interface| format!("net_af_packet0,iface={interface}");
    let pool = |name: &str, count, cache| MempoolConfig {
        name: name.to_owned(),
        count,
        data_room: 2176,
        cache,
        socket: None,
    };
    let no_pool = |config: &[MempoolConfig]| {
        let eal = start(&NO_HUGE).expect("EAL starts");
        let made: Result<Vec<_>, _> = config.iter().map(|config| Mempool::new(&eal, config)).collect();
        made.expect_err("a pool is refused").to_string()
    };
    match case {
        "no hugepages" => refused(&["-m", "1048576", "--in-memory", "--no-telemetry", "--no-pci"]),
        "no such driver" => refused(&[&NO_HUGE[..], &["--vdev=net_nothing0"]].concat()),
        "no such option" => refused(&[&NO_HUGE[..], &["--no-such-option"]].concat()),
        "nul" => refused(&["--file-prefix=a\0b"]),
        "no such interface" => not_opened(&af_packet("nowhere0"), "net_af_packet0", 1, None, 2048),
        "no permission" => not_opened(&af_packet("lo"), "net_af_packet0", 1, None, 2048),
        "interface down" => not_opened(&af_packet("fgtest0"), "net_af_packet0", 1, None, 2048),
        "no such device" => not_opened("net_null0", "net_null7,size=64", 1, None, 2048),
        "no such pci device" => not_opened("net_null0", "3b:00.0", 1, None, 2048),
        "too many queues" => not_opened("net_pcap0,iface=lo", "net_pcap0", 2, None, 2048),
        "no queue" => not_opened("net_null0", "net_null0", 0, None, 2048),
        "frame too long" => not_opened("net_null0", "net_null0", 1, Some(9000), 2048),
        "mtu refused" => not_opened(&af_packet("fgtest0"), "net_af_packet0", 1, Some(9000), 9100),
        "pool too large" => no_pool(&[pool("p", 65_535, 0)]),
        "pool cache" => no_pool(&[pool("p", 64, 43)]),
        "pool cache beyond DPDK's" => no_pool(&[pool("p", 2047, 513)]),
        "pool name" => no_pool(&[pool("p", 64, 0), pool("p", 64, 0)]),
        "pool name too long" => no_pool(&[pool("a name of six and twenty l", 64, 0)]),
        other => panic!("no case {other}"),
    }
}

/// The case, the command it is run under, and what the sentence must say.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

/// A network namespace that has an interface, which is down, and goes with the process.
const WITH_INTERFACE: &[&str] =
    &["unshare", "--net", "sh", "-c", "ip tuntap add fgtest0 mode tap && exec \"$0\" \"$@\""];

const CASES: &[Case] = &[
    (
        "no hugepages",
        &[],
        &["DPDK found no memory: reserve hugepages (`echo 512 >", "or set hugepages to \"never\""],
    ),
    ("no such driver", &[], &["DPDK could not open the device: check its name", "net_nothing0"]),
    (
        "no such option",
        &[],
        &["correct those given to EAL (flowgated: unrecognized option '--no-such-option')"],
    ),
    ("nul", &[], &["an EAL argument has a NUL byte in it"]),
    (
        "no such interface",
        &[],
        &["device net_af_packet0 could not be opened", "interface exists", "No such device"],
    ),
    // Everything that root may do but to open a packet socket.
    (
        "no permission",
        &["setpriv", "--bounding-set=-net_raw"],
        &["device net_af_packet0 could not be opened", "CAP_NET_RAW"],
    ),
    ("interface down", WITH_INTERFACE, &["device net_af_packet0 is down: `ip link set fgtest0 up`"]),
    ("no such device", &[], &["no such device: net_null7; DPDK has net_null0: "]),
    ("no such pci device", &[], &["no such device: 0000:3b:00.0; DPDK has net_null0: ", "vfio-pci"]),
    (
        "too many queues",
        &[],
        &["device net_pcap0 has 1 queue pairs at most and 2 workers want one each: configure fewer"],
    ),
    ("no queue", &[], &["device net_null0 needs at least one queue"]),
    (
        "frame too long",
        &[],
        &["an MTU of 9000 receives frames of 9026 bytes and the pool's packets hold 2048"],
    ),
    (
        "mtu refused",
        WITH_INTERFACE,
        &["device net_af_packet0 has an MTU of 1500 and refuses 9000: set it on the interface"],
    ),
    ("pool too large", &[], &["no memory for 65535 packets of 2176 bytes (about 148 MiB): raise memory_mb"]),
    (
        "pool cache",
        &[],
        &["a pool of 64 packets with 43 cached a thread: the cache must be at most 512 and two thirds"],
    ),
    ("pool cache beyond DPDK's", &[], &["513 cached a thread: the cache must be at most 512"]),
    ("pool name", &[], &["no pool can be named \"p\": File exists"]),
    ("pool name too long", &[], &["no pool can be named \"a name of six and twenty l\": File name too long"]),
];

#[test]
fn each_failure_is_a_sentence_that_says_what_to_do() {
    if let Ok(case) = env::var(CASE) {
        println!("<<{}>>", run(&case));
        return;
    }
    let this = env::current_exe().expect("this test");
    for (case, under, expected) in CASES {
        let command: Vec<&OsStr> = under.iter().map(OsStr::new).chain([this.as_os_str()]).collect();
        let output = Command::new(command[0])
            .args(&command[1..])
            .args(["--exact", "each_failure_is_a_sentence_that_says_what_to_do", "--nocapture"])
            .env(CASE, case)
            .output()
            .expect("a process");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{case}: {out}{err}");
        let (_, sentence) = out.split_once("<<").expect("a sentence");
        let (sentence, _) = sentence.split_once(">>").expect("the end of the sentence");
        for part in *expected {
            assert!(sentence.contains(part), "{case}: {part:?} is not in {sentence:?}");
        }
        assert!(!sentence.contains('\n'), "{case}: {sentence:?}");
        assert_eq!(err, "", "{case}: nothing but the sentence");
    }
}
