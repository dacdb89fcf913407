//! Lines of the log about other nodes, each at most once in a while: a node that is refused tries
//! again, and again.
//!
//! Invariants
//!  - *once-in-a-while*: a line of a subject and a kind is written once in [`PERIOD`].
//!  - *bounded-subjects*: no more than [`SUBJECTS_MAX`] subjects are remembered.

use runtime::time::Instant;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(10);
const SUBJECTS_MAX: usize = 256;

/// What a line is about: the other node, and the thing.
type Subject = (String, &'static str);

/// The lines of a shard.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    told: RefCell<BTreeMap<Subject, (Instant, u64)>>,
    /// What was written, for tests.
    #[cfg(test)]
    pub(crate) lines: RefCell<Vec<String>>,
}

impl Complaints {
    /// Whether a line is to be written now, and how many were not since the last one.
    pub(crate) fn may_tell(&self, who: &str, what: &'static str, now: Instant) -> Option<u64> {
        let mut told = self.told.borrow_mut();
        if let Some((last, left_out)) = told.get_mut(&(who.to_string(), what)) {
            if now - *last < PERIOD {
                *left_out += 1;
                return None;
            }
            debug_assert!(*last < now, "once-in-a-while: time goes back");
            *last = now;
            return Some(std::mem::take(left_out));
        }
        if SUBJECTS_MAX <= told.len() {
            told.retain(|_, (last, _)| now - *last < PERIOD);
        }
        if SUBJECTS_MAX <= told.len() {
            // Many complain at once: enough was said.
            return None;
        }
        told.insert((who.to_string(), what), (now, 0));
        debug_assert!(told.len() <= SUBJECTS_MAX, "bounded-subjects: {}", told.len());
        Some(0)
    }

    /// Warns of a node, where that was not done just before.
    pub(crate) fn warn(&self, who: &str, what: &'static str, line: &str) {
        let may_tell = self.may_tell(who, what, Instant::now());
        let line = line.replace(char::is_control, " ");
        #[cfg(test)]
        self.lines.borrow_mut().extend(may_tell.map(|_| line.to_string()));
        match may_tell {
            None => {}
            Some(0) => tracing::warn!(target: "messaging", "{line}"),
            Some(more) => tracing::warn!(target: "messaging", "{line} ({more} more times)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_in_a_while() {
        let (complaints, at) =
            (Complaints::default(), |secs| Instant::ZERO + Duration::from_secs(secs));
        let tell = |who: &str, what, secs| complaints.may_tell(who, what, at(secs));
        assert_eq!(tell("a", "banned", 100), Some(0));
        assert_eq!(tell("a", "banned", 101), None);
        assert_eq!(tell("b", "banned", 101), Some(0));
        assert_eq!(tell("a", "cluster", 102), Some(0));
        assert_eq!(tell("a", "banned", 109), None);
        assert_eq!(tell("a", "banned", 110), Some(2));
        for other in 0..1000 {
            tell(&other.to_string(), "banned", 111);
        }
        assert_eq!(complaints.told.borrow().len(), SUBJECTS_MAX);
        assert_eq!(tell("x", "banned", 130), Some(0));
    }
}
