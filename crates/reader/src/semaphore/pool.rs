//! Memory that several semaphores of a shard share: whoever has used up its own borrows.
//!
//! Invariants
//!  - *borrowed-is-used*: a member borrows only for what it holds beyond its own, and gives back
//!    before anything else when it holds less.
//!  - *no-lost-wake*: whoever gives back lets the others look again.

use super::ReadSemaphore;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// See the module.
pub struct Pool {
    bytes: Cell<i64>,
    lent: Cell<i64>,
    members: RefCell<Vec<Weak<ReadSemaphore>>>,
}

impl Pool {
    /// One of so many bytes.
    pub fn new(bytes: usize) -> Rc<Pool> {
        Rc::new(Pool {
            bytes: Cell::new(bytes as i64),
            lent: Cell::new(0),
            members: RefCell::default(),
        })
    }

    /// All of it, lent or not.
    pub fn bytes(&self) -> usize {
        self.bytes.get() as usize
    }

    /// What nobody has borrowed; negative after it was made smaller.
    pub fn free(&self) -> i64 {
        self.bytes.get() - self.lent.get()
    }

    /// Makes it larger or smaller; who has borrowed keeps it.
    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.set(bytes as i64);
        self.wake();
    }

    pub(super) fn join(&self, member: &Rc<ReadSemaphore>) {
        let knows = |one: &Weak<ReadSemaphore>| one.as_ptr() == Rc::as_ptr(member);
        debug_assert!(!self.members.borrow().iter().any(knows), "no-lost-wake: joined twice");
        self.members.borrow_mut().push(Rc::downgrade(member));
    }

    /// Lends what there is of so many bytes.
    pub(super) fn borrow_up_to(&self, bytes: i64) -> i64 {
        debug_assert!(0 < bytes, "borrowed-is-used: {bytes} asked for");
        let lent = bytes.min(self.free()).max(0);
        self.lent.set(self.lent.get() + lent);
        let is_over = 0 < lent && self.bytes.get() < self.lent.get();
        debug_assert!(!is_over, "borrowed-is-used: {} lent", self.lent.get());
        lent
    }

    pub(super) fn give_back(&self, bytes: i64) {
        debug_assert!(0 < bytes, "borrowed-is-used: {bytes} given back");
        assert!(bytes <= self.lent.get(), "*borrowed-is-used*: more given back than lent");
        self.lent.set(self.lent.get() - bytes);
    }

    /// Lets all members look whether somebody can go on.
    pub(super) fn wake(&self) {
        let members: Vec<_> = self.members.borrow().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(|member| member.look());
    }
}
