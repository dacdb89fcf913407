//! `bug!`, `probe!`, `trace!` and `buggify!`: how a program says that it broke its own rules, that
//! a rare path was reached, what it does, and where a simulation may bend it.

use std::cell::{Cell, RefCell};
use std::fmt;

/// Says whether the point of that name misbehaves now; the number is "about once in so many".
pub type Decide = fn(&'static str, u32) -> bool;

/// Writes a line of a trace.
pub type Note = fn(fmt::Arguments<'_>);

thread_local! {
    static BUGGIFY: Cell<Option<Decide>> = const { Cell::new(None) };
    static TRACE: Cell<Option<Note>> = const { Cell::new(None) };
    static PROBES: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
}

/// Installs (or, with `None`, removes) the decision of this thread's simulation for `buggify!`.
pub fn set_buggify(decide: Option<Decide>) {
    BUGGIFY.with(|cell| cell.set(decide));
}

/// Whether the point `name` should misbehave now: never outside a simulation.
pub fn buggify(name: &'static str, one_in: u32) -> bool {
    BUGGIFY.with(|cell| cell.get()).is_some_and(|decide| decide(name, one_in))
}

/// Installs (or, with `None`, removes) who writes the trace of this thread's simulation.
pub fn set_trace(note: Option<Note>) {
    TRACE.with(|cell| cell.set(note));
}

/// Whether somebody writes a trace: for `trace!`.
pub fn is_traced() -> bool {
    TRACE.with(|cell| cell.get().is_some())
}

/// Writes a line of the trace, where somebody does: for `trace!`.
pub fn trace(what: fmt::Arguments<'_>) {
    if let Some(note) = TRACE.with(|cell| cell.get()) {
        note(what);
    }
}

/// Starts recording the probes that this thread reaches.
pub fn record_probes() {
    PROBES.with(|cell| *cell.borrow_mut() = Some(Vec::new()));
}

/// Stops recording; the probes reached since [`record_probes`], each once.
pub fn take_probes() -> Vec<&'static str> {
    PROBES.with(|cell| cell.borrow_mut().take()).unwrap_or_default()
}

/// Records that `name` was reached, where somebody records.
pub fn probe(name: &'static str) {
    PROBES.with(|cell| {
        if let Some(seen) = cell.borrow_mut().as_mut()
            && !seen.contains(&name)
        {
            seen.push(name);
        }
    });
}

/// Marks a rare path that tests must reach: `probe!("replay met a torn block")`.
#[macro_export]
macro_rules! probe {
    ($name:literal) => {
        if cfg!(debug_assertions) {
            $crate::check::probe($name);
        }
    };
}

/// Says what happens, in simulations whose trace somebody reads: `trace!("asks {who}: {what}")`.
#[macro_export]
macro_rules! trace {
    ($($what:tt)+) => {
        if cfg!(debug_assertions) && $crate::check::is_traced() {
            $crate::check::trace(format_args!($($what)+));
        }
    };
}

/// True at random in simulation, about once in `one_in`; false everywhere else:
/// `if buggify!("page of one row", 20) { .. }`.
#[macro_export]
macro_rules! buggify {
    ($name:literal, $one_in:expr) => {
        $crate::check::buggify($name, $one_in)
    };
}

/// We broke a rule of ours, but only one request suffers: panics in tests and simulation; in
/// production the expression after the message is what the caller gets.
#[macro_export]
macro_rules! bug {
    ($else:expr, $($message:tt)+) => {{
        if cfg!(debug_assertions) {
            panic!($($message)+);
        }
        $else
    }};
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_trace_is_written_where_somebody_reads_it() {
        let made = std::cell::Cell::new(0);
        let number = || {
            made.set(made.get() + 1);
            made.get()
        };
        trace!("nobody reads {}", number());
        super::set_trace(Some(|what| {
            LINES.with(|lines| lines.borrow_mut().push(what.to_string()))
        }));
        trace!("line {}", number());
        super::set_trace(None);
        trace!("nobody reads {}", number());
        assert_eq!(LINES.with(|lines| lines.take()), ["line 1"]);
    }

    #[test]
    fn probes_are_recorded_once_and_buggify_sleeps() {
        super::record_probes();
        for _ in 0..3 {
            probe!("stdx test probe");
        }
        assert_eq!(super::take_probes(), ["stdx test probe"]);
        assert!(!buggify!("stdx test point", 1));
    }
}
