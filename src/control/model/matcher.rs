//! The status codes that an HTTP check takes for success (H-1).

use std::fmt;
use std::ops::RangeInclusive;

/// The codes that a matcher may name.
const CODES: RangeInclusive<u16> = 200..=399;

/// A list of status codes and ranges of them within 200–399, such as `200,301-302`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher(Vec<RangeInclusive<u16>>);

impl Matcher {
    /// Whether `code` counts as success.
    #[must_use]
    pub fn matches(&self, code: u16) -> bool {
        self.0.iter().any(|range| range.contains(&code))
    }

    /// Reads what `Display` writes; `None` for anything but codes and ranges within 200–399.
    pub(super) fn parse(text: &str) -> Option<Matcher> {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (status_code(first)?, status_code(last)?);
            if first > last {
                return None;
            }
            ranges.push(first..=last);
        }
        Some(Matcher(ranges))
    }
}

/// Three digits within the codes that a matcher may name.
fn status_code(text: &str) -> Option<u16> {
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|code| digits && CODES.contains(code))
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher(vec![CODES])
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, range) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", range.start())?;
            if range.end() > range.start() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_a_matcher_is_a_list_of_codes_and_ranges_within_200_to_399() {
        for good in ["200", "200-399", "200,301-302", "399,200"] {
            let matcher = Matcher::parse(good).expect(good);
            assert_eq!(matcher.to_string(), good);
        }
        for bad in ["", "199", "400", "200-400", "302-301", "200,", "200 ,201", "+200", "0200", "200-", "2xx"]
        {
            assert_eq!(Matcher::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn h1_both_ends_of_a_range_match_and_gaps_do_not() {
        let matcher = Matcher::parse("200,301-303").expect("valid");
        let matching: Vec<u16> = (0..=999).filter(|code| matcher.matches(*code)).collect();
        assert_eq!(matching, [200, 301, 302, 303]);
        let matching: Vec<u16> = (0..=999).filter(|code| Matcher::default().matches(*code)).collect();
        assert_eq!(matching, (200..=399).collect::<Vec<u16>>());
    }
}
