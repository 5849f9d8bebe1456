//! A real Prometheus that scrapes a real gateway under load while an appliance dies: every expression of the dashboard
//! and of the rules is put to it, and it says what happened as the gateway itself says it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::lab::gateway::{Attributes, LOAD_BALANCER, TARGET_GROUP};
use crate::lab::prometheus::{PATIENCE, Prometheus};
use crate::lab::traffic::{Connection, exchange, must_be_reset};
use crate::lab::{Family, Lab, wait_for};

const RESETS: Attributes<'_> =
    Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };

/// What a rate is taken over: long enough that what has happened in the test is in it.
const RATE: &str = "1m";

/// Panels that have nothing to show in a laboratory where all is as it should be: no zones, no silence, and no
/// packet dropped in the minute before.
const MAY_BE_EMPTY: [&str; 4] = [
    "By zone: live flows",
    "Silence",
    "Dropped packets/s by reason",
    // A node with one worker, whose ports the kernel sees too, has none.
    "Rings of packets: the fullest of the last minute",
];

impl Prometheus {
    /// The alerts that fire, but for those of how short a laboratory's cores are.
    fn firing(&self) -> Vec<(String, Value)> {
        let answer = self.ask("alerts", None).unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.into_iter().filter(|alert| alert["state"] == "firing");
        let named = firing.map(|alert| {
            let name = alert["labels"]["alertname"].as_str().expect("a name").to_owned();
            (name, alert["labels"].clone())
        });
        let of_the_machine = ["FlowgateLongRound", "FlowgateHealthChecksLate", "FlowgateStoreSlow"];
        named.filter(|(name, _)| !of_the_machine.contains(&name.as_str())).collect()
    }
}

/// Every expression of the dashboard, with the title of its panel.
fn dashboard() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring/grafana-dashboard.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let filled_in = |expression: &Value| {
        let mut text = expression.as_str().expect("an expression").to_owned();
        for (variable, value) in [
            ("$__rate_interval", RATE),
            ("$__interval", RATE),
            ("$job", ".*"),
            ("$instance", ".*"),
            ("$load_balancer", ".*"),
            ("$target_group", ".*"),
        ] {
            text = text.replace(variable, value);
        }
        assert!(!text.contains('$'), "a variable that nobody fills in: {text}");
        text
    };
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title").to_owned();
        for target in panel["targets"].as_array().into_iter().flatten() {
            all.push((title.clone(), filled_in(&target["expr"])));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().expect("annotations") {
        all.push(("annotation".to_owned(), filled_in(&annotation["expr"])));
    }
    all
}

#[test]
fn prometheus_tells_of_a_dead_appliance_what_the_gateway_tells() {
    // R-8, H-5
    let lab = Lab::started(3, RESETS);
    let mut connections: Vec<Connection> = (0..12).map(|_| lab.connect(Family::V4)).collect();
    connections.iter_mut().for_each(|connection| exchange(connection, 10_000));
    let dying = lab.appliance_of(&connections[0]);
    let dead: Ipv4Addr = lab.appliances[dying].address;
    // It looks on from before anything happens.
    let prometheus = Prometheus::start(&lab);
    // One of the others drains meanwhile.
    let draining = (dying + 1) % 3;
    lab.deregister(draining);
    let (mut on_dead, mut others): (Vec<_>, Vec<_>) =
        connections.into_iter().partition(|connection| lab.appliance_of(connection) == dying);
    #[expect(clippy::cast_precision_loss, reason = "a dozen")]
    let flows = on_dead.len() as f64;
    lab.set_link(dying, "down");
    lab.wait_for_state(dying, "unhealthy");

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                others.iter_mut().for_each(|connection| exchange(connection, 1000));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            on_dead.iter_mut().for_each(|connection| {
                use std::io::Write as _;
                connection.client.write_all(b"anybody there?").expect("the kernel takes it");
                must_be_reset(&mut connection.client);
            });
            what_it_says(&lab, &prometheus, dead, draining, flows);
        }));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });

    lab.set_link(dying, "up");
    lab.wait_for_state(dying, "healthy");
    wait_for("the alert to be over", PATIENCE, || {
        prometheus.firing().iter().all(|(name, _)| name != "FlowgateTargetUnhealthy").then_some(())
    });
    let healthy = format!("flowgate_target_healthy{{target=\"{dead}\"}}");
    wait_for("the target to be shown healthy", PATIENCE, || {
        (prometheus.number(&healthy) == Some(1.0)).then_some(())
    });
}

fn what_it_says(lab: &Lab, prometheus: &Prometheus, dead: Ipv4Addr, draining: usize, on_dead: f64) {
    // The alerts that should fire, and no others.
    let fires = |wanted: &str| prometheus.firing().into_iter().find(|(name, _)| name == wanted);
    let (_, labels) = wait_for("the alert to fire", PATIENCE, || fires("FlowgateTargetUnhealthy"));
    assert_eq!(labels["target"], dead.to_string(), "{labels}");
    assert_eq!(
        (&labels["load_balancer"], &labels["target_group"]),
        (&LOAD_BALANCER.into(), &TARGET_GROUP.into())
    );
    // No answer at first; and none possible, once the kernel has given the address up.
    let reasons = ["Target.Timeout", "Target.FailedHealthChecks"];
    assert!(reasons.iter().any(|reason| labels["reason"] == *reason), "{labels}");
    wait_for("the resets to be told", PATIENCE, || fires("FlowgateFlowsReset"));
    let expected = ["FlowgateTargetUnhealthy", "FlowgateFlowsReset", "FlowgateFewHealthyTargets"];
    let unexpected: Vec<_> =
        prometheus.firing().into_iter().filter(|(name, _)| !expected.contains(&name.as_str())).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");

    // The figures are those that the gateway tells by itself.
    let resets = lab.counted("TCP_ELB_Reset_Count_unhealthy");
    assert!(resets > 0);
    let of_target = format!("flowgate_target_tcp_resets_total{{target=\"{dead}\",trigger=\"unhealthy\"}}");
    for expression in [&of_target, "flowgate_load_balancer_tcp_resets_total{trigger=\"unhealthy\"}"] {
        let told = wait_for("the resets to be scraped", PATIENCE, || {
            let told = prometheus.number(expression)?;
            #[expect(clippy::cast_precision_loss, reason = "a dozen")]
            (told == resets as f64).then_some(told)
        });
        assert!(told > 0.0);
    }
    let flows = format!("flowgate_target_reset_flows_total{{target=\"{dead}\"}}");
    assert_eq!(prometheus.number(&flows), Some(on_dead), "each flow once, however many ends were told");
    let drain = format!(
        "flowgate_target_drain_end_timestamp_seconds{{target=\"{}\"}} - time()",
        lab.appliances[draining].address
    );
    let left = prometheus.number(&drain).expect("it drains");
    assert!((200.0..=300.0).contains(&left), "{left} s of 300");

    // Every rule works.
    let rules = prometheus.ask("rules", None).expect("it answers");
    let groups = rules["data"]["groups"].as_array().expect("groups");
    let all: Vec<&Value> =
        groups.iter().flat_map(|group| group["rules"].as_array().expect("rules")).collect();
    assert!(all.len() > 30, "{} rules", all.len());
    for rule in all {
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] == "recording" {
            let name = rule["name"].as_str().expect("a name");
            assert!(!prometheus.series(name).is_empty(), "{name} records nothing");
        }
    }

    // And every expression of the dashboard has something to show.
    for (title, expression) in dashboard() {
        let series = prometheus.series(&expression);
        assert!(
            !series.is_empty() || MAY_BE_EMPTY.contains(&title.as_str()),
            "{title}: nothing of {expression}"
        );
        for one in series {
            let value = one["value"][1].as_str().expect("a value");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{title}: {value} of {expression}");
        }
    }
    let scrape = prometheus.number("scrape_duration_seconds").expect("it scrapes");
    assert!(scrape < 1.0, "a scrape took {scrape} s");
}
