//! What keeps tables in order: flush, compact, cleanup, rewriting, background merges.

use crate::arguments::{KEYSPACE, Opt, TABLES, any, one};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::session::{Session, of_tables};
use http::Method;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "flush",
        about: "Flush the memtables of tables to SSTables",
        options: &[],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(flush(session)),
    },
    Entry {
        name: "drain",
        about: "Stop serving clients and flush all memtables",
        options: &[],
        places: &[],
        run: |session| Box::pin(drain(session)),
    },
    Entry {
        name: "compact",
        about: "Run a major compaction of tables",
        options: COMPACT,
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(compact(session)),
    },
    Entry {
        name: "cleanup",
        about: "Remove partitions that this node no longer owns",
        options: &[JOBS],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(cleanup(session)),
    },
    Entry {
        name: "cluster cleanup",
        about: "Remove partitions that nodes no longer own, on all nodes",
        options: &[],
        places: &[],
        run: |session| Box::pin(cleanup_all(session, "true")),
    },
    Entry {
        name: "upgradesstables",
        about: "Rewrite SSTables of older formats in the current one",
        options: &[
            Opt::flag("include-all-sstables", &["-a"], "Those of the current version too"),
            JOBS,
        ],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(upgrade(session)),
    },
    Entry {
        name: "dropquarantinedsstables",
        about: "Remove SSTables that are in quarantine",
        options: &[
            Opt::text("keyspace", &[], "The keyspace; all, where none is given"),
            Opt::texts("table", &["-t"], "A table of the keyspace"),
        ],
        places: &[
            one("of-keyspace", "The same as --keyspace"),
            any("of-table", "The same as --table"),
        ],
        run: |session| Box::pin(drop_quarantined(session)),
    },
    Entry {
        name: "enableautocompaction",
        about: "Enable automatic compaction",
        options: &[],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(auto_compaction(session, Method::Post)),
    },
    Entry {
        name: "disableautocompaction",
        about: "Disable automatic compaction",
        options: &[],
        places: &[KEYSPACE, TABLES],
        run: |session| Box::pin(auto_compaction(session, Method::Delete)),
    },
];

const JOBS: Opt = Opt::text("jobs", &["-j"], "Ignored: the node decides");

const COMPACT: &[Opt] = &[
    Opt::truth("flush-memtables", &[], "Flush first, true or false [default: true]"),
    Opt::flag("split-output", &["-s"], "Ignored"),
    Opt::flag("user-defined", &[], "Not supported"),
    Opt::text("start-token", &["-st"], "Ignored"),
    Opt::text("end-token", &["-et"], "Ignored"),
    Opt::text("partition", &[], "Not supported"),
];

async fn flush(session: &mut Session) -> Done {
    match session.target().await? {
        None => session.post("/storage_service/flush", Vec::new()).await?,
        Some((keyspace, tables)) => {
            let parameters = of_tables("cf", &tables);
            let path = "/storage_service/keyspace_flush";
            session.ask(Method::Post, path, &[&keyspace], parameters, None).await?
        }
    };
    Ok(())
}

async fn drain(session: &mut Session) -> Done {
    session.post("/storage_service/drain", Vec::new()).await.map(drop)
}

async fn compact(session: &mut Session) -> Done {
    if session.given.flag("user-defined") {
        return wrong("--user-defined flag is unsupported");
    }
    if session.given.text("partition").is_some() {
        return wrong("--partition flag is unsupported");
    }
    let flush = session.given.text("flush-memtables").map(str::to_string);
    let mut parameters: Vec<_> =
        flush.map(|flush| ("flush_memtables", flush)).into_iter().collect();
    match session.target().await? {
        None => session.post("/storage_service/compact", parameters).await?,
        Some((keyspace, tables)) => {
            parameters.extend(of_tables("cf", &tables));
            let path = "/storage_service/keyspace_compaction";
            session.ask(Method::Post, path, &[&keyspace], parameters, None).await?
        }
    };
    Ok(())
}

async fn cleanup(session: &mut Session) -> Done {
    match session.target().await? {
        None => cleanup_all(session, "false").await,
        Some((keyspace, tables)) => {
            let path = "/storage_service/keyspace_cleanup";
            let parameters = of_tables("cf", &tables);
            session.ask(Method::Post, path, &[&keyspace], parameters, None).await.map(drop)
        }
    }
}

async fn cleanup_all(session: &mut Session, global: &str) -> Done {
    let parameters = vec![("global", global.to_string())];
    session.post("/storage_service/cleanup_all", parameters).await.map(drop)
}

async fn upgrade(session: &mut Session) -> Done {
    let (keyspaces, tables) = targets(session).await?;
    for keyspace in keyspaces {
        let mut parameters = of_tables("cf", &tables);
        if !session.given.flag("include-all-sstables") {
            parameters.push(("exclude_current_version", "true".to_string()));
        }
        let path = "/storage_service/keyspace_upgrade_sstables";
        session.get_with(path, &[&keyspace], parameters).await?;
    }
    Ok(())
}

async fn auto_compaction(session: &mut Session, method: Method) -> Done {
    let (keyspaces, tables) = targets(session).await?;
    for keyspace in keyspaces {
        let (path, parameters) = ("/storage_service/auto_compaction", of_tables("cf", &tables));
        session.ask(method, path, &[&keyspace], parameters, None).await?;
    }
    Ok(())
}

/// The keyspace that was given with its tables, or all keyspaces.
pub(super) async fn targets(
    session: &mut Session,
) -> Result<(Vec<String>, Vec<String>), crate::failure::Failure> {
    match session.target().await? {
        Some((keyspace, tables)) => Ok((vec![keyspace], tables)),
        None => Ok((session.keyspaces(Vec::new()).await?, Vec::new())),
    }
}

async fn drop_quarantined(session: &mut Session) -> Done {
    let given = &session.given;
    let keyspace = given.text("keyspace").or(given.text("of-keyspace")).map(str::to_string);
    let tables = [given.texts("table"), given.texts("of-table")].concat();
    let tables: Vec<String> = tables.into_iter().map(str::to_string).collect();
    let mut parameters = Vec::new();
    match keyspace {
        Some(keyspace) if !session.keyspaces(Vec::new()).await?.contains(&keyspace) => {
            return wrong(format!("keyspace {keyspace} does not exist"));
        }
        Some(keyspace) => parameters.push(("keyspace", keyspace)),
        None if !tables.is_empty() => return wrong("tables need a keyspace"),
        None => {}
    }
    parameters.extend(of_tables("tables", &tables));
    session.post("/storage_service/drop_quarantined_sstables", parameters).await.map(drop)
}
