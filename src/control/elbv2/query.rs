//! The Query protocol's request body: `Action=…&Targets.member.1.Id=…`, read into a tree by the dots.
//!
//! Promises that any bytes become a tree or a refusal, in time and memory linear in their number: an
//! index such as `member.4000000000` is a name like any other and makes room for nothing.

use std::collections::BTreeMap;

use percent_encoding::percent_decode;

use super::fault::Fault;

/// The most parameters of one request: three for each of the 4,096 targets that a group holds, and room.
const MAX_PARAMETERS: usize = 16_384;
/// The longest name of a parameter, in bytes as sent. The longest that has a meaning is a third of it.
const MAX_NAME: usize = 256;
/// The deepest name: that of a listener's target group has eight parts.
const MAX_DEPTH: usize = 12;

/// A parameter's value, or the parameters below its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The value.
    Leaf(String),
    /// The values below it, by the next part of their names.
    Branch(BTreeMap<String, Tree>),
}

/// Reads a body.
///
/// # Errors
/// `MalformedQueryString` with the reason.
pub fn parse(body: &[u8]) -> Result<BTreeMap<String, Tree>, Fault> {
    let mut root = BTreeMap::new();
    let mut count = 0;
    for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        count += 1;
        if count > MAX_PARAMETERS {
            return Err(malformed(format!("there are more than {MAX_PARAMETERS} parameters")));
        }
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if name.len() > MAX_NAME {
            return Err(malformed(format!("the name of parameter {count} is longer than {MAX_NAME} bytes")));
        }
        let name = decode(name).map_err(|why| malformed(format!("the name of parameter {count} {why}")))?;
        let value =
            decode(value).map_err(|why| malformed(format!("the value of parameter {count} {why}")))?;
        place(&mut root, &name, value)?;
    }
    Ok(root)
}

/// Puts a value where its name says.
fn place(root: &mut BTreeMap<String, Tree>, name: &str, value: String) -> Result<(), Fault> {
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() > MAX_DEPTH {
        return Err(malformed(format!("the name of a parameter has more than {MAX_DEPTH} parts")));
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Err(malformed(format!("the name '{name}' has an empty part")));
    }
    let (last, path) = parts.split_last().unwrap_or((&"", &[]));
    let mut level = root;
    for part in path {
        let next = level.entry((*part).to_owned()).or_insert_with(|| Tree::Branch(BTreeMap::new()));
        // An empty list is sent as its bare name.
        if matches!(next, Tree::Leaf(text) if text.is_empty()) {
            *next = Tree::Branch(BTreeMap::new());
        }
        let Tree::Branch(below) = next else {
            return Err(malformed(format!("'{part}' in '{name}' has a value of its own already")));
        };
        level = below;
    }
    match level.insert((*last).to_owned(), Tree::Leaf(value)) {
        None => Ok(()),
        Some(_) => Err(malformed(format!("'{name}' is given twice"))),
    }
}

/// A name or value without its escapes, or what is wrong with it.
fn decode(text: &[u8]) -> Result<String, &'static str> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let is_escape = |rest: &[u8]| rest.len() > 2 && rest[1..3].iter().all(u8::is_ascii_hexdigit);
    let sound = (0..spaced.len()).all(|at| spaced[at] != b'%' || is_escape(&spaced[at..]));
    if !sound {
        return Err("has a '%' that no two hexadecimal digits follow");
    }
    let bytes: Vec<u8> = percent_decode(&spaced).collect();
    String::from_utf8(bytes).map_err(|_| "is not UTF-8")
}

fn malformed(message: String) -> Fault {
    Fault::new("MalformedQueryString", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(text: &str) -> Tree {
        Tree::Leaf(text.to_owned())
    }

    fn branch<const N: usize>(below: [(&str, Tree); N]) -> Tree {
        Tree::Branch(below.into_iter().map(|(name, tree)| (name.to_owned(), tree)).collect())
    }

    fn refusal(body: &str) -> String {
        let fault = parse(body.as_bytes()).unwrap_err();
        assert_eq!(fault.code, "MalformedQueryString");
        fault.message
    }

    #[test]
    fn names_are_taken_apart_at_their_dots_and_escapes_are_undone() {
        let body =
            "Action=A&Tags.member.1.Key=a%20b+c&Tags.member.1.Value=%C3%A9%3D%26&Tags.member.10.Key=&&";
        let tags = branch([
            ("1", branch([("Key", leaf("a b c")), ("Value", leaf("é=&"))])),
            ("10", branch([("Key", leaf(""))])),
        ]);
        let expected = branch([("Action", leaf("A")), ("Tags", branch([("member", tags)]))]);
        assert_eq!(Tree::Branch(parse(body.as_bytes()).unwrap()), expected);
    }

    #[test]
    fn an_escape_is_undone_once() {
        assert_eq!(parse(b"A=%2525%2B").unwrap()["A"], leaf("%25+"));
    }

    #[test]
    fn what_is_no_form_is_refused_with_its_reason() {
        assert_eq!(
            refusal("A=%"),
            "the value of parameter 1 has a '%' that no two hexadecimal digits follow"
        );
        assert_eq!(
            refusal("A=1&%4g=1"),
            "the name of parameter 2 has a '%' that no two hexadecimal digits follow"
        );
        assert_eq!(refusal("A=%ff"), "the value of parameter 1 is not UTF-8");
        assert_eq!(refusal("A=1&A=1"), "'A' is given twice");
        assert_eq!(refusal("A=1&A.b=1"), "'A' in 'A.b' has a value of its own already");
        assert_eq!(refusal("A.b=1&A=1"), "'A' is given twice");
        assert_eq!(refusal("A..b=1"), "the name 'A..b' has an empty part");
        assert_eq!(refusal("=1"), "the name '' has an empty part");
        assert_eq!(
            refusal(&format!("{}=1", "a".repeat(257))),
            "the name of parameter 1 is longer than 256 bytes"
        );
        assert_eq!(
            refusal(&format!("{}a=1", "a.".repeat(12))),
            "the name of a parameter has more than 12 parts"
        );
    }

    #[test]
    fn there_is_an_end_to_parameters() {
        let body: Vec<String> = (0..=MAX_PARAMETERS).map(|number| format!("P{number}=")).collect();
        assert!(parse(body[1..].join("&").as_bytes()).is_ok());
        assert_eq!(refusal(&body.join("&")), "there are more than 16384 parameters");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_tree_or_a_refusal(body in prop::collection::vec(any::<u8>(), 0..400)) {
            parse(&body).ok();
        }

        #[test]
        fn any_form_is_a_tree_or_a_refusal(body in "[A-Ca-c.=&%0-9+]{0,200}") {
            parse(body.as_bytes()).ok();
        }

        #[test]
        fn whatever_is_escaped_comes_back(text in any::<String>()) {
            let escaped = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
            prop_assert_eq!(&parse(format!("A={escaped}").as_bytes()).unwrap()["A"], &Tree::Leaf(text.clone()));
        }
    }
}
