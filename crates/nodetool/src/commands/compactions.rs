//! Merges: those that run, those that ran, stopping them.

use crate::answer::{list, pairs, plain};
use crate::arguments::{Opt, one};
use crate::entry::Entry;
use crate::failure::{Done, wrong};
use crate::print::{Form, Side, columns, left, moment, size, value};
use crate::session::Session;
use serde_json::{Value, json};

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "compactionhistory",
        about: "Finished compactions",
        options: &[Opt::text("format", &["-F"], "text, json or yaml [default: text]")],
        places: &[],
        run: |session| Box::pin(history(session)),
    },
    Entry {
        name: "compactionstats",
        about: "Compactions in flight, and pending ones",
        options: &[Opt::flag("human-readable", &["-H"], "Bytes in KB, MB ..")],
        places: &[],
        run: |session| Box::pin(stats(session)),
    },
    Entry {
        name: "stop",
        about: "Stop compactions of a type",
        options: &[Opt::text("id", &["-id"], "Not supported")],
        places: &[one("compaction_type", "COMPACTION, CLEANUP, SCRUB, RESHAPE, RESHARD, UPGRADE")],
        run: |session| Box::pin(stop(session)),
    },
];

const TOMBSTONES: [&str; 3] = [
    "total_tombstone_purge_attempt",
    "total_tombstone_purge_failure_due_to_overlapping_with_memtable",
    "total_tombstone_purge_failure_due_to_overlapping_with_uncompacting_sstable",
];

async fn history(session: &mut Session) -> Done {
    let form = Form::named(session.given.text("format"))?;
    let told = session.get("/compaction_manager/compaction_history").await?;
    let mut ended: Vec<&Value> = list(&told).collect();
    ended.sort_by_key(|one| std::cmp::Reverse(one["compacted_at"].as_i64()));
    let ended: Vec<Value> = ended.into_iter().map(ended_of).collect();
    if form != Form::Text {
        let all = json!({ "CompactionHistory": ended });
        return session.say(&value(&all, form)?);
    }
    session.say(&format!("Compaction History:\n{}", history_text(&ended)))
}

/// One that has ended, with the names of what is printed.
fn ended_of(told: &Value) -> Value {
    let at = |name: &str| moment(told[name].as_i64().unwrap_or(0));
    let number = |name: &str| told[name].as_u64().unwrap_or(0);
    let files = |name: &str| {
        let files = list(&told[name]).map(|file| {
            json!({
                "generation": generation(&plain(&file["generation"])),
                "origin": plain(&file["origin"]),
                "size": file["size"].as_u64().unwrap_or(0),
            })
        });
        Value::Array(files.collect())
    };
    let merged = list(&told["rows_merged"]).cloned().collect();
    let mut one = json!({
        "id": plain(&told["id"]),
        "shard_id": number("shard_id"),
        "columnfamily_name": plain(&told["cf"]),
        "keyspace_name": plain(&told["ks"]),
        "compaction_type": plain(&told["compaction_type"]),
        "started_at": at("started_at"),
        "compacted_at": at("compacted_at"),
        "bytes_in": number("bytes_in"),
        "bytes_out": number("bytes_out"),
        "rows_merged": Value::Array(merged),
        "sstables_in": files("sstables_in"),
        "sstables_out": files("sstables_out"),
    });
    for name in TOMBSTONES {
        one[name] = json!(number(name));
    }
    one
}

fn history_text(ended: &[Value]) -> String {
    let names = [
        "id",
        "shard_id",
        "keyspace_name",
        "columnfamily_name",
        "compaction_type",
        "started_at",
        "compacted_at",
        "bytes_in",
        "bytes_out",
        "rows_merged",
        "sstables_in",
        "sstables_out",
        TOMBSTONES[0],
        TOMBSTONES[1],
        TOMBSTONES[2],
        "",
    ];
    let files = |files: &Value| {
        let files = list(files).map(|file| {
            let [generation, origin, size] =
                ["generation", "origin", "size"].map(|name| &file[name]);
            format!(
                "{{generation: {}, origin: {}, size: {}}}",
                plain(generation),
                plain(origin),
                plain(size)
            )
        });
        format!("[{}]", files.collect::<Vec<_>>().join(", "))
    };
    let mut rows = vec![names.map(str::to_string).to_vec()];
    rows.extend(ended.iter().map(|one| {
        let cell = |name: &str| match name {
            "rows_merged" => {
                let merged = pairs(&one[name]);
                let merged = merged.iter().map(|(key, count)| format!("{key}: {}", plain(count)));
                format!("{{{}}}", merged.collect::<Vec<_>>().join(", "))
            }
            "sstables_in" | "sstables_out" => files(&one[name]),
            name => plain(&one[name]),
        };
        names.map(cell).to_vec()
    }));
    let sides = names.map(|name| match name {
        "shard_id" | "bytes_in" | "bytes_out" => Side::Right,
        _ => Side::Left,
    });
    columns(&sides, &rows)
}

/// The name of an SSTable as a UUID, where it is one in base 36: days, seconds and tenths of
/// microseconds since 1582, then its other half.
fn generation(name: &str) -> String {
    let uuid = || {
        let (days, rest) = name.split_once('_')?;
        let (seconds, rest) = rest.split_once('_')?;
        let (ticks, half) = rest.split_at_checked(5)?;
        let number = |text: &str| u64::from_str_radix(text, 36).ok();
        let seconds = number(days)?.checked_mul(86_400)?.checked_add(number(seconds)?)?;
        let ticks = seconds.checked_mul(10_000_000)?.checked_add(number(ticks)?)?;
        let half = number(half)?;
        Some(format!(
            "{:08x}-{:04x}-1{:03x}-{:04x}-{:012x}",
            ticks & 0xffff_ffff,
            ticks >> 32 & 0xffff,
            ticks >> 48 & 0xfff,
            half >> 48,
            half & 0xffff_ffff_ffff
        ))
    };
    uuid().unwrap_or_else(|| name.to_string())
}

async fn stats(session: &mut Session) -> Done {
    let waiting = session.get("/compaction_manager/metrics/pending_tasks_by_table").await?;
    let count = |task: &Value| task["task"].as_u64().unwrap_or(0);
    let total: u64 = list(&waiting).map(count).sum();
    let mut text = format!("pending tasks: {total}\n");
    for task in list(&waiting) {
        text += &format!("- {}.{}: {}\n", plain(&task["ks"]), plain(&task["cf"]), count(task));
    }
    text.push('\n');
    let running = session.get("/compaction_manager/compactions").await?;
    if list(&running).next().is_some() {
        let limit = session.get("/storage_service/compaction_throughput").await?;
        let is_human = session.given.flag("human-readable");
        text += &running_text(&running, limit.as_u64().unwrap_or(0), is_human);
    }
    session.say(&text)
}

fn running_text(running: &Value, limit_mib: u64, is_human: bool) -> String {
    let head =
        ["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let mut left_over = 0;
    for one in list(running) {
        let [completed, total] = ["completed", "total"].map(|name| one[name].as_u64().unwrap_or(0));
        left_over += total.saturating_sub(completed);
        let progress = match total {
            0 => "n/a".to_string(),
            total => format!("{:.2}%", completed as f64 * 100.0 / total as f64),
        };
        let shown = |count: u64| match is_human && one["unit"] == "bytes" {
            true => size(count as f64),
            false => count.to_string(),
        };
        let [id, kind, ks, cf, unit] =
            ["id", "task_type", "ks", "cf", "unit"].map(|name| plain(&one[name]));
        rows.push(vec![id, kind, ks, cf, shown(completed), shown(total), unit, progress]);
    }
    // Nodes that know tell how long each goes on; others tell how fast they may be.
    let told = list(running).filter_map(|one| one["remaining_ms"].as_u64()).max();
    let by_limit = || left_over.checked_div(limit_mib.saturating_mul(1 << 20));
    let remaining = match told.map(|millis| millis / 1000).or_else(by_limit) {
        None => "n/a".to_string(),
        Some(secs) => format!("{}h{:02}m{:02}s", secs / 3600, secs / 60 % 60, secs % 60),
    };
    format!("{}Active compaction remaining time : {remaining:>10}\n", left(&rows))
}

const KINDS: [&str; 6] = ["COMPACTION", "CLEANUP", "SCRUB", "RESHAPE", "RESHARD", "UPGRADE"];

async fn stop(session: &mut Session) -> Done {
    if session.given.text("id").is_some() {
        return wrong("stopping compactions by id is not implemented");
    }
    let Some(kind) = session.given.text("compaction_type").map(str::to_string) else {
        return wrong("missing required parameter: compaction_type");
    };
    if !KINDS.contains(&kind.as_str()) {
        return wrong(format!("invalid compaction type: {kind}"));
    }
    let parameters = vec![("type", kind)];
    session.post("/compaction_manager/stop_compaction", parameters).await.map(drop)
}

#[cfg(test)]
mod tests;
