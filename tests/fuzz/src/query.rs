//! A form of the Query protocol, from its bytes to the XML that answers it.
//!
//! Promises: every form is answered, once; a form that is read says the same when what was read is written again,
//! in another order and with everything escaped; and what `http` promises.

use crate::http::answers;
use flowgate::control::elbv2::{Tree, parse_form};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;

const LONGEST: usize = 4096;

pub fn run(form: &[u8]) {
    if form.len() > LONGEST {
        return;
    }
    if let Ok(tree) = parse_form(form) {
        let mut written = Vec::new();
        write(&tree, "", &mut written);
        written.reverse();
        // Escaped, a name is longer: one that was just short enough may be too long.
        let longest = written.iter().filter_map(|pair| pair.split('=').next()).map(str::len).max();
        if longest.is_none_or(|longest| longest <= 256) {
            assert_eq!(parse_form(written.join("&").as_bytes()).unwrap(), tree, "{written:?}");
        }
    }
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n",
        form.len()
    );
    let answers = answers(&[head.as_bytes(), form].concat());
    assert_eq!(answers.len(), 1);
    let answer = &answers[0];
    assert!(!answer.body.is_empty());
    if parse_form(form).is_err() {
        assert!(answer.body.contains("<Code>MalformedQueryString</Code>"), "{answer:?}");
    }
}

fn write(tree: &BTreeMap<String, Tree>, path: &str, pairs: &mut Vec<String>) {
    for (name, below) in tree {
        let path = format!("{path}{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        match below {
            Tree::Leaf(text) => pairs.push(format!("{path}={}", utf8_percent_encode(text, NON_ALPHANUMERIC))),
            Tree::Branch(below) => write(below, &format!("{path}."), pairs),
        }
    }
}
