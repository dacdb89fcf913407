//! `CREATE`, `ALTER` and `DROP` of what the schema holds.

use std::fmt::{self, Display, Formatter};

use super::modify::filter;
use super::{And, commas, quote_string, separated};
use crate::ast::{
    AlterTable, AlterTableAction, AlterType, AlterTypeAction, ColumnDefinition, CreateAggregate,
    CreateFunction, CreateIndex, CreateTable, CreateType, CreateView, Drop, DropFunction,
    IfPresent, IndexTarget, Name, NullInput, PrimaryKey, Property, PropertyValue, SchemaStatement,
    TableProperties, Type,
};

pub(super) fn if_exists(present: bool) -> &'static str {
    if present { "IF EXISTS " } else { "" }
}

pub(super) fn if_not_exists(present: bool) -> &'static str {
    if present { "IF NOT EXISTS " } else { "" }
}

pub(super) fn with(f: &mut Formatter<'_>, properties: &[Property]) -> fmt::Result {
    let mut and = And::after("WITH");
    properties.iter().try_for_each(|property| and.print(f, property))
}

impl Display for SchemaStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SchemaStatement::CreateKeyspace(create) => {
                let guard = if_not_exists(create.if_not_exists);
                write!(f, "CREATE KEYSPACE {guard}{}", create.name)?;
                with(f, &create.properties)
            }
            SchemaStatement::AlterKeyspace(alter) => {
                write!(f, "ALTER KEYSPACE {}{}", if_exists(alter.if_exists), alter.name)?;
                with(f, &alter.properties)
            }
            SchemaStatement::DropKeyspace(drop) => {
                write!(f, "DROP KEYSPACE {}{}", if_exists(drop.if_exists), drop.name)
            }
            SchemaStatement::CreateTable(create) => write!(f, "{create}"),
            SchemaStatement::AlterTable(alter) => write!(f, "{alter}"),
            SchemaStatement::DropTable(drop) => write!(f, "DROP TABLE {drop}"),
            SchemaStatement::CreateType(create) => write!(f, "{create}"),
            SchemaStatement::AlterType(alter) => write!(f, "{alter}"),
            SchemaStatement::DropType(drop) => write!(f, "DROP TYPE {drop}"),
            SchemaStatement::CreateIndex(create) => write!(f, "{create}"),
            SchemaStatement::DropIndex(drop) => write!(f, "DROP INDEX {drop}"),
            SchemaStatement::CreateView(create) => write!(f, "{create}"),
            SchemaStatement::AlterView(alter) => {
                let guard = if_exists(alter.if_exists);
                write!(f, "ALTER MATERIALIZED VIEW {guard}{}{}", alter.name, alter.properties)
            }
            SchemaStatement::DropView(drop) => write!(f, "DROP MATERIALIZED VIEW {drop}"),
            SchemaStatement::CreateFunction(create) => write!(f, "{create}"),
            SchemaStatement::DropFunction(drop) => write!(f, "DROP FUNCTION {drop}"),
            SchemaStatement::CreateAggregate(create) => write!(f, "{create}"),
            SchemaStatement::DropAggregate(drop) => write!(f, "DROP AGGREGATE {drop}"),
        }
    }
}

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

impl Display for PropertyValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PropertyValue::Null => f.write_str("null"),
            PropertyValue::Scalar(literal) => write!(f, "{literal}"),
            PropertyValue::Map(entries) => {
                f.write_str("{")?;
                commas(f, entries, |(key, value), f| write!(f, "{key}: {value}"))?;
                f.write_str("}")
            }
            PropertyValue::Set(items) => {
                f.write_str("{")?;
                commas(f, items, Display::fmt)?;
                f.write_str("}")
            }
            PropertyValue::List(items) => {
                f.write_str("[")?;
                commas(f, items, Display::fmt)?;
                f.write_str("]")
            }
        }
    }
}

impl Display for TableProperties {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut and = And::after("WITH");
        if self.compact_storage.is_some() {
            and.print(f, "COMPACT STORAGE")?;
        }
        if !self.clustering_order.is_empty() {
            and.print(f, "CLUSTERING ORDER BY (")?;
            commas(f, &self.clustering_order, |(column, direction), f| {
                write!(f, "{column}{}", direction.suffix())
            })?;
            f.write_str(")")?;
        }
        self.properties.iter().try_for_each(|property| and.print(f, property))
    }
}

impl Display for PrimaryKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("PRIMARY KEY (")?;
        match self.partition.as_slice() {
            [only] => write!(f, "{only}")?,
            columns => {
                f.write_str("(")?;
                commas(f, columns, Display::fmt)?;
                f.write_str(")")?;
            }
        }
        for column in &self.clustering {
            write!(f, ", {column}")?;
        }
        f.write_str(")")
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.ty)?;
        if self.is_static {
            f.write_str(" STATIC")?;
        }
        if self.row_ttl {
            f.write_str(" TTL")?;
        }
        if self.primary_key {
            f.write_str(" PRIMARY KEY")?;
        }
        Ok(())
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TABLE {}{} (", if_not_exists(self.if_not_exists), self.name)?;
        commas(f, &self.columns, Display::fmt)?;
        for (index, key) in self.primary_keys.iter().enumerate() {
            let first = index == 0 && self.columns.is_empty();
            write!(f, "{}{key}", if first { "" } else { ", " })?;
        }
        write!(f, "){}", self.properties)
    }
}

fn renamings(f: &mut Formatter<'_>, names: &[(Name, Name)]) -> fmt::Result {
    separated(f, names, " AND ", |(from, to), f| write!(f, "{from} TO {to}"))
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TABLE {}{}", if_exists(self.if_exists), self.name)?;
        match &self.action {
            AlterTableAction::Add { if_not_exists: guard, columns } => {
                write!(f, " ADD {}(", if_not_exists(*guard))?;
                commas(f, columns, Display::fmt)?;
                f.write_str(")")
            }
            AlterTableAction::Drop { if_exists: guard, columns, timestamp } => {
                write!(f, " DROP {}(", if_exists(*guard))?;
                commas(f, columns, Display::fmt)?;
                f.write_str(")")?;
                match timestamp {
                    Some(timestamp) => write!(f, " USING TIMESTAMP {timestamp}"),
                    None => Ok(()),
                }
            }
            AlterTableAction::ChangeType { if_exists: guard, column, ty } => {
                write!(f, " ALTER {}{column} TYPE {ty}", if_exists(*guard))
            }
            AlterTableAction::Rename { if_exists: guard, columns } => {
                write!(f, " RENAME {}", if_exists(*guard))?;
                renamings(f, columns)
            }
            AlterTableAction::With(properties) => write!(f, "{properties}"),
            AlterTableAction::RowTtl(Some(column)) => write!(f, " TTL {column}"),
            AlterTableAction::RowTtl(None) => f.write_str(" TTL null"),
            AlterTableAction::DropCompactStorage => f.write_str(" DROP COMPACT STORAGE"),
        }
    }
}

fn typed_names(f: &mut Formatter<'_>, names: &[(Name, Type)]) -> fmt::Result {
    f.write_str("(")?;
    commas(f, names, |(name, ty), f| write!(f, "{name} {ty}"))?;
    f.write_str(")")
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TYPE {}{} ", if_not_exists(self.if_not_exists), self.name)?;
        typed_names(f, &self.fields)
    }
}

impl Display for AlterType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TYPE {}{}", if_exists(self.if_exists), self.name)?;
        match &self.action {
            AlterTypeAction::Add { if_not_exists: guard, field, ty } => {
                write!(f, " ADD {}{field} {ty}", if_not_exists(*guard))
            }
            AlterTypeAction::ChangeType { field, ty } => write!(f, " ALTER {field} TYPE {ty}"),
            AlterTypeAction::Rename { if_exists: guard, fields } => {
                write!(f, " RENAME {}", if_exists(*guard))?;
                renamings(f, fields)
            }
        }
    }
}

impl Display for Drop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if_exists(self.if_exists), self.name)
    }
}

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let custom = if self.custom { "CUSTOM " } else { "" };
        write!(f, "CREATE {custom}INDEX {}", if_not_exists(self.if_not_exists))?;
        if let Some(name) = &self.name {
            write!(f, "{name} ")?;
        }
        write!(f, "ON {} (", self.table)?;
        commas(f, &self.targets, Display::fmt)?;
        f.write_str(")")?;
        if let Some(class) = &self.class {
            write!(f, " USING {}", quote_string(class))?;
        }
        write!(f, "{}", self.properties)
    }
}

impl Display for IndexTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            IndexTarget::Column(column) => write!(f, "{column}"),
            IndexTarget::Keys(column) => write!(f, "keys({column})"),
            IndexTarget::Values(column) => write!(f, "values({column})"),
            IndexTarget::Entries(column) => write!(f, "entries({column})"),
            IndexTarget::Full(column) => write!(f, "full({column})"),
            IndexTarget::Partition(columns) => {
                f.write_str("(")?;
                commas(f, columns, Display::fmt)?;
                f.write_str(")")
            }
        }
    }
}

impl Display for CreateView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let guard = if_not_exists(self.if_not_exists);
        write!(f, "CREATE MATERIALIZED VIEW {guard}{} AS ", self.name)?;
        write!(f, "SELECT {} FROM {}", self.selection, self.base)?;
        filter(f, &self.filter)?;
        write!(f, " {}{}", self.primary_key, self.properties)
    }
}

/// `CREATE [OR REPLACE] word [IF NOT EXISTS] `
fn create(f: &mut Formatter<'_>, if_present: IfPresent, word: &str) -> fmt::Result {
    match if_present {
        IfPresent::Refuse => write!(f, "CREATE {word} "),
        IfPresent::Keep => write!(f, "CREATE {word} IF NOT EXISTS "),
        IfPresent::Replace => write!(f, "CREATE OR REPLACE {word} "),
    }
}

impl Display for CreateFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        create(f, self.if_present, "FUNCTION")?;
        write!(f, "{} ", self.name)?;
        typed_names(f, &self.arguments)?;
        f.write_str(match self.null_input {
            NullInput::Called => " CALLED ON NULL INPUT",
            NullInput::ReturnsNull => " RETURNS NULL ON NULL INPUT",
        })?;
        let body = quote_string(&self.body);
        write!(f, " RETURNS {} LANGUAGE {} AS {body}", self.returns, self.language)
    }
}

impl Display for CreateAggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        create(f, self.if_present, "AGGREGATE")?;
        write!(f, "{}(", self.name)?;
        commas(f, &self.arguments, Display::fmt)?;
        write!(f, ") SFUNC {} STYPE {}", self.state_function, self.state_type)?;
        if let Some(function) = &self.reduce_function {
            write!(f, " REDUCEFUNC {function}")?;
        }
        if let Some(function) = &self.final_function {
            write!(f, " FINALFUNC {function}")?;
        }
        if let Some(initial) = &self.initial {
            write!(f, " INITCOND {initial}")?;
        }
        Ok(())
    }
}

impl Display for DropFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if_exists(self.if_exists), self.name)?;
        if let Some(types) = &self.arguments {
            f.write_str("(")?;
            commas(f, types, Display::fmt)?;
            f.write_str(")")?;
        }
        Ok(())
    }
}
