//! Every log line of the daemon has a name of its own, and `docs/logging.md` lists them all: read from the source, so
//! that none can be added without. And workers have none.
//!
//! `UPDATE_DOCS=1 cargo test --test log_lines` writes the list anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

const DOCUMENT: &str = "docs/logging.md";

/// A line as the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    level: String,
    fields: Vec<String>,
    message: String,
    file: PathBuf,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The `tracing::level!(…)` of a file, each with its arguments; those in its tests are left out.
fn macros(tokens: TokenStream, found: &mut Vec<(String, TokenStream)>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |at: usize| match trees.get(at) {
        Some(TokenTree::Ident(word)) => word.to_string(),
        Some(TokenTree::Punct(mark)) => mark.as_char().to_string(),
        _ => String::new(),
    };
    let mut at = 0;
    while at < trees.len() {
        let is_macro =
            word(at) == "tracing" && word(at + 1) == ":" && word(at + 2) == ":" && word(at + 4) == "!";
        if is_macro && let Some(TokenTree::Group(arguments)) = trees.get(at + 5) {
            found.push((word(at + 3), arguments.stream()));
            at += 6;
            continue;
        }
        // `mod tests { … }`
        let is_tests = word(at) == "mod" && word(at + 1) == "tests";
        if is_tests {
            at += 2;
        } else if let TokenTree::Group(group) = &trees[at] {
            macros(group.stream(), found);
        }
        at += 1;
    }
}

/// What lies between the commas.
fn arguments(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut all = vec![Vec::new()];
    for tree in tokens {
        match &tree {
            TokenTree::Punct(mark) if mark.as_char() == ',' => all.push(Vec::new()),
            _ => all.last_mut().unwrap().push(tree),
        }
    }
    all.retain(|argument| !argument.is_empty());
    all
}

/// A string literal's text.
fn text(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    let text = literal.to_string();
    // Lines are broken with a backslash.
    let text = text.strip_prefix('"')?.strip_suffix('"')?.replace("\\\n", "");
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The name and the rest of a line.
fn read(level: String, tokens: TokenStream, file: &Path) -> (String, Line) {
    let (mut name, mut fields, mut message) = (None, Vec::new(), None);
    for argument in arguments(tokens) {
        let words: Vec<String> = argument.iter().map(ToString::to_string).collect();
        if words[0] == "name" && words[1] == ":" {
            name = text(&argument[2]);
        } else if let Some(text) = text(&argument[0]) {
            message.get_or_insert(text);
        } else if message.is_none() {
            // `field = …`, `%field`, `?field`, `field`.
            fields.push(words.into_iter().find(|word| word != "%" && word != "?").unwrap());
        }
    }
    let file = file.strip_prefix(root()).unwrap().to_owned();
    let name = name.unwrap_or_else(|| panic!("{}: a line has no name: {message:?}", file.display()));
    (name, Line { level, fields, message: message.unwrap_or_default(), file })
}

/// The daemon's lines by name.
fn lines() -> BTreeMap<String, Vec<Line>> {
    let mut files = Vec::new();
    for part in ["control", "io", "bin/flowgated"] {
        sources(&root().join("src").join(part), &mut files);
    }
    files.sort();
    let mut all = BTreeMap::<String, Vec<Line>>::new();
    for file in
        files.iter().filter(|file| !file.ends_with("tests.rs") && !file.iter().any(|part| part == "tests"))
    {
        let mut found = Vec::new();
        macros(fs::read_to_string(file).unwrap().parse().expect("Rust"), &mut found);
        for (level, tokens) in found {
            if ["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) {
                let (name, line) = read(level, tokens, file);
                all.entry(name).or_default().push(line);
            }
        }
    }
    all
}

#[test]
fn every_line_has_a_name_of_its_own_and_the_list_has_them_all() {
    let lines = lines();
    assert!(lines.len() > 40, "{}", lines.len());
    let mut table = "| event | level | fields | message |\n|---|---|---|---|\n".to_owned();
    for (name, same) in &lines {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(plain), "{name}: a name is of small letters and _");
        let Line { level, message, .. } = &same[0];
        // The same event may be told from two places, in the same words.
        for other in same {
            assert_eq!((&other.level, &other.message), (level, message), "{name}: {}", other.file.display());
        }
        let mut fields: Vec<String> = Vec::new();
        for field in same.iter().flat_map(|line| &line.fields).map(|field| format!("`{field}`")) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        writeln!(table, "| `{name}` | {level} | {} | {message} |", fields.join(", ")).unwrap();
    }
    let path = root().join(DOCUMENT);
    let document = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- events: begin -->\n", "<!-- events: end -->");
    let (before, rest) = document.split_once(begin).expect("a place for the list");
    let (_, after) = rest.split_once(end).expect("the list's place has an end");
    let current = format!("{before}{begin}\n{table}\n{end}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, current).unwrap();
    } else {
        assert!(document == current, "{DOCUMENT} lists other lines than there are");
    }
}

#[test]
fn what_workers_run_makes_no_line() {
    let mut files = Vec::new();
    for part in ["datapath", "flow", "wire", "balance"] {
        sources(&root().join("src").join(part), &mut files);
    }
    assert!(files.len() > 80);
    for file in files {
        let source: TokenStream = fs::read_to_string(&file).unwrap().parse().expect("Rust");
        assert!(!logs(source), "{} logs", file.display());
    }
}

/// Whether anything is logged or printed.
fn logs(tokens: TokenStream) -> bool {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    trees.iter().enumerate().any(|(at, tree)| match tree {
        TokenTree::Ident(word) if *word == "tracing" => true,
        TokenTree::Ident(word) => {
            let is_macro = matches!(trees.get(at + 1), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
            is_macro && ["println", "eprintln", "print", "eprint", "dbg"].iter().any(|name| word == name)
        }
        TokenTree::Group(group) => logs(group.stream()),
        _ => false,
    })
}
