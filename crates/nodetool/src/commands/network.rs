//! Streams, messages, gossip, and how long requests take at the coordinator.

use crate::answer::{figure, list, pairs, plain};
use crate::arguments::Opt;
use crate::entry::Entry;
use crate::failure::{Done, Failure};
use crate::histogram::{names, of_sample};
use crate::print::size_iec;
use crate::session::Session;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[
    Entry {
        name: "netstats",
        about: "Streams, read repairs and messages between nodes",
        options: &[Opt::flag("human-readable", &["-H"], "Bytes in KiB, MiB ..")],
        places: &[],
        run: |session| Box::pin(netstats(session)),
    },
    Entry {
        name: "gossipinfo",
        about: "Gossip state of each node",
        options: &[],
        places: &[],
        run: |session| Box::pin(gossip_info(session)),
    },
    Entry {
        name: "proxyhistograms",
        about: "Latency percentiles of requests at the coordinator",
        options: &[],
        places: &[],
        run: |session| Box::pin(proxy_histograms(session)),
    },
];

async fn netstats(session: &mut Session) -> Done {
    let is_human = session.given.flag("human-readable");
    let mode = session.get("/storage_service/operation_mode").await?;
    let mut text = format!("Mode: {}\n", plain(&mode));
    text += &moves(session, is_human).await?;
    let streams = session.counted("/stream_manager/", &[]).await?;
    if list(&streams).next().is_none() {
        text += "Not sending any streams.\n";
    }
    for stream in list(&streams) {
        text += &stream_text(stream, is_human);
    }
    if session.get("/storage_service/is_starting").await? == Value::Bool(true) {
        return session.say(&text);
    }
    text += "Read Repair Statistics:\n";
    for (name, path) in [
        ("Attempted", "/storage_proxy/read_repair_attempted"),
        ("Mismatch (Blocking)", "/storage_proxy/read_repair_repaired_blocking"),
        ("Mismatch (Background)", "/storage_proxy/read_repair_repaired_background"),
    ] {
        text += &format!("{name}: {}\n", figure(&session.counted(path, &[]).await?));
    }
    text += &pool(["Pool Name", "Active", "Pending", "Completed", "Dropped"]);
    for (name, pending, completed) in [
        ("Large messages", "pending", "sent"),
        ("Small messages", "respond_pending", "respond_completed"),
    ] {
        let path = "/messaging_service/messages/";
        let pending = total(&session.counted(&format!("{path}{pending}"), &[]).await?);
        let completed = total(&session.counted(&format!("{path}{completed}"), &[]).await?);
        text += &pool([name, "n/a", &pending, &completed, "0"]);
    }
    text += &pool(["Gossip messages", "n/a", "0", "0", "0"]);
    session.say(&text)
}

/// What the node takes from others, if it says so.
async fn moves(session: &mut Session, is_human: bool) -> Result<String, Failure> {
    if !session.is_own() {
        return Ok(String::new());
    }
    let taken = session.get("/storage_service/moves").await?;
    Ok(if taken.is_null() { String::new() } else { moves_text(&taken, is_human) })
}

fn moves_text(taken: &Value, is_human: bool) -> String {
    let of = |giver: &Value| {
        let (done, parts, bytes) =
            (count(&giver["parts_done"]), count(&giver["parts"]), count(&giver["bytes"]));
        let bytes = if is_human { size_iec(bytes as f64) } else { format!("{bytes} bytes") };
        format!("{done} of {parts} parts, {bytes}")
    };
    let (what, stage) = (plain(&taken["what"]), plain(&taken["stage"]));
    let mut text = format!("Receiving {what} ({stage}): {}\n", of(taken));
    for giver in list(&taken["from"]) {
        let node = if giver["address"].is_null() { &giver["host_id"] } else { &giver["address"] };
        text += &format!("    /{}: {}\n", plain(node), of(giver));
    }
    let waits = plain(&taken["waits_for"]);
    if !waits.is_empty() {
        text += &format!("    waits: {waits}\n");
    }
    text
}

fn pool(cells: [&str; 5]) -> String {
    let [name, active, pending, completed, dropped] = cells;
    format!("{name:<25}{active:>10}{pending:>10}{completed:>15}{dropped:>10}\n")
}

fn total(nodes: &Value) -> String {
    pairs(nodes).iter().filter_map(|(_, count)| count.as_u64()).sum::<u64>().to_string()
}

fn stream_text(stream: &Value, is_human: bool) -> String {
    let mut text = format!("{} {}\n", plain(&stream["description"]), plain(&stream["plan_id"]));
    for session in list(&stream["sessions"]) {
        let (peer, by) = (plain(&session["peer"]), plain(&session["connecting"]));
        text += &match peer == by {
            true => format!("    /{peer}\n"),
            false => format!("    /{peer} (using /{by})\n"),
        };
        for (side, doing, done, from) in
            [("receiving", "Receiving", "received", "from"), ("sending", "Sending", "sent", "to")]
        {
            let summaries = &session[format!("{side}_summaries")];
            let files: Vec<_> =
                pairs(&session[format!("{side}_files")]).into_iter().map(|file| file.1).collect();
            if list(summaries).next().is_none() {
                continue;
            }
            text += &side_text(summaries, &files, [doing, done], is_human);
            for file in &files {
                text += &file_text(file, done, from);
            }
        }
    }
    text
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn side_text(summaries: &Value, files: &[Value], words: [&str; 2], is_human: bool) -> String {
    let sum = |name: &str| list(summaries).map(|table| count(&table[name])).sum::<u64>();
    let current: u64 = files.iter().map(|file| count(&file["current_bytes"])).sum();
    let ended = files.iter().filter(|file| file["current_bytes"] == file["total_bytes"]).count();
    let bytes = |bytes: u64| match is_human {
        true => size_iec(bytes as f64),
        false => format!("{bytes} bytes"),
    };
    let [doing, done] = words;
    format!(
        "        {doing} {} files, {} total. Already {done} {ended} files, {} total\n",
        sum("files"),
        bytes(sum("total_size")),
        bytes(current)
    )
}

fn file_text(file: &Value, done: &str, from: &str) -> String {
    let (current, total) = (count(&file["current_bytes"]), count(&file["total_bytes"]));
    let percent = if total == 0 { 100 } else { (current as f64 / total as f64 * 100.0) as u64 };
    format!(
        "            {} {current}/{total} bytes({percent}%) {done} {from} idx:{}/{}\n",
        plain(&file["file_name"]),
        plain(&file["session_index"]),
        plain(&file["peer"])
    )
}

/// What a number of an application's state stands for; the tokens are left out.
const STATES: [&str; 23] = [
    "STATUS",
    "LOAD",
    "SCHEMA",
    "DC",
    "RACK",
    "RELEASE_VERSION",
    "REMOVAL_COORDINATOR",
    "INTERNAL_IP",
    "RPC_ADDRESS",
    "X_11_PADDING",
    "SEVERITY",
    "NET_VERSION",
    "HOST_ID",
    "TOKENS",
    "SUPPORTED_FEATURES",
    "CACHE_HITRATES",
    "SCHEMA_TABLES_VERSION",
    "RPC_READY",
    "VIEW_BACKLOG",
    "SHARD_COUNT",
    "IGNORE_MSB_BITS",
    "CDC_GENERATION_ID",
    "SNITCH_NAME",
];

async fn gossip_info(session: &mut Session) -> Done {
    let nodes = session.get("/failure_detector/endpoints").await?;
    let mut text = String::new();
    for node in list(&nodes) {
        text += &format!(
            "/{}\n  generation:{}\n  heartbeat:{}\n",
            plain(&node["addrs"]),
            plain(&node["generation"]),
            plain(&node["version"])
        );
        for state in list(&node["application_state"]) {
            let number = count(&state["application_state"]) as usize;
            match STATES.get(number) {
                Some(&"TOKENS") => {}
                Some(name) => text += &format!("  {name}:{}\n", plain(&state["value"])),
                None => text += &format!("  {number}:{}\n", plain(&state["value"])),
            }
        }
        text.push('\n');
    }
    session.say(&text)
}

async fn proxy_histograms(session: &mut Session) -> Done {
    let kinds = [
        ("Read Latency", "read"),
        ("Write Latency", "write"),
        ("Range Latency", "range"),
        ("CAS Read Latency", "cas_read"),
        ("CAS Write Latency", "cas_write"),
        ("View Write Latency", "view_write"),
    ];
    let mut text = format!("proxy histograms\n{:<10}", "Percentile");
    let mut spreads = Vec::new();
    for (name, kind) in kinds {
        let path = format!("/storage_proxy/metrics/{kind}/moving_average_histogram");
        spreads.push(of_sample(&session.counted(&path, &[]).await?));
        text += &format!("{name:>19}");
    }
    text += &format!("\n{:10}", "");
    text += &format!("{:>19}", "(micros)").repeat(kinds.len());
    text.push('\n');
    for (index, name) in names().enumerate() {
        text += &format!("{name:<10}");
        for spread in &spreads {
            text += &format!("{:>19.2}", spread[index]);
        }
        text.push('\n');
    }
    text.push('\n');
    session.say(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_taken_is_told_by_node() {
        let taken = json!({
            "stage": "write_both_read_old", "what": "ring", "waits_for": "a disk",
            "parts": 12, "parts_done": 5, "bytes": 3 << 20,
            "from": [
                { "host_id": "h1", "address": "10.0.0.1", "parts": 8, "parts_done": 5,
                  "bytes": 3 << 20 },
                { "host_id": "h2", "address": null, "parts": 4, "parts_done": 0, "bytes": 0 },
            ],
        });
        assert_eq!(
            moves_text(&taken, true),
            "Receiving ring (write_both_read_old): 5 of 12 parts, 3.00 MiB\n    /10.0.0.1: 5 of \
             8 parts, 3.00 MiB\n    /h2: 0 of 4 parts, 0 bytes\n    waits: a disk\n"
        );
    }
}
