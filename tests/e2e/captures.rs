//! `flowgate capture` on a real daemon: what tshark reads in the file, a reader that stops, a disk that is full.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::lab::frames::{TcpFrame, send_frame};
use crate::lab::gateway::Attributes;
use crate::lab::process::Process;
use crate::lab::traffic::{PATIENCE, exchange, must_be_reset};
use crate::lab::{CLIENT_MAC, ETH, Family, Lab, PAUSE, SERVER_MAC, Side, wait_for};

const ON_UNHEALTHY: Attributes<'_> =
    Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };

fn flowgate(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command.arg("--socket").arg(lab.path("flowgated.sock")).arg("capture").args(arguments);
    command
}

/// A capture into a file, which has begun.
fn capturing(lab: &Lab, arguments: &[&str]) -> (Process, PathBuf) {
    let file = lab.path("captured.pcapng");
    let mut command = flowgate(lab, arguments);
    let process = Process::start("capture", command.arg("--write").arg(&file), lab.folder.path());
    let begun = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0).then_some(());
    wait_for("the capture to begin", PATIENCE, begun);
    (process, file)
}

/// Waits until a capture's file has these words in it so many times, and for what is on its way there from other workers.
fn wait_until_written(file: &Path, words: &[u8], times: usize) {
    wait_for(&format!("{:?} to be written", String::from_utf8_lossy(words)), PATIENCE, || {
        let bytes = std::fs::read(file).expect("the file is there");
        let written = bytes.windows(words.len()).filter(|window| *window == words).count();
        (written >= times).then_some(())
    });
    std::thread::sleep(PAUSE);
}

/// What tshark prints of the packets that fit `filter`: these fields of each, with tabs between them.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let Output { status, stdout, stderr } = command.output().expect("tshark is installed");
    assert!(status.success(), "{filter}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text").lines().map(str::to_owned).collect()
}

fn commented(file: &Path, words: &str) -> usize {
    tshark(file, &format!("frame.comment contains \"{words}\""), &["frame.number"]).len()
}

const HANDED_OVER: &str = "arrived, handed to the worker that owns its flow";

// C-1, R-1, R-8
#[test]
fn a_failover_is_seen_in_wireshark_with_what_became_of_every_packet() {
    let mut lab = Lab::started(2, ON_UNHEALTHY);
    lab.all_counted_at_rest();
    let count = |lab: &Lab| {
        let of_node = |name: &str| lab.counters("node")["Counters"][name].as_u64().expect("a counter");
        let resets = lab.counted("TCP_ELB_Reset_Count_unhealthy");
        [of_node("ForwardedPackets"), of_node("DeliveredPackets"), resets]
    };
    let before = count(&lab);
    let (capture, file) = capturing(&lab, &["--rate", "100000"]);

    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 100_000);
    let dead = lab.appliance_of(&connection);
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    // Before that it would be forwarded.
    lab.wait_until_applied();
    connection.end(Side::Client).write_all(b"into the void").expect("the kernel takes it");
    must_be_reset(connection.end(Side::Client));
    // A segment of no flow.
    let stray = TcpFrame {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlans: vec![],
        source: SocketAddr::new(Family::V4.client(), 4321),
        destination: SocketAddr::new(Family::V4.server(), 9),
        seq: 1,
        ack: 2,
        flags: crate::lab::capture::ACK,
        payload: b"out of the blue".to_vec(),
    };
    // The server, whose last acknowledgement may have died with the appliance, may send again into no flow too.
    let unknown = lab.dropped("unknown_flow");
    send_frame(&lab.client, ETH, &stray.build());
    wait_for("the segment of no flow", PATIENCE, || (lab.dropped("unknown_flow") > unknown).then_some(()));
    lab.all_counted_at_rest();
    let after = count(&lab);
    // Where the segment of no flow came, and where it ended.
    wait_until_written(&file, b"out of the blue", 2);
    assert!(capture.printed().is_empty(), "{}", capture.printed());
    assert!(capture.terminate().success());

    // As many as the counters have (C-1), and each with its comment.
    let grown: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let encapsulated = commented(&file, "encapsulated; target firewalls/") as u64;
    let delivered =
        tshark(&file, "frame.comment matches \"^delivered; target firewalls/\"", &["frame.number"]);
    let resets = tshark(
        &file,
        "frame.comment matches \"^reset: unhealthy\" && tcp.flags.reset == 1",
        &["frame.number"],
    );
    assert_eq!([encapsulated, delivered.len() as u64, resets.len() as u64], grown[..]);
    assert!(encapsulated > 20 && !resets.is_empty());
    assert_eq!(tshark(&file, "not frame.comment", &["frame.number"]), [""; 0]);

    // Both ways of the target side are GENEVE to tshark, and carry the flow of the comment.
    let flow = format!("{:08x}", lab_cookie(&file));
    // The host of the appliance that was killed may say by ICMP, which quotes a packet, that nobody listens there.
    let outside = tshark(&file, "geneve && !icmp", &["frame.interface_name", "frame.comment"]);
    assert!(outside.iter().any(|line| line.contains("encapsulated")));
    let returned =
        |line: &String| line.contains("returned, delivered") || line.contains("returned, handed to");
    assert!(outside.iter().any(returned), "{outside:?}");
    assert!(outside.iter().all(|line| line.starts_with("under\t") && line.contains(&flow)), "{outside:?}");

    // The packet that was answered, and the one of no flow where it came and where it ended. Where it came it may
    // have been for the other worker.
    let came_as = |payload: &str, what: &str| {
        let filter = format!("frame contains \"{payload}\" && !geneve && frame.comment matches \"^arrived\"");
        let comments = tshark(&file, &filter, &["frame.comment"]);
        let fits = |comment: &String| comment.starts_with(what) || comment.starts_with(HANDED_OVER);
        assert!(!comments.is_empty() && comments.iter().all(fits), "{payload}: {comments:?}");
        comments.len()
    };
    came_as("into the void", "arrived, answered with a reset: unhealthy");
    assert_eq!(came_as("out of the blue", "arrived, dropped: unknown_flow"), 1);
    let dropped = tshark(
        &file,
        "tcp.srcport == 4321 && frame.comment matches \"^dropped: unknown_flow\"",
        &["frame.comment"],
    );
    assert_eq!(dropped.len(), 1);
    assert!(dropped[0].contains("(F-8)"), "{dropped:?}");

    // Times do not go back, and a packet leaves after it came.
    let times = tshark(&file, "tcp", &["frame.time_delta"]);
    let back: Vec<_> = times.iter().filter(|delta| delta.starts_with('-')).collect();
    assert!(back.is_empty(), "{back:?}");
}

/// The cookie of the flow that was encapsulated first.
fn lab_cookie(file: &Path) -> u32 {
    let comments = tshark(file, "frame.comment contains \"encapsulated\"", &["frame.comment"]);
    let (_, rest) = comments[0].split_once("; flow ").expect("a flow");
    u32::from_str_radix(&rest[..8], 16).expect("eight digits")
}

#[test]
fn only_what_the_filter_names_is_in_the_file() {
    let lab = Lab::started(2, Attributes::default());
    let mut connection = lab.connect(Family::V4);
    let mut other = lab.connect(Family::V4);
    let (from, to) = (connection.address(Side::Client), connection.address(Side::Server));
    let (port, peer_port) = (from.port().to_string(), to.port().to_string());
    let (address, peer) = (from.ip().to_string(), to.ip().to_string());
    let ends = ["--address", &address, "--port", &port, "--peer-address", &peer, "--peer-port", &peer_port];
    let (capture, file) = capturing(&lab, &[&ends[..], &["--points", "arrived", "delivered"]].concat());
    exchange(&mut connection, 100_000);
    exchange(&mut other, 100_000);
    std::thread::sleep(PAUSE);
    assert!(capture.terminate().success());
    let of_flow = tshark(&file, &format!("tcp.port == {port}"), &["frame.comment"]);
    assert!(of_flow.len() > 20);
    assert_eq!(tshark(&file, "frame", &["frame.number"]).len(), of_flow.len());
    assert!(of_flow.iter().all(|comment| comment.starts_with("arrived") || comment.starts_with("delivered")));
}

#[test]
fn a_reader_that_stops_holds_nobody_up_and_is_told_what_it_lost() {
    let lab = Lab::started(2, Attributes::default());
    let (mut capture, file) = capturing(&lab, &["--rate", "100000"]);
    let pid = Pid::from_raw(i32::try_from(capture.id()).expect("a pid fits"));
    kill(pid, Signal::SIGSTOP).expect("the child exists");
    // Some times what the rings and the socket hold.
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 16 << 20);
    assert!(lab.gateway().rpc.answers(), "the socket answers others meanwhile");
    for n in 0..lab.appliances.len() {
        assert_eq!(lab.state_of(n).expect("a target").0, "healthy", "health checks go on");
    }
    kill(pid, Signal::SIGCONT).expect("the child exists");
    capture.must_run();
    // Longer than it takes it to go on.
    std::thread::sleep(PAUSE);
    kill(pid, Signal::SIGTERM).expect("the child exists");
    wait_for("the capture to end", PATIENCE, || capture.ended());
    let said = capture.printed();
    assert!(said.contains("as this reader was too slow"), "{said}");
    // The file says so too, and is whole.
    let packets = tshark(&file, "frame", &["frame.number"]).len();
    assert!(said.contains(&format!("{packets} packets captured in ")), "{said}");
    let whole = std::fs::read(&file).expect("the file is there");
    let told = b"as the reader was too slow";
    assert!(whole.windows(told.len()).any(|window| window == told));
}

#[test]
fn a_disk_that_is_full_ends_the_capture_with_a_file_that_opens() {
    let lab = Lab::started(1, Attributes::default());
    let folder = lab.path("small");
    std::fs::create_dir(&folder).expect("the folder is writable");
    // A disk of 256 KiB that nobody else sees and that goes with the command.
    let script = "mount -t tmpfs -o size=256k tmpfs $1 && shift && \"$@\"; code=$?; \
        tshark -n -r $FILE -T fields -e frame.number | wc -l; exit $code";
    let file = folder.join("captured.pcapng");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&folder).env("FILE", &file);
    command.arg(env!("CARGO_BIN_EXE_flowgate")).arg("--socket").arg(lab.path("flowgated.sock"));
    command.args(["capture", "--rate", "100000", "--write"]).arg(&file);
    let mut capture = Process::start("capture", &mut command, lab.folder.path());
    // The file as the command sees it, which is what becomes of `unshare`.
    let seen = PathBuf::from(format!("/proc/{}/root{}", capture.id(), file.display()));
    let begun = || std::fs::metadata(&seen).is_ok_and(|file| file.len() > 0).then_some(());
    wait_for("the capture to begin", PATIENCE, begun);
    exchange(&mut lab.connect(Family::V4), 4 << 20);
    let status = wait_for("the capture to end", PATIENCE, || capture.ended());
    let said = capture.printed();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    let (_, rest) = said.split_once("; the ").expect("what was kept");
    let kept: usize = rest.split(' ').next().and_then(|count| count.parse().ok()).expect("a number");
    assert!(kept > 50, "{said}");
    // tshark reads as many.
    assert_eq!(said.lines().last().and_then(|count| count.trim().parse().ok()), Some(kept), "{said}");
    // And the gateway goes on.
    exchange(&mut lab.connect(Family::V4), 100_000);
}
