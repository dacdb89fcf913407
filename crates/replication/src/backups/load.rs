//! One step of putting a part of this node's snapshot into a table.
//!
//! Invariants
//!  - *ever-is-final*: what is said never to be loaded would not be loaded later either: a file
//!    breaks its own rules, or a row can be written nowhere.

use super::NotLoaded;
use crate::coordinator::{Coordinator, own_coordinator};
use crate::cursor::Cursor;
use crate::error::WriteError;
use crate::options::{Consistency, WriteKind, WriteOptions};
use crate::range;
use crate::stretch::{Gatherer, Stretch};
use crate::wire::backups::{Load, Loaded};
use cluster::TableEntry;
use model::{DecoratedKey, Token};
use mutation::page::{Partitions, ReadCommand, Resume, RingBound};
use mutation::{FrozenMutation, Step};
use reader::semaphore::Reading;
use reader::{PartitionScope, Slice};
use runtime::task::join_all;
use runtime::time::{Instant, wall_micros};
use std::collections::BTreeSet;
use std::time::Duration;
use stdx::Bytes;
use storage::{OpenSnapshot, StorageError};

/// Rows that are held at once, about.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// After so long a step ends with the batch at hand.
pub(super) const STEP_TIME: Duration = Duration::from_secs(2);
/// Writes under way at once.
const WRITES_AT_ONCE: usize = 32;
/// How long a write, and the admission of a read, may take.
const PATIENCE: Duration = Duration::from_secs(10);

const _: () = assert!(STEP_TIME.as_nanos() < super::STEP_PATIENCE.as_nanos(), "steps time out");

/// `None`: there is no such snapshot.
pub(super) async fn step(load: Load) -> Result<Option<Loaded>, NotLoaded> {
    let coordinator = own_coordinator().map_err(|it| NotLoaded::Yet(it.to_string()))?;
    let table = coordinator.cluster.schema().table_by_id(load.into).cloned();
    let table = table.ok_or_else(|| NotLoaded::Yet(format!("there is no table {}", load.into)))?;
    let opened = coordinator.storage.open_snapshot(&load.place, table.schema.clone()).await;
    let Some(snapshot) = opened.map_err(unopened)? else { return Ok(None) };
    debug_assert!(table.schema.view.is_none(), "rows of a view are its table's");
    debug_assert!(load.part.0 < load.part.1, "a part of the ring that there is not");
    let until = Instant::now() + STEP_TIME;
    let mut loaded = Loaded { mutations: 0, bytes: 0, next: load.from };
    loop {
        let mut command = command(&table, load.part);
        command.resume = loaded.next.take();
        let from = command.resume.clone();
        let batch = read(&coordinator, &snapshot, &table, command).await?;
        let goes_on = batch.reached.is_none() || batch.reached != from;
        assert!(goes_on, "bounded: a step ends where it began: {from:?}");
        loaded.mutations += batch.mutations.len() as u64;
        loaded.bytes += batch.size_bytes() as u64;
        loaded.next = batch.reached;
        write(&coordinator, &table, batch.mutations).await?;
        if loaded.next.is_none() || until <= Instant::now() {
            return Ok(Some(loaded));
        }
    }
}

/// All of a part of the ring.
fn command(table: &TableEntry, (part, parts): (u8, u8)) -> ReadCommand {
    let (first, last) = tokens(part, parts);
    let bound = |token, after| RingBound { token, key: None, after };
    let partitions = Partitions::Range { start: bound(first, false), end: bound(last, true) };
    let now = wall_micros().div_euclid(1_000_000);
    ReadCommand { bytes_max: BATCH_BYTES, ..ReadCommand::all(table.schema.id, partitions, now) }
}

/// The tokens of a part of the ring, the first and the last one.
pub fn tokens(part: u8, parts: u8) -> (Token, Token) {
    assert!(part < parts, "part {part} of {parts}");
    let begin = |part: u8| ((i128::from(part) << 64) / i128::from(parts)) + i128::from(i64::MIN);
    let (first, next) = (begin(part), begin(part + 1));
    debug_assert!(first < next, "part {part} of {parts} is empty");
    (Token(first as i64), Token((next - 1) as i64))
}

/// What of a snapshot a command reads, up to where the stretch has bytes enough.
async fn read(
    coordinator: &Coordinator,
    snapshot: &OpenSnapshot,
    table: &TableEntry,
    command: ReadCommand,
) -> Result<Stretch, NotLoaded> {
    debug_assert!(command.table == table.schema.id, "rows of another table");
    let command = range::settle(command);
    let schema = &table.schema;
    let (scope, slice) = match (&command.resume, &command.partitions) {
        // The rest of a partition, and nothing behind it yet.
        (Some(resume), _) => {
            let key = DecoratedKey::new(Bytes::copy_from(&resume.key));
            (PartitionScope::Key(key), Slice::resumed(&command, &schema.order))
        }
        (None, Partitions::Range { start, end }) => {
            let scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
            (scope, Slice::full())
        }
        (None, Partitions::Key(_)) => unreachable!("a part of the ring is a range"),
    };
    let [_, _, streaming] = coordinator.storage.semaphores();
    let reading = Reading { schema: schema.clone(), operation: "backup" };
    let permit = streaming.admit(&reading, Some(Instant::now() + PATIENCE)).await;
    let permit = permit.map_err(unread)?;
    let mut fragments = Cursor::new(snapshot.source(&scope, slice), Some(&permit));
    let mut gatherer = Gatherer::new(schema, &command);
    while let Some(fragment) = fragments.next(usize::MAX).await.map_err(unread)? {
        if gatherer.consume(fragment) == Step::Stop {
            break;
        }
    }
    let mut stretch = gatherer.finish();
    if let (Some(resume), None) = (command.resume, &stretch.reached) {
        stretch.reached = Some(Resume { after: None, ..resume });
    }
    Ok(stretch)
}

/// Writes as clients do, with the timestamps that the rows have; what is of one partition in the
/// order in which it comes.
pub(super) async fn write(
    coordinator: &Coordinator,
    table: &TableEntry,
    mutations: Vec<FrozenMutation>,
) -> Result<(), NotLoaded> {
    let (consistency, kind) = (Consistency::LocalQuorum, WriteKind::Simple);
    let options = WriteOptions { consistency, timeout: PATIENCE, kind, limit: None };
    let mut left = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let token = mutation.view().map(|view| Token::of(view.key()));
        left.push((token.map_err(|damaged| NotLoaded::Ever(damaged.to_string()))?, mutation));
    }
    let mut left = left.into_iter().peekable();
    while left.peek().is_some() {
        let (mut tokens, mut some) = (BTreeSet::new(), Vec::new());
        let mut is_next = |(token, _): &(Token, FrozenMutation)| tokens.insert(*token);
        while some.len() < WRITES_AT_ONCE
            && let Some(write) = left.next_if(&mut is_next)
        {
            some.push(write);
        }
        let writes = some.into_iter().map(async |(token, mutation)| {
            coordinator.write(table, token, mutation, &options).await.map_err(unwritten)
        });
        join_all(writes).await.into_iter().collect::<Result<(), NotLoaded>>()?;
        runtime::task::yield_if_needed().await;
    }
    Ok(())
}

/// What it means that a snapshot is not opened. (*ever-is-final*)
fn unopened(error: StorageError) -> NotLoaded {
    match error {
        StorageError::Damaged { .. } => NotLoaded::Ever(error.to_string()),
        StorageError::Work(error) => unread(error),
        other => NotLoaded::Yet(other.to_string()),
    }
}

/// What it means that it is not read. (*ever-is-final*)
fn unread(error: reader::ReadError) -> NotLoaded {
    match error {
        reader::ReadError::Damaged { .. } => NotLoaded::Ever(error.to_string()),
        other => NotLoaded::Yet(other.to_string()),
    }
}

/// What it means that its rows are not written. (*ever-is-final*)
fn unwritten(error: WriteError) -> NotLoaded {
    match error {
        WriteError::Refused(why) => NotLoaded::Ever(why),
        other => NotLoaded::Yet(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// *ever-is-final*
    #[test]
    fn what_may_pass_is_tried_again() {
        let is_final = |found: NotLoaded| matches!(found, NotLoaded::Ever(_));
        let damaged = || reader::ReadError::Damaged { file: "f".into(), what: "w".into(), at: 7 };
        let file = StorageError::Damaged { file: "f".into(), what: "w".into() };
        assert!(is_final(unopened(file)));
        assert!(is_final(unopened(StorageError::Work(damaged()))));
        assert!(!is_final(unopened(StorageError::Work(reader::ReadError::TimedOut))));
        assert!(!is_final(unopened(StorageError::Stopped)));
        assert!(is_final(unread(damaged())));
        for passing in [reader::ReadError::Overloaded("o".into()), reader::ReadError::Stopped] {
            assert!(!is_final(unread(passing)));
        }
        assert!(is_final(unwritten(WriteError::Refused("too large".into()))));
        let (consistency, required, alive) = (Consistency::LocalQuorum, 2, 1);
        assert!(!is_final(unwritten(WriteError::Unavailable { consistency, required, alive })));
        assert!(!is_final(unwritten(WriteError::Overloaded("o".into()))));
    }

    #[test]
    fn parts_are_the_ring() {
        for parts in [1, 2, 3, 16, 255] {
            let all: Vec<_> = (0..parts).map(|part| tokens(part, parts)).collect();
            assert_eq!((all[0].0, all[all.len() - 1].1), (Token::MIN, Token::MAX), "{parts}");
            for pair in all.windows(2) {
                assert_eq!(i128::from(pair[0].1.0) + 1, i128::from(pair[1].0.0), "{parts}");
            }
        }
    }
}
