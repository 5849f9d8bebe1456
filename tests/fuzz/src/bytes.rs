//! An input of a target whose inputs are no text: numbers, taken from it one after the other.

/// What is left of an input. What is taken beyond its end is zero.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn double(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    pub fn bit(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, which is at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of some.
    pub fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }

    /// Something, or nothing.
    pub fn maybe<T>(&mut self, take: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.bit() { Some(take(self)) } else { None }
    }

    /// As many of the bytes as the next one says, and as there are.
    pub fn some(&mut self) -> &'a [u8] {
        let wanted = usize::from(self.byte());
        let (some, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        some
    }
}
