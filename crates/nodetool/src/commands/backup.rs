//! SSTables that go to an object store, come from one, or come from a folder.

use super::tasks::wait_for;
use crate::answer::plain;
use crate::arguments::{Opt, any, one};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::print::size_short;
use crate::session::{Parameters, Session};
use http::Method;
use serde_json::{Value, json};

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "backup",
        about: "Copy a snapshot of a table to an object store",
        options: &[
            ENDPOINT,
            BUCKET,
            PREFIX,
            Opt::text("keyspace", &[], "The keyspace"),
            Opt::text("table", &[], "The table"),
            Opt::text("snapshot", &[], "The snapshot's name"),
            MOVE,
            NOWAIT,
        ],
        places: &[],
        run: |session| Box::pin(backup(session)),
    },
    Entry {
        name: "cluster backup",
        about: "Copy a snapshot of a table of all nodes to object stores",
        options: &[
            Opt::text("keyspace", &[], "The keyspace"),
            Opt::text("table", &[], "The table"),
            Opt::text("snapshot", &[], "The snapshot's name"),
            Opt::texts("location", &[], "data center,endpoint,bucket,prefix; for each data center"),
            MOVE,
            NOWAIT,
        ],
        places: &[],
        run: |session| Box::pin(cluster_backup(session)),
    },
    Entry {
        name: "restore",
        about: "Load SSTables from an object store",
        options: &[
            ENDPOINT,
            BUCKET,
            PREFIX,
            Opt::text("keyspace", &[], "The keyspace"),
            Opt::text("table", &[], "The table"),
            SCOPE,
            PRIMARY,
            NOWAIT,
        ],
        places: &[any("sstable", "Their files that list the others")],
        run: |session| Box::pin(restore(session)),
    },
    Entry {
        name: "refresh",
        about: "Load the SSTables in the upload folder of a table",
        options: &[
            Opt::flag("load-and-stream", &["-las"], "Stream rows to the nodes that own them"),
            PRIMARY,
            SCOPE,
            Opt::flag("skip-cleanup", &[], "Do not look for rows that this node does not own"),
            Opt::flag("skip-reshape", &[], "Do not reshape them first"),
        ],
        places: &[one("keyspace", "The keyspace"), one("table", "The table")],
        run: |session| Box::pin(refresh(session)),
    },
    Entry {
        name: "import",
        about: "Load the SSTables in directories of the node's machine",
        options: &[
            Opt::flag("copy-data", &[], "Copy the files; without it they are moved"),
            Opt::flag("extended-verify", &["-e"], "Read each SSTable whole before it is loaded"),
            Opt::flag("quick", &["-q"], "No more checks than needed to open each, as by default"),
            Opt::flag("no-verify", &["-v"], "The same: what cannot be opened is never loaded"),
            Opt::flag("no-tokens", &["-t"], "Ignored: a node alone owns all tokens"),
            Opt::flag("keep-level", &["-l"], "Not supported"),
            Opt::flag("keep-repaired", &["-r"], "Not supported"),
            Opt::flag("no-invalidate-caches", &["-c"], "Not supported"),
        ],
        places: &[
            one("keyspace", "The keyspace"),
            one("table", "The table"),
            any("directory", "Absolute paths on the node's machine"),
        ],
        run: |session| Box::pin(import(session)),
    },
];

/// Options of `import` that other nodes have, and why this one does not.
const NOT_IMPORTED: [(&str, &str); 3] = [
    ("keep-level", "loaded SSTables begin at level 0, and compaction moves them up"),
    ("keep-repaired", "there is no incremental repair that could have marked SSTables"),
    ("no-invalidate-caches", "reads would go on without the rows that are loaded"),
];

const ENDPOINT: Opt = Opt::text("endpoint", &[], "The object store, as the node's options name it");
const BUCKET: Opt = Opt::text("bucket", &[], "The bucket");
const PREFIX: Opt = Opt::text("prefix", &[], "What names in the bucket begin with");
const MOVE: Opt = Opt::flag("move-files", &[], "Remove files of the snapshot that are copied");
const NOWAIT: Opt = Opt::flag("nowait", &[], "Print the task's id and do not wait for it");
const SCOPE: Opt =
    Opt::text("scope", &[], "Scope of the nodes that receive rows: all, dc, rack or node");
const PRIMARY: Opt =
    Opt::flag("primary-replica-only", &["-pro"], "Give rows to one node of those that own them");

/// Options that have to be there, as parameters of the same names.
fn needed(session: &Session, names: &[&'static str]) -> Result<Parameters<'static>, Failure> {
    let mut parameters = Vec::new();
    for name in names {
        match session.given.text(name) {
            Some(text) => parameters.push((*name, text.to_string())),
            None => return wrong(format!("missing required parameter: {name}")),
        }
    }
    Ok(parameters)
}

async fn backup(session: &mut Session) -> Done {
    let names = ["endpoint", "bucket", "prefix", "keyspace", "table", "snapshot"];
    let mut parameters = needed(session, &names)?;
    parameters.push(("move_files", session.given.flag("move-files").to_string()));
    let task = session.post("/storage_service/backup", parameters).await?;
    ended(session, task).await
}

async fn cluster_backup(session: &mut Session) -> Done {
    let mut parameters = needed(session, &["keyspace", "table", "snapshot"])?;
    let move_files = session.given.flag("move-files");
    parameters.push(("move_files", move_files.to_string()));
    let (mut locations, mut texts) = (Vec::new(), Vec::new());
    for location in session.given.texts("location") {
        let parts: Vec<&str> = location.splitn(4, ',').collect();
        let [center, endpoint, bucket, prefix] = parts[..] else {
            return wrong(format!("no data center, endpoint, bucket and prefix: {location}"));
        };
        let pairs = [
            ("datacenter", center),
            ("endpoint", endpoint),
            ("bucket", bucket),
            ("prefix", prefix),
        ];
        let shown = pairs.map(|(name, text)| format!("\"{name}\": {}", json!(text)));
        texts.push(format!("{{{}}}", shown.join(", ")));
        locations.push(Value::Object(
            pairs.into_iter().map(|(name, text)| (name.to_string(), json!(text))).collect(),
        ));
    }
    if locations.is_empty() {
        return wrong("missing required parameter: location");
    }
    let (keyspace, snapshot) = (parameters[0].1.clone(), parameters[2].1.clone());
    let (path, body) = ("/storage_service/tablets/backup", Value::Array(locations));
    let task = session.ask(Method::Post, path, &[], parameters, Some(body)).await?;
    session.say(&format!(
        "Requested cluster backup(s) for [{keyspace}] with snapshot name [{snapshot}] and options \
         {{move_files={move_files}}}, locations=[{}]\nSnapshot directory: {snapshot}\n",
        texts.join(", ")
    ))?;
    ended(session, task).await
}

async fn restore(session: &mut Session) -> Done {
    let names = ["endpoint", "bucket", "prefix", "keyspace", "table"];
    let mut parameters = needed(session, &names)?;
    let given = &session.given;
    if let Some(scope) = given.text("scope") {
        parameters.push(("scope", known_scope(scope)?));
    }
    if given.flag("primary-replica-only") {
        parameters.push(("primary_replica_only", "true".to_string()));
    }
    let sstables = json!(given.texts("sstable"));
    let path = "/storage_service/restore";
    let task = session.ask(Method::Post, path, &[], parameters, Some(sstables)).await?;
    ended(session, task).await
}

/// Waits for the task, unless the operator does not want to.
async fn ended(session: &mut Session, task: Value) -> Done {
    let task = crate::answer::plain(&task);
    if session.given.flag("nowait") {
        return session.say(&format!("{task}\n"));
    }
    let told = wait_for(session, &task).await?;
    let [state, error, start, end] =
        ["state", "error", "start_time", "end_time"].map(|name| crate::answer::plain(&told[name]));
    let why = if error.is_empty() { String::new() } else { format!(": {error}") };
    session.say(&format!("{state}{why}\nstart: {start}\nend: {end}\n"))?;
    if state == "done" { Ok(()) } else { Err(Failure::Code(1)) }
}

fn known_scope(scope: &str) -> Result<String, Failure> {
    match scope {
        "all" | "dc" | "rack" | "node" => Ok(scope.to_string()),
        _ => wrong("Invalid scope parameter value"),
    }
}

async fn refresh(session: &mut Session) -> Done {
    let given = &session.given;
    let Some(keyspace) = given.text("keyspace").map(str::to_string) else {
        return wrong("required parameters are missing: keyspace and table");
    };
    let Some(table) = given.text("table").map(str::to_string) else {
        return wrong("required parameter is missing: table");
    };
    let streams = given.flag("load-and-stream");
    let mut parameters = vec![("cf", table.clone())];
    let yes = || "true".to_string();
    if streams {
        parameters.push(("load_and_stream", yes()));
    }
    if given.flag("primary-replica-only") {
        if !streams {
            return wrong(
                "--primary-replica-only|-pro takes no effect without --load-and-stream|-las",
            );
        }
        if given.text("scope") == Some("node") {
            return wrong("Cannot set both primary_replica_only and scope=node");
        }
        parameters.push(("primary_replica_only", yes()));
    }
    for (option, name) in [("skip-cleanup", "skip_cleanup"), ("skip-reshape", "skip_reshape")] {
        if given.flag(option) && streams {
            return wrong(format!("--{option} takes no effect with --load-and-stream|-las"));
        }
        if given.flag(option) {
            parameters.push((name, yes()));
        }
    }
    if let Some(scope) = given.text("scope") {
        if !streams {
            return wrong("--scope takes no effect without --load-and-stream|-las");
        }
        parameters.push(("scope", known_scope(scope)?));
    }
    let name = format!("{keyspace}.{table}");
    let path = "/storage_service/sstables";
    let told = session.ask(Method::Post, path, &[&keyspace], parameters, None).await?;
    session.say(&took(&name, &told))
}

/// What a node has loaded; nodes of ScyllaDB do not tell.
fn took(name: &str, told: &Value) -> String {
    let Some(count) = told["sstables"].as_u64() else { return String::new() };
    let directory = plain(&told["directory"]);
    if count == 0 {
        return format!("no SSTables in {directory}: nothing was loaded\n");
    }
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let partitions = told["partitions"].as_u64().unwrap_or(0);
    format!(
        "loaded {count} SSTable{} into {name}: {}, about {partitions} partition{}, from \
         {directory}\n",
        plural(count),
        size_short(told["bytes"].as_f64().unwrap_or(0.0)),
        plural(partitions)
    )
}

async fn import(session: &mut Session) -> Done {
    let given = &session.given;
    let (Some(keyspace), Some(table)) = (given.text("keyspace"), given.text("table")) else {
        return wrong("import needs a keyspace, a table and a directory");
    };
    let (keyspace, table) = (keyspace.to_string(), table.to_string());
    if let Some((option, why)) = NOT_IMPORTED.into_iter().find(|(option, _)| given.flag(option)) {
        return wrong(format!("--{option} is not supported: {why}"));
    }
    let checks = ["quick", "no-verify"].into_iter().find(|option| given.flag(option));
    if let Some(option) = checks.filter(|_| given.flag("extended-verify")) {
        return wrong(format!("--extended-verify and --{option} contradict each other"));
    }
    let directories: Vec<String> =
        given.texts("directory").into_iter().map(str::to_string).collect();
    if directories.is_empty() {
        return wrong("import needs a directory");
    }
    let mut options = vec![("cf", table.clone())];
    if given.flag("copy-data") {
        options.push(("copy", "true".to_string()));
    }
    if given.flag("extended-verify") {
        options.push(("verify", "extended".to_string()));
    }
    for directory in directories {
        let parameters = options.iter().cloned().chain([("directory", directory)]).collect();
        let path = "/storage_service/import";
        let told = session.ask(Method::Post, path, &[&keyspace], parameters, None).await?;
        session.say(&took(&format!("{keyspace}.{table}"), &told))?;
    }
    Ok(())
}
