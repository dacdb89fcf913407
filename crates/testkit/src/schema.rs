//! Random changes of the schema, as a workload.
//!
//! Invariants
//!  - *as-a-whole*: after a crash the schema is as before the change in flight or as after it.
//!  - *all-shards-alike*: every shard has the same one.
//!  - *one-host-id*: a node has the id that it took at its first start.

use crate::config::{boot_config, change, keyspace, node_config, table};
use crate::history::Register;
use crate::rounds::Workload;
use cluster::{BootConfig, Cluster, Schema, SchemaChange};
use model::{Type, Uuid};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use storage::SyncMode;

/// The names of what is there: the tables of each keyspace, with their columns. The system's own
/// are left out.
pub type Names = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The names of a schema.
pub fn names(schema: &Schema) -> Names {
    let user = schema.keyspaces.iter().filter(|(name, _)| !Schema::is_system(name));
    user.map(|(name, keyspace)| {
        let tables = keyspace.tables.iter().map(|(name, table)| {
            let columns = table.schema.columns.iter();
            (name.clone(), columns.map(|column| column.name.clone()).collect())
        });
        (name.clone(), tables.collect())
    })
    .collect()
}

/// The schema of every shard, as text.
pub async fn of_all_shards() -> Vec<String> {
    let show = || async {
        let schema = runtime::local::get::<Cluster>().schema();
        let tables: BTreeSet<String> = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| format!("{:?} {:?}", table.schema, table.tablets))
            .collect();
        format!("{} {tables:?}", schema.version)
    };
    runtime::on_all_shards(show).await
}

/// One random change that suits what is there, and what is there then.
fn draw(before: &Names, number: u64) -> (SchemaChange, Names) {
    let mut after = before.clone();
    let pick = |count: u64| runtime::random_u64() % count;
    let space = format!("ks{}", pick(2));
    let Some(tables) = after.get_mut(&space) else {
        let tablets = [None, Some(0), Some(4)][pick(3) as usize];
        after.insert(space.clone(), BTreeMap::new());
        return (SchemaChange::CreateKeyspace(keyspace(&space, 1, tablets)), after);
    };
    let name = format!("t{}", pick(3));
    let change = match (tables.get_mut(&name), pick(8)) {
        (_, 0) => {
            after.remove(&space);
            SchemaChange::DropKeyspace(space)
        }
        (None, _) => {
            tables.insert(name.clone(), vec!["pk".into(), "v".into()]);
            SchemaChange::CreateTable(table(&space, &name, Type::Int))
        }
        (Some(_), 1..5) => {
            tables.remove(&name);
            SchemaChange::DropTable { keyspace: space, name }
        }
        (Some(columns), _) => {
            let column = format!("w{number}");
            columns.push(column.clone());
            columns[1..].sort();
            let table = crate::config::entry(&space, &name).schema.edit();
            let table = table.regular(&column, Type::Text).build();
            SchemaChange::AlterTable(table.expect("one more column"))
        }
    };
    (change, after)
}

/// Changes the schema for ever.
#[derive(Debug)]
pub struct SchemaChanges {
    known: RefCell<Register<Names>>,
    /// Changes that were drawn: one that nobody acknowledged may have happened all the same.
    drawn: Cell<u64>,
    /// Of the node, once it has started.
    host_id: Cell<Option<Uuid>>,
}

impl Default for SchemaChanges {
    /// Of a node that has none yet.
    fn default() -> SchemaChanges {
        let known = RefCell::new(Register::new(Names::new()));
        SchemaChanges { known, drawn: Cell::new(0), host_id: Cell::new(None) }
    }
}

impl SchemaChanges {
    /// Changes that were acknowledged.
    pub fn changes(&self) -> u64 {
        self.known.borrow().changes()
    }
}

impl Workload for SchemaChanges {
    async fn start(&self) {
        let sync = SyncMode::Periodic { period: std::time::Duration::from_secs(10) };
        let config = BootConfig { node: node_config(4), ..boot_config("/node", sync) };
        cluster::boot(config).await.expect("a start");
    }

    async fn check(&self) -> Result<(), String> {
        let schemas = of_all_shards().await;
        if schemas.iter().any(|schema| *schema != schemas[0]) {
            return Err("the shards differ".to_owned());
        }
        let cluster = runtime::local::get::<Cluster>();
        let id = cluster.node().host_id;
        if self.host_id.replace(Some(id)).is_some_and(|known| known != id) {
            return Err("another host id".to_owned());
        }
        self.known.borrow_mut().settle(names(&cluster.schema()))
    }

    async fn work(&self) {
        loop {
            let number = self.drawn.get();
            self.drawn.set(number + 1);
            let (next, after) = draw(self.known.borrow().known(), number);
            self.known.borrow_mut().attempt(after);
            change(move |_| vec![next]).await;
            self.known.borrow_mut().acknowledge();
        }
    }
}
