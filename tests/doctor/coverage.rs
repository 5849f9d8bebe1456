//! Each item is seen well and not well, and none is constant: something that was recorded of a host, changed by itself,
//! changes what is found.

use std::collections::{BTreeMap, BTreeSet};

use flowgate::cli::doctor::{Entry, Kind, Report, Verdict};

use super::{entries, hosts, look_at};

fn ids() -> BTreeSet<&'static str> {
    Kind::ALL.iter().map(|kind| kind.id()).collect()
}

#[test]
fn each_item_is_seen_well_and_not_well() {
    let (mut well, mut not) = (BTreeSet::new(), BTreeSet::new());
    for text in hosts().into_values() {
        for item in look_at(entries(&text)).0.items {
            match item.verdict {
                Verdict::Ok => well.insert(item.id),
                // What cannot be read is all that this one says.
                Verdict::CannotTell if item.id == Kind::Everything.id() => not.insert(item.id),
                Verdict::CannotTell => false,
                Verdict::Advice | Verdict::Warning | Verdict::Problem => not.insert(item.id),
            };
        }
    }
    let lacking = |seen: &BTreeSet<String>| -> Vec<&str> {
        ids().into_iter().filter(|id| !seen.contains(*id)).collect()
    };
    assert_eq!(lacking(&well), [""; 0], "never seen well");
    assert_eq!(lacking(&not), [""; 0], "never seen not well");
}

/// What each item says, all of its objects together.
fn verdicts(report: &Report) -> BTreeMap<&str, Vec<(Option<&str>, Verdict)>> {
    let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for item in &report.items {
        all.entry(&item.id).or_default().push((item.object.as_deref(), item.verdict));
    }
    all
}

/// An entry as it might be on another host; none of these: it is not there.
fn changes(entry: &Entry) -> Vec<Option<Entry>> {
    let mut changes = vec![None, Some(Entry::Refused("Permission denied".to_owned()))];
    if let Entry::Text(text) = entry {
        // Longer ones are changed by a line at a time.
        for (from, to) in [
            ("true", "false"),
            ("false", "true"),
            ("up\":true", "up\":false"),
            ("1500", "9000"),
            ("reachable", "failed"),
            ("0.1.0", "0.0.1"),
            ("\"Mac\"", "\"Max\""),
        ] {
            changes.push(Some(Entry::Text(text.replace(from, to))));
        }
        let number = |text: &str| text.trim().parse::<u64>().is_ok();
        if number(text) {
            changes.extend(["0", "1", "4096"].map(|other| Some(Entry::Text(other.to_owned()))));
        }
        for word in ["0777 0 0", "N", "hpet", "powersave", "0-1", "", "0000000000000000"] {
            changes.push(Some(Entry::Text(word.to_owned())));
        }
    }
    changes
}

#[test]
fn no_item_says_the_same_whatever_the_host_is_like() {
    let mut moved: BTreeSet<String> = BTreeSet::new();
    for text in hosts().into_values() {
        let all = entries(&text);
        let before = look_at(all.clone()).0;
        let before = verdicts(&before);
        for (path, entry) in &all {
            for change in changes(entry).into_iter().filter(|change| change.as_ref() != Some(entry)) {
                let mut other = all.clone();
                match change {
                    Some(change) => other.insert(path.clone(), change),
                    None => other.remove(path),
                };
                let after = look_at(other).0;
                let after = verdicts(&after);
                // Without a configuration nothing else can be told: that is no proof of an item's own reading.
                let config_is_gone = before["configuration"] != after["configuration"];
                let moves = before.iter().filter(|(id, said)| {
                    after.get(*id) != Some(said) && (!config_is_gone || **id == "configuration")
                });
                moved.extend(moves.map(|(id, _)| (*id).to_owned()));
            }
        }
    }
    let constant: Vec<_> = ids().into_iter().filter(|id| !moved.contains(*id)).collect();
    assert_eq!(constant, [""; 0], "nothing that was recorded makes a difference to these");
}
