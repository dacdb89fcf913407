//! `/column_family/metrics`: what is counted of each table, and of all together.
//!
//! What has a number for something that this node does in another way (a key cache, say) is 0 where
//! that is the truth; what is not counted by table is refused.

use super::Door;
use super::api::{Answered, Api};
use super::latency::{bucketed, estimated, histogram, moving};
use super::tables::{all, one, sum_of};
use crate::call::{Answer, Call};
use cluster::rates::taken_on_node;
use cluster::traffic::{Taken, Work};
use hyper::Method;
use model::TableId;
use runtime::on_all_shards;
use serde_json::{Value, json};
use std::rc::Rc;
use storage::{Storage, TableFacts, TableStats};

const PATH: &str = "/column_family/metrics";

/// A figure of a table on a shard.
type Figure = fn(&Storage, TableId) -> u64;
/// Something about the SSTables of a table.
type Fact = fn(&TableFacts) -> Value;

pub(super) fn operations(api: &mut Api) {
    sums(api);
    facts(api);
    sizes(api);
    filters(api);
    latencies(api);
    let why = "is not counted by table";
    for (name, summary) in [
        ("sstables_per_read_histogram", "SSTables that reads used"),
        ("tombstone_scanned_histogram", "Tombstones that reads scanned"),
        ("live_scanned_histogram", "Rows that reads scanned"),
        ("col_update_time_delta_histogram", "Time between writes of a cell"),
    ] {
        let refused = async move |door: &Rc<Door>, call: &Call| {
            one(door, call)?;
            Err(Answer::refused(501, format!("{name} {why}: /metrics has what is counted")))
        };
        api.get(format!("{PATH}/{name}/{{name}}"), summary, refused);
    }
}

fn stats(storage: &Storage, table: TableId) -> TableStats {
    storage.table_stats(table).unwrap_or_default()
}

/// Of a table, and of all tables.
fn add(api: &mut Api, name: &str, summary: &'static str, figure: Figure) {
    api.get(
        format!("{PATH}/{name}/{{name}}"),
        summary,
        async move |door: &Rc<Door>, call: &Call| {
            Ok(Answer::json(json!(sum_of(one(door, call)?.schema.id, figure).await)))
        },
    );
    api.get(format!("{PATH}/{name}"), summary, async move |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(sum_of_all(door, figure).await)))
    });
}

async fn sum_of_all(door: &Door, figure: Figure) -> u64 {
    let tables = all(&door.cluster.schema());
    let asked = on_all_shards(move || {
        let tables = tables.clone();
        async move {
            let Some(storage) = runtime::local::try_get::<Storage>() else { return 0 };
            let mut sum = 0u64;
            for table in tables {
                sum += figure(&storage, table);
                runtime::task::yield_if_needed().await;
            }
            sum
        }
    });
    asked.await.into_iter().sum()
}

fn sums(api: &mut Api) {
    let memtables: Figure = |storage, table| stats(storage, table).memtable_bytes;
    for name in [
        "memtable_off_heap_size",
        "memtable_live_data_size",
        "all_memtables_off_heap_size",
        "all_memtables_live_data_size",
    ] {
        add(api, name, "Bytes of memtables", memtables);
    }
    let nothing: Figure = |_, _| 0;
    for (name, summary) in [
        ("memtable_on_heap_size", "Bytes of memtables on a heap of Java: there is none"),
        ("all_memtables_on_heap_size", "Bytes of memtables on a heap of Java: there is none"),
        ("speculative_retries", "Speculative retries: there is no other node"),
        ("row_cache_hit_out_of_range", "Reads that the row cache answered in part: none"),
        ("compression_metadata_off_heap_memory_used", "Kept with the index"),
    ] {
        add(api, name, summary, nothing);
    }
    add(api, "memtable_columns_count", "Partitions of memtables", |storage, table| {
        stats(storage, table).memtable_partitions
    });
    add(
        api,
        "memtable_switch_count",
        "Memtables that were sealed for a flush",
        |storage, table| stats(storage, table).memtables_sealed,
    );
    add(api, "row_cache_hit", "Row cache hits", |storage, table| {
        stats(storage, table).cache_lookups.hits
    });
    add(api, "row_cache_miss", "Row cache misses", |storage, table| {
        stats(storage, table).cache_lookups.misses
    });
    add(api, "pending_flushes", "Memtables that wait to be flushed", |storage, table| {
        storage.pending_flushes(table) as u64
    });
    add(api, "live_ss_table_count", "SSTables", |storage, table| stats(storage, table).sstables);
    add(api, "pending_compactions", "Pending compactions", |storage, table| {
        storage.pending_compactions(table) as u64
    });
    add(api, "live_disk_space_used", "Bytes of data and index of SSTables", |storage, table| {
        stats(storage, table).sstable_bytes
    });
    for name in ["bloom_filter_false_positives", "recent_bloom_filter_false_positives"] {
        add(api, name, "Bloom filter false positives", |storage, table| {
            storage.filter_hits(table).in_vain
        });
    }
    let memory: Figure = |storage, table| storage.table_facts(table).memory_bytes;
    add(
        api,
        "bloom_filter_off_heap_memory_used",
        "Bytes of Bloom filters and index summaries in memory",
        memory,
    );
    add(api, "index_summary_off_heap_memory_used", "Counted with the Bloom filters", nothing);
    let path = "/column_family/metrics/key_cache_hit_rate/{name}";
    api.get(path, "Hits of the key cache: there is none", async |door: &Rc<Door>, call: &Call| {
        one(door, call)?;
        Ok(Answer::json(json!(0.0)))
    });
}

/// What all shards know of the SSTables of tables.
async fn facts_of(tables: Vec<TableId>) -> TableFacts {
    let asked = on_all_shards(move || {
        let tables = tables.clone();
        async move {
            let mut sum = TableFacts::default();
            let Some(storage) = runtime::local::try_get::<Storage>() else { return sum };
            for table in tables {
                sum.merge(&storage.table_facts(table));
                runtime::task::yield_if_needed().await;
            }
            sum
        }
    });
    let mut sum = TableFacts::default();
    asked.await.iter().for_each(|one| sum.merge(one));
    sum
}

fn add_fact(api: &mut Api, name: &str, summary: &'static str, fact: Fact) {
    let of_one = async move |door: &Rc<Door>, call: &Call| {
        let id = one(door, call)?.schema.id;
        Ok(Answer::json(fact(&facts_of(vec![id]).await)))
    };
    api.get(format!("{PATH}/{name}/{{name}}"), summary, of_one);
    let of_all = async move |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(fact(&facts_of(all(&door.cluster.schema())).await)))
    };
    api.get(format!("{PATH}/{name}"), summary, of_all);
}

fn counts(all: &[(i64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    all.iter().map(|(bound, count)| ((*bound).max(0) as u64, *count))
}

fn facts(api: &mut Api) {
    add_fact(api, "min_row_size", "Bytes of the smallest partition", |facts| {
        json!(facts.partition_bytes_min)
    });
    add_fact(api, "max_row_size", "Bytes of the largest partition", |facts| {
        json!(facts.partition_bytes_max)
    });
    add_fact(api, "mean_row_size", "Mean bytes of a partition", |facts| {
        json!((facts.partition_bytes_sum / facts.partitions.max(1) as f64).round() as u64)
    });
    add_fact(api, "compression_ratio", "Ratio of compressed to uncompressed bytes", |facts| {
        json!(match facts.data_bytes {
            0 => 0.0,
            bytes => facts.file_bytes as f64 / bytes as f64,
        })
    });
    add_fact(api, "estimated_row_size_histogram", "Partitions by bytes", |facts| {
        bucketed(counts(&facts.partition_bytes))
    });
    add_fact(api, "estimated_column_count_histogram", "Partitions by cells", |facts| {
        bucketed(counts(&facts.partition_cells))
    });
    for (path, summary) in [
        ("/column_family/metrics/estimated_row_count/{name}", "Partitions, about"),
        ("/column_family/estimate_keys/{name}", "Partitions, about"),
    ] {
        api.get(path, summary, async |door: &Rc<Door>, call: &Call| {
            let partitions: Figure = |storage, table| stats(storage, table).partitions;
            Ok(Answer::json(json!(sum_of(one(door, call)?.schema.id, partitions).await)))
        });
    }
    let path = "/column_family/sstables/per_level/{name}";
    api.get(path, "SSTables of each level", async |door: &Rc<Door>, call: &Call| {
        let id = one(door, call)?.schema.id;
        let levels = facts_of(vec![id]).await.levels;
        // Without levels all are of the first, which is not worth a list.
        Ok(Answer::json(json!(if levels.len() < 2 { Vec::new() } else { levels })))
    });
}

/// Bytes of all files of the SSTables of tables, and of their filters alone.
pub(super) async fn file_bytes(tables: Vec<TableId>) -> Result<(u64, u64), Answer> {
    let asked = on_all_shards(move || {
        let tables = tables.clone();
        async move {
            let Some(storage) = runtime::local::try_get::<Storage>() else { return Ok((0, 0)) };
            let mut sum = (0, 0);
            for table in tables {
                let facts = storage.sstable_facts(table).await;
                for one in facts.map_err(|error| error.to_string())? {
                    sum = (sum.0 + one.disk_bytes, sum.1 + one.filter_bytes);
                }
            }
            Ok::<_, String>(sum)
        }
    });
    let mut sum = (0, 0);
    for (shard, found) in asked.await.into_iter().enumerate() {
        let refused = |text| Answer::refused(500, format!("shard {shard}: {text}"));
        let found = found.map_err(refused)?;
        sum = (sum.0 + found.0, sum.1 + found.1);
    }
    Ok(sum)
}

fn sizes(api: &mut Api) {
    let total = "Bytes of all files of SSTables";
    let path = "/column_family/metrics/total_disk_space_used/{name}";
    api.get(path, total, async |door: &Rc<Door>, call: &Call| {
        Ok(Answer::json(json!(file_bytes(vec![one(door, call)?.schema.id]).await?.0)))
    });
    let path = "/column_family/metrics/total_disk_space_used";
    api.get(path, total, async |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(file_bytes(all(&door.cluster.schema())).await?.0)))
    });
    let filters = "Bytes of Bloom filters on disk";
    let path = "/column_family/metrics/bloom_filter_disk_space_used/{name}";
    api.get(path, filters, async |door: &Rc<Door>, call: &Call| {
        Ok(Answer::json(json!(file_bytes(vec![one(door, call)?.schema.id]).await?.1)))
    });
    let path = "/column_family/metrics/bloom_filter_disk_space_used";
    api.get(path, filters, async |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(file_bytes(all(&door.cluster.schema())).await?.1)))
    });
    for (name, live) in [("snapshots_size", false), ("true_snapshots_size", true)] {
        let of_one = async move |door: &Rc<Door>, call: &Call| {
            let id = one(door, call)?.schema.id;
            Ok(Answer::json(json!(super::snapshots::size_of(Some(id), live).await?)))
        };
        api.get(format!("{PATH}/{name}/{{name}}"), "Bytes of snapshots", of_one);
        let of_all = async move |_: &Rc<Door>, _: &Call| {
            Ok(Answer::json(json!(super::snapshots::size_of(None, live).await?)))
        };
        api.get(format!("{PATH}/{name}"), "Bytes of snapshots", of_all);
    }
}

async fn ratio(tables: Vec<TableId>) -> Answered {
    let (mut in_vain, mut all) = (0, 0);
    for table in tables {
        in_vain += sum_of(table, |storage, table| storage.filter_hits(table).in_vain).await;
        all += sum_of(table, |storage, table| storage.filter_hits(table).all).await;
    }
    Ok(Answer::json(json!(in_vain as f64 / all.max(1) as f64)))
}

fn filters(api: &mut Api) {
    let summary = "Bloom filter false positives as a part of all positives";
    for name in ["bloom_filter_false_ratio", "recent_bloom_filter_false_ratio"] {
        let of_one =
            async |door: &Rc<Door>, call: &Call| ratio(vec![one(door, call)?.schema.id]).await;
        api.get(format!("{PATH}/{name}/{{name}}"), summary, of_one);
        let of_all = async |door: &Rc<Door>, _: &Call| ratio(all(&door.cluster.schema())).await;
        api.get(format!("{PATH}/{name}"), summary, of_all);
    }
}

/// What is shown of what work took.
type Show = fn(&Taken) -> Value;

fn add_latency(
    api: &mut Api,
    name: &str,
    form: &str,
    summary: &'static str,
    (work, show): (Work, Show),
) {
    let of_one = async move |door: &Rc<Door>, call: &Call| {
        let id = one(door, call)?.schema.id;
        Ok(Answer::json(show(&taken_on_node(work, Some(id)).await)))
    };
    api.get(format!("{PATH}/{name}{form}/{{name}}"), summary, of_one);
    let of_all = async move |_: &Rc<Door>, _: &Call| {
        Ok(Answer::json(show(&taken_on_node(work, None).await)))
    };
    api.get(format!("{PATH}/{name}{form}"), summary, of_all);
}

fn latencies(api: &mut Api) {
    let count: Show = |taken| json!(taken.spans.count());
    // As tools divide it by the count: the sum, in microseconds.
    let sum: Show = |taken| json!(taken.spans.sum() / 1000);
    for (name, work) in [
        ("read_latency", Work::Read),
        ("write_latency", Work::Write),
        ("range_latency", Work::Scan),
    ] {
        add_latency(api, name, "", "Sum of the latencies in microseconds", (work, sum));
        let shown: [(&str, &str, Show); 3] = [
            ("/histogram", "Latency histogram", |taken| histogram(&taken.spans)),
            ("/moving_average_histogram", "Rates and latency histogram", moving),
            ("/estimated_histogram", "Latency histogram", |taken| estimated(&taken.spans)),
        ];
        for (form, summary, show) in shown {
            add_latency(api, name, form, summary, (work, show));
        }
    }
    add_latency(api, "read", "", "Reads", (Work::Read, count));
    add_latency(api, "write", "", "Writes", (Work::Write, count));
    let path = "/column_family/metrics/coordinator/read";
    api.get(path, "How long reads took", async |_: &Rc<Door>, _: &Call| {
        Ok(Answer::json(histogram(&taken_on_node(Work::Read, None).await.spans)))
    });
    let path = "/column_family/metrics/coordinator/scan";
    api.get(path, "How long reads of ranges took", async |_: &Rc<Door>, _: &Call| {
        Ok(Answer::json(histogram(&taken_on_node(Work::Scan, None).await.spans)))
    });
    let why = "rounds of conditional writes are measured as a whole: \
               /storage_proxy/metrics/cas_write has them";
    for name in ["cas_prepare", "cas_propose", "cas_commit"] {
        for form in ["", "/estimated_histogram"] {
            let path = format!("{PATH}/{name}{form}/{{name}}");
            api.cannot(Method::GET, path, "How long a step of a conditional write took", why);
        }
    }
}
