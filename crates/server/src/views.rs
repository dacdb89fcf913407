//! Rows of the computed system tables that tell how far views are built: of this node
//! `system.built_views`, `views_builds_in_progress` and `scylla_views_builds_in_progress`; of all
//! nodes `view_build_status_v2`, and `system_distributed.view_build_status`. And `IndexInfo`, of
//! indexes whose views are built.

use crate::tables::{Named, arranged};
use cluster::{Cluster, TableEntry, VirtualFuture, VirtualRow};
use model::{TableId, TableSchema};
use replication::coordinator::build::{self, Told, ViewState};
use std::rc::Rc;

/// Gives the tables their rows on this shard.
pub(crate) fn provide() {
    let cluster = runtime::local::get::<Cluster>();
    let provide = |name: &'static str, rows: fn(&'static str) -> VirtualFuture| {
        cluster.provide(name, Rc::new(move || rows(name)));
    };
    provide("built_views", |name| Box::pin(of_node(name, built)));
    provide("views_builds_in_progress", |name| Box::pin(of_node(name, in_progress)));
    provide("scylla_views_builds_in_progress", |name| Box::pin(of_node(name, by_shard)));
    provide("view_build_status_v2", |name| Box::pin(of_all(name)));
    // Where it was before, and where programs look.
    let before = Rc::new(|| -> VirtualFuture { Box::pin(of_all("view_build_status_v2")) });
    cluster.provide_distributed("view_build_status", before);
    provide("IndexInfo", |name| Box::pin(indexes(name)));
}

/// All views.
fn views() -> Vec<Rc<TableEntry>> {
    let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
    let schema = cluster.schema();
    schema.tables().filter(|table| table.schema.view.is_some()).cloned().collect()
}

fn named(view: &TableSchema) -> Named {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![("keyspace_name", text(&view.keyspace)), ("view_name", text(&view.name))]
}

async fn of_node(name: &str, rows: fn(&TableSchema, &ViewState) -> Vec<Named>) -> Vec<VirtualRow> {
    let (states, views) = (build::states().await, views());
    let state_of = |id: TableId| states.iter().find(|state| state.view == id);
    let all = views.iter().filter_map(|view| Some((view, state_of(view.schema.id)?)));
    let rows: Vec<Named> = all.flat_map(|(view, state)| rows(&view.schema, state)).collect();
    arranged(name, &rows)
}

fn built(view: &TableSchema, state: &ViewState) -> Vec<Named> {
    if !state.is_built {
        return Vec::new();
    }
    let mut values = named(view);
    values.push(("status_replicated", vec![1]));
    vec![values]
}

fn in_progress(view: &TableSchema, state: &ViewState) -> Vec<Named> {
    let Some(token) = state.shards.iter().map(|(_, token)| token).min() else { return Vec::new() };
    let mut values = named(view);
    values.push(("generation_number", 0i32.to_be_bytes().to_vec()));
    values.push(("last_token", token.to_string().into_bytes()));
    vec![values]
}

fn by_shard(view: &TableSchema, state: &ViewState) -> Vec<Named> {
    let row = |(shard, token): &(u16, i64)| {
        let mut values = named(view);
        values.push(("cpu_id", i32::from(*shard).to_be_bytes().to_vec()));
        values.push(("first_token", i64::MIN.to_string().into_bytes()));
        values.push(("generation_number", 0i32.to_be_bytes().to_vec()));
        values.push(("next_token", token.to_string().into_bytes()));
        values
    };
    state.shards.iter().map(row).collect()
}

async fn of_all(name: &str) -> Vec<VirtualRow> {
    let told = build::told_by_all().await;
    let mut rows = Vec::new();
    for view in views() {
        for Told { host, built } in &told {
            let status = match built {
                Some(built) if built.contains(&view.schema.id) => "SUCCESS",
                Some(_) => "STARTED",
                None => "UNKNOWN",
            };
            let mut values = named(&view.schema);
            values.push(("host_id", host.as_bytes().to_vec()));
            values.push(("status", status.as_bytes().to_vec()));
            rows.push(values);
        }
    }
    arranged(name, &rows)
}

/// Indexes that are built on this node, by the names of their keyspaces.
async fn indexes(name: &str) -> Vec<VirtualRow> {
    let states = build::states().await;
    let is_built = |id: TableId| states.iter().any(|state| state.view == id && state.is_built);
    let mut rows = Vec::new();
    for view in views().iter().filter(|view| is_built(view.schema.id)) {
        let TableSchema { keyspace, name, .. } = &*view.schema;
        let base = view.schema.view.as_ref().map(|it| it.base);
        let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
        let schema = cluster.schema();
        let base = base.and_then(|base| schema.table_by_id(base));
        let index = base.and_then(|it| it.schema.indexes.iter().find(|it| it.view_name() == *name));
        rows.extend(index.map(|index| {
            let text = |text: &str| text.as_bytes().to_vec();
            vec![("table_name", text(keyspace)), ("index_name", text(&index.name))]
        }));
    }
    arranged(name, &rows)
}
