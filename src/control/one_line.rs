//! Refusals on one line, whatever the refused text holds: an operator's terminal and log see what was written, and do
//! not obey it.

use std::fmt;

/// Writes `message` with its line ends and other control characters spelt out.
pub(super) fn write(f: &mut fmt::Formatter<'_>, message: &str) -> fmt::Result {
    for part in message.split_inclusive(char::is_control) {
        match part.chars().next_back().filter(|last| last.is_control()) {
            None => f.write_str(part)?,
            Some(control) => {
                f.write_str(&part[..part.len() - control.len_utf8()])?;
                write!(f, "{}", control.escape_default())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::control::model::State;
    use crate::control::node::NodeConfig;

    #[test]
    fn what_a_document_says_cannot_break_the_line_that_refuses_it() {
        let refused = State::from_document("{\"version\": 1, \"a\\n\\u001b[31mé\\u007f\": 1}").unwrap_err();
        assert!(refused.to_string().contains(": unknown field `a\\n\\u{1b}[31mé\\u{7f}`, "), "{refused}");
        assert!(!refused.to_string().contains(char::is_control));
        let refused = NodeConfig::parse("\"a\\r\\u001b\" = 1").unwrap_err();
        assert!(refused.to_string().contains(": unknown field `a\\r\\u{1b}`, "), "{refused}");
        assert!(!refused.to_string().contains(char::is_control));
    }
}
