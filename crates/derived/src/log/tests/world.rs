//! Tables with logs, and writes of them, drawn at random.

use super::facts::{Fact, Of, Said};
use crate::log::LogPlan;
use model::key::{compose_partition_key, push_clustering};
use model::schema::cdc::{CdcOptions, Delta, Images, log_after, log_schema};
use model::schema::{Column, ColumnKind};
use model::types::UserTypeRef;
use model::{TableSchema, Type, Uuid, value};
use mutation::{ClusteringPosition, ClusteringRange};
use stdx::Prng;

/// A table, its log and one partition.
pub(super) struct World {
    pub(super) base: TableSchema,
    pub(super) plan: LogPlan,
    pub(super) key: Vec<u8>,
    /// What each write has later times than those before it.
    pub(super) ascends: bool,
}

fn user(frozen: bool) -> Type {
    Type::User(Box::new(UserTypeRef {
        keyspace: "ks".to_owned(),
        name: "user".to_owned(),
        fields: ["x", "y", "z"].iter().map(|name| (name.to_string(), Type::Int)).collect(),
        frozen,
    }))
}

fn base(options: CdcOptions, prng: &mut Prng) -> TableSchema {
    let mut table = TableSchema::builder("ks", "t", Uuid::from_u128(1));
    table = table.partition_key("p", Type::Int);
    if prng.one_in(3) {
        table = table.partition_key("q", Type::Text);
    }
    let depth = prng.below(3);
    for name in ["c", "d"].iter().take(depth as usize) {
        table = match prng.one_in(2) {
            true => table.clustering_descending(name, Type::Int),
            false => table.clustering(name, Type::Int),
        };
    }
    let map = || Type::Map { key: Type::Int.into(), value: Type::Int.into(), frozen: false };
    if 0 < depth {
        table = table.static_column("s", Type::Int).static_column("sm", map());
    }
    let list = |frozen| Type::List { element: Type::Int.into(), frozen };
    let set = Type::Set { element: Type::Int.into(), frozen: false };
    let mut kinds = vec![("a", Type::Int), ("b", Type::Text), ("m", map()), ("l", list(false))];
    kinds.extend([("e", set), ("u", user(false)), ("f", list(true)), ("g", user(true))]);
    for at in (1..kinds.len()).rev() {
        kinds.swap(at, prng.below(at as u64 + 1) as usize);
    }
    for (name, ty) in kinds {
        if name == "a" || prng.one_in(2) {
            table = table.regular(name, ty);
        }
    }
    let mut table = table.build().expect("a table");
    table.options.cdc = options.stored(true);
    table
}

/// A log of the table; now and then one that was made for another table at first.
fn log(base: &TableSchema, options: CdcOptions, prng: &mut Prng) -> TableSchema {
    let first = match prng.one_in(2) {
        true => base.edit().drop_column("a", 1).regular("z", Type::Int).build().expect("a table"),
        false => base.clone(),
    };
    let log = log_schema(&first, options, Uuid::from_u128(2)).expect("a log");
    log_after(base, &log, &[], 5).expect("a log")
}

fn int(prng: &mut Prng) -> Vec<u8> {
    (prng.below(3) as i32).to_be_bytes().to_vec()
}

fn any_value(ty: &Type, prng: &mut Prng) -> Vec<u8> {
    let mut out = Vec::new();
    match ty {
        Type::Int => out = int(prng),
        Type::List { .. } => {
            let elements: Vec<Vec<u8>> = (0..prng.below(3)).map(|_| int(prng)).collect();
            value::write_collection(elements.iter().map(Vec::as_slice), &mut out);
        }
        Type::User(_) => {
            let fields: Vec<Option<Vec<u8>>> =
                (0..3).map(|_| prng.one_in(2).then(|| int(prng))).collect();
            value::write_tuple(fields.iter().map(|field| field.as_deref()), &mut out);
        }
        _ => out = prng.pick(&["", "x", "y"]).expect("texts").as_bytes().to_vec(),
    }
    out
}

impl World {
    pub(super) fn any(prng: &mut Prng) -> World {
        let options = CdcOptions {
            preimage: *prng.pick(&[Images::None, Images::Touched, Images::Full]).expect("images"),
            postimage: prng.one_in(2),
            delta: if prng.one_in(6) { Delta::Keys } else { Delta::Full },
            ttl_secs: if prng.one_in(3) { 0 } else { 100 },
        };
        let base = base(options, prng);
        let log = log(&base, options, prng);
        let mut parts = vec![int(prng)];
        parts.extend((base.partition_key_count == 2).then(|| b"q".to_vec()));
        let mut key = Vec::new();
        compose_partition_key(parts.iter().map(Vec::as_slice), &mut key);
        let plan = LogPlan::new(&base, &log).expect("a log of the table");
        World { base, plan, key, ascends: prng.one_in(2) }
    }

    /// All keys that rows may have.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = vec![Vec::new()];
        for _ in 0..self.base.clustering_count {
            let longer = |key: &Vec<u8>| {
                [0i32, 1, 2].map(|value| {
                    let mut key = key.clone();
                    push_clustering(&value.to_be_bytes(), &mut key);
                    key
                })
            };
            keys = keys.iter().flat_map(longer).collect();
        }
        keys
    }

    pub(super) fn columns_of(&self, statics: bool) -> impl Iterator<Item = &Column> {
        let kind = if statics { ColumnKind::Static } else { ColumnKind::Regular };
        self.base.columns.iter().filter(move |column| column.kind == kind)
    }

    /// The facts of the write of that number, made at second `now`.
    pub(super) fn write(&self, number: i64, now: i64, prng: &mut Prng) -> Vec<Fact> {
        let first = if self.ascends { 10 * number + 1 } else { prng.between(2, 12) as i64 };
        let ttl = if prng.one_in(3) { prng.between(3, 4) as i32 } else { 0 };
        let mut facts = Vec::new();
        for _ in 0..prng.between(1, 3) {
            // Most of a write has one time and one lifetime.
            let mut said = Said { at: first + 1, ttl, since: now, value: Some(Vec::new()) };
            if prng.one_in(6) {
                said.at = first + prng.between(1, 4) as i64;
            }
            if prng.one_in(8) {
                said.ttl = 3 - said.ttl.min(3);
            }
            self.add(&said, &mut facts, prng);
        }
        facts
    }

    fn clustering(&self, depth: usize, prng: &mut Prng) -> Vec<u8> {
        let mut key = Vec::new();
        (0..depth).for_each(|_| push_clustering(&int(prng), &mut key));
        key
    }

    fn range(&self, prng: &mut Prng) -> Option<ClusteringRange> {
        let bound = |prng: &mut Prng| {
            let depth = prng.below(self.base.clustering_count as u64 + 1) as usize;
            let weight = if prng.one_in(2) { 1 } else { -1 };
            ClusteringPosition { prefix: self.clustering(depth, prng).into(), weight }
        };
        let (a, b) = (bound(prng), bound(prng));
        let is_sorted = a.compare(&self.base.order, &b).is_le();
        let (start, end) = if is_sorted { (a, b) } else { (b, a) };
        let range = ClusteringRange { start, end };
        (!range.is_empty(&self.base.order)).then_some(range)
    }

    fn add(&self, said: &Said, facts: &mut Vec<Fact>, prng: &mut Prng) {
        let key = self.clustering(self.base.clustering_count, prng);
        match prng.below(12) {
            0 => facts.push(Fact::PartitionDeleted(said.at)),
            1 | 2 => facts.push(Fact::RowDeleted(key, said.at)),
            3 | 4 => {
                let range = self.range(prng);
                facts.extend(range.map(|range| Fact::RangeDeleted(range, said.at)));
            }
            5 | 6 if self.base.has_statics() => {
                let columns: Vec<&Column> = self.columns_of(true).collect();
                let column = prng.pick(&columns).expect("static columns");
                self.column(column, None, said, facts, prng);
            }
            kind => {
                if kind < 9 {
                    facts.push(Fact::Marker(key.clone(), said.clone()));
                }
                for column in self.columns_of(false) {
                    if prng.one_in(2) {
                        self.column(column, Some(key.clone()), said, facts, prng);
                    }
                }
            }
        }
    }

    fn column(&self, column: &Column, of: Of, said: &Said, facts: &mut Vec<Fact>, prng: &mut Prng) {
        let (id, ty) = (column.id, &column.ty);
        if !ty.is_multi_cell() {
            let value = (!prng.one_in(4)).then(|| any_value(ty, prng));
            return facts.push(Fact::Cell(of, id, Said { value, ..said.clone() }));
        }
        if prng.one_in(3) {
            // An overwrite, or a deletion.
            let at = if prng.one_in(4) { said.at } else { said.at - 1 };
            facts.push(Fact::Cleared(of.clone(), id, at));
        }
        for _ in 0..prng.below(3) {
            let path = match ty {
                Type::List { .. } => {
                    let clock = [0x80, 0, 0, 0, 0, 0, 0, prng.below(3) as u8];
                    value::timeuuid_from_ticks(7, clock).into_bytes().to_vec()
                }
                Type::User(_) => (prng.below(3) as u16).to_be_bytes().to_vec(),
                _ => int(prng),
            };
            let is_set = matches!(ty, Type::Set { .. });
            let value = (!prng.one_in(4)).then(|| if is_set { Vec::new() } else { int(prng) });
            facts.push(Fact::Element(of.clone(), id, path, Said { value, ..said.clone() }));
        }
    }
}
