//! Indexes: what a request wants of them, the views that answer them, what of items they show.
//!
//! An index is a view of its table's rows, `<table>:<index>` where it is global and
//! `<table>!:<index>` where it is local. Its key has the attributes of the index, then what misses
//! of the table's key. Attributes that are no key of the table are computed columns, taken out of
//! the map of attributes (`Computed::Attribute`): an item without one, or with another type, has no
//! row. The view has all attributes; what the index does not project is left out where it is read,
//! so that a projection costs no write.
//!
//! Invariants
//!  - *fits-or-refused*: a write of an attribute that an index has in its key is refused, before
//!    anything is written, unless it is of the index's type, not empty and not too long.
//!  - *local-is-current*: a local index is written with the item, so consistent reads of it are as
//!    those of the table.

use crate::column::{ATTRIBUTES, key_type_name};
use crate::error::Error;
use crate::expression::Selection;
use crate::extent::Extent;
use crate::json::{Json, Object, write_list, write_string};
use crate::request::Request;
use crate::tags::{self, Tags};
use cluster::Schema;
use model::schema::{Computed, ComputedColumn, TableOptions, View};
use model::types::quote_identifier;
use model::{Column, ColumnKind, TableId, TableSchema, Type};

/// Indexes of a table.
pub(crate) const GLOBAL_MAX: usize = 20;
pub(crate) const LOCAL_MAX: usize = 5;
/// Characters of a name.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=255;
/// Of a table's name and an index's, with what is between them: the folder of the view is called
/// by both.
const NAMES_BYTES_MAX: usize = 222;
/// Attributes that are named in `NonKeyAttributes`.
const INCLUDED_MAX: usize = 20;

/// Attributes of each kind in the key of a global index.
pub(crate) const HASH_KEYS_MAX: usize = 4;
pub(crate) const RANGE_KEYS_MAX: usize = 4;

/// How many attributes the key of the index has; those of the view's partition key are its hash.
const KEYS_TAG: &str = "system:table_index_keys";
const PROJECTION_TAG: &str = "system:table_index_projection";

/// What of its items an index has, besides its keys and those of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    All,
    KeysOnly,
    Include(Vec<String>),
}

/// A key as a `KeySchema` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Names and types: those of the hash, then those of the range.
    pub(crate) all: Vec<(String, Type)>,
    pub(crate) hash_count: usize,
}

/// An index that a request wants to have.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) is_local: bool,
    pub(crate) keys: Keys,
    projection: Projection,
}

/// An index that is there.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) is_local: bool,
    /// Attributes of its range key, beside those of the table's key.
    pub(crate) range_count: usize,
    pub(crate) projection: Projection,
}

/// What is between the names of a table and of an index in that of the view.
fn mark(is_local: bool) -> &'static str {
    if is_local { "!:" } else { ":" }
}

impl Index {
    /// That of a view of a table of that name, if it is one.
    pub(crate) fn of(table: &str, view: &TableSchema) -> Option<Index> {
        let rest = view.name.strip_prefix(table)?;
        let local = rest.strip_prefix(mark(true));
        let name = local.or_else(|| rest.strip_prefix(mark(false)))?.to_owned();
        let tags = tags::of(view);
        let count = tags.get(KEYS_TAG).and_then(|count| count.parse::<usize>().ok());
        let of_range = count.unwrap_or(0).saturating_sub(view.partition_key_count);
        let range_count = of_range.min(view.clustering_count);
        let projection = tags.get(PROJECTION_TAG).map_or(Projection::All, |it| stored(it));
        Some(Index { name, is_local: local.is_some(), range_count, projection })
    }

    /// The columns of its key in the view.
    pub(crate) fn keys<'v>(&self, view: &'v TableSchema) -> &'v [Column] {
        &view.columns[..view.partition_key_count + self.range_count]
    }

    /// What it shows of items; `None`: all.
    pub(crate) fn selection(&self, view: &TableSchema) -> Option<Selection> {
        let included = match &self.projection {
            Projection::All => return None,
            Projection::KeysOnly => &[][..],
            Projection::Include(names) => names,
        };
        let keys = view.columns[..view.partition_key_count + view.clustering_count].iter();
        let keys = keys.map(|column| column.name.clone());
        Some(Selection::of_names(keys.chain(included.iter().cloned())))
    }
}

/// The indexes of a table, with their views.
pub(crate) fn all<'s>(
    schema: &'s Schema,
    table: &'s TableSchema,
    views: &'s [TableId],
) -> impl Iterator<Item = (Index, &'s std::rc::Rc<cluster::TableEntry>)> {
    let views = views.iter().filter_map(|view| schema.table_by_id(*view));
    views.filter_map(|view| Some((Index::of(&table.name, &view.schema)?, view)))
}

/// The attributes that are in keys of indexes and not in that of the table, as the views have them.
pub(crate) fn indexed(schema: &Schema, views: &[TableId]) -> Vec<Column> {
    let views = views.iter().filter_map(|view| schema.table_by_id(*view));
    let of_view = |view: &std::rc::Rc<cluster::TableEntry>| {
        let properties = view.schema.view.as_deref().cloned().unwrap_or_default();
        let is_attribute = move |column: &&Column| {
            matches!(properties.computed(column.id), Some(Computed::Attribute(_)))
        };
        let columns = view.schema.columns.iter().filter(is_attribute);
        columns.cloned().collect::<Vec<_>>()
    };
    views.flat_map(of_view).collect()
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !NAME_CHARS.contains(&name.len()) {
        return Err(Error::validation(format!(
            "IndexName must be at least {} characters long and at most {} characters long: {name} \
             has a length of {}",
            NAME_CHARS.start(),
            NAME_CHARS.end(),
            name.len()
        )));
    }
    match name.bytes().all(is_part) {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "IndexName must satisfy regular expression pattern: [a-zA-Z0-9_.-]+ and {name} does not"
        ))),
    }
}

impl Wanted {
    /// Of an element of a request's list; `keys` reads its `KeySchema`.
    pub(crate) fn of(
        json: Json<'_>,
        is_local: bool,
        (table, table_keys): (&str, &[(String, Type)]),
        keys: impl Fn(&Request<'_>) -> Result<Keys, Error>,
    ) -> Result<Wanted, Error> {
        let list = if is_local { "LocalSecondaryIndexes" } else { "GlobalSecondaryIndexes" };
        let part = Request::of(json, list)?;
        let name = part.need_string("IndexName")?.into_owned();
        check_name(&name)?;
        let bytes = table.len() + mark(is_local).len() + name.len();
        if NAMES_BYTES_MAX < bytes {
            return Err(Error::validation(format!(
                "IndexName {name} is too long: the total length of the names of a table and an \
                 index must be at most {NAMES_BYTES_MAX}, with what is between them: {table} and \
                 it have {bytes}"
            )));
        }
        let keys = keys(&part)?;
        if is_local {
            check_local(&name, &keys.all, table_keys)?;
        }
        let projection = projection(&part)?;
        Ok(Wanted { name, is_local, keys, projection })
    }

    /// The name of its view.
    fn view_name(&self, table: &str) -> String {
        format!("{table}{}{}", mark(self.is_local), self.name)
    }

    /// The view that answers it.
    pub(crate) fn view(&self, base: &TableSchema, id: TableId) -> Result<TableSchema, Error> {
        let name = self.view_name(&base.name);
        let mut builder = TableSchema::builder(&base.keyspace, &name, id);
        let mut known: Vec<&str> = Vec::new();
        let of_base = base.partition_key().iter().chain(base.clustering());
        let of_base = of_base.map(|column| (column.name.as_str(), &column.ty));
        let own = self.keys.all.iter().map(|(name, ty)| (name.as_str(), ty));
        for (at, (name, ty)) in own.chain(of_base).enumerate() {
            if known.contains(&name) {
                continue;
            }
            known.push(name);
            builder = match at < self.keys.hash_count {
                true => builder.partition_key(name, ty.clone()),
                false => builder.clustering(name, ty.clone()),
            };
        }
        for column in base.regulars() {
            builder = builder.regular(&column.name, column.ty.clone());
        }
        let mut options = TableOptions {
            compression: base.options.compression.clone(),
            speculative_retry: base.options.speculative_retry.clone(),
            ..TableOptions::new()
        };
        tags::set(&mut options, &self.tags());
        let invalid = |invalid: model::value::Invalid| Error::validation(invalid.to_string());
        let table = builder.options(options).build().map_err(invalid)?;
        let conditions = known.iter().map(|it| format!("{} IS NOT NULL", quote_identifier(it)));
        let mut view = View {
            base: base.id,
            base_name: base.name.clone(),
            where_clause: conditions.collect::<Vec<_>>().join(" AND "),
            includes_all: true,
            synchronous: self.is_local.then_some(true),
            ..View::default()
        };
        let keys = &table.columns[..table.partition_key_count + table.clustering_count];
        for column in keys.iter().filter(|column| base.column(&column.name).is_none()) {
            let computed = Computed::Attribute(ATTRIBUTES.to_owned());
            view.computed.push(ComputedColumn { id: column.id, computed });
        }
        view.computed.sort_by_key(|column| column.id);
        view.lives_by_marker = View::must_live_by_marker(base, keys, &view);
        table.edit().view(view).build().map_err(invalid)
    }

    fn tags(&self) -> Tags {
        let count = self.keys.all.len().to_string();
        let mut projection = String::new();
        match &self.projection {
            Projection::All => projection.push_str("ALL"),
            Projection::KeysOnly => projection.push_str("KEYS_ONLY"),
            Projection::Include(names) => write_list(names, &mut projection, |name, out| {
                write_string(name, out);
            }),
        }
        Tags::from([(KEYS_TAG.to_owned(), count), (PROJECTION_TAG.to_owned(), projection)])
    }
}

fn check_local(
    name: &str,
    keys: &[(String, Type)],
    table_keys: &[(String, Type)],
) -> Result<(), Error> {
    let wrong = |what: String| {
        let begin = "One or more parameter values were invalid:";
        Err(Error::validation(format!("{begin} the local index {name} {what}")))
    };
    if table_keys.len() < 2 {
        return wrong(
            "is of a table without a range key: it has to have one, as DynamoDB asks, \
                      beside its hash key"
                .to_owned(),
        );
    }
    if keys.len() != 2 {
        return wrong(
            "must have exactly two attributes in its KeySchema: HASH and RANGE; Index \
                      KeySchema does not have a range key"
                .to_owned(),
        );
    }
    match keys[0].0 == table_keys[0].0 {
        true => Ok(()),
        false => wrong(format!(
            "does not have the same leading hash key as its table: its hash key is {}, that of the \
             table {}",
            keys[0].0, table_keys[0].0
        )),
    }
}

fn projection(index: &Request<'_>) -> Result<Projection, Error> {
    let invalid = |what: String| {
        Error::validation(format!("One or more parameter values were invalid: {what}"))
    };
    let Some(json) = index.object("Projection")? else {
        return Err(invalid("Projection of an index is missing".to_owned()));
    };
    let part = Request::of(json, "Projection")?;
    let kind = part.string("ProjectionType")?;
    let included = part.strings("NonKeyAttributes")?;
    match (kind.as_deref(), included) {
        (Some("ALL"), None) => Ok(Projection::All),
        (Some("KEYS_ONLY"), None) => Ok(Projection::KeysOnly),
        (Some(kind @ ("ALL" | "KEYS_ONLY")), Some(_)) => {
            Err(invalid(format!("ProjectionType is {kind}, but NonKeyAttributes is specified")))
        }
        (Some("INCLUDE"), Some(names)) if (1..=INCLUDED_MAX).contains(&names.len()) => {
            let mut sorted = names.clone();
            sorted.sort();
            match sorted.windows(2).find(|two| two[0] == two[1]) {
                None => Ok(Projection::Include(names)),
                Some(two) => {
                    Err(invalid(format!("Duplicate value in NonKeyAttributes: {}", two[0])))
                }
            }
        }
        (Some("INCLUDE"), _) => Err(invalid(format!(
            "ProjectionType is INCLUDE: NonKeyAttributes must name between 1 and {INCLUDED_MAX} \
             attributes"
        ))),
        (Some(other), _) => Err(invalid(format!("Unknown ProjectionType: {other}"))),
        (None, _) => Err(invalid("Unknown ProjectionType: null".to_owned())),
    }
}

/// A projection as [`Wanted::tags`] keeps it. What is damaged projects all.
fn stored(text: &str) -> Projection {
    let names = |json: Json<'_>| {
        let names = json.elements().filter_map(|name| name.string());
        names.map(std::borrow::Cow::into_owned).collect()
    };
    match text {
        "ALL" => Projection::All,
        "KEYS_ONLY" => Projection::KeysOnly,
        _ => Json::parse(text).map_or(Projection::All, |it| Projection::Include(names(it))),
    }
}

/// Appends a `KeySchema`.
pub(crate) fn write_keys(keys: &[Column], out: &mut String) {
    write_list(keys, out, |key, out| {
        let mut part = Object::open(out);
        part.string("AttributeName", &key.name);
        let is_hash = key.kind == ColumnKind::PartitionKey;
        part.string("KeyType", if is_hash { "HASH" } else { "RANGE" });
        part.close();
    });
}

/// Appends `AttributeDefinitions`, each name once.
pub(crate) fn write_definitions<'c>(keys: impl Iterator<Item = &'c Column>, out: &mut String) {
    let mut known: Vec<&Column> = Vec::new();
    for key in keys {
        if !known.iter().any(|it| it.name == key.name) {
            known.push(key);
        }
    }
    write_list(known, out, |key, out| {
        let mut part = Object::open(out);
        part.string("AttributeName", &key.name).string("AttributeType", key_type_name(&key.ty));
        part.close();
    });
}

impl Index {
    /// Appends its description. `is_built`: nothing of what was there before it misses.
    pub(crate) fn describe(
        &self,
        view: &TableSchema,
        table_arn: &str,
        (is_built, extent): (bool, Extent),
        out: &mut String,
    ) {
        let mut object = Object::open(out);
        object.string("IndexName", &self.name);
        object.string("IndexArn", &format!("{table_arn}/index/{}", self.name));
        write_keys(self.keys(view), object.member("KeySchema"));
        let mut projection = Object::open(object.member("Projection"));
        match &self.projection {
            Projection::All => drop(projection.string("ProjectionType", "ALL")),
            Projection::KeysOnly => drop(projection.string("ProjectionType", "KEYS_ONLY")),
            Projection::Include(names) => {
                projection.string("ProjectionType", "INCLUDE");
                let out = projection.member("NonKeyAttributes");
                write_list(names, out, |name, out| write_string(name, out));
            }
        }
        projection.close();
        if !self.is_local {
            object.string("IndexStatus", if is_built { "ACTIVE" } else { "CREATING" });
            if !is_built {
                object.json("Backfilling", "true");
            }
            let mut units = Object::open(object.member("ProvisionedThroughput"));
            units.json("NumberOfDecreasesToday", "0");
            units.json("ReadCapacityUnits", "0").json("WriteCapacityUnits", "0");
            units.close();
        }
        let Extent { items, bytes } = extent;
        object.json("IndexSizeBytes", &bytes.to_string()).json("ItemCount", &items.to_string());
        object.close();
    }
}
