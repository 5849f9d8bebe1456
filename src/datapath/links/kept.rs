//! A table of link-layer headers that is what another process left: headers have the numbers that flow entries know them by.

use super::{LinkTable, NIL, Plain};
use crate::flow::{HashSeed, KeptLinks, LinkId};
use crate::id::PortId;

impl LinkTable {
    /// The headers that were kept, for as many as [`new`](LinkTable::new) has room for, and kept on. What arrived by a
    /// port that `is_same` says no to, as another has its number now, is forgotten. No flow holds any of them yet.
    pub fn resumed(
        capacity: u16,
        seed: HashSeed,
        kept: KeptLinks,
        is_same: impl Fn(PortId) -> bool,
    ) -> LinkTable {
        let mut table = LinkTable::new(capacity, seed);
        (table.idle_first, table.idle_last) = (NIL, NIL);
        let known = |id: u16| kept.get(LinkId(id)).filter(|(_, port, _)| is_same(*port));
        // Those that are not in use first, as the longest idle are given away first.
        for id in (1..=capacity.max(1)).filter(|id| known(*id).is_none()) {
            if let (Some(slot), Some((generation, ..))) = (table.slot_mut(id), kept.get(LinkId(id))) {
                slot.generation = generation;
            }
            table.idle_push(id);
        }
        for id in 1..=capacity.max(1) {
            let Some((generation, port, header)) = known(id) else { continue };
            table.restore(id, generation, port, header);
            table.idle_push(id);
        }
        table.kept = Some(kept);
        table
    }

    fn restore(&mut self, id: u16, generation: u8, port: PortId, header: &[u8]) {
        let bucket = self.bucket(port, header);
        let first = self.heads.get(bucket).copied().unwrap_or(NIL);
        let Some(slot) = self.slot_mut(id) else { return };
        slot.header.iter_mut().zip(header).for_each(|(to, byte)| *to = *byte);
        slot.len = u8::try_from(header.len()).unwrap_or(0);
        (slot.generation, slot.port, slot.in_use, slot.next) = (generation, port, true, first);
        if let Some(head) = self.heads.get_mut(bucket) {
            *head = id;
        }
        if let (Ok(header), Some(plain)) = (header.try_into(), self.plain.get_mut(usize::from(id))) {
            *plain = Plain::new(port, header);
        }
    }

    /// Whether a number stands for a header.
    pub fn has(&self, id: LinkId) -> bool {
        self.get(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_HEADER;
    use super::*;
    use crate::flow::{FilePages, InFile, Keep, Pages, Table, TableConfig};
    use crate::id::WorkerId;

    /// Headers in a table's file, and what the next process finds there.
    struct Place(std::fs::File);

    impl Place {
        fn kept(&self, is_first: bool) -> KeptLinks {
            let seed = HashSeed::from_secret(b"a secret of sixteen");
            let config =
                TableConfig { capacity: 16, worker: WorkerId(0), workers: 1, pages: Pages::Small, seed };
            self.0.set_len(config.file_bytes(FilePages::Small).unwrap() as u64).unwrap();
            let place = InFile { file: &self.0, pages: FilePages::Small, making: 1 };
            let mut table = if is_first {
                Table::create_in(&config, &place).unwrap()
            } else {
                Table::find_in(&config, &place).unwrap()
            };
            table.take_over(|_| Keep::Yes);
            table.kept_links().unwrap()
        }
    }

    fn resumed(kept: KeptLinks, other_port: Option<u16>) -> LinkTable {
        // Another seed: only numbers and headers are handed on.
        let seed = HashSeed::from_os().unwrap();
        LinkTable::resumed(8, seed, kept, |port| Some(port.0) != other_port)
    }

    fn header(n: u8) -> [u8; 14] {
        [2, 0, 0, 0, 0, n, 2, 0, 0, 0, 1, n, 8, 0]
    }

    // O-4
    #[test]
    fn headers_have_the_same_numbers_for_whoever_takes_over() {
        let place = Place(tempfile::tempfile_in("/dev/shm").unwrap());
        let mut before = resumed(place.kept(true), None);
        let ids: Vec<LinkId> =
            (1..=5).map(|n| before.intern(PortId(n.into()), &header(n)).unwrap()).collect();
        let tagged = before.intern(PortId(1), &[7; MAX_HEADER]).unwrap();
        let generations: Vec<u8> = ids.iter().map(|id| before.generation(*id)).collect();
        drop(before);

        let mut after = resumed(place.kept(false), Some(4));
        for (n, (id, generation)) in (1..=5).zip(ids.iter().zip(generations)) {
            if n == 4 {
                assert!(!after.has(*id), "its port is another");
                continue;
            }
            assert!(after.is(*id, PortId(n.into()), &header(n)) && after.has(*id));
            assert!(after.is_plain(*id, PortId(n.into()), &header(n)));
            assert_eq!(after.intern(PortId(n.into()), &header(n)), Some(*id), "not twice");
            assert_eq!(after.generation(*id), generation);
        }
        assert_eq!(after.intern(PortId(1), &[7; MAX_HEADER]), Some(tagged));
        after.hold(ids[0]);
        for n in 20..60 {
            assert!(after.intern(PortId(0), &header(n)).is_some());
        }
        assert!(after.is(ids[0], PortId(1), &header(1)), "a flow holds it");
        assert!(!after.is(ids[1], PortId(2), &header(2)), "no flow does");
        let (given, generation) = (LinkId(ids[1].0), after.generation(ids[1]));
        drop(after);
        let third = resumed(place.kept(false), None);
        assert_eq!(third.generation(given), generation, "also of what was given away meanwhile");
        assert!(third.is(ids[0], PortId(1), &header(1)));
    }
}
