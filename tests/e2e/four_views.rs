//! The four views of a failover: `flowgate report`, `flowgate top`, what the web page draws, and a Prometheus. Of an
//! appliance that was killed under load each says which target it was, since when, how many flows were reset, and how
//! long each phase took; they say the same, and what the kernels at both ends saw.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::capture::{Capture, RST};
use crate::lab::gateway::{Attributes, LOAD_BALANCER, TARGET_GROUP};
use crate::lab::prometheus::{PATIENCE, Prometheus};
use crate::lab::tmux::{Tmux, unbroken};
use crate::lab::traffic::{kill_under_load, must_be_reset};
use crate::lab::{ETH, Family, Lab, PAUSE, Side, now, wait_for};

/// Both ends are told, so that there are more resets than flows.
const BOTH_ENDS: Attributes<'_> = Attributes {
    target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true"), ("flowgate.reset.both_ends", "true")],
    listener: &[],
};

/// What the times that two threads of this machine tell of one thing may differ by.
const SOON: Duration = PAUSE;

const CONNECTIONS: usize = 24;

/// What has to be found in every view.
struct Expected {
    target: Ipv4Addr,
    flows: u64,
    resets: u64,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

/// `DecisionToApplied` as Prometheus has it: `decision_to_applied`.
fn snake_case(name: &str) -> String {
    let letters = name.char_indices().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("_{}", letter.to_ascii_lowercase()),
        letter => letter.to_ascii_lowercase().to_string(),
    });
    letters.collect()
}

/// What `flowgate report` prints.
fn report(lab: &Lab, arguments: &[&str]) -> String {
    flowgate(lab, &[&["report"], arguments].concat())
}

/// What `flowgate` prints.
fn flowgate(lab: &Lab, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command.env("TZ", "UTC").env("COLUMNS", "200").arg("--socket").arg(lab.path("flowgated.sock"));
    let output = command.args(arguments).output().expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What the page is given at `path`.
fn page(lab: &Lab, path: &str) -> Value {
    let url = format!("http://127.0.0.1:6082{path}");
    let output = lab.router.command("curl").args(["-s", "-f", &url]).output().expect("curl is installed");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Reads all four and holds them to each other, and to what is expected. The record.
fn agree(lab: &Lab, prometheus: &Prometheus, top: &Tmux, expected: &Expected) -> Value {
    let Expected { target, flows, resets } = expected;
    // The report.
    let told: Value = serde_json::from_str(&report(lab, &["--last", "--output", "json"])).expect("JSON");
    let record = &told["Failovers"][0];
    assert_eq!((&record["Target"], &record["TargetGroup"]), (&json!(target), &json!(TARGET_GROUP)));
    assert_eq!((number(&record["Flows"]["Reset"]), number(&record["Resets"]["Total"])), (*flows, *resets));
    let decided = number(&record["Decided"]["UnixMs"]);
    let took = record["DurationsMicroseconds"].as_object().expect("phases");

    // What the page draws: the same record, and the target's own counters.
    let drawn = page(lab, "/api/failovers");
    // Of a record that goes on, its numbers were read anew meanwhile.
    let but_for_the_time = |record: &Value| {
        let mut record = record.clone();
        record["AsOf"].take();
        record
    };
    assert_eq!(but_for_the_time(&drawn["Failovers"][0]), but_for_the_time(record));
    let overview = page(lab, "/api/overview");
    let targets = overview["TargetGroups"][0]["Targets"].as_array().expect("targets");
    let shown = targets.iter().find(|one| one["Address"] == json!(target)).expect("it is shown");
    let of_target = shown["Traffic"]["Resets"].as_object().expect("by trigger").values().map(number);
    assert_eq!(of_target.sum::<u64>(), *resets);
    assert_eq!(
        (number(&shown["Traffic"]["ResetFlows"]), number(&shown["ResetFlowsLastMinute"])),
        (*flows, *flows)
    );
    assert_eq!(shown.get("OpenFailover"), record.get("Ended").is_none().then_some(&record["Id"]));
    // What is wrong is judged once: the page is told what `flowgate status` says.
    let status = unbroken(&flowgate(lab, &["status"]));
    let state = shown["State"].as_str().expect("a state");
    let troubles = overview["Troubles"].as_array().expect("a list");
    let key = format!("{TARGET_GROUP}/{target}");
    let of_it = troubles.iter().find(|one| one["Kind"] == "target-unhealthy");
    assert_eq!(of_it.is_some(), state == "unhealthy", "{troubles:?}");
    if let Some(trouble) = of_it {
        assert_eq!((&trouble["Objects"], &trouble["Since"]), (&json!([key]), &shown["Since"]));
        let what = trouble["What"].as_str().expect("a sentence");
        assert!(status.contains(&format!("critical: {what}. [target-unhealthy]")), "{what}: {status}");
        let figures = trouble["Figures"].as_str().expect("figures");
        let reset = format!(", {} reset in the last minute", crate::lab::flows(*flows));
        assert!(figures.ends_with(&reset), "{figures}");
        assert!(status.contains(figures), "{figures}: {status}");
    }

    // Prometheus, by a scrape of after all was at rest.
    let labels = format!(
        "load_balancer=\"{LOAD_BALANCER}\",target_group=\"{TARGET_GROUP}\",target=\"{target}\",cause=\"unhealthy\""
    );
    let rest = now().as_secs_f64();
    wait_for("another scrape", PATIENCE, || {
        let at = prometheus.number(&format!("timestamp(flowgate_target_failover_id{{{labels}}})"))?;
        (at > rest).then_some(())
    });
    let phases = prometheus.series(&format!("flowgate_target_failover_phase_seconds{{{labels}}}"));
    assert_eq!(phases.len(), took.len(), "{phases:?} and {took:?}");
    let mut asked = vec![
        (format!("flowgate_target_failover_id{{{labels}}}"), float(number(&record["Id"]))),
        (format!("flowgate_target_failover_timestamp_seconds{{{labels}}}"), float(decided) / 1000.0),
        (
            format!("flowgate_target_failover_open{{{labels}}}"),
            float(u64::from(record.get("Ended").is_none())),
        ),
        (format!("flowgate_target_failover_tcp_resets{{{labels}}}"), float(*resets)),
        (format!("sum(flowgate_target_tcp_resets_total{{target=\"{target}\"}})"), float(*resets)),
        (format!("flowgate_target_reset_flows_total{{target=\"{target}\"}}"), float(*flows)),
        (
            format!("flowgate_target_health_since_timestamp_seconds{{target=\"{target}\"}}"),
            float(number(&shown["Since"]["UnixMs"])) / 1000.0,
        ),
    ];
    asked.extend(["Reset", "Moved", "Ended", "Left"].map(|outcome| {
        let series =
            format!("flowgate_target_failover_flows{{{labels},outcome=\"{}\"}}", snake_case(outcome));
        (series, float(number(&record["Flows"][outcome])))
    }));
    asked.extend(took.iter().map(|(phase, took)| {
        let series =
            format!("flowgate_target_failover_phase_seconds{{{labels},phase=\"{}\"}}", snake_case(phase));
        (series, float(number(took)) / 1e6)
    }));
    for (expression, expected) in asked {
        let told = prometheus.number(&expression).unwrap_or_else(|| panic!("nothing of {expression}"));
        assert_eq!(told.to_bits(), expected.to_bits(), "{expression}: {told}, and elsewhere {expected}");
    }

    // The terminal, in the words of the report for people.
    let at = &record["Decided"]["Rfc3339"].as_str().expect("a time")["2026-11-30T".len()..];
    let at = at.trim_end_matches('Z');
    let text = report(lab, &[&record["Id"].to_string()]);
    assert!(
        text.lines().next().is_some_and(|line| line.contains(&format!("/{target} ")) && line.contains(at))
    );
    let (_, phases) = text.split_once("TOOK\n").expect("phases");
    let phases: Vec<String> = phases.lines().take_while(|line| !line.is_empty()).map(unbroken).collect();
    assert_eq!(phases.len(), took.len(), "{text}");
    let goes_on = if record.get("Ended").is_none() { "; it goes on" } else { "" };
    let sentence = format!(
        "failover {} at {at}, unhealthy: of {} flows {flows} reset, 0 moved, 0 ended otherwise, 0 left; {resets} \
         resets sent{goes_on} phases {}",
        record["Id"],
        record["Flows"]["AtDecision"],
        phases.join(", ")
    );
    let counted = format!("resets {flows} flows reset ({flows} in the last minute), {resets} resets sent: ");
    top.wait_until(&format!("said: {counted}"), |screen| unbroken(screen).contains(&counted));
    let screen = top.wait_until(&format!("said: {sentence}"), |screen| unbroken(screen).contains(&sentence));
    assert!(screen.contains(&format!("{TARGET_GROUP}/{target} of {LOAD_BALANCER}")), "{screen}");
    let since =
        shown["Since"]["Rfc3339"].as_str().expect("a time")["2026-11-30T".len()..].trim_end_matches('Z');
    assert!(unbroken(&screen).contains(&format!("state {state} since {since}")), "{since}: {screen}");
    record.clone()
}

/// Resets that came in at one end for these clients' connections, and when the first did.
fn told_on_the_wire(capture: &Capture, side: Side, clients: &[SocketAddr]) -> (u64, Option<Duration>) {
    let of_these = |packet: &&crate::lab::capture::Tcp| {
        let client = if side == Side::Client { packet.destination } else { packet.source };
        packet.is(RST) && clients.contains(&client)
    };
    let tcp = capture.tcp();
    let resets: Vec<Duration> = tcp.iter().filter(of_these).map(|packet| packet.at).collect();
    (resets.len() as u64, resets.first().copied())
}

// H-5, H-7
#[test]
fn report_top_page_and_prometheus_say_the_same_of_a_dead_appliance_and_what_the_kernels_saw() {
    let mut lab = Lab::started(3, BOTH_ENDS);
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| lab.connect(Family::V4)).collect();
    let dead = lab.appliance_of(&connections[0]);
    let target = lab.appliances[dead].address;
    let on_dead = connections.iter().filter(|one| lab.appliance_of(one) == dead);
    let clients: Vec<SocketAddr> = on_dead.map(|one| one.address(Side::Client)).collect();
    let reflector = lab.take_reflector(dead);
    let captures = Side::BOTH.map(|side| (side, Capture::start(lab.host(side), ETH, "tcp")));
    let on_the_wire = |captures: &[(Side, Capture); 2]| {
        captures.each_ref().map(|(side, capture)| told_on_the_wire(capture, *side, &clients))
    };

    // Killed under load.
    let (killed, mut broken) = kill_under_load(&lab, connections, reflector);
    assert_eq!(broken.len(), clients.len(), "who was on it was told, and nobody else");
    for one in &mut broken {
        // The next packet of its server is answered too.
        one.server.write_all(b"where is everybody?").expect("the kernel takes it");
        must_be_reset(&mut one.server);
    }
    let prometheus = Prometheus::start(&lab);
    let top = Tmux::top(&lab, 160, 50);
    top.wait_for(&format!("! {TARGET_GROUP}/{target}"));
    top.press(&["Enter"]);

    let flows = clients.len() as u64;
    let [(to_clients, first), (to_servers, _)] = on_the_wire(&captures);
    assert!(to_clients >= flows && to_servers >= flows, "{to_clients} and {to_servers} of {flows}");
    let expected = Expected { target, flows, resets: to_clients + to_servers };
    wait_for("the record to be at rest", PATIENCE, || {
        let record = page(&lab, "/api/failovers")["Failovers"][0].take();
        let watched = &record["Clients"]["CameBack"];
        (number(&record["Resets"]["Total"]) == expected.resets && *watched == flows).then_some(())
    });
    let record = agree(&lab, &prometheus, &top, &expected);
    assert_eq!(record["Ended"], Value::Null);
    // Since when: as the subscribers were told, and after it was killed.
    let decided = Duration::from_millis(number(&record["Decided"]["UnixMs"]));
    assert_eq!(lab.gateway().events.state_of(target, "unhealthy"), decided);
    let overview = page(&lab, "/api/overview");
    let targets = overview["TargetGroups"][0]["Targets"].as_array().expect("targets");
    let shown = targets.iter().find(|one| one["Address"] == json!(target)).expect("it is shown");
    assert_eq!((&shown["State"], &shown["Since"]), (&json!("unhealthy"), &record["Decided"]));
    assert!(decided > killed);
    let first_told = Duration::from_millis(number(&record["Resets"]["First"]["At"]["UnixMs"]));
    let (on_wire, in_socket) = (first.expect("some"), broken.iter().map(|one| one.at).min().expect("some"));
    for seen in [on_wire, in_socket] {
        assert!(first_told <= seen && seen < first_told + SOON, "{first_told:?}, seen at {seen:?}");
    }

    // It comes back, and that is the last phase.
    lab.start_reflector(dead, &[]);
    lab.wait_for_state(dead, "healthy");
    lab.gateway().events.wait_for("the record to end", |event| event["Event"] == "FailoverEnded");
    let whole = agree(&lab, &prometheus, &top, &expected);
    assert_eq!(whole["Ended"]["Why"], "recovered");
    let phases = |record: &Value| record["DurationsMicroseconds"].as_object().expect("phases").len();
    assert_eq!((phases(&record), phases(&whole)), (6, 7));
    let now_told = on_the_wire(&captures).map(|(count, _)| count);
    assert_eq!(now_told, [to_clients, to_servers], "nobody was told more meanwhile");
}
