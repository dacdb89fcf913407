//! The CQL text that makes a keyspace, a type or a table again, as DESCRIBE prints it.

mod views;

use super::{ColumnKind, DroppedColumn, Keyspace, TableOptions, TableSchema};
use crate::types::{Type, UserType, quote_identifier};
use crate::value::quote_string;
use std::fmt::Write;

/// Whether a description holds what a restore needs and a reader does not: ids and dropped columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Internals {
    Shown,
    Hidden,
}

/// A map of texts as CQL: `{'class': 'SimpleStrategy', 'replication_factor': '1'}`.
pub fn cql_map(entries: &[(String, String)]) -> String {
    let entry =
        |(key, value): &(String, String)| format!("{}: {}", quote_string(key), quote_string(value));
    format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// Between what a statement makes and its name, where it may be there already.
const IF_MISSING: &str = "IF NOT EXISTS ";

impl Keyspace {
    /// `CREATE KEYSPACE ..;`
    pub fn to_cql_create(&self) -> String {
        self.create("")
    }

    /// `CREATE KEYSPACE IF NOT EXISTS ..;`
    pub fn to_cql_create_if_missing(&self) -> String {
        self.create(IF_MISSING)
    }

    fn create(&self, condition: &str) -> String {
        let mut out = format!(
            "CREATE KEYSPACE {condition}{} WITH replication = {} AND durable_writes = {}",
            quote_identifier(&self.name),
            self.replication_map(),
            self.durable_writes
        );
        if !self.storage.is_empty() {
            let _ = write!(out, " AND storage = {}", cql_map(&self.storage));
        }
        out.push_str(&match self.initial_tablets {
            None => " AND tablets = {'enabled': false};".to_owned(),
            Some(0) => " AND tablets = {'enabled': true};".to_owned(),
            Some(initial) => format!(" AND tablets = {{'enabled': true, 'initial': {initial}}};"),
        });
        out
    }

    /// As CQL has it: a factor that is a list of racks, `['r1', 'r2']`, is one there too.
    fn replication_map(&self) -> String {
        let entry = |(key, value): &(String, String)| {
            let is_list = value.starts_with('[') && value.ends_with(']');
            let value = if is_list { value.clone() } else { quote_string(value) };
            format!("{}: {value}", quote_string(key))
        };
        let entries: Vec<String> = self.replication.iter().map(entry).collect();
        format!("{{{}}}", entries.join(", "))
    }
}

impl UserType {
    /// `CREATE TYPE ..;`
    pub fn to_cql_create(&self) -> String {
        self.create("")
    }

    /// `CREATE TYPE IF NOT EXISTS ..;`
    pub fn to_cql_create_if_missing(&self) -> String {
        self.create(IF_MISSING)
    }

    fn create(&self, condition: &str) -> String {
        let field =
            |(name, ty): &(String, Type)| format!("    {} {}", quote_identifier(name), ty.to_cql());
        let fields: Vec<String> = self.fields.iter().map(field).collect();
        let name = qualified(&self.keyspace, &self.name);
        format!("CREATE TYPE {condition}{name} (\n{}\n);", fields.join(",\n"))
    }
}

impl TableSchema {
    /// `CREATE TABLE ..;` with every option.
    pub fn to_cql_create(&self) -> String {
        self.describe(Internals::Hidden)
    }

    /// The same with its id; and with its dropped columns, as statements that drop them again.
    /// User types of dropped columns may be gone, so tuples stand for them.
    pub fn describe(&self, internals: Internals) -> String {
        let dropped = match internals {
            Internals::Shown => self.last_drops(),
            Internals::Hidden => Vec::new(),
        };
        let name = qualified(&self.keyspace, &self.name);
        let row_ttl = self.options.extension(TableOptions::ROW_TTL_COLUMN);
        let mut out = format!("CREATE TABLE {name} (\n");
        for column in &self.columns {
            let mut ty = column.ty.to_cql();
            if row_ttl == Some(&column.name) && !dropped.iter().any(|it| it.name == column.name) {
                ty.push_str(" TTL");
            }
            out.push_str(&definition(&column.name, &ty, column.kind));
        }
        let gone = |name: &str| self.column(name).is_none();
        for column in dropped.iter().filter(|column| gone(&column.name)) {
            let ty = column.ty.without_user_types().to_cql();
            out.push_str(&definition(&column.name, &ty, column.kind));
        }
        let _ = write!(out, "    PRIMARY KEY ({})\n) WITH ", self.primary_key());
        let mut options = Vec::new();
        if internals == Internals::Shown {
            options.push(format!("ID = {}", self.id.hyphenated()));
        }
        options.extend(self.clustering_order());
        if self.compact_storage {
            options.push("COMPACT STORAGE".to_owned());
        }
        options.extend(self.options.to_cql());
        out.push_str(&options.join("\n    AND "));
        out.push(';');
        for column in &dropped {
            let column_name = quote_identifier(&column.name);
            let at = column.dropped_at;
            let _ = write!(out, "\nALTER TABLE {name} DROP {column_name} USING TIMESTAMP {at};");
        }
        for column in dropped.iter().filter_map(|column| self.column(&column.name)) {
            let added = definition(&column.name, &column.ty.to_cql(), column.kind);
            let added = added.trim().trim_end_matches(',');
            let _ = write!(out, "\nALTER TABLE {name} ADD {added};");
            if row_ttl == Some(&column.name) {
                let _ = write!(out, "\nALTER TABLE {name} TTL {};", quote_identifier(&column.name));
            }
        }
        out
    }

    /// `ALTER TABLE .. WITH ..;` with every option.
    pub fn to_cql_alter(&self) -> String {
        let name = qualified(&self.keyspace, &self.name);
        format!("ALTER TABLE {name} WITH {};", self.options.to_cql().join("\n    AND "))
    }

    /// The user types of its columns, each after those that it mentions.
    pub fn user_types(&self) -> Vec<UserType> {
        let mut types = Vec::new();
        self.columns.iter().for_each(|column| collect_types(&column.ty, &mut types));
        types
    }

    /// All that makes the table where there is nothing of it: the keyspace, if it is known, the
    /// user types of its columns, and the table with its internals. A keyspace and types that are
    /// there already stay as they are.
    pub fn describe_alone(&self, keyspace: Option<&Keyspace>) -> String {
        let keyspace = match keyspace {
            Some(keyspace) => keyspace.to_cql_create_if_missing(),
            None => {
                format!("-- The keyspace {} has to be there.", quote_identifier(&self.keyspace))
            }
        };
        let types = self.user_types().into_iter().map(|ty| ty.to_cql_create_if_missing());
        let table = self.describe(Internals::Shown);
        let all: Vec<String> = std::iter::once(keyspace).chain(types).chain([table]).collect();
        all.join("\n\n") + "\n"
    }

    /// The last drop of each name, the last name first, as ScyllaDB mostly lists them: earlier ones
    /// hide nothing more.
    fn last_drops(&self) -> Vec<&DroppedColumn> {
        let mut last: Vec<&DroppedColumn> = Vec::new();
        for column in &self.dropped {
            match last.iter_mut().find(|known| known.name == column.name) {
                Some(known) if known.dropped_at < column.dropped_at => *known = column,
                Some(_) => {}
                None => last.push(column),
            }
        }
        last.sort_by(|a, b| b.name.cmp(&a.name));
        last
    }

    fn primary_key(&self) -> String {
        let names = |columns: &[super::Column]| {
            let names: Vec<String> = columns.iter().map(|c| quote_identifier(&c.name)).collect();
            names.join(", ")
        };
        let partition = match self.partition_key_count {
            1 => names(self.partition_key()),
            _ => format!("({})", names(self.partition_key())),
        };
        if self.clustering_count == 0 {
            return partition;
        }
        format!("{partition}, {}", names(self.clustering()))
    }

    fn clustering_order(&self) -> Option<String> {
        let direction = |column: &super::Column| {
            let direction = if column.reversed { "DESC" } else { "ASC" };
            format!("{} {direction}", quote_identifier(&column.name))
        };
        let columns: Vec<String> = self.clustering().iter().map(direction).collect();
        (!columns.is_empty()).then(|| format!("CLUSTERING ORDER BY ({})", columns.join(", ")))
    }
}

/// The user types that a type mentions, inner ones first.
fn collect_types(ty: &Type, out: &mut Vec<UserType>) {
    ty.children().into_iter().for_each(|child| collect_types(child, out));
    if let Type::User(user) = ty
        && out.iter().all(|known| known.name != user.name)
    {
        out.push(UserType {
            keyspace: user.keyspace.clone(),
            name: user.name.clone(),
            fields: user.fields.clone(),
        });
    }
}

impl TableOptions {
    /// `name = value` of every option that CREATE TABLE takes and that is not simply absent.
    pub fn to_cql(&self) -> Vec<String> {
        let mut out = vec![
            format!("bloom_filter_fp_chance = {}", self.bloom_filter_fp_chance),
            format!("caching = {}", cql_map(&self.caching)),
        ];
        let maps = |name: &str, entries: &[(String, String)]| {
            (!entries.is_empty()).then(|| format!("{name} = {}", cql_map(entries)))
        };
        out.extend(maps("cdc", &self.cdc));
        let index_kib = self.extension(TableOptions::COLUMN_INDEX_KIB);
        out.extend(index_kib.map(|kib| format!("{} = {kib}", TableOptions::COLUMN_INDEX_KIB)));
        out.push(format!("comment = {}", quote_string(&self.comment)));
        out.push(format!("compaction = {}", cql_map(&self.compaction)));
        out.push(format!("compression = {}", cql_map(&self.compression)));
        out.push(format!("crc_check_chance = {}", self.crc_check_chance));
        let chance =
            |name: &str, chance: f64| (chance != 0.0).then(|| format!("{name} = {chance}"));
        out.extend(chance("dclocal_read_repair_chance", self.dclocal_read_repair_chance));
        let number = |name: &str, value: i32| format!("{name} = {value}");
        out.push(number("default_time_to_live", self.default_time_to_live));
        out.push(number("gc_grace_seconds", self.gc_grace_seconds));
        let guardrails = self.extension(TableOptions::LARGE_DATA_GUARDRAILS);
        out.extend(guardrails.map(|on| format!("{} = {on}", TableOptions::LARGE_DATA_GUARDRAILS)));
        out.push(number("max_index_interval", self.max_index_interval));
        out.push(number("memtable_flush_period_in_ms", self.memtable_flush_period_in_ms));
        out.push(number("min_index_interval", self.min_index_interval));
        out.extend(self.paxos_grace_seconds.map(|secs| number("paxos_grace_seconds", secs)));
        out.extend(maps("per_partition_rate_limit", &self.per_partition_rate_limit));
        out.extend(chance("read_repair_chance", self.read_repair_chance));
        out.push(format!("speculative_retry = {}", quote_string(&self.speculative_retry)));
        let format = self.extension(TableOptions::SSTABLE_FORMAT).map(quote_string);
        out.extend(format.map(|name| format!("{} = {name}", TableOptions::SSTABLE_FORMAT)));
        out.extend(maps("tablets", &self.tablets));
        out.extend(maps("tombstone_gc", &self.tombstone_gc));
        out
    }
}

fn qualified(keyspace: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(keyspace), quote_identifier(name))
}

fn definition(name: &str, ty: &str, kind: ColumnKind) -> String {
    let role = if kind == ColumnKind::Static { " static" } else { "" };
    format!("    {} {ty}{role},\n", quote_identifier(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::UserTypeRef;
    use uuid::Uuid;

    const OPTIONS: &str = "\
bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}
    AND comment = ''
    AND compaction = {'class': 'IncrementalCompactionStrategy'}
    AND compression = {'sstable_compression': 'org.apache.cassandra.io.compress.LZ4Compressor', \
        'chunk_length_in_kb': '4'}
    AND crc_check_chance = 1
    AND default_time_to_live = 0
    AND gc_grace_seconds = 864000
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND speculative_retry = '99.0PERCENTILE';";

    #[test]
    fn a_small_table() {
        let table = TableSchema::builder("ks", "T", Uuid::nil()).partition_key("p", Type::Int);
        let text = "CREATE TABLE ks.\"T\" (\n    p int,\n    PRIMARY KEY (p)\n) WITH ";
        assert_eq!(table.build().unwrap().to_cql_create(), format!("{text}{OPTIONS}"));
    }

    #[test]
    fn a_table_with_everything() {
        let mut options = TableOptions::new();
        options.comment = "it's".into();
        options.cdc = vec![("enabled".into(), "true".into())];
        options.paxos_grace_seconds = Some(5);
        let table = TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("p", Type::Int)
            .partition_key("q", Type::Text)
            .clustering_descending("c", Type::Int)
            .clustering("Select", Type::Int)
            .static_column("s", Type::Int)
            .regular("v", Type::Int)
            .regular("old", Type::Int)
            .options(options)
            .drop_column("v", 5)
            .drop_column("old", 6)
            .regular("old", Type::Int)
            .drop_column("old", 7)
            .regular("v", Type::Text)
            .build()
            .unwrap();
        let text = table.describe(Internals::Shown);
        let expected = [
            "CREATE TABLE ks.t (\n    p int,\n    q text,\n    c int,\n    \"Select\" int,\n",
            "    s int static,\n    v text,\n    old int,\n",
            "    PRIMARY KEY ((p, q), c, \"Select\")\n) WITH ID = 00000000-",
            "\n    AND CLUSTERING ORDER BY (c DESC, \"Select\" ASC)\n    AND bloom",
            " AND cdc = {'enabled': 'true'}\n    AND comment = 'it''s'\n",
            " AND paxos_grace_seconds = 5\n",
            "\nALTER TABLE ks.t DROP v USING TIMESTAMP 5;\n",
            "\nALTER TABLE ks.t DROP old USING TIMESTAMP 7;\n",
            "\nALTER TABLE ks.t ADD v text;",
        ];
        expected.iter().for_each(|part| assert!(text.contains(part), "{part}\n{text}"));
        assert_eq!(text.matches("DROP old").count(), 1);
        assert!(!table.to_cql_create().contains("old"));
    }

    #[test]
    fn what_was_dropped_is_made_without_what_may_be_gone() {
        let user = crate::types::UserTypeRef {
            keyspace: "ks".into(),
            name: "gone".into(),
            fields: vec![("a".into(), Type::Int), ("b".into(), Type::Text)],
            frozen: true,
        };
        let mut options = TableOptions::new();
        options.set_extension(TableOptions::ROW_TTL_COLUMN, Some("e"));
        let table = TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("p", Type::Int)
            .regular("u", Type::User(Box::new(user)))
            .regular("e", Type::BigInt)
            .options(options)
            .drop_column("u", 6)
            .drop_column("e", 5)
            .regular("e", Type::BigInt)
            .build()
            .unwrap();
        let text = table.describe(Internals::Shown);
        let (create, after) = text.split_once(';').unwrap();
        let columns = "    p int,\n    e bigint,\n    u frozen<tuple<int, text>>,\n    PRIMARY";
        assert!(create.contains(columns), "{create}");
        let expected =
            ["DROP u USING TIMESTAMP 6;", "DROP e USING TIMESTAMP 5;", "ADD e bigint;", "TTL e;"];
        let lines = expected.map(|line| format!("\nALTER TABLE ks.t {line}"));
        assert_eq!(after, lines.concat());
        let shown = table.describe(Internals::Hidden);
        assert!(shown.contains("    e bigint TTL,\n    PRIMARY"), "{shown}");
    }

    #[test]
    fn keyspaces_and_types() {
        let mut keyspace = Keyspace {
            name: "ks".into(),
            replication: vec![("class".into(), "NetworkTopologyStrategy".into())],
            durable_writes: true,
            previous: None,
            initial_tablets: None,
            storage: Vec::new(),
        };
        let text = "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy'} \
                    AND durable_writes = true AND tablets = ";
        assert_eq!(keyspace.to_cql_create(), format!("{text}{{'enabled': false}};"));
        keyspace.initial_tablets = Some(8);
        assert_eq!(keyspace.to_cql_create(), format!("{text}{{'enabled': true, 'initial': 8}};"));
        keyspace.replication.push(("d'1".into(), "['r1', 'r2']".into()));
        let racks = "'NetworkTopologyStrategy', 'd''1': ['r1', 'r2']} AND durable_writes";
        let shown = keyspace.to_cql_create();
        assert!(shown.contains(racks), "{shown}");
        let fields = vec![("a".into(), Type::Int), ("B".into(), Type::Text)];
        let ty = UserType { keyspace: "ks".into(), name: "t".into(), fields };
        assert_eq!(ty.to_cql_create(), "CREATE TYPE ks.t (\n    a int,\n    \"B\" text\n);");
    }

    #[test]
    fn a_table_alone_comes_with_its_types_in_order() {
        let user = |name: &str, fields: Vec<(String, Type)>| {
            let user = UserTypeRef {
                keyspace: "ks".to_owned(),
                name: name.to_owned(),
                fields,
                frozen: true,
            };
            Type::User(Box::new(user))
        };
        // The outer one sorts before the inner one, which two columns have.
        let inner = user("z", vec![("a".to_owned(), Type::Int)]);
        let list = Type::List { element: Box::new(inner.clone()), frozen: true };
        let outer = user("a", vec![("l".to_owned(), list)]);
        let table = TableSchema::builder("ks", "t", Uuid::from_u128(7))
            .partition_key("k", Type::Int)
            .regular("o", outer)
            .regular("i", inner)
            .build()
            .unwrap();
        let text = table.describe_alone(None);
        let starts: Vec<&str> = text.lines().filter(|line| line.starts_with(['-', 'C'])).collect();
        let expected = [
            "-- The keyspace ks has to be there.",
            "CREATE TYPE IF NOT EXISTS ks.z (",
            "CREATE TYPE IF NOT EXISTS ks.a (",
            "CREATE TABLE ks.t (",
        ];
        assert_eq!(starts, expected, "{text}");
        let keyspace = Keyspace {
            name: "ks".to_owned(),
            replication: vec![("class".to_owned(), "SimpleStrategy".to_owned())],
            durable_writes: true,
            previous: None,
            initial_tablets: None,
            storage: Vec::new(),
        };
        let text = table.describe_alone(Some(&keyspace));
        assert!(text.starts_with("CREATE KEYSPACE IF NOT EXISTS ks WITH"), "{text}");
    }
}
