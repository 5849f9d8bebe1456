//! What the sources say of the rules: in which files of `src/` an id stands, and which test functions
//! carry it. Read with a Rust lexer, so that an id counts where it belongs to a test and nowhere else:
//!
//! - in the test's name, before or after the sentence: `r_4_…`, `h1_h2_…`, `…_h5`;
//! - in the comment above it, or in a comment within it that begins with ids: `// R-4, R-7: …`;
//! - in a string within it, which is what an assertion says when it fails: `"R-4"`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LineColumn, Span, TokenStream, TokenTree};

/// A rule's id, as it is written: a letter, a hyphen, a number.
pub type Id = String;

/// What one file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Ids by the test function that carries them.
    pub tests: BTreeMap<String, BTreeSet<Id>>,
    /// Ids outside of all that is only compiled for tests.
    pub code: BTreeSet<Id>,
    /// Every id in the file.
    pub all: BTreeSet<Id>,
}

/// Every file of the repository that may speak of rules, by its path from the root.
pub fn read_all(root: &Path) -> BTreeMap<String, File> {
    let mut paths = Vec::new();
    for folder in ["src", "tests", "bench", "dpdk-bindings"] {
        collect(&root.join(folder), &mut paths);
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(root).expect("found below it").to_string_lossy().into_owned();
        let file = File::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, file)
    };
    // This test's own sources name every rule and prove none.
    let ours = root.join("tests/conformance");
    paths.into_iter().filter(|path| !path.starts_with(&ours)).map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder's entry").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// A piece of text that may hold ids, and where it is.
struct Words {
    line: usize,
    text: String,
    comment: bool,
    /// Only blanks are before it on its line.
    first_on_its_line: bool,
}

/// A function that the test runner calls.
struct Test {
    name: String,
    /// The lines from the first of its attributes to its closing brace.
    lines: std::ops::RangeInclusive<usize>,
}

impl File {
    /// Reads a source file.
    pub fn read(text: &str) -> Result<File, String> {
        let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        let mut found = Found::default();
        found.walk(tokens, &lines);
        let words = found.words(&lines);

        let mut file =
            File { all: words.iter().flat_map(|words| ids(&words.text)).collect(), ..File::default() };
        for test in &found.tests {
            let above = comment_above(&words, *test.lines.start());
            let within = words.iter().filter(|words| test.lines.contains(&words.line));
            let mut carried: BTreeSet<Id> = ids_of_name(&test.name).into_iter().collect();
            carried.extend(above.iter().flat_map(|words| ids(&words.text)));
            carried.extend(
                within.flat_map(
                    |words| {
                        if words.comment { leading_ids(&words.text) } else { ids(&words.text) }
                    },
                ),
            );
            file.all.extend(carried.iter().cloned());
            file.tests.entry(test.name.clone()).or_default().extend(carried);
        }
        let only_for_tests = |line: usize| {
            found.only_for_tests.iter().any(|lines| lines.contains(&line))
                || found.tests.iter().any(|test| test.lines.contains(&line))
        };
        let code = words.iter().filter(|words| !only_for_tests(words.line));
        file.code = code.flat_map(|words| ids(&words.text)).collect();
        Ok(file)
    }
}

/// The comment lines that end just above `line`.
fn comment_above(words: &[Words], line: usize) -> Vec<&Words> {
    let comment_on = |line: usize| {
        words.iter().find(|words| words.line == line && words.comment && words.first_on_its_line)
    };
    (1..line).rev().map_while(comment_on).collect()
}

/// What the lexer finds.
#[derive(Default)]
struct Found {
    tests: Vec<Test>,
    /// Modules and other items under `#[cfg(test)]`.
    only_for_tests: Vec<std::ops::RangeInclusive<usize>>,
    /// String and other literals; not documentation comments.
    literals: Vec<(LineColumn, LineColumn, String)>,
}

impl Found {
    /// Walks a sequence of tokens: a file, or what is between two brackets. A `proptest!` block is no
    /// different from a module here, as its tests are functions with `#[test]` too.
    fn walk(&mut self, tokens: TokenStream, lines: &[Vec<char>]) {
        // Where the item that is being read begins, and what its attributes say.
        let mut begins: Option<usize> = None;
        let (mut is_test, mut is_for_tests) = (false, false);
        let mut function: Option<String> = None;
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let line = token.span().start().line;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(group)) = tokens.peek()
                        && group.delimiter() == Delimiter::Bracket
                    {
                        if !is_comment(group.span(), lines) {
                            begins.get_or_insert(line);
                        }
                        is_test |= path_of(group).last().is_some_and(|last| last == "test");
                        is_for_tests |= group.to_string().replace(' ', "").starts_with("[cfg(test)]");
                    }
                }
                TokenTree::Ident(ident) if ident == "fn" => {
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        function = Some(name.to_string());
                        begins.get_or_insert(line);
                    }
                }
                TokenTree::Group(group) => {
                    let ends = group.span_close().end().line;
                    let closes = group.delimiter() == Delimiter::Brace;
                    self.walk(group.stream(), lines);
                    if closes {
                        let from = begins.take().unwrap_or(line);
                        if let Some(name) = function.take().filter(|_| is_test) {
                            self.tests.push(Test { name, lines: from..=ends });
                        }
                        if is_for_tests {
                            self.only_for_tests.push(from..=ends);
                        }
                        (is_test, is_for_tests) = (false, false);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    begins = None;
                    (is_test, is_for_tests, function) = (false, false, None);
                }
                TokenTree::Literal(literal) => {
                    let span = literal.span();
                    if !is_comment(span, lines) {
                        self.literals.push((span.start(), span.end(), literal.to_string()));
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    /// Comments and literals, by line.
    fn words(&self, lines: &[Vec<char>]) -> Vec<Words> {
        let mut words: Vec<Words> = self
            .literals
            .iter()
            .map(|(start, _, text)| Words {
                line: start.line,
                text: text.clone(),
                comment: false,
                first_on_its_line: false,
            })
            .collect();
        for (number, line) in (1..).zip(lines) {
            let in_literal = |column: usize| {
                let at = LineColumn { line: number, column };
                self.literals.iter().any(|(start, end, _)| *start <= at && at < *end)
            };
            let starts = line.windows(2).enumerate().filter(|(_, pair)| *pair == ['/', '/']);
            if let Some(column) = starts.map(|(column, _)| column).find(|column| !in_literal(*column)) {
                words.push(Words {
                    line: number,
                    text: line[column..].iter().collect::<String>().trim_start_matches(['/', '!']).to_owned(),
                    comment: true,
                    first_on_its_line: line[..column].iter().all(|c| c.is_whitespace()),
                });
            }
        }
        words.sort_by_key(|words| words.line);
        words
    }
}

/// Whether what the lexer gives as a token is a documentation comment in the text.
fn is_comment(span: Span, lines: &[Vec<char>]) -> bool {
    let LineColumn { line, column } = span.start();
    let at = |n: usize| lines.get(line - 1).and_then(|line| line.get(column + n));
    at(0) == Some(&'/') && matches!(at(1), Some('/' | '*'))
}

/// The path that an attribute begins with: `tokio`, `test` of `#[tokio::test(start_paused = true)]`.
fn path_of(attribute: &Group) -> Vec<String> {
    let mut path = Vec::new();
    for token in attribute.stream() {
        match token {
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            _ => break,
        }
    }
    path
}

const LETTERS: &str = "OAHFTRWMC";

/// The ids in a text, ranges such as `T-1 to T-7` and `A-1..A-12` written out.
pub fn ids(text: &str) -> Vec<Id> {
    let mut found: Vec<Id> = Vec::new();
    let mut last: Option<(char, u32, usize)> = None;
    for (letter, number, from, to) in spelled(text) {
        if let Some((first, low, end)) = last
            && first == letter
            && matches!(text[end..from].trim(), "to" | ".." | "–")
        {
            found.extend((low + 1..number).map(|between| format!("{letter}-{between}")));
        }
        found.push(format!("{letter}-{number}"));
        last = Some((letter, number, to));
    }
    found
}

/// The ids that a text begins with, separated by commas or as a range; and none if it begins otherwise.
fn leading_ids(text: &str) -> Vec<Id> {
    let mut end = 0;
    for (_, _, from, to) in spelled(text) {
        if !matches!(text[end..from].trim(), "" | "," | "to" | ".." | "–" | "and" | ", and") {
            break;
        }
        end = to;
    }
    ids(&text[..end])
}

/// Every id as it is spelled, with where it begins and ends.
fn spelled(text: &str) -> Vec<(char, u32, usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for at in 0..bytes.len() {
        let letter = char::from(bytes[at]);
        let before = at.checked_sub(1).map(|before| bytes[before]);
        if !LETTERS.contains(letter) || bytes.get(at + 1) != Some(&b'-') {
            continue;
        }
        // Not the end of a word: UTF-8, SHA-256.
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            continue;
        }
        let digits = bytes[at + 2..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = at + 2 + digits;
        let goes_on = bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if let Ok(number) = text[at + 2..end].parse()
            && !goes_on
        {
            found.push((letter, number, at, end));
        }
    }
    found
}

/// The ids that a test's name begins with, `f_11_f_12_…`, `h1_h2_…`, or ends with, `…_h4_h5`.
pub fn ids_of_name(name: &str) -> Vec<Id> {
    let whole = |part: &str| {
        let letter = part.chars().next().map(|c| c.to_ascii_uppercase()).filter(|c| LETTERS.contains(*c))?;
        Some(format!("{letter}-{}", part[1..].parse::<u32>().ok()?))
    };
    let mut found: Vec<Id> = name.rsplit('_').map_while(whole).collect();
    let mut parts = name.split('_').peekable();
    while let Some(part) = parts.next() {
        let mut chars = part.chars();
        let Some(letter) = chars.next().map(|c| c.to_ascii_uppercase()).filter(|c| LETTERS.contains(*c))
        else {
            break;
        };
        let digits = match chars.as_str() {
            "" => parts.next().unwrap_or_default(),
            digits => digits,
        };
        let Ok(number) = digits.parse::<u32>() else { break };
        found.push(format!("{letter}-{number}"));
    }
    found
}
