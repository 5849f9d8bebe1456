//! A cell that knows whether what is in it may be half changed: as a [`Mutex`](std::sync::Mutex) is poisoned by a panic of
//! whoever holds it, but on one thread.

#![forbid(unsafe_code)]

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

/// See the module.
#[derive(Debug, Default)]
pub struct Whole<T> {
    cell: RefCell<T>,
    broken: Cell<bool>,
}

impl<T> Whole<T> {
    /// A whole one.
    pub fn new(value: T) -> Whole<T> {
        Whole { cell: RefCell::new(value), broken: Cell::new(false) }
    }

    /// To be looked at.
    ///
    /// # Panics
    /// If it is being changed.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.cell.borrow()
    }

    /// To be changed.
    ///
    /// # Panics
    /// If it is borrowed.
    pub fn borrow_mut(&self) -> Changing<'_, T> {
        Changing { value: self.cell.borrow_mut(), broken: &self.broken }
    }

    /// Whether no change of it was broken off by a panic.
    pub fn is_whole(&self) -> bool {
        !self.broken.get()
    }
}

/// What is being changed.
pub struct Changing<'a, T> {
    value: RefMut<'a, T>,
    broken: &'a Cell<bool>,
}

impl<T> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.broken.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_in_the_midst_of_a_change_is_known_and_one_beside_it_is_none() {
        let cell = Whole::new(1);
        *cell.borrow_mut() += 1;
        let looking = catch_unwind(AssertUnwindSafe(|| {
            let seen = cell.borrow();
            assert_eq!(*seen, 1, "on purpose");
        }));
        assert!(looking.is_err() && cell.is_whole());
        let changing = catch_unwind(AssertUnwindSafe(|| {
            let mut value = cell.borrow_mut();
            *value += 1;
            assert_eq!(*value, 1, "on purpose");
        }));
        assert!(changing.is_err() && !cell.is_whole());
        assert_eq!(*cell.borrow(), 3);
    }
}
