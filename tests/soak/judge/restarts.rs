//! F-5, F-8: what a daemon that was started again says of the flow tables of the one before.

/// What it says.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// `taken_over`, `lost`, or that there were none.
    pub outcome: String,
    /// Flows that are there again, those of targets that are no more, and entries that were torn.
    pub flows: u64,
    pub refused: u64,
    pub torn: u64,
    /// For how long packets of no flow begin one, in seconds.
    pub adopts: u64,
    /// Why flows were lost.
    pub why: String,
}

/// A crash tears what a worker was writing: an entry a worker, and what hangs on it.
const TORN: u64 = 4;

/// Judges what a start says of the flow tables, that were damaged or not, and which of the `flows` flows are `missing` that
/// were at work a moment before the daemon's end.
pub fn judge(found: &Tables, flows: usize, missing: &[&String], damaged: bool) -> Result<(), String> {
    if damaged {
        let told = found.outcome == "lost" && found.adopts > 0 && !found.why.is_empty();
        return if told {
            Ok(())
        } else {
            Err(format!("F-8: the tables were damaged, and it says {found:?}"))
        };
    }
    if found.outcome != "taken_over" || found.torn > TORN {
        return Err(format!("F-5: {flows} flows were to be taken over, and it says {found:?}"));
    }
    // Each that is missing must be one that is told.
    if missing.len() as u64 > found.torn + found.refused {
        return Err(format!("F-5: of {flows} flows {missing:?} are not there any more: {found:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(outcome: &str, flows: u64, torn: u64) -> Tables {
        Tables { outcome: outcome.to_owned(), flows, torn, ..Tables::default() }
    }

    // F-5
    #[test]
    fn flows_that_a_start_has_not_and_a_start_without_them_are_told() {
        let one = "0000012a".to_owned();
        judge(&found("taken_over", 10, 0), 10, &[], false).unwrap();
        judge(&found("taken_over", 9, 1), 10, &[&one], false).unwrap();
        let told = judge(&found("taken_over", 9, 0), 10, &[&one], false).unwrap_err();
        assert!(told.starts_with("F-5: of 10 flows [\"0000012a\"] are not there any more"), "{told}");
        judge(&found("taken_over", 3, 7), 10, &[], false).unwrap_err();
        judge(&found("lost", 0, 0), 10, &[], false).unwrap_err();
        judge(&found("first", 0, 0), 0, &[], false).unwrap_err();
    }

    // F-8
    #[test]
    fn tables_that_were_damaged_are_to_be_told_with_a_sentence_and_a_time() {
        let told = Tables { adopts: 350, why: "they are damaged".to_owned(), ..found("lost", 0, 0) };
        judge(&told, 10, &[], true).unwrap();
        judge(&Tables { adopts: 0, ..told.clone() }, 10, &[], true).unwrap_err();
        judge(&Tables { why: String::new(), ..told }, 10, &[], true).unwrap_err();
        judge(&found("taken_over", 10, 0), 10, &[], true).unwrap_err();
    }
}
