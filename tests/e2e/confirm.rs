//! Changes that live flows would feel: told before they are made, asked about on a terminal, and then as they were told.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, LOAD_BALANCER, TARGET_GROUP};
use crate::lab::traffic::{PATIENCE, exchange, must_be_reset};
use crate::lab::{Family, Lab, Side, wait_for};

const RESETS_AT_ONCE: Attributes<'_> = Attributes {
    target_group: &[
        ("send_tcp_reset.on_deregistration.enabled", "true"),
        ("deregistration_delay.timeout_seconds", "0"),
    ],
    listener: &[],
};

/// Runs `flowgate` on a terminal of its own, answers its question, and returns its exit code and what was on the screen.
fn on_a_terminal(lab: &Lab, arguments: &[&str], answer: &str) -> (i32, String) {
    let size = Winsize { ws_row: 25, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("the kernel has terminals");
    let another = || Stdio::from(pty.slave.try_clone().expect("it can be opened twice"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_flowgate"))
        .arg("--socket")
        .arg(lab.path("flowgated.sock"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("TERM", "xterm-256color")
        .stdin(another())
        .stdout(another())
        .stderr(another())
        .spawn()
        .expect("it is built");
    // With the command's the last of these ends goes, and reading ends.
    drop(pty.slave);
    let mut terminal = File::from(pty.master);
    let (mut screen, mut answered) = (String::new(), false);
    let begun = Instant::now();
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if !answered && screen.contains("Go on? [y/N]") {
            terminal.write_all(answer.as_bytes()).expect("the terminal takes it");
            answered = true;
        }
        assert!(begun.elapsed() < PATIENCE, "{screen}");
    }
    let status = child.wait().expect("a child can be waited for");
    assert!(answered, "nothing was asked: {screen}");
    (status.code().expect("it ended by itself"), screen)
}

// R-2, T-4
#[test]
fn a_change_that_would_reset_live_flows_is_made_only_if_it_is_wanted_and_then_does_what_was_told() {
    let lab = Lab::started(2, RESETS_AT_ONCE);
    let mut connections = [lab.connect(Family::V4), lab.connect(Family::V6)];
    for connection in &mut connections {
        exchange(connection, 10_000);
        connection.settle();
    }
    let target = lab.appliance_of(&connections[0]);
    let felt = connections.iter().filter(|one| lab.appliance_of(one) == target).count();
    let address = lab.appliances[target].address.to_string();
    let deregister = ["deregister-targets", "--target-group", TARGET_GROUP, "--targets", &address];
    let (code, screen) = on_a_terminal(&lab, &deregister, "n\n");
    assert_eq!(code, 5, "{screen}");
    let row = screen.lines().find(|line| line.contains(&address) && line.contains("reset"));
    let row: Vec<&str> =
        row.unwrap_or_else(|| panic!("no resets told: {screen}")).split_whitespace().collect();
    assert_eq!(row, [TARGET_GROUP, &address, &felt.to_string(), "reset"]);
    connections.iter_mut().for_each(|connection| connection.must_work());
    assert_eq!(lab.state_of(target).expect("it is registered").0, "healthy");
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), 0);

    let (code, screen) = on_a_terminal(&lab, &deregister, "y\n");
    assert_eq!(code, 0, "{screen}");
    wait_for("the drain to end", PATIENCE, || {
        lab.state_of(target).is_none_or(|state| state.0 == "unused").then_some(())
    });
    for connection in &mut connections {
        if lab.flow_between(connection.address(Side::Client), connection.address(Side::Server)).is_none() {
            continue;
        }
        if lab.appliance_of(connection) == target {
            let client = connection.end(Side::Client);
            client.write_all(b"is anybody there?").expect("the kernel takes it");
            must_be_reset(client);
        } else {
            connection.must_work();
        }
    }
    assert_eq!(lab.counted("TCP_ELB_Reset_Count"), u64::try_from(felt).expect("few"));
}

/// What setting a listener's attribute would do.
fn rehearsed(lab: &Lab, key: &str, value: &str) -> Value {
    let attributes = json!([{"Key": key, "Value": value}]);
    let params = json!({"ListenerArn": LOAD_BALANCER, "Attributes": attributes, "DryRun": true});
    lab.gateway().rpc.must("modify-listener-attributes", params)
}

// A-7, F-10
#[test]
fn flows_that_a_shorter_idle_timeout_ends_are_counted_by_the_workers() {
    let lab = Lab::started(1, Attributes::default());
    let mut silent = lab.connect(Family::V4);
    exchange(&mut silent, 1000);
    silent.settle();
    lab.advance_clock(Duration::from_secs(100));
    let mut fresh = lab.connect(Family::V4);
    exchange(&mut fresh, 1000);
    fresh.settle();
    for (seconds, flows) in [("60", 1), ("99", 1), ("200", 0), ("400", 0)] {
        let plan = rehearsed(&lab, "tcp.idle_timeout.seconds", seconds);
        assert_eq!(plan["FlowsTimedOut"], flows, "{seconds}: {plan}");
        assert!(
            plan["Effects"].as_array().expect("a list").iter().all(|one| one["AtMost"].is_null()),
            "{plan}"
        );
    }
    let attributes = json!([{"Key": "tcp.idle_timeout.seconds", "Value": "60"}]);
    let params = json!({"ListenerArn": LOAD_BALANCER, "Attributes": attributes});
    lab.gateway().rpc.must("modify-listener-attributes", params);
    fresh.must_work();
    let dropped = || lab.dropped("expired_flow");
    let before = dropped();
    silent.end(Side::Client).write_all(b"still there?").expect("the kernel takes it");
    wait_for("the packet of the silent flow to be dropped", PATIENCE, || (dropped() > before).then_some(()));
}
