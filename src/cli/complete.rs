//! What a shell completes: the words of the command line as it is defined, and the names and addresses that the daemon
//! has at that moment.
//!
//! The script of `flowgate completions` asks this command itself, by a variable in its environment. A daemon that does
//! not answer at once, or that is not there, has no names: completion never waits and never complains.

#![forbid(unsafe_code)]

use super::client::{CliError, Client, typed};
use super::manual::{self, NAME};
use super::output::print;
use crate::control::model::registry::{self, Values};
use crate::control::socket::DEFAULT_PATH;
use crate::control::socket::methods::balancers::{DescribeLoadBalancers, LoadBalancers};
use crate::control::socket::methods::groups::{DescribeTargetGroups, TargetGroups};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// The variable that has the shell's name when it asks. Not the crate's own, which other programs look at too.
const ASKED: &str = "FLOWGATE_COMPLETE";

/// How long the daemon may take for all that is asked of it: whoever pressed the key waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers a shell that asks, and ends this process then.
pub(super) fn answer() {
    CompleteEnv::with_factory(|| with_names(manual::command()))
        .var(ASKED)
        .bin(NAME)
        .completer(NAME)
        .complete();
}

/// Prints the script that has a shell ask.
pub(super) fn script(shell: &str) -> Result<(), CliError> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(shell) {
        shell.write_registration(ASKED, NAME, NAME, NAME, &mut script).map_err(CliError::Output)?;
    }
    print(&String::from_utf8_lossy(&script))
}

/// The command line, with what the daemon may be asked for its arguments.
fn with_names(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    let offered = |argument: clap::Arg| match names_for(&verb, argument.get_id().as_str()) {
        Some(Names::Keys) => argument.add(ArgValueCompleter::new(settings)),
        Some(names) => argument.add(ArgValueCandidates::new(move || offer(names))),
        None => argument,
    };
    command.mut_args(offered).mut_subcommands(with_names)
}

/// What an argument names.
#[derive(Clone, Copy)]
enum Names {
    TargetGroups,
    LoadBalancers,
    /// Objects that have attributes.
    Objects,
    Targets,
    Endpoints,
    /// Attributes to be set.
    Keys,
}

/// What the values of an argument of a verb are names of; none: of nothing that the daemon has.
fn names_for(verb: &str, argument: &str) -> Option<Names> {
    Some(match argument {
        "target_group" => Names::TargetGroups,
        "load_balancer" | "listener" | "listener_arns" => Names::LoadBalancers,
        "name" if verb == "set" => Names::Objects,
        "attributes" if verb == "set" => Names::Keys,
        "names" if verb == "describe-target-groups" => Names::TargetGroups,
        "names" => Names::LoadBalancers,
        "target" => Names::Targets,
        "targets" if verb != "register-targets" => Names::Targets,
        "resource_arns" => Names::Objects,
        "endpoint" => Names::Endpoints,
        _ => return None,
    })
}

fn offer(names: Names) -> Vec<CompletionCandidate> {
    let found = within(PATIENCE, move || ask(names).unwrap_or_default());
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// The attributes that a word may become: their keys, and of the only one its values too, if they are words.
fn settings(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let keys: Vec<_> = registry::ATTRIBUTES
        .iter()
        .map(|attribute| (format!("{}=", attribute.key), attribute.values))
        .filter(|(key, _)| key.starts_with(word) || word.starts_with(key))
        .collect();
    let values: &[&str] = match keys[..] {
        [(_, Values::Flag)] => &["true", "false"],
        [(_, Values::Choice(words))] => words,
        _ => &[""],
    };
    let settings = keys.iter().flat_map(|(key, _)| values.iter().map(move |value| format!("{key}{value}")));
    settings.filter(|setting| setting.starts_with(word)).map(CompletionCandidate::new).collect()
}

/// What `ask` comes to in that time, or nothing. If it takes longer it ends with this process.
fn within(time: Duration, ask: impl FnOnce() -> Vec<String> + Send + 'static) -> Vec<String> {
    let (tell, told) = mpsc::channel();
    // An error means that nobody waits any more.
    std::thread::spawn(move || tell.send(ask()).ok());
    told.recv_timeout(time).unwrap_or_default()
}

fn ask(names: Names) -> Result<Vec<String>, CliError> {
    let mut client = Client::connect(&socket())?;
    let mut found = Vec::new();
    if matches!(names, Names::TargetGroups | Names::Objects) {
        let groups = client.call("describe-target-groups", &DescribeTargetGroups::default())?;
        found.extend(
            typed::<TargetGroups>(groups)?.target_groups.into_iter().map(|one| one.target_group_name),
        );
    }
    if matches!(names, Names::LoadBalancers | Names::Objects) {
        let balancers = client.call("describe-load-balancers", &DescribeLoadBalancers::default())?;
        let balancers = typed::<LoadBalancers>(balancers)?.load_balancers;
        found.extend(balancers.into_iter().map(|one| one.load_balancer_name));
    }
    if matches!(names, Names::Endpoints) {
        let answer = client.call("describe-endpoints", &Value::Null)?;
        found.extend(texts(&answer["Endpoints"], |one| &one["EndpointName"]));
    }
    if matches!(names, Names::Targets) {
        // Draining ones too, which the document has not.
        let groups = client.call("describe-target-groups", &DescribeTargetGroups::default())?;
        for group in typed::<TargetGroups>(groups)?.target_groups {
            let params = serde_json::json!({"TargetGroupArn": group.target_group_name});
            let health = client.call("describe-target-health", &params)?;
            found.extend(texts(&health["TargetHealthDescriptions"], |one| &one["Target"]["Id"]));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn texts(list: &Value, of: impl Fn(&Value) -> &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| of(item).as_str().map(str::to_owned)).collect()
}

/// The socket that the line in hand names, as far as it is one.
fn socket() -> PathBuf {
    let mut words = std::env::args_os();
    let named = words.find_map(|word| match word.to_str()?.strip_prefix("--socket")? {
        "" => Some(None),
        joined => joined.strip_prefix('=').map(|path| Some(OsString::from(path))),
    });
    let named = named.and_then(|joined| joined.or_else(|| words.next()));
    let named = named.or_else(|| std::env::var_os("FLOWGATE_SOCKET"));
    named.map_or_else(|| PathBuf::from(DEFAULT_PATH), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_there_is_patience_has_nothing() {
        let names = || vec!["fw".to_owned()];
        assert_eq!(within(Duration::from_secs(10), names), ["fw"]);
        let slow = move || {
            std::thread::sleep(Duration::from_secs(5));
            names()
        };
        assert!(within(Duration::from_millis(10), slow).is_empty());
    }
}
