//! Where in a document a fault is, written the way an operator would point at it:
//! `target_groups[1].attributes."tcp.idle_timeout.seconds"`.
//!
//! Used for both documents, so that a fault found by serde and one found by a rule read alike.

use std::fmt::Write as _;

use serde_path_to_error::{Path, Segment};

/// `path` as found by serde, or `None` for the document as a whole.
pub(super) fn of(path: &Path) -> Option<String> {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => {
                write!(text, "[{index}]").expect("writing to a String cannot fail");
            }
            Segment::Map { key } => push_key(&mut text, key),
            Segment::Enum { variant } => push_key(&mut text, variant),
            // What serde could not name: the fault is somewhere below what was named so far.
            Segment::Unknown => break,
        }
    }
    (!text.is_empty()).then_some(text)
}

/// A key as one segment: bare if it could be a bare TOML key, in quotes if not.
pub(super) fn key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { format!("{key:?}") }
}

/// `inner` seen from the object at `outer`.
pub(super) fn join(outer: &str, inner: &str) -> String {
    if inner.starts_with('[') || outer.is_empty() {
        format!("{outer}{inner}")
    } else {
        format!("{outer}.{inner}")
    }
}

fn push_key(text: &mut String, segment: &str) {
    *text = join(text, &key(segment));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_dots_is_one_segment_in_quotes() {
        assert_eq!(key("tcp.idle_timeout.seconds"), "\"tcp.idle_timeout.seconds\"");
        assert_eq!(key("cross-zone_2"), "cross-zone_2");
        assert_eq!(key(""), "\"\"");
    }

    #[test]
    fn segments_join_with_dots_and_indices_without() {
        assert_eq!(join("target_groups", "[1]"), "target_groups[1]");
        assert_eq!(join("target_groups[1]", "name"), "target_groups[1].name");
        assert_eq!(join("", "name"), "name");
    }
}
