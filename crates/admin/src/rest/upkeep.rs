//! What a scrub is told and does; `/compaction_manager/stop_*`: ending what is done to SSTables.

use super::Door;
use super::api::{Answered, Api, Kind, Operation};
use super::tables::{CF, listed};
use super::work::{SCRUB, Tables, on_shards};
use crate::call::{Answer, Call};
use crate::tasks::Running;
use model::TableId;
use runtime::{local, on_all_shards, on_shard};
use std::rc::Rc;
use storage::{
    CompactionKind, Invalid, Memtables, ScrubMode, SnapshotOrder, SnapshotTag, Storage, Upkeep,
    UpkeepDone,
};

/// How a scrub ended, in the numbers that callers know.
pub(super) const SCRUBBED: u8 = 0;
const ABORTED: u8 = 1;
const INVALID: u8 = 3;

pub(super) fn operations(api: &mut Api) {
    api.post("/compaction_manager/stop_compaction", "Stops compactions of a type", stop_all).needs(
        "type",
        Kind::OneOf(TYPES),
        "Which",
    );
    let path = "/compaction_manager/stop_keyspace_compaction/{keyspace}";
    api.post(path, "Stops compactions of a type in a keyspace", stop_some)
        .needs("type", Kind::OneOf(TYPES), "Which")
        .takes("tables", Kind::Text, CF);
}

const TYPES: &[&str] = &[
    "COMPACTION",
    "MAJOR",
    "SCRUB",
    "VALIDATION",
    "UPGRADE",
    "RESHARD",
    "CLEANUP",
    "RESHAPE",
    "INDEX_BUILD",
    "SPLIT",
];

pub(super) fn scrub_parameters(operation: &mut Operation) {
    operation
        .takes("cf", Kind::Text, CF)
        .takes(
            "scrub_mode",
            Kind::OneOf(&["ABORT", "SKIP", "SEGREGATE", "VALIDATE"]),
            "What is done; VALIDATE if not said",
        )
        .takes(
            "quarantine_mode",
            Kind::OneOf(&["INCLUDE", "EXCLUDE", "ONLY"]),
            "What of quarantine/ is looked at; INCLUDE if not said",
        )
        .takes("quarantine_invalid_sstables", Kind::Flag, "Whether VALIDATE puts aside; true")
        .takes("skip_corrupted", Kind::Flag, "The same as scrub_mode=SKIP")
        .takes("disable_snapshot", Kind::Flag, "Whether no snapshot is taken before")
        .takes("drop_unfixable_sstables", Kind::Flag, "Not supported");
}

async fn stop_all(_: &Rc<Door>, call: &Call) -> Answered {
    stop(call, None).await
}

async fn stop_some(door: &Rc<Door>, call: &Call) -> Answered {
    let tables = listed(door, call, call.segment("keyspace"), "tables")?;
    stop(call, Some(tables)).await
}

/// `type`: what is to end.
async fn stop(call: &Call, tables: Option<Vec<TableId>>) -> Answered {
    let kinds = kinds(call.parameter("type").unwrap_or_default())?;
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

/// Which SSTables a scrub looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quarantined {
    Included,
    LeftOut,
    Alone,
}

/// What a scrub is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    what: Upkeep,
    quarantined: Quarantined,
    /// Whether a snapshot is taken before.
    snapshot: bool,
}

impl Order {
    pub(super) fn of(call: &Call) -> Result<Order, Answer> {
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

/// A scrub; the number says how it ended.
pub(super) async fn scrub(task: &Running, order: Order, tables: Tables) -> Result<u8, String> {
    let Order { what, quarantined, snapshot } = order;
    if stdx::injection::reached("rest_api_keyspace_scrub_abort") {
        return Ok(ABORTED);
    }
    if snapshot {
        take_snapshot(tables.ids.clone()).await?;
    }
    let mut done = Vec::new();
    if quarantined != Quarantined::Alone {
        let kept_up = move |storage: Rc<Storage>, table| async move {
            storage.keep_up(table, what).await.map_err(|error| error.to_string())
        };
        done.extend(on_shards(task, SCRUB, &tables, kept_up).await?);
    }
    if quarantined != Quarantined::LeftOut {
        task.check()?;
        done.extend(keep_up_quarantined(tables.ids.clone(), what).await?);
    }
    let is_scrub = matches!(what, Upkeep::Scrub(_));
    let sstables: u64 = done.iter().map(|one| one.sstables).sum();
    let mode = match what {
        Upkeep::Scrub(ScrubMode::Abort) => "abort",
        Upkeep::Scrub(ScrubMode::Skip) => "skip",
        Upkeep::Scrub(ScrubMode::Segregate) => "segregate",
        _ => "validate",
    };
    tracing::info!(
        target: "compaction",
        "Finished scrubbing in {mode} mode: {sstables} sstables of {}",
        tables.keyspace
    );
    if let Some(what) = damage(&done) {
        task.note_found(what);
    }
    Ok(match () {
        () if done.iter().any(|one| one.aborted.is_some()) => ABORTED,
        () if !is_scrub && done.iter().any(|one| !one.invalid.is_empty()) => INVALID,
        () => SCRUBBED,
    })
}

/// What is wrong, in words; `None`: nothing.
fn damage(done: &[UpkeepDone]) -> Option<String> {
    let invalid: usize = done.iter().map(|one| one.invalid.len()).sum();
    match done.iter().find_map(|one| one.aborted.as_ref()) {
        Some(why) => Some(format!("stopped at the first damaged SSTable: {why}")),
        None => (0 < invalid).then(|| format!("{invalid} damaged SSTables")),
    }
}

async fn take_snapshot(tables: Vec<TableId>) -> Result<(), String> {
    let millis = runtime::time::wall_micros().div_euclid(1000);
    let tag = SnapshotTag::new(&format!("pre-scrub-{millis}"))?;
    let order = SnapshotOrder { tag, memtables: Memtables::Flushed, ttl: None };
    let taken = local::get::<Storage>().take_snapshot(tables, order).await;
    taken.map_err(|error| error.to_string())
}

async fn keep_up_quarantined(
    tables: Vec<TableId>,
    what: Upkeep,
) -> Result<Vec<UpkeepDone>, String> {
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
    asked.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

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
    fn damage_is_told_in_words() {
        let clean = UpkeepDone { sstables: 3, ..UpkeepDone::default() };
        assert_eq!(damage(std::slice::from_ref(&clean)), None);
        let invalid = UpkeepDone { invalid: vec!["a".to_owned(), "b".to_owned()], ..clean.clone() };
        assert_eq!(damage(&[clean.clone(), invalid]).as_deref(), Some("2 damaged SSTables"));
        let aborted = UpkeepDone { aborted: Some("a: rows out of order".to_owned()), ..clean };
        let told = damage(&[aborted]).unwrap();
        assert!(told.starts_with("stopped at") && told.ends_with("a: rows out of order"), "{told}");
    }

    #[test]
    fn types_of_compactions_have_names() {
        assert_eq!(kinds("compaction").unwrap(), [CompactionKind::Minor, CompactionKind::Major]);
        assert_eq!(kinds("RESHARD").unwrap(), [CompactionKind::Reshard]);
        assert!(kinds("RESHAPE").unwrap().is_empty());
        assert_eq!(kinds("mend").unwrap_err().status, 400);
    }
}
