//! "Did you mean": the word that is most like one that is not known. The socket asks for names, keys and methods, the
//! command line for its own words.

#![forbid(unsafe_code)]

/// Of `words` the one most like `given`, if any is like enough to be what was meant.
pub(crate) fn nearest<'a>(given: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Below this words have little more than their beginnings in common.
    const LIKE_ENOUGH: f64 = 0.8;
    // Of shorter words a slip of the finger makes most others.
    const LONG_ENOUGH: usize = 3;
    // Case and the marks between words are often misremembered.
    let folded = |word: &str| word.replace(['-', '_', '.'], "").to_lowercase();
    let given = folded(given);
    let is_a_slip = |word: &str| given.len() >= LONG_ENOUGH && strsim::osa_distance(word, &given) == 1;
    words
        .into_iter()
        .map(|word| (folded(word), word))
        .map(|(folded, word)| (strsim::jaro_winkler(&folded, &given), is_a_slip(&folded), word))
        .filter(|(likeness, slip, _)| *slip || *likeness > LIKE_ENOUGH)
        .max_by(|one, other| one.1.cmp(&other.1).then(one.0.total_cmp(&other.0)))
        .map(|(_, _, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_the_word_most_like_what_was_given() {
        for (given, words, expected) in [
            ("Kye", vec!["Value", "Key"], Some("Key")),
            ("fww", vec!["spare", "fw"], Some("fw")),
            ("fw-blue", vec!["fw-bleu", "fw-blues-1"], Some("fw-bleu")),
            (
                "send_tcp_reset_on_unhealthy",
                vec!["send_tcp_reset.on_unhealthy.enabled", "stickiness.type"],
                Some("send_tcp_reset.on_unhealthy.enabled"),
            ),
            ("x", vec!["y"], None),
            ("", vec!["fw"], None),
            ("printer", vec!["fw", "spare"], None),
        ] {
            assert_eq!(nearest(given, words), expected, "{given}");
        }
    }
}
