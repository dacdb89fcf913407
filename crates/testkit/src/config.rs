//! How the nodes of tests are configured: small segments and memtables, so that they are written to
//! files soon, and a small cache, so that they start soon; and what such nodes have before a test
//! begins. Who needs another figure changes that one alone.

use cluster::{BootConfig, Cluster, NodeConfig, Schema, SchemaChange, TableEntry};
use model::{Keyspace, TableSchema, Type, Uuid};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use storage::SyncMode;

/// A node that is alone, with its files in `directory`.
pub fn boot_config(directory: &str, sync: SyncMode) -> BootConfig {
    let mut storage = storage::Config::new(directory, Uuid::nil());
    storage.sync = sync;
    storage.segment_bytes = 1 << 20;
    storage.commitlog_bytes_max = 16 << 20;
    storage.memtable_bytes_max = 4 << 20;
    storage.row_cache_bytes_max = 8 << 20;
    BootConfig { node: node_config(1), storage }
}

/// A node at the loopback address that owns so many tokens.
pub fn node_config(num_tokens: u32) -> NodeConfig {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    NodeConfig {
        cluster_name: "test".into(),
        data_center: "dc1".into(),
        rack: "r1".into(),
        listen_address: address,
        broadcast_address: address,
        rpc_address: address,
        listen_port: 7000,
        rpc_port: Some(9042),
        num_tokens,
        initial_tokens: Vec::new(),
        withheld_features: Default::default(),
        joins_ring: true,
    }
}

/// A keyspace of so many copies, with tablets or without.
pub fn keyspace(name: &str, copies: u32, initial_tablets: Option<u32>) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), copies.to_string()),
        ],
        durable_writes: true,
        previous: None,
        initial_tablets,
        storage: Vec::new(),
    }
}

/// A new table of an int, the key, and a value: `(pk int PRIMARY KEY, v ..)`.
pub fn table(keyspace: &str, name: &str, ty: Type) -> TableSchema {
    let builder = TableSchema::builder(keyspace, name, Cluster::new_table_id());
    let builder = builder.partition_key("pk", Type::Int).regular("v", ty);
    builder.build().expect("a table")
}

/// Changes the schema of the node, which belongs to no group and so decides once. It must work.
pub async fn change(decide: impl FnOnce(&Schema) -> Vec<SchemaChange> + Send + 'static) {
    let (cluster, decide) = (runtime::local::get::<Cluster>(), Cell::new(Some(decide)));
    let decide = move |schema: &Schema| {
        let decide = decide.take().expect("a node of no group decides once");
        Ok::<_, ()>(decide(schema))
    };
    cluster.change_schema(decide).await.expect("a schema change");
}

/// A table of the node.
pub fn entry(keyspace: &str, name: &str) -> Rc<TableEntry> {
    let schema = runtime::local::get::<Cluster>().schema();
    schema.table(keyspace, name).expect("the table").clone()
}
