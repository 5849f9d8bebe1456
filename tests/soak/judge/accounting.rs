//! C-1, and the packet buffers.

/// Packet counts of the node, read at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub received: u64,
    /// By every way in which a packet ends: forwarded, delivered, answered, crossed, the host's, dropped.
    pub ends: Vec<u64>,
    pub dropped: u64,
    /// Drops by their reasons.
    pub reasons: Vec<u64>,
    /// Fragments that wait for their first.
    pub waiting: u64,
}

impl Sums {
    fn settled(&self) -> u64 {
        self.ends.iter().sum::<u64>() + self.dropped + self.waiting
    }

    /// Whether all that came in is accounted for.
    pub fn agree(&self) -> bool {
        self.received == self.settled() && self.dropped == self.reasons.iter().sum::<u64>()
    }

    /// What is wrong with counts that were read while nothing moved.
    pub fn judge(&self) -> Result<(), String> {
        if self.agree() {
            return Ok(());
        }
        let Sums { received, dropped, waiting, .. } = self;
        Err(format!(
            "{received} packets came in and {} are accounted for ({dropped} dropped, {waiting} waiting): {self:?}",
            self.settled()
        ))
    }
}

/// Buffers that may be in use at rest beyond what was in use before: what workers hold in their caches differs from
/// one look to the next by up to a burst a port.
pub const SLACK: u64 = 256;

/// Judges the buffers in use at rest by those at the first rest of the same life.
pub fn buffers(at_first: u64, now: u64, of: u64) -> Result<(), String> {
    if now > at_first + SLACK {
        return Err(format!("{now} of {of} packet buffers are in use at rest, {at_first} were at first"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> Sums {
        Sums { received: 10, ends: vec![5, 2], dropped: 2, reasons: vec![1, 1], waiting: 1 }
    }

    // C-1
    #[test]
    fn a_packet_that_is_counted_twice_or_not_at_all_is_told() {
        sums().judge().unwrap();
        let lost = Sums { received: 11, ..sums() }.judge().unwrap_err();
        assert!(lost.starts_with("11 packets came in and 10 are accounted for"), "{lost}");
        Sums { ends: vec![5, 3], ..sums() }.judge().unwrap_err();
        Sums { waiting: 0, ..sums() }.judge().unwrap_err();
        Sums { reasons: vec![1], ..sums() }.judge().unwrap_err();
    }

    #[test]
    fn buffers_that_stay_out_are_told() {
        buffers(100, 100 + SLACK, 8191).unwrap();
        let told = buffers(100, 101 + SLACK, 8191).unwrap_err();
        assert_eq!(told, "357 of 8191 packet buffers are in use at rest, 100 were at first");
    }
}
