//! `/storage_service/keyspace_{scrub,cleanup,upgrade_sstables,offstrategy_compaction}`: what is
//! done to the SSTables of tables one by one; `/compaction_manager/stop_*`: ending it.

use super::tables::{all, named, on_each};
use super::{Answered, Door};
use crate::call::{Answer, Call};
use hyper::Method;
use model::TableId;
use runtime::{local, on_all_shards, on_shard};
use serde_json::json;
use storage::{
    CompactionKind, Invalid, Memtables, Outdated, ScrubMode, SnapshotOrder, SnapshotTag, Storage,
    Upkeep, UpkeepDone,
};

/// How a scrub ended, in the numbers that callers know.
const SCRUBBED: u8 = 0;
const ABORTED: u8 = 1;
const INVALID: u8 = 3;

/// What stands under `/storage_service`.
pub(super) async fn answer(door: &Door, call: &Call, path: &[&str]) -> Answered {
    let tables = |keyspace| named(door, call, keyspace);
    let answer = match (&call.method, path) {
        (&Method::GET, ["keyspace_scrub", keyspace]) => {
            async { scrub(call, tables(keyspace)?).await }.await
        }
        (&Method::GET, ["keyspace_upgrade_sstables", keyspace]) => {
            async { upgrade(call, tables(keyspace)?).await }.await
        }
        (&Method::POST, ["keyspace_cleanup", keyspace]) => {
            async { clean_up(tables(keyspace)?).await }.await
        }
        (&Method::POST, ["cleanup_all"]) => clean_up(all(&door.cluster.schema())).await,
        // What is streamed lies with the rest: there is nothing to be done.
        (&Method::POST, ["keyspace_offstrategy_compaction", keyspace]) => {
            tables(keyspace).map(|_| Answer::json(json!(false)))
        }
        _ => return None,
    };
    Some(answer)
}

/// `type`: what is to end; `tables` of a keyspace, or all.
pub(super) async fn stop(
    door: &Door,
    call: &Call,
    keyspace: Option<&str>,
) -> Result<Answer, Answer> {
    let kinds = kinds(call.parameter("type").unwrap_or_default())?;
    let tables = match keyspace {
        Some(keyspace) => Some(super::tables::listed(door, call, keyspace, "tables")?),
        None => None,
    };
    on_all_shards(move || {
        let tables = tables.clone();
        async move {
            if let Some(storage) = local::try_get::<Storage>() {
                kinds.iter().for_each(|kind| storage.stop_compactions(*kind, tables.as_deref()));
            }
        }
    })
    .await;
    Ok(Answer::done())
}

/// What of ours a name stands for. Some stand for what this node never has to do.
fn kinds(name: &str) -> Result<&'static [CompactionKind], Answer> {
    use CompactionKind::{Major, Minor, Reshard, Scrub, Upgrade, Validation};
    match name.to_ascii_uppercase().as_str() {
        "COMPACTION" => Ok(&[Minor, Major]),
        "MAJOR" => Ok(&[Major]),
        "SCRUB" => Ok(&[Scrub]),
        "VALIDATION" => Ok(&[Validation]),
        "UPGRADE" => Ok(&[Upgrade]),
        "RESHARD" => Ok(&[Reshard]),
        "CLEANUP" | "RESHAPE" | "INDEX_BUILD" | "SPLIT" => Ok(&[]),
        _ => Err(Answer::refused(400, format!("unknown type of compaction: {name}"))),
    }
}

/// Every partition that this node has is its own: nothing is to be removed.
async fn clean_up(tables: Vec<TableId>) -> Result<Answer, Answer> {
    let flushed = |storage: std::rc::Rc<Storage>, table| async move {
        storage.flush(table).await.map_err(|error| error.to_string())
    };
    on_each(tables, flushed).await?;
    Ok(Answer::json(json!(0)))
}

/// `exclude_current_version`: those that have the format already stay.
async fn upgrade(call: &Call, tables: Vec<TableId>) -> Result<Answer, Answer> {
    let which = match call.flag("exclude_current_version", false)? {
        true => Outdated::Older,
        false => Outdated::All,
    };
    keep_up(&tables, Upkeep::Upgrade(which)).await?;
    Ok(Answer::json(json!(SCRUBBED)))
}

/// Which SSTables a scrub looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quarantined {
    Included,
    LeftOut,
    Alone,
}

/// What a scrub is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    what: Upkeep,
    quarantined: Quarantined,
    /// Whether a snapshot is taken before.
    snapshot: bool,
}

impl Order {
    fn of(call: &Call) -> Result<Order, Answer> {
        let word = |name| call.parameter(name).unwrap_or_default().to_ascii_uppercase();
        let refused = |name, word: &str| {
            Err(Answer::refused(400, format!("Unknown argument for '{name}' parameter: {word}")))
        };
        let put_aside = call.flag("quarantine_invalid_sstables", true)?;
        let skip_corrupted = call.flag("skip_corrupted", false)?;
        if call.flag("drop_unfixable_sstables", false)? {
            return Err(Answer::refused(400, "drop_unfixable_sstables: not supported"));
        }
        let invalid = if put_aside { Invalid::PutAside } else { Invalid::Kept };
        let what = match word("scrub_mode").as_str() {
            "" if skip_corrupted => Upkeep::Scrub(ScrubMode::Skip),
            "" | "VALIDATE" => Upkeep::Validate(invalid),
            "ABORT" => Upkeep::Scrub(ScrubMode::Abort),
            "SKIP" => Upkeep::Scrub(ScrubMode::Skip),
            "SEGREGATE" => Upkeep::Scrub(ScrubMode::Segregate),
            other => return refused("scrub_mode", other),
        };
        let quarantined = match word("quarantine_mode").as_str() {
            "" | "INCLUDE" => Quarantined::Included,
            "EXCLUDE" => Quarantined::LeftOut,
            "ONLY" => Quarantined::Alone,
            other => return refused("quarantine_mode", other),
        };
        let is_scrub = matches!(what, Upkeep::Scrub(_));
        if is_scrub && !put_aside {
            let text = "quarantine_invalid_sstables can only be false with scrub_mode=VALIDATE";
            return Err(Answer::refused(400, text));
        }
        let snapshot = is_scrub && !call.flag("disable_snapshot", false)?;
        Ok(Order { what, quarantined, snapshot })
    }
}

/// The answer is a number: how it ended.
async fn scrub(call: &Call, tables: Vec<TableId>) -> Result<Answer, Answer> {
    let Order { what, quarantined, snapshot } = Order::of(call)?;
    if snapshot {
        take_snapshot(tables.clone()).await?;
    }
    let mut done = Vec::new();
    if quarantined != Quarantined::Alone {
        done.extend(keep_up(&tables, what).await?);
    }
    if quarantined != Quarantined::LeftOut {
        done.extend(keep_up_quarantined(tables, what).await?);
    }
    let is_scrub = matches!(what, Upkeep::Scrub(_));
    let ended = match () {
        () if done.iter().any(|one| one.aborted.is_some()) => ABORTED,
        () if !is_scrub && done.iter().any(|one| !one.invalid.is_empty()) => INVALID,
        () => SCRUBBED,
    };
    Ok(Answer::json(json!(ended)))
}

async fn take_snapshot(tables: Vec<TableId>) -> Result<(), Answer> {
    let millis = runtime::time::wall_micros().div_euclid(1000);
    let tag = SnapshotTag::new(&format!("pre-scrub-{millis}"));
    let tag = tag.map_err(|why| Answer::refused(500, why))?;
    let order = SnapshotOrder { tag, memtables: Memtables::Flushed, ttl: None };
    let taken = local::get::<Storage>().take_snapshot(tables, order).await;
    taken.map_err(|error| Answer::refused(500, error.to_string()))
}

/// Does it to each table on all shards; what each says.
async fn keep_up(tables: &[TableId], what: Upkeep) -> Result<Vec<UpkeepDone>, Answer> {
    let tables = tables.to_vec();
    let asked = on_all_shards(move || {
        let tables = tables.clone();
        async move {
            let storage = local::get::<Storage>();
            let mut all = Vec::new();
            for table in tables {
                if storage.table_stats(table).is_some() {
                    let done = storage.keep_up(table, what).await;
                    all.push(done.map_err(|error| error.to_string())?);
                }
            }
            Ok::<_, String>(all)
        }
    });
    let mut all = Vec::new();
    for (shard, done) in asked.await.into_iter().enumerate() {
        let refused = |text| Answer::refused(500, format!("shard {shard}: {text}"));
        all.extend(done.map_err(refused)?);
    }
    Ok(all)
}

async fn keep_up_quarantined(
    tables: Vec<TableId>,
    what: Upkeep,
) -> Result<Vec<UpkeepDone>, Answer> {
    let asked = on_shard(0, move || async move {
        let storage = local::get::<Storage>();
        let mut all = Vec::new();
        for table in tables {
            if storage.table_stats(table).is_some() {
                let done = storage.keep_up_quarantined(table, what).await;
                all.push(done.map_err(|error| error.to_string())?);
            }
        }
        Ok::<_, String>(all)
    });
    asked.await.map_err(|text| Answer::refused(500, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_is_told_what_to_do() {
        let order = |query| Order::of(&Call::new(&Method::GET, "/", query));
        let check = |query, what, quarantined, snapshot| {
            assert_eq!(order(query), Ok(Order { what, quarantined, snapshot }), "{query}");
        };
        let validate = Upkeep::Validate(Invalid::PutAside);
        check("", validate, Quarantined::Included, false);
        check("scrub_mode=VALIDATE&quarantine_mode=ONLY", validate, Quarantined::Alone, false);
        let kept = Upkeep::Validate(Invalid::Kept);
        check("quarantine_invalid_sstables=false", kept, Quarantined::Included, false);
        let skip = Upkeep::Scrub(ScrubMode::Skip);
        check("skip_corrupted=true", skip, Quarantined::Included, true);
        check("scrub_mode=skip&quarantine_mode=exclude", skip, Quarantined::LeftOut, true);
        let abort = Upkeep::Scrub(ScrubMode::Abort);
        check("scrub_mode=ABORT&disable_snapshot=true", abort, Quarantined::Included, false);
        for bad in [
            "scrub_mode=mend",
            "quarantine_mode=YYY",
            "quarantine_invalid_sstables=maybe",
            "scrub_mode=SEGREGATE&quarantine_invalid_sstables=false",
            "drop_unfixable_sstables=true",
        ] {
            assert_eq!(order(bad).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn types_of_compactions_have_names() {
        assert_eq!(kinds("compaction").unwrap(), [CompactionKind::Minor, CompactionKind::Major]);
        assert_eq!(kinds("RESHARD").unwrap(), [CompactionKind::Reshard]);
        assert!(kinds("RESHAPE").unwrap().is_empty());
        assert_eq!(kinds("mend").unwrap_err().status, 400);
    }
}
