//! `/task_manager`: the tasks of the node; `/task_manager_test`: tasks of development builds that
//! do nothing.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::conversion_tasks::{self, ConversionTask};
use super::dates::time;
use super::merge_tasks::{self, MergeTask, Seen};
use crate::call::{Answer, Call};
use crate::tasks::{About, COMPACTION, CONVERSIONS, Refusal, Registry, State, Task, Tasks};
use model::Uuid;
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

/// The module of tasks that do nothing.
const TEST: &str = "test";

pub(super) fn operations(api: &mut Api) {
    api.tells("/task_manager/list_modules", "The modules that tasks belong to", |_| {
        Tasks::of_shard().registry().modules().collect()
    });
    api.get("/task_manager/list_module_tasks/{module}", "The tasks of a module", list)
        .takes("internal", Kind::Flag, "Whether child tasks are listed too")
        .takes("keyspace", Kind::Text, "Those of a keyspace")
        .takes("table", Kind::Text, "Those of a table");
    api.get("/task_manager/task_status/{task_id}", "Status of a task", status);
    let path = "/task_manager/task_status_recursive/{task_id}";
    api.get(path, "Status of a task and of its children, parents first", recursive);
    api.get("/task_manager/wait_task/{task_id}", "Waits for the end of a task", wait).takes(
        "timeout",
        Kind::Integer,
        "Seconds; the answer is 408 after them",
    );
    api.post("/task_manager/abort_task/{task_id}", "Aborts a task and all below it", abort);
    api.post("/task_manager/drain/{module}", "Forgets tasks that have ended", drain);
    api.tells("/task_manager/ttl", "Seconds for which ended tasks are kept", |_| {
        json!(Tasks::of_shard().registry().ttl / 1000)
    });
    api.post("/task_manager/ttl", "Sets it; the answer is what it was", set_ttl).needs(
        "ttl",
        Kind::Integer,
        "Seconds",
    );
    api.tells("/task_manager/user_ttl", "The same of tasks that somebody asked for", |_| {
        json!(Tasks::of_shard().registry().user_ttl / 1000)
    });
    api.post("/task_manager/user_ttl", "Sets it; the answer is what it was", set_user_ttl).needs(
        "user_ttl",
        Kind::Integer,
        "Seconds",
    );
    if cfg!(debug_assertions) {
        test_operations(api);
    }
}

fn test_operations(api: &mut Api) {
    api.post("/task_manager_test/test_module", "Adds the module test", async |_, _| {
        Tasks::of_shard().change().add_module(TEST);
        Ok(Answer::done())
    });
    api.delete("/task_manager_test/test_module", "Removes the module test", async |_, _| {
        Tasks::of_shard().change().remove_module(TEST);
        Ok(Answer::done())
    });
    let path = "/task_manager_test/test_task";
    api.post(path, "A task that runs until it is told to end", begin_test)
        .takes("parent_id", Kind::Text, "The task above it")
        .takes("shard", Kind::Integer, "Its shard")
        .takes("keyspace", Kind::Text, "Its keyspace")
        .takes("table", Kind::Text, "Its table")
        .takes("entity", Kind::Text, "What it is about")
        .takes("user_task", Kind::Flag, "Whether somebody asked for it");
    api.delete(path, "Forgets a task", async |_: &Rc<Door>, call: &Call| {
        let id = parsed(call.parameter("task_id").unwrap_or_default())?;
        Tasks::of_shard().change().unlist(id).map_err(refused)?;
        Ok(Answer::done())
    })
    .needs("task_id", Kind::Text, "Its id");
    api.post("/task_manager_test/finish_test_task/{task_id}", "Ends a task", finish_test).takes(
        "error",
        Kind::Text,
        "Why it failed",
    );
}

/// How a refusal is answered.
pub(super) fn refused(refusal: Refusal) -> Answer {
    let status = match refusal {
        Refusal::Unknown(_) | Refusal::NoModule(_) => 400,
        Refusal::NotAbortable(_) => 403,
        Refusal::Full => 503,
    };
    Answer::refused(status, refusal.to_string())
}

fn parsed(text: &str) -> Result<Uuid, Answer> {
    Uuid::parse_str(text).map_err(|_| Answer::refused(400, format!("not the id of a task: {text}")))
}

fn id(call: &Call) -> Result<Uuid, Answer> {
    parsed(call.segment("task_id"))
}

async fn list(door: &Rc<Door>, call: &Call) -> Answered {
    let (module, internal) = (call.segment("module"), call.flag("internal", false)?);
    let merges = match internal && module == COMPACTION {
        true => merge_tasks::running().await,
        false => Vec::new(),
    };
    let wanted = |keyspace: &str, table: &str| {
        call.given("keyspace").is_none_or(|name| name == keyspace)
            && call.given("table").is_none_or(|name| name == table)
    };
    let conversions = match module == CONVERSIONS {
        true => conversion_tasks::all(door).await,
        false => Vec::new(),
    };
    let tasks = Tasks::of_shard();
    let registry = tasks.registry();
    let listed = registry.of_module(module, internal).map_err(refused)?.into_iter();
    let listed = listed.filter(|task| wanted(&task.about.keyspace, &task.about.table));
    let merges = merges.iter().filter(|task| wanted(task.keyspace(), task.table()));
    let conversions = conversions.iter().filter(|task| wanted(&task.keyspace, &task.table));
    let others = merges.map(MergeTask::stats).chain(conversions.map(ConversionTask::stats));
    Ok(Answer::json(listed.map(stats).chain(others).collect()))
}

/// What a list says of a task.
fn stats(task: &Task) -> Value {
    json!({
        "task_id": task.id.to_string(),
        "type": task.about.kind,
        "kind": "node",
        "scope": task.about.scope,
        "state": task.state.name(),
        "sequence_number": task.sequence,
        "keyspace": task.about.keyspace,
        "table": task.about.table,
        "entity": task.about.entity,
        "shard": task.about.shard,
        "creation_time": time(Some(task.created)),
        "start_time": time(task.started),
        "end_time": time(task.ended),
    })
}

/// All that is known of a task.
fn shown(registry: &Registry, task: &Task) -> Value {
    let progress = registry.progress(task.id);
    let error = match &task.state {
        State::Failed(why) => why.as_str(),
        _ => "",
    };
    let mut shown = json!({
        "id": task.id.to_string(),
        "type": task.about.kind,
        "kind": "node",
        "scope": task.about.scope,
        "state": task.state.name(),
        "is_abortable": task.about.abortable,
        "creation_time": time(Some(task.created)),
        "start_time": time(task.started),
        "end_time": time(task.ended),
        "error": error,
        "parent_id": task.parent.map_or_else(|| "none".to_owned(), |id| id.to_string()),
        "sequence_number": task.sequence,
        "shard": task.about.shard,
        "keyspace": task.about.keyspace,
        "table": task.about.table,
        "entity": task.about.entity,
        "progress_units": task.about.units,
        "progress_total": progress.total,
        "progress_completed": progress.completed,
    });
    if !task.children.is_empty() {
        let node = runtime::local::try_get::<cluster::Cluster>();
        let node = node.map(|cluster| cluster.node().broadcast_address.to_string());
        let children = task.children.iter();
        let child = |id: &Uuid| json!({ "task_id": id.to_string(), "node": node });
        shown["children_ids"] = children.map(child).collect();
    }
    shown
}

async fn status(door: &Rc<Door>, call: &Call) -> Answered {
    let id = id(call)?;
    if let Some(task) = conversion(door, id).await {
        return Ok(Answer::json(task.shown(door)));
    }
    if let Some(task) = unknown_merge(id).await {
        return Ok(Answer::json(task.shown(Seen::Running)));
    }
    let tasks = Tasks::of_shard();
    tasks.look_at_jobs().await;
    let registry = tasks.registry();
    let task = registry.asked(id).map_err(refused)?;
    Ok(Answer::json(shown(&registry, task)))
}

/// The task of a keyspace that is given tablets: no task of the registry.
async fn conversion(door: &Rc<Door>, id: Uuid) -> Option<ConversionTask> {
    let is_known = Tasks::of_shard().registry().get(id).is_some();
    if is_known { None } else { conversion_tasks::find(door, id).await }
}

/// The merge with this id that a shard does by itself: no task of the registry.
async fn unknown_merge(id: Uuid) -> Option<MergeTask> {
    let is_known = Tasks::of_shard().registry().get(id).is_some();
    if is_known { None } else { merge_tasks::find(id).await }
}

async fn recursive(door: &Rc<Door>, call: &Call) -> Answered {
    let id = id(call)?;
    if let Some(task) = conversion(door, id).await {
        let below = conversion_tasks::all(door).await.into_iter().filter(|it| it.is_below(&task));
        let shown = [task.shown(door)].into_iter().chain(below.map(|it| it.shown(door)));
        return Ok(Answer::json(shown.collect()));
    }
    if let Some(task) = unknown_merge(id).await {
        return Ok(Answer::json(json!([task.shown(Seen::Running)])));
    }
    let tasks = Tasks::of_shard();
    tasks.look_at_jobs().await;
    let registry = tasks.registry();
    registry.asked(id).map_err(refused)?;
    let below = registry.below(id);
    let found = below.iter().filter_map(|id| registry.get(*id));
    Ok(Answer::json(found.map(|task| shown(&registry, task)).collect()))
}

async fn wait(door: &Rc<Door>, call: &Call) -> Answered {
    let (tasks, id) = (Tasks::of_shard(), id(call)?);
    let span = match call.given("timeout") {
        Some(_) => Some(Duration::from_secs(call.number("timeout", None)?)),
        None => None,
    };
    let not_yet = || Answer::refused(408, "the task has not ended yet");
    if let Some(task) = conversion(door, id).await {
        let ended = task.wait(door, span).await.ok_or_else(not_yet)?;
        return Ok(Answer::json(ended.shown(door)));
    }
    if let Some(task) = unknown_merge(id).await {
        return match task.wait(span).await {
            Seen::Running => Err(not_yet()),
            seen => Ok(Answer::json(task.shown(seen))),
        };
    }
    let task = tasks.wait(id, span).await.map_err(refused)?.ok_or_else(not_yet)?;
    Ok(Answer::json(shown(&tasks.registry(), &task)))
}

async fn abort(door: &Rc<Door>, call: &Call) -> Answered {
    let id = id(call)?;
    if conversion(door, id).await.is_some() {
        let how = "it ends when it is finalized, or when its tablets have become fewer";
        return Err(Answer::refused(403, format!("task {id} cannot be aborted: {how}")));
    }
    match Tasks::of_shard().abort(id) {
        Err(Refusal::Unknown(_)) if merge_tasks::abort(id).await => {}
        other => other.map_err(refused)?,
    }
    Ok(Answer::done())
}

async fn drain(_: &Rc<Door>, call: &Call) -> Answered {
    Tasks::of_shard().change().drain(call.segment("module")).map_err(refused)?;
    Ok(Answer::done())
}

/// Seconds as milliseconds.
fn span(call: &Call, name: &str) -> Result<i64, Answer> {
    let secs: u32 = call.number(name, None)?;
    Ok(1000 * i64::from(secs))
}

async fn set_ttl(_: &Rc<Door>, call: &Call) -> Answered {
    let new = span(call, "ttl")?;
    let old = std::mem::replace(&mut Tasks::of_shard().change().ttl, new);
    Ok(Answer::json(json!(old / 1000)))
}

async fn set_user_ttl(_: &Rc<Door>, call: &Call) -> Answered {
    let new = span(call, "user_ttl")?;
    let old = std::mem::replace(&mut Tasks::of_shard().change().user_ttl, new);
    Ok(Answer::json(json!(old / 1000)))
}

async fn begin_test(_: &Rc<Door>, call: &Call) -> Answered {
    let parent = call.given("parent_id").map(parsed).transpose()?;
    let text = |name| call.parameter(name).unwrap_or_default().to_owned();
    let about = About {
        kind: "test".to_owned(),
        scope: "test",
        keyspace: text("keyspace"),
        table: text("table"),
        entity: text("entity"),
        shard: call.number("shard", Some(0))?,
        of_user: call.flag("user_task", false)?,
        ..About::default()
    };
    let task = Tasks::of_shard().begin(TEST, parent, about).map_err(refused)?;
    Ok(Answer::json(json!(task.leave().to_string())))
}

async fn finish_test(_: &Rc<Door>, call: &Call) -> Answered {
    let (tasks, id) = (Tasks::of_shard(), id(call)?);
    if tasks.registry().asked(id).map_err(refused)?.module != TEST {
        return Err(Answer::refused(400, format!("task with id {id} is no test")));
    }
    tasks.end(
        id,
        match call.given("error") {
            Some(why) => Err(why.to_owned()),
            None => Ok(()),
        },
    );
    Ok(Answer::done())
}
