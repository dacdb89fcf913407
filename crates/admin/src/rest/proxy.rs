//! `/storage_proxy`: what coordinators do; `/cache_service`, `/commitlog`, `/lsa`: what else the
//! node counts and keeps.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::latency::{bucketed, estimated, histogram, meter, moving};
use crate::call::{Answer, Call};
use cluster::rates::taken_on_node;
use cluster::settings::{By, Settings};
use cluster::traffic::{Contended, Failure, Rates, Taken, Traffic, Work};
use hyper::Method;
use runtime::{local, on_all_shards};
use serde_json::{Value, json};
use std::rc::Rc;
use storage::commitlog::LogStats;
use storage::{Log, RowCacheStats, Storage};

pub(super) fn operations(api: &mut Api) {
    timeouts(api);
    repairs(api);
    for (name, work) in [
        ("read", Work::Read),
        ("write", Work::Write),
        ("range", Work::Scan),
        ("cas_read", Work::CasRead),
        ("cas_write", Work::CasWrite),
    ] {
        latencies(api, name, work);
    }
    conditional(api);
    caches(api);
    row_cache(api);
    logs(api);
    others(api);
}

/// An option of milliseconds, shown and set in seconds.
fn timeouts(api: &mut Api) {
    for (name, option) in [
        ("rpc_timeout", "request_timeout_in_ms"),
        ("read_rpc_timeout", "read_request_timeout_in_ms"),
        ("write_rpc_timeout", "write_request_timeout_in_ms"),
        ("counter_write_rpc_timeout", "counter_write_request_timeout_in_ms"),
        ("cas_contention_timeout", "cas_contention_timeout_in_ms"),
        ("range_rpc_timeout", "range_request_timeout_in_ms"),
        ("truncate_rpc_timeout", "truncate_request_timeout_in_ms"),
    ] {
        let path = format!("/storage_proxy/{name}");
        api.get(path.clone(), "Seconds that it may take", async move |_: &Rc<Door>, _: &Call| {
            let shown = Settings::of_shard().shown();
            let option = shown.into_iter().find(|one| one.name == option);
            let millis = option.and_then(|option| option.value.parse::<f64>().ok());
            Ok(Answer::json(json!(millis.unwrap_or(0.0) / 1000.0)))
        });
        let set = async move |_: &Rc<Door>, call: &Call| {
            let secs: f64 = call.number("timeout", None)?;
            if !(0.001..=1e6).contains(&secs) {
                let text = format!("timeout: not 0.001 to 1000000 seconds: {secs}");
                return Err(Answer::refused(400, text));
            }
            let millis = (secs * 1000.0).round() as i64;
            let set = Settings::change(option.to_owned(), millis.to_string(), By::Operator).await;
            set.map_err(|why| Answer::refused(400, format!("timeout: {why}")))?;
            tracing::info!(target: "config", millis, "{option} changed");
            Ok(Answer::done())
        };
        api.post(path, "Sets it", set).needs("timeout", Kind::Number, "Seconds");
    }
}

/// What needs other nodes, and has not happened.
fn repairs(api: &mut Api) {
    for (name, summary) in [
        ("read_repair_attempted", "Read repairs"),
        ("read_repair_repaired_blocking", "Blocking read repairs"),
        ("read_repair_repaired_background", "Background read repairs"),
    ] {
        api.tells(format!("/storage_proxy/{name}"), summary, |_| json!(0));
    }
    api.tells("/storage_proxy/schema_versions", "Which nodes have which schema", |door| {
        let address = door.cluster.node().broadcast_address.to_string();
        let version = door.cluster.schema().version.to_string();
        json!([{ "key": version, "value": [address] }])
    });
}

async fn failures(work: Work, failure: Failure) -> u64 {
    let asked =
        on_all_shards(move || async move { Traffic::of_shard().failures(work, failure) }).await;
    asked.into_iter().sum()
}

/// The rate of what has happened so often since the start: nobody looks at it in between, so that
/// the mean stands for the last minutes too.
fn since_start(door: &Door, count: u64) -> Rates {
    let mut rates = Rates::default();
    rates.look(count, door.cluster.node().uptime().as_secs_f64());
    rates
}

fn latencies(api: &mut Api, name: &str, work: Work) {
    let path = format!("/storage_proxy/metrics/{name}");
    type Show = fn(&Taken) -> Value;
    let shown: [(&str, &str, Show); 4] = [
        ("", "Number of operations", |taken| json!(taken.spans.count())),
        ("/histogram", "Latency histogram", |taken| histogram(&taken.spans)),
        ("/moving_average_histogram", "Rates and latency histogram", moving),
        ("/estimated_histogram", "Latency histogram", |taken| estimated(&taken.spans)),
    ];
    for (form, summary, show) in shown {
        api.get(format!("{path}{form}"), summary, async move |_: &Rc<Door>, _: &Call| {
            Ok(Answer::json(show(&taken_on_node(work, None).await)))
        });
    }
    for (form, summary, failure) in [
        ("timeouts", "Timeouts", Failure::Timeout),
        (
            "unavailables",
            "Requests that failed because too few replicas were alive",
            Failure::Unavailable,
        ),
    ] {
        api.get(format!("{path}/{form}"), summary, async move |_: &Rc<Door>, _: &Call| {
            Ok(Answer::json(json!(failures(work, failure).await)))
        });
        let rates = async move |door: &Rc<Door>, _: &Call| {
            Ok(Answer::json(meter(&since_start(door, failures(work, failure).await))))
        };
        api.get(format!("{path}/{form}_rates"), "Rate since the start", rates);
    }
}

fn conditional(api: &mut Api) {
    type Ask = fn(&Traffic) -> u64;
    let asked: [(&str, &str, Ask); 3] = [
        (
            "cas_write/condition_not_met",
            "Conditional writes whose condition was not met",
            |traffic| traffic.cas.condition_not_met.get(),
        ),
        ("cas_write/unfinished_commit", "Unfinished Paxos rounds that they completed", |traffic| {
            traffic.cas.unfinished_commits.get()
        }),
        ("cas_read/unfinished_commit", "Unfinished Paxos rounds that they completed", |traffic| {
            traffic.cas.unfinished_by_reads.get()
        }),
    ];
    for (name, summary, ask) in asked {
        let sum = async move |_: &Rc<Door>, _: &Call| {
            let all = on_all_shards(move || async move { ask(&Traffic::of_shard()) }).await;
            Ok(Answer::json(json!(all.into_iter().sum::<u64>())))
        };
        api.get(format!("/storage_proxy/metrics/{name}"), summary, sum);
    }
    type Of = fn(&Traffic) -> &Contended;
    let contended: [(&str, Of); 2] = [
        ("cas_read/contention", |traffic| &traffic.cas.contended_reads),
        ("cas_write/contention", |traffic| &traffic.cas.contended_writes),
    ];
    for (name, of) in contended {
        let sum = async move |_: &Rc<Door>, _: &Call| {
            let all = on_all_shards(move || async move { of(&Traffic::of_shard()).counts() });
            let all = all.await;
            let beyond = Contended::BOUNDS[Contended::BOUNDS.len() - 1] + 1;
            let bounds = Contended::BOUNDS.into_iter().chain([beyond]).enumerate();
            let sums = bounds.map(|(at, bound)| (bound, all.iter().map(|it| it[at]).sum()));
            Ok(Answer::json(bucketed(sums)))
        };
        let summary = "How often they began a Paxos round again, of those that did";
        api.get(format!("/storage_proxy/metrics/{name}"), summary, sum);
    }
    let path = "/storage_proxy/metrics/view_write/moving_average_histogram";
    api.tells(path, "Writes of views: there are none", |_| moving(&Taken::default()));
}

/// Caches that this node does not have, and files of caches that it does not write.
fn caches(api: &mut Api) {
    for cache in ["key", "counter"] {
        for figure in ["capacity", "hits", "requests", "size", "entries"] {
            let path = format!("/cache_service/metrics/{cache}/{figure}");
            api.tells(path, "Of a cache that this node does not have", |_| json!(0));
        }
        let path = format!("/cache_service/metrics/{cache}/hit_rate");
        api.tells(path, "Of a cache that this node does not have", |_| json!(0.0));
        for figure in ["hits_moving_avrage", "requests_moving_avrage"] {
            let path = format!("/cache_service/metrics/{cache}/{figure}");
            let summary = "Of a cache that this node does not have";
            api.tells(path, summary, |_| meter(&Rates::default()));
        }
    }
    for cache in ["row", "key", "counter"] {
        let path = format!("/cache_service/{cache}_cache_save_period");
        api.tells(path, "Seconds between files of the cache: it has none", |_| json!(0));
        let path = format!("/cache_service/{cache}_cache_keys_to_save");
        api.tells(path, "Keys in files of the cache: it has none", |_| json!(0));
    }
    for path in ["/cache_service/invalidate_key_cache", "/cache_service/invalidate_counter_cache"] {
        api.post(path, "Empties a cache that is always empty", async |_, _| Ok(Answer::done()));
    }
}

async fn rows<T: Send + 'static>(figure: fn(&RowCacheStats) -> T) -> Vec<T> {
    let asked = on_all_shards(move || async move {
        let storage = local::try_get::<Storage>();
        figure(&storage.map(|storage| storage.row_cache_stats()).unwrap_or_default())
    });
    asked.await
}

fn row_cache(api: &mut Api) {
    type Figure = fn(&RowCacheStats) -> u64;
    let figures: [(&str, &str, Figure); 5] = [
        ("capacity", "Capacity of the row cache in bytes", |stats| stats.bytes_limit),
        ("size", "Bytes of the row cache", |stats| stats.bytes_used),
        ("entries", "Partitions in the row cache", |stats| stats.partitions),
        ("hits", "Row cache hits", |stats| stats.partition_hits),
        ("requests", "Row cache lookups", |stats| stats.partition_hits + stats.partition_misses),
    ];
    for (name, summary, figure) in figures {
        let sum = async move |_: &Rc<Door>, _: &Call| {
            Ok(Answer::json(json!(rows(figure).await.into_iter().sum::<u64>())))
        };
        api.get(format!("/cache_service/metrics/row/{name}"), summary, sum);
        if matches!(name, "hits" | "requests") {
            let rate = async move |door: &Rc<Door>, _: &Call| {
                let sum = rows(figure).await.into_iter().sum::<u64>();
                Ok(Answer::json(meter(&since_start(door, sum))))
            };
            api.get(format!("/cache_service/metrics/row/{name}_moving_avrage"), summary, rate);
        }
    }
    let path = "/cache_service/metrics/row/hit_rate";
    api.get(path, "Row cache hits as a part of all lookups", async |_: &Rc<Door>, _: &Call| {
        let all = rows(|stats| (stats.partition_hits, stats.partition_misses)).await;
        let hits: u64 = all.iter().map(|(hits, _)| hits).sum();
        let sum: u64 = all.iter().map(|(hits, misses)| hits + misses).sum();
        Ok(Answer::json(json!(hits as f64 / sum.max(1) as f64)))
    });
}

async fn log(figure: fn(&LogStats) -> u64) -> Answered {
    let asked = on_all_shards(move || async move {
        let Some(storage) = local::try_get::<Storage>() else { return 0 };
        let logs = [Log::Data, Log::Schema].into_iter().filter_map(|log| storage.log_stats(log));
        logs.map(|stats| figure(&stats)).sum::<u64>()
    });
    Ok(Answer::json(json!(asked.await.into_iter().sum::<u64>())))
}

fn logs(api: &mut Api) {
    type Figure = fn(&LogStats) -> u64;
    let figures: [(&str, &str, Figure); 3] = [
        ("completed_tasks", "Writes to files", |stats| stats.cycles),
        ("total_commit_log_size", "Bytes of all files", |stats| stats.disk_bytes),
        ("waiting_on_segment_allocation", "Writes that were blocked on a segment", |stats| {
            stats.blocked
        }),
    ];
    for (name, summary, figure) in figures {
        let path = format!("/commitlog/metrics/{name}");
        api.get(path, summary, async move |_: &Rc<Door>, _: &Call| log(figure).await);
    }
}

fn others(api: &mut Api) {
    let path = "/lsa/compact";
    api.post(path, "Gives memory back: it is given back all the time", async |_, _| {
        Ok(Answer::done())
    });
    let path = "/collectd/";
    let why = "there is no collectd: metrics are at /metrics of the Prometheus port";
    api.cannot(Method::GET, path, "What collectd is told", why);
}
