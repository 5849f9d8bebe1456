//! The binary `flowgate` in daily work: short forms, waiting, completions and man pages.

use crate::client::Client;
use crate::command_line::{command, printed, refused, shown};
use crate::fake::Daemon;
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Lets the daemon's time jump ahead.
pub fn advance(daemon: &Daemon, seconds: u32) {
    let params = json!({"Milliseconds": seconds * 1000});
    Client::connect(&daemon.path()).call("debug-advance-clock", params).unwrap();
}

#[test]
fn a_target_is_drained_by_its_address_alone_and_waited_for_t3() {
    let daemon = Daemon::start();
    let table = shown(&daemon, &["drain", "10.0.0.2"]);
    assert!(table.contains("10.0.0.2  draining"), "{table}");
    let waiting = command(&daemon.path(), &["drain", "10.0.0.2", "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It waits as long as the delay runs, and no longer.
    let mut waiting = waiting;
    std::thread::sleep(Duration::from_millis(800));
    assert!(waiting.try_wait().unwrap().is_none(), "it did not wait");
    advance(&daemon, 299);
    std::thread::sleep(Duration::from_millis(400));
    assert!(waiting.try_wait().unwrap().is_none(), "it did not wait to the end");
    advance(&daemon, 1);
    let Output { status, stdout, stderr } = waiting.wait_with_output().unwrap();
    assert!(status.success());
    assert_eq!(String::from_utf8(stderr).unwrap(), "", "no bar without a terminal");
    assert!(String::from_utf8(stdout).unwrap().ends_with("10.0.0.2 is drained: it has no flows left.\n"));
}

#[test]
fn a_drain_that_is_called_off_is_waited_for_no_longer_t7() {
    let daemon = Daemon::start();
    let mut waiting = command(&daemon.path(), &["drain", "10.0.0.3", "--wait"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It drains once the command has come so far.
    let begun = Instant::now();
    while !shown(&daemon, &["targets"])
        .lines()
        .any(|row| row.contains("10.0.0.3") && row.contains("draining"))
    {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited for 10.0.0.3 to drain");
    }
    assert!(waiting.try_wait().unwrap().is_none());
    shown(&daemon, &["register-targets", "--target-group", "fw", "--targets", "10.0.0.3"]);
    let Output { status, stderr, .. } = waiting.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(1));
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(said, "flowgate: 10.0.0.3 drains no longer: it was registered again\n");
}

#[test]
fn a_target_that_is_nowhere_or_in_several_groups_is_not_drained() {
    let daemon = Daemon::start();
    shown(&daemon, &["register-targets", "--target-group", "spare", "--targets", "10.0.0.1"]);
    let (code, said) = refused(&daemon.path(), &["drain", "10.0.0.1"]);
    assert_eq!(code, 1);
    assert_eq!(said, "flowgate: 10.0.0.1 is a target of fw and of spare: say which with --target-group\n");
    let table = shown(&daemon, &["drain", "10.0.0.1", "--target-group", "spare"]);
    assert!(table.contains("10.0.0.1  draining"), "{table}");
    let (code, said) = refused(&daemon.path(), &["drain", "10.0.0.22"]);
    assert_eq!(code, 1);
    assert_eq!(said, "flowgate: no target group has the target 10.0.0.22; did you mean 10.0.0.2?\n");
}

#[test]
fn a_wait_ends_with_what_it_is_for_or_gives_up_with_exit_code_4() {
    let daemon = Daemon::start();
    let register = |target: &str| {
        let verb = ["register-targets", "--target-group", "spare", "--targets", target];
        command(&daemon.path(), &[&verb[..], &["--wait", "--timeout", "300ms"]].concat()).output().unwrap()
    };
    // The stand-in's targets are healthy if their addresses end in 1, and else are not.
    let healthy = register("10.0.0.1");
    assert_eq!(healthy.status.code(), Some(0));
    assert!(String::from_utf8(healthy.stdout).unwrap().ends_with("The target is healthy.\n"));
    let initial = register("10.0.0.9");
    assert_eq!(initial.status.code(), Some(4));
    let said = String::from_utf8(initial.stderr).unwrap();
    assert_eq!(
        said,
        "flowgate: gave up after 300ms: 0 of 1 healthy; 10.0.0.9 is initial (Elb.RegistrationInProgress)\n"
    );
    let wait = |what: &[&str]| {
        let arguments = [&["wait"], what, &["--timeout", "100ms"]].concat();
        let output = command(&daemon.path(), &arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let fw = ["target-in-service", "--target-group-arn", "fw"];
    assert_eq!(wait(&fw).0, 4, "not all of its targets are healthy");
    assert_eq!(
        wait(&[&fw[..], &["--targets", "Id=10.0.0.1"]].concat()),
        (0, "In service: 10.0.0.1.\n".into())
    );
    assert_eq!(wait(&["load-balancer-available", "--names", "gw"]), (0, "Active: gw.\n".into()));
    assert_eq!(wait(&["load-balancer-exists", "--names", "gw", "xx"]).0, 4);
    assert_eq!(wait(&["load-balancers-deleted", "--names", "xx"]), (0, "Deleted: xx.\n".into()));
    assert_eq!(wait(&["load-balancers-deleted", "--names", "xx", "gw"]).0, 4, "gw is there");
    let gone = ["target-deregistered", "--target-group-arn", "fw", "--targets", "Id=10.0.0.3"];
    assert_eq!(wait(&gone).0, 4, "it is registered");
    shown(&daemon, &["deregister-targets", "--target-group", "fw", "--targets", "10.0.0.3"]);
    assert_eq!(wait(&gone).0, 4, "it drains");
    advance(&daemon, 300);
    assert_eq!(wait(&gone), (0, "Deregistered: 10.0.0.3.\n".into()));
    let created = shown(&daemon, &["create-load-balancer", "--name", "branch", "--wait"]);
    assert!(created.ends_with("generation is 5.\n"), "{created}");
}

#[test]
fn attributes_are_set_by_the_name_of_their_object_alone() {
    let daemon = Daemon::start();
    for (arguments, row) in [
        (vec!["set", "gw", "deletion_protection.enabled=true"], "deletion_protection.enabled"),
        (vec!["set", "gw", "tcp.idle_timeout.seconds=60"], "tcp.idle_timeout.seconds"),
        (
            vec!["set", "fw", "stickiness.enabled=true", "deregistration_delay.timeout_seconds=30"],
            "stickiness.enabled",
        ),
    ] {
        let table = shown(&daemon, &arguments);
        let value = arguments[2].split('=').nth(1).unwrap();
        let row = table.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{table}"));
        assert_eq!(row.split_whitespace().last(), Some(value), "{table}");
    }
    for (arguments, said) in [
        (vec!["set", "fww", "a=b"], "there is no target group and no load balancer 'fww'; did you mean fw?"),
        (
            vec!["set", "fw", "send_tcp_reset.on_unhealthy=true"],
            "there is no attribute 'send_tcp_reset.on_unhealthy'; did you mean send_tcp_reset.on_unhealthy.enabled?",
        ),
        (
            vec!["set", "gw", "tcp.idle_timeout.seconds=60", "deletion_protection.enabled=false"],
            "some keys are the load balancer's and some its listener's: set them one after the other",
        ),
    ] {
        assert_eq!(refused(&daemon.path(), &arguments), (1, format!("flowgate: {said}\n")));
    }
    assert_eq!(refused(&daemon.path(), &["set", "fw", "stickiness.enabled"]).0, 2);
}

#[test]
fn the_daemon_names_the_nearest_key_too_and_whose_a_key_is() {
    let daemon = Daemon::start();
    let set = |attribute: &str| {
        let verb = ["modify-target-group-attributes", "--target-group", "fw", "--attributes", attribute];
        refused(&daemon.path(), &verb).1
    };
    let said = set("Key=stickyness.enabled,Value=true");
    assert!(said.ends_with("; did you mean stickiness.enabled?\n"), "{said}");
    let said = set("Key=tcp.idle_timeout.seconds,Value=60");
    assert!(said.ends_with("; it is an attribute of a listener\n"), "{said}");
}

#[test]
fn a_change_for_another_generation_is_not_made() {
    let daemon = Daemon::start();
    let set =
        |generation: &'static str| ["set", "fw", "stickiness.enabled=true", "--if-generation", generation];
    let (code, said) = refused(&daemon.path(), &set("7"));
    assert_eq!(code, 1);
    assert!(said.contains("GenerationConflict at IfGeneration"), "{said}");
    shown(&daemon, &set("0"));
    assert_eq!(refused(&daemon.path(), &set("0")).0, 1, "it is 1 by now");
}

#[test]
fn any_method_can_be_called_as_it_is() {
    let daemon = Daemon::start();
    let called = printed(&daemon, &["rpc", "describe-target-groups", r#"{"Names":["fw"]}"#]);
    let called: Value = serde_json::from_str(&called).unwrap();
    assert_eq!(called["TargetGroups"][0]["TargetGroupName"], "fw");
    let query = ["rpc", "describe-workers", "--query", "Workers[0].Core", "--output", "text"];
    assert_eq!(printed(&daemon, &query), "1\n");
    let (code, said) = refused(&daemon.path(), &["rpc", "describe-wrokers"]);
    assert_eq!(code, 1);
    assert!(said.contains("did you mean describe-workers?"), "{said}");
    let (code, said) = refused(&daemon.path(), &["rpc", "describe-workers", "[]"]);
    assert_eq!(code, 1);
    assert!(said.starts_with("flowgate: the parameters are no JSON object: "), "{said}");
}

#[test]
fn a_short_name_stands_for_a_verb() {
    let daemon = Daemon::start();
    let flows = shown(&daemon, &["flows", "--target", "10.0.0.1", "--limit", "1"]);
    assert!(flows.contains("1 of 125 matching flows shown; the node has 250."), "{flows}");
    assert!(shown(&daemon, &["counters"]).contains("ActiveFlowCount"));
}

#[test]
fn completions_and_man_pages_are_made_of_the_definitions_without_a_daemon() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_flowgate")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert!(script.contains("FLOWGATE_COMPLETE") && script.contains(shell), "{shell}: {script}");
    }
    let page = run(&["man"]);
    assert!(page.contains(".TH flowgate") && page.contains("Exit codes"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    run(&["man", "--dir", dir.to_str().unwrap()]);
    for page in
        ["flowgate.1", "flowgate-drain.1", "flowgate-register-targets.1", "flowgate-wait-target-in-service.1"]
    {
        let text = std::fs::read_to_string(dir.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(!dir.join("flowgate-debug-advance-clock.1").exists());
}

/// Bash itself, with the script loaded, completes verbs, flags, and what the daemon has.
#[test]
fn bash_completes_with_the_script() {
    let daemon = Daemon::start();
    let flowgate = std::path::Path::new(env!("CARGO_BIN_EXE_flowgate"));
    let script = Command::new(flowgate).args(["completions", "bash"]).output().unwrap();
    let ask = "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _clap_complete_flowgate flowgate \"${!#}\" x; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path =
        std::env::join_paths([flowgate.parent().unwrap(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let complete_at = |socket: &std::path::Path, words: &[&str]| -> Vec<String> {
        let program = format!("{}\n{ask}", String::from_utf8_lossy(&script.stdout));
        let mut bash = Command::new("bash");
        bash.args(["-c", &program, "bash", "flowgate"]).args(words);
        let output = bash.env("PATH", &path).env("FLOWGATE_SOCKET", socket).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let complete = |words: &[&str]| complete_at(&daemon.path(), words);
    assert_eq!(complete(&["describe-target-h"]), ["describe-target-health"]);
    assert!(complete(&["drain", "--ta"]).contains(&"--target-group".to_owned()));
    assert_eq!(complete(&["drain", "10.0.0.2"]), ["10.0.0.2"]);
    assert_eq!(complete(&["drain", ""])[..3], ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(complete(&["targets", ""])[..2], ["fw", "spare"]);
    assert_eq!(complete(&["delete-target-group", "--target-group", "s"]), ["spare"]);
    assert_eq!(complete(&["describe-listeners", "--load-balancer-arn", "g"]), ["gw"]);
    assert_eq!(complete(&["set", "fw", "stickiness."]), ["stickiness.enabled=", "stickiness.type="]);
    // Of the only key that it can be, the values that are words.
    assert_eq!(
        complete(&["set", "fw", "stickiness.e"]),
        ["stickiness.enabled=true", "stickiness.enabled=false"]
    );
    assert_eq!(
        complete(&["set", "fw", "stickiness.type=source_ip_dest_ip_"]),
        ["stickiness.type=source_ip_dest_ip_proto"]
    );
    assert_eq!(complete(&["set", "fw", "tcp.idle"]), ["tcp.idle_timeout.seconds="]);
    assert_eq!(complete(&["wait", "target-in-service", "--target-group", "f"]), ["fw"]);
    // A socket that the line names is the one that is asked; one where nobody is has no names.
    let nowhere = daemon.folder().join("nowhere");
    let named = daemon.path();
    let named = ["--socket", named.to_str().unwrap(), "targets", "f"];
    assert_eq!(complete_at(&nowhere, &named), ["fw"]);
    assert!(!complete_at(&nowhere, &["targets", "f"]).contains(&"fw".to_owned()));
}
