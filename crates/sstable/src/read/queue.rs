//! A queue that has one element most of the time, which lies in the queue itself.
//!
//! Invariants
//!  - *first-first*: while there is no first element, there is no other either.

use std::collections::VecDeque;

/// First in, first out. One element takes no allocation.
#[derive(Debug)]
pub(super) struct Queue<T> {
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Queue<T> {
    /// Without an element; allocates nothing.
    pub(super) fn new() -> Queue<T> {
        Queue { first: None, rest: VecDeque::new() }
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        debug_assert!(self.first.is_some() || self.rest.is_empty(), "first-first");
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// The element that leaves next.
    pub(super) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// The same, to be changed.
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    /// The element that leaves last.
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        debug_assert!(self.first.is_some() || self.rest.is_empty(), "first-first");
        self.rest.back_mut().or(self.first.as_mut())
    }

    /// An element by its place from the front.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(1) {
            None => self.first.as_mut(),
            Some(index) => self.rest.get_mut(index),
        }
    }

    /// Adds an element that leaves last.
    pub(super) fn push_back(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.rest.push_back(element),
        }
    }

    /// Adds an element that leaves next.
    pub(super) fn push_front(&mut self, element: T) {
        debug_assert!(self.first.is_some() || self.rest.is_empty(), "first-first");
        if let Some(second) = self.first.replace(element) {
            self.rest.push_front(second);
        }
    }

    /// Takes out the element that leaves next.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        debug_assert!(self.first.is_some() || self.rest.is_empty(), "first-first");
        let next = self.rest.pop_front();
        std::mem::replace(&mut self.first, next)
    }

    /// Takes out all.
    pub(super) fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in vec((0u8..8, any::<u16>()), 0..60)) {
            let (mut queue, mut naive) = (Queue::new(), VecDeque::new());
            for (step, number) in steps {
                match step {
                    0..3 => {
                        queue.push_back(number);
                        naive.push_back(number);
                    }
                    3..5 => {
                        queue.push_front(number);
                        naive.push_front(number);
                    }
                    5..7 => prop_assert_eq!(queue.pop_front(), naive.pop_front()),
                    _ => {
                        queue.clear();
                        naive.clear();
                    }
                }
                prop_assert_eq!(queue.len(), naive.len());
                prop_assert_eq!(queue.front(), naive.front());
                prop_assert_eq!(queue.front_mut(), naive.front_mut());
                prop_assert_eq!(queue.back_mut(), naive.back_mut());
                for index in 0..naive.len() + 1 {
                    prop_assert_eq!(queue.get_mut(index), naive.get_mut(index));
                }
            }
        }
    }
}
