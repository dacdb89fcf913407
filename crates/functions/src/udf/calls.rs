//! The calls of one statement: how long calls are preempted.
//!
//! Evaluation is one plain call chain, which cannot wait. So the evaluation of a statement is cut
//! into *steps* (a row, a key, a mutation). A call that uses up its slice, or would begin when
//! its task has had its quota, is put aside and ends the step with an error; it runs to its end
//! between the steps, slice by slice, and the step is done again.
//!
//! Invariants
//!  - *once*: a call is executed once in a step, however often the step is done again: its result
//!    is kept by its number in the order of evaluation.
//!  - *slices*: within a step a call runs for [`SLICE`] at most, or until its language can be
//!    interrupted; outside of steps it runs to its end.
//!  - *traceless*: a step that fails has changed nothing, so that it can be done again.

use super::{Pace, Running};
use crate::error::Error;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long a call has the shard before others have it.
pub(super) const SLICE: Duration = Duration::from_micros(250);

/// The calls of a statement's present step.
#[derive(Default)]
pub struct Calls {
    /// Whether a step is being done.
    in_step: Cell<bool>,
    /// Calls met since the step was begun, or begun again.
    met: Cell<usize>,
    /// What the first calls of the step have given.
    given: RefCell<Vec<Option<Vec<u8>>>>,
    paused: RefCell<Option<Box<Running>>>,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Calls({} met)", self.met.get())
    }
}

impl Calls {
    /// Does a step, as often as calls have to be waited for.
    pub async fn step<T, E: From<Error>>(
        &self,
        mut step: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        self.given.borrow_mut().clear();
        loop {
            self.met.set(0);
            self.in_step.set(true);
            let result = step();
            self.in_step.set(false);
            let Some(mut running) = self.paused.take() else { return result };
            runtime::task::yield_now().await;
            let ended = poll_fn(|cx| running.poll(cx)).await.map_err(Error::Invalid)?;
            self.given.borrow_mut().push(ended);
        }
    }

    /// The value of the next call, which `start` makes ready to run.
    pub(super) fn call(
        &self,
        start: impl FnOnce(Pace) -> Result<Running, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !self.in_step.get() {
            return whole(start(Pace::Whole)?);
        }
        let at = self.met.get();
        self.met.set(at + 1);
        if let Some(given) = self.given.borrow().get(at) {
            return Ok(given.clone());
        }
        if self.paused.borrow().is_some() {
            return Err(Error::Interrupted);
        }
        let mut running = start(Pace::Steps)?;
        if !runtime::task::need_preempt() {
            let mut nobody = Context::from_waker(Waker::noop());
            if let Poll::Ready(ended) = running.poll(&mut nobody) {
                let value = ended.map_err(Error::Invalid)?;
                self.given.borrow_mut().push(value.clone());
                return Ok(value);
            }
        }
        *self.paused.borrow_mut() = Some(Box::new(running));
        Err(Error::Interrupted)
    }
}

/// Runs a call to its end, without yielding the shard.
pub(super) fn whole(mut running: Running) -> Result<Option<Vec<u8>>, Error> {
    let mut nobody = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(ended) = running.poll(&mut nobody) {
            return ended.map_err(Error::Invalid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::super::lua::{self, Script};
    use super::*;
    use model::Type;
    use model::schema::{NullInput, UserFunction};
    use runtime::Config;
    use runtime::task::{join, yield_now};
    use runtime::testing::block_on_with;
    use std::rc::Rc;

    fn script(body: &str, time: Duration) -> (Rc<UserFunction>, Rc<Script>) {
        let function = Rc::new(UserFunction {
            keyspace: "ks".to_owned(),
            name: "f".to_owned(),
            arguments: vec![("a".to_owned(), Type::BigInt)],
            returns: Type::BigInt,
            null_input: NullInput::Called,
            language: "lua".to_owned(),
            body: body.to_owned(),
        });
        let limits = Limits { enabled: true, time, ..Limits::standard() };
        let script = Rc::new(Script::new(&function, limits).expect("a script"));
        (function, script)
    }

    fn number(value: Option<Vec<u8>>) -> i64 {
        i64::from_be_bytes(value.expect("a value").try_into().expect("eight bytes"))
    }

    const SUM: &str = "local n = 0 for i = 1, a do n = n + i end return n";

    #[test]
    fn others_have_the_shard_while_a_call_runs() {
        block_on_with(Config::new(1), || async {
            let (function, script) = script(SUM, Duration::from_secs(100));
            let calls = Calls::default();
            let argument = 5_000_000i64.to_be_bytes();
            let (mut steps, turns, ended) = (0, Cell::new(0), Cell::new(false));
            let start = |argument: &[u8]| {
                let running = lua::Running::start(&script, &function, &[Some(argument)]);
                running.map(Running::Lua).map_err(Error::Invalid)
            };
            let step = || {
                steps += 1;
                let long = number(calls.call(|_| start(&argument))?);
                let short = number(calls.call(|_| start(&2i64.to_be_bytes()))?);
                Ok::<_, Error>((long, short))
            };
            let called = async {
                let outcome = calls.step(step).await;
                ended.set(true);
                outcome
            };
            let others = async {
                while !ended.get() {
                    turns.set(turns.get() + 1);
                    yield_now().await;
                }
            };
            let (outcome, ()) = join(called, others).await;
            assert_eq!(outcome.expect("a value"), (12_500_002_500_000, 3));
            assert!(2 <= steps && 3 <= turns.get(), "{steps} steps, {} turns", turns.get());
        });
    }

    #[test]
    fn a_call_ends_with_its_time_though_it_is_interrupted() {
        block_on_with(Config::new(1), || async {
            let (function, script) = script("while true do end", Duration::from_millis(5));
            let calls = Calls::default();
            let step = || {
                calls.call(|_| {
                    let running = lua::Running::start(&script, &function, &[None]);
                    running.map(Running::Lua).map_err(Error::Invalid)
                })
            };
            let error = calls.step(step).await.expect_err("an end");
            assert_eq!(error.to_string(), "lua execution timeout: 5ms elapsed");
        });
    }

    #[test]
    fn calls_of_one_function_that_are_interrupted_do_not_meet() {
        block_on_with(Config::new(1), || async {
            let body = "local t = {} for i = 1, 20000 do t[i] = a end \
                        local n = 0 for _, v in ipairs(t) do n = n + v end return n";
            let (function, script) = script(body, Duration::from_secs(100));
            let call = |number_of: i64| {
                let (function, script) = (function.clone(), script.clone());
                async move {
                    let calls = Calls::default();
                    let argument = number_of.to_be_bytes();
                    let step = || {
                        calls.call(|_| {
                            let given = [Some(&argument[..])];
                            let running = lua::Running::start(&script, &function, &given);
                            running.map(Running::Lua).map_err(Error::Invalid)
                        })
                    };
                    number(calls.step(step).await.expect("a value"))
                }
            };
            let found = runtime::task::join_all((1..=8).map(call)).await;
            let expected: Vec<i64> = (1..=8).map(|n| n * 20_000).collect();
            assert_eq!(found, expected);
        });
    }
}
