//! After the control core has panicked and another goes on in its place: every face of the daemon serves, and the counters
//! that begin anew are those of which docs/metrics.md says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::faults::{put, wait_for_restarts};
use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::process::Process;
use crate::lab::traffic::{PATIENCE, exchange, must_be_reset};
use crate::lab::{Family, Lab, wait_for};

const MONITOR: u16 = 6082;
const ELBV2: u16 = 6080;

/// The answer to a request on a connection of its own; none if it broke.
fn http(lab: &Lab, port: u16, head: &str, body: &str) -> Option<String> {
    let mut stream = lab.router.run(|| TcpStream::connect(("127.0.0.1", port))).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn get(lab: &Lab, path: &str) -> String {
    let answer = http(lab, MONITOR, &format!("GET {path} HTTP/1.1"), "");
    answer.unwrap_or_else(|| panic!("no answer to {path}"))
}

/// The body of an answer that must be 200.
fn body(answer: &str) -> &str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body
}

fn elbv2(lab: &Lab, query: &str) -> String {
    let head = "POST / HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
    let answer = http(lab, ELBV2, head, &format!("{query}&Version=2015-12-01")).expect("an answer");
    body(&answer).to_owned()
}

#[test]
fn the_web_page_the_metrics_and_the_elbv2_endpoint_serve_on_with_another_control_core() {
    let mut lab = Lab::new(1);
    lab.start_reflector(0, &[]);
    lab.write_configuration(Attributes::default());
    let node = lab.node_toml() + &format!("\n[elbv2]\naddress = \"127.0.0.1:{ELBV2}\"\n");
    std::fs::write(lab.path("node.toml"), node).expect("the folder is writable");
    lab.start_gateway();
    lab.wait_for_state(0, "healthy");
    for (restarts, fault) in [(1.0, "control-panic"), (2.0, "task-panic")] {
        // A page that follows events, and a client that has asked for nothing yet.
        let connect =
            |port: u16| lab.router.run(|| TcpStream::connect(("127.0.0.1", port))).expect("it listens");
        let mut stream = connect(MONITOR);
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1:6082\r\n\r\n").expect("it reads");
        let silent = connect(ELBV2);
        silent.set_read_timeout(Some(PATIENCE)).expect("not zero");
        assert!(stream.read(&mut [0; 12]).expect("it is served") > 0);

        put(&lab, &json!({"Fault": fault}));
        wait_for_restarts(&lab, restarts, Instant::now());
        // Their connections ended with the control core; in peace or not.
        for (mut left, who) in [(stream, "the page's"), (silent, "the silent one")] {
            let mut rest = Vec::new();
            if let Err(error) = left.read_to_end(&mut rest) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{who} connection goes on");
            }
        }

        assert!(body(&get(&lab, "/")).contains("<title>Flowgate</title>"), "{fault}");
        assert!(body(&get(&lab, "/metrics")).contains("flowgate_control_core_restarts_total"), "{fault}");
        wait_for("readiness", PATIENCE, || get(&lab, "/readyz").starts_with("HTTP/1.1 200 ").then_some(()));
        let overview = get(&lab, "/api/overview");
        let start = overview.find('{').expect("JSON");
        let overview: Value = serde_json::Deserializer::from_str(&overview[start..])
            .into_iter()
            .next()
            .expect("an object")
            .expect("JSON");
        assert_eq!(overview["TargetGroups"][0]["Targets"][0]["State"], "healthy", "{fault}: {overview}");
        let balancers = elbv2(&lab, "Action=DescribeLoadBalancers");
        assert!(
            balancers.contains("<LoadBalancerName>inspection</LoadBalancerName>"),
            "{fault}: {balancers}"
        );
        // And changes.
        let groups = elbv2(&lab, "Action=DescribeTargetGroups");
        let (_, arn) = groups.split_once("<TargetGroupArn>").expect("a group");
        let (arn, _) = arn.split_once('<').expect("its end");
        let value = restarts.to_string();
        let tag = format!(
            "Action=AddTags&ResourceArns.member.1={arn}&Tags.member.1.Key=life&Tags.member.1.Value={value}"
        );
        elbv2(&lab, &tag);
        let tags = lab.gateway().rpc.must("describe-tags", json!({"ResourceArns": [TARGET_GROUP]}));
        assert_eq!(tags["TagDescriptions"][0]["Tags"], json!([{"Key": "life", "Value": value}]), "{fault}");
    }
}

/// Counters, by their series.
fn counters(lab: &Lab) -> BTreeMap<String, f64> {
    let text = get(lab, "/metrics");
    let ends = ["_total", "_bucket", "_count", "_sum"];
    let counter = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split('{').next()?;
        let value = value.trim().parse().ok()?;
        ends.iter().any(|end| name.ends_with(end)).then(|| (series.to_owned(), value))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(counter).collect()
}

/// The name of the counter or histogram that a series is of.
fn family(series: &str) -> String {
    let name = series.split('{').next().unwrap_or(series);
    let stem = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
    stem.unwrap_or(name).to_owned()
}

fn metrics_document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    std::fs::read_to_string(path).expect("the document")
}

/// Those of which docs/metrics.md says that they begin anew.
fn told_to_begin_anew() -> BTreeSet<String> {
    let text = metrics_document();
    let (_, rest) = text.split_once("begins anew with the control core").expect("the paragraph");
    let (paragraph, _) = rest.split_once("\n- **").expect("the next one");
    let (named, _) = paragraph.split_once("All others go on").expect("what does not");
    named.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_counters_that_begin_anew_with_the_control_core_are_those_that_the_documentation_names() {
    let attributes =
        Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };
    let mut lab = Lab::started(2, attributes);
    // Something to count: flows, a death, resets, changes, a target that is gone.
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 100_000);
    let dead = lab.appliance_of(&connection);
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    connection.client.write_all(b"into the void").expect("the kernel takes it");
    must_be_reset(&mut connection.client);
    lab.set_group_attribute("deregistration_delay.timeout_seconds", "0");
    lab.deregister(dead);
    lab.gateway().events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
    wait_for("what the dead one counted to be its group's", PATIENCE, || {
        let target = format!("target=\"{}\"", lab.appliances[dead].address);
        (!counters(&lab).keys().any(|series| series.contains(&target))).then_some(())
    });
    let before = counters(&lab);
    put(&lab, &json!({"Fault": "control-panic"}));
    wait_for_restarts(&lab, 1.0, Instant::now());
    let after = counters(&lab);
    let fallen: BTreeSet<String> = before
        .iter()
        .filter(|(series, was)| after.get(*series).is_some_and(|is| is < *was))
        .map(|(series, _)| family(series))
        .collect();
    let told = told_to_begin_anew();
    let is_of = |family: &str, told: &str| match told.strip_suffix('*') {
        Some(begin) => family.starts_with(begin),
        None => family == told,
    };
    let untold: Vec<_> = fallen.iter().filter(|fell| !told.iter().any(|told| is_of(fell, told))).collect();
    assert!(!fallen.is_empty() && untold.is_empty(), "fell, and it is not told: {untold:?}");
    // And nothing is named that there is not.
    let document = metrics_document();
    for named in &told {
        let row = format!("\n| `{}", named.trim_end_matches('*'));
        assert!(document.contains(&row), "there is no {named}");
    }
}

#[test]
fn a_subscriber_is_told_what_it_missed_of_another_control_core_and_of_another_daemon() {
    let mut lab = Lab::started(1, Attributes::default());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flowgate"));
    command.arg("--socket").arg(lab.path("flowgated.sock")).args([
        "subscribe",
        "--json",
        "--events",
        "config",
    ]);
    let subscriber = Process::start("subscriber", &mut command, lab.folder.path());
    let lines = |key: &str| -> Vec<Value> {
        let printed = subscriber.printed();
        let all = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|line| !line[key].is_null()).collect()
    };
    let wait_for_lines = |key: &str, count: usize| {
        wait_for(&format!("{count} lines with {key}"), PATIENCE, || {
            Some(lines(key)).filter(|lines| lines.len() == count)
        })
    };
    assert_eq!(wait_for_lines("EventsSoFar", 1)[0]["EventsSoFar"]["Config"], 0);
    let change = |lab: &Lab, seconds: &str| {
        lab.set_group_attribute("deregistration_delay.timeout_seconds", seconds);
    };
    change(&lab, "7");
    wait_for_lines("Event", 1);
    // Stopped, so that it is not there again before the change.
    let pid = nix::unistd::Pid::from_raw(subscriber.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it is ours");
    put(&lab, &json!({"Fault": "control-panic"}));
    wait_for_restarts(&lab, 1.0, Instant::now());
    change(&lab, "8");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it is ours");
    let back = wait_for_lines("Back", 1)[0]["Back"].clone();
    assert_eq!((&back["SameDaemon"], &back["Missed"]), (&json!(true), &json!(1)), "{back}");
    assert_eq!(wait_for_lines("EventsSoFar", 2)[1]["EventsSoFar"]["Config"], 2);

    lab.kill_gateway();
    lab.start_gateway();
    let back = wait_for_lines("Back", 2)[1]["Back"].clone();
    assert_eq!((&back["SameDaemon"], &back["Missed"]), (&json!(false), &json!(0)), "{back}");
    let before = lines("Event").len();
    change(&lab, "9");
    wait_for("an event of the other daemon", PATIENCE, || (lines("Event").len() == before + 1).then_some(()));
}
