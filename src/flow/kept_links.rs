//! The link-layer headers that a table's flows refer to, kept in the table's memory: flow entries hold their numbers, so
//! that whoever takes the table over must know them. `datapath::links` writes here what it gives a number to, and nobody
//! reads it while packets pass.
#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, compiler_fence};

use super::entry::LinkId;
use super::memory::Mapped;
use crate::id::PortId;

/// Distinct link-layer headers of a worker: far more than a wire has stations.
pub const LINKS: u16 = 32_768;

/// Longest header kept: Ethernet and two VLAN tags.
pub const MAX_HEADER: usize = 22;

/// A header and its number's generation. All zeros, and whatever was not written to its end, is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct KeptLink {
    header: [u8; MAX_HEADER],
    len: u8,
    generation: u8,
    port: u16,
    unused: u16,
    check: u32,
}

const _: () = assert!(size_of::<KeptLink>() == 32);

impl KeptLink {
    /// Of all that is before it; never 0.
    fn sum(&self) -> u32 {
        let mut sum = 0x811c_9dc5_u32;
        let mut take = |byte: u8| sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.header.iter().copied().for_each(&mut take);
        [self.len, self.generation].into_iter().chain(self.port.to_le_bytes()).for_each(&mut take);
        sum | 1
    }
}

/// The headers of one table, by [`LinkId`]. Number 0 is none.
pub struct KeptLinks {
    links: Mapped<KeptLink>,
}

impl KeptLinks {
    pub(super) fn new(links: Mapped<KeptLink>) -> KeptLinks {
        KeptLinks { links }
    }

    /// What this number stands for: its generation, its port and the header. `None` if nothing, or if it was being written
    /// when its writer died.
    #[must_use]
    pub fn get(&self, id: LinkId) -> Option<(u8, PortId, &[u8])> {
        let link = self.links.at(u32::from(id.0));
        let header = link.header.get(..usize::from(link.len))?;
        (id != LinkId::NONE && u32::from(id.0) < self.links.len() && link.check == link.sum()).then_some((
            link.generation,
            PortId(link.port),
            header,
        ))
    }

    /// This number stands for that from now on.
    pub fn set(&mut self, id: LinkId, generation: u8, port: PortId, header: &[u8]) {
        if u32::from(id.0) >= self.links.len() {
            return;
        }
        let mut kept = KeptLink { generation, port: port.0, ..KeptLink::default() };
        for (place, byte) in kept.header.iter_mut().zip(header) {
            *place = *byte;
            kept.len += 1;
        }
        let link = self.links.at_mut(u32::from(id.0));
        // Not whole until the checksum is there, which is written last.
        link.check = 0;
        compiler_fence(Ordering::SeqCst);
        (link.header, link.len, link.generation, link.port) = (kept.header, kept.len, generation, port.0);
        compiler_fence(Ordering::SeqCst);
        link.check = kept.sum();
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Carver;
    use super::super::pages::Pages;
    use super::*;

    #[test]
    fn a_header_is_there_once_it_is_written_to_its_end() {
        let mut carver = Carver::map(4 * 32, Pages::Small).unwrap();
        let mut kept = KeptLinks::new(carver.carve(4).unwrap());
        assert_eq!(kept.get(LinkId(1)), None, "nothing was written");
        kept.set(LinkId(1), 3, PortId(2), &[7; 18]);
        kept.set(LinkId(3), 0, PortId(0), &[8; MAX_HEADER]);
        assert_eq!(kept.get(LinkId(1)), Some((3, PortId(2), &[7; 18][..])));
        assert_eq!(kept.get(LinkId(3)), Some((0, PortId(0), &[8; MAX_HEADER][..])));
        assert_eq!(kept.get(LinkId(0)), None);
        kept.set(LinkId(4), 1, PortId(1), &[9; 14]);
        assert_eq!(kept.get(LinkId(4)), None, "beyond");
        assert_eq!(kept.get(LinkId(3)).unwrap().2, &[8; MAX_HEADER], "and over nobody else's");
        let whole = *kept.links.at(1);
        for torn in [
            KeptLink { check: 0, ..whole },
            KeptLink { port: 1, ..whole },
            KeptLink { generation: 4, ..whole },
            KeptLink { len: 17, ..whole },
            KeptLink { len: 200, ..whole },
            KeptLink { header: [1; MAX_HEADER], ..whole },
        ] {
            *kept.links.at_mut(1) = torn;
            assert_eq!(kept.get(LinkId(1)), None, "{torn:?}");
        }
    }
}
