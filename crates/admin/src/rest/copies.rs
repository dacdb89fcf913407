//! Keyspaces with tablets that were given other numbers of copies: while their tablets follow, each
//! node has a task for that, which can be listed and waited for. It is of the module
//! `global_topology_requests`, and goes by what the schema says, whichever node was asked.
//!
//! Invariants
//!  - *one-task*: a keyspace has one such task that goes on; another change meanwhile is of that,
//!    too.

use super::task_manager::refused;
use super::{Answer, Door};
use crate::tasks::{About, GLOBAL_REQUESTS, Running, Tasks};
use cluster::event::Event;
use cluster::{Cluster, Replication, Schema};
use runtime::time::sleep;
use std::rc::Rc;
use std::time::Duration;

/// Between two looks at what nobody tells of.
const LOOK: Duration = Duration::from_millis(100);
const KIND: &str = "keyspace_rf_change";

/// From now on there are tasks for what follows.
pub(super) fn note_start(door: &Rc<Door>) {
    let cluster = door.cluster.clone();
    Tasks::of_shard().background(async move {
        loop {
            let mut events = cluster.subscribe();
            note(&cluster);
            while let Some(event) = events.next().await {
                if matches!(event, Event::Schema(_)) {
                    note(&cluster);
                }
            }
            sleep(LOOK).await;
        }
    });
}

/// Begins tasks for those keyspaces that have none.
fn note(cluster: &Rc<Cluster>) {
    let schema = cluster.schema();
    for entry in schema.keyspaces.values().filter(|it| it.keyspace.previous.is_some()) {
        let name = &entry.keyspace.name;
        if let Err(answer) = begin(cluster, name) {
            tracing::warn!(
                target: "storage_service",
                "no task for the copies of keyspace {name}: {}", answer.status
            );
        }
    }
}

fn begin(cluster: &Rc<Cluster>, name: &str) -> Result<(), Answer> {
    let tasks = Tasks::of_shard();
    let is_there = {
        let registry = tasks.registry();
        let all = registry.of_module(GLOBAL_REQUESTS, false).map_err(refused)?;
        all.iter().any(|it| !it.state.is_final() && it.about.keyspace == name)
    };
    if is_there {
        return Ok(());
    }
    let about = About {
        kind: KIND.to_owned(),
        scope: "keyspace",
        keyspace: name.to_owned(),
        of_user: true,
        units: "tablets",
        ..About::default()
    };
    let (cluster, keyspace) = (cluster.clone(), name.to_owned());
    let run = async move |running: Rc<Running>| followed(&cluster, &keyspace, &running).await;
    tasks.spawn(GLOBAL_REQUESTS, about, None, run).map(drop).map_err(refused)
}

/// Ends when the tablets of a keyspace have followed.
async fn followed(cluster: &Cluster, keyspace: &str, running: &Running) -> Result<(), String> {
    loop {
        let schema = cluster.schema();
        let Some(entry) = schema.keyspace(keyspace) else {
            return Err(format!("keyspace {keyspace} was dropped"));
        };
        let (done, all) = progress(&schema, keyspace);
        running.note_progress(done as f64, all as f64);
        if entry.keyspace.previous.is_none() {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// How many tablets of a keyspace have as many replicas as it wants, and how many there are.
fn progress(schema: &Schema, keyspace: &str) -> (usize, usize) {
    let Some(entry) = schema.keyspace(keyspace) else { return (0, 0) };
    let wanted = match &*entry.replication {
        Replication::PerDataCenter(_) => entry.replication.total() as usize,
        _ => return (0, 0),
    };
    let (mut done, mut all) = (0, 0);
    for table in entry.tables.values() {
        let moves = table.replicas.moves();
        let settled = table.replicas.iter().enumerate();
        all += table.replicas.count();
        done += settled.filter(|(at, of)| of.len() == wanted && !moves.contains_key(at)).count();
    }
    debug_assert!(done <= all, "one-task: {done} of {all} tablets");
    (done, all)
}
