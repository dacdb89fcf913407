//! The tables behind indexes, made by hand.

use model::schema::{Computed, ComputedColumn, Index, IndexTarget, View};
use model::{Column, ColumnId, ColumnKind, TableSchema, Type, Uuid};

/// An index `name` on a column, of the kind that `target` says.
pub fn index(name: &str, column: &str, target: IndexTarget, is_local: bool) -> Index {
    let (name, column) = (name.to_owned(), column.to_owned());
    Index { name, column, target, is_local, class: None, options: Vec::new() }
}

/// The columns of a view, as they are added.
struct Columns(Vec<Column>);

impl Columns {
    fn add(&mut self, name: &str, kind: ColumnKind, ty: &Type, reversed: bool) -> ColumnId {
        let id = ColumnId(self.0.len() as u32);
        let position = self.0.iter().filter(|column| column.kind == kind).count() as u16;
        let (name, ty) = (name.to_owned(), ty.clone());
        self.0.push(Column { id, name, kind, position, ty, reversed });
        id
    }
}

/// The view that keeps an index of `base`.
pub fn view_of(base: &TableSchema, index: &Index, id: Uuid) -> TableSchema {
    let column = base.column(&index.column).expect("the indexed column");
    let (mut columns, mut computed) = (Columns(Vec::new()), Vec::new());
    let of = index.column.clone();
    let element = match (index.target, &column.ty) {
        (IndexTarget::Keys, Type::Set { element, .. }) => {
            Some(((**element).clone(), Computed::ElementKey(of), None))
        }
        (IndexTarget::Keys, Type::Map { key, .. }) => {
            Some(((**key).clone(), Computed::ElementKey(of), None))
        }
        (IndexTarget::Entries, Type::Map { key, value, .. }) => {
            let entry = Type::Tuple(vec![(**key).clone(), (**value).clone()]);
            Some((entry, Computed::ElementEntry(of), None))
        }
        (IndexTarget::ElementValues, Type::Map { key, value, .. }) => {
            Some(((**value).clone(), Computed::ElementValue(of), Some((**key).clone())))
        }
        (IndexTarget::ElementValues, Type::List { element, .. }) => {
            Some(((**element).clone(), Computed::ElementValue(of), Some(Type::TimeUuid)))
        }
        _ => None,
    };
    let value = match index.is_local {
        true => ColumnKind::Clustering,
        false => ColumnKind::PartitionKey,
    };
    if index.is_local {
        for it in base.partition_key() {
            columns.add(&it.name, ColumnKind::PartitionKey, &it.ty, false);
        }
    }
    let mut of_element = None;
    match element {
        Some((ty, what, key)) => {
            let id = columns.add("coll_value", value, &ty, false);
            computed.push(ComputedColumn { id, computed: what });
            of_element = key;
        }
        None => drop(columns.add(&column.name, value, &column.ty, false)),
    }
    if !index.is_local {
        let id = columns.add("idx_token", ColumnKind::Clustering, &Type::BigInt, false);
        computed.push(ComputedColumn { id, computed: Computed::Token });
        for it in base.partition_key().iter().filter(|it| it.id != column.id) {
            columns.add(&it.name, ColumnKind::Clustering, &it.ty, false);
        }
    }
    let rows = base.clustering().iter().filter(|it| it.id != column.id);
    for it in rows.filter(|_| column.kind != ColumnKind::Static) {
        columns.add(&it.name, ColumnKind::Clustering, &it.ty, it.reversed);
    }
    if let Some(ty) = of_element {
        let id = columns.add("keys_for_values_idx", ColumnKind::Clustering, &ty, false);
        let computed_key = Computed::KeyOfValue(index.column.clone());
        computed.push(ComputedColumn { id, computed: computed_key });
    }
    let base_name = base.name.clone();
    let view = View { base: base.id, base_name, computed, ..View::default() };
    let builder = TableSchema::builder(&base.keyspace, &index.view_name(), id).view(view);
    let builder = columns.0.into_iter().fold(builder, |builder, it| builder.stored_column(it));
    builder.build().expect("a view")
}
