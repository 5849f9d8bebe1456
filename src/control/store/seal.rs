//! The checksum of a stored state: its first line, over all other bytes of the file. A digit that a bad disk or
//! cable turned into another is still a number, and would be believed.
//!
//! A file without one is read as it is: an older daemon wrote it, or an operator who changed it by hand took the
//! line out to say so.

/// What the line holds besides the checksum.
const BEFORE: &str = "  \"checksum\": \"sha256:";
const AFTER: &str = "\",\n";
/// What the line stands behind.
const FIRST: &str = "{\n";

/// What is wrong with a file whose checksum is another's.
pub(super) const BROKEN: &str = "its checksum is not that of the rest of it: it was damaged, or it was changed by \
                                 hand. If you changed it and it is as it should be, take out its line \"checksum\" and \
                                 start again";

/// The text with its checksum in it. A text that is no object over several lines stays as it is.
pub(super) fn seal(text: &str) -> String {
    match text.strip_prefix(FIRST) {
        Some(rest) => format!("{FIRST}{BEFORE}{}{AFTER}{rest}", checksum(text)),
        None => text.to_owned(),
    }
}

/// Whether the text is as it was sealed, or never was.
pub(super) fn is_whole(text: &str) -> bool {
    let line = text.strip_prefix(FIRST).and_then(|rest| rest.strip_prefix(BEFORE));
    match line.and_then(|line| line.split_once(AFTER)) {
        Some((told, rest)) => told == checksum(&format!("{FIRST}{rest}")),
        // It may be there in another place, where we do not put it.
        None => !has_checksum(text),
    }
}

fn has_checksum(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Told {
        checksum: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str(text).is_ok_and(|told: Told| told.checksum.is_some())
}

fn checksum(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\n  \"version\": 1,\n  \"generation\": 12\n}\n";

    #[test]
    fn the_checksum_is_that_which_others_compute() {
        // By sha256sum, of the text without the line.
        let sum = "4a9f728bed8885c104acd258fb79a0e9d8218b4b9b2ce8d7b29c7ef43d97f792";
        let sealed = seal(TEXT);
        let line = format!("  \"checksum\": \"sha256:{sum}\",\n");
        assert_eq!(sealed, TEXT.replacen("{\n", &format!("{{\n{line}"), 1));
        assert!(is_whole(&sealed) && is_whole(TEXT));
        assert!(!is_whole(&sealed.replace("12", "13")));
    }

    #[test]
    fn a_checksum_in_another_place_counts_as_a_wrong_one() {
        let sealed = seal(TEXT);
        for moved in [sealed.replace('\n', " "), sealed.replace("  \"", "    \"")] {
            assert!(!is_whole(&moved), "{moved}");
        }
        let taken_out: String =
            sealed.split_inclusive('\n').filter(|line| !line.contains("checksum")).collect();
        assert!(is_whole(&taken_out));
    }
}
