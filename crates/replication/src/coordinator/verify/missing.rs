//! From the base table to the view: what the view does not show that it should.
//!
//! Invariants: those of [`super`]; and
//!  - *with-their-deletions*: what a row of the base table is covered by is looked for with it. So
//!    a view that shows what was deleted lacks the deletion.

use super::{ANSWER_MAX, At, Figures, Stepped, whole};
use crate::coordinator::Coordinator;
use crate::coordinator::build::{Covers, Place};
use crate::coordinator::nodes::{Planted, fetch_stretch};
use crate::placement::Replica;
use crate::reconcile;
use crate::stretch::Stretch;
use crate::wire::verb;
use cluster::TableEntry;
use derived::{Derived, ViewPlan};
use model::{ColumnKind, TableSchema, Token};
use mutation::page::{ColumnForm, Partitions, ReadCommand, SendRange};
use mutation::{FrozenMutation, FrozenView};
use runtime::task::join_all;
use std::rc::Rc;

/// Mutations that are looked for at once.
const AT_ONCE_MAX: usize = 32;

/// What is known of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Shown,
    Missing,
    Unknown,
}

impl Coordinator {
    /// A step of the base table from a place on.
    pub(super) async fn find_missing(
        self: &Rc<Coordinator>,
        (base, view): (&TableEntry, &TableEntry),
        from: &Place,
        mends: bool,
    ) -> Result<Stepped, String> {
        let failed = |why: String| format!("{}: {why}", view.schema.name);
        let plan = ViewPlan::new(&base.schema, &view.schema)?;
        let step = self.scan(&base.schema, std::slice::from_ref(&plan), from, Covers::Kept).await;
        let step = step.map_err(|error| failed(error.to_string()))?;
        let mut figures = Figures::default();
        let rows =
            |(_, one): &(Token, Derived)| one.mutation.view().map_or(0, |it| it.row_count() as u64);
        figures.derived = step.derived.iter().map(rows).sum();
        let mut left = self.look(base, view, step.derived, &mut figures).await;
        if !left.is_empty() {
            stdx::probe!("a row of a view may be missing");
            if !self.is_planted(Planted::LooksOnce) {
                // What was under way has come when these have ended (*not-under-way*).
                self.epochs.pass().await?;
                left = self.look(base, view, left, &mut figures).await;
            }
        }
        figures.missing = left.iter().map(rows).sum();
        assert!(figures.missing <= figures.derived, "shown-differs: {figures:?}");
        if mends && !left.is_empty() {
            let mended = self.bring_built(base, left, Vec::new()).await;
            mended.map_err(|error| failed(error.to_string()))?;
            figures.mended = figures.missing;
        }
        let next = match step.to {
            Place::End => None,
            to => Some(At::Base(to)),
        };
        Ok(Stepped { figures, next })
    }

    /// Those that are not shown where they should be.
    async fn look(
        &self,
        base: &TableEntry,
        view: &TableEntry,
        all: Vec<(Token, Derived)>,
        figures: &mut Figures,
    ) -> Vec<(Token, Derived)> {
        let mut left = Vec::new();
        let mut rest = all.into_iter().peekable();
        while rest.peek().is_some() {
            let some: Vec<_> = rest.by_ref().take(AT_ONCE_MAX).collect();
            let looks = some.iter().map(|(at, one)| self.look_for(base, view, *at, one));
            let found: Vec<Found> = join_all(looks).await;
            debug_assert!(found.len() == some.len(), "bounded: {} looks", found.len());
            for (one, found) in some.into_iter().zip(found) {
                match found {
                    Found::Shown => {}
                    Found::Missing => left.push(one),
                    Found::Unknown => figures.unknown += 1,
                }
            }
            runtime::task::yield_if_needed().await;
        }
        left
    }

    /// Whether all show it who have it from this node.
    async fn look_for(
        &self,
        base: &TableEntry,
        view: &TableEntry,
        at: Token,
        one: &Derived,
    ) -> Found {
        let mut found = Found::Shown;
        // This node alone has the view.
        let Some(hearers) = self.hearers((base, at), view, one.token) else {
            return self.see(view, None, &one.mutation).await;
        };
        for replica in &hearers {
            let there = Some(replica).filter(|replica| !replica.is_here);
            match self.see(view, there, &one.mutation).await {
                Found::Shown => {}
                Found::Missing => return Found::Missing,
                Found::Unknown => found = Found::Unknown,
            }
        }
        found
    }

    async fn see(
        &self,
        view: &TableEntry,
        there: Option<&Replica>,
        mutation: &FrozenMutation,
    ) -> Found {
        match self.is_shown(view, there, mutation).await {
            Ok(true) => Found::Shown,
            Ok(false) => Found::Missing,
            Err(why) => {
                let view = &view.schema.name;
                tracing::debug!(target: "views", %view, "a row is not looked at: {why}");
                Found::Unknown
            }
        }
    }

    /// Whether a reader of that replica, or of this node, sees all of a mutation of a view
    /// (*shown-differs*).
    async fn is_shown(
        &self,
        view: &TableEntry,
        there: Option<&Replica>,
        mutation: &FrozenMutation,
    ) -> Result<bool, String> {
        let schema = &view.schema;
        let mut command = command_for(schema, mutation)?;
        let wanted = Stretch { mutations: vec![mutation.clone()], reached: None };
        loop {
            let own = match there {
                None => {
                    let own = self.stretch_here(view, &command).await;
                    own.map_err(|error| error.to_string())?
                }
                Some(replica) => {
                    let from = (replica.host_id, verb::READ_MUTATION_DATA);
                    let fetched = fetch_stretch(from, schema, &command, ANSWER_MAX).await?;
                    // It does not know the table any more.
                    let Some(fetched) = fetched else { return Ok(true) };
                    fetched
                }
            };
            let both = [own, wanted.clone()];
            let merged = reconcile::merge(schema, &command, &both);
            let is_lacking = merged.repairs.first().is_some_and(|lacks| !lacks.is_empty());
            let [Stretch { mutations: own, reached }, _] = both;
            let shows = |parts: &[FrozenMutation]| {
                reconcile::page(schema, &command, parts, reached.as_ref()).0.bytes
            };
            if is_lacking && shows(&merged.mutations) != shows(&own) {
                return Ok(false);
            }
            match reached {
                None => return Ok(true),
                Some(reached) => command = ReadCommand { resume: Some(reached), ..command },
            }
        }
    }
}

/// What reads the rows of a mutation, with all that is shown of them.
fn command_for(schema: &TableSchema, mutation: &FrozenMutation) -> Result<ReadCommand, String> {
    let view = FrozenView::trusted(&mutation.0).map_err(|damaged| damaged.to_string())?;
    let regular = schema.columns.iter().filter(|it| it.kind == ColumnKind::Regular);
    let mut columns: Vec<_> =
        regular.map(|column| (column.id, ColumnForm::ValueWithTimes)).collect();
    columns.sort_unstable_by_key(|(id, _)| *id);
    debug_assert!(view.static_row().is_none(), "a view has no static columns");
    let mut ranges: Vec<SendRange> =
        view.rows().map(|(key, _)| SendRange::of_prefix(key)).collect();
    ranges.dedup();
    Ok(ReadCommand { ranges, ..whole(schema, columns, Partitions::Key(view.key().to_vec())) })
}
