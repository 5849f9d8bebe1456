//! What is wrong with the node itself: workers, ports, packets, the disk, and whether it is ready.

use super::limits::{
    FAULTS, LOST_PER_SECOND, STORE_WAITS, TABLE_FILLING_PERCENT, TABLES_LOST, WORKER_BUSY_PERCENT,
    WORKER_STILL,
};
use super::recent::{Count, MINUTE};
use super::{Finder, Kind, Standing};
use crate::control::duration::milliseconds;
use crate::control::shown::{counted, scaled, span};

pub(super) fn look(finder: &mut Finder<'_>, standing: &Standing) {
    workers(finder);
    readiness(finder, standing);
    ports(finder);
    drops(finder);
    store(finder, standing);
    tables(finder, standing);
}

fn workers(finder: &mut Finder<'_>) {
    for worker in &finder.overview.workers {
        let (number, object) = (worker.worker, format!("worker {}", worker.worker));
        if worker.heartbeat_age_ms >= milliseconds(WORKER_STILL) {
            let what =
                format!("Worker {number} on core {} goes no rounds: its flows stand still", worker.core);
            let since = finder.ago(worker.heartbeat_age_ms);
            let trouble = finder.found(Kind::WorkerStuck, [object.clone()], since, what);
            trouble.figures = counted(worker.flows, "flow");
            trouble.command = Some("flowgate describe-workers".to_owned());
        }
        if worker.capacity > 0 && worker.flows * 100 > worker.capacity * TABLE_FILLING_PERCENT {
            let what = format!("The flow table of worker {number} is nearly full");
            let trouble = finder.found(Kind::TableFilling, [object.clone()], None, what);
            trouble.figures = format!(
                "{} % full, {} of {} entries",
                worker.flows * 100 / worker.capacity,
                worker.flows,
                worker.capacity
            );
            trouble.command = Some("flowgate describe-workers".to_owned());
        }
        if let Some(busy) = finder.recent.busy_percent(number).filter(|busy| *busy > WORKER_BUSY_PERCENT) {
            let what = format!("Worker {number} on core {} has hardly any time left", worker.core);
            let trouble = finder.found(Kind::WorkerBusy, [object], None, what);
            trouble.figures = format!("busy {busy} % of the time");
            trouble.command = Some("flowgate workers".to_owned());
        }
    }
}

/// Why the node is not ready. Workers that stand still are told above, each.
fn readiness(finder: &mut Finder<'_>, standing: &Standing) {
    let readiness = &standing.readiness;
    for worker in readiness.late_workers() {
        let what =
            format!("Worker {worker} does not go by generation {}, which is in force", readiness.generation);
        finder.found(Kind::WorkerBehind, [format!("worker {worker}")], None, what).command =
            Some("flowgate describe-workers".to_owned());
    }
    for condition in readiness.of_readiness().into_iter().filter(|condition| !condition.holds) {
        match condition.name {
            // Each is told already.
            "workers" if !readiness.silent_for.is_empty() => {}
            "configuration" => {}
            "service" => {
                let what = format!("This node was taken out of service: {}", condition.words);
                finder.found(Kind::TakenOut, [], None, what);
            }
            name => {
                let what = format!("This node is not ready ({name}): {}", condition.words);
                finder.found(Kind::NotReady, [], None, what);
            }
        }
    }
}

fn ports(finder: &mut Finder<'_>) {
    for port in &finder.overview.ports {
        let (name, object) = (&port.port_name, format!("port {}", port.port_name));
        let command = Some("flowgate describe-ports".to_owned());
        if !port.link_up {
            let what = format!("The link of port {name} is down");
            finder.found(Kind::PortDown, [object.clone()], None, what).command.clone_from(&command);
        }
        let missed = finder.recent.per_second(&Count::Missed(name.as_str().into()));
        if is_lost(missed) {
            let what = format!("Port {name} loses packets: the workers do not take them fast enough");
            let trouble = finder.found(Kind::PortMisses, [object], None, what);
            trouble.figures = format!("{} packets/s", scaled(missed));
            trouble.command = command;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn is_lost(per_second: f64) -> bool {
    per_second > LOST_PER_SECOND as f64
}

fn drops(finder: &mut Finder<'_>) {
    for reason in FAULTS {
        let dropped = finder.recent.per_second(&Count::Dropped(reason.name().into()));
        if is_lost(dropped) {
            // Its sentence, which ends with a stop.
            let why = reason.description().trim().trim_end_matches('.');
            let what = format!("Packets are dropped ({}): {why}", reason.name());
            let trouble = finder.found(Kind::PacketsDropped, [reason.name().to_owned()], None, what);
            trouble.figures = format!("{} packets/s", scaled(dropped));
            trouble.command = Some("flowgate get-counters".to_owned());
        }
    }
}

fn tables(finder: &mut Finder<'_>, standing: &Standing) {
    let command = Some("flowgate describe-workers".to_owned());
    if let Some((why, ago)) = standing.tables_lost.as_ref().filter(|(_, ago)| *ago <= TABLES_LOST) {
        let what = format!("The flow tables of the daemon before this one are lost: {why}");
        let since = finder.ago(milliseconds(*ago));
        finder.found(Kind::TablesLost, [], since, what).command.clone_from(&command);
    }
    if let Some(why) = &standing.tables_not_kept {
        let what = format!("Flows will end with the daemon: {why}");
        finder.found(Kind::TablesNotKept, [], None, what).command = command;
    }
}

fn store(finder: &mut Finder<'_>, standing: &Standing) {
    if standing.storing_for > STORE_WAITS {
        let waits = milliseconds(standing.storing_for);
        let what = "A change waits for the disk; so do all after it, and ends of drains".to_owned();
        let since = finder.ago(waits);
        finder.found(Kind::StoreWaits, [], since, what).figures = format!("for {}", span(waits));
    }
    let not_stored = finder.recent.within(MINUTE, &Count::NotStored);
    if not_stored > 0 {
        let what = "Changes are refused: they cannot be written to the state directory".to_owned();
        finder.found(Kind::ChangesNotStored, [], None, what).figures =
            format!("{} in the last minute", counted(not_stored, "change"));
    }
}
