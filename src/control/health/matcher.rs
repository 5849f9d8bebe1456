//! Which HTTP codes a check takes for an answer of a healthy target (H-1): a list of codes and
//! ranges such as `200,301-302`. Called by the HTTP check and by whoever reads a configuration.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// What a final answer's code can be. Below 200 are interim answers, which a check reads past.
const CODES: RangeInclusive<u16> = 200..=599;

/// A list of HTTP codes and ranges, as it was written. Never empty; every code is of 200–599 (the
/// model may ask for less).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher(Vec<RangeInclusive<u16>>);

impl Matcher {
    /// Whether `code` is in the list.
    pub fn matches(&self, code: u16) -> bool {
        self.0.iter().any(|range| range.contains(&code))
    }

    /// The ranges, in the order written; a single code is a range of one.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }
}

impl Default for Matcher {
    /// 200–399.
    fn default() -> Self {
        Self(vec![200..=399])
    }
}

/// Why a text is not a [`Matcher`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MatcherError {
    /// Neither a code nor two codes with a hyphen.
    #[error("'{0}' must be a code such as 200 or a range such as 200-399")]
    Syntax(String),
    /// A code that no final answer has.
    #[error("code '{0}' must be between '200-599' inclusive")]
    Code(u16),
    /// A range that ends before it begins.
    #[error("range '{0}-{1}' must not end below its begin")]
    Backwards(u16, u16),
}

impl FromStr for Matcher {
    type Err = MatcherError;

    fn from_str(text: &str) -> Result<Self, MatcherError> {
        text.split(',').map(|part| range(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn range(part: &str) -> Result<RangeInclusive<u16>, MatcherError> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (code(first, part)?, code(last, part)?);
    if first > last { Err(MatcherError::Backwards(first, last)) } else { Ok(first..=last) }
}

/// Three digits and nothing else: `u16`'s own parser would take a sign.
fn code(digits: &str, part: &str) -> Result<u16, MatcherError> {
    let syntax = || MatcherError::Syntax(part.to_owned());
    if digits.len() != 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(syntax());
    }
    let code = digits.parse().map_err(|_| syntax())?;
    if CODES.contains(&code) { Ok(code) } else { Err(MatcherError::Code(code)) }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (first, last) = (range.start(), range.end());
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_codes_and_ranges_is_read_and_written_back_h1() {
        let matcher: Matcher = "200,301-302".parse().unwrap();
        let taken: Vec<u16> = (0..=999).filter(|&code| matcher.matches(code)).collect();
        assert_eq!(taken, [200, 301, 302]);
        assert_eq!(matcher.to_string(), "200,301-302");
        assert_eq!(" 200 , 301-302".parse::<Matcher>().unwrap(), matcher);
    }

    #[test]
    fn the_default_takes_200_to_399_h1() {
        let default = Matcher::default();
        assert_eq!(default.to_string(), "200-399");
        let edges = [(199, false), (200, true), (399, true), (400, false)];
        for (code, taken) in edges {
            assert_eq!(default.matches(code), taken, "{code}");
        }
    }

    #[test]
    fn what_is_no_list_of_codes_is_refused_with_what_was_seen() {
        let syntax = |text: &str| MatcherError::Syntax(text.to_owned());
        for (text, error) in [
            ("", syntax("")),
            ("200,", syntax("")),
            ("2xx", syntax("2xx")),
            ("+20", syntax("+20")),
            ("200-300-400", syntax("200-300-400")),
            ("70000", syntax("70000")),
            ("199", MatcherError::Code(199)),
            ("200-600", MatcherError::Code(600)),
            ("302-301", MatcherError::Backwards(302, 301)),
        ] {
            assert_eq!(text.parse::<Matcher>(), Err(error), "{text:?}");
        }
    }
}
