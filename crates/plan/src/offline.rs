//! CQL without a node: the schema that a text of statements makes, and values of literals. For
//! tools that work on files.
//!
//! Pure: no shard, no clock but the one that is given.

use crate::ddl::{self, Context, Rules};
use crate::error::Error;
use crate::markers::Receiver;
use crate::term;
use cluster::{DataCenter, Schema, SchemaChange};
use model::schema::DroppedColumn;
use model::{ColumnKind, Keyspace, TableSchema, Type, UserType, Uuid};
use syntax::ast;

/// What a text of statements makes.
#[derive(Clone, Debug)]
pub struct SchemaText {
    /// Its tables, views and those of indexes among them, in order of making.
    pub tables: Vec<TableSchema>,
    /// Its user types, each after those that it mentions.
    pub types: Vec<UserType>,
}

/// Stands before the name of a keyspace of the system while statements are decided on.
const SYSTEM_PREFIX: &str = "offline_";

/// Properties of a table that say how its files are; the others may be what this version does not
/// know.
const FILE_PROPERTIES: [&str; 8] = [
    "id",
    "comment",
    "compression",
    "bloom_filter_fp_chance",
    "gc_grace_seconds",
    "default_time_to_live",
    "column_index_size_in_kb",
    "sstable_format",
];

/// Executes the statements of a text on an empty schema, as of `micros`. Keyspaces that it does not
/// make are made as needed; they may be those of the system. Beside statements that change the
/// schema it takes `INSERT INTO system_schema.dropped_columns`. Properties of tables that this
/// version refuses, and that do not say how files are, are passed over.
pub fn schema_of_text(text: &str, micros: i64) -> Result<SchemaText, Error> {
    let mut state = State {
        schema: Schema::of_system(Uuid::nil(), 1),
        keyspace: None,
        tables: Vec::new(),
        types: Vec::new(),
        dropped: Vec::new(),
        micros,
    };
    for statement in split(text)? {
        state.execute(&statement)?;
    }
    state.drop_columns()?;
    Ok(state.finish())
}

/// The `compaction` option of a table as it is stored. Refuses what CREATE TABLE would.
pub fn compaction_options(given: Vec<(String, String)>) -> Result<Vec<(String, String)>, Error> {
    ddl::checked_compaction(given)
}

/// The statements of a text, without comments that stand between them.
pub fn split(text: &str) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = skip_blank(rest);
        if rest.is_empty() {
            return Ok(out);
        }
        let end = end_of_statement(rest);
        out.push(rest[..end].to_string());
        rest = rest[end..].strip_prefix(';').unwrap_or(&rest[end..]);
    }
}

/// Leaves out white space, comments and lone semicolons.
fn skip_blank(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        let comment = rest.starts_with("--") || rest.starts_with("//");
        if comment {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else {
            return rest;
        }
    }
}

/// Where the semicolon behind the statement is that `text` starts with.
fn end_of_statement(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &text[at..];
        at += match byte {
            b';' => return at,
            b'\'' | b'"' => {
                let quote = *byte as char;
                rest[1..].find(quote).map_or(rest.len(), |end| end + 2)
            }
            b'$' if rest.starts_with("$$") => {
                rest[2..].find("$$").map_or(rest.len(), |end| end + 4)
            }
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    text.len()
}

struct State {
    schema: Schema,
    keyspace: Option<String>,
    /// Keyspace and name.
    tables: Vec<(String, String)>,
    types: Vec<(String, String)>,
    dropped: Vec<Dropped>,
    micros: i64,
}

/// A row of `system_schema.dropped_columns`.
struct Dropped {
    keyspace: String,
    table: String,
    column: String,
    at: i64,
    ty: String,
    kind: ColumnKind,
}

impl State {
    fn execute(&mut self, text: &str) -> Result<(), Error> {
        match syntax::parse(text)?.statement {
            ast::Statement::Use(name) => {
                self.keyspace = Some(inner_name(&name.text));
                Ok(())
            }
            ast::Statement::Schema(mut statement) => self.change(&mut statement),
            ast::Statement::Insert(insert) => {
                self.dropped.push(dropped_of(&insert)?);
                Ok(())
            }
            _ => Err(Error::invalid(
                "a schema file has CREATE, ALTER and DROP statements, and INSERT INTO \
                 system_schema.dropped_columns",
            )),
        }
    }

    fn change(&mut self, statement: &mut ast::SchemaStatement) -> Result<(), Error> {
        let context = Context {
            keyspace: self.keyspace.clone(),
            data_centers: vec![DataCenter {
                name: "datacenter1".to_string(),
                racks: vec!["rack1".to_string()],
                // What a schema says of replicas counts where it comes from.
                owners: u32::MAX as usize,
            }],
            table_id: Uuid::from_u64_pair(self.micros as u64, self.tables.len() as u64),
            log_id: Uuid::from_u64_pair(self.micros as u64, u64::MAX - self.tables.len() as u64),
            now_micros: self.micros,
            timestamp: None,
            rules: Rules::of_tools(),
            has_views: true,
            changes_many: true,
            has_cdc: true,
            has_streams: true,
        };
        if let Some(name) = name_of(statement) {
            if let Some(keyspace) = &mut name.keyspace {
                keyspace.text = inner_name(&keyspace.text);
            }
            let name = name.clone();
            let keyspace = name.keyspace.map(|keyspace| keyspace.text);
            let keyspace = keyspace.or(self.keyspace.clone()).unwrap_or_default();
            if !keyspace.is_empty() {
                self.need_keyspace(&keyspace)?;
            }
            let made = (keyspace, name.name.text);
            match statement {
                ast::SchemaStatement::CreateTable(_) => self.tables.push(made),
                ast::SchemaStatement::CreateType(_) => self.types.push(made),
                _ => {}
            }
        }
        let changes = ddl::decide(&self.schema, statement, &context).or_else(|refused| {
            let Some(properties) = properties_of(statement) else { return Err(refused) };
            let known = |name: &str| FILE_PROPERTIES.contains(&name);
            properties.properties.retain(|property| known(&property.name.text));
            ddl::decide(&self.schema, statement, &context).map_err(|_| refused)
        });
        let changes = changes?;
        let view = |change: &SchemaChange| match change {
            SchemaChange::CreateTable(it) if it.view.is_some() => {
                Some((it.keyspace.clone(), it.name.clone()))
            }
            _ => None,
        };
        self.tables.extend(changes.iter().filter_map(view));
        self.apply(changes)
    }

    fn need_keyspace(&mut self, name: &str) -> Result<(), Error> {
        if self.schema.keyspace(name).is_some() {
            return Ok(());
        }
        let class = "org.apache.cassandra.locator.SimpleStrategy";
        let option = |name: &str, value: &str| (name.to_string(), value.to_string());
        self.apply(vec![SchemaChange::CreateKeyspace(Keyspace {
            name: name.to_string(),
            replication: vec![option("class", class), option("replication_factor", "1")],
            durable_writes: true,
            previous: None,
            initial_tablets: None,
            storage: Vec::new(),
        })])
    }

    fn apply(&mut self, changes: Vec<SchemaChange>) -> Result<(), Error> {
        let next = self.schema.after(changes, self.micros, 1).map_err(Error::Invalid)?;
        self.schema = next;
        Ok(())
    }

    /// Tables get the dropped columns that were told of.
    fn drop_columns(&mut self) -> Result<(), Error> {
        for dropped in std::mem::take(&mut self.dropped) {
            let Some(entry) = self.schema.table(&dropped.keyspace, &dropped.table) else {
                continue;
            };
            let resolve =
                |name: &str| self.schema.user_type(&dropped.keyspace, name).map(|t| (**t).clone());
            let ty = Type::from_cql(&dropped.ty, &resolve);
            let unknown = || {
                let Dropped { column, ty, .. } = &dropped;
                Error::Invalid(format!("dropped column {column} has the unknown type {ty}"))
            };
            let next = entry.schema.next_column_id;
            let column = DroppedColumn {
                id: model::ColumnId(next),
                name: dropped.column.clone(),
                ty: ty.ok_or_else(unknown)?,
                kind: dropped.kind,
                dropped_at: dropped.at,
            };
            let table = entry.schema.edit().stored_drop(column).build();
            let table = table.map_err(|invalid| Error::Invalid(invalid.0))?;
            self.apply(vec![SchemaChange::AlterTable(table)])?;
        }
        Ok(())
    }

    fn finish(self) -> SchemaText {
        let types = self.types.iter().filter_map(|(keyspace, name)| {
            let found = self.schema.user_type(keyspace, name)?;
            Some(UserType { keyspace: outer_name(keyspace), ..(**found).clone() })
        });
        let tables = self.tables.iter().filter_map(|(keyspace, name)| {
            let found = &self.schema.table(keyspace, name)?.schema;
            Some(TableSchema { keyspace: outer_name(keyspace), ..(**found).clone() })
        });
        SchemaText { types: types.collect(), tables: tables.collect() }
    }
}

/// The name of the table or type that a statement is about.
fn name_of(statement: &mut ast::SchemaStatement) -> Option<&mut ast::QualifiedName> {
    match statement {
        ast::SchemaStatement::CreateTable(it) => Some(&mut it.name),
        ast::SchemaStatement::AlterTable(it) => Some(&mut it.name),
        ast::SchemaStatement::CreateType(it) => Some(&mut it.name),
        ast::SchemaStatement::AlterType(it) => Some(&mut it.name),
        _ => None,
    }
}

/// The properties of what a statement makes that has files.
fn properties_of(statement: &mut ast::SchemaStatement) -> Option<&mut ast::TableProperties> {
    match statement {
        ast::SchemaStatement::CreateTable(it) => Some(&mut it.properties),
        ast::SchemaStatement::CreateView(it) => Some(&mut it.properties),
        ast::SchemaStatement::CreateIndex(it) => Some(&mut it.properties),
        _ => None,
    }
}

/// The name of a keyspace while statements are decided on.
fn inner_name(keyspace: &str) -> String {
    match Schema::is_system(keyspace) || keyspace.starts_with("system_") {
        true => format!("{SYSTEM_PREFIX}{keyspace}"),
        false => keyspace.to_string(),
    }
}

fn outer_name(keyspace: &str) -> String {
    keyspace.strip_prefix(SYSTEM_PREFIX).unwrap_or(keyspace).to_string()
}

/// The row that an `INSERT INTO system_schema.dropped_columns` makes.
fn dropped_of(insert: &ast::Insert) -> Result<Dropped, Error> {
    let keyspace = insert.table.keyspace.as_ref().map(|name| name.text.as_str());
    let is_drop = keyspace == Some("system_schema") && insert.table.name.text == "dropped_columns";
    let ast::InsertSource::Values { columns, values } = &insert.source else {
        return Err(Error::invalid("a schema file has no INSERT JSON"));
    };
    if !is_drop {
        let text = "only INSERT INTO system_schema.dropped_columns can stand in a schema file";
        return Err(Error::invalid(text));
    }
    let get = |wanted: &str| {
        let found = columns.iter().zip(values).find(|(name, _)| name.text == wanted);
        found.and_then(|(_, value)| match &value.kind {
            ast::ExprKind::Literal(literal) => Some(literal.text.clone()),
            _ => None,
        })
    };
    let need = |name: &str| {
        get(name).ok_or_else(|| {
            Error::Invalid(format!("a dropped column without a constant for {name}"))
        })
    };
    let time = need("dropped_time")?;
    let at = time.parse::<i64>().map_err(|_| {
        Error::Invalid(format!("dropped_time is no number of microseconds: {time}"))
    })?;
    Ok(Dropped {
        keyspace: inner_name(&need("keyspace_name")?),
        table: need("table_name")?,
        column: need("column_name")?,
        at,
        ty: need("type")?,
        kind: match get("kind").as_deref() {
            Some("static") => ColumnKind::Static,
            _ => ColumnKind::Regular,
        },
    })
}

/// The bytes of a literal as a value of `ty`: `{1: 'a'}` of a map. `None` is null.
pub fn value_of_literal(ty: &Type, text: &str) -> Result<Option<Vec<u8>>, Error> {
    let expr = syntax::parse_term(text)?;
    let schema = Schema::of_system(Uuid::nil(), 1);
    term::constant(&schema, "", &expr, Receiver { name: "value", ty })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> Vec<TableSchema> {
        schema_of_text(text, 1).unwrap().tables
    }

    #[test]
    fn statements_are_split_where_they_end() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text).unwrap(), expected);
        check("", &[]);
        check(" ; ;; ", &[]);
        check("a; b", &["a", "b"]);
        check("a ';' \";\" $$;$$ b;c;", &["a ';' \";\" $$;$$ b", "c"]);
        check("-- x;\n/* y; */ // z\na -- ;\nb;", &["a -- ;\nb"]);
        check("a 'it''s; so';b", &["a 'it''s; so'", "b"]);
        check("'open", &["'open"]);
    }

    #[test]
    fn a_text_makes_tables() {
        let made = schema_of_text(
            "CREATE TYPE ks.u (a int, b frozen<list<text>>);\n\
             CREATE TABLE ks.t (p int, c text, v u, s int STATIC, PRIMARY KEY (p, c)) \
             WITH CLUSTERING ORDER BY (c DESC);",
            1,
        )
        .unwrap();
        let names: Vec<&str> = made.types.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["u"]);
        let table = &made.tables[0];
        assert_eq!((table.keyspace.as_str(), table.name.as_str()), ("ks", "t"));
        assert!(table.clustering()[0].reversed);
        assert!(matches!(table.column("v").unwrap().ty, Type::User(_)));
    }

    #[test]
    fn the_system_s_tables_and_unknown_properties_are_taken() {
        let made = tables(
            "USE ks; CREATE TABLE t (p int PRIMARY KEY) WITH compaction = {'class': 'Strange'} \
             AND compression = {}; CREATE TABLE system.local (key text PRIMARY KEY)",
        );
        let names: Vec<_> = made.iter().map(|t| (t.keyspace.as_str(), t.name.as_str())).collect();
        assert_eq!(names, [("ks", "t"), ("system", "local")]);
    }

    #[test]
    fn dropped_columns_are_known() {
        let insert = "INSERT INTO system_schema.dropped_columns (keyspace_name, table_name, \
                      column_name, dropped_time, type) VALUES ('ks', 't', 'v', 7, 'list<int>')";
        let made = tables(&format!("{insert}; CREATE TABLE ks.t (p int PRIMARY KEY, w int)"));
        assert_eq!((made[0].dropped[0].name.as_str(), made[0].dropped[0].dropped_at), ("v", 7));
        let made = tables(
            "CREATE TABLE ks.t (p int PRIMARY KEY, v int, w int); \
             ALTER TABLE ks.t DROP v USING TIMESTAMP 9",
        );
        assert_eq!((made[0].dropped[0].name.as_str(), made[0].dropped[0].dropped_at), ("v", 9));
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        for text in [
            "SELECT * FROM ks.t",
            "INSERT INTO ks.t (p) VALUES (1)",
            "CREATE TABLE t (p int PRIMARY KEY)",
            "CREATE TABLE ks.t (p int PRIMARY KEY, v unknown)",
            "nonsense",
        ] {
            assert!(schema_of_text(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn literals_are_values() {
        let list = Type::List { element: Box::new(Type::Int), frozen: true };
        let bytes = value_of_literal(&list, "[1, 2]").unwrap().unwrap();
        assert_eq!(model::value::to_literal(&list, &bytes), "[1, 2]");
        assert_eq!(value_of_literal(&Type::Int, "null").unwrap(), None);
        assert!(value_of_literal(&Type::Int, "'a'").is_err());
        assert!(value_of_literal(&Type::Int, "?").is_err());
    }
}
