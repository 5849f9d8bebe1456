//! Every rule is carried out somewhere and proved by a test, and `docs/conformance.md` says where.
//!
//! The page is made of the sources: ids in `src/`, and ids that test functions carry (`sources.rs`).
//! `UPDATE_DOCS=1 cargo test --test conformance` writes it anew.

mod rules;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use rules::{Rule, SECTIONS};
use sources::{File, Id};

const PAGE: &str = "docs/conformance.md";

/// Rules that are still being built. A rule that is carried out and proved must leave this list, and none may
/// come to it.
const OPEN: &[&str] = &[];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    SECTIONS.iter().flat_map(|(_, rules)| *rules)
}

/// Where a rule is carried out, and the tests that prove it by file.
#[derive(Default)]
struct Places {
    code: BTreeSet<String>,
    tests: BTreeMap<String, BTreeSet<String>>,
}

fn places(files: &BTreeMap<String, File>) -> BTreeMap<Id, Places> {
    let mut places: BTreeMap<Id, Places> = BTreeMap::new();
    for (name, file) in files {
        if is_code(name) {
            for id in &file.code {
                places.entry(id.clone()).or_default().code.insert(name.clone());
            }
        }
        for (test, ids) in &file.tests {
            for id in ids {
                let tests = &mut places.entry(id.clone()).or_default().tests;
                tests.entry(name.clone()).or_default().insert(test.clone());
            }
        }
    }
    places
}

/// Whether a file is of the program, and not of its tests alone.
fn is_code(name: &str) -> bool {
    name.starts_with("src/") && !name.ends_with("/tests.rs") && !name.contains("/tests/")
}

fn page(places: &BTreeMap<Id, Places>) -> String {
    let mut page = String::from(
        "# Conformance\n\n\
         Every rule that Flowgate keeps, where it is carried out, and the tests that prove it. *Own* marks a rule \
         of ours where AWS Gateway Load Balancer is silent, *beyond* one that goes past it; all else is \
         what AWS documents.\n\n\
         This page is made of the sources by `UPDATE_DOCS=1 cargo test --test conformance`, and that test fails \
         when the page is stale, when a rule has no code or no test, and when the sources name a rule that there is \
         not. To run what proves a rule, give its tests' names to `cargo test`.\n",
    );
    for (number, (section, rules)) in (1..).zip(SECTIONS) {
        write!(
            page,
            "\n## {number}. {section}\n\n| id | rule | carried out in | proved by |\n|---|---|---|---|\n"
        )
        .expect("a String");
        for rule in *rules {
            let nowhere = Places::default();
            let places = places.get(rule.id).unwrap_or(&nowhere);
            let mark = match rule.mark.words() {
                "" => String::new(),
                words => format!(" *({words})*"),
            };
            let code: Vec<_> = places.code.iter().map(|file| link(file)).collect();
            let tests = places.tests.iter().map(|(file, tests)| {
                let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
                format!("{}: {}", link(file), tests.join(", "))
            });
            let tests: Vec<_> = tests.collect();
            let (code, tests) = (code.join("<br>"), tests.join("<br>"));
            writeln!(page, "| {} | {}{mark} | {code} | {tests} |", rule.id, rule.words).expect("a String");
        }
    }
    page
}

fn link(file: &str) -> String {
    format!("[{}](../{file})", file.strip_prefix("src/").unwrap_or(file))
}

#[test]
fn every_rule_is_carried_out_and_proved_and_every_id_is_a_rules() {
    let files = sources::read_all(root());
    let places = places(&files);
    let known: BTreeSet<&str> = rules().map(|rule| rule.id).collect();
    let mut faults = Vec::new();
    for (name, file) in &files {
        for id in file.all.iter().filter(|id| !known.contains(id.as_str())) {
            faults.push(format!("{name} names {id}, and there is no such rule"));
        }
    }
    for rule in rules() {
        let (code, tests) =
            places.get(rule.id).map_or((0, 0), |places| (places.code.len(), places.tests.len()));
        match (OPEN.contains(&rule.id), code > 0, tests > 0) {
            (false, false, _) => faults.push(format!("{} is carried out nowhere in src/", rule.id)),
            (false, true, false) => faults.push(format!("{} is proved by no test", rule.id)),
            (true, true, true) => faults.push(format!("{} is open no more: take it off the list", rule.id)),
            (false, true, true) | (true, _, _) => {}
        }
    }
    faults
        .extend(OPEN.iter().filter(|id| !known.contains(*id)).map(|id| format!("{id} is open and no rule")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_page_is_what_the_sources_say() {
    let expected = page(&places(&sources::read_all(root())));
    let path = root().join(PAGE);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, expected).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
        return;
    }
    let seen = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        seen == expected,
        "{PAGE} is stale; `UPDATE_DOCS=1 cargo test --test conformance` writes it anew"
    );
}

#[test]
fn no_id_is_two_rules() {
    let ids: Vec<_> = rules().map(|rule| rule.id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

/// A source file as people write them. (A raw string, so that nothing in it is of this file's tokens.)
const SOURCE: &str = r##"
//! Of A-1.
/// T-1..T-3 and `UTF-8`.
fn code() { let rule = "F-7"; /* not read */ }
#[cfg(test)]
mod tests {
    // O-1: of no test
    fn fixture() {}

    // R-4, R-7: told apart from "F-9 // F-10"
    // and F-11
    #[test]
    #[should_panic(expected = "W-2")]
    fn by_comment() {
        // R-1 to R-3, R-5; and not W-1
        let url = "http://of.no/rule"; // F-12 at the end of a line
        // see M-1
        assert!(true, "H-3: a message");
    }

    proptest! {
        #[test]
        fn f_1_f2_by_name_not_a_6(x: u8) { assert!(x < 3); }
    }

    /// O-3
    #[tokio::test(start_paused = true)]
    async fn documented() {}
}
"##;

#[test]
fn ids_are_found_where_they_belong_to_a_test() {
    let file = File::read(SOURCE).expect("it is Rust");
    let of = |test: &str| file.tests[test].iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    assert_eq!(of("by_comment"), "F-10 F-11 F-12 F-9 H-3 R-1 R-2 R-3 R-4 R-5 R-7 W-2");
    assert_eq!(of("f_1_f2_by_name_not_a_6"), "F-1 F-2");
    assert_eq!(of("documented"), "O-3");
    assert_eq!(file.tests.len(), 3);
    let code: Vec<_> = file.code.iter().map(String::as_str).collect();
    assert_eq!(code, ["A-1", "F-7", "T-1", "T-2", "T-3"]);
    assert!(file.all.contains("M-1") && file.all.contains("O-1"), "every id must be a rule's");
}

#[test]
fn a_name_is_an_id_only_as_far_as_it_is_spelled_like_one() {
    let cases = [
        ("r_4_a_reset", vec!["R-4"]),
        ("h1_h2_thresholds", vec!["H-1", "H-2"]),
        ("f_11_f_12_the_table", vec!["F-11", "F-12"]),
        ("a_code_that_is_not_there_is_told_h5", vec!["H-5"]),
        ("a_verdict_h4_h9", vec!["H-9", "H-4"]),
        ("a_reset_is_for_tcp_only", vec![]),
        ("the_reset_of_r_4", vec![]),
        ("t", vec![]),
    ];
    for (name, ids) in cases {
        assert_eq!(sources::ids_of_name(name), ids, "{name}");
    }
}
