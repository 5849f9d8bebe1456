//! The flow table's memory: one mapping, anonymous or of a file that outlives the process, in huge pages where there are
//! any, touched once at start so that no packet waits for the kernel, and cut into typed slices. What it promises: slices
//! never overlap, are zeroed, live as long as anything uses them, and an index can be wrong but never
//! out of bounds. Beside it the two things asked of the CPU itself, to prefetch a line and to compare
//! lanes and numbers. The only `unsafe` of the flow room.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::account::Account;
use super::entry::Entry;
use super::index::Bucket;
use super::kept_links::KeptLink;
use super::pages::{self, FilePages, MIB_2, PageKind, Pages};
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
// SAFETY: `repr(C)`, unsigned numbers only.
unsafe impl Plain for KeptLink {}
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
    /// Where what may be used of the region ends.
    end: usize,
    kind: PageKind,
}

impl Carver {
    /// Maps and touches at least `len` bytes of zeros. The pages come from the memory next to the core
    /// that calls this.
    pub(super) fn map(len: usize, pages: Pages) -> io::Result<Carver> {
        let len = len.max(1);
        if pages == Pages::Small {
            let region = map(len, 0)?;
            region.populate(0, region.len)?;
            return Ok(Carver::of(region, 0, PageKind::Small));
        }
        for (size, log2, kind) in pages::RESERVED {
            let flags = libc::MAP_HUGETLB | log2.cast_signed() << libc::MAP_HUGE_SHIFT;
            // A page may be refused when it is asked for, and, in a control group that has used up its
            // own, when it is touched.
            if let Some(rounded) = pages::whole_pages(len, size)
                && let Ok(region) = map(rounded, flags)
                && region.populate(0, rounded).is_ok()
            {
                return Ok(Carver::of(region, 0, kind));
            }
        }
        // Room to begin at a multiple of 2 MiB, or the kernel could not use a huge page for the ends.
        let slack = if len >= MIB_2 { MIB_2 } else { 0 };
        let region = map(len.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?, 0)?;
        if slack == 0 {
            region.populate(0, region.len)?;
            return Ok(Carver::of(region, 0, PageKind::Small));
        }
        // If it is refused, the pages are small, which is seen below.
        region.advise(0, region.len, libc::MADV_HUGEPAGE).ok();
        region.populate(0, region.len)?;
        let start = region.base.as_ptr().align_offset(MIB_2);
        let kind = region.transparent(0);
        Ok(Carver::of(region, start, kind))
    }

    /// Maps the first `len` bytes of a file, which has them, and all of whose pages are of `page` bytes or of ordinary ones.
    /// What is written there is the file's, whatever becomes of the process.
    ///
    /// # Errors
    /// If the kernel refuses, or there is no memory for it. A file that has no room for its pages is an error here and no
    /// signal later, provided that nobody cuts it.
    pub(super) fn map_file(file: &File, len: usize, page: FilePages) -> io::Result<Carver> {
        let align = if page == FilePages::Small { 4096 } else { page.size().max(MIB_2) };
        let whole = len.checked_next_multiple_of(page.size()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Room to begin where a page may begin.
        let region = map_as(whole.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?, 0, libc::PROT_NONE)?;
        let start = region.base.as_ptr().align_offset(align);
        let (flags, access) = (libc::MAP_SHARED | libc::MAP_FIXED, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the range lies within the mapping just made, which nothing refers to yet and which it takes the place of;
        // the region gives back both.
        let at = unsafe {
            libc::mmap(region.base.as_ptr().add(start).cast(), whole, access, flags, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A core dump of the daemon is large enough, and clients' addresses are nobody's business.
        region.advise(start, whole, libc::MADV_DONTDUMP).ok();
        if page == FilePages::Transparent {
            region.advise(start, whole, libc::MADV_HUGEPAGE).ok();
        }
        region.populate(start, whole)?;
        let kind = match page {
            FilePages::Small => PageKind::Small,
            FilePages::Transparent => match region.transparent(start) {
                // Memory files have huge pages by themselves only where an administrator has said so. Asked for
                // so they have them from Linux 6.1 on.
                PageKind::Small => {
                    let huge = whole / MIB_2 * MIB_2;
                    region.advise(start, huge, libc::MADV_COLLAPSE).ok();
                    region.transparent(start)
                }
                kind => kind,
            },
            FilePages::Reserved { size } if size >= 1 << 30 => PageKind::Reserved1G,
            FilePages::Reserved { .. } => PageKind::Reserved2M,
        };
        let mut carver = Carver::of(region, start, kind);
        carver.end = start + whole;
        Ok(carver)
    }

    fn of(region: Region, used: usize, kind: PageKind) -> Carver {
        Carver { end: region.len, region: Arc::new(region), used, kind }
    }

    /// What pages the region has.
    pub(super) fn kind(&self) -> PageKind {
        self.kind
    }

    /// How many bytes of memory the region takes, all pages whole.
    pub(super) fn len(&self) -> usize {
        self.end
    }

    /// The next `len` values of `T`, all zero bits in a mapping of its own or a fresh file. At least one; `None` if the region has no room for
    /// them.
    pub(super) fn carve<T: Plain>(&mut self, len: u32) -> Option<Mapped<T>> {
        let last = len.checked_sub(1)?;
        let start = self.used.checked_next_multiple_of(align_of::<T>())?;
        let bytes = usize::try_from(len).ok()?.checked_mul(size_of::<T>())?;
        let end = start.checked_add(bytes)?;
        if end > self.end {
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
    map_as(len, flags, libc::PROT_READ | libc::PROT_WRITE)
}

fn map_as(len: usize, flags: libc::c_int, access: libc::c_int) -> io::Result<Region> {
    let len = len.checked_next_multiple_of(4096).ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Region { base, len })
}

impl Region {
    /// Gives the kernel a piece of advice that changes no contents, about a part of the region: what is beyond it is left out.
    fn advise(&self, start: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
        let start = start.min(self.len);
        let len = len.min(self.len - start);
        // SAFETY: the range lies within a mapping of ours; every advice given in this file keeps its contents.
        let done = unsafe { libc::madvise(self.base.as_ptr().add(start).cast(), len, advice) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has every page of a part of a mapping brought in, a fresh one zeroed, next to the core that calls this.
    fn populate(&self, start: usize, len: usize) -> io::Result<()> {
        match self.advise(start, len, libc::MADV_POPULATE_WRITE) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            done => return done,
        }
        // A kernel before 5.14. 4 KiB steps, as nobody says whether a huge page was given.
        for offset in (start..start.saturating_add(len).min(self.len)).step_by(4096) {
            // SAFETY: inside the mapping. Volatile, or the compiler would leave out the write of what is there.
            unsafe {
                let place = self.base.as_ptr().add(offset);
                place.write_volatile(place.read_volatile());
            }
        }
        Ok(())
    }

    /// Whether the mapping that has this place is mostly in huge pages that were not reserved.
    fn transparent(&self, place: usize) -> PageKind {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let huge = pages::are_transparent(&smaps, self.base.as_ptr().addr() + place);
        if huge { PageKind::Transparent } else { PageKind::Small }
    }
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

    /// All of it, to be read. A loop that has it by value keeps it in registers, whatever it writes elsewhere.
    #[inline(always)]
    pub(super) fn view(&self) -> View<'_, T> {
        View { base: self.base, last: self.last, len: self.len, _of: PhantomData }
    }

    /// As [`View::at`].
    #[inline(always)]
    pub(super) fn at(&self, i: u32) -> &T {
        self.view().at(i)
    }

    /// As [`at`](Mapped::at), to be written.
    #[inline(always)]
    pub(super) fn at_mut(&mut self, i: u32) -> &mut T {
        // SAFETY: as in `View::at`; `&mut self` makes it the only reference.
        unsafe { self.view().place(i).as_mut() }
    }

    /// As [`View::prefetch`].
    #[inline(always)]
    pub(super) fn prefetch(&self, i: u32) {
        self.view().prefetch(i);
    }
}

/// What a slice of a region has, for whoever reads it.
pub(super) struct View<'a, T> {
    base: NonNull<T>,
    last: u32,
    len: u32,
    _of: PhantomData<&'a T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'a, T: Plain> View<'a, T> {
    /// Value number `i`, or the last one if there is no such: a compare and a conditional move instead of
    /// a panic that no caller can handle.
    #[inline(always)]
    pub(super) fn at(self, i: u32) -> &'a T {
        // SAFETY: `place` is one of the slice's values, aligned and valid (`Plain`); the borrow of the slice keeps it from
        // being written meanwhile.
        unsafe { self.place(i).as_ref() }
    }

    /// The value that is to all of them as `x` is to 2^32: any number leads to one.
    #[inline(always)]
    pub(super) fn at_scaled(self, x: u32) -> &'a T {
        // SAFETY: as in `at`.
        unsafe { self.scaled_place(x).as_ref() }
    }

    /// As [`prefetch`](View::prefetch), of [`at_scaled`](View::at_scaled).
    #[inline(always)]
    pub(super) fn prefetch_scaled(self, x: u32) {
        prefetch(self.scaled_place(x).as_ptr());
    }

    /// Asks the CPU to load value number `i`. Free of effect otherwise.
    #[inline(always)]
    pub(super) fn prefetch(self, i: u32) {
        prefetch(self.place(i).as_ptr());
    }

    #[inline(always)]
    fn place(self, i: u32) -> NonNull<T> {
        // SAFETY: `0 ..= last` are within the carved part (`carve`), whose size in bytes fits isize.
        // `u32` to `usize` widens on every platform DPDK runs on.
        unsafe { self.base.add(i.min(self.last) as usize) }
    }

    #[inline(always)]
    fn scaled_place(self, x: u32) -> NonNull<T> {
        // SAFETY: as in `place`: `scale` is below `len`, as `x` is below 2^32.
        unsafe { self.base.add(scale(x, self.len) as usize) }
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
mod tests;
