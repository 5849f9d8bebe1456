//! The grammar of `aws`'s shorthand: members with commas between them, each `name=value`; a value is
//! text up to a comma, text in quotes, `[a,b]`, `{a=b}`, or several values with commas between them (as
//! far as what follows a comma is not itself a member).

#![forbid(unsafe_code)]

use serde_json::{Map, Value};

/// How deep lists and structures may be within each other; no parameter of ours is deeper than three.
const DEPTH: usize = 8;

/// The members that `text` gives. A part without a name in the place of a member is the value of
/// `alone`, if there is such a one.
///
/// # Errors
/// The first fault, in one sentence.
pub fn members(text: &str, alone: Option<&str>) -> Result<Map<String, Value>, String> {
    let mut rest = Rest { text, at: 0 };
    let mut members = Map::new();
    loop {
        if rest.starts_a_member() {
            rest.member(&mut members, DEPTH)?;
        } else {
            let name = alone.ok_or_else(|| format!("expected NAME=VALUE, found '{}'", rest.left()))?;
            let value = rest.values(DEPTH)?;
            put(&mut members, name, value)?;
        }
        if rest.is_empty() {
            return Ok(members);
        }
        rest.expect(',')?;
    }
}

fn put(members: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), String> {
    match members.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(format!("'{name}' is given twice")),
    }
}

/// What is still to be read.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn left(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn is_empty(&self) -> bool {
        self.left().is_empty()
    }

    fn starts_with(&self, sign: char) -> bool {
        self.left().starts_with(sign)
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.starts_with(sign) {
            self.at += sign.len_utf8();
            return Ok(());
        }
        match self.left() {
            "" => Err(format!("expected '{sign}' at the end")),
            left => Err(format!("expected '{sign}' before '{left}'")),
        }
    }

    /// The name of a member, if there is one here.
    fn name(&self) -> Option<&'a str> {
        let is_of_a_name = |sign: char| sign.is_ascii_alphanumeric() || "-_.#/:".contains(sign);
        let left = self.left();
        let end = left.find(|sign| !is_of_a_name(sign))?;
        (end > 0 && left[end..].starts_with('=')).then(|| &left[..end])
    }

    fn starts_a_member(&self) -> bool {
        self.name().is_some()
    }

    fn member(&mut self, members: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
        let name = self.name().ok_or_else(|| format!("expected NAME=VALUE, found '{}'", self.left()))?;
        self.at += name.len() + 1;
        let value = self.values(depth)?;
        put(members, name, value)
    }

    /// A value, or several with commas between them.
    fn values(&mut self, depth: usize) -> Result<Value, String> {
        let first = self.value(depth, ",")?;
        let mut values = vec![first];
        while self.starts_with(',') {
            let mut next = Rest { text: self.text, at: self.at + 1 };
            if next.starts_a_member() {
                break;
            }
            values.push(next.value(depth, ",")?);
            self.at = next.at;
        }
        Ok(if values.len() == 1 { values.swap_remove(0) } else { Value::Array(values) })
    }

    /// One value; text that is not quoted ends at any of `ends`.
    fn value(&mut self, depth: usize, ends: &str) -> Result<Value, String> {
        let deeper = || depth.checked_sub(1).ok_or("lists and structures are too deep within each other");
        if self.starts_with('[') {
            let depth = deeper()?;
            return self.bracketed('[', ']', |rest, values: &mut Vec<Value>| {
                values.push(rest.value(depth, ",]")?);
                Ok(())
            });
        }
        if self.starts_with('{') {
            let depth = deeper()?;
            return self.bracketed('{', '}', |rest, members: &mut Map<String, Value>| {
                let name =
                    rest.name().ok_or_else(|| format!("expected NAME=VALUE, found '{}'", rest.left()))?;
                rest.at += name.len() + 1;
                let value = rest.value(depth, ",}")?;
                put(members, name, value)
            });
        }
        for quote in ['\'', '"'] {
            if self.starts_with(quote) {
                return self.quoted(quote).map(Value::String);
            }
        }
        let left = self.left();
        let text = &left[..left.find(|sign| ends.contains(sign)).unwrap_or(left.len())];
        self.at += text.len();
        Ok(text.into())
    }

    fn bracketed<V: Default + Into<Value>>(
        &mut self,
        open: char,
        close: char,
        read: impl Fn(&mut Self, &mut V) -> Result<(), String>,
    ) -> Result<Value, String> {
        self.expect(open)?;
        let mut all = V::default();
        while !self.starts_with(close) {
            read(self, &mut all)?;
            if !self.starts_with(close) {
                self.expect(',')?;
            }
        }
        self.expect(close)?;
        Ok(all.into())
    }

    /// Text in quotes; a backslash takes the next sign as it is.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.expect(quote)?;
        let mut text = String::new();
        let mut escaped = false;
        for (offset, sign) in self.left().char_indices() {
            match sign {
                _ if escaped => {
                    text.push(sign);
                    escaped = false;
                }
                '\\' => escaped = true,
                _ if sign == quote => {
                    self.at += offset + sign.len_utf8();
                    return Ok(text);
                }
                _ => text.push(sign),
            }
        }
        Err(format!("the quotes that begin with {quote} have no end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn shorthand_reads_as_aws_reads_it() {
        for (text, expected) in [
            ("Key=a,Value=b", json!({"Key": "a", "Value": "b"})),
            ("Key=a,Value=", json!({"Key": "a", "Value": ""})),
            ("a=1,2,3,b=4", json!({"a": ["1", "2", "3"], "b": "4"})),
            ("a=[1,2],b=[]", json!({"a": ["1", "2"], "b": []})),
            ("a={b=1,c=[x,{d=2}]}", json!({"a": {"b": "1", "c": ["x", {"d": "2"}]}})),
            ("a='b,c=d',e=\"f\\\"g\"", json!({"a": "b,c=d", "e": "f\"g"})),
            ("a=b=c", json!({"a": "b=c"})),
            ("Type=forward,fw", json!({"Type": ["forward", "fw"]})),
            ("fw,Type=forward", json!({"TargetGroupArn": "fw", "Type": "forward"})),
        ] {
            assert_eq!(Value::Object(members(text, Some("TargetGroupArn")).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_fault_says_where() {
        for (text, said) in [
            ("x", "expected NAME=VALUE, found 'x'"),
            ("", "expected NAME=VALUE, found ''"),
            ("a=1,a=2", "'a' is given twice"),
            ("a=[1", "expected ',' at the end"),
            ("a={1}", "expected NAME=VALUE, found '1}'"),
            ("a='b", "the quotes that begin with ' have no end"),
            ("a='b'c", "expected ',' before 'c'"),
        ] {
            assert_eq!(members(text, None).unwrap_err(), said, "{text}");
        }
        let deep = format!("a={}", "[".repeat(100_000));
        assert!(members(&deep, None).unwrap_err().contains("too deep"));
    }

    proptest! {
        #[test]
        fn any_text_is_members_or_a_fault(text in "[a=,\\[\\]{}'\"\\\\é]{0,40}") {
            // To end, without a panic, is the promise.
            members(&text, Some("x")).ok();
        }
    }
}
