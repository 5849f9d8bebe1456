//! What all refusals are: one line for a person.

/// Checks that a refusal is one line that says something and that no terminal obeys.
pub fn is_one_line(refusal: &str) {
    assert!(!refusal.is_empty());
    assert!(!refusal.contains(char::is_control), "a refusal of several lines or with controls: {refusal:?}");
}
