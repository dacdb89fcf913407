//! What may be found after a crash, given what was attempted and what was acknowledged.
//!
//! Invariants
//!  - *acknowledged-stays*: what was acknowledged is found, or what was in flight after it.
//!  - *nothing-unasked*: what was not attempted is not found.
//!
//! A checker tells a violation as text; who asks knows the seed.

use std::fmt::Debug;

/// A value that is changed by one writer, one change after the other.
#[derive(Clone, Debug)]
pub struct Register<T> {
    acknowledged: T,
    attempted: Option<T>,
    changes: u64,
}

impl<T: Clone + Debug + PartialEq> Register<T> {
    /// Before the first change.
    pub fn new(value: T) -> Register<T> {
        Register { acknowledged: value, attempted: None, changes: 0 }
    }

    /// A change begins.
    pub fn attempt(&mut self, value: T) {
        assert!(self.attempted.is_none(), "one change after the other");
        self.attempted = Some(value);
    }

    /// The change is done.
    pub fn acknowledge(&mut self) {
        let attempted = self.attempted.take();
        self.acknowledged = attempted.expect("a change that was attempted");
        self.changes += 1;
    }

    /// What it is, as far as is known.
    pub fn known(&self) -> &T {
        &self.acknowledged
    }

    /// Changes that were acknowledged.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// This was found after a crash: it is what is known from now on.
    pub fn settle(&mut self, found: T) -> Result<(), String> {
        let attempted = self.attempted.take();
        if found != self.acknowledged && Some(&found) != attempted.as_ref() {
            let known = &self.acknowledged;
            return Err(format!("found {found:?} after {known:?}, in flight {attempted:?}"));
        }
        self.acknowledged = found;
        Ok(())
    }

    /// The same where acknowledged changes may be lost.
    pub fn accept(&mut self, found: T) {
        self.attempted = None;
        self.acknowledged = found;
    }
}

/// A sum that many add to at a time.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    least: i64,
    most: i64,
}

impl Sum {
    /// So much is going to be added.
    pub fn attempt(&mut self, amount: u32) {
        self.most += i64::from(amount);
    }

    /// So much was added.
    pub fn acknowledge(&mut self, amount: u32) {
        self.least += i64::from(amount);
        assert!(self.least <= self.most, "more was acknowledged than attempted");
    }

    /// What was acknowledged.
    pub fn known(&self) -> i64 {
        self.least
    }

    /// This was found after a crash: it is what is known from now on.
    pub fn settle(&mut self, found: i64) -> Result<(), String> {
        let Sum { least, most } = *self;
        if found < least || most < found {
            return Err(format!("found {found}, which is not in {least}..={most}"));
        }
        *self = Sum { least: found, most: found };
        Ok(())
    }
}

/// The value that all of a group have, whose changes are done as a whole or not at all.
pub fn whole<T: Clone + Debug + PartialEq>(values: &[T]) -> Result<T, String> {
    match values {
        [first, rest @ ..] if rest.iter().all(|value| value == first) => Ok(first.clone()),
        _ => Err(format!("half a change: {values:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_as_acknowledged_or_as_attempted() {
        let told = |attempted: &[i32], acknowledged: usize, found| {
            let mut register = Register::new(0);
            for (number, value) in attempted.iter().enumerate() {
                register.attempt(*value);
                if number < acknowledged {
                    register.acknowledge();
                }
            }
            register.settle(found).map(|()| *register.known())
        };
        assert_eq!(told(&[], 0, 0), Ok(0));
        assert_eq!(told(&[1, 2], 1, 1), Ok(1));
        assert_eq!(told(&[1, 2], 1, 2), Ok(2));
        for (attempted, acknowledged, found) in [(&[1][..], 1, 0), (&[1, 2], 1, 0), (&[1], 1, 3)] {
            let told = told(attempted, acknowledged, found);
            assert!(told.is_err(), "{attempted:?} {acknowledged} {found}: {told:?}");
        }
    }

    #[test]
    fn what_was_in_flight_once_is_not_forgotten_twice() {
        let mut register = Register::new(0);
        register.attempt(1);
        assert_eq!(register.settle(0), Ok(()));
        // It would have come back.
        assert!(register.settle(1).is_err());
        register.accept(5);
        assert_eq!((register.settle(5), register.changes()), (Ok(()), 0));
    }

    #[test]
    fn a_sum_is_between_what_was_acknowledged_and_what_was_attempted() {
        let mut sum = Sum::default();
        sum.attempt(5);
        sum.acknowledge(2);
        assert!(sum.clone().settle(1).is_err() && sum.clone().settle(6).is_err());
        assert_eq!(sum.settle(4), Ok(()));
        assert_eq!((sum.known(), sum.settle(5).is_err()), (4, true));
    }

    #[test]
    fn a_group_agrees() {
        assert_eq!(whole(&[1, 1, 1]), Ok(1));
        assert!(whole(&[1, 2, 1]).is_err() && whole::<i32>(&[]).is_err());
    }
}
