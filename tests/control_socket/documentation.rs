//! `docs/control-socket.md` is what the daemon says: every method has its section, and every exchange
//! in it is held here, against a daemon just started, and compared to the letter.
//!
//! After a change of the protocol `UPDATE_DOCS=1 cargo test --test control_socket` writes the answers
//! anew; read the difference before it is committed.

use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::{API_MAJOR, API_MINOR, methods};
use std::path::PathBuf;

const FENCE: &str = "```jsonrpc\n";
/// Exchanges fit this many columns, where a string does not alone take more.
const WIDTH: usize = 100;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/control-socket.md")
}

#[test]
fn every_exchange_in_the_documentation_is_what_the_daemon_says() {
    let text = std::fs::read_to_string(file()).unwrap();
    let mut parts = text.split(FENCE);
    let mut current = parts.next().unwrap().to_owned();
    let mut exchanges = 0;
    for part in parts {
        let (block, rest) = part.split_once("```\n").expect("a block that ends");
        current.push_str(FENCE);
        current.push_str(&held(block));
        current.push_str("```\n");
        current.push_str(rest);
        exchanges += 1;
    }
    assert!(exchanges > 0);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file(), current).unwrap();
    } else {
        assert!(text == current, "docs/control-socket.md differs from what the daemon says:\n{current}");
    }
}

#[test]
fn every_method_has_its_section_with_its_sentence_and_an_exchange() {
    let text = std::fs::read_to_string(file()).unwrap();
    for method in methods::debug_dispatcher().methods() {
        let heading = format!("\n### `{}`\n", method.name);
        let section = text.split_once(&heading).unwrap_or_else(|| panic!("{} has no section", method.name)).1;
        let section = section.split("\n### ").next().unwrap();
        assert!(
            section.contains(method.summary),
            "{}: its sentence is not {:?}",
            method.name,
            method.summary
        );
        let call = format!("\"method\":\"{}\"", method.name);
        assert!(section.contains(&call), "{} has no exchange", method.name);
    }
}

/// Whoever adds a method has to say with which version it comes, and the daemon that it is of that version.
#[test]
fn every_method_came_with_one_version_and_the_last_one_is_the_daemons() {
    let text = std::fs::read_to_string(file()).unwrap();
    let section = text.split_once("\n## Versions\n").unwrap().1.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| 1."));
    let (mut versions, mut told) = (Vec::new(), Vec::new());
    for row in rows {
        let mut cells = row.split('|').map(str::trim).skip(1);
        versions.push(cells.next().unwrap().to_owned());
        let methods = cells.next().unwrap().split(", ").filter(|name| !name.is_empty());
        told.extend(methods.map(|name| name.trim_matches('`').to_owned()));
    }
    let until_now: Vec<String> = (0..=API_MINOR).map(|minor| format!("{API_MAJOR}.{minor}")).collect();
    assert_eq!(versions, until_now);
    told.sort_unstable();
    let table = methods::dispatcher();
    let mut there: Vec<&str> = table.methods().map(|method| method.name).collect();
    there.sort_unstable();
    assert_eq!(told, there);
}

/// The exchanges of the documentation, each as its block has it.
pub fn blocks() -> Vec<String> {
    let text = std::fs::read_to_string(file()).unwrap();
    let blocks = text.split(FENCE).skip(1);
    blocks.map(|part| part.split_once("```\n").expect("a block that ends").0.to_owned()).collect()
}

/// The exchange of `block` as it goes with a daemon just started: its requests, and as many lines
/// from the daemon after each as the block has.
fn held(block: &str) -> String {
    let daemon = Daemon::start();
    let mut client = Client::connect_rudely(&daemon.path());
    if !block.starts_with('←') {
        client.read();
    }
    let mut text = String::new();
    for line in block.lines() {
        if let Some(request) = line.strip_prefix("→ ") {
            client.send(request.as_bytes());
            client.send(b"\n");
            text.push_str(&format!("{line}\n"));
        } else if line.starts_with('←') {
            let answer = client.read_line();
            text.push_str(&format!("← {}\n", laid_out(answer.trim_end(), 2, WIDTH - 2)));
        }
    }
    text
}

/// JSON without blanks, laid out: what fits on a line is on one, and members keep their order.
fn laid_out(json: &str, indent: usize, room: usize) -> String {
    let inline = spaced(json);
    let (open, close) = (&json[..1], &json[json.len() - 1..]);
    if inline.chars().count() <= room || !matches!(open, "{" | "[") {
        return inline;
    }
    let inner = " ".repeat(indent + 2);
    let members: Vec<String> = members(&json[1..json.len() - 1])
        .into_iter()
        .map(|member| {
            let value_at = if open == "{" { member.find("\":").map_or(0, |colon| colon + 2) } else { 0 };
            let (key, value) = member.split_at(value_at);
            let key = if key.is_empty() { String::new() } else { format!("{key} ") };
            let room = WIDTH.saturating_sub(inner.len() + key.len() + 1);
            format!("{inner}{key}{}", laid_out(value, indent + 2, room))
        })
        .collect();
    format!("{open}\n{}\n{}{close}", members.join(",\n"), " ".repeat(indent))
}

/// The members of an object or array, between its brackets.
fn members(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (at, byte) in outside_strings(text) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                all.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[start..]);
    all
}

/// A blank after each comma and colon.
fn spaced(json: &str) -> String {
    let mut text = String::new();
    let mut from = 0;
    for (at, byte) in outside_strings(json) {
        if matches!(byte, b',' | b':') {
            text.push_str(&json[from..=at]);
            text.push(' ');
            from = at + 1;
        }
    }
    text + &json[from..]
}

/// The bytes of `json` that are not within its strings, with their places.
fn outside_strings(json: &str) -> Vec<(usize, u8)> {
    let (mut within, mut escaped) = (false, false);
    let mut outside = Vec::new();
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if within => escaped = true,
            b'"' => within = !within,
            _ if !within => outside.push((at, byte)),
            _ => {}
        }
    }
    outside
}
