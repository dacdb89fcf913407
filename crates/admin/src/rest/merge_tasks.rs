//! Merges that shards do by themselves, as tasks of the module `compaction`: listed with internal
//! ones while they run, and gone when they have ended. What somebody asked for has a task of its
//! own.

use super::dates::time;
use model::Uuid;
use runtime::time::timeout;
use serde_json::{Value, json};
use std::time::Duration;
use storage::{RunningCompaction, Storage};

/// A merge that runs.
pub(super) struct MergeTask {
    shard: u16,
    job: RunningCompaction,
}

/// How a merge is, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Running,
    Done,
    Failed,
}

/// What tasks call what shards do by themselves; `None`: it is not that.
fn kind_of(job: &RunningCompaction) -> Option<&'static str> {
    match job.kind {
        "Compaction" => Some("regular compaction"),
        "Reshard" => Some("resharding compaction"),
        _ => None,
    }
}

/// Those of all shards.
pub(super) async fn running() -> Vec<MergeTask> {
    let asked = runtime::on_all_shards(|| async {
        let storage = runtime::local::try_get::<Storage>();
        storage.map(|storage| storage.running_compactions()).unwrap_or_default()
    });
    let mut all = Vec::new();
    for (shard, jobs) in asked.await.into_iter().enumerate() {
        let jobs = jobs.into_iter().filter(|job| kind_of(job).is_some());
        all.extend(jobs.map(|job| MergeTask { shard: shard as u16, job }));
    }
    all
}

/// The one with this id, if it runs.
pub(super) async fn find(id: Uuid) -> Option<MergeTask> {
    running().await.into_iter().find(|task| task.job.id == id)
}

/// Asks it to end; whether it runs.
pub(super) async fn abort(id: Uuid) -> bool {
    let asked = runtime::on_all_shards(move || async move {
        let storage = runtime::local::try_get::<Storage>();
        storage.is_some_and(|storage| storage.stop_compaction(id))
    });
    asked.await.contains(&true)
}

impl MergeTask {
    pub(super) fn keyspace(&self) -> &str {
        &self.job.keyspace
    }

    pub(super) fn table(&self) -> &str {
        &self.job.name
    }

    /// Waits for its end, for so long at most: how it ended.
    pub(super) async fn wait(&self, span: Option<Duration>) -> Seen {
        let id = self.job.id;
        let end = runtime::on_shard(self.shard, move || async move {
            runtime::local::try_get::<Storage>()?.end_of_compaction(id).await
        });
        let ended = match span {
            None => end.await,
            Some(span) => match timeout(span, end).await {
                Ok(ended) => ended,
                Err(_) => return Seen::Running,
            },
        };
        match ended {
            Some(true) => Seen::Done,
            Some(false) | None => Seen::Failed,
        }
    }

    /// What a list says of it.
    pub(super) fn stats(&self) -> Value {
        let started = time(Some(self.job.started_micros.div_euclid(1000)));
        json!({
            "task_id": self.job.id.to_string(),
            "type": kind_of(&self.job),
            "kind": "node",
            "scope": "compaction group",
            "state": "running",
            "sequence_number": 0,
            "keyspace": self.job.keyspace,
            "table": self.job.name,
            "entity": "",
            "shard": self.shard,
            "creation_time": started,
            "start_time": started,
            "end_time": time(None),
        })
    }

    /// All that is known of it. Nobody knows when one ended that somebody waited for, but that it
    /// was just now.
    pub(super) fn shown(&self, seen: Seen) -> Value {
        let started = time(Some(self.job.started_micros.div_euclid(1000)));
        let (state, error) = match seen {
            Seen::Running => ("running", ""),
            Seen::Done => ("done", ""),
            Seen::Failed => ("failed", "it was stopped or failed: see the log"),
        };
        let ended = (seen != Seen::Running).then(|| runtime::time::wall_micros() / 1000);
        let done = match seen {
            Seen::Running => self.job.done(),
            Seen::Done | Seen::Failed => 1.0,
        };
        json!({
            "id": self.job.id.to_string(),
            "type": kind_of(&self.job),
            "kind": "node",
            "scope": "compaction group",
            "state": state,
            "is_abortable": true,
            "creation_time": started,
            "start_time": started,
            "end_time": time(ended),
            "error": error,
            "parent_id": "none",
            "sequence_number": 0,
            "shard": self.shard,
            "keyspace": self.job.keyspace,
            "table": self.job.name,
            "entity": "",
            "progress_units": "",
            "progress_total": 1.0,
            "progress_completed": done,
        })
    }
}
