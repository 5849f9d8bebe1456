//! Big-endian loads at an offset, each with one bounds check that the compiler drops where the
//! slice's length is known. One wide load each: copying headers byte array by byte array costs
//! a store-forwarding stall per field.

#![forbid(unsafe_code)]

macro_rules! load {
    ($(#[$doc:meta])* $name:ident -> $int:ty) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name(bytes: &[u8], at: usize) -> Option<$int> {
            Some(<$int>::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
        }
    };
}

load! {
    /// Two bytes; `None` past the end.
    be16 -> u16
}
load! {
    /// Four bytes; `None` past the end.
    be32 -> u32
}
load! {
    /// Eight bytes; `None` past the end.
    be64 -> u64
}

macro_rules! field {
    ($(#[$doc:meta])* $name:ident -> $int:ty, $width:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<const AT: usize, const N: usize>(header: &[u8; N]) -> $int {
            const { assert!(AT + $width <= N, "the field lies in the header") };
            let mut field = [0; $width];
            field.copy_from_slice(&header[AT..AT + $width]);
            <$int>::from_be_bytes(field)
        }
    };
}

field! {
    /// The two-byte field at `AT`, proved inside the header when compiled.
    field16 -> u16, 2
}
field! {
    /// The four-byte field at `AT`, proved inside the header when compiled.
    field32 -> u32, 4
}
field! {
    /// The eight-byte field at `AT`, proved inside the header when compiled.
    field64 -> u64, 8
}
field! {
    /// The sixteen-byte field at `AT`, proved inside the header when compiled.
    field128 -> u128, 16
}
