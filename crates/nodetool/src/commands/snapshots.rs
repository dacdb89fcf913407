//! Snapshots.

use crate::answer::{list, pairs, plain};
use crate::arguments::{Opt, any};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::print::{left, size_iec, size_short};
use crate::session::{Parameters, Session};
use http::Method;
use runtime::time::wall_micros;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "snapshot",
        about: "Take a snapshot of tables",
        options: OPTIONS,
        places: &[any(
            "keyspace",
            "Keyspaces, or tables as keyspace.table; all, where none is given",
        )],
        run: |session| Box::pin(snapshot(session, None)),
    },
    Entry {
        name: "cluster snapshot",
        about: "Take a snapshot of tables on all nodes",
        options: OPTIONS,
        places: &[any(
            "keyspace",
            "Keyspaces, or tables as keyspace.table; all, where none is given",
        )],
        run: |session| Box::pin(snapshot(session, Some("/storage_service/tablets/snapshots"))),
    },
    Entry {
        name: "listsnapshots",
        about: "All snapshots, with their sizes",
        options: &[],
        places: &[],
        run: |session| Box::pin(list_snapshots(session)),
    },
    Entry {
        name: "clearsnapshot",
        about: "Remove snapshots",
        options: &[Opt::text(
            "tag",
            &["-t"],
            "The snapshot's name [default: all but parts of backups]",
        )],
        places: &[any("keyspace", "Of these keyspaces; of all, where none is given")],
        run: |session| Box::pin(clear(session)),
    },
];

const OPTIONS: &[Opt] = &[
    Opt::text("tag", &["-t"], "The snapshot's name [default: milliseconds since 1970]"),
    Opt::text("table", &["-cf", "--column-family"], "Tables of the keyspace, with commas"),
    Opt::text("kt-list", &["-kt", "-kc", "--kc.list"], "Tables as keyspace.table, with commas"),
    Opt::flag("skip-flush", &["-sf"], "Do not flush memtables first"),
    Opt::text("ttl", &[], "How long it is kept: a number and s, m, h or d [default: for ever]"),
];

/// What a snapshot is of: what is told, and the parameters.
fn chosen(session: &Session) -> Result<(Vec<String>, Parameters<'static>), Failure> {
    let given = &session.given;
    let owned = |list: Vec<&str>| list.into_iter().map(str::to_string).collect::<Vec<_>>();
    let keyspaces = owned(given.texts("keyspace"));
    let listed = given.text("kt-list").map(|list| owned(list.split(',').collect()));
    let names = match (&listed, given.text("table")) {
        (Some(_), Some(_)) => {
            return wrong(
                "when specifying the keyspace-table list for a snapshot, you should not specify \
                 table(s)",
            );
        }
        (Some(_), None) if !keyspaces.is_empty() => {
            return wrong(
                "when specifying the keyspace-table list for a snapshot, you should not specify \
                 keyspace(s)",
            );
        }
        (None, Some(tables)) => {
            let [keyspace] = &keyspaces[..] else {
                return wrong(
                    "when specifying the table for the snapshot, you must specify one and only \
                     one keyspace",
                );
            };
            let parameters = vec![("kn", keyspace.clone()), ("cf", tables.to_string())];
            return Ok((keyspaces, parameters));
        }
        _ => listed.unwrap_or(keyspaces),
    };
    let parameters = match &names[..] {
        [] => Vec::new(),
        [name] => match name.split_once('/').or_else(|| name.split_once('.')) {
            Some((keyspace, table)) => {
                vec![("kn", keyspace.to_string()), ("cf", table.to_string())]
            }
            None => vec![("kn", name.clone())],
        },
        names => vec![("kn", names.join(","))],
    };
    Ok((names, parameters))
}

async fn snapshot(session: &mut Session, of_cluster: Option<&str>) -> Done {
    let (names, mut parameters) = chosen(session)?;
    let given = &session.given;
    let now = || (wall_micros() / 1000).to_string();
    let tag = given.text("tag").map_or_else(now, str::to_string);
    let (ttl, skip) = (given.text("ttl").unwrap_or("0").to_string(), given.flag("skip-flush"));
    parameters.push(("tag", tag.clone()));
    parameters.push(("ttl", ttl.clone()));
    if of_cluster.is_none() {
        parameters.push(("sf", skip.to_string()));
    }
    session.post(of_cluster.unwrap_or("/storage_service/snapshots"), parameters).await?;
    let of = match names.is_empty() {
        true => "all keyspaces".to_string(),
        false => names.join(", "),
    };
    session.say(&format!(
        "Requested creating snapshot(s) for [{of}] with snapshot name [{tag}] and options \
         {{skipFlush={skip}, ttl={ttl}}}\nSnapshot directory: {tag}\n"
    ))
}

async fn list_snapshots(session: &mut Session) -> Done {
    let told = session.get("/storage_service/snapshots").await?;
    let snapshots = pairs(&told);
    if snapshots.is_empty() {
        return session.say("There are no snapshots\n");
    }
    let head =
        ["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for (tag, tables) in &snapshots {
        for table in list(tables) {
            let bytes = |name: &str| size_short(table[name].as_f64().unwrap_or(0.0));
            let (keyspace, name) = (plain(&table["ks"]), plain(&table["cf"]));
            rows.push(vec![tag.clone(), keyspace, name, bytes("live"), bytes("total")]);
        }
    }
    let total = session.get("/storage_service/snapshots/size/true").await?;
    session.say(&format!(
        "Snapshot Details: \n{}\nTotal TrueDiskSpaceUsed: {}\n\n",
        left(&rows),
        size_iec(total.as_f64().unwrap_or(0.0))
    ))
}

async fn clear(session: &mut Session) -> Done {
    let keyspaces: Vec<String> =
        session.given.texts("keyspace").into_iter().map(str::to_string).collect();
    let tag = session.given.text("tag").map(|tag| ("tag", tag.to_string()));
    let mut parameters: Parameters<'_> = tag.into_iter().collect();
    if !keyspaces.is_empty() {
        let known = session.keyspaces(Vec::new()).await?;
        if let Some(missing) = keyspaces.iter().find(|keyspace| !known.contains(keyspace)) {
            return wrong(format!("keyspace {missing} does not exist"));
        }
        parameters.push(("kn", keyspaces.join(",")));
    }
    let path = "/storage_service/snapshots";
    session.ask(Method::Delete, path, &[], parameters, None).await.map(drop)
}
