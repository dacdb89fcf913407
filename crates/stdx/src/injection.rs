//! Error injection: named points of the code that fail, or wait, while an operator wants them to.
//! In builds for development only: in a release build nothing is ever wanted.
//!
//! `buggify!` bends a simulation at random; these points obey whoever tests a running node from
//! outside. What is wanted is set for each thread by itself.
//!
//! Invariants
//!  - *nothing-in-release*: without debug assertions a point is a constant.
//!  - *bounded*: at most [`POINTS_MAX`] points are wanted at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Whether this build obeys.
pub const ENABLED: bool = cfg!(debug_assertions);
/// Points that are wanted at the same time.
pub const POINTS_MAX: usize = 1024;

/// A point that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Whether it is wanted for one time alone.
    pub one_shot: bool,
    /// What it is told.
    pub parameters: BTreeMap<String, String>,
    /// How often it was reached since it is wanted.
    pub entered: u64,
    /// How often those that wait here were told to go on.
    pub messages: u64,
    /// Whether the one time is over.
    pub is_spent: bool,
}

thread_local! {
    static WANTED: RefCell<BTreeMap<String, Injection>> = const { RefCell::new(BTreeMap::new()) };
}

/// A point is wanted from now on, on this thread. False: there are too many, or the build obeys
/// none.
pub fn enable(name: &str, one_shot: bool, parameters: BTreeMap<String, String>) -> bool {
    if !ENABLED {
        return false;
    }
    WANTED.with_borrow_mut(|wanted| {
        if POINTS_MAX <= wanted.len() && !wanted.contains_key(name) {
            return false;
        }
        let new = Injection { one_shot, parameters, ..Injection::default() };
        wanted.insert(name.to_owned(), new);
        true
    })
}

/// A point is wanted no more; those that wait there go on.
pub fn disable(name: &str) {
    WANTED.with_borrow_mut(|wanted| wanted.remove(name));
}

/// No point is wanted any more.
pub fn disable_all() {
    WANTED.with_borrow_mut(BTreeMap::clear);
}

/// Tells those that wait at a point to go on.
pub fn message(name: &str) {
    WANTED.with_borrow_mut(|wanted| {
        if let Some(point) = wanted.get_mut(name) {
            point.messages += 1;
        }
    });
}

/// What is wanted of a point.
pub fn wanted(name: &str) -> Option<Injection> {
    WANTED.with_borrow(|wanted| wanted.get(name).cloned())
}

/// The names of all points that are wanted.
pub fn names() -> Vec<String> {
    WANTED.with_borrow(|wanted| wanted.keys().cloned().collect())
}

/// Whether a point that was reached is wanted. Counts it.
#[inline]
pub fn reached(name: &str) -> bool {
    ENABLED && reached_at(name)
}

fn reached_at(name: &str) -> bool {
    WANTED.with_borrow_mut(|wanted| {
        let Some(point) = wanted.get_mut(name) else { return false };
        if point.is_spent {
            return false;
        }
        point.entered += 1;
        point.is_spent = point.one_shot;
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_obeyed_while_it_is_wanted() {
        assert!(!reached("a"));
        let told = BTreeMap::from([("value".to_owned(), "3".to_owned())]);
        assert!(enable("a", false, told.clone()) && enable("b", true, BTreeMap::new()));
        assert_eq!(
            [reached("a"), reached("a"), reached("b"), reached("b")],
            [true, true, true, false]
        );
        message("a");
        message("none");
        let a = wanted("a").unwrap();
        assert_eq!((a.parameters, a.entered, a.messages, a.is_spent), (told, 2, 1, false));
        assert_eq!(names(), ["a", "b"]);
        disable("a");
        assert!(!reached("a") && wanted("a").is_none());
        disable_all();
        assert_eq!(names(), [""; 0]);
    }

    #[test]
    fn only_so_many_are_wanted() {
        for number in 0..POINTS_MAX {
            assert!(enable(&format!("point {number}"), false, BTreeMap::new()));
        }
        assert!(!enable("one more", false, BTreeMap::new()));
        assert!(enable("point 0", true, BTreeMap::new()));
        disable_all();
    }
}
