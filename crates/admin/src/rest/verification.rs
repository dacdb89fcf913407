//! `/storage_service/view_verification`: views and indexes are compared with their tables, and what
//! differs is mended if that is wanted. Each node does its part, as a task.

use super::api::{Answered, Api, Kind};
use super::repair::look_on;
use super::tables::keyspace;
use super::task_manager::refused;
use super::work::{Tables, Work, finished};
use super::{Door, RepairJob, Verified, ViewJob};
use crate::call::{Answer, Call};
use crate::tasks::{About, REPAIR, Running, Tasks};
use cluster::TableEntry;
use model::TableId;
use serde_json::json;
use std::rc::Rc;

const WORK: Work = Work { module: REPAIR, name: "view verification", stops: &[], jobs: &[] };

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/view_verification/{keyspace}";
    api.post(path, "Compares views and indexes with their tables; answers when it has", verify)
        .takes("views", Kind::Text, "Views, indexes or their tables, with commas between; all")
        .takes(
            "mend",
            Kind::Flag,
            "Writes rows that are missing, and deletes those without a base row",
        );
}

/// A view, and what people call it.
struct Named {
    id: TableId,
    name: String,
}

async fn verify(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace");
    let views = wanted(door, name, call.given("views").unwrap_or_default())?;
    let mends = call.flag("mend", false)?;
    let jobs: Vec<(String, Rc<dyn ViewJob>)> = views
        .iter()
        .map(|view| (view.name.clone(), door.repairs.verification(view.id, mends)))
        .collect();
    let ids = views.iter().map(|view| view.id).collect();
    let about = About { units: "views", ..Tables::of(name, ids).about(WORK) };
    let (stopped, all) = (jobs.clone(), jobs.clone());
    let stop = Box::new(move || stopped.iter().for_each(|(_, job)| job.end()));
    let keyspace = name.to_owned();
    let run = async move |task: Rc<Running>| {
        let (count, mut done) = (all.len() as f64, 0.0);
        for (view, job) in all {
            task.check()?;
            let job: Rc<dyn RepairJob> = job;
            let note = |part: u64, all: u64| {
                task.note_progress(done + part as f64 / all.max(1) as f64, count);
            };
            let ended = look_on(&job, note).await;
            let summary = job.summary();
            tracing::info!(target: "views", "{keyspace}.{view} was verified: {summary}");
            task.check()?;
            ended.map_err(|why| format!("{keyspace}.{view}: {why}"))?;
            done += 1.0;
        }
        Ok(())
    };
    let id = Tasks::of_shard().spawn(REPAIR, about, Some(stop), run).map_err(refused)?;
    finished(id).await?;
    let told = jobs.iter().map(|(view, job)| {
        let Verified { derived, missing, seen, ghosts, mended, unknown } = job.told();
        json!({
            "view": view,
            "rows_derived": derived,
            "rows_missing": missing,
            "rows_seen": seen,
            "ghosts": ghosts,
            "mended": mended,
            "unknown": unknown,
        })
    });
    Ok(Answer::json(told.collect::<Vec<_>>().into()))
}

/// The views that are named: by their own names, those of indexes, or those of tables that have
/// them.
fn wanted(door: &Door, name: &str, names: &str) -> Result<Vec<Named>, Answer> {
    let entry = keyspace(door, name)?;
    let all = || entry.tables.values().filter(|table| table.schema.view.is_some());
    let is_of = |view: &TableEntry, name: &str| {
        let base = view.schema.view.as_ref().map(|it| &it.base_name);
        let index = view.schema.name.strip_suffix("_index");
        view.schema.name == name || index == Some(name) || base.is_some_and(|base| base == name)
    };
    let mut views: Vec<Named> = Vec::new();
    let mut add = |view: &TableEntry| {
        if views.iter().all(|it| it.id != view.schema.id) {
            views.push(Named { id: view.schema.id, name: view.schema.name.clone() });
        }
    };
    if names.is_empty() {
        all().for_each(|view| add(view));
    }
    for wanted in names.split(',').filter(|it| !it.is_empty()) {
        let mut of_name = all().filter(|view| is_of(view, wanted)).peekable();
        if of_name.peek().is_none() {
            let text = format!("{name} has no view, no index and no table with any named {wanted}");
            return Err(Answer::refused(400, text));
        }
        of_name.for_each(|view| add(view));
    }
    Ok(views)
}
