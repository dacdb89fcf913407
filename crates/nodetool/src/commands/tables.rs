//! What tables hold and how they are read and written.

use crate::answer::{figure, list, plain};
use crate::arguments::{Opt, Place, any};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::histogram::{Spread, names, of_buckets, of_sample};
use crate::print::{Form, scientific, value};
use crate::session::Session;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const COMMANDS: &[Entry] = &[
    stats_entry("tablestats"),
    stats_entry("cfstats"),
    histograms_entry("tablehistograms"),
    histograms_entry("cfhistograms"),
];

const WHICH: &[Place] = &[any("table", "Keyspaces, or tables as keyspace.table")];
const ONE: &[Place] = &[any("name", "The keyspace and the table, or both with a dot between them")];
const STATS: &[Opt] = &[
    Opt::text("format", &["-F"], "text, json or yaml [default: text]"),
    Opt::flag("ignore", &["-i"], "All tables but those"),
];

const fn stats_entry(name: &'static str) -> Entry {
    Entry {
        name,
        about: "Statistics of tables: size, SSTables, latencies, Bloom filters",
        options: STATS,
        places: WHICH,
        run: |session| Box::pin(stats(session)),
    }
}

const fn histograms_entry(name: &'static str) -> Entry {
    Entry {
        name,
        about: "Percentiles of partition sizes and of read and write latencies",
        options: &[],
        places: ONE,
        run: |session| Box::pin(histograms(session)),
    }
}

/// A keyspace and a table, as the API names them.
pub(super) type Name = (String, String);

pub(super) async fn all_tables(session: &mut Session) -> Result<Vec<Name>, Failure> {
    let told = session.get("/column_family/").await?;
    Ok(list(&told).map(|table| (plain(&table["ks"]), plain(&table["cf"]))).collect())
}

async fn stats(session: &mut Session) -> Done {
    let form = Form::named(session.given.text("format"))?;
    let all = all_tables(session).await?;
    let given: Vec<String> = session.given.texts("table").into_iter().map(str::to_string).collect();
    let is_ignored = session.given.flag("ignore");
    let is_named = |(keyspace, table): &Name| {
        given.iter().any(|name| match name.split_once('.') {
            Some((one, two)) => one == keyspace && two == table,
            None => name == keyspace,
        })
    };
    let mut keyspaces: BTreeMap<&str, Vec<&Name>> = BTreeMap::new();
    for name in all.iter().filter(|name| given.is_empty() || is_named(name) != is_ignored) {
        keyspaces.entry(&name.0).or_default().push(name);
    }
    if form == Form::Text {
        session.say(&format!("Total number of tables: {}\n----------------\n", all.len()))?;
    }
    let mut printed = Map::new();
    printed.insert("total_number_of_tables".to_string(), json!(all.len()));
    for (keyspace, tables) in keyspaces {
        let sums = sums(session, &tables).await?;
        let mut told = Map::new();
        let mut text = sums.text(keyspace);
        for name in tables {
            let figures = figures(session, name).await?;
            match form {
                Form::Text => text += &figures.text(session, name).await?,
                _ => drop(told.insert(name.1.clone(), figures.value())),
            }
        }
        if form == Form::Text {
            session.say(&format!("{text}----------------\n"))?;
            continue;
        }
        let mut all = sums.value();
        all["tables"] = Value::Object(told);
        printed.insert(keyspace.to_string(), all);
    }
    match form {
        Form::Text => Ok(()),
        _ => session.say(&value(&Value::Object(printed), form)?),
    }
}

/// Of all tables of a keyspace.
#[derive(Default)]
struct Sums {
    reads: f64,
    read_micros: f64,
    writes: f64,
    write_micros: f64,
    flushes: u64,
}

async fn sums(session: &mut Session, tables: &[&Name]) -> Result<Sums, Failure> {
    let mut sums = Sums::default();
    for name in tables {
        let writes = count(&latency(session, "write", name).await?);
        let reads = count(&latency(session, "read", name).await?);
        let write_micros = number(&metric(session, "write_latency", name).await?);
        let read_micros = number(&metric(session, "read_latency", name).await?);
        if 0.0 < writes {
            sums.writes += writes;
            sums.write_micros += write_micros;
        }
        if 0.0 < reads {
            sums.reads += reads;
            sums.read_micros += read_micros;
        }
        sums.flushes += metric(session, "pending_flushes", name).await?.as_u64().unwrap_or(0);
    }
    Ok(sums)
}

impl Sums {
    fn millis(micros: f64, count: f64) -> f64 {
        if count == 0.0 { f64::NAN } else { micros / count / 1000.0 }
    }

    fn text(&self, keyspace: &str) -> String {
        format!(
            "Keyspace : {keyspace}\n\tRead Count: {}\n\tRead Latency: {} ms\n\tWrite Count: {}\n\
             \tWrite Latency: {} ms\n\tPending Flushes: {}\n",
            self.reads,
            scientific(Sums::millis(self.read_micros, self.reads)),
            self.writes,
            scientific(Sums::millis(self.write_micros, self.writes)),
            self.flushes
        )
    }

    fn value(&self) -> Value {
        json!({
            "read_count": self.reads as u64,
            "read_latency_ms": Sums::millis(self.read_micros, self.reads),
            "write_count": self.writes as u64,
            "write_latency_ms": Sums::millis(self.write_micros, self.writes),
            "pending_flushes": self.flushes,
        })
    }
}

async fn metric(session: &mut Session, metric: &str, table: &Name) -> Result<Value, Failure> {
    let path = format!("/column_family/metrics/{metric}");
    session.counted(&path, &[&format!("{}:{}", table.0, table.1)]).await
}

async fn latency(session: &mut Session, kind: &str, table: &Name) -> Result<Value, Failure> {
    metric(session, &format!("{kind}_latency/moving_average_histogram"), table).await
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn count(histogram: &Value) -> f64 {
    number(&histogram["hist"]["count"])
}

/// All about a table: names of metrics and what was told.
struct Figures {
    levels: Vec<String>,
    told: BTreeMap<&'static str, Value>,
    read: Value,
    write: Value,
}

const METRICS: [&str; 21] = [
    "live_disk_space_used",
    "total_disk_space_used",
    "snapshots_size",
    "memtable_off_heap_size",
    "bloom_filter_off_heap_memory_used",
    "index_summary_off_heap_memory_used",
    "compression_metadata_off_heap_memory_used",
    "compression_ratio",
    "estimated_row_count",
    "memtable_columns_count",
    "memtable_live_data_size",
    "memtable_switch_count",
    "pending_flushes",
    "bloom_filter_false_positives",
    "recent_bloom_filter_false_ratio",
    "bloom_filter_disk_space_used",
    "min_row_size",
    "max_row_size",
    "mean_row_size",
    "live_scanned_histogram",
    "tombstone_scanned_histogram",
];

async fn figures(session: &mut Session, table: &Name) -> Result<Figures, Failure> {
    let name = format!("{}:{}", table.0, table.1);
    let levels = session.counted("/column_family/sstables/per_level", &[&name]).await?;
    let mut told = BTreeMap::new();
    for name in METRICS {
        told.insert(name, metric(session, name, table).await?);
    }
    Ok(Figures {
        levels: list(&levels).enumerate().map(|(level, count)| in_level(level, count)).collect(),
        told,
        read: latency(session, "read", table).await?,
        write: latency(session, "write", table).await?,
    })
}

/// How many SSTables a level has, and how many it should have at most, where it has more.
fn in_level(level: usize, count: &Value) -> String {
    let count = count.as_u64().unwrap_or(0);
    let most = match level {
        0 => 4,
        level => 10u64.saturating_pow(level as u32),
    };
    if most < count { format!("{count}/{most}") } else { count.to_string() }
}

impl Figures {
    fn number(&self, name: &str) -> f64 {
        self.told.get(name).map_or(0.0, number)
    }

    fn whole(&self, name: &str) -> String {
        self.told.get(name).map_or_else(String::new, figure)
    }

    fn off_heap(&self) -> f64 {
        let parts = [
            "memtable_off_heap_size",
            "bloom_filter_off_heap_memory_used",
            "index_summary_off_heap_memory_used",
            "compression_metadata_off_heap_memory_used",
        ];
        parts.into_iter().map(|name| self.number(name)).sum()
    }

    /// A figure of a histogram; `None`: the node does not count it.
    fn of(&self, histogram: &str, what: &str) -> Option<f64> {
        self.told.get(histogram).filter(|told| !told.is_null()).map(|told| number(&told[what]))
    }

    /// The same as lines show them: the mean with its tenths, the largest.
    fn slices(&self, histogram: &str) -> [String; 2] {
        let unknown = || "n/a".to_string();
        let mean = self.of(histogram, "mean").map(|mean| format!("{mean:.1}"));
        let max = self.of(histogram, "max").map(|max| max.to_string());
        [mean.unwrap_or_else(unknown), max.unwrap_or_else(unknown)]
    }

    /// Lines of text, with what they tell. The middle ones are numbers of the API as they are.
    async fn text(&self, session: &mut Session, table: &Name) -> Result<String, Failure> {
        let sstables = figure(&metric(session, "live_ss_table_count", table).await?);
        let whole = |name: &str| self.whole(name);
        let millis = |told: &Value| format!("{:.3} ms", number(&told["hist"]["mean"]) / 1000.0);
        let [live_mean, live_max] = self.slices("live_scanned_histogram");
        let [tombstones_mean, tombstones_max] = self.slices("tombstone_scanned_histogram");
        let slices = "per slice (last five minutes)";
        let lines = [
            ("Table".to_string(), table.1.clone()),
            ("SSTable count".into(), sstables),
            ("SSTables in each level".into(), format!("[{}]", self.levels.join(", "))),
            ("Space used (live)".into(), whole("live_disk_space_used")),
            ("Space used (total)".into(), whole("total_disk_space_used")),
            ("Space used by snapshots (total)".into(), whole("snapshots_size")),
            ("Off heap memory used (total)".into(), self.off_heap().to_string()),
            (
                "SSTable Compression Ratio".into(),
                format!("{:.2}", self.number("compression_ratio")),
            ),
            ("Number of partitions (estimate)".into(), whole("estimated_row_count")),
            ("Memtable cell count".into(), whole("memtable_columns_count")),
            ("Memtable data size".into(), whole("memtable_live_data_size")),
            ("Memtable off heap memory used".into(), whole("memtable_off_heap_size")),
            ("Memtable switch count".into(), whole("memtable_switch_count")),
            ("Local read count".into(), count(&self.read).to_string()),
            ("Local read latency".into(), millis(&self.read)),
            ("Local write count".into(), count(&self.write).to_string()),
            ("Local write latency".into(), millis(&self.write)),
            ("Pending flushes".into(), whole("pending_flushes")),
            ("Percent repaired".into(), "0.0".into()),
            ("Bloom filter false positives".into(), whole("bloom_filter_false_positives")),
            ("Bloom filter false ratio".into(), self.false_ratio()),
            ("Bloom filter space used".into(), whole("bloom_filter_disk_space_used")),
            (
                "Bloom filter off heap memory used".into(),
                whole("bloom_filter_off_heap_memory_used"),
            ),
            (
                "Index summary off heap memory used".into(),
                whole("index_summary_off_heap_memory_used"),
            ),
            (
                "Compression metadata off heap memory used".into(),
                whole("compression_metadata_off_heap_memory_used"),
            ),
            ("Compacted partition minimum bytes".into(), whole("min_row_size")),
            ("Compacted partition maximum bytes".into(), whole("max_row_size")),
            ("Compacted partition mean bytes".into(), whole("mean_row_size")),
            (format!("Average live cells {slices}"), live_mean),
            (format!("Maximum live cells {slices}"), live_max),
            (format!("Average tombstones {slices}"), tombstones_mean),
            (format!("Maximum tombstones {slices}"), tombstones_max),
            ("Dropped Mutations".into(), "0".into()),
        ];
        let lines = lines.iter().map(|(name, told)| format!("\t\t{name}: {told}\n"));
        Ok(lines.collect::<String>() + "\n")
    }

    fn false_ratio(&self) -> String {
        format!("{:.5}", self.number("recent_bloom_filter_false_ratio"))
    }

    fn value(&self) -> Value {
        let raw = |name: &str| self.told.get(name).cloned().unwrap_or_default();
        let text = |name: &str| self.whole(name);
        let millis = |told: &Value| format!("{:.3}", number(&told["hist"]["mean"]) / 1000.0);
        let (live, tombstones) = ("live_scanned_histogram", "tombstone_scanned_histogram");
        json!({
            "sstables_in_each_level": self.levels,
            "space_used_live": text("live_disk_space_used"),
            "space_used_total": text("total_disk_space_used"),
            "space_used_by_snapshots_total": text("snapshots_size"),
            "off_heap_memory_used_total": self.off_heap().to_string(),
            "sstable_compression_ratio": raw("compression_ratio"),
            "number_of_partitions_estimate": raw("estimated_row_count"),
            "memtable_cell_count": raw("memtable_columns_count"),
            "memtable_data_size": text("memtable_live_data_size"),
            "memtable_off_heap_memory_used": text("memtable_off_heap_size"),
            "memtable_switch_count": raw("memtable_switch_count"),
            "local_read_count": count(&self.read) as u64,
            "local_read_latency_ms": millis(&self.read),
            "local_write_count": count(&self.write) as u64,
            "local_write_latency_ms": millis(&self.write),
            "pending_flushes": raw("pending_flushes"),
            "percent_repaired": 0.0,
            "bloom_filter_false_positives": raw("bloom_filter_false_positives"),
            "bloom_filter_false_ratio": self.false_ratio(),
            "bloom_filter_space_used": text("bloom_filter_disk_space_used"),
            "bloom_filter_off_heap_memory_used": text("bloom_filter_off_heap_memory_used"),
            "index_summary_off_heap_memory_used": text("index_summary_off_heap_memory_used"),
            "compression_metadata_off_heap_memory_used":
                text("compression_metadata_off_heap_memory_used"),
            "compacted_partition_minimum_bytes": raw("min_row_size"),
            "compacted_partition_maximum_bytes": raw("max_row_size"),
            "compacted_partition_mean_bytes": raw("mean_row_size"),
            "average_live_cells_per_slice_last_five_minutes": self.of(live, "mean"),
            "maximum_live_cells_per_slice_last_five_minutes": self.of(live, "max"),
            "average_tombstones_per_slice_last_five_minutes": self.of(tombstones, "mean"),
            "maximum_tombstones_per_slice_last_five_minutes": self.of(tombstones, "max"),
            "dropped_mutations": "0",
        })
    }
}

async fn histograms(session: &mut Session) -> Done {
    let given = session.given.texts("name");
    let named = match given[..] {
        [both] => both.split_once('/').or_else(|| both.split_once('.')),
        [keyspace, table] => Some((keyspace, table)),
        _ => None,
    };
    let Some((keyspace, table)) = named else {
        return wrong("single argument must be keyspace and table separated by \".\" or \"/\"");
    };
    let name = (keyspace.to_string(), table.to_string());
    if !all_tables(session).await?.contains(&name) {
        return wrong(format!("unknown table: {}.{}", name.0, name.1));
    }
    let rows = of_buckets(&metric(session, "estimated_row_size_histogram", &name).await?);
    let cells = of_buckets(&metric(session, "estimated_column_count_histogram", &name).await?);
    let read = of_sample(&latency(session, "read", &name).await?);
    let write = of_sample(&latency(session, "write", &name).await?);
    let sstables = metric(session, "sstables_per_read_histogram", &name).await?;
    let sstables = (!sstables.is_null()).then(|| of_buckets(&sstables));
    let spreads = (sstables, [write, read, rows, cells]);
    session.say(&format!("{}/{} histograms\n{}", name.0, name.1, drawn(&spreads)))
}

/// SSTables of each read are not counted by every node.
fn drawn((sstables, [write, read, rows, cells]): &(Option<Spread>, [Spread; 4])) -> String {
    let mut text = format!(
        "{:<10}{:>10}{:>18}{:>18}{:>18}{:>18}\n{:<10}{:>10}{:>18}{:>18}{:>18}{:>18}\n",
        "Percentile",
        "SSTables",
        "Write Latency",
        "Read Latency",
        "Partition Size",
        "Cell Count",
        "",
        "",
        "(micros)",
        "(micros)",
        "(bytes)",
        ""
    );
    for (n, name) in names().enumerate() {
        let sstables = sstables.map_or_else(|| "n/a".to_string(), |it| format!("{:.2}", it[n]));
        text += &format!(
            "{name:<10}{sstables:>10}{:>18.2}{:>18.2}{:>18.0}{:>18.0}\n",
            write[n], read[n], rows[n], cells[n]
        );
    }
    text.push('\n');
    text
}
