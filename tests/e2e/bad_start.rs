//! What a start that cannot succeed says and leaves: one sentence on standard error, exit code 1, and
//! nothing half-made.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use crate::lab::Lab;
use crate::lab::gateway::Attributes;

/// Runs the daemon to its end in the gateway's namespace, with its node file changed by `change`.
fn start(lab: &Lab, command: &mut Command, change: impl Fn(String) -> String, more: &[&str]) -> Output {
    let config = lab.path("changed.toml");
    std::fs::write(&config, change(lab.node_toml())).expect("the folder is writable");
    // A daemon that starts after all is ended, and that is another exit code.
    // What it logs besides is not what is asked about here.
    command
        .env("FLOWGATE_LOG", "error")
        .args(["timeout", "20", env!("CARGO_BIN_EXE_flowgated"), "--config"])
        .arg(&config)
        .args(more);
    command.output().expect("the daemon can be run")
}

/// It must have ended with 1, saying one sentence that has all of `words` in it.
fn must_refuse(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "one sentence, not: {said}");
    for word in words {
        assert!(said.contains(word), "'{word}' is missing from: {said}");
    }
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Neither socket nor state, nor anything of DPDK's.
fn must_have_left_nothing(lab: &Lab) {
    assert!(!lab.path("flowgated.sock").exists(), "a socket is left");
    // The file that daemons lock is no state, and taking it away would be a race with another start.
    let state = std::fs::read_dir(lab.path("state")).into_iter().flatten();
    let names: Vec<_> =
        state.map(|entry| entry.expect("readable").file_name()).filter(|name| name != "lock").collect();
    assert!(names.is_empty(), "a state is left: {names:?}");
    let runtime = Path::new("/var/run/dpdk").join(lab.router.name());
    assert!(!runtime.exists(), "{} is left", runtime.display());
}

fn lab() -> Lab {
    let lab = Lab::new(1);
    lab.write_configuration(Attributes::default());
    lab
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    let lab = lab();
    let change = |toml: String| toml.replace("iface=right,", "iface=nosuch0,");
    let output = start(&lab, &mut lab.router.command("env"), change, &[]);
    must_refuse(&output, &["net_af_packet1", "interface exists", "No such device"]);
    must_have_left_nothing(&lab);
}

#[test]
fn a_port_that_is_down_is_named() {
    let lab = lab();
    lab.router.ip("link set right down");
    let output = start(&lab, &mut lab.router.command("env"), |toml| toml, &[]);
    must_refuse(&output, &["right", "down"]);
    must_have_left_nothing(&lab);
}

#[test]
fn without_the_right_to_open_packet_sockets_it_says_which_is_missing() {
    let lab = lab();
    let mut command = lab.router.command("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
    let output = start(&lab, &mut command, |toml| toml, &[]);
    must_refuse(&output, &["CAP_NET_RAW"]);
    must_have_left_nothing(&lab);
}

#[test]
fn hugepages_that_are_asked_for_and_not_there_are_named() {
    let lab = lab();
    let free = std::fs::read_to_string("/proc/meminfo").expect("Linux has it");
    let none = free.lines().any(|line| line.starts_with("HugePages_Free:") && line.ends_with(" 0"));
    // With pages to be had, as many are asked for as no machine that runs tests has.
    let memory = if none { 64 } else { 1_048_576 };
    let change = |toml: String| {
        toml.replace("hugepages = \"never\"", &format!("hugepages = \"always\"\nmemory_mb = {memory}"))
    };
    let output = start(&lab, &mut lab.router.command("env"), change, &[]);
    must_refuse(&output, &["hugepages"]);
    must_have_left_nothing(&lab);
}

#[test]
fn a_second_daemon_on_one_socket_gives_way_and_the_first_serves_on() {
    let lab = Lab::started(1, Attributes::default());
    let output = start(&lab, &mut lab.router.command("env"), |toml| toml, &[]);
    must_refuse(&output, &["another daemon", "state"]);
    let elsewhere = |toml: String| toml.replace("/state\"", "/other-state\"");
    let output = start(&lab, &mut lab.router.command("env"), elsewhere, &[]);
    must_refuse(&output, &["flowgated.sock"]);
    assert!(lab.gateway().rpc.answers());
    lab.connect(crate::lab::Family::V4).must_work();
}

#[test]
fn a_socket_that_a_dead_daemon_left_is_no_hindrance() {
    let mut lab = Lab::started(1, Attributes::default());
    lab.kill_gateway();
    assert!(lab.path("flowgated.sock").exists(), "killed daemons leave theirs");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    lab.connect(crate::lab::Family::V4).must_work();
}

#[test]
fn what_is_wrong_with_the_node_file_is_told_with_its_place_before_anything_is_made() {
    // Each: what is changed into what, and the words that must be in the refusal.
    let faults: [(&str, &str, &[&str]); 7] = [
        ("[eal]", "[eal", &["changed.toml", "line"]),
        ("flows = 16384", "flows = 16384\ncolour = \"red\"", &["workers", "colour"]),
        ("flows = 16384", "flows = \"many\"", &["workers.flows", "many"]),
        ("flows = 16384", "flows = 12", &["workers.flows", "12", "1024"]),
        ("ports = [\"left\", \"right\"]", "ports = [\"left\", \"left\"]", &["endpoints[0].ports[1]", "left"]),
        (
            "ports = [\"left\", \"right\"]",
            "ports = [\"left\", \"write\"]",
            &["endpoints[0].ports[1]", "write"],
        ),
        (
            "load_balancer = \"inspection\"",
            "load_balancer = \"nobody\"",
            &["load_balancer", "nobody", "inspection"],
        ),
    ];
    let lab = lab();
    for (from, to, words) in faults {
        assert!(lab.node_toml().contains(from), "{from}");
        for more in [&[][..], &["--check"]] {
            let output = start(&lab, &mut lab.router.command("env"), |toml| toml.replacen(from, to, 1), more);
            must_refuse(&output, words);
            must_have_left_nothing(&lab);
        }
    }
    let output = start(&lab, &mut lab.router.command("env"), |toml| toml, &["--check"]);
    assert!(output.status.success(), "as it is, it is right: {}", String::from_utf8_lossy(&output.stderr));
    must_have_left_nothing(&lab);
}

#[test]
fn what_is_wrong_with_the_objects_is_told_with_its_place_before_anything_is_made() {
    let lab = lab();
    let right = lab.objects(Attributes::default());
    let change = |pointer: &str, value| {
        let mut objects = right.clone();
        *objects.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer} in {right}")) = value;
        objects.to_string()
    };
    let faults: [(String, &[&str]); 6] = [
        ("{ not json".to_owned(), &["objects.json", "line 1"]),
        (
            change("/target_groups/0/targets/0/address", json!("everywhere")),
            &["target_groups[0].targets[0].address", "everywhere"],
        ),
        (
            change("/target_groups/0/health_check/unhealthy_threshold", json!(11)),
            &["target_groups[0].health_check", "11"],
        ),
        (
            change("/load_balancers/0/listener/target_group", json!("nowhere")),
            &["load_balancers[0].listener.target_group", "nowhere"],
        ),
        (
            change("/target_groups/0/attributes", json!({"send_tcp_reset.on_unhealthy.enabled": "maybe"})),
            &["target_groups[0].attributes", "maybe", "[true, false]"],
        ),
        (
            change("/load_balancers/0/listener/attributes", json!({"tcp.idle_timeout.seconds": 59})),
            &["load_balancers[0].listener.attributes", "59", "60-6000"],
        ),
    ];
    for (objects, words) in faults {
        std::fs::write(lab.path("objects.json"), objects).expect("the folder is writable");
        for more in [&[][..], &["--check"]] {
            must_refuse(&start(&lab, &mut lab.router.command("env"), |toml| toml, more), words);
            must_have_left_nothing(&lab);
        }
    }
}
