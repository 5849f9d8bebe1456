//! Records: what is read of one is what was written, in both forms, and nothing leads out of it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use flowgate::cli::doctor::{Entry, Host, examine, record};

use super::{entries, folder, hosts, look_at};

#[test]
fn a_record_of_a_record_says_the_same() {
    for (name, text) in hosts() {
        let (report, seen) = look_at(entries(&text));
        let again = record::parse(&record::text(&seen)).expect("a record");
        assert_eq!(look_at(again).0, report, "{name}");
    }
}

#[test]
fn a_host_of_the_tests_has_nothing_that_no_check_reads() {
    for (name, text) in hosts() {
        let all = entries(&text);
        let seen = look_at(all.clone()).1;
        let unread: Vec<_> = all.keys().filter(|path| !seen.contains_key(*path)).collect();
        assert!(unread.is_empty(), "{name}: {unread:#?}");
    }
}

#[test]
fn a_line_that_is_no_entry_is_named() {
    for (text, said) in [
        ("/a = 1\nnonsense\n", "line 2 is no entry of a record: nonsense"),
        ("\tmore\n", "line 1 belongs to no file"),
        ("a = 1\n", "'a' is no path from the root"),
        ("# nothing\n", "it has no entry of a record"),
    ] {
        assert_eq!(record::parse(text), Err(said.to_owned()));
    }
}

#[test]
fn every_kind_of_entry_is_written_and_read_again() {
    let all: BTreeMap<String, Entry> = [
        ("/one", Entry::Text("1\n".to_owned())),
        ("/several", Entry::Text("a\n\n\tb = c\n".to_owned())),
        ("/empty", Entry::Text("\n".to_owned())),
        ("/link", Entry::Link("../there".to_owned())),
        ("/folder/below", Entry::Folder),
        ("/refused", Entry::Refused("Permission denied (os error 13)".to_owned())),
    ]
    .map(|(path, entry)| (path.to_owned(), entry))
    .into();
    assert_eq!(record::parse(&record::text(&all)), Ok(all));
}

/// A link in a record that a stranger sends is not followed.
#[test]
fn nothing_that_lies_outside_of_a_recorded_folder_is_read() {
    let (_kept, root) = folder();
    std::fs::write(root.join("secret"), "hash_seed = 1\n").expect("writable");
    let tree = root.join("tree");
    std::fs::create_dir_all(tree.join("etc/flowgate")).expect("writable");
    symlink(root.join("secret"), tree.join("etc/flowgate/node.toml")).expect("writable");
    let host = Host::open(&tree).expect("a record");
    let report = examine(&host, Path::new("/etc/flowgate/node.toml"), Path::new("/nowhere"));
    let configuration = report.items.iter().find(|item| item.id == "configuration").expect("an item");
    assert!(configuration.found.contains("there is no such file"), "{configuration:?}");
}
