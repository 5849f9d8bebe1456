//! The flow table's memory: one anonymous mapping, in huge pages where there are any, touched once at
//! start so that no packet waits for the kernel, and cut into typed slices. What it promises: slices
//! never overlap, are zeroed, live as long as anything uses them, and an index can be wrong but never
//! out of bounds. Beside it the two things asked of the CPU itself, to prefetch a line and to compare
//! lanes and numbers. The only `unsafe` of the flow room.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::account::Account;
use super::entry::Entry;
use super::index::Bucket;
use super::pages::{self, MIB_2, PageKind, Pages};
use super::table::Header;

/// Types that may live in a [`Region`].
///
/// # Safety
/// Any bytes, zeros among them, are a valid value; the type holds no pointer and needs no drop.
pub(super) unsafe trait Plain {}

// SAFETY: `repr(C)`, unsigned numbers only (`FlowFlags` is a `u8` of which every bit pattern is a value).
unsafe impl Plain for Entry {}
// SAFETY: `repr(C)`, unsigned numbers only.
unsafe impl Plain for Bucket {}
// SAFETY: `repr(C)`, unsigned numbers only.
unsafe impl Plain for Header {}
// SAFETY: `repr(C)`, unsigned numbers only.
unsafe impl Plain for Account {}
// SAFETY: a number.
unsafe impl Plain for u32 {}

/// A mapping of its own, given back to the kernel when the last slice of it is dropped.
struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the region owns its mapping, and nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: a region itself only holds the mapping; its bytes are reached through `Mapped` alone, each of
// which has a part of its own.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and len are those of one successful mmap, and no `Mapped` is left, as each
        // holds this region.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Maps a region and cuts it, front to back.
pub(super) struct Carver {
    region: Arc<Region>,
    used: usize,
    kind: PageKind,
}

impl Carver {
    /// Maps and touches at least `len` bytes of zeros. The pages come from the memory next to the core
    /// that calls this.
    pub(super) fn map(len: usize, pages: Pages) -> io::Result<Carver> {
        let len = len.max(1);
        if pages == Pages::Small {
            let region = map(len, 0)?;
            populate(&region)?;
            return Ok(Carver::of(region, 0, PageKind::Small));
        }
        for (size, log2, kind) in pages::RESERVED {
            let flags = libc::MAP_HUGETLB | log2.cast_signed() << libc::MAP_HUGE_SHIFT;
            // A page may be refused when it is asked for, and, in a control group that has used up its
            // own, when it is touched.
            if let Some(rounded) = pages::whole_pages(len, size)
                && let Ok(region) = map(rounded, flags)
                && populate(&region).is_ok()
            {
                return Ok(Carver::of(region, 0, kind));
            }
        }
        // Room to begin at a multiple of 2 MiB, or the kernel could not use a huge page for the ends.
        let slack = if len >= MIB_2 { MIB_2 } else { 0 };
        let region = map(len.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?, 0)?;
        if slack == 0 {
            populate(&region)?;
            return Ok(Carver::of(region, 0, PageKind::Small));
        }
        // SAFETY: the range is the mapping just made; the advice changes no contents. If it is refused,
        // the pages are small, which is seen below.
        unsafe { libc::madvise(region.base.as_ptr().cast(), region.len, libc::MADV_HUGEPAGE) };
        populate(&region)?;
        let start = region.base.as_ptr().align_offset(MIB_2);
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let huge = pages::are_transparent(&smaps, region.base.as_ptr().addr());
        Ok(Carver::of(region, start, if huge { PageKind::Transparent } else { PageKind::Small }))
    }

    fn of(region: Region, used: usize, kind: PageKind) -> Carver {
        Carver { region: Arc::new(region), used, kind }
    }

    /// What pages the region has.
    pub(super) fn kind(&self) -> PageKind {
        self.kind
    }

    /// How many bytes the region takes, all pages whole.
    pub(super) fn len(&self) -> usize {
        self.region.len
    }

    /// The next `len` values of `T`, all zero bits. At least one; `None` if the region has no room for
    /// them.
    pub(super) fn carve<T: Plain>(&mut self, len: u32) -> Option<Mapped<T>> {
        let last = len.checked_sub(1)?;
        let start = self.used.checked_next_multiple_of(align_of::<T>())?;
        let bytes = usize::try_from(len).ok()?.checked_mul(size_of::<T>())?;
        let end = start.checked_add(bytes)?;
        if end > self.region.len {
            return None;
        }
        self.used = end;
        // SAFETY: `start` is within the mapping, as `end` is.
        let base = unsafe { self.region.base.add(start) }.cast();
        Some(Mapped { base, last, len, _region: Arc::clone(&self.region), _owns: PhantomData })
    }
}

/// A mapping in whole pages, of which none is there yet.
fn map(len: usize, flags: libc::c_int) -> io::Result<Region> {
    let len = len.checked_next_multiple_of(4096).ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Region { base, len })
}

/// Has every page of a fresh mapping brought in, zeroed, next to the core that calls this.
fn populate(region: &Region) -> io::Result<()> {
    // SAFETY: the range is one mapping of ours, which nothing else refers to yet; its contents stay.
    let done = unsafe { libc::madvise(region.base.as_ptr().cast(), region.len, libc::MADV_POPULATE_WRITE) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(error);
    }
    // A kernel before 5.14. 4 KiB steps, as nobody says whether a huge page was given.
    for offset in (0..region.len).step_by(4096) {
        // SAFETY: inside the mapping. Volatile, or the compiler would leave out a write of the zero
        // that is there.
        unsafe { region.base.as_ptr().add(offset).write_volatile(0) };
    }
    Ok(())
}

/// A slice of a region. It owns its part: nothing else reads or writes it.
pub(super) struct Mapped<T> {
    base: NonNull<T>,
    /// Index of the last value; there is at least one.
    last: u32,
    /// How many values there are, at hand as each look-up asks for it.
    len: u32,
    _region: Arc<Region>,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its values as a `Vec<T>` does.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: sharing it shares `&T` only.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T: Plain> Mapped<T> {
    /// How many values there are.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Value number `i`, or the last one if there is no such: a compare and a conditional move instead of
    /// a panic that no caller can handle.
    #[inline(always)]
    pub(super) fn at(&self, i: u32) -> &T {
        // SAFETY: `place` is one of our values, aligned and valid (`Plain`); `&self` keeps it from being
        // written meanwhile.
        unsafe { self.place(i).as_ref() }
    }

    /// As [`at`](Mapped::at), to be written.
    #[inline(always)]
    pub(super) fn at_mut(&mut self, i: u32) -> &mut T {
        // SAFETY: as in `at`; `&mut self` makes it the only reference.
        unsafe { self.place(i).as_mut() }
    }

    /// The value that is to all of them as `x` is to 2^32: any number leads to one.
    #[inline(always)]
    pub(super) fn at_scaled(&self, x: u32) -> &T {
        // SAFETY: as in `at`.
        unsafe { self.scaled_place(x).as_ref() }
    }

    /// As [`prefetch`](Mapped::prefetch), of [`at_scaled`](Mapped::at_scaled).
    #[inline(always)]
    pub(super) fn prefetch_scaled(&self, x: u32) {
        prefetch(self.scaled_place(x).as_ptr());
    }

    /// Asks the CPU to load value number `i`. Free of effect otherwise.
    #[inline(always)]
    pub(super) fn prefetch(&self, i: u32) {
        prefetch(self.place(i).as_ptr());
    }

    #[inline(always)]
    fn place(&self, i: u32) -> NonNull<T> {
        // SAFETY: `0 ..= last` are within the carved part (`carve`), whose size in bytes fits isize.
        // `u32` to `usize` widens on every platform DPDK runs on.
        unsafe { self.base.add(i.min(self.last) as usize) }
    }

    #[inline(always)]
    fn scaled_place(&self, x: u32) -> NonNull<T> {
        // SAFETY: as in `place`: `scale` is below `len`, as `x` is below 2^32.
        unsafe { self.base.add(scale(x, self.len()) as usize) }
    }
}

/// A number below `n` that is to `n` as `x` is to 2^32.
#[inline(always)]
pub(super) fn scale(x: u32, n: u32) -> u32 {
    ((u64::from(x) * u64::from(n)) >> 32) as u32
}

/// Asks the CPU to load the line that a value begins in. Free of effect otherwise.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch does not fault at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch does not fault at any address and changes no register or flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{place}]", place = in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _: *const T = place;
}

/// The 16-bit lanes at the front of a bucket.
pub(super) type Lanes = [u16; 12];

/// One bit for each lane that equals `wanted`; bits from the twelfth on mean nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn equal_lanes(lanes: &Lanes, wanted: u16) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_loadl_epi64, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    };
    let place = lanes.as_ptr();
    // SAFETY: SSE2 is part of x86-64; the two loads are the first eight lanes and the four after them.
    let equal = unsafe {
        let wanted = _mm_set1_epi16(wanted.cast_signed());
        let first = _mm_cmpeq_epi16(_mm_loadu_si128(place.cast()), wanted);
        let rest = _mm_cmpeq_epi16(_mm_loadl_epi64(place.add(8).cast()), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(first, rest))
    };
    equal.cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use equal_lanes_portable as equal_lanes;

/// The entry numbers at the back of a bucket.
pub(super) type Numbers = [u32; 10];

/// One bit for each number that equals `wanted`; bits from the tenth on mean nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn equal_numbers(numbers: &Numbers, wanted: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi32, _mm_loadl_epi64, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_packs_epi32, _mm_set1_epi32,
    };
    let place = numbers.as_ptr();
    // SAFETY: SSE2 is part of x86-64; the three loads are the first four numbers, four more and the last two.
    let equal = unsafe {
        let wanted = _mm_set1_epi32(wanted.cast_signed());
        let first = _mm_cmpeq_epi32(_mm_loadu_si128(place.cast()), wanted);
        let more = _mm_cmpeq_epi32(_mm_loadu_si128(place.add(4).cast()), wanted);
        let last = _mm_cmpeq_epi32(_mm_loadl_epi64(place.add(8).cast()), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(first, more), _mm_packs_epi32(last, last)))
    };
    equal.cast_unsigned()
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn equal_numbers(numbers: &Numbers, wanted: u32) -> u32 {
    numbers.iter().rev().fold(0, |equal, number| equal << 1 | u32::from(*number == wanted))
}

/// As `equal_lanes`, in a form that compilers turn into vectors where there are any.
#[cfg(any(not(target_arch = "x86_64"), test))]
#[inline]
pub(super) fn equal_lanes_portable(lanes: &Lanes, wanted: u16) -> u32 {
    lanes.iter().rev().fold(0, |equal, lane| equal << 1 | u32::from(*lane == wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lanes_are_compared_exactly_by_either_way(lanes: [u16; 12], wanted: u16) {
            // Neighbouring values, where a borrow or carry from lane to lane would show.
            let near = |lane: u16| [wanted, wanted ^ 1, wanted ^ 0x8000, lane][usize::from(lane & 3)];
            let lanes = lanes.map(near);
            let expected = (0..12).filter(|i| lanes[*i] == wanted).fold(0, |bits, i| bits | 1 << i);
            prop_assert_eq!(equal_lanes_portable(&lanes, wanted), expected);
            prop_assert_eq!(equal_lanes(&lanes, wanted) & 0xfff, expected);
        }
    }

    proptest! {
        #[test]
        fn numbers_are_compared_exactly(numbers: [u32; 10], wanted: u32) {
            // Each differs from the wanted one by a bit, or does not, or by as many as come.
            let near = |number: u32| [wanted, wanted ^ 1 << (number >> 27), wanted ^ 1 << 15, number][number as usize & 3];
            for (numbers, wanted) in [(numbers.map(near), wanted), ([0; 10], 0), ([1; 10], 0)] {
                let expected = (0..10).filter(|i| numbers[*i] == wanted).fold(0, |bits, i| bits | 1 << i);
                prop_assert_eq!(equal_numbers(&numbers, wanted) & 0x3ff, expected);
            }
        }
    }

    proptest! {
        #[test]
        fn any_number_leads_to_a_value_in_proportion(len in 1..2000_u32, x: u32) {
            let mut carver = Carver::map(len as usize * 8, Pages::Small).unwrap();
            let mut numbers = carver.carve::<u64>(len).unwrap();
            for i in 0..len {
                *numbers.at_mut(i) = u64::from(i);
            }
            let expected = u128::from(x) * u128::from(len) / (1 << 32);
            prop_assert_eq!(u128::from(*numbers.at_scaled(x)), expected);
            prop_assert_eq!(u64::from(scale(x, len)), *numbers.at_scaled(x));
            prop_assert_eq!(*numbers.at_scaled(u32::MAX), u64::from(len) - 1);
        }
    }

    // SAFETY: a number.
    unsafe impl Plain for u64 {}

    #[test]
    fn slices_are_zeroed_aligned_apart_and_outlive_the_carver() {
        let (mut numbers, mut entries) = {
            let mut carver = Carver::map(3 * 8 + 63 + 2 * 64, Pages::Small).unwrap();
            assert_eq!(carver.kind(), PageKind::Small);
            (carver.carve::<u64>(3).unwrap(), carver.carve::<Entry>(2).unwrap())
        };
        assert_eq!(std::ptr::from_ref(entries.at(0)).align_offset(64), 0);
        for i in 0..3 {
            assert_eq!(*numbers.at(i), 0);
            *numbers.at_mut(i) = u64::MAX;
        }
        assert_eq!(entries.at(0).last_seen.0, 0, "not written through the other slice");
        entries.at_mut(1).last_seen.0 = 5;
        assert_eq!((*numbers.at(2), entries.at(1).last_seen.0), (u64::MAX, 5));
    }

    #[test]
    fn an_index_out_of_range_is_the_last_value() {
        let mut carver = Carver::map(4 * 8, Pages::Small).unwrap();
        let mut numbers = carver.carve::<u64>(4).unwrap();
        *numbers.at_mut(u32::MAX) = 9;
        assert_eq!((*numbers.at(3), *numbers.at(4), *numbers.at(2)), (9, 9, 0));
        numbers.prefetch(u32::MAX);
        assert_eq!(numbers.len(), 4);
    }

    #[test]
    fn more_than_there_is_and_nothing_at_all_are_not_given() {
        let mut carver = Carver::map(4096, Pages::Small).unwrap();
        assert!(carver.carve::<u64>(0).is_none());
        assert!(carver.carve::<Entry>(u32::MAX).is_none());
        assert!(carver.carve::<u64>(512).is_some());
        assert!(carver.carve::<u64>(1).is_none());
    }

    #[test]
    fn huge_pages_or_not_a_large_region_is_had_and_can_be_filled() {
        let mut carver = Carver::map(8 << 20, Pages::Huge).unwrap();
        let mut numbers = carver.carve::<u64>(1 << 20).unwrap();
        for i in 0..numbers.len() {
            *numbers.at_mut(i) = u64::from(i);
        }
        assert_eq!(*numbers.at(777_777), 777_777);
        assert!(carver.len() >= 8 << 20 && carver.len() <= 10 << 20);
    }

    #[test]
    fn more_than_the_machine_has_is_an_error() {
        assert!(Carver::map(usize::MAX / 2, Pages::Huge).is_err());
        assert!(Carver::map(usize::MAX, Pages::Huge).is_err());
    }
}
