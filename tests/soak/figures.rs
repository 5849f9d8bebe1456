//! What is read of the daemon while it runs: its counts, what Prometheus would scrape, its memory.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::judge::accounting::Sums;
use crate::lab::Lab;
use crate::lab::gateway::OUTCOMES;

/// The node's packet counts.
pub fn sums(lab: &Lab) -> Sums {
    let set = lab.counters("node");
    let of = |name: &str| set["Counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {set}"));
    let reasons = set["Drops"].as_object().expect("drops by reason").values();
    Sums {
        received: of("ReceivedPackets"),
        ends: OUTCOMES.map(of).to_vec(),
        dropped: of("DroppedPackets"),
        reasons: reasons.filter_map(Value::as_u64).collect(),
        waiting: of("WaitingFragments"),
    }
}

/// Resets that the load balancer counts.
pub fn resets(lab: &Lab) -> u64 {
    lab.counted("TCP_ELB_Reset_Count")
}

/// The cookies of all flows, or of those alone that are at work and will be for a while.
pub fn flows(lab: &Lab, at_work: bool) -> BTreeSet<String> {
    let listed = lab.gateway().rpc.must("describe-flows", json!({"Limit": 10_000}));
    let works = |flow: &&Value| {
        let ms = |key: &str| flow[key].as_u64().unwrap_or_default();
        flow["State"] == "established" && ms("IdleMs") < 5000 && ms("ExpiresInMs") > 10_000
    };
    let flows = listed["Flows"].as_array().into_iter().flatten().filter(|flow| !at_work || works(flow));
    flows.filter_map(|flow| flow["Cookie"].as_str().map(str::to_owned)).collect()
}

/// What Prometheus would get.
pub fn scrape(lab: &Lab) -> std::io::Result<String> {
    let mut stream = lab.router.run(|| TcpStream::connect(("127.0.0.1", 6082)))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:6082\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    if !head.starts_with("HTTP/1.0 200") && !head.starts_with("HTTP/1.1 200") {
        return Err(std::io::Error::other(format!("/metrics answers: {head}")));
    }
    Ok(body.to_owned())
}

/// All values of a series' name in a scrape.
pub fn values(scraped: &str, name: &str) -> Vec<f64> {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse().ok())?
    };
    scraped.lines().filter_map(of).collect()
}

/// The machine and the commit, for a report.
pub fn machine() -> Value {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let said = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
    };
    json!({
        "Cpu": first("/proc/cpuinfo", "model name"),
        "Cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "Memory": first("/proc/meminfo", "MemTotal"),
        "Kernel": said("uname", &["-sr"]),
        "Commit": said("git", &["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=12", "HEAD"]),
        "Build": if cfg!(debug_assertions) { "debug, with assertions" } else { "release" },
    })
}
