//! Repair, `/storage_service/repair_async` and the like. A request is checked, and becomes a task
//! with a number, by which tools ask how it is. Where each range has one replica there is nothing
//! to compare: the log says so, and the repair has succeeded.
//!
//! In reading order: `wanted` (what a request asks for), this.

mod wanted;

use super::Door;
use super::api::{Answered, Api, Kind, Operation};
use super::tables::{keyspace, listed, table};
use super::task_manager::refused;
use super::work::{Tables, Work, start};
use crate::call::{Answer, Call};
use crate::tasks::{About, REPAIR, Running, State, Task, Tasks};
use cluster::{Nodes, Replication};
use runtime::on_shard;
use runtime::task::join_all;
use runtime::time::timeout;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
pub use wanted::Wanted;

const WORK: Work = Work { module: REPAIR, name: "repair", stops: &[], jobs: &[] };
/// From one look at how far a repair is to the next.
const LOOK: Duration = Duration::from_millis(200);
/// Numbers of failed repairs that are remembered when their tasks are gone.
const FAILED_MAX: usize = 1000;

/// The numbers of repairs that have failed. Stands in `runtime::local` of shard 0.
#[derive(Default)]
struct Failed(RefCell<BTreeSet<u64>>);

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/repair_async/{keyspace}";
    options(api.post(path, "Repairs a keyspace; the answer is the number of the repair", repair));
    api.get(path, "How a repair is", async |door: &Rc<Door>, call: &Call| {
        keyspace(door, call.segment("keyspace"))?;
        Ok(Answer::json(json!(status(call.number("id", None)?)?)))
    })
    .needs("id", Kind::Integer, "Its number");
    api.get("/storage_service/repair_status", "Waits for a repair; how it has ended", wait)
        .needs("id", Kind::Integer, "Its number")
        .takes("timeout", Kind::Integer, "Seconds; for ever without it");
    api.tells("/storage_service/active_repair", "The numbers of repairs that run", |_| {
        running().iter().map(|task| task.sequence).collect()
    });
    let path = "/storage_service/force_terminate_repair";
    api.post(path, "Ends all repairs", async |_, _| {
        for task in running() {
            Tasks::of_shard().abort(task.id).map_err(refused)?;
        }
        Ok(Answer::done())
    });
    api.post("/storage_service/tablets/repair", "Repairs the tablets of a table", tablets)
        .needs("ks", Kind::Text, "The keyspace")
        .needs("table", Kind::Text, "The table")
        .needs("tokens", Kind::Text, "Tokens of the tablets, with commas between, or all")
        .takes("hosts_filter", Kind::Text, "Copies on these nodes")
        .takes("dcs_filter", Kind::Text, "Copies in these data centers")
        .takes("await_completion", Kind::Flag, "Whether the answer waits; true if not said")
        .takes(
            "incremental_mode",
            Kind::OneOf(&["incremental", "full", "disabled"]),
            "full: also what is known to agree is read",
        );
}

fn options(operation: &mut Operation) {
    operation
        .takes("columnFamilies", Kind::Text, "Tables, with commas between; all without it")
        .takes("startToken", Kind::Integer, "Behind which token the range begins")
        .takes("endToken", Kind::Integer, "With which token it ends")
        .takes("ranges", Kind::Text, "Ranges of tokens, start:end, with commas between")
        .takes("primaryRange", Kind::Flag, "Only ranges whose first replica is this node")
        .takes("parallelism", Kind::Text, "parallel or sequential, which are the same; or 1 or 0")
        .takes("dataCenters", Kind::Text, "Only replicas in these data centers, and its own")
        .takes("hosts", Kind::Text, "Only replicas on these nodes, this one among them")
        .takes("ignore_nodes", Kind::Text, "No replicas on these nodes")
        .takes("ranges_parallelism", Kind::Integer, "Ranges that a shard repairs at once, at most")
        .takes("full", Kind::Flag, "Also what is known to agree is read")
        .takes("incremental", Kind::Flag, "Not possible")
        .takes("trace", Kind::Flag, "Not possible");
    const NOTHING: &str = "No difference";
    operation.takes("jobThreads", Kind::Integer, NOTHING);
    for name in ["pullRepair", "ignoreUnreplicatedKeyspaces"] {
        operation.takes(name, Kind::Flag, NOTHING);
    }
    const SMALL: &str = "Ranges as large as the same nodes have them, for tables of few rows";
    operation.takes("small_table_optimization", Kind::Flag, SMALL);
}

/// The repairs that run.
fn running() -> Vec<Task> {
    let tasks = Tasks::of_shard();
    let registry = tasks.registry();
    let all = registry.of_module(REPAIR, false).unwrap_or_default();
    all.into_iter().filter(|task| !task.state.is_final()).cloned().collect()
}

fn of_number(number: u64) -> Option<Task> {
    let tasks = Tasks::of_shard();
    let registry = tasks.registry();
    let all = registry.of_module(REPAIR, false).unwrap_or_default();
    all.into_iter().find(|task| task.sequence == number).cloned()
}

/// How a repair is, in the words of tools.
fn status(number: u64) -> Result<&'static str, Answer> {
    let failed = runtime::local::get_or_default::<Failed>();
    if let Some(task) = of_number(number) {
        return Ok(match task.state {
            State::Created | State::Running => "RUNNING",
            State::Done => "SUCCESSFUL",
            State::Failed(_) => "FAILED",
        });
    }
    match number {
        0 => Err(Answer::refused(400, "unknown repair id 0")),
        _ if failed.0.borrow().contains(&number) => Ok("FAILED"),
        _ if number <= Tasks::of_shard().registry().last_number(REPAIR, 0) => Ok("SUCCESSFUL"),
        _ => Err(Answer::refused(400, format!("unknown repair id {number}"))),
    }
}

async fn wait(_: &Rc<Door>, call: &Call) -> Answered {
    let number = call.number("id", None)?;
    let span = match call.given("timeout") {
        Some(_) => {
            let secs: i64 = call.number("timeout", None)?;
            u64::try_from(secs).ok().map(Duration::from_secs)
        }
        None => None,
    };
    if let Some(task) = of_number(number) {
        Tasks::of_shard().wait(task.id, span).await.map_err(refused)?;
    }
    Ok(Answer::json(json!(status(number)?)))
}

async fn repair(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace");
    let entry = keyspace(door, name)?;
    if entry.keyspace.initial_tablets.is_some() {
        let text = format!(
            "the keyspace {name} uses tablets: they are repaired by /storage_service/tablets/repair"
        );
        return Err(Answer::refused(400, text));
    }
    let tables = Tables::of(name, listed(door, call, name, "columnFamilies")?);
    let wanted = Wanted::of_ring(door, call, tables.ids.clone())?;
    if *entry.replication == Replication::Local {
        // Nobody else could have it, so nothing is begun.
        note_alone(name);
        let number = Tasks::of_shard().change().next_number(REPAIR, 0).map_err(refused)?;
        return Ok(Answer::json(json!(number)));
    }
    let id = begin(door, tables, wanted, &entry.replication)?;
    let task = Tasks::of_shard().registry().asked(id).map(|task| task.sequence);
    Ok(Answer::json(json!(task.map_err(refused)?)))
}

/// Whether each range has one replica.
fn is_alone(door: &Door, replication: &Replication) -> bool {
    let is_alone = Nodes::seen(&door.cluster).others().next().is_none();
    let copies = match replication {
        Replication::Everywhere => 2,
        _ => replication.total(),
    };
    is_alone || copies <= 1
}

fn note_alone(keyspace: &str) {
    tracing::info!(
        target: "repair",
        "repair of {keyspace}: each range has one replica, there is nothing to compare"
    );
}

fn begin(
    door: &Rc<Door>,
    tables: Tables,
    wanted: Wanted,
    replication: &Replication,
) -> Result<model::Uuid, Answer> {
    if is_alone(door, replication) {
        note_alone(&tables.keyspace);
        let of_task = tables.clone();
        return start(WORK, &tables, async move |task: Rc<Running>| {
            let ranges = of_task.ids.len().max(1) as f64;
            note_failed(&task, on_shards(&task, &of_task, ranges).await)
        });
    }
    let job = door.repairs.job(wanted);
    let (stopped, keyspace) = (job.clone(), tables.keyspace.clone());
    let about = About { units: "ranges", ..tables.about(WORK) };
    let stop = Box::new(move || stopped.end());
    let run = async move |task: Rc<Running>| {
        tracing::info!(target: "repair", "repair of {keyspace} begins");
        let ended = watch(&task, &job).await;
        let done = job.summary();
        match &ended {
            Ok(()) => tracing::info!(target: "repair", "repair of {keyspace} ended: {done}"),
            Err(why) => {
                tracing::warn!(target: "repair", "repair of {keyspace} failed: {why}; {done}")
            }
        }
        note_failed(&task, ended)
    };
    Tasks::of_shard().spawn(REPAIR, about, Some(stop), run).map_err(refused)
}

/// Does a repair, and notes how far it is.
pub(super) async fn watch(task: &Running, job: &Rc<dyn super::RepairJob>) -> Result<(), String> {
    let note = |done: u64, all: u64| task.note_progress(done as f64, all as f64);
    // What it had not begun when it was aborted is why it failed.
    let ended = look_on(job, note).await;
    task.check().and(ended)
}

/// Does a job, and tells now and then how much of how much is done.
pub(super) async fn look_on(
    job: &Rc<dyn super::RepairJob>,
    note: impl Fn(u64, u64),
) -> Result<(), String> {
    let mut run = job.run();
    loop {
        let ended = timeout(LOOK, run.as_mut()).await;
        let (done, all) = job.progress();
        note(done, all);
        if let Ok(ended) = ended {
            return ended;
        }
    }
}

/// Numbers of those that failed are remembered for longer than their tasks.
fn note_failed(task: &Running, ended: Result<(), String>) -> Result<(), String> {
    if ended.is_err() {
        let failed = runtime::local::get_or_default::<Failed>();
        let mut failed = failed.0.borrow_mut();
        failed.extend(Tasks::of_shard().registry().get(task.id).map(|task| task.sequence));
        if FAILED_MAX < failed.len() {
            failed.pop_first();
        }
    }
    ended
}

/// Looks at each shard's ranges. Each has one copy.
async fn on_shards(task: &Running, tables: &Tables, ranges: f64) -> Result<(), String> {
    let mut begun = Vec::new();
    for shard in 0..runtime::shard_count() {
        let about = About {
            kind: WORK.name.to_owned(),
            scope: "shard",
            keyspace: tables.keyspace.clone(),
            shard,
            abortable: true,
            units: "ranges",
            ..About::default()
        };
        let child = task.child(about)?;
        child.note_progress(0.0, ranges);
        begun.push(child);
    }
    let looked = begun.into_iter().enumerate().map(|(shard, child)| {
        child.through(async move |child: &Running| {
            on_shard(shard as u16, || async {
                runtime::injection::pause("repair_shard_repair_task_impl_do_repair_ranges").await;
            })
            .await;
            child.check()
        })
    });
    join_all(looked).await.into_iter().collect()
}

async fn tablets(door: &Rc<Door>, call: &Call) -> Answered {
    let name = |name| call.parameter(name).unwrap_or_default();
    let entry = table(door, name("ks"), name("table"))?;
    let of_keyspace = keyspace(door, name("ks"))?;
    if of_keyspace.keyspace.initial_tablets.is_none() {
        let text = format!(
            "the keyspace {} uses no tablets: it is repaired by /storage_service/repair_async",
            name("ks")
        );
        return Err(Answer::refused(400, text));
    }
    let wanted = Wanted::of_tablets(door, call, entry.schema.id)?;
    let id = begin(door, Tables::one(&entry), wanted, &of_keyspace.replication)?;
    // In the words that launchers wait for.
    tracing::info!(
        target: "repair",
        "Issued tablet repair by API request table_id={} table={}.{} tokens={} tablet_task_id={id}",
        entry.schema.id, name("ks"), name("table"), name("tokens")
    );
    if call.flag("await_completion", true)? {
        super::work::finished(id).await?;
    }
    Ok(Answer::json(json!({ "tablet_task_id": id.to_string() })))
}
