//! What is known of a view once and for all its writes, as long as neither schema changes.

use crate::filter::Filter;
use crate::place::Source;
use model::schema::{Column, ColumnId, ColumnKind, Computed, View};
use model::{TableId, TableSchema, Type};

/// How a view follows its base table. Good for one version of each of both schemas.
#[derive(Clone, Debug)]
pub struct ViewPlan {
    pub(crate) view: TableSchema,
    pub(crate) kind: Kind,
    pub(crate) partition: Vec<Source>,
    pub(crate) clustering: Vec<Source>,
    /// By their ids in the view.
    pub(crate) columns: Vec<Projected>,
    /// Whether these ascend by their ids in the base table, too.
    pub(crate) is_in_order: bool,
    pub(crate) filter: Filter,
    /// Whether a partition of the base table is one partition of the view.
    pub(crate) keeps_partitions: bool,
    pub(crate) has_token: bool,
    /// The type of the value that rows are found by, where it is a clustering column: values that
    /// are equal in its order are one row, whatever their bytes.
    pub(crate) value_type: Option<Type>,
}

/// What a view's rows are found by, beside the key of the base table's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Nothing.
    Mirror,
    /// The value of that column.
    Keyed { column: ColumnId, is_static: bool },
    /// A part of each element of that collection.
    Elements { column: ColumnId, is_static: bool, ty: Type, part: Part },
    /// The values of some elements of that map, which all must be there.
    Attributes { column: ColumnId, of: Vec<Attribute> },
}

/// An element of a map that a view is found by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribute {
    /// Its key in the map.
    pub(crate) path: Vec<u8>,
    /// Of values that count; and what they begin with.
    pub(crate) ty: Type,
    pub(crate) tag: u8,
    /// Whether values that are equal in their order are one row, whatever their bytes.
    pub(crate) is_clustering: bool,
}

/// The part of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Key,
    Value,
    Entry,
}

/// A column that a view has from its base table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Projected {
    pub(crate) base: ColumnId,
    pub(crate) view: ColumnId,
    pub(crate) form: Form,
}

/// What is copied of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// All but the value, of the cell or of each element.
    WithoutValues,
}

impl ViewPlan {
    /// How `view` follows `base`. Says what is wrong with schemas that do not fit.
    pub fn new(base: &TableSchema, view: &TableSchema) -> Result<ViewPlan, String> {
        let wrong = |what: String| format!("the view {}.{}: {what}", view.keyspace, view.name);
        ViewPlan::compile(base, view).map_err(wrong)
    }

    /// The table that it writes.
    pub fn view(&self) -> TableId {
        self.view.id
    }

    /// Whether nothing of a row before is needed to derive from a write of it.
    pub(crate) fn is_mirror(&self) -> bool {
        self.kind == Kind::Mirror
    }

    /// Whether it follows the static row, and no other.
    pub(crate) fn is_of_statics(&self) -> bool {
        match self.kind {
            Kind::Mirror | Kind::Attributes { .. } => false,
            Kind::Keyed { is_static, .. } | Kind::Elements { is_static, .. } => is_static,
        }
    }

    fn compile(base: &TableSchema, table: &TableSchema) -> Result<ViewPlan, String> {
        let Some(view) = &table.view else { return Err("is no view".to_owned()) };
        if view.base != base.id {
            return Err(format!("is of another table than {}.{}", base.keyspace, base.name));
        }
        let keys = &table.columns[..table.partition_key_count + table.clustering_count];
        let kind = kind_of(base, view, keys)?;
        let source = |column: &Column| source_of_key(base, view, &kind, column);
        let sources = keys.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        let (partition, clustering) = sources.split_at(table.partition_key_count);
        let needs_clustering = !kind.is_of_statics();
        check_whole_key(base, &sources, needs_clustering)?;
        let columns = columns_of(base, table, view)?;
        let is_value = |index: &usize| sources[*index] == Source::Value;
        let value_at = (table.partition_key_count..keys.len()).find(is_value);
        let promoted = match kind {
            Kind::Keyed { column, .. } => Some(column),
            _ => None,
        };
        let filter = Filter::new(&view.filter, |name| source_of_name(base, promoted, name))?;
        let of_partition = |source: &Source| matches!(source, Source::Partition(_));
        Ok(ViewPlan {
            kind,
            is_in_order: columns.is_sorted_by_key(|column| column.base),
            columns,
            filter,
            keeps_partitions: partition.iter().all(of_partition)
                && partition.len() == base.partition_key_count,
            has_token: sources.contains(&Source::Token),
            value_type: value_at.map(|index| keys[index].ty.clone()),
            partition: partition.to_vec(),
            clustering: clustering.to_vec(),
            view: table.clone(),
        })
    }
}

impl Kind {
    fn is_of_statics(&self) -> bool {
        matches!(self, Kind::Keyed { is_static: true, .. } | Kind::Elements { is_static: true, .. })
    }
}

/// The column of that name, which the base table must have.
fn column_of<'b>(base: &'b TableSchema, name: &str) -> Result<&'b Column, String> {
    base.column(name).ok_or_else(|| format!("its column {name} is none of {}", base.name))
}

fn kind_of(base: &TableSchema, view: &View, keys: &[Column]) -> Result<Kind, String> {
    let mut kind = Kind::Mirror;
    for key in keys {
        let found = match view.computed(key.id) {
            Some(Computed::Token | Computed::KeyOfValue(_)) => continue,
            Some(Computed::ElementKey(name)) => elements(column_of(base, name)?, Part::Key)?,
            Some(Computed::ElementValue(name)) => elements(column_of(base, name)?, Part::Value)?,
            Some(Computed::ElementEntry(name)) => elements(column_of(base, name)?, Part::Entry)?,
            Some(Computed::Attribute(name)) => {
                kind = with_attribute(kind, column_of(base, name)?, key)?;
                continue;
            }
            None => match column_of(base, &key.name)? {
                Column { kind: ColumnKind::PartitionKey | ColumnKind::Clustering, .. } => continue,
                Column { ty, .. } if ty.is_multi_cell() => {
                    return Err(format!("its key has the collection {}", key.name));
                }
                column => {
                    let is_static = column.kind == ColumnKind::Static;
                    Kind::Keyed { column: column.id, is_static }
                }
            },
        };
        if kind != Kind::Mirror {
            return Err(format!("{} is the second column of its key that is none", key.name));
        }
        kind = found;
    }
    Ok(kind)
}

fn elements(column: &Column, part: Part) -> Result<Kind, String> {
    let has_it = |is_map, is_set, is_list| match &column.ty {
        Type::Map { frozen: false, .. } => is_map,
        Type::Set { frozen: false, .. } => is_set,
        Type::List { frozen: false, .. } => is_list,
        _ => false,
    };
    let fits = match part {
        Part::Key => has_it(true, true, false),
        Part::Value => has_it(true, false, true),
        Part::Entry => has_it(true, false, false),
    };
    if !fits {
        return Err(format!("{} has no elements with such a part", column.name));
    }
    let is_static = column.kind == ColumnKind::Static;
    Ok(Kind::Elements { column: column.id, is_static, ty: column.ty.clone(), part })
}

/// How many attributes a view may be found by: as many as keys of DynamoDB's indexes may have.
pub(crate) const ATTRIBUTES_MAX: usize = 8;

/// The kind of a view whose key has one more attribute.
fn with_attribute(kind: Kind, map: &Column, key: &Column) -> Result<Kind, String> {
    let is_map = match &map.ty {
        Type::Map { key, value, frozen: false } => {
            map.kind == ColumnKind::Regular && (&**key, &**value) == (&Type::Text, &Type::Blob)
        }
        _ => false,
    };
    if !is_map {
        return Err(format!("{} is no map of attributes", map.name));
    }
    let tag = match &key.ty {
        Type::Text => 0,
        Type::Blob => 1,
        Type::Decimal => 3,
        _ => return Err(format!("{} is of no type that attributes in keys have", key.name)),
    };
    let (path, ty) = (key.name.as_bytes().to_vec(), key.ty.clone());
    let is_clustering = key.kind == ColumnKind::Clustering;
    let attribute = Attribute { path, ty, tag, is_clustering };
    let of = match kind {
        Kind::Mirror => vec![attribute],
        Kind::Attributes { column, mut of } if column == map.id && of.len() < ATTRIBUTES_MAX => {
            of.push(attribute);
            of
        }
        _ => return Err(format!("{} is one column too many of its key", key.name)),
    };
    Ok(Kind::Attributes { column: map.id, of })
}

fn source_of_key(
    base: &TableSchema,
    view: &View,
    kind: &Kind,
    key: &Column,
) -> Result<Source, String> {
    Ok(match view.computed(key.id) {
        Some(Computed::Attribute(_)) => {
            let Kind::Attributes { of, .. } = kind else { return Ok(Source::Value) };
            let at = of.iter().position(|it| it.path == key.name.as_bytes());
            match at.and_then(|at| at.checked_sub(1)) {
                None => Source::Value,
                Some(at) => Source::Attribute(at as u16),
            }
        }
        Some(Computed::Token) => Source::Token,
        Some(Computed::KeyOfValue(_)) => Source::Path,
        Some(_) => Source::Value,
        None => source_of_column(column_of(base, &key.name)?),
    })
}

fn source_of_column(column: &Column) -> Source {
    match column.kind {
        ColumnKind::PartitionKey => Source::Partition(column.position),
        ColumnKind::Clustering => Source::Clustering(column.position),
        ColumnKind::Static | ColumnKind::Regular => Source::Value,
    }
}

/// Of a column that a condition names: one of the base table's key, or the `promoted` one.
fn source_of_name(
    base: &TableSchema,
    promoted: Option<ColumnId>,
    name: &str,
) -> Result<(Source, Type), String> {
    let column = column_of(base, name)?;
    let source = source_of_column(column);
    if source == Source::Value && promoted != Some(column.id) {
        return Err(format!("its condition on {name}, which is no column of its key"));
    }
    Ok((source, column.ty.clone()))
}

/// Rows of the base table must not meet in one of the view.
fn check_whole_key(
    base: &TableSchema,
    sources: &[Source],
    needs_clustering: bool,
) -> Result<(), String> {
    let keys = base.partition_key().iter();
    let keys = keys.chain(base.clustering().iter().filter(|_| needs_clustering));
    for key in keys {
        if !sources.contains(&source_of_column(key)) {
            return Err(format!("its key has not {}", key.name));
        }
    }
    Ok(())
}

fn columns_of(
    base: &TableSchema,
    table: &TableSchema,
    view: &View,
) -> Result<Vec<Projected>, String> {
    let mut columns = Vec::with_capacity(table.regulars().len());
    for column in table.regulars() {
        let source = column_of(base, &column.name)?;
        if source.kind != ColumnKind::Regular || view.computed(column.id).is_some() {
            return Err(format!("{} is no regular column of {}", column.name, base.name));
        }
        let is_hidden = view.hidden.binary_search(&column.id).is_ok();
        let has_keys = matches!(source.ty, Type::Map { .. } | Type::List { .. });
        let is_copied = source.ty.is_multi_cell() && !has_keys;
        let form = if is_hidden && !is_copied { Form::WithoutValues } else { Form::Whole };
        columns.push(Projected { base: source.id, view: column.id, form });
    }
    if !table.statics().is_empty() {
        return Err(format!("{} is static", table.statics()[0].name));
    }
    columns.sort_by_key(|column| column.view);
    Ok(columns)
}
