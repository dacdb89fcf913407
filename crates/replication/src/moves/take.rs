//! What a stage asks of a node: to remove what it has of ranges that it will get, and to take them.

use super::cleanup::{Ranges, clear_table, merged};
use super::fewer::{Fewer, fewer};
use super::files::{self, Outcome};
use super::part::{Giver, PAUSE, Part, State, is_on};
use super::{Moves, Planted, shards, warm};
use crate::coordinator::nodes::fetch_stretch;
use crate::coordinator::{Coordinator, build, own_coordinator};
use crate::epochs::Epochs;
use crate::paxos;
use crate::wire::moves::Progress;
use crate::wire::verb;
use cluster::{Replication, Stage, TableEntry, TableKind, Take, features, read_all};
use model::{TableId, TableSchema, Uuid};
use mutation::page::{Partitions, ReadCommand, RingBound, SendRange};
use runtime::group::STREAMING;
use runtime::task::join_all;
use runtime::time::{sleep, wall_micros};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use storage::{Storage, StorageError};

/// Bytes of a page, about.
const PAGE_BYTES: usize = 1 << 20;
/// Pages that are asked for at once.
const AT_ONCE: usize = 4;
/// How long a page may take.
const PAGE_MAX: Duration = Duration::from_secs(60);

/// What this node does for the present stage.
#[derive(Default)]
pub(super) struct Taking {
    /// The session that it is of, and how far it is.
    now: RefCell<Option<(u64, Rc<State>)>>,
}

impl Taking {
    /// What was done last: its session, how far it is, and who gives.
    pub(super) fn last(&self) -> Option<(u64, Progress, BTreeMap<Uuid, Giver>)> {
        let now = self.now.borrow();
        let (session, state) = now.as_ref()?;
        Some((*session, state.progress(), state.from.borrow().clone()))
    }

    /// For people.
    pub(super) fn told(&self) -> String {
        let now = self.now.borrow();
        let Some((_, state)) = &*now else { return String::new() };
        let Progress { parts, parts_done, bytes, text, .. } = state.progress();
        let comma = if text.is_empty() { "" } else { ", " };
        format!(", {parts_done} of {parts} parts, {} MiB{comma}{text}", bytes >> 20)
    }
}

/// A range of a table that this node gets.
struct Range {
    table: Rc<TableEntry>,
    tablet: Option<usize>,
    take: Take,
}

/// The leader asks how far this node is with a stage; where it has not begun, it begins.
pub(crate) async fn step(session: u64) -> Result<Progress, String> {
    if runtime::shard_id() != 0 {
        return Err("a step is asked of another shard than the first".to_owned());
    }
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    if super::stage_of(&coordinator, session).is_none() {
        coordinator.cluster.catch_up().await?;
    }
    let Some(stage) = super::stage_of(&coordinator, session) else {
        return Err(format!("session {session} is over"));
    };
    let moves = runtime::local::try_get::<Moves>().ok_or("the node starts or stops")?;
    let taking = &moves.taking;
    let known = taking.now.borrow().as_ref().filter(|(of, _)| *of == session).cloned();
    if let Some((_, state)) = known {
        return Ok(state.progress());
    }
    let state = Rc::new(State::default());
    taking.now.replace(Some((session, state.clone())));
    let work = carry_out(coordinator.clone(), (session, stage), state);
    drop(coordinator.background.spawn_in(STREAMING, work));
    Ok(Progress::default())
}

/// Does what a stage asks for.
async fn carry_out(coordinator: Rc<Coordinator>, (session, stage): (u64, Stage), state: Rc<State>) {
    let done = match stage {
        Stage::Prepare => clear(&coordinator, session, &state).await,
        Stage::ReadOld => take(&coordinator, session, &state).await,
        Stage::ReadNew => Ok(()),
    };
    debug_assert!(!state.is_done.get(), "durable-when-done: {session} is done twice");
    match done {
        Ok(()) => state.is_done.set(true),
        Err(why) => {
            tracing::warn!(target: "moves", "{why}; it is begun again");
            state.text.replace(why);
            sleep(PAUSE).await;
            // The leader asks again, and finds that nothing was begun.
            if let Some(moves) = runtime::local::try_get::<Moves>() {
                moves.taking.now.borrow_mut().take_if(|(of, _)| *of == session);
            }
        }
    }
}

/// Removes what this node has of ranges that it will get.
async fn clear(coordinator: &Coordinator, session: u64, state: &State) -> Result<(), String> {
    // *not-while-it-gets*
    let moves = runtime::local::try_get::<Moves>().ok_or("the node starts or stops")?;
    let _turn = moves.clearing.acquire(1).await.map_err(|error| error.to_string())?;
    let mut tables = Ranges::new();
    for Range { table, take: Take { after, last, .. }, .. } in gets(coordinator, session) {
        tables.entry(table.schema.id).or_default().push((after, last));
    }
    state.parts.set(tables.len() as u32);
    shards::hand_over(coordinator, shards::going(coordinator, session, false)).await?;
    for (table, ranges) in tables {
        clear_table(table, merged(ranges)).await?;
        state.parts_done.set(state.parts_done.get() + 1);
    }
    Ok(())
}

/// What this node gets in a session: of the ring, or tablets; by table, in the order of the ring.
fn gets(coordinator: &Coordinator, session: u64) -> Vec<Range> {
    let (topology, me) = (coordinator.cluster.topology(), coordinator.cluster.node().host_id);
    let of_ring = topology.session() == session;
    let schema = coordinator.cluster.schema();
    let mut out = Vec::new();
    for table in schema.tables().filter(|table| table.kind == TableKind::Stored) {
        let is_local = matches!(*table.replication, Replication::Local);
        let range = |tablet, take| Range { table: table.clone(), tablet, take };
        if of_ring && !is_local && table.replicas.is_empty() {
            let takes = cluster::takes(&topology, &table.replication, me);
            out.extend(takes.into_iter().map(|take| range(None, take)));
        }
        let moves = table.replicas.moves().iter().filter(|(_, it)| it.session == session);
        for (tablet, moving) in moves {
            let hosts = |of: &[(Uuid, u16)]| of.iter().map(|it| it.0).collect::<Vec<_>>();
            let (old, new) = (hosts(table.replicas.of(*tablet)), hosts(&moving.to));
            if !old.contains(&me) && new.contains(&me) {
                let (after, last) = table.replicas.range(*tablet);
                let from = cluster::sources(&topology, &old, &new);
                out.push(range(Some(*tablet), Take { after, last, from }));
            }
        }
    }
    out
}

/// The same, from one node each.
fn parts(coordinator: &Coordinator, session: u64) -> Vec<Part> {
    let mut out = Vec::new();
    for Range { table, tablet, take: Take { after, last, from } } in gets(coordinator, session) {
        if from.is_empty() {
            let TableSchema { keyspace, name, .. } = &*table.schema;
            tracing::error!(
                target: "moves",
                "{keyspace}.{name}: nobody is left who has tokens from {} to {}", after.0, last.0
            );
        }
        let part = |from: &Uuid| Part { table: table.clone(), tablet, after, last, from: *from };
        out.extend(from.iter().map(part));
    }
    out
}

/// Takes all that this node gets.
async fn take(
    coordinator: &Rc<Coordinator>,
    session: u64,
    state: &Rc<State>,
) -> Result<(), String> {
    if super::is_planted(Planted::TakesNothing) {
        return Ok(());
    }
    shards::hand_over(coordinator, shards::going(coordinator, session, true)).await?;
    let parts: VecDeque<Part> = parts(coordinator, session).into();
    let fewer = fewer(coordinator, session);
    let me = coordinator.cluster.node().host_id;
    assert!(parts.iter().all(|part| part.from != me), "all-that-went: a node takes from itself");
    let all = parts.iter().chain(fewer.iter().flat_map(|one| &one.parts));
    let mut touched: Vec<TableId> = all.map(|part| part.table.schema.id).collect();
    touched.dedup();
    touched.push(paxos::table(&coordinator.cluster.schema()).schema.id);
    state.parts.set(parts.len() as u32);
    state.parts_done.set(0);
    for part in &parts {
        state.from.borrow_mut().entry(part.from).or_default().parts += 1;
    }
    let tables = touched.clone();
    // *nothing-forgotten*
    on_tables(tables.clone(), Storage::begin_arrivals).await;
    let taken = take_parts(coordinator, (session, state), parts).await;
    let taken = match taken {
        Ok(()) => keep_all(coordinator, (session, state), &fewer).await,
        failed => failed,
    };
    on_tables(tables, Storage::end_arrivals).await;
    taken?;
    // *durable-when-done*
    let flush = move || {
        let touched = touched.clone();
        async move {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            for table in touched {
                match storage.flush(table).await {
                    Ok(_) | Err(StorageError::UnknownTable(_)) => {}
                    Err(error) => return Err(format!("what was taken is not durable: {error}")),
                }
            }
            Ok::<(), String>(())
        }
    };
    runtime::on_all_shards(flush).await.into_iter().collect()
}

/// Does something to tables on all shards.
async fn on_tables(tables: Vec<TableId>, what: fn(&Storage, TableId)) {
    let work = move || async move {
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            tables.iter().for_each(|table| what(&storage, *table));
        }
    };
    runtime::on_all_shards(work).await;
}

/// Takes parts, some at once.
async fn take_parts(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &Rc<State>),
    parts: VecDeque<Part>,
) -> Result<(), String> {
    let parts = RefCell::new(parts);
    let work = async || {
        loop {
            let next = parts.borrow_mut().pop_front();
            let Some(part) = next else { return Ok(()) };
            take_part(coordinator, (session, state), &part).await?;
            state.parts_done.set(state.parts_done.get() + 1);
            state.from.borrow_mut().entry(part.from).or_default().parts_done += 1;
        }
    };
    let done: Result<Vec<()>, String> =
        join_all((0..AT_ONCE).map(|_| work())).await.into_iter().collect();
    done?;
    let left = parts.borrow().len();
    assert!(left == 0, "all-that-went: {left} parts are left");
    Ok(())
}

/// Takes a range of a table from a node: the state of conditional writes first
/// (*state-before-rows*).
async fn take_part(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &State),
    part: &Part,
) -> Result<(), String> {
    let id = part.table.schema.id;
    take_rounds(coordinator, (session, state), part).await?;
    if coordinator.cluster.topology().enables(features::MOVE_FILES) && files::is_for_files(part) {
        let before = build::views_of(coordinator, id);
        match files::take(coordinator, (session, state), part).await? {
            Outcome::Whole => {
                let views = build::views_of(coordinator, id);
                // *moves-lose-nothing* of `coordinator::build`.
                build::build_anew(views.difference(&before).copied().collect()).await;
                if coordinator.cluster.topology().enables(features::MOVE_WARM) {
                    warm::read_ahead(coordinator, session, part).await;
                }
                return Ok(());
            }
            Outcome::NotAsFiles => {
                stdx::probe!("a tablet moves as rows: its SSTables have something else");
            }
            Outcome::Failed(why) if !is_on(coordinator, session, part) => return Err(why),
            Outcome::Failed(why) => {
                stdx::probe!("a tablet moves as rows: its files could not be taken");
                tracing::warn!(target: "moves", "{why}; its rows are taken instead");
            }
        }
    }
    let schema = part.table.schema.clone();
    let rows = range(&schema, part);
    take_pages(coordinator, (session, state), part, &schema, rows).await
}

/// Takes the state of conditional writes.
async fn take_rounds(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &State),
    part: &Part,
) -> Result<(), String> {
    if part.table.schema.is_counter() {
        return Ok(());
    }
    let paxos = paxos::table(&coordinator.cluster.schema()).schema.clone();
    let rounds = ReadCommand {
        ranges: vec![SendRange::of_prefix(&paxos::clustering_of(part.table.schema.id))],
        ..range(&paxos, part)
    };
    take_pages(coordinator, (session, state), part, &paxos, rounds).await
}

/// Of tablets that get fewer replicas those that stay get what the others have (*rest-has-all*).
async fn keep_all(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &State),
    all: &[Fewer],
) -> Result<(), String> {
    for one in all {
        for part in &one.parts {
            take_rounds(coordinator, (session, state), part).await?;
        }
        one.agree(coordinator).await?;
    }
    Ok(())
}

/// All that a table has in a range.
fn range(schema: &TableSchema, part: &Part) -> ReadCommand {
    let bound = |token| RingBound { token, key: None, after: true };
    assert!(part.after < part.last, "covering: from {:?} to {:?}", part.after, part.last);
    let (start, end) = (bound(part.after), bound(part.last));
    ReadCommand {
        partitions: Partitions::Range { start, end },
        bytes_max: PAGE_BYTES,
        bypass_cache: true,
        ..read_all(schema, wall_micros().div_euclid(1_000_000))
    }
}

async fn take_pages(
    coordinator: &Rc<Coordinator>,
    (session, state): (u64, &State),
    part: &Part,
    schema: &TableSchema,
    mut next: ReadCommand,
) -> Result<(), String> {
    loop {
        let from = (part.from, verb::MOVE_PAGE);
        let Some(stretch) = fetch_stretch(from, schema, &next, PAGE_MAX).await? else {
            return Ok(());
        };
        // *session-guards*
        let _entered = Epochs::enter(&*coordinator.epochs);
        if !is_on(coordinator, session, part) {
            return Err(format!("session {session} is over"));
        }
        let (count, bytes) = (stretch.mutations.len() as u64, stretch.size_bytes() as u64);
        match coordinator.apply_here(stretch.mutations).await {
            Ok(()) => {}
            Err(storage::WriteError::UnknownTable(_)) => return Ok(()),
            Err(error) => return Err(format!("what was taken cannot be written: {error}")),
        }
        debug_assert!(is_on(coordinator, session, part) || count == 0, "session-guards: late");
        state.mutations.set(state.mutations.get() + count);
        state.add_bytes(part.from, bytes);
        super::note_taken(count, bytes);
        super::pace::keep(bytes).await;
        match stretch.reached {
            None => return Ok(()),
            reached => next.resume = reached,
        }
    }
}
