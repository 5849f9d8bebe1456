//! The binary `flowgate` against a daemon.

use crate::fake::Daemon;
use flowgate::control::events::{Event, Timestamp, What};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub fn command(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command.args(arguments).env("FLOWGATE_SOCKET", socket).env("TZ", "UTC");
    command
}

/// Runs it to success and gives its output.
pub fn printed(daemon: &Daemon, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(&daemon.path(), arguments).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "");
    stdout
}

/// The same of what is for people.
pub fn shown(daemon: &Daemon, arguments: &[&str]) -> String {
    let stdout = printed(daemon, arguments);
    for line in stdout.lines() {
        assert!(line.chars().count() <= 100, "{arguments:?}: wider than 100 columns: {line}");
        assert!(!line.contains('\u{1b}'), "{arguments:?}: colour where there is no terminal");
    }
    stdout
}

/// Runs it to failure: its exit code and what it said.
pub fn refused(socket: &Path, arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = command(socket, arguments).output().unwrap();
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "{arguments:?}");
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn targets_gives_the_glance() {
    let daemon = Daemon::start();
    let glance = shown(&daemon, &["targets", "fw"]);
    let lines: Vec<&str> = glance.lines().collect();
    assert_eq!(lines[0], "fw: 1 of 3 targets healthy; a dead one is detected within 10 s");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[1]), ["TARGET", "STATE", "REASON", "SINCE", "FLOWS"]);
    assert_eq!(words(lines[2])[..3], ["10.0.0.1", "healthy", "-"]);
    assert_eq!(words(lines[2]).last().unwrap(), "125");
    assert_eq!(words(lines[3])[..3], ["10.0.0.2", "unhealthy", "Target.Timeout"]);
    assert!(shown(&daemon, &["targets"]).contains("spare: 0 of 0 targets healthy"), "no group named: all");
}

#[test]
fn every_verb_shows_a_table() {
    let daemon = Daemon::start();
    for (arguments, expected) in [
        (vec!["describe-load-balancers"], "gw"),
        (vec!["describe-listeners", "--load-balancer-arn", "gw"], "gw           forward  fw"),
        (vec!["describe-target-groups"], "HTTP 8080/up"),
        (vec!["describe-target-health", "--target-group", "fw"], "Target.Timeout"),
        (vec!["describe-load-balancer-attributes", "--load-balancer", "gw"], "deletion_protection.enabled"),
        (vec!["describe-listener-attributes", "--listener-arn", "gw"], "tcp.idle_timeout.seconds"),
        (vec!["describe-target-group-attributes", "--target-group", "fw"], "detected within 10 s"),
        (
            vec!["describe-flows", "--protocol", "tcp", "--limit", "2"],
            "2 of 200 matching flows shown; the node has 250.",
        ),
        (vec!["get-counters"], "dropped: cookie_stale"),
        (vec!["describe-endpoints"], "left right"),
        (vec!["describe-workers"], "1048576"),
        (vec!["describe-ports"], "net_af_packet0"),
        (vec!["report"], "0.702 ms"),
        (vec!["report", "5"], "the record ends: the target is gone, and has no flow left"),
        (vec!["report", "--last"], "last returned packet to first reset"),
        (vec!["report", "--cause", "deregistration"], "old/10.0.0.1"),
        (vec!["debug-advance-clock", "1000"], "2026-11-29 20:47:38.007"),
    ] {
        let table = shown(&daemon, &arguments);
        assert!(table.contains(expected), "{arguments:?} does not show {expected}:\n{table}");
    }
    assert!(!shown(&daemon, &["get-counters"]).contains("RejectedFlowCount"), "zeros are left out");
    assert!(shown(&daemon, &["get-counters", "--all"]).contains("RejectedFlowCount"));
}

#[test]
fn changes_are_made_with_the_flags_of_aws() {
    let daemon = Daemon::start();
    let set = [
        "modify-target-group-attributes",
        "--target-group-arn",
        "fw",
        "--attributes",
        "Key=send_tcp_reset.on_unhealthy.enabled,Value=true",
        "Key=deregistration_delay.timeout_seconds,Value=30",
        "--json",
    ];
    let result: Value = serde_json::from_str(&shown(&daemon, &set)).unwrap();
    assert_eq!(result["Generation"], 1);
    let text = result.to_string();
    assert!(text.contains(r#"{"Key":"deregistration_delay.timeout_seconds","Value":"30"}"#), "{text}");
    let register =
        ["register-targets", "--target-group", "fw", "--targets", "Id=10.0.0.8,Weight=2", "10.0.0.9"];
    let table = shown(&daemon, &register);
    assert!(table.contains("10.0.0.8  registered") && table.contains("10.0.0.9  registered"), "{table}");
    assert!(shown(&daemon, &register).starts_with("Nothing changed"));
    let leave = ["deregister-targets", "--target-group", "fw", "--targets", "Id=10.0.0.8"];
    assert!(shown(&daemon, &leave).contains("10.0.0.8  draining"));
    for (verb, flag) in
        [("modify-listener-attributes", "--listener"), ("modify-load-balancer-attributes", "--load-balancer")]
    {
        let key =
            if flag == "--listener" { "tcp.idle_timeout.seconds" } else { "deletion_protection.enabled" };
        let value = if flag == "--listener" { "60" } else { "true" };
        let table = shown(&daemon, &[verb, flag, "gw", "--attributes", &format!("Key={key},Value={value}")]);
        let row = table.lines().find(|line| line.starts_with(key)).unwrap();
        assert_eq!(row.split_whitespace().last(), Some(value));
    }
}

#[test]
fn objects_are_created_changed_and_deleted_with_the_flags_of_aws_a9() {
    let daemon = Daemon::start();
    for (arguments, expected) in [
        (
            vec![
                "create-target-group",
                "--name",
                "web",
                "--protocol",
                "GENEVE",
                "--port",
                "6081",
                "--health-check-protocol",
                "HTTPS",
                "--health-check-port",
                "8443",
                "--health-check-path",
                "/up",
                "--matcher",
                "HttpCode=200,301-302",
            ],
            "HTTPS 8443/up",
        ),
        (
            vec![
                "create-load-balancer",
                "--name",
                "branch",
                "--type",
                "gateway",
                "--ip-address-type",
                "dualstack",
            ],
            "dualstack",
        ),
        (
            vec![
                "create-listener",
                "--load-balancer-arn",
                "branch",
                "--default-actions",
                "Type=forward,TargetGroupArn=web",
            ],
            "branch       forward  web",
        ),
        (
            vec!["modify-listener", "--listener-arn", "branch", "--default-actions", "TargetGroupArn=spare"],
            "spare",
        ),
        (
            vec!["modify-target-group", "--target-group", "web", "--health-check-interval-seconds", "20"],
            "20 s",
        ),
        (vec!["delete-target-group", "--target-group-arn", "web"], "The configuration's generation is 6."),
        (vec!["delete-listener", "--listener", "branch"], "generation is 7."),
        (vec!["delete-load-balancer", "--load-balancer", "branch"], "generation is 8."),
    ] {
        let table = shown(&daemon, &arguments);
        assert!(table.contains(expected), "{arguments:?} does not show {expected}:\n{table}");
    }
    let (code, said) = refused(&daemon.path(), &["delete-target-group", "--target-group", "fw"]);
    assert_eq!(code, 1);
    assert!(
        said.ends_with("is currently in use by a listener or a rule (ResourceInUse at TargetGroupArn)\n"),
        "{said}"
    );
}

#[test]
fn a_refusal_is_one_sentence_and_exit_code_1() {
    let daemon = Daemon::start();
    let (code, said) = refused(&daemon.path(), &["targets", "fww"]);
    assert_eq!(code, 1);
    assert_eq!(
        said,
        "flowgate: Target group 'fww' not found (TargetGroupNotFound at TargetGroupArn); \
         did you mean fw?\n"
    );
}

#[test]
fn a_command_line_that_cannot_be_read_is_exit_code_2() {
    let daemon = Daemon::start();
    for arguments in [
        vec!["describe-target-helth"],
        vec!["describe-target-health"],
        vec!["register-targets", "--target-group", "fw", "--targets", "Id=fw1"],
        vec!["describe-flows", "--limit", "0"],
        vec!["modify-listener-attributes", "--listener", "gw", "--attributes", "a=b"],
    ] {
        assert_eq!(refused(&daemon.path(), &arguments).0, 2, "{arguments:?}");
    }
    let (_, said) = refused(&daemon.path(), &["describe-target-helth"]);
    assert!(said.contains("describe-target-health"), "the nearest right word is named: {said}");
}

#[test]
fn a_socket_that_is_missing_dead_or_somebody_elses_says_what_to_do() {
    let mut daemon = Daemon::start();
    let path = daemon.path();
    daemon.stop();
    let (code, said) = refused(&path, &["targets"]);
    assert_eq!(code, 3);
    assert!(said.ends_with("start flowgated, or name its socket with --socket\n"), "{said}");

    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (code, said) = refused(&path, &["targets"]);
    assert_eq!(code, 3);
    assert!(said.contains("the daemon that made it is gone"), "{said}");

    let other = daemon.folder().join("other.sock");
    let listener = std::os::unix::net::UnixListener::bind(&other).unwrap();
    let thread = std::thread::spawn(move || {
        use std::io::Write;
        listener.accept().unwrap().0.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let (code, said) = refused(&other, &["targets"]);
    thread.join().unwrap();
    assert_eq!(code, 3);
    assert!(said.contains("is no flowgate daemon"), "{said}");
}

#[test]
fn a_change_that_is_not_answered_may_still_be_made_and_a_question_is_just_not_answered() {
    use std::io::{BufRead, BufReader, Write};
    let hello = r#"{"jsonrpc": "2.0", "method": "hello", "params": {"Product": "flowgate", "Version": "1", "Protocol": {"Major": 1, "Minor": 0}, "Generation": 0, "MaxLine": 1000}}"#;
    for (words, expected, sentence) in [
        (
            &["delete-listener", "--listener-arn", "gw"][..],
            9,
            "the change may still be made: see flowgate history",
        ),
        (&["rpc", "delete-listener", r#"{"ListenerArn": "gw"}"#], 9, "the change may still be made"),
        (
            &["delete-listener", "--listener-arn", "gw", "--dry-run"],
            3,
            "closed the connection: look at its log\n",
        ),
        (&["describe-listeners"], 3, "closed the connection: look at its log\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flowgated.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // It goes once it has heard what is wanted.
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            writeln!(stream, "{hello}").unwrap();
            BufReader::new(stream).read_line(&mut String::new()).unwrap();
        });
        let (code, said) = refused(&path, words);
        thread.join().unwrap();
        assert_eq!(code, expected, "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
    }
}

#[test]
fn a_socket_that_may_not_be_opened_says_who_may() {
    use std::fs::{Permissions, copy, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let daemon = Daemon::start();
    // The folder of the daemon is its owner's alone; root is nobody for this.
    let open = tempfile::tempdir().unwrap();
    set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    let program = open.path().join("flowgate");
    copy(env!("CARGO_BIN_EXE_flowgate"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(["targets", "--socket"]).arg(daemon.path());
    if nix::unistd::geteuid().is_root() {
        command.uid(65534).gid(65534);
    } else {
        set_permissions(daemon.path(), Permissions::from_mode(0o000)).unwrap();
    }
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(3));
    let said = String::from_utf8(stderr).unwrap();
    assert!(said.starts_with("flowgate: permission denied on /"), "{said}");
    assert!(said.ends_with(": become root, or a member of the socket's group\n"), "{said}");
}

#[test]
fn subscribe_prints_a_line_an_event_as_it_happens_and_ends_with_its_reader() {
    let daemon = Daemon::start();
    for (arguments, first, then) in [
        (
            vec!["subscribe"],
            "20:47:37.007  state   fw/10.0.0.1 is healthy, 125 flows",
            "00:00:01.005  config  generation 5",
        ),
        (
            vec!["subscribe", "--json", "--events", "config"],
            "{\"At\":{\"Rfc3339\":\"2026-11-29T20:47:37.007Z\",\"UnixMs\":1795985257007},\"EventsSoFar\":{\"Config\":",
            "{\"At\":{\"Rfc3339\":\"1970-01-01T00:00:01.005Z\",\"UnixMs\":1005},\"Event\":\"ConfigChanged\",\"Generation\":5}",
        ),
    ] {
        let mut child = command(&daemon.path(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with(first), "{line}");
        let event =
            || Event { at: Timestamp::from_unix_ms(1005), what: What::ConfigChanged { generation: 5 } };
        daemon.happen(vec![event()]);
        let line =
            lines.find(|line| line.as_ref().unwrap().contains('5') && line.as_ref().unwrap().contains(then));
        assert!(line.is_some(), "{then} did not come");
        // The reader goes; the next event finds it gone. Not always the very next: a child that another
        // test is about to start has that end of the pipe too, until it runs.
        drop(lines);
        let began = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < std::time::Duration::from_secs(20), "it goes on without a reader");
            daemon.happen(vec![event()]);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        assert!(stderr.is_empty());
    }
}

#[test]
fn a_subscriber_whose_daemon_goes_comes_back_and_says_what_it_missed() {
    let config =
        |generation| Event { at: Timestamp::from_unix_ms(1000), what: What::ConfigChanged { generation } };
    let mut daemon = Daemon::start();
    let mut child = command(&daemon.path(), &["subscribe", "--json", "--events", "config"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["EventsSoFar"]["Config"], 0);
    daemon.happen(vec![config(1), config(2)]);
    assert_eq!([next()["Generation"].clone(), next()["Generation"].clone()], [1, 2]);
    // The control core goes, and another one of the same process comes, which nobody hears at first.
    daemon.stop();
    let gone = next();
    assert_eq!(gone["Gone"]["Why"], "the daemon closed the connection: look at its log");
    let another =
        || Event { at: Timestamp::from_unix_ms(1000), what: What::PortUp { port: "left".to_owned() } };
    for event in [config(3), another(), config(4)] {
        daemon.told_unheard(&event);
    }
    daemon.start_again(false);
    let back = next();
    assert_eq!((&back["Back"]["Missed"], &back["Back"]["SameDaemon"]), (&2.into(), &true.into()), "{back}");
    assert!(back["Back"]["AwayMs"].as_u64().is_some(), "{back}");
    // How things stand, and it goes on.
    assert_eq!(next()["EventsSoFar"]["Config"], 4);
    daemon.happen(vec![config(5)]);
    assert_eq!(next()["Generation"], 5);
    // The daemon goes, and comes back as another.
    daemon.stop();
    assert!(next()["Gone"].is_object());
    daemon.start_again(true);
    let back = next();
    assert_eq!((&back["Back"]["Missed"], &back["Back"]["SameDaemon"]), (&0.into(), &false.into()), "{back}");
    assert_eq!(next()["EventsSoFar"]["Config"], 0);
    // The daemon goes, and then the reader: there is nobody to come back for.
    daemon.stop();
    assert!(next()["Gone"].is_object());
    drop(lines);
    let began = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "it goes on without a reader");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_subscriber_that_is_not_to_come_back_ends_with_its_daemon() {
    let mut daemon = Daemon::start();
    let mut child = command(&daemon.path(), &["subscribe", "--no-reconnect"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    daemon.stop();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(3));
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(said, "flowgate: the daemon closed the connection: look at its log\n");
}

#[test]
fn an_interrupted_subscriber_leaves_quietly() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let daemon = Daemon::start();
    // Also where whoever runs the tests ignores the signal, as a shell has its background jobs do.
    let mut child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_flowgate"), "--socket"])
        .arg(daemon.path())
        .arg("subscribe")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let Output { stderr, .. } = child.wait_with_output().unwrap();
    assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
}

#[test]
fn the_workers_are_seen_at_a_glance_between_two_readings() {
    let daemon = Daemon::start();
    let table = shown(&daemon, &["workers", "--interval", "100ms"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["0", "1", "2.50M", "200", "20.0", "20", "75.0", "1.00k", "500k", "0.0", "-"]);
    assert!(table.contains("1.50M by hash, 1.00M by cookie, 0 without state"), "{table}");
    let two_seconds = shown(&daemon, &["workers", "--interval", "1.2s"]);
    assert!(two_seconds.lines().nth(1).unwrap().ends_with("17.5 µs"), "{two_seconds}");
    let json: Value =
        serde_json::from_str(&shown(&daemon, &["workers", "--interval", "100ms", "--json"])).unwrap();
    assert_eq!((&json[0]["CyclesPerPacket"], json[0]["TablePercent"].is_f64()), (&200.0.into(), true));
    let table = shown(&daemon, &["describe-workers", "--window", "60"]);
    assert!(table.contains("transparent") && table.contains("17.5 µs"), "{table}");
    for arguments in [["workers", "--interval", "61s"], ["describe-workers", "--window", "0"]] {
        assert_eq!(refused(&daemon.path(), &arguments).0, 2);
    }
}
