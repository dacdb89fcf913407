//! Whether a view and its base table say the same, and what is done where they do not.
//!
//! Each shard goes through what it has of the base table and derives from it as the builder does;
//! what of that the paired replica of the view does not show is missing there. Then it goes through
//! what it has of the view, and asks all replicas of the base table for the row that each row is
//! of: one that none of them has is a ghost. What is missing is written by the way of all updates
//! of views; a ghost is deleted as `PRUNE MATERIALIZED VIEW` deletes it. So all of a view is
//! verified when each node has verified its part.
//!
//! Invariants
//!  - *not-under-way*: what differs is looked at twice, and what was under way when it was seen
//!    first has come, or was given up, by the second time. What is told then differs at rest.
//!  - *shown-differs*: only what a reader would see counts. Deletions that one side has forgotten
//!    after `gc_grace_seconds` are no difference.
//!  - *nothing-new*: what is written has the times of the base table's row; a deletion is older
//!    than any write that may be under way.
//!  - *bounded*: a step holds so many rows and bytes of either side.
//!
//! In reading order: this (the way through a table), `missing` (from the base table to the view),
//! [`ghosts`] (the way back).

pub mod ghosts;
mod missing;

use super::build::Place;
use super::{Coordinator, own_coordinator};
use model::{ColumnId, TableId, TableSchema, Token};
use mutation::page::{ColumnForm, Partitions, ReadCommand, Resume};
use runtime::Erased;
use runtime::group::{STREAMING, with_group};
use runtime::task::join_all;
use runtime::time::wall_micros;
use std::cell::Cell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::time::Duration;

/// The parts of one way of a shard.
const WAY: u64 = 1000;
/// How long a replica may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What was seen, and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Rows of the view that follow from what was read of the base table.
    pub derived: u64,
    /// Those that a replica of the view does not show.
    pub missing: u64,
    /// Rows of the view that were read.
    pub seen: u64,
    /// Those that the base table does not have.
    pub ghosts: u64,
    /// Missing rows that were written, and ghosts that were deleted.
    pub mended: u64,
    /// Rows of which nothing is known, for a replica did not answer.
    pub unknown: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        self.derived += other.derived;
        self.missing += other.missing;
        self.seen += other.seen;
        self.ghosts += other.ghosts;
        self.mended += other.mended;
        self.unknown += other.unknown;
    }
}

/// How far it is, for who waits for it. Lives on the shard that has begun it.
#[derive(Default)]
pub struct Watch {
    pub figures: Cell<Figures>,
    /// Of both ways of all shards, in thousandths of one way.
    pub done: Cell<u64>,
    pub all: Cell<u64>,
    is_ended: Cell<bool>,
}

impl Watch {
    /// Ends it soon.
    pub fn end(&self) {
        self.is_ended.set(true);
    }
}

/// Where a shard is.
#[derive(Clone, Debug)]
enum At {
    Base(Place),
    View(Option<Resume>),
}

/// What a step has come to.
struct Stepped {
    figures: Figures,
    next: Option<At>,
}

impl At {
    /// In thousandths of one way.
    fn done(&self) -> u64 {
        let token = match self {
            At::Base(place) => place.token().unwrap_or(i64::MAX),
            At::View(None) => i64::MIN,
            At::View(Some(resume)) => Token::of(&resume.key).0,
        };
        let done = ((i128::from(token) - i128::from(i64::MIN)) * i128::from(WAY)) >> 64;
        debug_assert!((0..=i128::from(WAY)).contains(&done), "bounded: {done} of {self:?}");
        done as u64
    }
}

/// Verifies what this node has of a view and of its base table. The error says what could not be
/// looked at.
pub fn verify(view: TableId, mends: bool, watch: Rc<Watch>) -> Erased<'static, Result<(), String>> {
    Erased::new(move || async move {
        let shards = runtime::shard_count();
        watch.all.set(2 * WAY * u64::from(shards));
        // What is missing is there on all shards before rows of the view are counted.
        for start in [At::Base(Place::Start), At::View(None)] {
            let ways = (0..shards).map(|shard| way(shard, view, start.clone(), mends, &watch));
            join_all(ways).await.into_iter().collect::<Result<(), String>>()?;
        }
        Ok(())
    })
}

/// One way of one shard.
async fn way(
    shard: u16,
    view: TableId,
    start: At,
    mends: bool,
    watch: &Watch,
) -> Result<(), String> {
    let (mut at, mut done) = (Some(start), 0);
    while let Some(from) = at {
        if watch.is_ended.get() {
            return Err("it was ended".to_owned());
        }
        let step = move || async move {
            let coordinator = own_coordinator().map_err(|error| error.to_string())?;
            with_group(STREAMING, Box::pin(coordinator.verify_step(view, mends, from))).await
        };
        let stepped = runtime::on_shard(shard, step).await?;
        let mut figures = watch.figures.get();
        figures += stepped.figures;
        watch.figures.set(figures);
        at = stepped.next;
        let now = at.as_ref().map_or(WAY, At::done).max(done);
        watch.done.set(watch.done.get() + now - done);
        done = now;
        debug_assert!(watch.done.get() <= watch.all.get(), "bounded: {done} of shard {shard}");
    }
    Ok(())
}

impl Coordinator {
    /// One step; of a view that was dropped there is none.
    async fn verify_step(
        self: &Rc<Coordinator>,
        view: TableId,
        mends: bool,
        from: At,
    ) -> Result<Stepped, String> {
        let schema = self.cluster.schema();
        let gone = Stepped { figures: Figures::default(), next: None };
        let Some(view) = schema.table_by_id(view) else { return Ok(gone) };
        let base = view.schema.view.as_ref().and_then(|it| schema.table_by_id(it.base));
        let Some(base) = base else { return Ok(gone) };
        debug_assert!(base.views.contains(&view.schema.id), "a view that its base has not");
        let of = (&**base, &**view);
        match from {
            At::Base(place) => self.find_missing(of, &place, mends).await,
            At::View(resume) => self.find_ghosts(of, resume, mends).await,
        }
    }
}

/// A command without limits but that of a page.
fn whole(
    schema: &TableSchema,
    columns: Vec<(ColumnId, ColumnForm)>,
    partitions: Partitions,
) -> ReadCommand {
    ReadCommand {
        columns,
        bypass_cache: true,
        ..ReadCommand::all(schema.id, partitions, wall_micros().div_euclid(1_000_000))
    }
}
