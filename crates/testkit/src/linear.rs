//! Whether a history is linearizable, of one register or of what else has states: the search of
//! Wing, Gong and Lowe, with what was tried remembered.
//!
//! An operation without an answer may have happened at any time after it began, or never.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

/// What a client asks, and what it was answered.
pub trait Act {
    /// Of what it is asked.
    type State: Clone + Ord;
    /// The state after it; `None` where it cannot have happened now.
    fn after(&self, state: &Self::State) -> Option<Self::State>;
    /// Whether it has happened, as far as is known; `has_ended`: it has an answer. What has not may
    /// still have, unless it changes nothing.
    fn must_happen(&self, has_ended: bool) -> bool;
    /// Whether it may change the state.
    fn may_change(&self) -> bool;
}

/// What was asked, and what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read that said this value.
    Read(u64),
    /// A change from one value to another, if the register has the first: whether it took effect,
    /// or nobody knows.
    Change { from: u64, to: u64, took_effect: Option<bool> },
}

/// An operation, and when it was: times need no unit, but are of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<K = Kind> {
    pub kind: K,
    pub began: u64,
    /// `None`: no answer came.
    pub ended: Option<u64>,
}

impl fmt::Display for Operation {
    /// `began-ended:what`, as `3-5:r7` and `4-9:7>8+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.began)?;
        self.ended.iter().try_for_each(|ended| write!(f, "{ended}"))?;
        match self.kind {
            Kind::Read(value) => write!(f, ":r{value}"),
            Kind::Change { from, to, took_effect } => {
                let sign = match took_effect {
                    Some(true) => "+",
                    Some(false) => "-",
                    None => "?",
                };
                write!(f, ":{from}>{to}{sign}")
            }
        }
    }
}

impl Act for Kind {
    type State = u64;

    fn after(&self, value: &u64) -> Option<u64> {
        match *self {
            Kind::Read(read) => (read == *value).then_some(*value),
            Kind::Change { from, took_effect: Some(false), .. } => {
                (from != *value).then_some(*value)
            }
            Kind::Change { from, to, .. } => (from == *value).then_some(to),
        }
    }

    fn must_happen(&self, has_ended: bool) -> bool {
        match self {
            Kind::Read(_) => has_ended,
            Kind::Change { took_effect, .. } => took_effect.is_some(),
        }
    }

    fn may_change(&self) -> bool {
        matches!(self, Kind::Change { .. })
    }
}

/// What clients have asked of registers, as it happens: whatever happens in a world happens one
/// after the other, so a moment is a number.
#[derive(Debug)]
pub struct Histories {
    clock: Cell<u64>,
    ended: Cell<u64>,
    registers: RefCell<Vec<Vec<Operation>>>,
}

impl Histories {
    /// Of so many registers, each of which begins with 0.
    pub fn new(registers: usize) -> Histories {
        let registers = RefCell::new(vec![Vec::new(); registers]);
        Histories { clock: Cell::new(0), ended: Cell::new(0), registers }
    }

    fn moment(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Notes an operation that begins, to be ended by what this returns.
    pub fn begin(&self, register: usize, kind: Kind) -> usize {
        let began = self.moment();
        let history = &mut self.registers.borrow_mut()[register];
        history.push(Operation { kind, began, ended: None });
        history.len() - 1
    }

    /// It was answered; `kind` says how.
    pub fn end(&self, register: usize, at: usize, kind: Kind) {
        let ended = Some(self.moment());
        let operation = &mut self.registers.borrow_mut()[register][at];
        *operation = Operation { kind, ended, ..*operation };
        self.ended.set(self.ended.get() + 1);
    }

    /// It did nothing, for sure: as a read without an answer.
    pub fn forget(&self, register: usize, at: usize) {
        self.registers.borrow_mut()[register][at].kind = Kind::Read(0);
    }

    /// How many were answered.
    pub fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// The histories that are not linearizable, as text.
    pub fn violations(&self) -> Vec<String> {
        let registers = self.registers.borrow();
        let wrong = registers.iter().filter(|history| !is_linearizable(history));
        let shown = |history: &Vec<Operation>| {
            let all: Vec<String> = history.iter().map(Operation::to_string).collect();
            format!("not linearizable: {}", all.join(" "))
        };
        wrong.map(shown).collect()
    }
}

/// Whether some order of the operations, each between its begin and its end, explains all answers
/// of a register that begins with 0.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    is_explained(operations, 0)
}

/// The same of any state, which begins so.
pub fn is_explained<K: Act + Clone>(operations: &[Operation<K>], begin: K::State) -> bool {
    let must_happen = |op: &Operation<K>| op.kind.must_happen(op.ended.is_some());
    let mut operations = operations.to_vec();
    operations.retain(|op| must_happen(op) || op.kind.may_change());
    operations.sort_by_key(|op| op.began);
    let words = operations.len().div_ceil(64);
    let mut seen = BTreeSet::new();
    let mut open = vec![(vec![0u64; words], begin)];
    let has = |done: &[u64], at: usize| done[at / 64] >> (at % 64) & 1 == 1;
    while let Some((done, state)) = open.pop() {
        let left = || (0..operations.len()).filter(|at| !has(&done, *at));
        if left().all(|at| !must_happen(&operations[at])) {
            return true;
        }
        let ends = left().filter(|at| must_happen(&operations[*at]));
        let first_end = ends.filter_map(|at| operations[at].ended).min().unwrap_or(u64::MAX);
        for at in left().take_while(|at| operations[*at].began <= first_end) {
            let Some(after) = operations[at].kind.after(&state) else { continue };
            let mut done = done.clone();
            done[at / 64] |= 1 << (at % 64);
            if seen.insert((done.clone(), after.clone())) {
                open.push((done, after));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations as they are shown, with `r5` for a read, `1>2+` for a change that took
    /// effect, `1>2-` for one that did not and `1>2?` for one of which nobody knows.
    fn check(history: &str) -> bool {
        let parse = |word: &str| {
            let (times, what) = word.split_once(':').unwrap();
            let (began, ended) = times.split_once('-').unwrap();
            let kind = match what.strip_prefix('r') {
                Some(value) => Kind::Read(value.parse().unwrap()),
                None => {
                    let (from, to) = what.split_once('>').unwrap();
                    let took_effect = match &to[to.len() - 1..] {
                        "+" => Some(true),
                        "-" => Some(false),
                        _ => None,
                    };
                    let to = to[..to.len() - 1].parse().unwrap();
                    Kind::Change { from: from.parse().unwrap(), to, took_effect }
                }
            };
            Operation { kind, began: began.parse().unwrap(), ended: ended.parse().ok() }
        };
        is_linearizable(&history.split_whitespace().map(parse).collect::<Vec<_>>())
    }

    #[test]
    fn what_clients_ask_is_noted() {
        let change = |took_effect| Kind::Change { from: 0, to: 1, took_effect };
        let histories = Histories::new(2);
        let changing = histories.begin(0, change(None));
        let reading = histories.begin(0, Kind::Read(0));
        histories.end(0, reading, Kind::Read(1));
        histories.end(0, changing, change(Some(true)));
        let nothing = histories.begin(1, change(None));
        histories.forget(1, nothing);
        assert_eq!((histories.ended(), histories.violations()), (2, Vec::new()));
        let reading = histories.begin(1, Kind::Read(0));
        histories.end(1, reading, Kind::Read(1));
        assert_eq!(histories.violations(), ["not linearizable: 5-:r0 6-7:r1"]);
    }

    #[test]
    fn histories_that_are() {
        assert!(check(""));
        assert!(check("1-2:r0 3-4:0>1+ 5-6:r1"));
        assert!(check("1-9:0>1+ 2-3:r0 4-5:r1"));
        assert!(check("1-9:0>1+ 2-8:0>2-"));
        // Nobody knows, and it did; or it did not.
        assert!(check("1-:0>1? 5-6:r1"));
        assert!(check("1-:0>1? 5-6:r0"));
        // Late: after a read that did not see it.
        assert!(check("1-:0>1? 5-6:r0 7-8:r1"));
    }

    #[test]
    fn histories_that_are_not() {
        assert!(!check("1-2:r1"));
        assert!(!check("1-2:0>1+ 3-4:r0"));
        assert!(!check("1-2:0>1+ 3-4:0>2+"));
        assert!(!check("1-9:0>1+ 2-3:r1 4-5:r0"));
        assert!(!check("1-2:0>1-"));
        assert!(!check("5-:0>1? 1-2:r1"));
        assert!(!check("1-:0>1? 5-6:r1 7-8:r0"));
    }
}
