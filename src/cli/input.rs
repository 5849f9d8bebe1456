//! `--cli-input-json`: the members of a request as JSON, as `aws` takes them, turned into the flags that they stand for
//! before the command line is read. So what is said of a flag holds for its member, and a flag that is given beside
//! them is the one that counts.

#![forbid(unsafe_code)]

use crate::control::nearest::nearest;
use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value};
use std::ffi::{OsStr, OsString};

const FLAG: &str = "--cli-input-json";

/// The words of a command line, with the members of `--cli-input-json`, if it is among them, as flags at their end.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub(super) fn expanded(mut words: Vec<OsString>, command: &Command) -> Result<Vec<OsString>, String> {
    let Some(given) = take_out(&mut words)? else { return Ok(words) };
    if take_out(&mut words)?.is_some() {
        return Err(format!("{FLAG} is given more than once: put all members into one object"));
    }
    let members = read(&given)?;
    let (path, verb) = match verb_of(&words, command) {
        Found::Verb(path, verb) => (path, verb),
        Found::None => return Err(format!("{FLAG} needs a verb whose members it has")),
        // What is wrong with it is said where the command line is read.
        Found::NoSuch => return Ok(words),
    };
    let mut flags = Vec::new();
    for (key, value) in members {
        let name = kebab(&key);
        let arg = flag_of(verb, &name).filter(|_| pascal(&name) == key);
        let Some(arg) = arg else { return Err(no_member(&key, &name, &path, verb)) };
        if !words.iter().any(|word| is_given(arg, word)) {
            let negation = format!("no-{name}");
            let negation = flag_of(verb, &negation).map(|_| negation);
            flags.extend(as_flag(&name, &value, arg, negation));
        }
    }
    words.extend(flags.into_iter().map(OsString::from));
    Ok(words)
}

/// What the words ask for.
enum Found<'a> {
    /// A verb, and all that it is called by.
    Verb(String, &'a Command),
    /// Something that there is not, or only the first word of a verb that has two.
    NoSuch,
    /// Nothing.
    None,
}

/// The verb among the words: where a verb has verbs of its own, that of its own. The value of a flag is none.
fn verb_of<'a>(words: &[OsString], command: &'a Command) -> Found<'a> {
    let (mut path, mut verb) = (Vec::new(), command);
    // Before the verb there are only flags that every verb has.
    let takes_value = |flag: &str| flag_of(command, flag).is_some_and(|arg| arg.get_action().takes_values());
    let mut words = words.iter().skip(1);
    while verb.has_subcommands() {
        let Some(word) = words.next() else { break };
        let word = word.to_string_lossy();
        if let Some(flag) = word.strip_prefix("--") {
            if takes_value(flag) {
                words.next();
            }
        } else if !word.starts_with('-') {
            let Some(next) = verb.find_subcommand(&*word) else { return Found::NoSuch };
            verb = next;
            path.push(next.get_name());
        }
    }
    match (path.is_empty(), verb.has_subcommands()) {
        (true, _) => Found::None,
        (false, true) => Found::NoSuch,
        (false, false) => Found::Verb(path.join(" "), verb),
    }
}

/// That a verb has no such member, and which was meant.
fn no_member(key: &str, name: &str, path: &str, verb: &Command) -> String {
    let plain = name.strip_suffix("-arn").unwrap_or(name);
    let is_meant = |arg: &&Arg| [name, plain].contains(&arg.get_id().as_str().replace('_', "-").as_str());
    if let Some(word) = verb.get_positionals().find(is_meant) {
        let words: Vec<String> = verb.get_positionals().map(ToString::to_string).collect();
        let words = words.join(" ");
        return format!("{FLAG}: {word} is no member of {path} but a word: flowgate {path} {words}");
    }
    let known: Vec<&str> = verb.get_arguments().flat_map(spellings).collect();
    let meant = nearest(name, known.iter().copied());
    let meant = meant.map(|meant| format!("; did you mean {}?", pascal(meant))).unwrap_or_default();
    format!("{FLAG}: {path} has no member '{key}'{meant}")
}

/// Takes the flag out of the words; what it was given, if it is there.
fn take_out(words: &mut Vec<OsString>) -> Result<Option<String>, String> {
    let equals = format!("{FLAG}=");
    let is_it = |word: &OsString| word == FLAG || word.as_encoded_bytes().starts_with(equals.as_bytes());
    let Some(place) = words.iter().position(is_it) else { return Ok(None) };
    let text = |word: OsString| word.into_string().map_err(|_| format!("{FLAG} must be text"));
    let word = text(words.remove(place))?;
    if let Some(given) = word.strip_prefix(&equals) {
        return Ok(Some(given.to_owned()));
    }
    if place == words.len() {
        return Err(format!("{FLAG} needs the members as JSON, or file://PATH"));
    }
    text(words.remove(place)).map(Some)
}

/// The members, from JSON or from a file of it.
fn read(given: &str) -> Result<Map<String, Value>, String> {
    let from_file = given.strip_prefix("file://").map(|path| {
        std::fs::read_to_string(path).map_err(|error| format!("{FLAG}: cannot read {path}: {error}"))
    });
    let text = from_file.unwrap_or_else(|| Ok(given.to_owned()))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(format!("{FLAG} must be one JSON object")),
        Err(error) => Err(format!("{FLAG} is not JSON: {error}")),
    }
}

/// A member as the words of its flag; none for one that says nothing.
fn as_flag(name: &str, value: &Value, arg: &Arg, negation: Option<String>) -> Vec<String> {
    let flag = format!("--{name}");
    let takes_none = matches!(arg.get_action(), ArgAction::SetTrue);
    match value {
        Value::Null => Vec::new(),
        Value::Bool(true) if takes_none => vec![flag],
        Value::Bool(false) if takes_none => negation.map(|name| format!("--{name}")).into_iter().collect(),
        // Joined to its flag, so that a value may begin with a dash.
        Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![format!("{flag}={}", word(value))],
        Value::Array(items) if items.is_empty() => Vec::new(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(|item| format!("{flag}={}", word(item))).collect()
        }
        Value::Array(_) | Value::Object(_) => vec![format!("{flag}={value}")],
    }
}

/// A value as it stands on a command line.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The flag of this name, or of this other name.
fn flag_of<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    verb.get_arguments().find(|arg| spellings(arg).any(|known| known == name))
}

/// What a flag may be called.
fn spellings(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default())
}

/// Whether a word is this flag.
fn is_given(arg: &Arg, word: &OsStr) -> bool {
    let Some(given) = word.to_str().and_then(|word| word.strip_prefix("--")) else { return false };
    let given = given.split_once('=').map_or(given, |(name, _)| name);
    let plain = given.strip_prefix("no-").unwrap_or(given);
    spellings(arg).any(|known| known == given || known == plain)
}

/// `LoadBalancerArn` as `load-balancer-arn`.
fn kebab(member: &str) -> String {
    let mut flag = String::with_capacity(member.len() + 4);
    for letter in member.chars() {
        if letter.is_uppercase() && !flag.is_empty() {
            flag.push('-');
        }
        flag.extend(letter.to_lowercase());
    }
    flag
}

/// `load-balancer-arn` as `LoadBalancerArn`.
fn pascal(flag: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>())
    };
    flag.split('-').filter_map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::super::manual::command;
    use super::*;

    fn of(words: &[&str]) -> Result<Vec<String>, String> {
        let words = std::iter::once("flowgate").chain(words.iter().copied()).map(OsString::from).collect();
        let expanded = expanded(words, &command())?;
        Ok(expanded.into_iter().skip(1).map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn members_become_the_flags_that_they_stand_for() {
        let json = r#"{"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.1", "Weight": 2}]}"#;
        let targets = r#"--targets=[{"Id":"10.0.0.1","Weight":2}]"#;
        assert_eq!(
            of(&["register-targets", "--cli-input-json", json, "--dry-run"]),
            Ok(["register-targets", "--dry-run", "--target-group-arn=fw", targets].map(str::to_owned).into())
        );
        let json = r#"{"Names": ["a", "-b"], "PageSize": 7, "Marker": null, "TargetGroupArns": []}"#;
        assert_eq!(
            of(&["describe-target-groups", &format!("--cli-input-json={json}")]).unwrap()[1..],
            ["--names=a", "--names=-b", "--page-size=7"]
        );
        let json = r#"{"Name": "a", "HealthCheckEnabled": true}"#;
        let create = of(&["create-target-group", "--cli-input-json", json]).unwrap();
        assert!(create.contains(&"--health-check-enabled".to_owned()), "{create:?}");
        let create =
            of(&["create-target-group", "--cli-input-json", &json.replace("true", "false")]).unwrap();
        assert!(create.contains(&"--no-health-check-enabled".to_owned()), "{create:?}");
        // A verb of two words, and one behind a flag whose value is a verb's name.
        let json = r#"{"TargetGroupArn": "fw"}"#;
        assert_eq!(
            of(&["wait", "--json", "target-in-service", "--cli-input-json", json]).unwrap(),
            ["wait", "--json", "target-in-service", "--target-group-arn=fw"]
        );
        assert_eq!(
            of(&[
                "--query",
                "targets",
                "describe-listeners",
                "--cli-input-json",
                r#"{"ListenerArns": ["x"]}"#
            ]),
            Ok(["--query", "targets", "describe-listeners", "--listener-arns=x"].map(str::to_owned).into())
        );
        // What is no verb is told as it is without.
        for words in [&["targetz", "--cli-input-json", "{}"][..], &["wait", "--cli-input-json", "{}"]] {
            assert_eq!(of(words).unwrap(), words[..1]);
        }
        for read in [of(&["register-targets", "--target-group", "fw"]), of(&[])] {
            assert!(read.is_ok_and(|words| !words.iter().any(|word| word.contains('='))), "as it was");
        }
    }

    #[test]
    fn a_flag_beside_it_counts_for_more_whichever_of_its_names_it_has() {
        let json = r#"{"TargetGroupArn": "fw"}"#;
        for given in ["--target-group", "--target-group-arn"] {
            let read = of(&["deregister-targets", given, "other", "--cli-input-json", json]).unwrap();
            assert_eq!(read, ["deregister-targets", given, "other"]);
        }
    }

    #[test]
    fn what_is_wrong_with_it_is_said() {
        for (words, said) in [
            (&["targets", "--cli-input-json"][..], "needs the members as JSON"),
            (&["targets", "--cli-input-json", "x"], "is not JSON"),
            (&["targets", "--cli-input-json", "[]"], "must be one JSON object"),
            (&["targets", "--cli-input-json", "file:///nowhere/at/all"], "cannot read /nowhere/at/all"),
            (&["--cli-input-json", "{}"], "needs a verb"),
            (&["targets", "--cli-input-json", "{}", "--cli-input-json={}"], "is given more than once"),
            (
                &["delete-target-group", "--cli-input-json", r#"{"targetGroupArn": "fw"}"#],
                "delete-target-group has no member 'targetGroupArn'; did you mean TargetGroupArn?",
            ),
            (
                &["wait", "target-in-service", "--cli-input-json", r#"{"target-group-arn": "fw"}"#],
                "wait target-in-service has no member 'target-group-arn'; did you mean TargetGroupArn?",
            ),
            (
                &["drain", "--cli-input-json", r#"{"Target": "10.0.0.1"}"#],
                "<TARGET> is no member of drain but a word: flowgate drain <TARGET>",
            ),
            (
                &["targets", "--cli-input-json", r#"{"TargetGroupArn": "fw"}"#],
                "is no member of targets but a word",
            ),
            (
                &["set", "--cli-input-json", r#"{"Attributes": []}"#],
                "is no member of set but a word: flowgate set <NAME> <KEY=VALUE>",
            ),
            (
                &["delete-target-group", "--cli-input-json", r#"{"TargetGroupArm": "fw"}"#],
                "delete-target-group has no member 'TargetGroupArm'; did you mean TargetGroupArn?",
            ),
        ] {
            let told = of(words).unwrap_err();
            assert!(told.contains(said), "{told}");
        }
    }
}
