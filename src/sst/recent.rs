//! What tables have in common while they are open.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::panics::lock;

/// This many are remembered: one for each level of a usual store, or for each change of its options.
const REMEMBERED: usize = 8;

/// The values that tables opened lately have. Tables with equal values share them.
#[derive(Debug)]
pub(super) struct Recent<T>(Arc<Mutex<VecDeque<Arc<T>>>>);

impl<T> Recent<T> {
    /// A value that `is_equal`, or else the one that `new` makes, in place of the one that was remembered first.
    pub(super) fn share(&self, is_equal: impl Fn(&T) -> bool, new: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut recent = lock(&self.0);
        if let Some(known) = recent.iter().rev().find(|known| is_equal(known)) {
            return Arc::clone(known);
        }
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        let new = new();
        recent.push_back(Arc::clone(&new));
        new
    }
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Recent<T> {
    /// Remembers together with this one.
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_shared_while_few_others_come_between() {
        let recent = Recent::default();
        let of = |value: u32| recent.clone().share(|known| *known == value, || Arc::new(value));
        let first: Vec<_> = (0..8).map(of).collect();
        assert!((0..8).rev().map(of).all(|value| Arc::ptr_eq(&value, &first[*value as usize])));
        assert!(!Arc::ptr_eq(&of(8), &first[0]) && Arc::ptr_eq(&of(1), &first[1]), "the oldest is forgotten");
        assert!(!Arc::ptr_eq(&of(0), &first[0]));
    }
}
