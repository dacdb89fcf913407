//! The partitions that are stored: random keys and values from a fixed seed.

use super::options::Options;
use crate::offline;
use model::{DecoratedKey, TableSchema};
use mutation::{Cell, MutationBuilder, RowBuilder};
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Prng;
use storage::memtable::Memtable;

/// Of values that compress: their words, and how many there are.
const WORD_BYTES: usize = 8;
const WORDS: u8 = 64;

/// The table of all SSTables here.
pub(crate) fn schema(options: &Options) -> Result<Rc<TableSchema>, String> {
    let columns: String = (0..options.columns).map(|n| format!(", c{n} blob")).collect();
    let compression = if options.compressed { "LZ4Compressor" } else { "" };
    let key = if options.rows == 1 { ("", "pk") } else { (", ck int", "pk, ck") };
    let text = format!(
        "CREATE TABLE ks.perf (pk blob{}{columns}, PRIMARY KEY ({})) WITH compression = \
         {{'sstable_compression': '{compression}'}}",
        key.0, key.1
    );
    offline::table(&text)
}

/// Partitions spread evenly over some memtables, and their keys in ring order.
pub(crate) async fn memtables(
    options: &Options,
    schema: &TableSchema,
) -> (Vec<Rc<Memtable>>, Vec<DecoratedKey>) {
    let tables: Vec<_> = (0..options.sstables).map(|_| offline::memtable(schema)).collect();
    let mut prng = Prng::from_seed(1 + u64::from(runtime::shard_id()));
    let mut keys = BTreeSet::new();
    while (keys.len() as u64) < options.partitions {
        let mut key = vec![0; options.key_bytes];
        prng.fill(&mut key);
        let timestamp = match options.timestamps {
            0 => 0,
            range => prng.below(2 * range + 1) as i64 - range as i64,
        };
        let table = &tables[keys.len() % tables.len()];
        let mutation = mutation(options, schema, &key, timestamp, &mut prng);
        // A key that came up twice is not another partition.
        keys.insert(offline::apply(table, schema, &mutation));
        runtime::task::yield_if_needed().await;
    }
    let mut ordered = Vec::with_capacity(keys.len());
    while let Some(key) = keys.pop_first() {
        ordered.push(key);
        runtime::task::yield_if_needed().await;
    }
    (tables, ordered)
}

fn mutation(
    options: &Options,
    schema: &TableSchema,
    key: &[u8],
    timestamp: i64,
    prng: &mut Prng,
) -> mutation::FrozenMutation {
    let mut builder = MutationBuilder::new(schema, key);
    let mut value = vec![0; options.column_bytes];
    for number in 0..options.rows {
        let mut row = RowBuilder::new(Vec::new());
        row.marker(mutation::Marker::Live { timestamp });
        for column in schema.regulars() {
            fill(options, &mut value, prng);
            row.cell(column.id, Cell::live(timestamp, &value));
        }
        let mut clustering = Vec::new();
        if 1 < options.rows {
            model::key::push_clustering(&number.to_be_bytes(), &mut clustering);
        }
        builder.row(&clustering, &row.finish());
    }
    builder.freeze()
}

/// Puts a value there: random bytes, or words of which there are few.
fn fill(options: &Options, value: &mut [u8], prng: &mut Prng) {
    prng.fill(value);
    if options.compressible {
        for word in value.chunks_mut(WORD_BYTES) {
            let number = word[0] % WORDS;
            word.iter_mut().zip(1u8..).for_each(|(byte, place)| {
                *byte = number.wrapping_mul(37).wrapping_add(place.wrapping_mul(11));
            });
        }
    }
}
