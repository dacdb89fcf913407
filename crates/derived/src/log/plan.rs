//! What is known of a table and its log once and for all writes, as long as neither schema changes.

use model::schema::cdc::{self, CdcOptions, Images};
use model::schema::{Column, ColumnKind};
use model::{ColumnId, TableId, TableSchema, Type};

/// How the log of a table follows it. Good for one version of each of both schemas.
#[derive(Clone, Debug)]
pub struct LogPlan {
    pub(super) base: TableSchema,
    pub(super) log: TableSchema,
    pub(super) options: CdcOptions,
    pub(super) operation: ColumnId,
    pub(super) ttl: ColumnId,
    pub(super) end_of_batch: ColumnId,
    /// Of the partition key.
    pub(super) partition: Vec<ColumnId>,
    pub(super) clustering: Vec<ColumnId>,
    /// By their ids in the base table.
    pub(super) columns: Vec<Mirror>,
    /// Whether ids in the log ascend so: what every log has, the key, and values of columns by
    /// their ids in the base table. A row of the log is written at once then.
    pub(super) is_in_order: bool,
}

/// A column of the base table that is no key, and its columns in the log.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    pub(super) base: ColumnId,
    pub(super) is_static: bool,
    pub(super) is_multi_cell: bool,
    pub(super) value: ColumnId,
    /// Of `value`: a list is a map there.
    pub(super) ty: Type,
    pub(super) deleted: ColumnId,
    /// Of multi-cell columns.
    pub(super) elements: Option<ColumnId>,
}

impl LogPlan {
    /// How `log` follows `base`. Says what is wrong with schemas that do not fit.
    pub fn new(base: &TableSchema, log: &TableSchema) -> Result<LogPlan, String> {
        let wrong = |what: String| format!("the log {}.{}: {what}", log.keyspace, log.name);
        LogPlan::compile(base, log).map_err(wrong)
    }

    /// The table that it writes.
    pub fn log_table(&self) -> TableId {
        self.log.id
    }

    /// Whether it tells states, for which rows have to be read.
    pub fn has_images(&self) -> bool {
        self.options.postimage || self.options.preimage != Images::None
    }

    /// A column of the base table; none that was dropped.
    pub(super) fn column(&self, id: ColumnId) -> Option<&Mirror> {
        let index = self.columns.binary_search_by_key(&id, |column| column.base).ok()?;
        Some(&self.columns[index])
    }

    fn compile(base: &TableSchema, log: &TableSchema) -> Result<LogPlan, String> {
        let Some(marked) = &log.log else { return Err("is no log".to_owned()) };
        if marked.base != base.id {
            return Err(format!("is of another table than {}.{}", base.keyspace, base.name));
        }
        let Some(options) = CdcOptions::of(&base.options) else {
            return Err(format!("{}.{} asks for none", base.keyspace, base.name));
        };
        if base.is_counter() {
            return Err(format!("{}.{} has counters", base.keyspace, base.name));
        }
        check_key(log)?;
        let id = |name: &str, ty: &Type| id_of(log, name, ty);
        let key = |column: &Column| id(&column.name, &column.ty);
        let mut columns = Vec::with_capacity(base.statics().len() + base.regulars().len());
        for column in base.statics().iter().chain(base.regulars()) {
            columns.push(mirror(log, column)?);
        }
        columns.sort_by_key(|column| column.base);
        let operation = id(cdc::OPERATION, &Type::TinyInt)?;
        let ttl = id(cdc::TTL, &Type::BigInt)?;
        let end_of_batch = id(cdc::END_OF_BATCH, &Type::Boolean)?;
        let partition = base.partition_key().iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let clustering = base.clustering().iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let first = [operation, ttl, end_of_batch];
        let ids = first.iter().chain(&partition).chain(&clustering);
        let ids = ids.chain(columns.iter().map(|column| &column.value));
        Ok(LogPlan {
            options,
            is_in_order: ids.is_sorted(),
            operation,
            ttl,
            end_of_batch,
            partition,
            clustering,
            columns,
            base: base.clone(),
            log: log.clone(),
        })
    }
}

/// The key of every log.
fn check_key(log: &TableSchema) -> Result<(), String> {
    let has = |columns: &[Column], wanted: &[(&str, Type)]| {
        let named = columns.iter().zip(wanted).all(|(column, (name, ty))| {
            column.name == *name && column.ty == *ty && !column.reversed
        });
        named && columns.len() == wanted.len()
    };
    let partition = [(cdc::STREAM_ID, Type::Blob)];
    let clustering = [(cdc::TIME, Type::TimeUuid), (cdc::BATCH_SEQ_NO, Type::Int)];
    match has(log.partition_key(), &partition) && has(log.clustering(), &clustering) {
        true => Ok(()),
        false => Err("its key is not that of a log".to_owned()),
    }
}

/// The regular column of that name, which must be of that type.
fn id_of(log: &TableSchema, name: &str, ty: &Type) -> Result<ColumnId, String> {
    match log.column(name) {
        Some(column) if column.kind == ColumnKind::Regular && column.ty == *ty => Ok(column.id),
        Some(column) => Err(format!("its column {name} is a {}", column.ty.to_cql())),
        None => Err(format!("it has no column {name}")),
    }
}

fn mirror(log: &TableSchema, column: &Column) -> Result<Mirror, String> {
    let name = &column.name;
    let ty = cdc::value_type(&column.ty);
    let of_elements = cdc::deleted_elements_type(&column.ty);
    let elements = of_elements.map(|ty| id_of(log, &cdc::deleted_elements(name), &ty));
    Ok(Mirror {
        base: column.id,
        is_static: column.kind == ColumnKind::Static,
        is_multi_cell: column.ty.is_multi_cell(),
        value: id_of(log, name, &ty)?,
        ty,
        deleted: id_of(log, &cdc::deleted(name), &Type::Boolean)?,
        elements: elements.transpose()?,
    })
}
