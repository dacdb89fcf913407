//! All about one node.

use crate::answer::{figure, list, plain, texts};
use crate::arguments::Opt;
use crate::entry::Entry;
use crate::failure::{Done, Failure};
use crate::print::size;
use crate::session::Session;
use serde_json::Value;

pub(super) const COMMANDS: &[Entry] = &[Entry {
    name: "info",
    about: "Identity, load, uptime, memory and caches of the node",
    options: &[Opt::flag("tokens", &["-T"], "All tokens")],
    places: &[],
    run: |session| Box::pin(info(session)),
}];

const OFF_HEAP: [&str; 4] = [
    "memtable_off_heap_size",
    "bloom_filter_off_heap_memory_used",
    "index_summary_off_heap_memory_used",
    "compression_metadata_off_heap_memory_used",
];

fn line(name: &str, value: &str) -> String {
    format!("{name:<23}: {value}\n")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

async fn info(session: &mut Session) -> Done {
    let mut text = String::new();
    for (name, path) in [
        ("ID", "/storage_service/hostid/local"),
        ("Gossip active", "/storage_service/gossiping"),
        ("Thrift active", "/storage_service/rpc_server"),
        ("Native Transport active", "/storage_service/native_transport"),
    ] {
        text += &line(name, &figure(&session.counted(path, &[]).await?));
    }
    text += &line("Load", &size(number(&session.counted("/storage_service/load", &[]).await?)));
    let generation = session.counted("/storage_service/generation_number", &[]).await?;
    text += &line("Generation No", &figure(&generation));
    let uptime = session.counted("/system/uptime_ms", &[]).await?.as_u64().unwrap_or(0) / 1000;
    text += &line("Uptime (seconds)", &uptime.to_string());
    // There is no heap of Java; the line is read by scripts.
    text += &line("Heap Memory (MB)", "0.00 / 0.00");
    let off_heap = off_heap(session).await? / 1024.0 / 1024.0;
    text += &line("Off Heap Memory (MB)", &format!("{off_heap:.2}"));
    for (name, path) in [
        ("Data Center", "/snitch/datacenter"),
        ("Rack", "/snitch/rack"),
        ("Exceptions", "/storage_service/metrics/exceptions"),
    ] {
        text += &line(name, &figure(&session.counted(path, &[]).await?));
    }
    for (name, kind) in [("Key Cache", "key"), ("Row Cache", "row"), ("Counter Cache", "counter")] {
        text += &line(name, &cache(session, kind).await?);
    }
    text += &line("Percent Repaired", "0.0%");
    text += &tokens(session).await?;
    text += &session.notice();
    session.say(&text)
}

async fn off_heap(session: &mut Session) -> Result<f64, Failure> {
    let tables = session.get("/column_family/").await?;
    let mut sum = 0.0;
    for table in list(&tables) {
        let table = format!("{}:{}", plain(&table["ks"]), plain(&table["cf"]));
        for name in OFF_HEAP {
            let path = format!("/column_family/metrics/{name}");
            sum += number(&session.counted(&path, &[&table]).await?);
        }
    }
    Ok(sum)
}

async fn cache(session: &mut Session, kind: &str) -> Result<String, Failure> {
    let base = format!("/cache_service/metrics/{kind}");
    let entries = session.counted(&format!("{base}/entries"), &[]).await?;
    let bytes = session.counted(&format!("{base}/size"), &[]).await?;
    let capacity = session.counted(&format!("{base}/capacity"), &[]).await?;
    // The names of the API are misspelled.
    let hits = session.counted(&format!("{base}/hits_moving_avrage"), &[]).await?;
    let requests = session.counted(&format!("{base}/requests_moving_avrage"), &[]).await?;
    let rate = session.counted(&format!("{base}/hit_rate"), &[]).await?;
    let period = session.counted(&format!("/cache_service/{kind}_cache_save_period"), &[]).await?;
    Ok(format!(
        "entries {}, size {}, capacity {}, {} hits, {} requests, {:.3} recent hit rate, {} save \
         period in seconds",
        figure(&entries),
        size(number(&bytes)),
        size(number(&capacity)),
        figure(&hits["count"]),
        figure(&requests["count"]),
        number(&rate),
        figure(&period)
    ))
}

async fn tokens(session: &mut Session) -> Result<String, Failure> {
    if session.get("/storage_service/join_ring").await? != Value::Bool(true) {
        return Ok(line("Token", "(node is not joined to the cluster)"));
    }
    let tokens = texts(&session.get("/storage_service/tokens").await?);
    if session.given.flag("tokens") {
        return Ok(tokens.iter().map(|token| line("Token", token)).collect());
    }
    let count = tokens.len();
    Ok(line("Token", &format!("(invoke with -T/--tokens to see all {count} tokens)")))
}
