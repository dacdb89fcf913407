//! Random partitions of random tables.

use model::key::{clustering_components, push_clustering};
use model::testing::{clustering_key_of, partition_key_of, value_of};
use model::{DecoratedKey, TableSchema, Type, value};
use mutation::collection::CollectionWriter;
use mutation::row::RowBuilder;
use mutation::{Cell, ClusteringPosition, Fragment, Marker, Tombstone};
use proptest::strategy::{BoxedStrategy, Strategy};
use std::collections::BTreeMap;
use stdx::{Bytes, Prng};
use testkit::Draw;

/// Where the generated times start: seconds since 1970.
const NOW: i64 = 1_700_000_000;

/// No generated time is less.
pub(crate) const BASES: sstable::Bases =
    sstable::Bases { timestamp: NOW * 1_000_000, deletion_time: NOW, ttl: 1 };

/// Draws from strategies and numbers.
pub(crate) struct Generator {
    draw: Draw,
    prng: Prng,
}

impl Generator {
    /// The generator of a seed.
    pub(crate) fn new(seed: u64) -> Generator {
        let mut prng = Prng::from_seed(seed);
        Generator { draw: Draw::of(&mut prng), prng }
    }

    /// One value of a strategy.
    pub(crate) fn draw<T: std::fmt::Debug>(&mut self, strategy: &impl Strategy<Value = T>) -> T {
        self.draw.one(strategy)
    }

    fn timestamp(&mut self) -> i64 {
        (NOW + self.prng.below(50) as i64) * 1_000_000
    }

    fn tombstone(&mut self) -> Tombstone {
        Tombstone::new(self.timestamp(), NOW + self.prng.below(50) as i64)
    }

    /// Some partitions, in ring order.
    pub(crate) fn partitions(&mut self, schema: &TableSchema, rows_max: u64) -> Vec<Fragment> {
        let keys = partition_key_of(schema);
        let count = self.prng.between(1, 8);
        let mut all: Vec<DecoratedKey> = Vec::new();
        for _ in 0..count {
            all.push(DecoratedKey::new(Bytes::copy_from(&self.draw(&keys))));
        }
        all.retain(|key| !key.key.is_empty());
        all.sort();
        all.dedup();
        let mut out = Vec::new();
        for key in all {
            let dead = self.prng.one_in(4);
            let tombstone = if dead { self.tombstone() } else { Tombstone::NONE };
            out.push(Fragment::PartitionStart { key, tombstone });
            if !schema.statics().is_empty() && self.prng.one_in(2) {
                let row = self.row(schema, schema.statics(), false);
                out.push(Fragment::StaticRow { row: row.into() });
            }
            self.rows(schema, rows_max, &mut out);
            out.push(Fragment::PartitionEnd);
        }
        out
    }

    fn rows(&mut self, schema: &TableSchema, rows_max: u64, out: &mut Vec<Fragment>) {
        let keys = clustering_key_of(schema);
        let limit = if schema.clustering_count == 0 { 1 } else { rows_max };
        let mut all: Vec<Vec<u8>> =
            (0..self.prng.below(limit + 1)).map(|_| self.draw(&keys)).collect();
        let order = &schema.order;
        all.sort_by(|a, b| order.compare_rows(a, b));
        all.dedup_by(|a, b| order.compare_rows(a, b).is_eq());
        let mut open = Tombstone::NONE;
        let mut last: Option<ClusteringPosition> = None;
        for key in all {
            if 0 < schema.clustering_count && self.prng.one_in(3) {
                let position = self.bound(&key, -1);
                self.change(schema, position, &mut open, &mut last, out);
            }
            let row = self.row(schema, schema.regulars(), true);
            last = Some(ClusteringPosition { prefix: key.clone().into(), weight: 0 });
            out.push(Fragment::Row { key: key.clone().into(), row: row.into() });
            if 0 < schema.clustering_count && self.prng.one_in(3) {
                let position = ClusteringPosition { prefix: key.into(), weight: 1 };
                self.change(schema, position, &mut open, &mut last, out);
            }
        }
        if !open.is_none() {
            let position = ClusteringPosition::end();
            out.push(Fragment::RangeTombstoneChange { position, tombstone: Tombstone::NONE });
        }
    }

    /// A position before a prefix of a key.
    fn bound(&mut self, key: &[u8], weight: i8) -> ClusteringPosition {
        let count = clustering_components(key).count() as u64;
        let take = self.prng.between(1, count) as usize;
        let mut prefix = Vec::new();
        clustering_components(key).take(take).for_each(|part| push_clustering(part, &mut prefix));
        ClusteringPosition { prefix: prefix.into(), weight }
    }

    fn change(
        &mut self,
        schema: &TableSchema,
        position: ClusteringPosition,
        open: &mut Tombstone,
        last: &mut Option<ClusteringPosition>,
        out: &mut Vec<Fragment>,
    ) {
        let after = last.as_ref().is_none_or(|last| last.compare(&schema.order, &position).is_lt());
        let tombstone = match self.prng.one_in(3) {
            true if !open.is_none() => Tombstone::NONE,
            _ => self.tombstone(),
        };
        if after && tombstone != *open {
            *open = tombstone;
            *last = Some(position.clone());
            out.push(Fragment::RangeTombstoneChange { position, tombstone });
        }
    }

    fn row(&mut self, schema: &TableSchema, columns: &[model::Column], clustered: bool) -> Vec<u8> {
        let mut builder = RowBuilder::new(Vec::new());
        let (timestamp, ttl) = (self.timestamp(), self.prng.between(1, 1000) as i32);
        let expiry = timestamp / 1_000_000 + ttl as i64;
        if clustered && !schema.is_counter() {
            match self.prng.below(6) {
                0 => {}
                1 => builder.marker(Marker::Expiring { timestamp, expiry, ttl }),
                2 => builder.marker(Marker::Dead { timestamp, deletion_time: NOW }),
                _ => builder.marker(Marker::Live { timestamp }),
            }
            if self.prng.one_in(6) {
                builder.tombstone(self.tombstone());
            }
        }
        let mut columns: Vec<&model::Column> = columns.iter().collect();
        columns.sort_by_key(|column| column.id);
        // A row that holds nothing is not a row.
        let forced = self.prng.below(columns.len().max(1) as u64) as usize;
        let mut any = false;
        for (index, column) in columns.iter().enumerate() {
            if index != forced && self.prng.one_in(3) {
                continue;
            }
            any = true;
            if column.ty.is_multi_cell() {
                let blob = self.collection(&column.ty, timestamp, (expiry, ttl));
                builder.collection(column.id, &blob);
            } else {
                let values = value_of(&column.ty);
                self.cell(&values, timestamp, (expiry, ttl), |cell| builder.cell(column.id, cell));
            }
        }
        if !any && clustered {
            builder = RowBuilder::new(Vec::new());
            builder.marker(Marker::Live { timestamp });
        }
        builder.finish()
    }

    fn cell(
        &mut self,
        values: &BoxedStrategy<Vec<u8>>,
        row_timestamp: i64,
        (expiry, ttl): (i64, i32),
        put: impl FnOnce(Cell<'_>),
    ) {
        let timestamp = if self.prng.one_in(3) { self.timestamp() } else { row_timestamp };
        let value = self.draw(values);
        put(match self.prng.below(6) {
            0 => Cell::dead(timestamp, NOW),
            1 => Cell::expiring(timestamp, &value, expiry, ttl),
            2 => Cell::expiring(timestamp, &value, expiry + 7, ttl + 7),
            _ => Cell::live(timestamp, &value),
        });
    }

    fn collection(&mut self, ty: &Type, timestamp: i64, expiry: (i64, i32)) -> Vec<u8> {
        let dead = self.prng.one_in(2);
        let tombstone = if dead { self.tombstone() } else { Tombstone::NONE };
        let path_type = ty.path_type().unwrap();
        let mut paths: BTreeMap<Vec<u8>, BoxedStrategy<Vec<u8>>> = BTreeMap::new();
        for tick in 0..self.prng.between(1, 5) {
            let (path, values) = match ty {
                Type::User(user) => {
                    let index = self.prng.below(user.fields.len() as u64) as usize;
                    ((index as u16).to_be_bytes().to_vec(), value_of(&user.fields[index].1))
                }
                Type::List { element, .. } => {
                    (mutation::testing::time_uuid(tick), value_of(element))
                }
                Type::Map { key, value, .. } => (self.draw(&value_of(key)), value_of(value)),
                Type::Set { element, .. } => {
                    let empty = proptest::strategy::Just(Vec::new()).boxed();
                    (self.draw(&value_of(element)), empty)
                }
                other => panic!("{other:?} has no elements"),
            };
            paths.insert(path, values);
        }
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort_by(|a, b| value::compare(&path_type, &a.0, &b.0));
        paths.dedup_by(|a, b| value::compare(&path_type, &a.0, &b.0).is_eq());
        let mut writer = CollectionWriter::new(tombstone);
        for (path, values) in &paths {
            self.cell(values, timestamp, expiry, |cell| writer.push(path, cell));
        }
        writer.finish()
    }
}
