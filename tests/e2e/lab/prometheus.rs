//! A real Prometheus that scrapes the gateway.

use std::time::Duration;

use serde_json::Value;

use super::netns::command_in;
use super::process::Process;
use super::{Lab, wait_for};

/// What is waited for of Prometheus: it scrapes and looks at its rules every second, and alerts wait for some.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Prometheus in the gateway's namespace.
pub struct Prometheus {
    /// The namespace's name: the lab may be changed meanwhile.
    netns: String,
    process: Process,
}

impl Prometheus {
    pub fn start(lab: &Lab) -> Self {
        let folder = lab.folder.path().display();
        let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring");
        let config = lab.path("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{documents}/flowgate.rules.yml']\n\
             scrape_configs:\n  - job_name: flowgate\n    static_configs: [{{targets: ['127.0.0.1:6082']}}]\n"
        );
        std::fs::write(&config, text).expect("the folder is writable");
        let mut command = lab.router.command("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={folder}/prometheus"));
        command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=warn"]);
        let process = Process::start("prometheus", &mut command, lab.folder.path());
        let mut prometheus = Prometheus { netns: lab.router.name().to_owned(), process };
        wait_for("Prometheus to scrape", PATIENCE, || {
            prometheus.process.must_run();
            (prometheus.number("up{job=\"flowgate\"}") == Some(1.0)).then_some(())
        });
        prometheus
    }

    /// What its API says at `path`; none while it does not answer.
    pub fn ask(&self, path: &str, query: Option<&str>) -> Option<Value> {
        let mut curl = command_in(&self.netns, "curl");
        curl.args(["-s", "-G", &format!("http://127.0.0.1:9090/api/v1/{path}")]);
        if let Some(query) = query {
            curl.args(["--data-urlencode", &format!("query={query}")]);
        }
        let output = curl.output().expect("curl is installed");
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The series that an expression has now; an error of it fails the test.
    pub fn series(&self, expression: &str) -> Vec<Value> {
        let Some(answer) = self.ask("query", Some(expression)) else { return Vec::new() };
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The value of an expression that has one series.
    pub fn number(&self, expression: &str) -> Option<f64> {
        let series = self.series(expression);
        assert!(series.len() <= 1, "{expression}: {series:?}");
        series.first()?["value"][1].as_str()?.parse().ok()
    }
}
