//! Views of tables that have data: each shard of each node scans what it has of the base table,
//! derives as if all of it were written now, and writes that by the way of all updates of views.
//!
//! A view is seen from its creation on, and so are all writes that begin after it; what was there
//! before comes by and by. What the builder has read may be old when it is written: that does no
//! harm, for all of it has its own times (`derived`, *same-as-scan*).
//!
//! A shard goes through its tables one step at a time, the smallest first, all views of a table
//! that are not built together. With each step it writes how far it is, in the same group of the
//! log; so after a crash it goes on just where it was.
//!
//! Invariants
//!  - *nothing-before-missed*: the scan of a table begins after all writes that are not derived
//!    from have ended. What it does not see is derived from when it is written.
//!  - *with-the-step*: how far a shard is, and all that was derived up to there, is there after a
//!    crash, here or in the outbox, or neither is.
//!  - *bounded*: a step holds so many rows, and what is read for a few steps at once so many bytes,
//!    and one row beyond; large partitions take several steps.
//!  - *moves-lose-nothing*: while a view is not built on a node, it gives data of the base table to
//!    others as rows, which are derived from where they are written, and not as files. Where a view
//!    was made while files were on their way, who gets them builds it from the start.
//!  - *built-is-whole*: a view is built on a node when each of its shards has come to the end. A
//!    shard of a node that had another number of shards begins anew.
//!
//! In reading order: [`place`] (pure: how far), [`scan`] (a step), `rows` (what is kept of it),
//! [`ask`] (what all nodes say).

mod ask;
mod place;
mod rows;
mod scan;

pub use ask::{Told, told_by_all};
pub(super) use place::Place;
pub(super) use rows::recall;
pub(super) use scan::Covers;
use scan::Step;

use super::nodes::Planted;
use super::{Coordinator, own_coordinator};
use cluster::{Schema, TableEntry, TableKind};
use derived::ViewPlan;
use model::{TableId, Uuid};
use mutation::FrozenMutation;
use runtime::Erased;
use runtime::sync::Notify;
use runtime::task::race;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Reads, of some steps each, before the shard looks which table is the smallest now.
const READS_AT_ONCE: usize = 8;
/// Before what failed is tried again; doubled, up to the most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How far a shard is with each view.
#[derive(Default)]
pub struct Builds {
    views: RefCell<BTreeMap<TableId, Build>>,
    /// Those that are known to be built on all nodes.
    everywhere: RefCell<BTreeSet<TableId>>,
    /// Those to be built once more from the start, and that there are some.
    anew: RefCell<BTreeSet<TableId>>,
    has_anew: Notify,
    planted_late: Cell<bool>,
    planted_files: Cell<bool>,
}

/// How far a shard is with a view.
#[derive(Clone, Debug)]
struct Build {
    /// The row that says so.
    row: Uuid,
    /// Microseconds: of the row as it was written last.
    written_at: i64,
    place: Place,
}

/// How far a node is with a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewState {
    pub view: TableId,
    /// All of its shards have come to the end.
    pub is_built: bool,
    /// The token up to which each shard is that is not at the end.
    pub shards: Vec<(u16, i64)>,
}

/// How far this node is with each view that there is, in order of ids.
pub fn states() -> Erased<'static, Vec<ViewState>> {
    Erased::new(|| async {
        let told = runtime::on_all_shards(|| async {
            let coordinator = own_coordinator().ok()?;
            Some((coordinator.shard, coordinator.builds.told(&coordinator.cluster.schema())))
        });
        let mut states: BTreeMap<TableId, ViewState> = BTreeMap::new();
        for (shard, views) in told.await.into_iter().flatten() {
            for (view, token) in views {
                let new = ViewState { view, is_built: true, shards: Vec::new() };
                let state = states.entry(view).or_insert(new);
                state.is_built &= token.is_none();
                state.shards.extend(token.map(|token| (shard, token)));
                debug_assert!(
                    state.is_built == state.shards.is_empty(),
                    "built-is-whole: {state:?}"
                );
            }
        }
        states.into_values().collect()
    })
}

/// Whether all views of a table are built on this node.
pub(crate) async fn is_built(coordinator: &Coordinator, table: TableId) -> bool {
    let views = views_of(coordinator, table);
    views.is_empty() || coordinator.builds.planted_files.get() || {
        let states = states().await;
        let is_built = |view| states.iter().any(|state| state.view == view && state.is_built);
        views.into_iter().all(is_built)
    }
}

/// For tests: building takes its time on this node; and, a mistake, what is in no view yet is given
/// as files.
#[doc(hidden)]
pub async fn plant(gives_files: bool) {
    let plant = move || async move {
        let coordinator = own_coordinator().expect("a node that runs");
        coordinator.builds.planted_late.set(true);
        coordinator.builds.planted_files.set(gives_files);
    };
    runtime::on_all_shards(plant).await;
}

/// Whether views of a table are built from what it has.
fn is_built_from(table: &TableEntry) -> bool {
    table.kind == TableKind::Stored
}

/// The views of a table.
pub(crate) fn views_of(coordinator: &Coordinator, table: TableId) -> BTreeSet<TableId> {
    let schema = coordinator.cluster.schema();
    schema.table_by_id(table).map(|it| it.views.iter().copied().collect()).unwrap_or_default()
}

/// The node has got data of a table that views have nothing of which there were not before: it
/// builds those from the start.
pub(crate) async fn build_anew(views: BTreeSet<TableId>) {
    if views.is_empty() {
        return;
    }
    let tell = move || {
        let views = views.clone();
        async move {
            if let Ok(coordinator) = own_coordinator() {
                let mut everywhere = coordinator.builds.everywhere.borrow_mut();
                everywhere.retain(|view| !views.contains(view));
                coordinator.builds.anew.borrow_mut().extend(views);
                coordinator.builds.has_anew.notify_one();
            }
        }
    };
    runtime::on_all_shards(tell).await;
}

impl Builds {
    /// Each view that there is, and the token up to which the shard is; none at the end.
    fn told(&self, schema: &Schema) -> Vec<(TableId, Option<i64>)> {
        let known = self.views.borrow();
        let views = schema.tables().filter(|table| table.schema.view.is_some());
        let anew = self.anew.borrow();
        let known = |id: &TableId| known.get(id).filter(|_| !anew.contains(id));
        let place = |id| known(&id).map_or(&Place::Start, |build| &build.place);
        views.map(|table| (table.schema.id, place(table.schema.id).token())).collect()
    }

    fn is_built(&self, view: TableId) -> bool {
        let is_at_end = |build: &Build| build.place == Place::End;
        !self.anew.borrow().contains(&view) && self.views.borrow().get(&view).is_some_and(is_at_end)
    }
}

/// Builds what there is to build, for as long as the shard's coordinator lives.
pub(super) async fn keep_building() {
    let mut pause = PAUSE;
    loop {
        let Ok(coordinator) = own_coordinator() else { return };
        let cluster = coordinator.cluster.clone();
        match coordinator.build_some().await {
            Ok(true) => pause = PAUSE,
            // A table that gets a view makes another snapshot.
            Ok(false) => {
                let builds = coordinator.builds.clone();
                drop(coordinator);
                race(cluster.changed(), builds.has_anew.notified()).await;
            }
            Err(why) => {
                tracing::warn!(target: "views", "building goes on later: {why}");
                drop(coordinator);
                cluster.changed_within(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
            }
        }
    }
}

impl Coordinator {
    /// Takes some steps with the smallest table whose views are not built; `false`: there is none.
    async fn build_some(self: &Rc<Coordinator>) -> Result<bool, String> {
        let schema = self.cluster.schema();
        self.forget_builds(&schema).await?;
        self.begin_anew().await?;
        self.tell_filling(&schema);
        let bytes = |table: &&Rc<TableEntry>| {
            let stats = self.storage.table_stats(table.schema.id);
            stats.map_or(0, |stats| stats.sstable_bytes + stats.memtable_bytes)
        };
        let is_due = |table: &&Rc<TableEntry>| {
            is_built_from(table) && table.views.iter().any(|view| !self.builds.is_built(*view))
        };
        let due = schema.tables().filter(is_due);
        let Some(id) = due.min_by_key(bytes).map(|table| table.schema.id) else {
            return Ok(false);
        };
        self.storage.await_underived(id).await;
        if self.builds.planted_late.get() {
            runtime::time::sleep(10 * PAUSE).await;
        }
        for _ in 0..READS_AT_ONCE {
            if !self.build_steps(id).await? {
                break;
            }
        }
        Ok(true)
    }

    /// Tells storage which views this shard builds.
    fn tell_filling(&self, schema: &Schema) {
        for base in schema.tables().filter(|table| is_built_from(table)) {
            for view in base.views.iter() {
                self.storage.set_filling(*view, !self.builds.is_built(*view));
            }
        }
    }

    /// Forgets how far it is with views that are built once more.
    async fn begin_anew(&self) -> Result<(), String> {
        let anew = self.builds.anew.borrow().clone();
        for view in anew {
            let known = self.builds.views.borrow().get(&view).cloned();
            if let Some(mut build) = known {
                build.place = Place::Start;
                build.written_at = runtime::time::wall_micros().max(build.written_at + 1);
                let kept = self.storage.apply(self.build_row(view, &build)).await;
                kept.map_err(|error| format!("cannot begin anew: {error}"))?;
                self.builds.views.borrow_mut().insert(view, build);
            }
            self.builds.anew.borrow_mut().remove(&view);
        }
        Ok(())
    }

    /// Some steps of a table; `false`: nothing of it is left to build.
    async fn build_steps(self: &Rc<Coordinator>, id: TableId) -> Result<bool, String> {
        let schema = self.cluster.schema();
        let Some(base) = schema.table_by_id(id) else { return Ok(false) };
        let mut views = Vec::new();
        for view in base.views.iter().filter(|view| !self.builds.is_built(**view)) {
            let Some(entry) = schema.table_by_id(*view) else { continue };
            let plan = ViewPlan::new(&base.schema, &entry.schema)?;
            views.push((*view, plan, self.build_of(*view)));
        }
        let order = &base.schema.order;
        let places = views.iter().map(|(_, _, build)| &build.place);
        let Some(from) = places.min_by(|a, b| a.compare(b, order)).cloned() else {
            return Ok(false);
        };
        if from == Place::Start {
            let name = (&*base.schema.keyspace, &*base.schema.name);
            tracing::info!(target: "views", views = views.len(), table = ?name, "building");
        }
        let plans: Vec<ViewPlan> = views.iter().map(|(_, plan, _)| plan.clone()).collect();
        let scanned = self.scan_some(&base.schema, &plans, &from).await;
        let steps =
            scanned.map_err(|error| format!("cannot read {}: {error}", base.schema.name))?;
        let (mut from, mut builds) = (from, Vec::new());
        builds.extend(views.into_iter().map(|(view, _, build)| (view, build)));
        for step in steps {
            let to = step.to.clone();
            assert!(from.compare(&to, order).is_lt(), "with-the-step: {from:?} to {to:?}");
            self.bring_step(base, step, &mut builds).await?;
            runtime::task::yield_if_needed().await;
            from = to;
        }
        Ok(from != Place::End)
    }

    /// Writes what a step has come to, and how far it is (*with-the-step*).
    async fn bring_step(
        self: &Rc<Coordinator>,
        base: &TableEntry,
        step: Step,
        builds: &mut [(TableId, Build)],
    ) -> Result<(), String> {
        for (_, build) in &mut *builds {
            if build.place.compare(&step.to, &base.schema.order).is_lt() {
                build.place = step.to.clone();
            }
            build.written_at = runtime::time::wall_micros().max(build.written_at + 1);
        }
        let row = |(view, build): &(TableId, Build)| self.build_row(*view, build);
        let mut with: Vec<FrozenMutation> = builds.iter().map(row).collect();
        if self.is_planted(Planted::KeepsPlacesFirst) {
            let kept = self.storage.apply_all(std::mem::take(&mut with)).await;
            kept.map_err(|error| error.to_string())?;
        }
        let written = self.bring_built(base, step.derived, with).await;
        written
            .map_err(|error| format!("cannot write to views of {}: {error}", base.schema.name))?;
        self.builds.views.borrow_mut().extend(builds.iter().cloned());
        Ok(())
    }

    /// How far this shard is with a view; with a new one at the start.
    fn build_of(&self, view: TableId) -> Build {
        debug_assert!(!self.builds.is_built(view), "built-is-whole: {view} is built");
        let known = self.builds.views.borrow().get(&view).cloned();
        known.unwrap_or_else(|| Build {
            row: self.new_build_row(),
            written_at: 0,
            place: Place::Start,
        })
    }
}
