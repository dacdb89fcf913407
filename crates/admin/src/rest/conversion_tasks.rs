//! Keyspaces that are given tablets, as tasks of the whole cluster: what the catalog says, shown as
//! tasks. They are there as long as it goes on, on every node, and have the same ids on all of
//! them.
//!
//! Two kinds: a keyspace that is given tablets, until that is finalized; and one whose tables come
//! to a power of two of tablets afterwards, with a task below it for each table.

use super::Door;
use super::dates::time;
use cluster::{KeyspaceEntry, StorageMode, TableEntry};
use model::Uuid;
use runtime::time::timeout;
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

/// What a task is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Migration,
    /// Of the tables of a keyspace.
    Convergence,
    /// Of a table.
    OfTable,
}

/// A task, as it is now.
#[derive(Clone, Debug)]
pub(super) struct ConversionTask {
    id: Uuid,
    what: What,
    pub(super) keyspace: String,
    pub(super) table: String,
    entity: String,
    parent: Option<Uuid>,
    children: Vec<Uuid>,
    /// What is done, and all of it.
    progress: (usize, usize),
    state: &'static str,
}

/// The same for the same thing on every node.
fn id_of(kind: &str, keyspace: &str, table: &str) -> Uuid {
    let half = |seed: u8| stdx::hash_one((seed, kind, keyspace, table));
    Uuid::from_u64_pair(half(1), half(2))
}

const MIGRATION: &str = "vnodes_to_tablets_migration";
const CONVERGENCE: &str = "pow2_convergence";

/// All there are.
pub(super) async fn all(door: &Rc<Door>) -> Vec<ConversionTask> {
    let schema = door.cluster.schema();
    let mut out = Vec::new();
    for name in door.cluster.topology().converting() {
        out.push(migration(door, name).await);
    }
    for entry in schema.keyspaces.values() {
        out.extend(convergence(entry));
    }
    out
}

/// The one with this id.
pub(super) async fn find(door: &Rc<Door>, id: Uuid) -> Option<ConversionTask> {
    all(door).await.into_iter().find(|task| task.id == id)
}

async fn migration(door: &Rc<Door>, name: &str) -> ConversionTask {
    let modes = door.moves.node_modes(name.to_owned()).await.unwrap_or_default();
    let done = modes.iter().filter(|it| it.current == Some(StorageMode::Tablets)).count();
    ConversionTask {
        id: id_of(MIGRATION, name, ""),
        what: What::Migration,
        keyspace: name.to_owned(),
        table: String::new(),
        entity: String::new(),
        parent: None,
        children: Vec::new(),
        progress: (done, modes.len()),
        state: "running",
    }
}

/// Of a keyspace with tables that come to fewer tablets, and of each of these.
fn convergence(entry: &KeyspaceEntry) -> Vec<ConversionTask> {
    let with_tablets = entry.tables.values().filter(|table| !table.replicas.is_empty());
    let all: Vec<&Rc<TableEntry>> = with_tablets.collect();
    let converging = all.iter().filter(|table| table.replicas.target() != 0);
    let keyspace = &entry.keyspace.name;
    let parent = id_of(CONVERGENCE, keyspace, "");
    let of_table = |table: &&Rc<TableEntry>| {
        let (count, target) = (table.replicas.count(), table.replicas.target() as usize);
        ConversionTask {
            id: id_of(CONVERGENCE, keyspace, &table.schema.name),
            what: What::OfTable,
            keyspace: keyspace.clone(),
            table: table.schema.name.clone(),
            entity: format!("{count} tablets (target: {target})"),
            parent: Some(parent),
            children: Vec::new(),
            progress: ((200 * target + count) / (2 * count), 100),
            state: "running",
        }
    };
    let mut tables: Vec<ConversionTask> = converging.map(of_table).collect();
    if !tables.is_empty() {
        tables.insert(
            0,
            ConversionTask {
                id: parent,
                what: What::Convergence,
                keyspace: keyspace.clone(),
                table: String::new(),
                entity: String::new(),
                parent: None,
                children: tables.iter().map(|task| task.id).collect(),
                progress: (all.len() - tables.len(), all.len()),
                state: "running",
            },
        );
    }
    tables
}

impl ConversionTask {
    fn kind(&self) -> &'static str {
        match self.what {
            What::Migration => MIGRATION,
            What::Convergence | What::OfTable => CONVERGENCE,
        }
    }

    fn scope(&self) -> &'static str {
        if self.what == What::OfTable { "table" } else { "keyspace" }
    }

    fn units(&self) -> &'static str {
        match self.what {
            What::Migration => "nodes",
            What::Convergence => "tables",
            What::OfTable => "percent",
        }
    }

    /// Whether it is a part of another one.
    pub(super) fn is_below(&self, other: &ConversionTask) -> bool {
        self.parent == Some(other.id)
    }

    /// What a list says of it.
    pub(super) fn stats(&self) -> Value {
        json!({
            "task_id": self.id.to_string(),
            "type": self.kind(),
            "kind": "cluster",
            "scope": self.scope(),
            "state": self.state,
            "sequence_number": 0,
            "keyspace": self.keyspace,
            "table": self.table,
            "entity": self.entity,
            "shard": 0,
            "start_time": time(None),
            "end_time": time(None),
        })
    }

    /// All that is known of it.
    pub(super) fn shown(&self, door: &Door) -> Value {
        let node = door.cluster.node().broadcast_address.to_string();
        let child = |id: &Uuid| json!({ "task_id": id.to_string(), "node": node });
        json!({
            "id": self.id.to_string(),
            "type": self.kind(),
            "kind": "cluster",
            "scope": self.scope(),
            "state": self.state,
            "is_abortable": false,
            "start_time": time(None),
            "end_time": time(None),
            "error": "",
            "parent_id": self.parent.map_or_else(|| "none".to_owned(), |id| id.to_string()),
            "sequence_number": 0,
            "shard": 0,
            "keyspace": self.keyspace,
            "table": self.table,
            "entity": self.entity,
            "progress_units": self.units(),
            "progress_total": self.progress.1,
            "progress_completed": self.progress.0,
            "children_ids": self.children.iter().map(child).collect::<Vec<_>>(),
        })
    }

    /// Waits for its end, for so long at most; `None`: it goes on.
    pub(super) async fn wait(
        self,
        door: &Rc<Door>,
        span: Option<Duration>,
    ) -> Option<ConversionTask> {
        match self.what {
            What::Migration => tracing::info!(
                target: "tablets",
                "migration_virtual_task: waiting for vnodes-to-tablets migration to finish"
            ),
            What::Convergence | What::OfTable => tracing::info!(
                target: "tablets",
                "pow2_convergence_virtual_task: waiting for pow2 convergence to finish"
            ),
        }
        let ended = async {
            while self.goes_on(door) {
                door.cluster.changed().await;
            }
        };
        match span {
            None => ended.await,
            Some(span) => timeout(span, ended).await.ok()?,
        }
        Some(self.ended(door))
    }

    /// By what the catalog says now.
    fn goes_on(&self, door: &Door) -> bool {
        let schema = door.cluster.schema();
        let comes = |table: &Rc<TableEntry>| table.replicas.target() != 0;
        match self.what {
            What::Migration => door.cluster.topology().converting().contains(&self.keyspace),
            What::Convergence => schema
                .keyspace(&self.keyspace)
                .is_some_and(|entry| entry.tables.values().any(comes)),
            What::OfTable => schema.table(&self.keyspace, &self.table).is_some_and(comes),
        }
    }

    /// A migration that was taken back may begin again: it is not done.
    fn ended(mut self, door: &Door) -> ConversionTask {
        let schema = door.cluster.schema();
        let entry = schema.keyspace(&self.keyspace);
        let has_tablets = entry.is_some_and(|entry| entry.keyspace.initial_tablets.is_some());
        self.progress.0 = if has_tablets { self.progress.1 } else { 0 };
        self.state = match (self.what, has_tablets) {
            (What::Migration, false) => "suspended",
            _ => "done",
        };
        self
    }
}
