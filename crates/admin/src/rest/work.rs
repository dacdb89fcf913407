//! What is done to tables, as tasks: a task for the whole, one below it for each shard, one below
//! that for each table.
//!
//! Invariants
//!  - *shard-by-shard*: a shard does its tables one after the other; shards work at the same time.

use super::api::Answered;
use super::task_manager::refused;
use crate::call::Answer;
use crate::tasks::{About, COMPACTION, Running, SNAPSHOT, State, Tasks};
use cluster::{Cluster, TableEntry};
use model::{TableId, Uuid};
use runtime::task::join_all;
use runtime::{local, on_all_shards, on_shard};
use serde_json::json;
use std::future::Future;
use std::rc::Rc;
use storage::{CompactionKind, Storage};

/// The kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) module: &'static str,
    /// As lists of tasks have it.
    pub(super) name: &'static str,
    /// What of the storage it is, for an abort.
    pub(super) stops: &'static [CompactionKind],
    /// What the storage calls its jobs.
    pub(super) jobs: &'static [&'static str],
}

pub(super) const MAJOR: Work = Work {
    module: COMPACTION,
    name: "major compaction",
    stops: &[CompactionKind::Major],
    jobs: &[CompactionKind::Major.name()],
};
pub(super) const CLEANUP: Work =
    Work { module: COMPACTION, name: "cleanup compaction", stops: &[], jobs: &[] };
pub(super) const OFF_STRATEGY: Work =
    Work { module: COMPACTION, name: "offstrategy compaction", stops: &[], jobs: &[] };
pub(super) const UPGRADE: Work = Work {
    module: COMPACTION,
    name: "upgrade sstables compaction",
    stops: &[CompactionKind::Upgrade],
    jobs: &[CompactionKind::Upgrade.name()],
};
pub(super) const SCRUB: Work = Work {
    module: COMPACTION,
    name: "scrub sstables compaction",
    stops: &[CompactionKind::Scrub, CompactionKind::Validation],
    jobs: &[CompactionKind::Scrub.name(), CompactionKind::Validation.name()],
};

pub(super) const RESHARD: Work = Work {
    module: COMPACTION,
    name: "resharding compaction",
    stops: &[CompactionKind::Reshard],
    jobs: &[CompactionKind::Reshard.name()],
};

/// Tables that something is done to, and the names that its task shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) keyspace: String,
    /// Where it is one.
    pub(super) table: String,
    pub(super) ids: Vec<TableId>,
}

impl Tables {
    /// Of a keyspace.
    pub(super) fn of(keyspace: &str, ids: Vec<TableId>) -> Tables {
        Tables { keyspace: keyspace.to_owned(), table: String::new(), ids }
    }

    pub(super) fn one(entry: &TableEntry) -> Tables {
        Tables {
            keyspace: entry.schema.keyspace.clone(),
            table: entry.schema.name.clone(),
            ids: vec![entry.schema.id],
        }
    }

    /// All tables of the node.
    pub(super) fn all(ids: Vec<TableId>) -> Tables {
        Tables::of("", ids)
    }

    pub(super) fn about(&self, work: Work) -> About {
        About {
            kind: work.name.to_owned(),
            scope: match (self.keyspace.as_str(), self.table.as_str()) {
                ("", _) => "global",
                (_, "") => "keyspace",
                _ => "table",
            },
            keyspace: self.keyspace.clone(),
            table: self.table.clone(),
            // A snapshot is taken as a whole.
            abortable: work.module != SNAPSHOT,
            of_user: true,
            jobs: work.jobs,
            ..About::default()
        }
    }
}

/// Starts work as a task.
pub(super) fn start<F, Fut>(work: Work, tables: &Tables, run: F) -> Result<Uuid, Answer>
where
    F: FnOnce(Rc<Running>) -> Fut + 'static,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let (tasks, ids) = (Tasks::of_shard(), tables.ids.clone());
    let stop = Box::new(move || stop(work.stops, ids.clone()));
    tasks.spawn(work.module, tables.about(work), Some(stop), run).map_err(refused)
}

/// Ends what the storage does of that.
fn stop(kinds: &'static [CompactionKind], tables: Vec<TableId>) {
    // Told to every shard; nobody has to wait until they have heard.
    Tasks::of_shard().background(async move {
        on_all_shards(move || {
            let tables = tables.clone();
            async move {
                if let Some(storage) = local::try_get::<Storage>() {
                    kinds.iter().for_each(|kind| storage.stop_compactions(*kind, Some(&tables)));
                }
            }
        })
        .await;
    });
}

/// The answer of a request that does not wait: the id of the task.
pub(super) fn told(id: Uuid) -> Answered {
    Ok(Answer::json(json!(id.to_string())))
}

/// Waits for a task; why it failed.
pub(super) async fn finished(id: Uuid) -> Result<(), Answer> {
    match Tasks::of_shard().wait(id, None).await.map_err(refused)? {
        Some(task) => match task.state {
            State::Failed(why) => Err(Answer::refused(500, why)),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Fails where that is wanted.
pub(super) fn injected(name: &str) -> Result<(), String> {
    match stdx::injection::reached(name) {
        true => Err(format!("an injected error: {name}")),
        false => Ok(()),
    }
}

/// Does something to each table on each shard, as tasks below `task`; what each has said. A table
/// that was dropped meanwhile is passed over. The error names the shard that met it.
pub(super) async fn on_shards<F, Fut, T>(
    task: &Running,
    work: Work,
    tables: &Tables,
    act: F,
) -> Result<Vec<T>, String>
where
    F: Fn(Rc<Storage>, TableId) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<T, String>>,
    T: Send + 'static,
{
    task.check()?;
    let shards = runtime::shard_count();
    let mut begun = Vec::new();
    for shard in 0..shards {
        let about = About { scope: "shard", shard, jobs: &[], ..tables.about(work) };
        let child = task.child(about)?;
        child.note_progress(0.0, tables.ids.len().max(1) as f64);
        begun.push(child);
    }
    let run = begun.into_iter().enumerate().map(|(shard, child)| {
        child.through(async move |child: &Running| {
            on_one_shard(child, shard as u16, work, tables, act).await
        })
    });
    let mut all = Vec::new();
    for result in join_all(run).await {
        all.extend(result?);
    }
    Ok(all)
}

async fn on_one_shard<F, Fut, T>(
    task: &Running,
    shard: u16,
    work: Work,
    tables: &Tables,
    act: F,
) -> Result<Vec<T>, String>
where
    F: Fn(Rc<Storage>, TableId) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<T, String>>,
    T: Send + 'static,
{
    let mut all = Vec::new();
    if work == MAJOR {
        injected("shard_major_keyspace_compaction_task_impl_run_fail")?;
    }
    for id in &tables.ids {
        task.check()?;
        let schema = local::get::<Cluster>().schema();
        let Some(entry) = schema.table_by_id(*id) else { continue };
        let about = About { scope: "table", shard, ..Tables::one(entry).about(work) };
        let child = task.child(about)?;
        let id = *id;
        let done = child.through(async move |child: &Running| {
            child.check()?;
            if work == MAJOR {
                injected("table_major_keyspace_compaction_task_impl_run_fail")?;
            }
            let done = on_shard(shard, move || async move {
                let storage = local::try_get::<Storage>().ok_or("the node stops")?;
                match storage.table_stats(id) {
                    Some(_) => act(storage, id).await.map(Some),
                    None => Ok(None),
                }
            });
            done.await.map_err(|text| format!("shard {shard}: {text}"))
        });
        all.extend(done.await?);
    }
    Ok(all)
}
