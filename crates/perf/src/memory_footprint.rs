//! `memory-footprint`: what rows take: as mutations, in a memtable, in the row cache, in SSTables
//! of each format.
//!
//! All rows have the same shape; keys and values are random, so that nothing compresses. Beside
//! each figure stands what it comes to per row without the bytes of keys and values.

mod options;

use self::options::Options;
use super::offline;
use super::tool::{self, Bench};
use clap::Command;
use model::{DecoratedKey, TableSchema};
use mutation::{Cell, ClusteringPosition, Fragment, MutationBuilder, RowBuilder};
use runtime::io::{IoClass, fs};
use serde_json::{Value, json};
use sstable::{Version, WriterOptions};
use std::process::ExitCode;
use std::rc::Rc;
use stdx::{Bytes, Prng};
use storage::LoneCache;
use storage::memtable::Memtable;

/// More than any cache here needs.
const CACHE_BYTES: usize = 64 << 30;

/// How many bytes something takes.
struct Size {
    what: String,
    bytes: u64,
}

fn size(what: impl Into<String>, bytes: u64) -> Size {
    Size { what: what.into(), bytes }
}

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    let mut sizes = Vec::new();
    let plain = offline::table(&options.table(""))?;
    let heap = memory::live_bytes();
    let (memtable, frozen_bytes) = options.fill(&plain).await;
    let heap_bytes = (memory::live_bytes() - heap).max(0) as u64;
    sizes.push(size("frozen", frozen_bytes));
    sizes.push(size("memtable", memtable.bytes() as u64));
    sizes.push(size("memtable, of the allocator", heap_bytes));
    let cache = LoneCache::new(plain.clone(), CACHE_BYTES);
    let (empty, heap) = (cache.stats(), memory::live_bytes());
    cache.merge(&memtable, |_| true).await.map_err(|error| error.to_string())?;
    let full = cache.stats();
    let heap_bytes = (memory::live_bytes() - heap).max(0) as u64;
    sizes.push(size("cache", full.bytes_used - empty.bytes_used));
    let objects = full.allocated_bytes - empty.allocated_bytes;
    sizes.push(size("cache, objects", objects));
    // The objects of the arena are not of the allocator, which has the index of them.
    sizes.push(size("cache, objects and the allocator", objects + heap_bytes));
    cache.close().await;
    for (compression, name) in [("", "plain"), ("LZ4Compressor", "LZ4")] {
        for version in [Version::Me, Version::Ms] {
            let schema = offline::table(&options.table(compression))?;
            let folder = bench.folder();
            fs::create_dir_all(&folder).await.map_err(|error| error.to_string())?;
            let mut writer = WriterOptions::of_schema(&schema, "memtable")?;
            (writer.version, writer.estimated_partitions) = (version, options.partitions);
            let source = offline::source_of(&memtable);
            let written = offline::write(&folder, &schema, source, writer, IoClass::Flush).await?;
            let what = |part| format!("sstable {} {name}, {part}", version.name());
            sizes.push(size(what("Data.db"), written.data_file_bytes));
            sizes.push(size(what("all"), written.disk_bytes));
            let removed = sstable::store::remove(&folder, written.descriptor).await;
            removed.map_err(|error| error.to_string())?;
        }
    }
    Memtable::take_apart(memtable).await;
    println!("{}", text(options, &sizes));
    let Some(path) = &options.json_result else { return Ok(()) };
    let document = json(options, &sizes).to_string();
    let written = fs::write_file_atomic(path, document.as_bytes()).await;
    written.map_err(|error| error.to_string())
}

impl Options {
    /// Its CREATE TABLE.
    fn table(&self, compression: &str) -> String {
        let columns: String =
            (0..self.columns).map(|number| format!(", {} blob", self.column(number))).collect();
        format!(
            "CREATE TABLE ks.footprint (partition_key blob, clustering_key blob{columns}, PRIMARY \
             KEY (partition_key, clustering_key)) WITH compression = {{'sstable_compression': \
             '{compression}'}}"
        )
    }

    /// The name of a column: its number in letters.
    fn column(&self, mut number: usize) -> String {
        let mut letters = vec![b'a'; self.column_letters];
        for letter in letters.iter_mut().rev() {
            *letter = b'a' + (number % 26) as u8;
            number /= 26;
        }
        // Quoted: two letters may be a word of CQL.
        format!("\"{}\"", String::from_utf8_lossy(&letters))
    }

    /// A memtable with all rows, and the bytes of the mutations that made it.
    async fn fill(&self, schema: &TableSchema) -> (Rc<Memtable>, u64) {
        let memtable = offline::memtable(schema);
        let (mut prng, mut frozen_bytes) = (Prng::from_seed(1), 0);
        let mut value = vec![0; self.cell_bytes];
        for partition in 0..self.partitions {
            let partition_key = key(partition, self.partition_key_bytes);
            let mut builder = MutationBuilder::new(schema, &partition_key);
            for row in 0..self.rows {
                let mut cells = RowBuilder::new(Vec::new());
                cells.marker(mutation::Marker::Live { timestamp: 1 });
                for column in schema.regulars() {
                    prng.fill(&mut value);
                    cells.cell(column.id, Cell::live(1, &value));
                }
                let mut clustering = Vec::new();
                let component = key(row, self.clustering_key_bytes);
                model::key::push_clustering(&component, &mut clustering);
                builder.row(&clustering, &cells.finish());
                runtime::task::yield_if_needed().await;
            }
            let mutation = builder.freeze();
            frozen_bytes += mutation.0.len() as u64;
            offline::apply(&memtable, schema, &mutation);
        }
        (memtable, frozen_bytes)
    }

    /// Bytes of all keys and values.
    fn content_bytes(&self) -> u64 {
        let row = self.clustering_key_bytes + self.columns * self.cell_bytes;
        self.partitions * (self.partition_key_bytes as u64 + self.rows * row as u64)
    }

    /// What a size comes to for each row, beside keys and values.
    fn fixed_bytes(&self, bytes: u64) -> f64 {
        let rows = (self.partitions * self.rows) as f64;
        (bytes as f64 - self.content_bytes() as f64) / rows
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("column-count", self.columns as u64),
            ("column-name-size", self.column_letters as u64),
            ("row-count", self.rows),
            ("partition-count", self.partitions),
            ("partition-key-size", self.partition_key_bytes as u64),
            ("clustering-key-size", self.clustering_key_bytes as u64),
            ("data-size", self.cell_bytes as u64),
        ]
    }
}

/// A number in so many bytes.
fn key(number: u64, bytes: usize) -> Vec<u8> {
    let digits = number.to_be_bytes();
    let mut key = vec![0; bytes.saturating_sub(digits.len())];
    key.extend_from_slice(&digits[digits.len().saturating_sub(bytes)..]);
    key
}

/// What core types take themselves, without what they point to.
fn types() -> Vec<(&'static str, usize)> {
    vec![
        ("Bytes", size_of::<Bytes>()),
        ("DecoratedKey", size_of::<DecoratedKey>()),
        ("ClusteringPosition", size_of::<ClusteringPosition>()),
        ("Fragment", size_of::<Fragment>()),
        ("Handle", size_of::<memory::Handle>()),
        ("Memtable", size_of::<Memtable>()),
    ]
}

fn text(options: &Options, sizes: &[Size]) -> String {
    let mut lines = vec!["mutation footprint:".to_string()];
    let told = options.parameters();
    lines.extend(told.iter().map(|(name, value)| format!(" - {name}: {value}")));
    lines.push(format!(" - bytes of keys and values: {}", options.content_bytes()));
    lines.push(String::new());
    lines.push(format!("{:<42} {:>14} {:>16}", "", "bytes", "per row, beside"));
    for Size { what, bytes } in sizes {
        lines.push(format!("{what:<42} {bytes:>14} {:>16.1}", options.fixed_bytes(*bytes)));
    }
    lines.push(String::new());
    lines.extend(types().iter().map(|(name, bytes)| format!("sizeof {name}: {bytes}")));
    lines.join("\n")
}

fn json(options: &Options, sizes: &[Size]) -> Value {
    let mut parameters = json!({});
    for (name, value) in options.parameters() {
        parameters[name] = json!(value);
    }
    let mut results = json!({});
    for Size { what, bytes } in sizes {
        let fixed = options.fixed_bytes(*bytes);
        results[what] = json!({ "bytes": bytes, "fixed_bytes_per_row": fixed });
    }
    let mut sizeof = json!({});
    for (name, bytes) in types() {
        sizeof[name] = json!(bytes);
    }
    json!({
        "parameters": parameters,
        "content_bytes": options.content_bytes(),
        "results": results,
        "sizeof": sizeof,
        "versions": super::versions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::options;

    #[test]
    fn what_is_beside_keys_and_values() {
        let (options, _) = options::<Options>("--row-count 3 --partition-count 2 --column-count 1");
        assert_eq!(options.content_bytes(), 2 * (10 + 3 * (10 + 32)));
        assert_eq!(options.fixed_bytes(2 * (10 + 3 * (10 + 32)) + 60), 10.0);
        assert_eq!(options.column(27), "\"bb\"");
    }

    #[test]
    fn all_rows_are_there() {
        let (options, _) = options::<Options>("--row-count 3 --partition-count 5");
        let content_bytes = options.content_bytes();
        let (count, frozen_bytes) =
            runtime::testing::block_on_with(runtime::Config::new(1), move || async move {
                let schema = offline::table(&options.table("")).unwrap();
                let (memtable, frozen_bytes) = options.fill(&schema).await;
                (memtable.partition_count(), frozen_bytes)
            });
        assert_eq!(count, 5);
        assert!(content_bytes < frozen_bytes);
        assert_eq!(key(258, 1), [2]);
        assert_eq!(key(258, 10), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
