//! The configuration, the objects, the daemon.

use super::super::facts::{Facts, Missing};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::listed;
use crate::control::shown::counted;

/// A worker that has said nothing for so long has come to a stop: it says that it lives many times a second.
const SILENT_MS: u64 = 1000;

pub(in super::super) fn configuration(facts: &Facts, items: &mut Items) {
    let path = facts.gateway.path.display().to_string();
    match &facts.gateway.config {
        Ok(config) if config.ports.is_empty() => {
            let found =
                "it is sound, and the node is idle: it has no ports yet; docs/configuration.md tells how";
            items.not_well(Kind::Configuration, Some(&path), Verdict::Advice, found);
        }
        Ok(config) => items.ok(
            Kind::Configuration,
            Some(&path),
            format!(
                "it is sound: {}, {}, {}",
                counted(config.ports.len() as u64, "port"),
                counted(config.endpoints.len() as u64, "endpoint"),
                counted(config.workers.cores.len() as u64, "worker")
            ),
        ),
        Err(Missing::Faulty(fault)) => {
            let command = format!("flowgated --config {path} --check");
            items.mend(Kind::Configuration, Some(&path), Verdict::Problem, fault.as_str(), command);
        }
        Err(Missing::Refused) => items.cannot_tell(Kind::Configuration, Some(&path), "it may not be read"),
        Err(Missing::NoFile) => items.cannot_tell(
            Kind::Configuration,
            Some(&path),
            "there is no such file, so that only the host by itself is looked at; --config names another",
        ),
    }
}

pub(in super::super) fn objects(facts: &Facts, items: &mut Items) {
    let Ok(_) = &facts.gateway.config else {
        return items.cannot_tell(Kind::Objects, None, super::NO_CONFIGURATION);
    };
    match &facts.gateway.objects {
        None => items.not_well(
            Kind::Objects,
            None,
            Verdict::Advice,
            "there are none yet: make them by flowgate, by AWS's API, or give a document under the key objects",
        ),
        Some((path, Err(fault))) => {
            let command = format!("flowgated --config {} --check", facts.gateway.path.display());
            items.mend(Kind::Objects, Some(path), Verdict::Problem, fault.as_str(), command);
        }
        Some((path, Ok(objects))) => {
            let found = format!(
                "{} and {}",
                counted(objects.balancers as u64, "load balancer"),
                counted(objects.targets.len() as u64, "registered target")
            );
            if objects.balancers == 0 || objects.targets.is_empty() {
                let found = format!("{found}: what comes in is dropped");
                items.not_well(Kind::Objects, Some(path), Verdict::Advice, found);
            } else {
                items.ok(Kind::Objects, Some(path), found);
            }
        }
    }
}

pub(in super::super) fn daemon(facts: &Facts, items: &mut Items) {
    let socket = facts.daemon.socket.display().to_string();
    match &facts.daemon.answers {
        Ok(answers) if answers.version == env!("FLOWGATE_VERSION") => {
            items.ok(Kind::Daemon, Some(&socket), format!("version {} answers", answers.version));
        }
        Ok(answers) => items.not_well(
            Kind::Daemon,
            Some(&socket),
            Verdict::Advice,
            format!(
                "the daemon is of version {} and this command of {}: restart it when it suits you",
                answers.version,
                env!("FLOWGATE_VERSION")
            ),
        ),
        Err(silence) if silence.is_down => items.cannot_tell(
            Kind::Daemon,
            Some(&socket),
            "no daemon runs: what only it can tell is looked at beside it",
        ),
        Err(silence) => items.not_well(Kind::Daemon, Some(&socket), Verdict::Warning, silence.why.as_str()),
    }
}

pub(in super::super) fn workers(facts: &Facts, items: &mut Items) {
    let Some(answers) = facts.daemon.answering() else {
        return items.cannot_tell(Kind::Workers, None, "no daemon answers");
    };
    let silent: Vec<_> =
        answers.workers.iter().filter(|worker| worker.heartbeat_age_ms > SILENT_MS).collect();
    for worker in &silent {
        let object = format!("worker {}", worker.worker);
        let found = format!(
            "it has given no sign of life for {} ms; its core is {}",
            worker.heartbeat_age_ms, worker.core
        );
        items.mend(Kind::Workers, Some(&object), Verdict::Problem, found, "systemctl restart flowgate");
    }
    if silent.is_empty() {
        let cores = listed(answers.workers.iter().map(|worker| worker.core));
        let found = format!("{} on {cores}, and alive", counted(answers.workers.len() as u64, "worker"));
        items.ok(Kind::Workers, None, found);
    }
}

pub(in super::super) fn everything_read(facts: &Facts, items: &mut Items) {
    for (path, why) in &facts.refused {
        items.mend(
            Kind::Everything,
            Some(path),
            Verdict::CannotTell,
            format!("it may not be read: {why}"),
            "sudo flowgate doctor",
        );
    }
    if facts.refused.is_empty() {
        items.ok(Kind::Everything, None, "all that was looked for could be read");
    }
}
