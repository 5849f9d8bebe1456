//! `capture` and `stop-capture`: by hand over the socket, and by the command line.

use crate::client::Client;
use crate::command_line::{command, refused};
use crate::fake::Daemon;
use crate::roles::{connect_as_nobody, daemon};
use flowgate::control::socket::{Limits, base64};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The kinds of the blocks of a file that is whole, by the lengths at both ends of each.
fn blocks(mut file: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let mut kinds = Vec::new();
    while !file.is_empty() {
        let length = word(&file[4..]) as usize;
        assert_eq!(word(&file[length - 4..]) as usize, length);
        kinds.push(word(file));
        file = &file[length..];
    }
    kinds
}

const SECTION: u32 = 0x0a0d_0d0a;
/// A section, a port, what has no link header, three packets, statistics of both interfaces.
const WHOLE: [u32; 8] = [SECTION, 1, 1, 6, 6, 6, 5, 5];

fn data(notice: &Value) -> Vec<u8> {
    base64::decode(notice["params"]["Data"].as_str().unwrap()).unwrap()
}

#[test]
fn a_capture_comes_as_whole_blocks_and_ends_with_its_statistics_when_it_is_stopped() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let started = client.call("capture", json!({"SnapLen": 96, "PacketsPerSecond": 50})).unwrap();
    assert_eq!(started, json!({"Workers": 1, "SnapLen": 96, "PacketsPerSecond": 50, "Bytes": 1 << 30}));
    let first = client.read();
    assert_eq!(first["method"], "captured");
    let mut file = data(&first);
    assert_eq!(blocks(&file), WHOLE[..6]);
    assert_eq!(first["params"]["Packets"], 3);
    assert_eq!(first["params"]["Bytes"], file.len());
    // It can still be asked; another capture on the same connection is refused.
    let error = client.call("capture", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "CaptureInProgress");
    assert_eq!(client.call("stop-capture", json!({})).unwrap(), json!({}));
    let last = client.read();
    file.extend(data(&last));
    assert_eq!(blocks(&file), WHOLE);
    let ended = client.read();
    assert_eq!(ended["method"], "capture-ended");
    assert_eq!(
        ended["params"],
        json!({"Reason": "stopped", "Packets": 3, "Bytes": file.len(), "OverRate": 0, "Unread": 0})
    );
    let error = client.call("stop-capture", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "NoCapture");
    // And then another.
    client.call("capture", json!({"Packets": 2})).unwrap();
    assert_eq!(blocks(&data(&client.read())), [SECTION, 1, 1, 6, 6, 5, 5]);
    assert_eq!(client.read()["params"]["Reason"], "packets");
}

#[test]
fn what_cannot_be_captured_is_refused_with_what_was_meant() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    for (params, kind, path, hint) in [
        (json!({"Endpoint": "lam"}), "EndpointNotFound", "Endpoint", "the endpoints are lan, offices"),
        (json!({"Reasons": ["unknown_flwo"]}), "ValidationError", "Reasons", "did you mean unknown_flow?"),
        (
            json!({"TargetGroupArn": "wf"}),
            "TargetGroupNotFound",
            "TargetGroupArn",
            "the target groups are fw, spare",
        ),
        (
            json!({"LoadBalancerArn": "gv"}),
            "LoadBalancerNotFound",
            "LoadBalancerArn",
            "the only load balancer is gw",
        ),
    ] {
        let error = client.call("capture", params).unwrap_err();
        assert_eq!((&error["data"]["kind"], &error["data"]["path"]), (&kind.into(), &path.into()), "{error}");
        assert_eq!(error["data"]["hint"], hint, "{error}");
    }
    for params in [
        json!({"Address": "192.0.2.0/33"}),
        json!({"SnapLen": 13}),
        json!({"PacketsPerSecond": 0}),
        json!({"Points": ["arived"]}),
        json!({"Bytes": 1}),
    ] {
        let error = client.call("capture", params.clone()).unwrap_err();
        assert_eq!(error["data"]["kind"], "ValidationError", "{params}: {error}");
    }
}

#[test]
fn captures_are_bounded_and_one_whose_client_has_gone_makes_room() {
    let daemon = Daemon::start();
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&daemon.path())).collect();
    for client in &mut clients {
        client.call("capture", json!({})).unwrap();
    }
    let mut third = Client::connect(&daemon.path());
    let error = third.call("capture", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "TooManyCaptures");
    clients.pop();
    let began = Instant::now();
    while third.call("capture", json!({})).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the place of who has gone is not given to another"
        );
    }
}

#[test]
fn who_only_looks_sees_no_payload() {
    let Some(daemon) = daemon(Limits::default(), 0o666) else { return };
    let mut client = Client::over(connect_as_nobody(&daemon));
    client.read();
    for method in ["capture", "stop-capture"] {
        let error = client.call(method, json!({})).unwrap_err();
        assert_eq!(error["data"]["kind"], "AccessDenied");
    }
}

#[test]
fn the_command_line_writes_a_file_that_only_its_owner_reads_and_says_what_is_in_it() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("out.pcapng");
    let path = file.to_str().unwrap();
    let output = command(&daemon.path(), &["capture", "--write", path, "--count", "3"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    let written = std::fs::read(&file).unwrap();
    assert_eq!(blocks(&written), WHOLE);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let size = written.len();
    let expected =
        format!("3 packets captured in {path}, {size} bytes (as many packets as were asked for)\n");
    assert_eq!(said, expected);
    let piped = command(&daemon.path(), &["capture", "--write", "-", "-c", "2"]).output().unwrap();
    assert_eq!(blocks(&piped.stdout), [SECTION, 1, 1, 6, 6, 5, 5]);
}

#[test]
fn without_a_file_a_line_a_packet_is_printed() {
    let daemon = Daemon::start();
    let lines = command(&daemon.path(), &["capture", "-c", "3"]).output().unwrap();
    let lines = String::from_utf8(lines.stdout).unwrap();
    let between = "192.0.2.1:40000 > 198.51.100.1:443 tcp [ACK], 54 bytes";
    let known = "target fw/10.0.0.1; flow 0000002a; endpoint lan; load balancer gw; worker 0";
    let why = "unhealthy: The flow's target is unhealthy (R-1).";
    let no_flow = "unknown_flow: A TCP packet without SYN that belongs to no flow. (F-8)";
    let expected = [
        format!("20:47:37.007000000 left in  {between}: arrived, answered with a reset: {why}; {known}"),
        format!("20:47:37.007000000 left out {between}: reset: {why}; {known}"),
        format!("20:47:37.007000000 left out {between}: dropped: {no_flow}; {known}"),
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    let objects = command(&daemon.path(), &["capture", "-c", "1", "--json"]).output().unwrap();
    let object: Value = serde_json::from_slice(&objects.stdout).unwrap();
    assert_eq!(object["Interface"], "left");
    assert_eq!((&object["Source"], &object["Flags"]), (&"192.0.2.1:40000".into(), &"ACK".into()));
}

#[test]
fn a_disk_that_is_full_is_told_with_what_was_kept() {
    let daemon = Daemon::start();
    let (code, said) = refused(&daemon.path(), &["capture", "--write", "/dev/full"]);
    assert_eq!(code, 1);
    let expected = "flowgate: cannot write to /dev/full: No space left on device (os error 28); \
        the 0 packets (0 bytes) there are whole\n";
    assert_eq!(said, expected);
    let (code, said) = refused(&daemon.path(), &["capture", "--write", "/no/such/folder"]);
    assert_eq!(code, 1);
    assert!(said.contains("No such file or directory"), "{said}");
    let (code, said) = refused(&daemon.path(), &["capture", "--write", "-", "--print"]);
    assert_eq!(code, 1);
    assert!(said.contains("--print and --write - would mix"), "{said}");
    // Both captures that were begun are over: there is room for two.
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&daemon.path())).collect();
    for client in &mut clients {
        let began = Instant::now();
        while client.call("capture", json!({})).is_err() {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
    }
}

/// `flowgate capture` into a file, once its packets are there.
fn capturing(daemon: &Daemon, file: &Path) -> Child {
    let child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_flowgate"), "--socket"])
        .arg(daemon.path())
        .args(["capture", "--write"])
        .arg(file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while std::fs::metadata(file).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_signal_ends_the_capture_with_a_whole_file() {
    let daemon = Daemon::start();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let file = daemon.folder().join(signal.as_str());
        let child = capturing(&daemon, &file);
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{said}");
        assert!(said.starts_with("3 packets captured in ") && said.ends_with(" (stopped)\n"), "{said}");
        assert_eq!(blocks(&std::fs::read(&file).unwrap()), WHOLE);
    }
}

#[test]
fn a_daemon_that_goes_away_leaves_whole_blocks() {
    let mut daemon = Daemon::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.pcapng");
    let child = capturing(&daemon, &file);
    daemon.stop();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(3));
    let said = String::from_utf8(stderr).unwrap();
    let kept = format!("3 packets are in {}\n", file.display());
    assert_eq!(said, format!("{kept}flowgate: the daemon closed the connection: look at its log\n"));
    assert_eq!(blocks(&std::fs::read(&file).unwrap()), WHOLE[..6]);
}
