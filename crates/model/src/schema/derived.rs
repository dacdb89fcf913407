//! What makes a table a view of another one, and what indexes a table has. Plain data: what is
//! written to a view is `derived`'s to say, and how an index is asked `plan`'s.
//!
//! A view is a table like others: it has an id, options, tablets and SSTables. Its columns are
//! those of the base table of the same names, but for computed ones. An index of a base table is
//! answered from such a view, whose name is [`Index::view_name`].

use super::{Column, ColumnId, ColumnKind, TableId, TableSchema};
use crate::key::{compose_partition_key, push_clustering};
use crate::types::quote_identifier;
use crate::value::quote_json;

/// What makes a table a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub base: TableId,
    pub base_name: String,
    /// The conditions of its rows as CQL, as they are shown.
    pub where_clause: String,
    /// Whether it was made with `SELECT *`: it gets the columns that the base table gets.
    pub includes_all: bool,
    /// Which rows of the base table it has, besides those where a column of its key is null: those
    /// of which all conditions are true.
    pub filter: Vec<ViewCondition>,
    /// Regular columns, in order of ids, whose values it does not have: only whether they live, for
    /// a row lives as long as one of them. Nobody sees them.
    pub hidden: Vec<ColumnId>,
    /// Columns that the base table does not have, in order of ids.
    pub computed: Vec<ComputedColumn>,
    /// Whether a row lives by its marker alone, whatever cells it has: what it is found by may
    /// change while its base row stays. See [`View::must_live_by_marker`].
    pub lives_by_marker: bool,
    /// Whether a write of the base table is acknowledged only when this view has its part; where
    /// nobody has said so, it is not.
    pub synchronous: Option<bool>,
}

/// A condition on columns of the base table: of its key, or the one regular column in the view's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCondition {
    /// One, or the columns of a tuple, by their names.
    pub columns: Vec<String>,
    pub operator: ViewOperator,
    /// For [`ViewOperator::In`] any number of them, else one; each with a value for each column.
    pub values: Vec<Vec<Vec<u8>>>,
}

/// How a condition compares. Tuples compare by their parts, in order, whatever the order of the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl ViewOperator {
    /// Each of them with its name.
    const NAMES: [(ViewOperator, &str); 6] = [
        (ViewOperator::Equal, "="),
        (ViewOperator::Less, "<"),
        (ViewOperator::LessOrEqual, "<="),
        (ViewOperator::Greater, ">"),
        (ViewOperator::GreaterOrEqual, ">="),
        (ViewOperator::In, "IN"),
    ];

    /// As CQL has it.
    pub fn name(self) -> &'static str {
        let named = ViewOperator::NAMES.into_iter().find(|(operator, _)| *operator == self);
        named.expect("each operator has a name").1
    }

    /// The operator of that name.
    pub fn from_name(name: &str) -> Option<ViewOperator> {
        let named = ViewOperator::NAMES.into_iter().find(|(_, known)| *known == name);
        named.map(|(operator, _)| operator)
    }
}

/// A column of a view that is computed from the base table's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedColumn {
    pub id: ColumnId,
    pub computed: Computed,
}

/// What a computed column has, as far as the base table's row is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Computed {
    /// The token of the partition key: what keeps the rows of one value in the base table's order.
    Token,
    /// Of each element of a collection, by the column's name: its key (of a set the element).
    ElementKey(String),
    /// Its value.
    ElementValue(String),
    /// Both, as a tuple.
    ElementEntry(String),
    /// Beside [`Computed::ElementValue`]: the key of the element (of a list its time UUID), so that
    /// equal values are rows of their own.
    KeyOfValue(String),
    /// Of a map, by its column's name, the element whose key is the name of the computed column:
    /// its value if that is of the computed column's type, else there is no row. Values are a byte
    /// for the type (0 text, 1 blob, 3 decimal), then the value.
    Attribute(String),
}

/// What an index looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexTarget {
    /// The value of a column, of a frozen collection as a whole.
    Values,
    Keys,
    Entries,
    /// The elements of a list, or the values of a map.
    ElementValues,
    /// As [`IndexTarget::Values`], of a frozen collection.
    Full,
}

impl IndexTarget {
    /// Each of them with its name.
    const NAMES: [(IndexTarget, &str); 5] = [
        (IndexTarget::Values, "column"),
        (IndexTarget::Keys, "keys"),
        (IndexTarget::Entries, "entries"),
        (IndexTarget::ElementValues, "values"),
        (IndexTarget::Full, "full"),
    ];

    /// As it is stored.
    pub fn name(self) -> &'static str {
        let named = IndexTarget::NAMES.into_iter().find(|(target, _)| *target == self);
        named.expect("each target has a name").1
    }

    /// The target of that name.
    pub fn from_name(name: &str) -> Option<IndexTarget> {
        let named = IndexTarget::NAMES.into_iter().find(|(_, known)| *known == name);
        named.map(|(target, _)| target)
    }
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub name: String,
    /// The column that is indexed.
    pub column: String,
    pub target: IndexTarget,
    /// Whether its view has the partition key of the base table, so that it is asked within one
    /// partition.
    pub is_local: bool,
    /// The class that a CUSTOM index was made with, as it was given.
    pub class: Option<String>,
    /// The options that a CUSTOM index was made with.
    pub options: Vec<(String, String)>,
}

impl Index {
    /// The name of the view that answers it.
    pub fn view_name(&self) -> String {
        format!("{}_index", self.name)
    }
}

impl Computed {
    /// Its kind as it is stored, and the column that it is computed of.
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Computed::Token => ("token", None),
            Computed::ElementKey(column) => ("element_key", Some(column)),
            Computed::ElementValue(column) => ("element_value", Some(column)),
            Computed::ElementEntry(column) => ("element_entry", Some(column)),
            Computed::KeyOfValue(column) => ("key_of_value", Some(column)),
            Computed::Attribute(column) => ("attribute", Some(column)),
        }
    }

    /// What has these [`Computed::parts`].
    pub fn from_parts(kind: &str, column: Option<&str>) -> Option<Computed> {
        match (kind, column.map(str::to_owned)) {
            ("token", None) => Some(Computed::Token),
            ("element_key", Some(column)) => Some(Computed::ElementKey(column)),
            ("element_value", Some(column)) => Some(Computed::ElementValue(column)),
            ("element_entry", Some(column)) => Some(Computed::ElementEntry(column)),
            ("key_of_value", Some(column)) => Some(Computed::KeyOfValue(column)),
            ("attribute", Some(column)) => Some(Computed::Attribute(column)),
            _ => None,
        }
    }
}

impl View {
    /// Whether a write of the base table is acknowledged only when this view has its part.
    pub fn is_synchronous(&self) -> bool {
        self.synchronous == Some(true)
    }

    /// Whether rows of a view with these key columns live by their markers alone: one of these is
    /// no key column of the base table.
    pub fn must_live_by_marker(base: &TableSchema, keys: &[Column], view: &View) -> bool {
        keys.iter().any(|key| match view.computed(key.id) {
            Some(computed) => *computed != Computed::Token,
            None => base.column(&key.name).is_some_and(|it| ColumnKind::Static <= it.kind),
        })
    }

    /// What is computed for that column, if it is a computed one.
    pub fn computed(&self, id: ColumnId) -> Option<&Computed> {
        self.computed.iter().find(|column| column.id == id).map(|column| &column.computed)
    }
}

/// Where the row of a base table is found that a row of a view is of, and what it must have for the
/// row of the view to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    key_count: usize,
    /// Of each column of the base table's partition key, then of its clustering key as far as the
    /// view knows it, where it stands in the key of the view.
    places: Vec<usize>,
    /// Columns of the base table that must have the value that stands there, static ones first.
    values: Vec<(ColumnId, usize)>,
    static_count: usize,
}

/// See [`Origins`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub key: Vec<u8>,
    /// A prefix, as far as the view knows it: a view of static columns has no clustering columns.
    pub clustering: Vec<u8>,
    /// The values of [`Origins::columns`].
    pub values: Vec<Vec<u8>>,
}

impl Origins {
    /// Of the rows of a view.
    pub fn of(base: &TableSchema, view: &TableSchema) -> Origins {
        let keys: Vec<&Column> = view.partition_key().iter().chain(view.clustering()).collect();
        let place = |name: &str| keys.iter().position(|key| key.name == name);
        let of_keys = base.partition_key().iter().chain(base.clustering());
        let places: Vec<usize> = of_keys.map_while(|column| place(&column.name)).collect();
        let others = base.statics().iter().chain(base.regulars());
        let values = others.filter_map(|it| Some((it.id, it.kind, place(&it.name)?)));
        let values: Vec<_> = values.collect();
        let is_static = |(_, kind, _): &&(_, ColumnKind, _)| *kind == ColumnKind::Static;
        let static_count = values.iter().filter(is_static).count();
        let values = values.into_iter().map(|(id, _, place)| (id, place)).collect();
        Origins { key_count: base.partition_key_count, places, values, static_count }
    }

    /// The columns of the base table that are compared, static ones first, and how many are static.
    pub fn columns(&self) -> (impl Iterator<Item = ColumnId> + use<'_>, usize) {
        (self.values.iter().map(|(id, _)| *id), self.static_count)
    }

    /// The partition of the base table that something in a view is of, by the key of a row of the
    /// view or as much of one as is known, column by column; `None`: that is not enough.
    pub fn partition_of(&self, key: &[&[u8]]) -> Option<Vec<u8>> {
        let places = self.places.get(..self.key_count)?;
        let parts: Option<Vec<&[u8]>> = places.iter().map(|at| key.get(*at).copied()).collect();
        let mut composed = Vec::new();
        compose_partition_key(parts?.into_iter(), &mut composed);
        Some(composed)
    }

    /// Of the row of the view with that key, column by column.
    pub fn of_row(&self, key: &[&[u8]]) -> Origin {
        let part = |place: &usize| key.get(*place).copied().unwrap_or_default();
        let (partition, rows) = self.places.split_at(self.key_count.min(self.places.len()));
        let (mut composed, mut clustering) = (Vec::new(), Vec::new());
        compose_partition_key(partition.iter().map(part), &mut composed);
        rows.iter().for_each(|place| push_clustering(part(place), &mut clustering));
        let values = self.values.iter().map(|(_, place)| part(place).to_vec()).collect();
        Origin { key: composed, clustering, values }
    }
}

impl TableSchema {
    /// Whether nobody sees that column.
    pub fn is_hidden(&self, id: ColumnId) -> bool {
        self.view.as_ref().is_some_and(|view| view.hidden.binary_search(&id).is_ok())
    }

    /// The kind of an index of this table, as `system_schema.indexes` has it.
    pub fn index_kind(&self, index: &Index) -> &'static str {
        match (&index.class, self.compact_storage) {
            (Some(_), _) => "CUSTOM",
            (None, true) => "KEYS",
            (None, false) => "COMPOSITES",
        }
    }

    /// The options of an index of this table, as `system_schema.indexes` has them: in order of
    /// names, what it is on among them.
    pub fn index_options(&self, index: &Index) -> Vec<(String, String)> {
        let mut options = index.options.clone();
        let column = quote_identifier(&index.column);
        let target = match index.target {
            _ if index.is_local => {
                let names = self.partition_key().iter().map(|column| quote_json(&column.name));
                let partition = names.collect::<Vec<_>>().join(",");
                format!("{{\"pk\":[{partition}],\"ck\":[{}]}}", quote_json(&index.column))
            }
            IndexTarget::Values | IndexTarget::Full => column,
            IndexTarget::Keys | IndexTarget::Entries | IndexTarget::ElementValues => {
                format!("{}({column})", index.target.name())
            }
        };
        options.push(("target".to_owned(), target));
        options.extend(index.class.iter().map(|it| ("class_name".to_owned(), it.clone())));
        options.sort();
        options
    }

    /// Whether rows live by their markers alone.
    pub fn lives_by_marker(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.lives_by_marker)
    }

    /// The index of that name.
    pub fn index_named(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (operator, name) in ViewOperator::NAMES {
            assert_eq!((operator.name(), ViewOperator::from_name(name)), (name, Some(operator)));
        }
        for (target, name) in IndexTarget::NAMES {
            assert_eq!((target.name(), IndexTarget::from_name(name)), (name, Some(target)));
        }
        let column = || "c".to_owned();
        let all = [
            Computed::Token,
            Computed::ElementKey(column()),
            Computed::ElementValue(column()),
            Computed::ElementEntry(column()),
            Computed::KeyOfValue(column()),
            Computed::Attribute(column()),
        ];
        for computed in all {
            let (kind, column) = computed.parts();
            assert_eq!(Computed::from_parts(kind, column), Some(computed.clone()));
            assert_eq!(Computed::from_parts(kind, column.xor(Some("c"))), None);
        }
        assert_eq!((ViewOperator::from_name("!="), IndexTarget::from_name("")), (None, None));
    }
}
