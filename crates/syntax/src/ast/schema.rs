//! `CREATE`, `ALTER` and `DROP` of what the schema holds.

use super::{Expr, Name, Property, QualifiedName, Relation, Selection, TableProperties, Type};
use crate::Position;

/// A statement that changes the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaStatement {
    /// `CREATE KEYSPACE ..`
    CreateKeyspace(CreateKeyspace),
    /// `ALTER KEYSPACE ..`
    AlterKeyspace(AlterKeyspace),
    /// `DROP KEYSPACE ..`
    DropKeyspace(DropKeyspace),
    /// `CREATE TABLE ..`
    CreateTable(CreateTable),
    /// `ALTER TABLE ..`
    AlterTable(AlterTable),
    /// `DROP TABLE ..`
    DropTable(Drop),
    /// `CREATE TYPE ..`
    CreateType(CreateType),
    /// `ALTER TYPE ..`
    AlterType(AlterType),
    /// `DROP TYPE ..`
    DropType(Drop),
    /// `CREATE INDEX ..`
    CreateIndex(CreateIndex),
    /// `DROP INDEX ..`
    DropIndex(Drop),
    /// `CREATE MATERIALIZED VIEW ..`
    CreateView(CreateView),
    /// `ALTER MATERIALIZED VIEW ..`
    AlterView(AlterView),
    /// `DROP MATERIALIZED VIEW ..`
    DropView(Drop),
    /// `CREATE FUNCTION ..`
    CreateFunction(CreateFunction),
    /// `DROP FUNCTION ..`
    DropFunction(DropFunction),
    /// `CREATE AGGREGATE ..`
    CreateAggregate(CreateAggregate),
    /// `DROP AGGREGATE ..`
    DropAggregate(DropFunction),
}

/// `CREATE KEYSPACE [IF NOT EXISTS] name [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// Its name.
    pub name: Name,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ..`
    pub properties: Vec<Property>,
}

/// `ALTER KEYSPACE [IF EXISTS] name WITH ..`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    /// Its name.
    pub name: Name,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ..`
    pub properties: Vec<Property>,
}

/// `DROP KEYSPACE [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq)]
pub struct DropKeyspace {
    /// Its name.
    pub name: Name,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `DROP TABLE`, `TYPE`, `INDEX` or `MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// What is dropped.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `CREATE TABLE [IF NOT EXISTS] name (..) [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Its columns.
    pub columns: Vec<ColumnDefinition>,
    /// `PRIMARY KEY (..)` as an item of its own. It should be one in all, counting the columns
    /// that say `PRIMARY KEY` themselves.
    pub primary_keys: Vec<PrimaryKey>,
    /// `WITH ..`
    pub properties: TableProperties,
}

/// `name type [STATIC] [PRIMARY KEY] [TTL]`
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Name,
    /// The type of its values.
    pub ty: Type,
    /// `STATIC`
    pub is_static: bool,
    /// `PRIMARY KEY`
    pub primary_key: bool,
    /// `TTL`: rows expire when this column says.
    pub row_ttl: bool,
}

/// `PRIMARY KEY ((a, b), c)`
#[derive(Clone, Debug, PartialEq)]
pub struct PrimaryKey {
    /// `a`, `b`, never empty.
    pub partition: Vec<Name>,
    /// `c`
    pub clustering: Vec<Name>,
    /// Where it begins.
    pub at: Position,
}

/// `ALTER TABLE [IF EXISTS] name ..`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// Which table.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// What to do.
    pub action: AlterTableAction,
}

/// What an `ALTER TABLE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableAction {
    /// `ADD [IF NOT EXISTS] ..`
    Add {
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// The new columns; none says `PRIMARY KEY`.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP [IF EXISTS] ..`
    Drop {
        /// `IF EXISTS`
        if_exists: bool,
        /// The columns.
        columns: Vec<Name>,
        /// `USING TIMESTAMP micros`: an integer or a marker.
        timestamp: Option<Expr>,
    },
    /// `ALTER [IF EXISTS] c TYPE t`
    ChangeType {
        /// `IF EXISTS`
        if_exists: bool,
        /// The column.
        column: Name,
        /// Its new type.
        ty: Type,
    },
    /// `RENAME [IF EXISTS] a TO b AND ..`
    Rename {
        /// `IF EXISTS`
        if_exists: bool,
        /// Old and new names.
        columns: Vec<(Name, Name)>,
    },
    /// `WITH ..`
    With(TableProperties),
    /// `TTL c` or `TTL NULL`
    RowTtl(Option<Name>),
    /// `DROP COMPACT STORAGE`
    DropCompactStorage,
}

/// `CREATE TYPE [IF NOT EXISTS] name (a type, ..)`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    /// Its name.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Its fields.
    pub fields: Vec<(Name, Type)>,
}

/// `ALTER TYPE [IF EXISTS] name ..`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    /// Which type.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// What to do.
    pub action: AlterTypeAction,
}

/// What an `ALTER TYPE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTypeAction {
    /// `ADD [IF NOT EXISTS] field type`
    Add {
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// The new field.
        field: Name,
        /// Its type.
        ty: Type,
    },
    /// `ALTER field TYPE type`
    ChangeType {
        /// The field.
        field: Name,
        /// Its new type.
        ty: Type,
    },
    /// `RENAME [IF EXISTS] a TO b AND ..`
    Rename {
        /// `IF EXISTS`
        if_exists: bool,
        /// Old and new names.
        fields: Vec<(Name, Name)>,
    },
}

/// `CREATE [CUSTOM] INDEX [IF NOT EXISTS] [name] ON t (..) [USING 'class'] [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// `CUSTOM`
    pub custom: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Its name.
    pub name: Option<QualifiedName>,
    /// The indexed table.
    pub table: QualifiedName,
    /// The indexed columns; may be empty.
    pub targets: Vec<IndexTarget>,
    /// `USING 'class'`
    pub class: Option<String>,
    /// `WITH ..`, `OPTIONS = {..}` among them.
    pub properties: TableProperties,
}

/// What an index is on.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexTarget {
    /// `c`
    Column(Name),
    /// `keys(c)`
    Keys(Name),
    /// `values(c)`
    Values(Name),
    /// `entries(c)`
    Entries(Name),
    /// `full(c)`
    Full(Name),
    /// `(a, b)`: the partition key of a local index.
    Partition(Vec<Name>),
}

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name AS SELECT .. PRIMARY KEY .. [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `FROM base`
    pub base: QualifiedName,
    /// The columns of the view.
    pub selection: Selection,
    /// `WHERE ..`
    pub filter: Vec<Relation>,
    /// `PRIMARY KEY ..`
    pub primary_key: PrimaryKey,
    /// `WITH ..`
    pub properties: TableProperties,
}

/// `ALTER MATERIALIZED VIEW [IF EXISTS] name WITH ..`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    /// Which view.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ..`
    pub properties: TableProperties,
}

/// Whether something that exists is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfPresent {
    /// An error.
    Refuse,
    /// `IF NOT EXISTS`: it stays as it is.
    Keep,
    /// `OR REPLACE`
    Replace,
}

/// `CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name (..) ..`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// Its name.
    pub name: QualifiedName,
    /// `OR REPLACE`, `IF NOT EXISTS`
    pub if_present: IfPresent,
    /// Its arguments.
    pub arguments: Vec<(Name, Type)>,
    /// What it does when an argument is null.
    pub null_input: NullInput,
    /// `RETURNS type`
    pub returns: Type,
    /// `LANGUAGE name`
    pub language: Name,
    /// `AS 'body'`
    pub body: String,
}

/// What a function does when an argument is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullInput {
    /// `CALLED ON NULL INPUT`
    Called,
    /// `RETURNS NULL ON NULL INPUT`
    ReturnsNull,
}

/// `CREATE [OR REPLACE] AGGREGATE [IF NOT EXISTS] name (types) SFUNC f STYPE t ..`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    /// Its name.
    pub name: QualifiedName,
    /// `OR REPLACE`, `IF NOT EXISTS`
    pub if_present: IfPresent,
    /// The types of its arguments.
    pub arguments: Vec<Type>,
    /// `SFUNC f`
    pub state_function: Name,
    /// `STYPE t`
    pub state_type: Type,
    /// `REDUCEFUNC f`
    pub reduce_function: Option<Name>,
    /// `FINALFUNC f`
    pub final_function: Option<Name>,
    /// `INITCOND term`
    pub initial: Option<Expr>,
}

/// `DROP FUNCTION` or `AGGREGATE [IF EXISTS] name [(types)]`
#[derive(Clone, Debug, PartialEq)]
pub struct DropFunction {
    /// Its name.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The types of its arguments; without them there must be one of that name.
    pub arguments: Option<Vec<Type>>,
}
