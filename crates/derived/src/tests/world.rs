//! Base tables and views of them, drawn at random.

use crate::ViewPlan;
use model::schema::{
    Column, ColumnKind, Computed, ComputedColumn, View, ViewCondition, ViewOperator,
};
use model::types::UserTypeRef;
use model::{ColumnId, TableSchema, Type, Uuid};
use stdx::Prng;

pub(super) struct World {
    pub(super) base: TableSchema,
    pub(super) views: Vec<TableSchema>,
    pub(super) plans: Vec<ViewPlan>,
    /// Views may have rows that the base table does not have.
    pub(super) may_have_more: bool,
}

/// Some order of these.
fn shuffled<T>(mut items: Vec<T>, prng: &mut Prng) -> Vec<T> {
    for at in (1..items.len()).rev() {
        items.swap(at, prng.below(at as u64 + 1) as usize);
    }
    items
}

fn user() -> Type {
    Type::User(Box::new(UserTypeRef {
        keyspace: "ks".to_owned(),
        name: "user".to_owned(),
        fields: vec![("x".to_owned(), Type::Int), ("y".to_owned(), Type::Int)],
        frozen: false,
    }))
}

fn base(prng: &mut Prng) -> TableSchema {
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
    if 0 < depth {
        let map = Type::Map { key: Type::Int.into(), value: Type::Int.into(), frozen: false };
        table = table.static_column("s", Type::Int).static_column("sm", map);
    }
    let map = Type::Map { key: Type::Int.into(), value: Type::Int.into(), frozen: false };
    let list = Type::List { element: Type::Int.into(), frozen: false };
    let set = Type::Set { element: Type::Int.into(), frozen: false };
    let kinds = [("a", Type::Int), ("b", Type::Text), ("m", map), ("l", list), ("e", set)];
    let attributes = Type::Map { key: Type::Text.into(), value: Type::Blob.into(), frozen: false };
    let kinds = kinds.into_iter().chain([("u", user()), ("t", attributes)]).collect();
    for (name, ty) in shuffled(kinds, prng) {
        if name == "a" || prng.one_in(2) {
            table = table.regular(name, ty);
        }
    }
    table.build().expect("a table")
}

/// A view that is being made.
struct Making<'b> {
    base: &'b TableSchema,
    view: View,
    keys: Vec<(String, Type, Option<Computed>)>,
    partition_count: usize,
    regulars: Vec<Column>,
}

impl<'b> Making<'b> {
    fn new(base: &'b TableSchema) -> Making<'b> {
        let view = View { base: base.id, base_name: base.name.clone(), ..View::default() };
        Making { base, view, keys: Vec::new(), partition_count: 1, regulars: Vec::new() }
    }

    fn key(&mut self, name: &str) {
        let column = self.base.column(name).expect("a column of the base");
        self.keys.push((name.to_owned(), column.ty.clone(), None));
    }

    fn computed(&mut self, name: &str, ty: Type, computed: Computed) {
        self.keys.push((name.to_owned(), ty, Some(computed)));
    }

    fn keys_of(&mut self, kinds: &[ColumnKind]) {
        let columns = self.base.columns.iter().filter(|column| kinds.contains(&column.kind));
        columns.for_each(|column| self.key(&column.name));
    }

    fn finish(mut self, name: &str, prng: &mut Prng) -> TableSchema {
        let id = Uuid::from_u128(u128::from(prng.next_u64()) | 2);
        let mut table = TableSchema::builder("ks", name, id);
        let mut columns = Vec::new();
        for (at, (name, ty, computed)) in self.keys.into_iter().enumerate() {
            let kind = match at < self.partition_count {
                true => ColumnKind::PartitionKey,
                false => ColumnKind::Clustering,
            };
            let reversed = kind == ColumnKind::Clustering && prng.one_in(3);
            columns.push((name, ty, kind, reversed, computed, false));
        }
        for column in self.regulars {
            let is_hidden = self.view.hidden.contains(&column.id);
            columns.push((column.name, column.ty, ColumnKind::Regular, false, None, is_hidden));
        }
        let ids = shuffled((0..columns.len() as u32).map(ColumnId).collect(), prng);
        self.view.hidden.clear();
        for ((name, ty, kind, reversed, computed, is_hidden), id) in columns.into_iter().zip(ids) {
            if let Some(computed) = computed {
                self.view.computed.push(ComputedColumn { id, computed });
            }
            if is_hidden {
                self.view.hidden.push(id);
            }
            // They come in their order, so each stands last of its kind.
            let position = u16::MAX;
            table = table.stored_column(Column { id, name, kind, position, ty, reversed });
        }
        self.view.hidden.sort();
        self.view.computed.sort_by_key(|column| column.id);
        let table = table.build().expect("a view");
        let keys = &table.columns[..table.partition_key_count + table.clustering_count];
        self.view.lives_by_marker = View::must_live_by_marker(self.base, keys, &self.view);
        table.edit().view(self.view).build().expect("a view")
    }
}

const KEYS: &[ColumnKind] = &[ColumnKind::PartitionKey, ColumnKind::Clustering];

/// What the type of a hidden column is in the view.
fn hidden_type(ty: &Type) -> Type {
    match ty {
        Type::Map { key, frozen: false, .. } => {
            Type::Map { key: key.clone(), value: Type::Empty.into(), frozen: false }
        }
        Type::List { frozen: false, .. } => {
            Type::List { element: Type::Empty.into(), frozen: false }
        }
        ty if ty.is_multi_cell() => ty.clone(),
        _ => Type::Empty,
    }
}

fn int(value: i32) -> Vec<Vec<u8>> {
    vec![value.to_be_bytes().to_vec()]
}

fn condition(name: &str, prng: &mut Prng) -> ViewCondition {
    use ViewOperator::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual};
    let operators = [Equal, Less, LessOrEqual, Greater, GreaterOrEqual, In];
    let operator = *prng.pick(&operators).expect("operators");
    let count = if operator == In { prng.below(3) } else { 1 };
    let values = (0..count).map(|_| int(prng.below(3) as i32)).collect();
    ViewCondition { columns: vec![name.to_owned()], operator, values }
}

fn mirror(base: &TableSchema, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    making.keys_of(KEYS);
    making.keys = shuffled(making.keys, prng);
    making.partition_count = prng.between(1, making.keys.len() as u64) as usize;
    for column in base.regulars() {
        let mut column = column.clone();
        if prng.one_in(2) {
            column.ty = hidden_type(&column.ty);
            making.view.hidden.push(column.id);
        }
        making.regulars.push(column);
    }
    if prng.one_in(4) {
        making.view.filter.push(condition("p", prng));
    }
    if base.column("c").is_some() && prng.one_in(3) {
        making.view.filter.push(condition("c", prng));
    }
    making.finish("mirror", prng)
}

fn keyed(base: &TableSchema, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    let key = if base.column("b").is_some() && prng.one_in(2) { "b" } else { "a" };
    making.keys_of(KEYS);
    making.key(key);
    making.keys = shuffled(making.keys, prng);
    making.partition_count = prng.between(1, making.keys.len() as u64) as usize;
    let selected = base.regulars().iter().filter(|column| column.name != key);
    making.regulars = selected.filter(|_| prng.one_in(2)).cloned().collect();
    if key == "a" && prng.one_in(2) {
        making.view.filter.push(condition("a", prng));
    }
    if base.column("c").is_some() && prng.one_in(4) {
        making.view.filter.push(condition("c", prng));
    }
    making.finish("keyed", prng)
}

/// An index in one partition.
fn local(base: &TableSchema, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    making.keys_of(&[ColumnKind::PartitionKey]);
    making.partition_count = making.keys.len();
    making.key("a");
    making.keys_of(&[ColumnKind::Clustering]);
    making.finish("local", prng)
}

fn static_index(base: &TableSchema, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    making.key("s");
    making.computed("idx_token", Type::BigInt, Computed::Token);
    making.keys_of(&[ColumnKind::PartitionKey]);
    making.finish("of_static", prng)
}

fn elements(base: &TableSchema, name: &str, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    let column = base.column(name).expect("a collection");
    let of = || name.to_owned();
    let entry = || Type::Tuple(vec![Type::Int, Type::Int]);
    let (ty, computed) = match &column.ty {
        Type::Set { .. } => (Type::Int, Computed::ElementKey(of())),
        Type::List { .. } => (Type::Int, Computed::ElementValue(of())),
        _ => match prng.below(3) {
            0 => (Type::Int, Computed::ElementKey(of())),
            1 => (Type::Int, Computed::ElementValue(of())),
            _ => (entry(), Computed::ElementEntry(of())),
        },
    };
    let by_value = matches!(computed, Computed::ElementValue(_));
    making.computed("coll_value", ty, computed);
    making.computed("idx_token", Type::BigInt, Computed::Token);
    let is_static = column.kind == ColumnKind::Static;
    making.keys_of(if is_static { &KEYS[..1] } else { KEYS });
    if by_value {
        let ty = if name == "l" { Type::TimeUuid } else { Type::Int };
        making.computed("keys_for_values_idx", ty, Computed::KeyOfValue(of()));
    }
    making.finish(name, prng)
}

/// Attributes that views are found by; all but the first are texts.
pub(super) const NAMES: [&str; 4] = ["x", "y", "z", "w"];

/// Found by so many attributes of the map.
fn attributes(base: &TableSchema, count: usize, prng: &mut Prng) -> TableSchema {
    let mut making = Making::new(base);
    making.keys_of(KEYS);
    let types = [Type::Text, Type::Text, Type::Blob, Type::Decimal];
    for name in shuffled(NAMES.to_vec(), prng).into_iter().take(count) {
        let types = if name == NAMES[0] { &types[..] } else { &types[..1] };
        let ty = prng.pick(types).expect("types").clone();
        making.computed(name, ty, Computed::Attribute("t".to_owned()));
    }
    making.keys = shuffled(making.keys, prng);
    making.partition_count = prng.between(1, making.keys.len() as u64) as usize;
    making.regulars = base.regulars().iter().filter(|_| prng.one_in(2)).cloned().collect();
    making.finish("attributes", prng)
}

impl World {
    /// With a view that is found by several attributes.
    pub(super) fn of_several(prng: &mut Prng) -> World {
        let base = loop {
            let base = base(prng);
            if base.column("t").is_some() {
                break base;
            }
        };
        let count = prng.between(2, NAMES.len() as u64) as usize;
        let views = vec![attributes(&base, count, prng)];
        let plan = |view| ViewPlan::new(&base, view).expect("a view of the base");
        World { plans: views.iter().map(plan).collect(), views, base, may_have_more: false }
    }

    pub(super) fn any(prng: &mut Prng) -> World {
        let base = base(prng);
        let mut kinds = vec!["mirror", "mirror", "keyed", "keyed", "local"];
        let has = |name: &&&str| base.column(name).is_some();
        kinds.extend(["s", "sm", "m", "l", "e", "t"].iter().filter(has));
        let views: Vec<TableSchema> = (0..prng.between(1, 3))
            .map(|_| match *prng.pick(&kinds).expect("kinds") {
                "mirror" => mirror(&base, prng),
                "keyed" => keyed(&base, prng),
                "local" => local(&base, prng),
                "s" => static_index(&base, prng),
                "t" => attributes(&base, 1, prng),
                name => elements(&base, name, prng),
            })
            .collect();
        let plan = |view| ViewPlan::new(&base, view).expect("a view of the base");
        World { plans: views.iter().map(plan).collect(), views, base, may_have_more: false }
    }

    pub(super) fn describe(&self) -> String {
        let mut out = String::new();
        for table in std::iter::once(&self.base).chain(&self.views) {
            out +=
                &format!("{} of {} in the partition key:", table.name, table.partition_key_count);
            for column in &table.columns {
                out += &format!(" {}{:?}", column.name, column.id);
            }
            out += &format!(" {:?}\n", table.view);
        }
        out
    }
}
