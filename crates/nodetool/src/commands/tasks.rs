//! Long work of nodes: what runs, how far it is, waiting for it.

use crate::answer::{list, plain, texts};
use crate::arguments::{Opt, one};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::print::left;
use crate::session::Session;
use http::Method;
use runtime::time::sleep;
use serde_json::Value;
use std::time::Duration;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "tasks abort",
        about: "Abort a task",
        options: &[],
        places: &[ID],
        run: |session| Box::pin(abort(session)),
    },
    Entry {
        name: "tasks drain",
        about: "Remove finished tasks from the list",
        options: &[Opt::text("module", &[], "Of this module; of all, where none is given")],
        places: &[],
        run: |session| Box::pin(drain(session)),
    },
    Entry {
        name: "tasks list",
        about: "The tasks of a module",
        options: &[
            Opt::flag("internal", &[], "Those that other tasks started too"),
            Opt::text("keyspace", &["-ks"], "Only of this keyspace"),
            Opt::text("table", &["-t"], "Only of this table"),
            Opt::number("interval", &[], "Seconds from one list to the next [default: 10]"),
            Opt::number("iterations", &["-i"], "How often the list is repeated [default: 0]"),
        ],
        places: &[one("module", "The module")],
        run: |session| Box::pin(list_tasks(session)),
    },
    Entry {
        name: "tasks modules",
        about: "The modules that have tasks",
        options: &[],
        places: &[],
        run: |session| Box::pin(modules(session)),
    },
    Entry {
        name: "tasks status",
        about: "Status of a task",
        options: &[],
        places: &[ID],
        run: |session| Box::pin(status(session)),
    },
    Entry {
        name: "tasks tree",
        about: "Status of a task and its children",
        options: &[],
        places: &[one("id", "The task; all, where none is given")],
        run: |session| Box::pin(tree(session)),
    },
    Entry {
        name: "tasks ttl",
        about: "How long finished tasks are kept, in seconds",
        options: &[SET],
        places: &[],
        run: |session| Box::pin(ttl(session, "/task_manager/ttl", "ttl")),
    },
    Entry {
        name: "tasks user-ttl",
        about: "How long finished tasks of users are kept, in seconds",
        options: &[SET],
        places: &[],
        run: |session| Box::pin(ttl(session, "/task_manager/user_ttl", "user_ttl")),
    },
    Entry {
        name: "tasks wait",
        about: "Wait for the end of a task",
        options: &[
            Opt::flag("quiet", &["-q"], "Print nothing; the exit code tells how it ended"),
            Opt::number("timeout", &[], "Seconds to wait at most"),
        ],
        places: &[ID],
        run: |session| Box::pin(wait(session)),
    },
];

const ID: crate::arguments::Place = one("id", "The task");
const SET: Opt = Opt::number("set", &[], "The new value");

/// Exit codes of a quiet wait.
const FAILED: u8 = 123;
const TIMED_OUT: u8 = 124;
const NOT_KNOWN: u8 = 125;

/// Waits for the end of a task, whose status is told.
pub(super) async fn wait_for(session: &mut Session, task: &str) -> Result<Value, Failure> {
    session.get_part("/task_manager/wait_task", task).await
}

fn needed(session: &Session, name: &str) -> Result<String, Failure> {
    match session.given.text(name) {
        Some(text) => Ok(text.to_string()),
        None => wrong(format!("required parameter is missing: {name}")),
    }
}

async fn abort(session: &mut Session) -> Done {
    let id = needed(session, "id")?;
    let path = "/task_manager/abort_task";
    match session.ask(Method::Post, path, &[&id], Vec::new(), None).await {
        Err(failure) if failure.status() == Some(403) => {
            session.say(&format!("Task with id {id} is not abortable\n"))
        }
        ended => ended.map(drop),
    }
}

async fn module_names(session: &mut Session) -> Result<Vec<String>, Failure> {
    Ok(texts(&session.get("/task_manager/list_modules").await?))
}

async fn drain(session: &mut Session) -> Done {
    let modules = match session.given.text("module").map(str::to_string) {
        Some(module) => vec![module],
        None => module_names(session).await?,
    };
    for module in modules {
        session.ask(Method::Post, "/task_manager/drain", &[&module], Vec::new(), None).await?;
    }
    Ok(())
}

async fn modules(session: &mut Session) -> Done {
    let names = module_names(session).await?;
    session.say(&names.iter().map(|name| format!("{name}\n")).collect::<String>())
}

async fn list_tasks(session: &mut Session) -> Done {
    let module = needed(session, "module")?;
    let given = &session.given;
    let mut parameters = Vec::new();
    if given.flag("internal") {
        parameters.push(("internal", "true".to_string()));
    }
    for name in ["keyspace", "table"] {
        parameters.extend(given.text(name).map(|text| (name, text.to_string())));
    }
    let seconds = given.number("interval").unwrap_or(10).max(0) as u64;
    let times = given.number("iterations").unwrap_or(0);
    let path = "/task_manager/list_module_tasks";
    for turn in 0..=times.max(0) {
        if turn != 0 {
            sleep(Duration::from_secs(seconds)).await;
            session.say("\n")?;
        }
        let tasks = session.get_with(path, &[&module], parameters.clone()).await?;
        let mut rows = vec![LISTED.map(str::to_string).to_vec()];
        rows.extend(list(&tasks).map(|task| LISTED.map(|name| cell(task, name)).to_vec()));
        session.say(&left(&rows))?;
    }
    Ok(())
}

const LISTED: [&str; 12] = [
    "task_id",
    "type",
    "kind",
    "scope",
    "state",
    "sequence_number",
    "keyspace",
    "table",
    "entity",
    "shard",
    "start_time",
    "end_time",
];

const SHOWN: [&str; 18] = [
    "id",
    "type",
    "kind",
    "scope",
    "state",
    "is_abortable",
    "start_time",
    "end_time",
    "error",
    "parent_id",
    "sequence_number",
    "shard",
    "keyspace",
    "table",
    "entity",
    "progress_units",
    "progress_total",
    "progress_completed",
];

/// The beginning of 1970: it did not happen yet.
const NEVER: &str = "1970-01-01T00:00:00Z";

fn cell(task: &Value, name: &str) -> String {
    match (name, plain(&task[name])) {
        ("parent_id", text) if text.is_empty() => "none".to_string(),
        ("start_time" | "end_time", text) if text == NEVER => String::new(),
        (_, text) => text,
    }
}

fn children(task: &Value) -> String {
    let children = list(&task["children_ids"]).map(|child| {
        format!("{{task_id: {}, node: {} }}", plain(&child["task_id"]), plain(&child["node"]))
    });
    format!("[{}]", children.collect::<Vec<_>>().join(", "))
}

fn status_text(task: &Value) -> String {
    let lines = SHOWN.iter().map(|name| format!("{name}: {}", cell(task, name)));
    let lines = lines.map(|line| line.trim_end().to_string() + "\n").collect::<String>();
    format!("{lines}children_ids: {}\n", children(task))
}

async fn status(session: &mut Session) -> Done {
    let id = needed(session, "id")?;
    let task = session.get_part("/task_manager/task_status", &id).await?;
    session.say(&status_text(&task))
}

async fn tree(session: &mut Session) -> Done {
    let mut tasks = Vec::new();
    match session.given.text("id").map(str::to_string) {
        Some(id) => tasks.push(id),
        None => {
            for module in module_names(session).await? {
                let told = session.get_part("/task_manager/list_module_tasks", &module).await?;
                tasks.extend(list(&told).map(|task| plain(&task["task_id"])));
            }
        }
    }
    let mut head = SHOWN.map(str::to_string).to_vec();
    head.push("children_ids".to_string());
    let mut rows = vec![head];
    for id in tasks {
        let told = session.get_part("/task_manager/task_status_recursive", &id).await?;
        rows.extend(list(&told).map(|task| {
            let mut row = SHOWN.map(|name| cell(task, name)).to_vec();
            row.push(children(task));
            row
        }));
    }
    session.say(&left(&rows))
}

async fn ttl(session: &mut Session, path: &str, name: &str) -> Done {
    if let Some(value) = session.given.number("set") {
        return session.post(path, vec![(name, value.to_string())]).await.map(drop);
    }
    let value = session.get(path).await?;
    session.say(&format!("{}\n", plain(&value)))
}

async fn wait(session: &mut Session) -> Done {
    let id = needed(session, "id")?;
    let timeout = session.given.number("timeout").map(|seconds| ("timeout", seconds.to_string()));
    let is_quiet = session.given.flag("quiet");
    let parameters = timeout.into_iter().collect();
    let told = session.get_with("/task_manager/wait_task", &[&id], parameters).await;
    match told {
        Ok(task) if is_quiet => match plain(&task["state"]).as_str() {
            "done" => Ok(()),
            _ => Err(Failure::Code(FAILED)),
        },
        Ok(task) => session.say(&status_text(&task)),
        Err(failure) if failure.status() == Some(408) => {
            if !is_quiet {
                session.say("Operation timed out\n")?;
            }
            Err(Failure::Code(TIMED_OUT))
        }
        Err(_) if is_quiet => Err(Failure::Code(NOT_KNOWN)),
        Err(failure) => Err(failure),
    }
}
