//! A write: into the log, and into the memtable in the same step.
//!
//! Invariants
//!  - *logged-first*, *acked-is-synced*: see the crate.
//!  - *in-turn*: see `memtable::dirty`.

use super::Shard;
use super::deriving::{Promise, Underived};
use super::hot_partitions::Touch;
use super::prefetch::{AHEAD_MAX, fetch_entering};
use crate::commitlog::{Appended, Commitlog, HeldEntries, Refusal, SegmentId, group_bytes};
use crate::config::Log;
use crate::error::WriteError;
use crate::memtable::Premerged;
use crate::table::{Table, Tablet};
use model::{DecoratedKey, TableId, Token};
use mutation::{FrozenMutation, FrozenView};
use runtime::time::{Instant, timeout};
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use stdx::{Bytes, Damaged, bug};

/// A mutation and where it goes.
pub(crate) struct Target<'m> {
    /// Whether it is logged.
    pub(crate) logged: bool,
    pub(crate) table: Rc<Table>,
    pub(crate) tablet: Rc<Tablet>,
    pub(crate) key: DecoratedKey,
    pub(crate) view: FrozenView<'m>,
    /// What is merged already.
    ahead: Cell<Premerged>,
}

/// What is logged and visible, and perhaps not durable yet.
#[derive(Debug, Default)]
#[must_use = "what has entered is durable only once it is kept"]
pub struct Entered(Option<(Log, Appended)>);

impl Shard {
    pub(crate) fn target<'m>(
        &self,
        mutation: &'m FrozenMutation,
    ) -> Result<Target<'m>, WriteError> {
        // Made by a builder, or checked where it came in (*vouched-for*).
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        self.target_of(view, Token::of(view.key()))
    }

    /// Of the partition at `token`.
    #[inline]
    fn target_of<'m>(&self, view: FrozenView<'m>, token: Token) -> Result<Target<'m>, WriteError> {
        debug_assert!(token == Token::of(view.key()), "own-alone: the token of another key");
        let id = view.table();
        let table = self.table(id).ok_or(WriteError::UnknownTable(id))?;
        let key = DecoratedKey { token, key: Bytes::copy_from(view.key()) };
        let tablet = table.tablet_of(key.token).filter(|tablet| !tablet.is_closed());
        let Some(tablet) = tablet else { return Err(table.not_here(token)) };
        debug_assert!(
            tablet.share.is_none_or(|share| share.holds(key.token)),
            "own-alone: {key:?} is of another shard"
        );
        self.sampler.note(Touch::Write, id, key.token, &key.key);
        tablet.count_request();
        let (logged, ahead) = (table.logged.get(), Cell::default());
        Ok(Target { logged, table, tablet, key, view, ahead })
    }

    /// Logs and applies one mutation.
    pub(crate) async fn apply(&self, mutation: &FrozenMutation) -> Result<(), WriteError> {
        let target = self.target(mutation)?;
        if let Some(newer) = target.table.newer_than_drops(&target.view) {
            return Box::pin(self.apply(&newer)).await;
        }
        if target.derives() {
            return self.derive_one(&target, mutation, Promise::AsConfigured).await;
        }
        let entry = [(target.table.id, &mutation.0[..])];
        let entries = if target.logged { &entry[..] } else { &[] };
        match self.append(std::slice::from_ref(&target), entries).await? {
            Some(appended) => self.log_of(target.table.log).committed(appended).await,
            None => Ok(()),
        }
    }

    /// Logs and applies one mutation, and waits for the disk to have it.
    pub(crate) async fn apply_durably(&self, mutation: &FrozenMutation) -> Result<(), WriteError> {
        let target = self.target(mutation)?;
        if let Some(newer) = target.table.newer_than_drops(&target.view) {
            return Box::pin(self.apply_durably(&newer)).await;
        }
        if target.derives() {
            return self.derive_one(&target, mutation, Promise::OnDisk).await;
        }
        let entry = [(target.table.id, &mutation.0[..])];
        let entries = if target.logged { &entry[..] } else { &[] };
        match self.append(std::slice::from_ref(&target), entries).await? {
            Some(appended) => self.log_of(target.table.log).synced(appended).await,
            None => Ok(()),
        }
    }

    /// Logs mutations as one group and applies them.
    pub(crate) async fn apply_all(&self, mutations: &[FrozenMutation]) -> Result<(), WriteError> {
        let targets = self.targets(mutations)?;
        if let Some(newer) = newer_than_drops(&targets, mutations) {
            return Box::pin(self.apply_all(&newer)).await;
        }
        if targets.iter().any(Target::derives) {
            return match (&targets[..], mutations) {
                ([target], [mutation]) => {
                    self.derive_one(target, mutation, Promise::AsConfigured).await
                }
                _ => self.derive(mutations, Promise::AsConfigured).await,
            };
        }
        let entered = self.enter(&targets, mutations).await?;
        self.keep(entered, Promise::AsConfigured).await
    }

    /// Logs mutations as one group and applies them, whatever follows from them: they are visible
    /// when it returns, and [`Shard::keep`] waits for the disk.
    pub(crate) async fn enter_all(
        &self,
        mutations: &[FrozenMutation],
    ) -> Result<Entered, WriteError> {
        let targets = self.targets(mutations)?;
        match newer_than_drops(&targets, mutations) {
            Some(newer) => Box::pin(self.enter_all(&newer)).await,
            None => self.enter(&targets, mutations).await,
        }
    }

    /// Whether a write of the table need not wait for memory now.
    pub(super) fn can_enter(&self, table: &Table) -> bool {
        table.dirty.is_open() && !self.refuses()
    }

    /// As [`Shard::enter_all`], of a mutation without what it carried and what enters with it,
    /// where nothing has to be waited for; otherwise nothing is done.
    pub(super) fn enter_at_once<'m>(
        &self,
        (first, alone): (&Target<'_>, &FrozenView<'_>),
        following: impl Iterator<Item = (Token, Result<FrozenView<'m>, Damaged>)>,
    ) -> Option<Entered> {
        debug_assert!(alone.key() == &first.key.key[..], "one-group: of another partition");
        let kind = first.table.log;
        let mut others: SmallVec<[Target<'_>; 2]> = SmallVec::new();
        for (token, one) in following {
            let target = self.target_of(one.ok()?, token).ok()?;
            let table = &target.table;
            debug_assert!(!table.derives.get(), "nothing-underived: of {}", table.id);
            if table.log != kind || table.newer_than_drops(&target.view).is_some() {
                return None;
            }
            others.push(target);
        }
        let others = || others.iter().map(|it| (it, &it.view));
        let all = || std::iter::once((first, alone)).chain(others());
        let logged = all().filter(|(target, _)| target.logged);
        let entries: SmallVec<[(TableId, &[u8]); 3]> =
            logged.map(|(target, view)| (target.table.id, view.bytes())).collect();
        let log = self.log_of(kind);
        if entries.is_empty() {
            all().for_each(|(target, view)| target.put(view, log, &[]));
            return Some(Entered(None));
        }
        if log.cuts(group_bytes(&entries)) {
            return None;
        }
        let appended = log.append(&entries).ok()?;
        let held = [appended.position.segment];
        all().for_each(|(target, view)| target.put(view, log, &held));
        Some(Entered(Some((kind, appended))))
    }

    fn targets<'m>(&self, mutations: &'m [FrozenMutation]) -> Result<Vec<Target<'m>>, WriteError> {
        // What is collected into a result does not know how many there are.
        let mut targets = Vec::with_capacity(mutations.len());
        for one in mutations {
            targets.push(self.target(one)?);
        }
        Ok(targets)
    }

    async fn enter(
        &self,
        targets: &[Target<'_>],
        mutations: &[FrozenMutation],
    ) -> Result<Entered, WriteError> {
        let Some(first) = targets.first() else { return Ok(Entered::default()) };
        let log = first.table.log;
        if targets.iter().any(|target| target.table.log != log) {
            let refused = Damaged::new("mutations of one group in two logs", 0);
            return bug!(Err(WriteError::Damaged(refused)), "a group in two logs");
        }
        let bytes = mutations.iter().map(|mutation| &mutation.0[..]);
        let logged = targets.iter().zip(bytes).filter(|(target, _)| target.logged);
        let mut entries = Vec::with_capacity(targets.len());
        entries.extend(logged.map(|(target, bytes)| (target.table.id, bytes)));
        let appended = self.append(targets, &entries).await?;
        Ok(Entered(appended.map(|appended| (log, appended))))
    }

    /// Waits until what has entered is as durable as was promised.
    pub(crate) async fn keep(&self, entered: Entered, promise: Promise) -> Result<(), WriteError> {
        let Some((log, appended)) = entered.0 else { return Ok(()) };
        match promise {
            Promise::AsConfigured => self.log_of(log).committed(appended).await,
            Promise::OnDisk => self.log_of(log).synced(appended).await,
        }
    }

    /// Appends, waiting for room where there is none, and applies in the same step
    /// (*logged-first*). Of a group, of which there is at least one, the first table's memory
    /// decides. Without entries nothing is logged; the write waits for memory all the same.
    async fn append(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
    ) -> Result<Option<Appended>, WriteError> {
        debug_assert_eq!(
            entries.len(),
            targets.iter().filter(|target| target.logged).count(),
            "logged-first: an entry for each target that is logged"
        );
        let table = &targets[0].table;
        let (log, dirty) = (self.log_of(table.log), &table.dirty);
        let apply = |held: &[SegmentId]| enter_each(targets, log, held);
        if self.refuses() {
            return Err(WriteError::Overloaded("memory that a simulation refuses"));
        }
        if entries.is_empty() {
            let deadline = Instant::now() + self.config.write_wait_max;
            let waits = self.wait_for_memory(targets, deadline);
            Box::pin(underived(targets).during(waits)).await?;
            check_here(targets)?;
            apply(&[]);
            return Ok(None);
        }
        if log.cuts(group_bytes(entries)) {
            let pieces = self.append_in_pieces(targets, entries, apply);
            return Box::pin(underived(targets).during(pieces)).await.map(Some);
        }
        if dirty.is_open() {
            match log.append(entries) {
                Ok(appended) => {
                    apply(&[appended.position.segment]);
                    return Ok(Some(appended));
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full(_)) => {}
            }
        }
        // Boxed: a write that need not wait is not to pay for the room that waiting takes.
        let in_turn = self.append_in_turn(targets, entries, apply);
        Box::pin(underived(targets).during(in_turn)).await.map(Some)
    }

    /// As [`Shard::append`], of what the log takes in pieces: one such write after the other. It
    /// waits for memory as all do; its pieces go between the entries of others.
    async fn append_in_pieces(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
        apply: impl Fn(&[SegmentId]),
    ) -> Result<Appended, WriteError> {
        let table = &targets[0].table;
        let log = self.log_of(table.log);
        let deadline = Instant::now() + self.config.write_wait_max;
        let cut = log.turn_to_cut(deadline).await?;
        self.wait_for_memory(targets, deadline).await?;
        for target in targets {
            target.prepare().await;
        }
        check_here(targets)?;
        let _in_pieces = InPieces::of(targets);
        let pieces = log.append_in_pieces(entries, cut, deadline).await?;
        apply(pieces.segments());
        Ok(pieces.applied())
    }

    /// Waits until memory allows a write, behind all who wait already (*in-turn*).
    async fn wait_for_memory(
        &self,
        targets: &[Target<'_>],
        deadline: Instant,
    ) -> Result<(), WriteError> {
        let dirty = &targets[0].table.dirty;
        assert!(self.dirty.iter().any(|pool| Rc::ptr_eq(pool, dirty)), "own-pools: no pool");
        if dirty.is_open() {
            return Ok(());
        }
        self.check_room(targets)?;
        let _blocked = dirty.block();
        let turn = dirty.take_turn(deadline).await;
        while turn.is_some() && !dirty.has_room() {
            if let Some(path) = &*self.full_disk.borrow() {
                return Err(WriteError::FullDisk(path.clone()));
            }
            let _lacks = dirty.lack();
            if timeout(deadline - Instant::now(), dirty.room_made()).await.is_err() {
                break;
            }
        }
        if turn.is_some() && dirty.has_room() {
            return Ok(());
        }
        dirty.count_timeout();
        Err(WriteError::Overloaded("memtables to be flushed"))
    }

    /// Refuses writes of clients where the disk has too little room for them.
    fn check_room(&self, targets: &[Target<'_>]) -> Result<(), WriteError> {
        if !self.space.is_short() || !Rc::ptr_eq(&targets[0].table.dirty, &self.dirty[0]) {
            return Ok(());
        }
        let views: Vec<_> = targets.iter().map(|target| &target.view).collect();
        self.space.admit(&views)
    }

    /// As [`Shard::append`], behind all who wait already (*in-turn*).
    async fn append_in_turn(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
        apply: impl Fn(&[SegmentId]),
    ) -> Result<Appended, WriteError> {
        let table = &targets[0].table;
        let (log, dirty) = (self.log_of(table.log), &table.dirty);
        let overloaded = |wait: Wait| {
            dirty.count_timeout();
            Err(WriteError::Overloaded(match wait {
                Wait::Memory => "memtables to be flushed",
                Wait::Log(what) => what,
            }))
        };
        let _blocked = dirty.block();
        let deadline = Instant::now() + self.config.write_wait_max;
        let Some(_turn) = dirty.take_turn(deadline).await else {
            return overloaded(Wait::Memory);
        };
        loop {
            check_here(targets)?;
            self.check_room(targets)?;
            let waits_for = if !dirty.has_room() {
                if let Some(path) = &*self.full_disk.borrow() {
                    return Err(WriteError::FullDisk(path.clone()));
                }
                Wait::Memory
            } else {
                match log.append(entries) {
                    Ok(appended) => {
                        apply(&[appended.position.segment]);
                        return Ok(appended);
                    }
                    Err(Refusal::Final(error)) => return Err(error),
                    Err(Refusal::Full(what)) => Wait::Log(what),
                }
            };
            let (left, lacks) = (deadline - Instant::now(), dirty.lack());
            let waited = match waits_for {
                Wait::Memory => timeout(left, dirty.room_made()).await,
                Wait::Log(_) => timeout(left, log.room_made()).await,
            };
            drop(lacks);
            if waited.is_err() {
                self.check_room(targets)?;
                return overloaded(waits_for);
            }
        }
    }
}

/// Puts mutations, an entry of each of which these segments of the log hold, into their memtables.
fn enter_each(targets: &[Target<'_>], log: &Commitlog, held: &[SegmentId]) {
    for some in targets.chunks(AHEAD_MAX) {
        // As few as one statement has were fetched for it.
        if AHEAD_MAX < targets.len() {
            fetch_entering(some.iter().map(|target| (&*target.tablet, target.key.token)));
        }
        some.iter().for_each(|target| target.enter(log, held));
    }
}

/// Refuses what has waited, and of which a tablet goes to another shard now, or has gone.
fn check_here(targets: &[Target<'_>]) -> Result<(), WriteError> {
    debug_assert!(!targets.is_empty(), "one-writer: a write of nothing");
    let is_here = |target: &Target<'_>| {
        let now = || target.table.tablet_of(target.key.token);
        !target.tablet.is_closed()
            || target.table.dropped.get()
            || now().is_some_and(|now| !now.is_closed())
    };
    if targets.iter().all(is_here) { Ok(()) } else { Err(WriteError::Moved) }
}

/// Tables to which a write in pieces is under way: none of their tablets goes meanwhile.
struct InPieces(Vec<Rc<Table>>);

impl InPieces {
    fn of(targets: &[Target<'_>]) -> InPieces {
        let tables: Vec<Rc<Table>> = targets.iter().map(|target| target.table.clone()).collect();
        tables.iter().for_each(|table| table.in_pieces.set(table.in_pieces.get() + 1));
        InPieces(tables)
    }
}

impl Drop for InPieces {
    fn drop(&mut self) {
        for table in &self.0 {
            let left = table.in_pieces.get().checked_sub(1);
            debug_assert!(left.is_some(), "one-writer: more pieces ended than began");
            table.in_pieces.set(left.unwrap_or(0));
            table.opened.notify_all();
        }
    }
}

/// Those of them that do not derive, while the write waits.
fn underived(targets: &[Target<'_>]) -> Underived {
    Underived::of(targets.iter().map(|target| &target.table))
}

/// The same without what columns had before they were dropped; nothing where there is none of that.
fn newer_than_drops(
    targets: &[Target<'_>],
    mutations: &[FrozenMutation],
) -> Option<Vec<FrozenMutation>> {
    debug_assert!(targets.len() == mutations.len(), "a target for each mutation");
    let newer = |target: &Target<'_>| target.table.newer_than_drops(&target.view);
    if targets.iter().all(|target| newer(target).is_none()) {
        return None;
    }
    let each = targets.iter().zip(mutations);
    Some(each.map(|(target, all)| newer(target).unwrap_or_else(|| all.clone())).collect())
}

impl Target<'_> {
    /// Whether more is written with it.
    #[inline]
    pub(super) fn derives(&self) -> bool {
        debug_assert!(self.view.table() == self.table.id, "one-test: of another table");
        self.table.derives.get() || self.view.has_attached()
    }

    /// Does what entering takes long for, as far as it can be done before.
    async fn prepare(&self) {
        let memtable = self.tablet.active.borrow().clone();
        let (schema, watch) = (self.table.schema.borrow().clone(), self.table.watch.get());
        self.ahead.set(memtable.prepare(&schema, &self.key, &self.view, watch).await);
    }

    /// The tablet that took the place of the one that was found, while the write waited.
    #[cold]
    fn tablet_now(&self) -> Rc<Tablet> {
        let token = self.key.token;
        let now = self.table.tablet_of(token).filter(|tablet| !tablet.is_gone());
        now.unwrap_or_else(|| panic!("nothing-lost: no tablet has {token:?} any more"))
    }

    /// Puts the mutation, an entry of which these segments of the log hold, into its memtable.
    fn enter(&self, log: &Commitlog, held: &[SegmentId]) {
        self.put(&self.view, log, held);
    }

    /// The same of what there is of the mutation without what it carried.
    fn put(&self, view: &FrozenView<'_>, log: &Commitlog, held: &[SegmentId]) {
        let Target { table, tablet, key, logged, ahead, .. } = self;
        debug_assert!(!*logged || !held.is_empty(), "logged-first: in no segment");
        assert!(!view.has_attached(), "one-group: what is attached would be lost");
        let held = if *logged { held } else { &[] };
        if table.dropped.get() {
            // Dropped while the write waited: nobody would let go of the segments.
            let mut gone = HeldEntries::default();
            held.iter().for_each(|segment| gone.add(*segment, 1));
            return log.discard(table.id, &gone, i64::MAX);
        }
        let now;
        let tablet = match tablet.is_gone() {
            false => tablet,
            true => {
                now = self.tablet_now();
                &now
            }
        };
        let memtable = tablet.active.borrow().clone();
        let (schema, ahead) = (table.schema.borrow(), ahead.take());
        memtable.apply_watched(&schema, key.clone(), view, table.watch.get(), ahead);
        tablet.changes.note(key.token);
        debug_assert!(memtable.contains(key), "nothing-lost: {key:?}");
        held.iter().for_each(|segment| memtable.hold(*segment));
    }
}

/// What an append waits for.
#[derive(Clone, Copy)]
enum Wait {
    Memory,
    Log(&'static str),
}
