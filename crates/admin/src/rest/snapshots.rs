//! `/storage_service/snapshots`: snapshots are taken, listed and cleared.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::tables::{all, index_of_view, listed, view_of_index};
use super::work::{Tables, Work, finished, start};
use crate::call::{Answer, Call};
use crate::tasks::{Running, SNAPSHOT};
use model::TableId;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::{
    Memtables, Snapshot, SnapshotError, SnapshotFilter, SnapshotOrder, SnapshotTag, Storage,
};

const WORK: Work = Work { module: SNAPSHOT, name: "snapshot", stops: &[], jobs: &[] };

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/snapshots";
    api.get(path, "All snapshots, with their bytes", list);
    api.get(
        "/storage_service/snapshots/size/true",
        "Disk space that clearing all snapshots would free",
        true_size,
    );
    api.post(path, "Takes a snapshot", take)
        .takes("tag", Kind::Text, "Its name, which is required")
        .takes("kn", Kind::Text, "Keyspaces, with commas between; all without it")
        .takes("cf", Kind::Text, "Tables and indexes of the one keyspace, with commas between")
        .takes("sf", Kind::Flag, "Whether no flush is done before")
        .takes("ttl", Kind::Text, "It is cleared after so many s, m, h or d");
    let everywhere = "/storage_service/tablets/snapshots";
    api.post(everywhere, "Takes a snapshot on all nodes", take_everywhere)
        .needs("tag", Kind::Text, "Its name")
        .takes("keyspace", Kind::Text, "A keyspace; all without it")
        .takes("table", Kind::Text, "Tables of it, with commas between");
    api.delete(path, "Clears snapshots", clear)
        .takes("tag", Kind::Text, "Those of this name")
        .takes("kn", Kind::Text, "Those of keyspaces, with commas between")
        .takes("cf", Kind::Text, "Those of a table, or of an index");
}

/// Bytes of the snapshots of a table, or of all tables: of their files, or of those that only
/// snapshots have.
pub(super) async fn size_of(table: Option<TableId>, live: bool) -> Result<u64, Answer> {
    let storage = runtime::local::get::<Storage>();
    let of_it = storage.snapshots().await.map_err(refused)?;
    let sizes = of_it.iter().filter(|one| table.is_none() || one.table_id == table);
    Ok(sizes.map(|one| if live { one.live_bytes } else { one.total_bytes }).sum())
}

fn refused(error: SnapshotError) -> Answer {
    let status = match &error {
        SnapshotError::Exists(_) => 400,
        SnapshotError::Failed(_) => 500,
    };
    Answer::refused(status, error.to_string())
}

async fn found() -> Result<Vec<Snapshot>, Answer> {
    runtime::local::get::<Storage>().snapshots().await.map_err(refused)
}

/// By name: the tables that have a snapshot of it; the view of an index goes by the index's name.
async fn list(door: &Rc<Door>, _: &Call) -> Answered {
    let mut by_tag: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let schema = door.cluster.schema();
    for one in found().await? {
        let index = index_of_view(&schema, &one.keyspace, &one.table);
        let mut shown = json!({
            "ks": one.keyspace,
            "cf": index.unwrap_or(one.table),
            "total": one.total_bytes,
            "live": one.live_bytes,
        });
        if let (Some(created), Some(expires)) = (one.created_secs, one.expires_secs) {
            shown["created_at"] = json!(created);
            shown["expires_at"] = json!(expires);
        }
        by_tag.entry(one.tag).or_default().push(shown);
    }
    let listed = by_tag.into_iter().map(|(tag, tables)| json!({ "key": tag, "value": tables }));
    Ok(Answer::json(listed.collect()))
}

/// What clearing all snapshots gives back.
async fn true_size(_: &Rc<Door>, _: &Call) -> Answered {
    let bytes: u64 = found().await?.iter().map(|one| one.live_bytes).sum();
    Ok(Answer::json(json!(bytes)))
}

/// `tag`, `kn` (keyspaces), `cf` (tables of the one keyspace), `sf` (without a flush), `ttl`.
async fn take(door: &Rc<Door>, call: &Call) -> Answered {
    let tag = SnapshotTag::new(call.parameter("tag").unwrap_or_default());
    let tag = tag.map_err(|why| Answer::refused(400, why))?;
    let keyspaces = call.names("kn");
    let tables = match &keyspaces[..] {
        _ if !call.names("cf").is_empty() && keyspaces.len() != 1 => {
            let text = "cf: tables are of one keyspace, which kn has to name";
            return Err(Answer::refused(400, text));
        }
        [] => all(&door.cluster.schema()),
        several => {
            let tables = several.iter().map(|keyspace| listed(door, call, keyspace, "cf"));
            tables.collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    let memtables = match call.flag("sf", false)? {
        true => Memtables::LeftOut,
        false => Memtables::Flushed,
    };
    let ttl = ttl(call.parameter("ttl").unwrap_or_default())?;
    taken(tables, SnapshotOrder { tag, memtables, ttl }).await
}

/// `tag`, `keyspace`, `table` (tables of it): the same, on all nodes.
async fn take_everywhere(door: &Rc<Door>, call: &Call) -> Answered {
    let tag = SnapshotTag::new(call.parameter("tag").unwrap_or_default());
    let tag = tag.map_err(|why| Answer::refused(400, why))?;
    let tables = match call.given("keyspace") {
        Some(keyspace) => listed(door, call, keyspace, "table")?,
        None => all(&door.cluster.schema()),
    };
    taken(tables, SnapshotOrder { tag, memtables: Memtables::Flushed, ttl: None }).await
}

/// Takes a snapshot, as a task.
async fn taken(ids: Vec<TableId>, order: SnapshotOrder) -> Answered {
    // How it ended, in more than words.
    let ended = Rc::new(RefCell::new(None));
    let (told, tables) = (ended.clone(), Tables::all(ids.clone()));
    let id = start(WORK, &tables, async move |task: Rc<Running>| {
        task.check()?;
        let taken = runtime::local::get::<Storage>().take_snapshot(ids, order).await;
        let text = taken.as_ref().map(|_| ()).map_err(ToString::to_string);
        *told.borrow_mut() = taken.err();
        text
    })?;
    let finished = finished(id).await;
    match ended.borrow_mut().take() {
        Some(error) => Err(refused(error)),
        None => finished.map(|()| Answer::done()),
    }
}

/// `tag`, `kn` (keyspaces), `cf` (a table, or an index where none has that name); what is not said
/// is any.
async fn clear(door: &Rc<Door>, call: &Call) -> Answered {
    let said = |name| call.given(name).map(str::to_owned);
    let filter =
        SnapshotFilter { tag: said("tag"), keyspaces: call.names("kn"), table: said("cf") };
    let mut filters = vec![filter.clone()];
    if let Some(name) = &filter.table {
        let schema = door.cluster.schema();
        let is_meant =
            |keyspace: &&String| filter.keyspaces.is_empty() || filter.keyspaces.contains(keyspace);
        for (keyspace, entry) in schema.keyspaces.iter().filter(|(keyspace, _)| is_meant(keyspace))
        {
            let index = (!entry.tables.contains_key(name)).then(|| view_of_index(entry, name));
            filters.extend(index.flatten().map(|view| SnapshotFilter {
                tag: filter.tag.clone(),
                keyspaces: vec![keyspace.clone()],
                table: Some(view.schema.name.clone()),
            }));
        }
    }
    let storage = runtime::local::get::<Storage>();
    for filter in filters {
        storage.clear_snapshots(filter).await.map_err(refused)?;
    }
    Ok(Answer::done())
}

/// A number of seconds, or of the unit behind it: `90`, `90s`, `10m`, `2h`, `7d`. 0 is none.
fn ttl(text: &str) -> Result<Option<Duration>, Answer> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    if text.is_empty() {
        return Ok(None);
    }
    let secs = digits.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| {
        let secs: u64 = unit;
        count.checked_mul(secs)
    });
    match secs {
        Some(0) => Ok(None),
        Some(secs) => Ok(Some(Duration::from_secs(secs))),
        None => Err(Answer::refused(400, format!("ttl: not a number of s, m, h or d: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let check = |text: &str, expected: Option<u64>| {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(ttl(text), Ok(expected), "{text}");
        };
        check("", None);
        check("0", None);
        check("0h", None);
        check("5", Some(5));
        check("60s", Some(60));
        check("2m", Some(120));
        check("3h", Some(10_800));
        check("1d", Some(86_400));
        for text in ["x", "5x", "-5", "s", "1.5h", "99999999999999999999", "18446744073709551615d"]
        {
            assert!(ttl(text).is_err(), "{text}");
        }
    }
}
