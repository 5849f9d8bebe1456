//! `flowgate doctor` over hosts that we do not have: each of `hosts/` is a record as `--record` makes it, with the
//! findings that are expected of it in its head (`#! VERDICT ID [OBJECT]`). What is not listed there must be well.

mod command;
mod coverage;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flowgate::cli::doctor::{Entry, Host, Report, Verdict, examine, record};

/// The hosts, by name.
fn hosts() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/hosts");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let files = entries.map(|entry| entry.expect("readable").path());
    let hosts: BTreeMap<String, String> = files
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            // Recorded beside a daemon of the version that is tested.
            let text = std::fs::read_to_string(&path).expect("readable");
            (
                name,
                text.replace(
                    "\"Version\": \"0.1.0\"",
                    &format!("\"Version\": {:?}", env!("CARGO_PKG_VERSION")),
                ),
            )
        })
        .collect();
    assert!(hosts.len() >= 7, "{:?}", hosts.keys());
    hosts
}

/// What is recorded of a host.
fn entries(text: &str) -> BTreeMap<String, Entry> {
    record::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// What is found of it. Neither path is of this machine.
fn look_at(entries: BTreeMap<String, Entry>) -> (Report, BTreeMap<String, Entry>) {
    let host = Host::recorded(entries);
    let report = examine(&host, Path::new("/nowhere/node.toml"), Path::new("/run/flowgate/flowgated.sock"));
    (report, host.seen())
}

/// What is not well, or cannot be told: `warning firmware targets`.
fn not_well(report: &Report) -> BTreeSet<String> {
    let items = report.items.iter().filter(|item| item.verdict != Verdict::Ok);
    items
        .map(|item| {
            let verdict = item.verdict.to_string().replace(' ', "-");
            let object = item.object.as_ref().map(|object| format!(" {object}")).unwrap_or_default();
            format!("{verdict} {}{object}", item.id)
        })
        .collect()
}

#[test]
fn of_each_host_is_found_what_is_wrong_with_it_and_nothing_else() {
    for (name, text) in hosts() {
        let expected: BTreeSet<String> =
            text.lines().filter_map(|line| line.strip_prefix("#! ")).map(str::to_owned).collect();
        let found = not_well(&look_at(entries(&text)).0);
        let missing: Vec<_> = expected.difference(&found).collect();
        let unexpected: Vec<_> = found.difference(&expected).map(|line| format!("#! {line}")).collect();
        assert!(
            missing.is_empty() && unexpected.is_empty(),
            "{name}: not found: {missing:#?}\nbesides:\n{}",
            unexpected.join("\n")
        );
    }
}

#[test]
fn whatever_is_not_well_says_why_it_matters_and_where_there_is_more_of_it() {
    for (name, text) in hosts() {
        for item in look_at(entries(&text)).0.items {
            assert!(!item.found.is_empty() && item.why.ends_with('.'), "{name}: {item:?}");
            assert!(!item.found.ends_with('.') && !item.found.contains("Some("), "{name}: {item:?}");
            assert_eq!(item.documented, format!("docs/bare-metal.md#{}", item.id));
            // A problem is mended by a command, or by what was found, which then says so.
            let is_clear = item.command.is_some() || item.found.len() > 20;
            assert!(item.verdict < Verdict::Advice || is_clear, "{name}: {item:?}");
        }
    }
}

#[test]
fn tables_that_a_daemon_has_left_need_no_free_pages() {
    let mut host = entries(&hosts()["two-sockets"]);
    let free = |host: &BTreeMap<String, Entry>| {
        let items = look_at(host.clone()).0.items;
        items.into_iter().find(|item| item.id == "hugepages-free").expect("it is looked at")
    };
    assert_eq!(free(&host).verdict, Verdict::Warning);
    host.insert("/flowgate/kept-tables-mib".to_owned(), Entry::Text("2880".to_owned()));
    let item = free(&host);
    assert_eq!(item.verdict, Verdict::Ok, "{item:?}");
    assert!(item.found.ends_with(", besides 2880 MiB of flow tables that are kept for it"), "{item:?}");
}

#[test]
fn the_command_for_a_card_with_addresses_is_one_that_setup_does_not_refuse() {
    let items = look_at(entries(&hosts()["just-racked"])).0.items;
    let is_it = |item: &&_| -> bool {
        let item: &flowgate::cli::doctor::Item = item;
        item.id == "driver" && item.found.contains("its interface ens1f0 has addresses")
    };
    let command = items.iter().find(is_it).and_then(|item| item.command.clone());
    let command = command.expect("one that mends it");
    assert!(command.ends_with("setup --bind 0000:17:00.0 --force --yes"), "{command}");
}

/// A folder of the test's own.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    (folder, path)
}
