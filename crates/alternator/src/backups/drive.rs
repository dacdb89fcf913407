//! Brings about what was written down: parts of backups are taken and removed, tables are filled.
//!
//! The first of the nodes that are alive, in order of their ids, drives; where two think that they
//! are, both do, which does no harm: every step may be done twice. Shard 0 looks what there is to
//! do when the catalog changes, and every now and then.
//!
//! Invariants
//!  - *whole-or-not*: a table is used when all that its backup has is in it, and a backup from
//!    which too much is lost fills none: it says so ([`decide`]).
//!  - *ends-some-day*: what would fail in the same way again is not tried again: what is not there,
//!    or is damaged, is lost. Everything else is, with pauses that double.
//!  - *made-by-one*: a backup is made by the node that was asked for it, until that says so or has
//!    started anew, or for so long at most; then it is given up, and its parts are removed.
//!  - *bounded*: so many restores go on at once, each in so many steps on a node ([`LANES`]).

use super::history::{History, Missed};
use super::record::{Record, Status, new_id};
use super::records::{self, Before};
use crate::error::Error;
use crate::kept::Kind;
use crate::node::{Node, changed};
use crate::pauses::Pauses;
use crate::restored::{self, Restored};
use crate::table::Table;
use crate::tables;
use cluster::{Schema, SchemaChange, TableEntry};
use model::schema::TableOptions;
use model::{TableId, Uuid};
use mutation::page::Resume;
use replication::backups::{NotLoaded, PARTS, SnapshotPlace, Step, Taken, is_whole};
use runtime::task::join_all;
use runtime::time::{Instant, sleep, wall_micros};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// How long nodes have for taking their parts, and for removing one.
const TAKE_PATIENCE: Duration = Duration::from_secs(300);
const REMOVE_PATIENCE: Duration = Duration::from_secs(60);
/// A backup that is not made after so long is made by nobody.
const TAKEN_MAX_MILLIS: i64 = 10 * 60 * 1000;
/// How often it is looked what there is to do, and what was left behind.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
const UPKEEP_PERIOD: Duration = Duration::from_secs(20);
/// Tables that are filled at once.
const RESTORES_AT_ONCE: usize = 4;
/// Steps that are under way at once on a node, of a restore.
const LANES: u8 = 2;

const _: () = assert!(TAKE_PATIENCE.as_millis() < TAKEN_MAX_MILLIS as u128, "given up too early");
const _: () = assert!(PARTS.is_multiple_of(LANES), "lanes have as much to do");

/// Writes down a backup of a table, of a kind and a name, that is to be taken.
pub(super) async fn begin(
    node: &Node,
    table: &Table,
    (kind, name): (Kind, String),
) -> Result<Record, Error> {
    let created = wall_micros().div_euclid(1000);
    let schema = &table.entry.schema;
    let ttl = schema.options.extension(TableOptions::ITEM_TTL_ATTRIBUTE);
    let record = Record {
        kind,
        id: new_id(created, runtime::random_u64()),
        name,
        status: Status::Creating,
        created,
        by: node.cluster.node().host_id,
        taken: None,
        table: table.name.clone(),
        table_id: schema.id,
        description: tables::description(node, table).await,
        ttl: ttl.map(str::to_owned),
        bytes: 0,
        copies: 1,
        asked: 0,
        nodes: Vec::new(),
    };
    match records::write(node, &record, Before::Absent).await? {
        true => Ok(record),
        false => Err(Error::internal("two backups of one id")),
    }
}

/// Takes the parts of a backup that was written down: as it is then.
pub(super) async fn take(node: &Node, record: Record) -> Result<Record, Error> {
    let taken = node.coordinator.take_backup(record.table_id, record.tag()?, TAKE_PATIENCE).await;
    let taken = match taken {
        Ok(taken) => taken,
        Err(error) => {
            let deleting = Record { status: Status::Deleting, ..record };
            if records::write(node, &deleting, Before::Was(Status::Creating)).await? {
                remove(node, deleting).await;
            }
            return Err(error.into());
        }
    };
    runtime::injection::pause("alternator_backup_taken").await;
    let Taken { nodes, missing, copies, bytes } = taken;
    let record = Record {
        status: Status::Available,
        taken: Some(wall_micros().div_euclid(1000)),
        bytes: bytes / u64::from(copies.max(1)),
        copies,
        asked: u32::try_from(nodes.len() + missing).unwrap_or(u32::MAX),
        nodes,
        ..record
    };
    if records::write(node, &record, Before::Was(Status::Creating)).await? {
        return Ok(record);
    }
    // It took so long that it was given up; who has done so removes the parts, but for those that
    // came later.
    clear(node, &record).await;
    Err(Error::internal("the backup took too long, and was given up"))
}

/// What came of wanting to remove a backup.
pub(super) enum Released {
    /// It may be removed: as it is now.
    Yes(Box<Record>),
    InUse,
    /// Somebody else has begun to remove it.
    Gone,
}

/// Has a backup used by nobody from now on, so that it may be removed. (*in-use-stays*)
pub(super) async fn release(node: &Node, record: &Record) -> Result<Released, Error> {
    let deleting = Record { status: Status::Deleting, ..record.clone() };
    if is_being_restored(&node.schema(), &record.id) {
        return Ok(Released::InUse);
    }
    if !records::write(node, &deleting, Before::Was(Status::Available)).await? {
        return Ok(Released::Gone);
    }
    // A restore that begins now finds it deleted; one that began before is seen.
    let known = node.cluster.catch_up().await;
    if known.is_err() || is_being_restored(&node.schema(), &record.id) {
        records::write(node, record, Before::Was(Status::Deleting)).await?;
        known.map_err(|why| Error::internal(why.to_string()))?;
        return Ok(Released::InUse);
    }
    Ok(Released::Yes(Box::new(deleting)))
}

/// Has all nodes remove their parts of a backup that is being removed, and forgets it when none has
/// one. What is left of it is for the next look.
pub(super) async fn remove(node: &Node, record: Record) {
    debug_assert!(record.status == Status::Deleting, "in-use-stays: {} stays", record.id);
    if !clear(node, &record).await {
        return;
    }
    match records::forget(node, &record, Status::Deleting).await {
        Ok(_) => tracing::info!(target: "backups", "backup {} is removed", record.id),
        Err(error) => {
            let id = &record.id;
            tracing::warn!(target: "backups", "backup {id} is forgotten later: {error}");
        }
    }
}

/// Whether no node has a part any more, of those that belong to the cluster.
async fn clear(node: &Node, record: &Record) -> bool {
    let Ok(place) = record.place() else { return false };
    let present = node.cluster.topology();
    let hosts: Vec<Uuid> = match record.nodes.is_empty() {
        true => present.present().map(|member| member.host_id).collect(),
        false => record.nodes.clone(),
    };
    let clears = hosts.iter().map(async |host| match node.coordinator.is_backed_up_by(*host) {
        None => Ok(()),
        Some(_) => node.coordinator.clear_backup(*host, &place, REMOVE_PATIENCE).await,
    });
    let mut is_clear = true;
    for cleared in join_all(clears).await {
        if let Err(why) = cleared {
            let id = &record.id;
            tracing::info!(target: "backups", "a part of backup {id} is removed later: {why}");
            is_clear = false;
        }
    }
    is_clear
}

/// Drives, for as long as the server of shard 0 lives.
pub(crate) async fn keep(node: Rc<Node>) {
    let under_way: Rc<RefCell<BTreeSet<TableId>>> = Rc::default();
    let mut looked_at: Option<Instant> = None;
    loop {
        let leads = node.leads();
        if leads {
            begin_restores(&node, &under_way);
        }
        // Once after its start each node looks for what it has left behind itself.
        if looked_at.is_none_or(|at| leads && UPKEEP_PERIOD <= Instant::now() - at) {
            match look_after(&node, leads).await {
                Ok(()) => looked_at = Some(Instant::now()),
                Err(error) => {
                    tracing::debug!(target: "backups", "backups are looked after later: {error}");
                }
            }
        }
        node.cluster.changed_within(LOOK_PERIOD).await;
    }
}

/// What was left behind: backups whose making was given up, and whose removal was not completed.
async fn look_after(node: &Node, leads: bool) -> Result<(), Error> {
    let (me, began) = (node.cluster.node().host_id, node.started);
    let now = wall_micros().div_euclid(1000);
    let is_left = |record: &Record| is_left(record, (me, began), leads.then_some(now));
    let mut left = Vec::new();
    for kind in [Kind::Backup, Kind::Base] {
        left.extend(records::list(node, (kind, None), usize::MAX, is_left).await?.0);
    }
    for record in left {
        // *in-use-stays*, also where who was to remove it has not seen that it is in use.
        if is_being_restored(&node.schema(), &record.id) {
            continue;
        }
        let was = record.status;
        let deleting = Record { status: Status::Deleting, ..record };
        if records::write(node, &deleting, Before::Was(was)).await? {
            remove(node, deleting).await;
        }
    }
    Ok(())
}

/// Whether a table is being made of a backup.
pub(super) fn is_being_restored(schema: &Schema, id: &str) -> bool {
    let of = |entry: &Rc<TableEntry>| restored::under_way(&entry.schema);
    schema.tables().filter_map(of).any(|restored| restored.backup == id)
}

/// What a table is made of.
pub(super) fn kind_of(restored: &Restored) -> Kind {
    if restored.point.is_some() { Kind::Base } else { Kind::Backup }
}

/// Whether a backup was left behind, as a node sees it that began then, in milliseconds; `now`: as
/// the one that drives sees it. (*made-by-one*)
fn is_left(record: &Record, (me, began): (Uuid, i64), now: Option<i64>) -> bool {
    match record.status {
        Status::Creating => {
            let is_mine = record.by == me && record.created < began;
            is_mine || now.is_some_and(|now| record.created + TAKEN_MAX_MILLIS < now)
        }
        Status::Deleting => now.is_some(),
        Status::Available => false,
    }
}

/// Tables whose items are on their way, of which this shard fills some.
fn begin_restores(node: &Rc<Node>, under_way: &Rc<RefCell<BTreeSet<TableId>>>) {
    for entry in node.schema().tables() {
        let id = entry.schema.id;
        let is_due = restored::under_way(&entry.schema).is_some();
        let mut known = under_way.borrow_mut();
        if !is_due || known.contains(&id) || RESTORES_AT_ONCE <= known.len() {
            continue;
        }
        known.insert(id);
        let (node, under_way) = (node.clone(), under_way.clone());
        drop(node.clone().background.spawn(async move {
            restore(&node, id).await;
            under_way.borrow_mut().remove(&id);
        }));
    }
}

/// How far each part of each node is: what is not there is at its start.
type Progress = RefCell<BTreeMap<(Uuid, u8), At>>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Next(Option<Resume>),
    Done,
}

/// What came of the parts of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// What it has is lost: it has no such snapshot, or one that is damaged, or does not belong to
    /// the cluster any more. Why.
    Lost(String),
    /// It is down.
    Away,
    /// It has not done it, for a reason that may pass.
    Failed(String),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    Later(String),
    Never(String),
}

/// *whole-or-not*, *ends-some-day*
fn decide(copies: u32, asked: u32, outcomes: &[Outcome]) -> Verdict {
    let (mut done, mut away, mut failed, mut lost) = (0, 0, Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Done => done += 1,
            Outcome::Away => away += 1,
            Outcome::Failed(why) => failed.push(why),
            Outcome::Lost(why) => lost.push(why),
        }
    }
    let missing = (asked as usize).saturating_sub(done);
    let passing = away + failed.len();
    debug_assert!(passing <= missing, "whole-or-not: {passing} of {missing} may come back");
    if !is_whole(copies, missing - passing) {
        let text = format!("{} of {asked} nodes have lost their parts of it", missing - passing);
        let why = lost.first().map(|why| format!(": {why}"));
        return Verdict::Never(text + &why.unwrap_or_default());
    }
    match failed.first() {
        Some(why) => Verdict::Later((*why).clone()),
        None if is_whole(copies, missing) => Verdict::Whole,
        None => Verdict::Later(format!("{away} nodes are down that have parts of the backup")),
    }
}

/// What a step comes to that was not taken. (*ends-some-day*)
fn outcome_of(reason: NotLoaded) -> Outcome {
    match reason {
        NotLoaded::Yet(why) => Outcome::Failed(why),
        NotLoaded::Ever(why) => Outcome::Lost(why),
    }
}

/// How far a restore is, as whoever drove it before has written it down.
async fn progress_of(node: &Node, id: TableId) -> Result<Progress, Error> {
    let done = records::done(node, id).await?;
    if !done.is_empty() {
        let parts = done.len();
        tracing::info!(target: "backups", "a restore goes on, of which {parts} parts are done");
    }
    Ok(RefCell::new(done.into_iter().map(|place| (place, At::Done)).collect()))
}

/// Fills a table, and says that it may be used; or that it never will.
async fn restore(node: &Node, id: TableId) {
    let (mut known, mut pauses) = (None, Pauses::new());
    loop {
        let schema = node.schema();
        let entry = schema.table_by_id(id);
        let restored = entry.and_then(|entry| restored::under_way(&entry.schema));
        let (Some(entry), Some(restored)) = (entry, restored) else {
            if let Err(error) = records::forget_done(node, id).await {
                tracing::debug!(target: "backups", "how far it was is not forgotten: {error}");
            }
            return;
        };
        if !node.leads() {
            return;
        }
        let name = &entry.schema.name;
        match go_on(node, (id, name), &restored, &mut known).await {
            Ok(()) => tracing::info!(target: "backups", "the restore of {name} has ended"),
            Err(why) => {
                tracing::warn!(target: "backups", "the restore of {name} goes on later: {why}");
                sleep(pauses.next()).await;
            }
        }
    }
}

/// Brings a restore to its end, which is written down; or says why it goes on later. `known`: how
/// far it is.
async fn go_on(
    node: &Node,
    (id, name): (TableId, &str),
    restored: &Restored,
    known: &mut Option<Progress>,
) -> Result<(), String> {
    let words = |error: Error| error.to_string();
    let progress = match known {
        Some(progress) => progress,
        None => known.insert(progress_of(node, id).await.map_err(words)?),
    };
    let ended = match attempt(node, id, restored, progress).await {
        Verdict::Whole => end(node, id, restored::end).await,
        Verdict::Never(why) => {
            tracing::error!(target: "backups", "{name} cannot be restored: {why}");
            end(node, id, move |options| restored::fail(options, &why)).await
        }
        Verdict::Later(why) => return Err(why),
    };
    ended.map_err(words)
}

async fn attempt(node: &Node, id: TableId, restored: &Restored, progress: &Progress) -> Verdict {
    let Restored { backup, point, .. } = restored;
    let record = match records::look(node, (kind_of(restored), backup)).await {
        // One that is being removed has all of its parts while a table is made of it.
        Ok(Some(Ok(record))) if record.status != Status::Creating => record,
        Ok(Some(Err(damaged))) => return Verdict::Never(damaged.message),
        Ok(_) => return Verdict::Never(format!("there is no backup {backup}")),
        Err(error) => return Verdict::Later(error.to_string()),
    };
    let place = match record.place() {
        Ok(place) => place,
        Err(error) => return Verdict::Never(error.to_string()),
    };
    let hosts = record.nodes.iter();
    let outcomes = hosts.map(|host| fill_from(node, (*host, &place), id, progress));
    let outcomes = join_all(outcomes).await;
    match (decide(record.copies, record.asked, &outcomes), point) {
        (Verdict::Whole, Some(point)) => replay(node, (&record, *point), id, progress).await,
        (verdict, _) => verdict,
    }
}

/// Has the table written what came since its base.
async fn replay(
    node: &Node,
    (base, point): (&Record, i64),
    id: TableId,
    progress: &Progress,
) -> Verdict {
    let history = match History::of(node, base, (point, id)).await {
        Ok(history) => history,
        Err(Missed::Later(why)) => return Verdict::Later(why),
        Err(Missed::Never(why)) => return Verdict::Never(why),
    };
    let lanes = (0..LANES).map(async |lane| {
        for part in (lane..PARTS).step_by(LANES.into()) {
            let place = (Uuid::nil(), part);
            if progress.borrow().get(&place) != Some(&At::Done) {
                history.write_part(node, part).await?;
                end_part(node, id, place, progress).await;
            }
        }
        Ok(())
    });
    match join_all(lanes).await.into_iter().collect::<Result<(), Missed>>() {
        Ok(()) => Verdict::Whole,
        Err(Missed::Later(why)) => Verdict::Later(why),
        Err(Missed::Never(why)) => Verdict::Never(why),
    }
}

/// A part is in the table.
async fn end_part(node: &Node, id: TableId, place: (Uuid, u8), progress: &Progress) {
    progress.borrow_mut().insert(place, At::Done);
    if let Err(error) = records::note_done(node, id, place).await {
        // Who drives it next does that part again.
        tracing::debug!(target: "backups", "a part that is done is not noted: {error}");
    }
}

/// Has a node put all of its parts into the table.
async fn fill_from(
    node: &Node,
    from: (Uuid, &SnapshotPlace),
    id: TableId,
    progress: &Progress,
) -> Outcome {
    match node.coordinator.is_backed_up_by(from.0) {
        None => return Outcome::Lost(format!("node {} does not belong to the cluster", from.0)),
        Some(false) => return Outcome::Away,
        Some(true) => {}
    }
    let lanes = (0..LANES).map(async |lane| {
        for part in (lane..PARTS).step_by(LANES.into()) {
            match fill_part(node, (from, part), id, progress).await {
                Outcome::Done => {}
                other => return other,
            }
        }
        Outcome::Done
    });
    let lanes = join_all(lanes).await;
    lanes.into_iter().find(|lane| *lane != Outcome::Done).unwrap_or(Outcome::Done)
}

async fn fill_part(
    node: &Node,
    ((host, place), part): ((Uuid, &SnapshotPlace), u8),
    id: TableId,
    progress: &Progress,
) -> Outcome {
    loop {
        let from = match progress.borrow().get(&(host, part)) {
            Some(At::Done) => return Outcome::Done,
            Some(At::Next(from)) => from.clone(),
            None => None,
        };
        let step = node.coordinator.load_backup(host, (place, part), id, from).await;
        let at = match step {
            Ok(Step::Absent) => return Outcome::Lost(format!("node {host} has no snapshot of it")),
            Ok(Step::Written { next: None, .. }) => At::Done,
            Ok(Step::Written { next, .. }) => At::Next(next),
            Err(reason) => return outcome_of(reason),
        };
        match at {
            At::Done => end_part(node, id, (host, part), progress).await,
            at => drop(progress.borrow_mut().insert((host, part), at)),
        }
        runtime::injection::pause("alternator_restore_step").await;
    }
}

/// Writes down how a restore has ended.
async fn end(
    node: &Node,
    id: TableId,
    how: impl Fn(&mut TableOptions) + Send + 'static,
) -> Result<(), Error> {
    let change = move |schema: &Schema| {
        let Some(entry) = schema.table_by_id(id) else { return Ok(Vec::new()) };
        if restored::under_way(&entry.schema).is_none() {
            return Ok(Vec::new());
        }
        let mut options = entry.schema.options.clone();
        how(&mut options);
        let built = entry.schema.edit().options(options).build();
        let altered = built.map_err(|invalid| Error::validation(invalid.to_string()))?;
        Ok(vec![SchemaChange::AlterTable(altered)])
    };
    changed(node.cluster.change_schema(change).await).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    /// *made-by-one*
    #[test]
    fn what_nobody_makes_any_more_is_left_behind() {
        let hour = 3_600_000;
        let check = |status, began: i64, now: Option<i64>, expected: bool| {
            // Its node is 9.
            let record = record("1", "t", 10 * hour, status);
            let found = is_left(&record, (Uuid::from_u128(9), began), now);
            assert_eq!(found, expected, "{status:?} {began} {now:?}");
            let other = is_left(&record, (Uuid::from_u128(8), began), now);
            let is_late = now.is_some_and(|now| 11 * hour <= now);
            let by_all = status == Status::Deleting && now.is_some();
            assert_eq!(other, by_all || is_late && status == Status::Creating, "another node");
        };
        check(Status::Creating, 9 * hour, None, false);
        check(Status::Creating, 9 * hour, Some(10 * hour), false);
        check(Status::Creating, 9 * hour, Some(11 * hour), true);
        check(Status::Creating, 10 * hour + 1, None, true);
        check(Status::Deleting, 9 * hour, None, false);
        check(Status::Deleting, 9 * hour, Some(10 * hour), true);
        check(Status::Available, 11 * hour, Some(99 * hour), false);
    }

    /// *whole-or-not*, *ends-some-day*
    #[test]
    fn a_table_is_used_when_each_quorum_has_given_a_part() {
        let of = |letter: char| match letter {
            'd' => Outcome::Done,
            'l' => Outcome::Lost("damaged".to_owned()),
            'a' => Outcome::Away,
            _ => Outcome::Failed("busy".to_owned()),
        };
        let check = |copies: u32, asked: u32, outcomes: &str, expected: &str| {
            let outcomes: Vec<Outcome> = outcomes.chars().map(of).collect();
            let found = match decide(copies, asked, &outcomes) {
                Verdict::Whole => "whole",
                Verdict::Later(_) => "later",
                Verdict::Never(_) => "never",
            };
            assert_eq!(found, expected, "{copies} {asked} {outcomes:?}");
        };
        check(1, 1, "d", "whole");
        check(1, 1, "l", "never");
        check(1, 1, "a", "later");
        check(1, 1, "f", "later");
        check(3, 3, "ddd", "whole");
        check(3, 3, "ddl", "whole");
        check(3, 3, "dda", "whole");
        check(3, 3, "ddf", "later");
        check(3, 3, "dla", "later");
        check(3, 3, "dll", "never");
        check(3, 3, "daa", "later");
        // What fails does not matter where nothing can make it whole.
        check(3, 3, "lfl", "never");
        check(3, 3, "lfd", "later");
        check(3, 3, "lfa", "later");
        // Of four nodes one has no part since the beginning.
        check(3, 4, "ddd", "whole");
        check(3, 4, "ddl", "never");
        check(3, 4, "dda", "later");
        check(1, 3, "dda", "later");
        check(1, 3, "ddl", "never");
    }

    /// *ends-some-day*
    #[test]
    fn what_is_lost_says_why() {
        let lost = outcome_of(NotLoaded::Ever("a file is damaged".to_owned()));
        let failed = outcome_of(NotLoaded::Yet("busy".to_owned()));
        let never = "2 of 3 nodes have lost their parts of it: a file is damaged".to_owned();
        let all = [Outcome::Done, lost.clone(), lost.clone()];
        assert_eq!(decide(3, 3, &all), Verdict::Never(never));
        assert_eq!(decide(3, 3, &[Outcome::Done, lost, failed]), Verdict::Later("busy".to_owned()));
        // Parts that there were never.
        let never = "2 of 3 nodes have lost their parts of it".to_owned();
        assert_eq!(decide(3, 3, &[Outcome::Done]), Verdict::Never(never));
    }
}
