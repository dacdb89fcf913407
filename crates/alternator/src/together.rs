//! Writes by rounds of one partition that come while another one is under way: they wait for each
//! other, and those that wait are made in one round. What a round takes, most of all to be on the
//! disk, is paid once for all of them.
//!
//! Invariants
//!  - *in-order*: writes of a partition that come to a shard are judged as they came.
//!  - *one-at-a-time*: a shard has one round of a partition under way.
//!  - *bounded*: so many writes of a partition wait, and no longer than a request may take.
//!  - *gone-is-not-made*: a write whose client was told that it came too late is not begun.

use crate::error::{Error, Kind};
use crate::key::Key;
use crate::table::Table;
use crate::write::Write;
use cluster::TableEntry;
use model::TableId;
use model::schema::cdc::CdcOptions;
use replication::{Coordinator, LocalFuture, Owner, WriteOptions};
use runtime::group;
use runtime::sync::{OneshotSender, oneshot};
use runtime::task::Scope;
use runtime::time::timeout;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::HashMap;

/// Writes of a partition that wait.
const WAITING_MAX: usize = 1000;
/// Writes of a round: they are judged in one turn.
const ROUND_MAX: usize = 64;

type Answer = Result<String, Error>;

/// Writes that wait, by partition.
type Partitions = HashMap<(TableId, Vec<u8>), VecDeque<Waiting>>;

/// Makes writes in one round of a partition that is held: an answer for each.
pub(crate) type Run = fn(Owner, Vec<Write>) -> LocalFuture<'static, Result<Vec<Answer>, Error>>;

/// A write, and who waits for it.
struct Waiting {
    entry: Rc<TableEntry>,
    write: Write,
    answer: OneshotSender<Answer>,
}

/// One shard's.
pub(crate) struct Together {
    /// By partition, while there is a round of it.
    partitions: Rc<RefCell<Partitions>>,
    rounds: Scope,
}

impl Default for Together {
    fn default() -> Together {
        Together { partitions: Rc::default(), rounds: Scope::new() }
    }
}

impl Together {
    /// Makes a write in a round, with others of its partition or alone. (*bounded*)
    pub(crate) async fn make(
        &self,
        coordinator: &Rc<Coordinator>,
        table: &Table,
        (write, options): (Write, WriteOptions),
        run: Run,
    ) -> Answer {
        let place = (table.entry.schema.id, write.key.partition.clone());
        let (answer, answered) = oneshot();
        let waiting = Waiting { entry: table.entry.clone(), write, answer };
        let is_first = {
            let mut partitions = self.partitions.borrow_mut();
            let is_first = !partitions.contains_key(&place);
            let queue = partitions.entry(place.clone()).or_default();
            if queue.len() == WAITING_MAX {
                let text = format!("{WAITING_MAX} writes wait for one partition of {}", table.name);
                return Err(Error::new(Kind::RequestLimitExceeded, text));
            }
            queue.push_back(waiting);
            is_first
        };
        if is_first {
            let (partitions, coordinator) = (self.partitions.clone(), coordinator.clone());
            let rounds = async move {
                loop {
                    let next = next_of(&mut partitions.borrow_mut(), &place);
                    let Some(waiting) = next else { return };
                    make_all(&coordinator, waiting, &options, run).await;
                }
            };
            self.rounds.spawn_in(group::STATEMENT, rounds);
        }
        let stops = |_| Error::internal("the node stops");
        match timeout(options.timeout, answered).await {
            Ok(answer) => answer.map_err(stops)?,
            Err(_) => Err(Error::internal(format!(
                "the write was not made within {:?}: too many wait for its partition",
                options.timeout
            ))),
        }
    }
}

/// Those of the next round of a partition; `None`: nobody waits. (*gone-is-not-made*)
fn next_of(partitions: &mut Partitions, place: &(TableId, Vec<u8>)) -> Option<Vec<Waiting>> {
    let queue = partitions.get_mut(place)?;
    queue.retain(|waiting| !waiting.answer.is_closed());
    // Each write of a table with a stream is a record of it.
    let keeps_stream = |one: &Waiting| CdcOptions::of(&one.entry.schema.options).is_some();
    let is_alone = queue.front().is_some_and(keeps_stream);
    let count = if is_alone { 1 } else { queue.len().min(ROUND_MAX) };
    let next: Vec<Waiting> = queue.drain(..count).collect();
    if next.is_empty() {
        partitions.remove(place);
        return None;
    }
    Some(next)
}

/// Makes writes of a partition in one round, and answers them.
async fn make_all(
    coordinator: &Coordinator,
    waiting: Vec<Waiting>,
    options: &WriteOptions,
    run: Run,
) {
    let Some(last) = waiting.last() else { return };
    let (entry, Key { partition, .. }) = (last.entry.clone(), last.write.key.clone());
    let token = last.write.key.token();
    let (mut writes, mut answers) = (Vec::new(), Vec::new());
    for Waiting { write, answer, .. } in waiting {
        writes.push(write);
        answers.push(answer);
    }
    let change = move |owner| run(owner, writes);
    let made = coordinator.on_owner(&entry, token, &partition, options, change).await;
    match made.map_err(Error::from).and_then(|made| made) {
        Ok(made) => {
            debug_assert_eq!(made.len(), answers.len(), "in-order: an answer for each write");
            for (answer, made) in answers.into_iter().zip(made) {
                // Who has gone does not want to know.
                let _ = answer.send(made);
            }
        }
        Err(error) => answers.into_iter().for_each(|answer| {
            let _ = answer.send(Err(error.clone()));
        }),
    }
}
