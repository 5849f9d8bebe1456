//! What pages a table's memory is in: what is asked for, which sizes are worth it, and whether the kernel
//! has done what it agreed to try.
#![forbid(unsafe_code)]

use std::fmt;

/// What pages to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages if the machine has them, else transparent ones, else what there is.
    Huge,
    /// Ordinary pages, to be left alone.
    Small,
}

/// What pages a file has whose memory a table is to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePages {
    /// Ordinary pages, to be left alone.
    Small,
    /// Ordinary ones, that the kernel is to make huge pages of if it can.
    Transparent,
    /// Reserved huge pages.
    Reserved {
        /// Bytes of a page.
        size: usize,
    },
}

impl FilePages {
    /// Bytes that a file is a multiple of.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            FilePages::Small | FilePages::Transparent => 4096,
            FilePages::Reserved { size } => size.max(4096),
        }
    }

    /// What a file has to be as long as, for so many bytes of a table.
    #[must_use]
    pub fn whole(self, bytes: usize) -> usize {
        bytes.checked_next_multiple_of(self.size()).unwrap_or(usize::MAX)
    }
}

/// What pages were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Reserved pages of 1 GiB.
    Reserved1G,
    /// Reserved pages of 2 MiB.
    Reserved2M,
    /// Huge pages that the kernel found without a reservation: more than half of the memory, as it says
    /// itself.
    Transparent,
    /// Ordinary pages.
    Small,
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageKind::Reserved1G => "hugepages of 1 GiB",
            PageKind::Reserved2M => "hugepages of 2 MiB",
            PageKind::Transparent => "transparent hugepages",
            PageKind::Small => "ordinary pages",
        })
    }
}

/// Sizes of reserved pages, to be tried in this order, and the binary logarithm of each.
pub(super) const RESERVED: [(usize, u32, PageKind); 2] =
    [(1 << 30, 30, PageKind::Reserved1G), (MIB_2, 21, PageKind::Reserved2M)];

pub(super) const MIB_2: usize = 2 << 20;

/// `len` in whole pages of `size`; `None` if more would be left unused at the end than an eighth of it,
/// or 1 MiB. Half of a page of 1 GiB given away is memory that a flow was promised.
pub(super) fn whole_pages(len: usize, size: usize) -> Option<usize> {
    let rounded = len.checked_next_multiple_of(size)?;
    (rounded - len <= (len / 8).max(1 << 20)).then_some(rounded)
}

/// Whether more than half of the mapping that `address` is in lies in huge pages, by what
/// `/proc/self/smaps` says.
pub(super) fn are_transparent(smaps: &str, address: usize) -> bool {
    let of_mapping =
        smaps.lines().skip_while(|line| !range(line).is_some_and(|range| range.contains(&address)));
    let (mut size, mut huge) = (0, 0);
    for line in of_mapping.skip(1).take_while(|line| range(line).is_none()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let kib: u64 = value.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        match name {
            "Size" => size = kib,
            // Of memory of its own, and of a memory file's.
            "AnonHugePages" | "ShmemPmdMapped" => huge += kib,
            _ => {}
        }
    }
    huge > size / 2
}

/// The addresses of a mapping's part, if this is its first line: `7f2e80000000-7f2e85000000 rw-p 00000000 00:00 0`.
fn range(line: &str) -> Option<std::ops::Range<usize>> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let hex = |number: &str| usize::from_str_radix(number, 16).ok();
    Some(hex(from)?..hex(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_used_where_it_does_not_waste() {
        const GIB: usize = 1 << 30;
        const MIB: usize = 1 << 20;
        assert_eq!(whole_pages(GIB, GIB), Some(GIB));
        assert_eq!(whole_pages(GIB - 100 * MIB, GIB), Some(GIB));
        assert_eq!(whole_pages(GIB / 2, GIB), None, "as much again");
        assert_eq!(whole_pages(GIB + MIB, GIB), None, "nearly as much again");
        assert_eq!(whole_pages(9 * GIB + 1, GIB), Some(10 * GIB), "a tenth");
        assert_eq!(whole_pages(MIB, MIB_2), Some(MIB_2));
        assert_eq!(whole_pages(MIB - 1, MIB_2), None);
        assert_eq!(whole_pages(81 * MIB, MIB_2), Some(82 * MIB));
        assert_eq!(whole_pages(usize::MAX, GIB), None);
    }

    #[test]
    fn the_kernel_is_asked_what_it_has_done() {
        let smaps = "\
55d4c8a00000-55d4c8b00000 rw-p 00000000 00:00 0                          [heap]
Size:               1024 kB
AnonHugePages:      1024 kB
7f2e80000000-7f2e85000000 rw-p 00000000 00:00 0 
Size:              81920 kB
KernelPageSize:        4 kB
Rss:               81920 kB
AnonHugePages:     40960 kB
VmFlags: rd wr mr mw me ac sd hg 
7f2e85000000-7f2e8a000000 rw-p 00000000 00:00 0 
Size:              81920 kB
AnonHugePages:     79872 kB
7f2e90000000-7f2e90001000 r--p 00000000 00:00 0 
Size:                  4 kB
7f2e91000000-7f2e91200000 rw-s 00000000 00:01 17                         /dev/shm/flowgate/worker-0
Size:               2048 kB
AnonHugePages:         0 kB
ShmemPmdMapped:     2048 kB
";
        assert!(!are_transparent(smaps, 0x7f2e_8000_0000), "half of it");
        assert!(!are_transparent(smaps, 0x7f2e_84ff_ffff));
        assert!(are_transparent(smaps, 0x7f2e_8500_0000));
        assert!(!are_transparent(smaps, 0x7f2e_8a00_0000), "of no mapping");
        assert!(!are_transparent(smaps, 0x7f2e_9000_0000), "of which it does not say");
        assert!(are_transparent(smaps, 0x7f2e_9100_0000), "a file's");
        assert!(!are_transparent("", 0x7f2e_8500_0000));
    }
}
