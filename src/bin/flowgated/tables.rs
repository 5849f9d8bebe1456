//! The flow tables that the daemon goes on with, and what is said of them at the start.

use flowgate::control::node::{HugePages, NodeConfig};
use flowgate::control::tables::{NodeTables, Outcome, Plan};
use flowgate::flow::Pages;
use flowgate::io::owner::Owner;

use super::Refusal;

/// What tables the configuration asks for.
pub fn plan(config: &NodeConfig, owner: Owner) -> Plan<'_> {
    Plan {
        settings: &config.tables,
        state_directory: &config.state_directory,
        // There are no more cores than that.
        workers: u8::try_from(config.workers.cores.len()).unwrap_or(u8::MAX),
        capacity: config.workers.flow_capacity(),
        pages: if config.eal.hugepages == HugePages::Never { Pages::Small } else { Pages::Huge },
        endpoints: config.endpoints.iter().map(|endpoint| endpoint.name.to_string()).collect(),
        owner,
        ports: config.ports.iter().map(|port| port.name.to_string()).collect(),
    }
}

/// Takes over the flow tables of the daemon before this one while `start` is at work, as flows wait for both; or makes new
/// ones after it, which takes the memory that is left.
pub fn open_beside<T>(
    config: &NodeConfig,
    owner: Owner,
    start: impl FnOnce() -> Result<T, Refusal>,
) -> Result<(T, NodeTables), Refusal> {
    let plan = plan(config, owner);
    let (started, looked) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| NodeTables::look(&plan));
        (start(), looking.join())
    });
    let (started, looked) = (started?, looked.map_err(|_| "looking at the flow tables failed")??);
    let tables = looked.make(&plan)?;
    for folder in tables.given() {
        tracing::info!(
            name: "flow_tables_given", folder = %folder.display(), to = owner.uid,
            "the flow tables' folder and what is in it is given to the daemon's user"
        );
    }
    tell(&tables);
    Ok((started, tables))
}

/// Says what came of them.
fn tell(tables: &NodeTables) {
    let restart = &tables.restart;
    let now = tables.clock.now();
    let adopt_seconds = restart.adopt_until.map(|until| until.since(now).div_ceil(1000));
    let adopts = match adopt_seconds {
        Some(seconds) => format!("; for {seconds} s TCP packets of no flow begin one"),
        None => String::new(),
    };
    let (sentence, outcome) = (restart.sentence(), restart.word());
    match restart.outcome {
        Outcome::Lost(_) | Outcome::NotKept(_) => {
            tracing::warn!(name: "flow_tables_lost", outcome, adopt_seconds, "{sentence}{adopts}");
        }
        Outcome::First | Outcome::TakenOver | Outcome::Off => {
            let folders: Vec<String> = tables.folders().map(|folder| folder.display().to_string()).collect();
            tracing::info!(
                name: "flow_tables", outcome, flows = restart.kept, torn = restart.torn, refused = restart.refused,
                took_ms = u64::try_from(restart.took.as_millis()).unwrap_or(u64::MAX), adopt_seconds,
                folder = folders.join(", "), "{sentence}{adopts}"
            );
        }
    }
}
