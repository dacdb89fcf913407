//! `/tasks/compaction`, `/storage_service/keyspace_compaction` and the like: merges that somebody
//! asks for, as tasks. Those below `/tasks` are answered with the id of the task at once; the
//! others wait for its end.

use super::Door;
use super::api::{Answered, Api, Kind, Operation};
use super::tables::{CF, all, flush, named, one};
use super::upkeep::{self, Order};
use super::work::{
    CLEANUP, MAJOR, OFF_STRATEGY, RESHARD, SCRUB, Tables, UPGRADE, finished, injected, on_shards,
    start, told,
};
use crate::call::{Answer, Call};
use crate::tasks::Running;
use cluster::Cluster;
use hyper::Method;
use model::{TableId, Uuid};
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;
use storage::{Outdated, Rewrite, Storage, Upkeep};

pub(super) fn operations(api: &mut Api) {
    let summary = "Major compaction: merges all SSTables of each table";
    major_parameters(api.post("/storage_service/compact", summary, major_all));
    let path = "/storage_service/keyspace_compaction/{keyspace}";
    let waits = async |door: &Rc<Door>, call: &Call| {
        finished(major(call, tables(door, call)?)?).await?;
        Ok(Answer::done())
    };
    major_parameters(api.post(path, summary, waits)).takes("cf", Kind::Text, CF);
    let path = "/tasks/compaction/keyspace_compaction/{keyspace}";
    let starts = async |door: &Rc<Door>, call: &Call| told(major(call, tables(door, call)?)?);
    major_parameters(api.post(path, summary, starts)).takes("cf", Kind::Text, CF);
    let path = "/column_family/major_compaction/{name}";
    let of_one = async |door: &Rc<Door>, call: &Call| {
        finished(major(call, Tables::one(&*one(door, call)?))?).await?;
        Ok(Answer::done())
    };
    major_parameters(api.post(path, summary, of_one)).takes(
        "split_output",
        Kind::Flag,
        "Outputs are as large as the strategy says: no difference",
    );
    cleanup_operations(api);
    upgrade_operations(api);
    scrub_operations(api);
}

fn major_parameters(operation: &mut Operation) -> &mut Operation {
    operation
        .takes("flush_memtables", Kind::Flag, "Whether memtables are flushed before; true")
        .takes(
            "consider_only_existing_data",
            Kind::Flag,
            "Whether tombstones are purged without regard to memtables and the commitlog",
        )
}

fn cleanup_operations(api: &mut Api) {
    let summary = "Removes partitions that the node does not own";
    let path = "/storage_service/keyspace_cleanup/{keyspace}";
    api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
        finished(cleanup(door, tables(door, call)?)?).await?;
        Ok(Answer::json(json!(0)))
    })
    .takes("cf", Kind::Text, CF);
    let path = "/tasks/compaction/keyspace_cleanup/{keyspace}";
    api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
        told(cleanup(door, tables(door, call)?)?)
    })
    .takes("cf", Kind::Text, CF);
    let path = "/storage_service/cleanup_all";
    let summary = "Removes partitions that the node does not own, of all tables";
    api.post(path, summary, async |door: &Rc<Door>, _: &Call| {
        finished(cleanup(door, Tables::all(all(&door.cluster.schema())))?).await?;
        Ok(Answer::json(json!(0)))
    })
    .takes("global", Kind::Flag, "All nodes: there is one");
    let path = "/storage_service/mark_node_as_clean";
    api.post(path, "Marks the node as clean; it never needs cleanup", async |_, _| {
        Ok(Answer::done())
    });
    let summary = "Compacts streamed SSTables; one node has none";
    let path = "/storage_service/keyspace_offstrategy_compaction/{keyspace}";
    api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
        finished(off_strategy(tables(door, call)?)?).await?;
        Ok(Answer::json(json!(false)))
    })
    .takes("cf", Kind::Text, CF);
    let path = "/tasks/compaction/keyspace_offstrategy_compaction/{keyspace}";
    api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
        told(off_strategy(tables(door, call)?)?)
    })
    .takes("cf", Kind::Text, CF);
}

fn upgrade_operations(api: &mut Api) {
    let summary = "Rewrites SSTables in the current format of their table";
    let kept = "Whether SSTables of that format are skipped";
    let path = "/storage_service/keyspace_upgrade_sstables/{keyspace}";
    api.get(path, summary, async |door: &Rc<Door>, call: &Call| {
        finished(upgrade(call, tables(door, call)?)?).await?;
        Ok(Answer::json(json!(0)))
    })
    .takes("cf", Kind::Text, CF)
    .takes("exclude_current_version", Kind::Flag, kept);
    let path = "/tasks/compaction/keyspace_upgrade_sstables/{keyspace}";
    api.get(path, summary, async |door: &Rc<Door>, call: &Call| {
        told(upgrade(call, tables(door, call)?)?)
    })
    .takes("cf", Kind::Text, CF)
    .takes("exclude_current_version", Kind::Flag, kept);
}

fn scrub_operations(api: &mut Api) {
    let summary = "Validates or scrubs SSTables one by one";
    let path = "/storage_service/keyspace_scrub/{keyspace}";
    let waits = async |door: &Rc<Door>, call: &Call| {
        let (id, ended) = scrub(call, tables(door, call)?)?;
        finished(id).await?;
        Ok(Answer::json(json!(*ended.borrow())))
    };
    upkeep::scrub_parameters(api.add(Method::GET, path, summary, waits));
    let path = "/tasks/compaction/keyspace_scrub/{keyspace}";
    let starts = async |door: &Rc<Door>, call: &Call| told(scrub(call, tables(door, call)?)?.0);
    upkeep::scrub_parameters(api.add(Method::GET, path, summary, starts));
}

/// Those that a request names.
fn tables(door: &Door, call: &Call) -> Result<Tables, Answer> {
    Ok(Tables::of(call.segment("keyspace"), named(door, call)?))
}

async fn major_all(door: &Rc<Door>, call: &Call) -> Answered {
    finished(major(call, Tables::all(all(&door.cluster.schema())))?).await?;
    Ok(Answer::done())
}

/// Why an answer refuses.
fn why(answer: Answer) -> String {
    let text = serde_json::from_slice::<serde_json::Value>(&answer.body).ok();
    let message = text.as_ref().and_then(|value| value["message"].as_str());
    message.unwrap_or("it failed").to_owned()
}

/// Merges all SSTables of each table, after a flush if nothing else is said.
fn major(call: &Call, tables: Tables) -> Result<Uuid, Answer> {
    let flushes = call.flag("flush_memtables", true)?;
    let of_task = tables.clone();
    start(MAJOR, &tables, async move |task: Rc<Running>| {
        let tables = of_task;
        runtime::injection::pause("compaction_major_keyspace_compaction_task_impl_run").await;
        task.check()?;
        injected("major_keyspace_compaction_task_impl_run_fail")?;
        if flushes {
            flush(tables.ids.clone()).await.map_err(why)?;
        }
        let compact = |storage: Rc<Storage>, table| async move {
            let merged = storage.compact_all(table, Rewrite::default()).await;
            merged.map(|_| ()).map_err(|error| error.to_string())
        };
        on_shards(&task, MAJOR, &tables, compact).await.map(|_| ())
    })
}

/// What this node has no part of goes; all does where its data center is to have no copy.
fn cleanup(door: &Rc<Door>, tables: Tables) -> Result<Uuid, Answer> {
    let (of_task, door) = (tables.clone(), door.clone());
    start(CLEANUP, &tables, async move |task: Rc<Running>| {
        let flushed = |storage: Rc<Storage>, table| async move {
            storage.flush(table).await.map_err(|error| error.to_string())
        };
        on_shards(&task, CLEANUP, &of_task, flushed).await?;
        let cluster = runtime::local::get::<Cluster>();
        for id in of_task.ids.iter().copied() {
            task.check()?;
            let schema = cluster.schema();
            let Some(entry) = schema.table_by_id(id) else { continue };
            if entry.replication.in_data_center(&cluster.node().data_center) == 0 {
                empty(&cluster, id).await?;
            }
        }
        door.moves.cleanup(of_task.ids).await
    })
}

/// Removes all that the node has of a table.
async fn empty(cluster: &Cluster, id: TableId) -> Result<(), String> {
    let at = runtime::time::wall_micros();
    let removed = runtime::on_all_shards(move || async move {
        let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
        let sstables = storage.table_stats(id).map_or(0, |stats| stats.sstables);
        let place = storage.truncate(id, at).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((sstables, place))
    })
    .await;
    let (mut places, mut sstables) = (Vec::new(), 0);
    for (shard, removed) in removed.into_iter().enumerate() {
        let (count, place) = removed.map_err(|text| format!("shard {shard}: {text}"))?;
        sstables += count;
        places.extend(place.map(|place| (shard as u16, place)));
    }
    cluster.note_truncation(id, at, &places).await?;
    tracing::info!(
        target: "compaction",
        "Cleaned {sstables} sstables to nothing: the data center has no copy of {id}"
    );
    Ok(())
}

/// What is streamed lies with the rest: there is nothing to be done.
fn off_strategy(tables: Tables) -> Result<Uuid, Answer> {
    start(OFF_STRATEGY, &tables, async move |task: Rc<Running>| task.check())
}

/// SSTables that lie in several tablets are divided between them: shards would do so by themselves
/// as well.
pub(super) fn reshard(tables: &Tables) -> Result<Uuid, Answer> {
    let of_task = tables.clone();
    start(RESHARD, tables, async move |task: Rc<Running>| {
        let divided = |storage: Rc<Storage>, table| async move {
            storage.reshard(table).await.map_err(|error| error.to_string())
        };
        on_shards(&task, RESHARD, &of_task, divided).await.map(|_| ())
    })
}

/// `exclude_current_version`: those that have the format already stay.
fn upgrade(call: &Call, tables: Tables) -> Result<Uuid, Answer> {
    let which = match call.flag("exclude_current_version", false)? {
        true => Outdated::Older,
        false => Outdated::All,
    };
    let of_task = tables.clone();
    start(UPGRADE, &tables, async move |task: Rc<Running>| {
        let upgraded = move |storage: Rc<Storage>, table| async move {
            let done = storage.keep_up(table, Upkeep::Upgrade(which)).await;
            done.map(|_| ()).map_err(|error| error.to_string())
        };
        on_shards(&task, UPGRADE, &of_task, upgraded).await.map(|_| ())
    })
}

/// A scrub: its task, and where the number will stand that says how it ended.
fn scrub(call: &Call, tables: Tables) -> Result<(Uuid, Rc<RefCell<u8>>), Answer> {
    let order = Order::of(call)?;
    let ended = Rc::new(RefCell::new(upkeep::SCRUBBED));
    let (of_task, told) = (tables.clone(), ended.clone());
    let id = start(SCRUB, &tables, async move |task: Rc<Running>| {
        let number = upkeep::scrub(&task, order, of_task).await?;
        *told.borrow_mut() = number;
        Ok(())
    })?;
    Ok((id, ended))
}
