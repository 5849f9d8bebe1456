//! Values that outlive whoever works with them: what a control core that starts anew must have of the one before it.
//!
//! A [`Home`] lends its value; the [`Kept`] that holds it gives it back when it is dropped, in whatever way that comes
//! about, by a panic too. One at a time has it.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Where a value is when nobody works with it.
#[derive(Debug)]
pub struct Home<T>(Rc<RefCell<Option<T>>>);

impl<T> Home<T> {
    /// With this value.
    pub fn new(value: T) -> Home<T> {
        Home(Rc::new(RefCell::new(Some(value))))
    }

    /// Whether nobody has it.
    pub fn is_home(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// The value, until it is dropped; `None` if somebody has it.
    pub fn lend(&self) -> Option<Kept<T>> {
        let value = self.0.borrow_mut().take()?;
        Some(Kept { value: Some(value), home: Rc::clone(&self.0) })
    }
}

/// A value that goes home when it is dropped.
pub struct Kept<T> {
    /// There until it is dropped.
    value: Option<T>,
    home: Rc<RefCell<Option<T>>>,
}

impl<T> From<T> for Kept<T> {
    /// One whose home nobody else knows.
    fn from(value: T) -> Kept<T> {
        Kept { value: Some(value), home: Rc::default() }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl<T: fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // Nobody borrows it for longer than `lend` takes.
        if let Ok(mut home) = self.home.try_borrow_mut() {
            *home = self.value.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_was_lent_comes_home_also_by_a_panic_and_one_at_a_time_has_it() {
        let home = Home::new(vec![1]);
        let mut lent = home.lend().unwrap();
        lent.push(2);
        assert!(home.lend().is_none());
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            lent.push(3);
            assert!(lent.len() < 3, "on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*home.lend().unwrap(), [1, 2, 3]);
        assert!(home.lend().is_some(), "it came home again");
    }
}
