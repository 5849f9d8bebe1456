//! The daemon's log and flow logs, of a real daemon in front of real connections.

use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::gateway::Attributes;
use crate::lab::traffic::{exchange, must_be_reset};
use crate::lab::{Family, Lab, Side, wait_for};

const RESETS: Attributes<'_> =
    Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };

/// The daemon's log lines of an event.
fn logged(lab: &Lab, event: &str) -> Vec<Value> {
    let text = lab.gateway().process.printed();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let all = lines
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    all.filter(|line| line["event"] == event).collect()
}

/// Waits until a line of an event that fits is in the log: a thread of its own writes it there.
fn wait_for_line(lab: &Lab, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
    wait_for(&format!("a line of {event}"), Duration::from_secs(10), || {
        logged(lab, event).into_iter().find(|line| fits(line))
    })
}

/// Starts a flow log, and comes back when workers count.
fn start(lab: &Lab, params: Value) {
    let rpc = &lab.gateway().rpc;
    rpc.must("start-flow-log", params);
    wait_for("the flow log", Duration::from_secs(10), || {
        (rpc.must("describe-flow-log", json!({}))["State"] == "on").then_some(())
    });
}

/// Ends it, and comes back when all is written.
fn stop(lab: &Lab) -> Value {
    let rpc = &lab.gateway().rpc;
    rpc.must("stop-flow-log", json!({}));
    wait_for("the end of the flow log", Duration::from_secs(10), || {
        let view = rpc.must("describe-flow-log", json!({}));
        (view["State"] == "off").then_some(view)
    })
}

// R-1, R-8
#[test]
fn a_failover_is_in_the_flow_log_and_in_the_daemons_log_with_its_ids() {
    let mut lab = Lab::started(2, RESETS);
    assert_eq!(wait_for_line(&lab, "ready", |_| true)["level"], "info");
    start(&lab, json!({"File": "flows.jsonl"}));
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 100_000);
    connection.settle();
    let dead = lab.appliance_of(&connection);
    lab.kill_reflector(dead);
    let address = lab.appliances[dead].address;
    lab.gateway().events.state_of(address, "unhealthy");
    connection.client.write_all(b"into the void").expect("the kernel takes it");
    must_be_reset(&mut connection.client);
    let mut kept = lab.connect(Family::V6);
    exchange(&mut kept, 10_000);
    kept.settle();
    let view = stop(&lab);

    let path = view["To"].as_str().expect("a path");
    let text = std::fs::read_to_string(path).expect("records");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((view["Written"].as_u64(), view["Lost"].as_u64()), (Some(records.len() as u64), Some(0)));
    let of = |address: std::net::SocketAddr| {
        let fits = |record: &&Value| {
            record["Source"] == json!(address.ip()) && record["SourcePort"] == address.port()
        };
        records.iter().find(fits).unwrap_or_else(|| panic!("no record of {address} in {text}"))
    };
    let reset = of(connection.address(Side::Client));
    assert_eq!((&reset["Reason"], &reset["Target"]), (&"reset-unhealthy".into(), &json!(address)));
    assert!(
        reset["ForwardBytes"].as_u64() > Some(100_000)
            && reset["ReturnedForwardBytes"].as_u64() > Some(100_000)
    );
    assert_eq!((&reset["Protocol"], &reset["Whole"]), (&"tcp".into(), &true.into()));
    assert_eq!(reset["Cookie"].as_str().map(str::len), Some(8));
    let live = of(kept.address(Side::Client));
    assert_eq!(live["Reason"], "log-over");

    let fell = wait_for_line(&lab, "target_health_changed", |line| {
        line["target"] == json!(address) && line["to"] == "unhealthy"
    });
    assert!(
        ["load_balancer", "target_group", "generation", "reason"].iter().all(|id| !fell[id].is_null()),
        "{fell}"
    );
    wait_for_line(&lab, "flows_reset", |line| line["target"] == json!(address));
    wait_for_line(&lab, "flow_log_over", |line| line["written"] == records.len());

    // More is logged while it runs, and then no more.
    let rpc = &lab.gateway().rpc;
    rpc.must("set-log-level", json!({"Filter": "error"}));
    rpc.must("set-log-level", json!({"Filter": "debug", "Seconds": 1}));
    wait_for_line(&lab, "log_level_reverted", |_| true);
    assert_eq!(logged(&lab, "log_level_changed").len(), 1, "only what is seen at the new level");
}

#[test]
fn a_daemon_that_stops_writes_what_it_has_counted_and_tshark_reads_its_ipfix() {
    let mut lab = Lab::started(1, Attributes { target_group: &[], listener: &[] });
    // Loopback is another in each namespace.
    let collector = lab.router.run(|| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    collector.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let address = collector.local_addr().expect("an address");
    start(&lab, json!({"Ipfix": address.to_string()}));
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 50_000);
    connection.settle();
    lab.stop_gateway();
    let mut messages = Vec::new();
    let mut buffer = [0; 2000];
    while let Ok(len) = collector.recv(&mut buffer) {
        messages.push(buffer[..len].to_vec());
    }
    let read =
        tshark(&lab, &messages, &["cflow.srcaddr", "cflow.srcport", "cflow.flow_end_reason", "cflow.octets"]);
    let client = connection.address(Side::Client);
    let mine = read.iter().find(|fields| fields[0].contains(&client.ip().to_string()));
    let mine = mine.unwrap_or_else(|| panic!("{read:?}"));
    assert!(mine[1].contains(&client.port().to_string()), "{mine:?}");
    assert!(mine[2].split(',').any(|reason| reason == "4"), "{mine:?}");
}

/// What tshark says of each message's fields.
fn tshark(lab: &Lab, messages: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let text: String = messages
        .iter()
        .map(|message| {
            let lines = message.chunks(16).enumerate().map(|(n, bytes)| {
                let bytes: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
                format!("{:06x}{bytes}\n", n * 16)
            });
            lines.collect::<String>() + "\n"
        })
        .collect();
    let (hex, pcap) = (lab.path("ipfix.txt"), lab.path("ipfix.pcap"));
    std::fs::write(&hex, text).expect("written");
    let made = Command::new("text2pcap").args(["-q", "-u", "40000,4739"]).arg(&hex).arg(&pcap).status();
    assert!(made.expect("text2pcap runs").success());
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(&pcap).args([
        "-d",
        "udp.port==4739,cflow",
        "-T",
        "fields",
        "-E",
        "separator=;",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect()
}
