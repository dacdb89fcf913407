//! Whose SSTables they are: the schema from a file of CQL, from the system's own, from the schema
//! tables of a data directory, or from the SSTables themselves.
//!
//! Without a word from the operator these are tried in order: `./schema.cql`; the data directory
//! that the SSTable is in; the one that the configuration names, if keyspace and table are known;
//! the SSTable.

use super::config::Config;
use super::files::{self, Target};
use super::options::{Operation, Options, SchemaSource};
use super::output::Output;
use super::{Failure, Job};
use cluster::schema_tables::offline::{self, SchemaRows, SchemaTable, StoredTablet};
use model::{TableSchema, UserType, Uuid};
use mutation::Direction;
use reader::{merge, read_page};
use runtime::io::fs;
use sstable::scylla::Metadata;
use sstable::statistics::Statistics;
use sstable::{Component, schema::schema_of};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The schema and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Sourced {
    pub(crate) schema: Rc<TableSchema>,
    /// User types that the table mentions.
    pub(crate) types: Vec<UserType>,
}

impl Sourced {
    fn new(schema: TableSchema, types: Vec<UserType>) -> Sourced {
        Sourced { schema: Rc::new(schema), types }
    }
}

/// Finds the schema.
pub(crate) async fn load(
    options: &Options,
    config: &Config,
    targets: &[Target],
) -> Result<Sourced, Failure> {
    let place = targets.first().and_then(|target| Place::of(&target.dir));
    let names = Names {
        keyspace: options.keyspace.clone().or(place.as_ref().map(|it| it.keyspace.clone())),
        table: options.table.clone().or(place.as_ref().map(|it| it.table.clone())),
    };
    match options.schema_source {
        SchemaSource::File => from_file(&options.schema_file, &names).await,
        SchemaSource::System => from_system(&names),
        SchemaSource::Tables => {
            let dir = match (data_dir(options, config), place) {
                (Some(dir), _) => dir,
                (None, Some(place)) => place.data_dir,
                (None, None) => {
                    return Failure::arguments(
                        "could not load schema via schema-tables: no data directory is known; \
                         give --scylla-data-dir",
                    );
                }
            };
            let loaded = from_tables(&dir, &names).await;
            loaded.map_err(|why| {
                Failure::Arguments(format!("could not load schema via schema-tables: {why}"))
            })
        }
        SchemaSource::Sstable => from_sstables(targets, &names).await,
        SchemaSource::Automatic => automatic(options, config, targets, place, &names).await,
    }
}

async fn automatic(
    options: &Options,
    config: &Config,
    targets: &[Target],
    place: Option<Place>,
    names: &Names,
) -> Result<Sourced, Failure> {
    if fs::exists(&options.schema_file).await? {
        return from_file(&options.schema_file, names).await;
    }
    let mut dirs: Vec<PathBuf> = place.into_iter().map(|place| place.data_dir).collect();
    let configured = data_dir(options, config);
    if options.names_data_dir() {
        dirs.splice(0..0, configured);
    } else if options.keyspace.is_some() && options.table.is_some() {
        dirs.extend(configured);
    }
    for dir in dirs {
        match from_tables(&dir, names).await {
            Ok(found) => return Ok(found),
            Err(why) => tracing::debug!(target: "sstable_tool", "{}: {why}", dir.display()),
        }
    }
    if let (Some("system" | "system_schema"), Ok(found)) =
        (names.keyspace.as_deref(), from_system(names))
    {
        return Ok(found);
    }
    match from_sstables(targets, names).await {
        Ok(found) => Ok(found),
        Err(failure) => {
            let (Failure::Arguments(why) | Failure::Operation(why)) = &failure;
            tracing::error!(target: "sstable_tool", "{why}");
            Failure::arguments(
                "Failed to autodetect and load schema, try again with --logger-log-level \
                 scylla-sstable=debug to learn more or provide the schema source manually",
            )
        }
    }
}

/// Keyspace and table, as far as they are known.
struct Names {
    keyspace: Option<String>,
    table: Option<String>,
}

impl Names {
    fn both(&self) -> Result<(&str, &str), String> {
        match (&self.keyspace, &self.table) {
            (Some(keyspace), Some(table)) => Ok((keyspace, table)),
            _ => Err("keyspace and table are not known; give --keyspace and --table".to_string()),
        }
    }
}

/// What the directory of a table tells:
/// `DATA/keyspace/table-id[/snapshots/tag | /backups | /upload ..]`.
pub(crate) struct Place {
    pub(crate) data_dir: PathBuf,
    keyspace: String,
    table: String,
    /// The id of the table.
    pub(crate) id: Uuid,
}

impl Place {
    pub(crate) fn of(dir: &Path) -> Option<Place> {
        let dir = std::path::absolute(dir).ok()?;
        let id_of = |id: &str| (id.len() == 32).then(|| Uuid::parse_str(id).ok())?;
        for table_dir in dir.ancestors().take(3) {
            let name = table_dir.file_name()?.to_str()?;
            let Some((table, id)) = name.rsplit_once('-') else { continue };
            let Some(id) = id_of(id) else { continue };
            let keyspace_dir = table_dir.parent()?;
            return Some(Place {
                data_dir: keyspace_dir.parent()?.to_path_buf(),
                keyspace: keyspace_dir.file_name()?.to_str()?.to_string(),
                table: table.to_string(),
                id,
            });
        }
        None
    }
}

async fn from_file(path: &Path, names: &Names) -> Result<Sourced, Failure> {
    let refuse = |why: String| {
        Failure::Arguments(format!("could not load schema from {}: {why}", path.display()))
    };
    let text = fs::read_file(path).await.map_err(|error| refuse(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|_| refuse("it is not UTF-8".to_string()))?;
    let made = plan::offline::schema_of_text(&text, runtime::time::wall_micros());
    let made = made.map_err(|error| refuse(error.to_string()))?;
    match meant(&made.tables, names) {
        Ok(table) => Ok(Sourced::new(table.clone(), made.types)),
        Err(why) => Err(refuse(why.to_string())),
    }
}

/// The table that is meant of those of a file: the only one, or the one that has the names that are
/// known. Where these leave it open, a table with one view is there for the view.
fn meant<'t>(tables: &'t [TableSchema], names: &Names) -> Result<&'t TableSchema, &'static str> {
    let is = |name: &Option<String>, other: &str| name.as_deref().is_none_or(|it| it == other);
    let wanted = |table: &&TableSchema| {
        is(&names.keyspace, &table.keyspace) && is(&names.table, &table.name)
    };
    let open = match tables {
        [] => return Err("it has no CREATE TABLE"),
        [one] => return Ok(one),
        many => many.iter().filter(wanted).collect::<Vec<_>>(),
    };
    match open.as_slice() {
        [one] => Ok(one),
        [base, view] if view.view.as_ref().is_some_and(|it| it.base == base.id) => Ok(view),
        _ => Err("it has several tables; give --keyspace and --table"),
    }
}

fn from_system(names: &Names) -> Result<Sourced, Failure> {
    let (keyspace, table) = names.both().map_err(Failure::Arguments)?;
    let tables = cluster::system_tables::tables();
    let found = tables.into_iter().find(|(it, _)| it.keyspace == keyspace && it.name == table);
    match found {
        Some((schema, _)) => Ok(Sourced::new(schema, Vec::new())),
        None => Failure::arguments(format!(
            "could not load schema via system-schema: there is no system table {keyspace}.{table}"
        )),
    }
}

async fn from_sstables(targets: &[Target], names: &Names) -> Result<Sourced, Failure> {
    if targets.is_empty() {
        return Failure::arguments("no SSTable tells the schema; give --schema-file");
    }
    let mut schema = schema_of_targets(targets).await?;
    // The names that the operator gives count more than those in the file.
    if let Some(keyspace) = &names.keyspace {
        schema.keyspace.clone_from(keyspace);
    }
    if let Some(table) = &names.table {
        schema.name.clone_from(table);
    }
    let types = schema.user_types();
    Ok(Sourced::new(schema, types))
}

/// The schema that the SSTables tell of themselves.
async fn schema_of_targets(targets: &[Target]) -> Result<TableSchema, Failure> {
    let mut parsed = Vec::with_capacity(targets.len());
    for target in targets {
        let bytes = target.need(Component::Statistics).await?;
        let statistics = Statistics::parse(&bytes, target.descriptor.version);
        let statistics =
            statistics.map_err(|error| target.damaged(Component::Statistics, error))?;
        let metadata = match target.component(Component::Scylla).await? {
            Some(bytes) => {
                Metadata::parse(&bytes).map_err(|error| target.damaged(Component::Scylla, error))?
            }
            None => Metadata::default(),
        };
        parsed.push((statistics.header, metadata));
    }
    let files: Vec<_> = parsed.iter().map(|(header, metadata)| (header, metadata)).collect();
    schema_of(&files).map_err(|why| {
        let name = targets.first().map(Target::name).unwrap_or_default();
        Failure::Arguments(format!("could not load schema from {name}: {why}"))
    })
}

/// The data directory that the options name, or the configuration.
pub(crate) fn data_dir(options: &Options, config: &Config) -> Option<PathBuf> {
    options.data_dir.clone().or_else(|| config.data_dir())
}

/// The schema from the schema tables of a data directory. The error says why not.
async fn from_tables(data_dir: &Path, names: &Names) -> Result<Sourced, String> {
    let (keyspace, table) = names.both()?;
    let text = |failure: Failure| match failure {
        Failure::Arguments(text) | Failure::Operation(text) => text,
    };
    let mut rows = SchemaRows::default();
    for one in offline::TABLES {
        read_table(data_dir, one, &mut rows).await.map_err(text)?;
    }
    match rows.table(keyspace, table).map_err(|error| error.to_string())? {
        Some(schema) => {
            let types = rows.types(keyspace).map_err(|error| error.to_string())?;
            Ok(Sourced::new(schema, types))
        }
        // A node of ours does not store the schema of its own tables.
        None => match from_system(names) {
            Ok(found) => Ok(found),
            Err(_) => Err(format!(
                "std::runtime_error (Failed to find {keyspace}.{table} in schema tables)"
            )),
        },
    }
}

/// The tablets of a table, from `system.tablets` of a data directory.
pub(crate) async fn tablets(data_dir: &Path, id: Uuid) -> Result<Vec<StoredTablet>, Failure> {
    let mut rows = SchemaRows::default();
    read_table(data_dir, offline::TABLETS, &mut rows).await?;
    rows.tablets(id).map_err(|error| Failure::Operation(error.to_string()))
}

/// Adds the rows of a table of the system, from all of its SSTables.
async fn read_table(
    data_dir: &Path,
    one: SchemaTable,
    rows: &mut SchemaRows,
) -> Result<(), Failure> {
    let parent = data_dir.join(one.keyspace);
    let mut targets = Vec::new();
    for entry in fs::list_dir(&parent).await? {
        let of_table = entry.name.rsplit_once('-').is_some_and(|(name, _)| name == one.name);
        if entry.is_dir && of_table {
            targets.extend(files::complete_in(&parent.join(&entry.name)).await?);
        }
    }
    if targets.is_empty() {
        return Ok(());
    }
    let mut schema = schema_of_targets(&targets).await?;
    let keys = one.partition_key.iter().chain(one.clustering);
    for (index, name) in keys.enumerate() {
        let Some(column) = schema.columns.get(index) else { continue };
        if column.name != *name {
            let renamed = schema.edit().rename_column(&column.name, name).build();
            schema = renamed.map_err(|invalid| Failure::Operation(invalid.0))?;
        }
    }
    let schema = Rc::new(schema);
    let mut tables = Vec::new();
    for target in &targets {
        tables.push(target.open(&schema).await?);
    }
    let now = runtime::time::wall_micros() / 1_000_000;
    let mut command = offline::command(&schema, now);
    loop {
        // Each page reads from the start of the range, which `add` moves.
        let scope = match &command.partitions {
            mutation::Partitions::Range { start, end } => {
                sstable::Scope::Range { start: start.clone(), end: end.clone() }
            }
            _ => files::everything(),
        };
        let slice = reader::Slice::of(&command);
        let access = || sstable::cache::Access::bypass(files::CLASS);
        let sources = tables.iter().map(|table| {
            let source = table.read(scope.clone(), slice.clone(), access());
            Box::new(source) as Box<dyn reader::Source>
        });
        let mut source = merge(schema.clone(), Direction::Forward, sources.collect());
        command.bytes_max = usize::MAX;
        let page = read_page(&mut *source, &schema, &command).await?;
        let more = rows.add(one, &schema, &mut command, &page);
        if !more.map_err(|error| Failure::Operation(error.to_string()))? {
            return Ok(());
        }
    }
}

/// `dump-schema`: CQL text.
pub(crate) fn dump(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    debug_assert!(job.options.operation == Operation::DumpSchema);
    let schema = &job.source.schema;
    let mentioned = |user: &&UserType| {
        schema.columns.iter().any(|column| column.ty.mentions_user_type(&user.keyspace, &user.name))
    };
    for user in job.source.types.iter().filter(mentioned) {
        out.line(&user.to_cql_create())?;
    }
    let hidden = model::schema::Internals::Hidden;
    out.line(&match &schema.view {
        Some(view) => schema.describe_view(view, hidden),
        None => schema.describe(hidden),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_several_tables_is_for_the_one_that_is_named_or_for_its_view() {
        let table = "CREATE TABLE ks.t (p int PRIMARY KEY, v int, w int);";
        let view = "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE v IS NOT NULL \
                    PRIMARY KEY (v, p);";
        let check = |more: &[&str], named: [Option<&str>; 2], expected: Result<&str, &str>| {
            let text = [&[table], more].concat().concat();
            let made = plan::offline::schema_of_text(&text, 1).unwrap();
            let [keyspace, table] = named.map(|name| name.map(str::to_owned));
            let found = meant(&made.tables, &Names { keyspace, table });
            assert_eq!(found.map(|table| table.name.as_str()), expected, "{more:?} {named:?}");
        };
        let index = "CREATE INDEX by_w ON ks.t (w);";
        let several = Err("it has several tables; give --keyspace and --table");
        check(&[], [Some("x"), Some("y")], Ok("t"));
        check(&[view], [None, None], Ok("mv"));
        check(&[view], [Some("ks"), Some("t")], Ok("t"));
        check(&[index], [None, None], Ok("by_w_index"));
        check(&[index], [Some("ks"), None], Ok("by_w_index"));
        check(&[index], [Some("other"), None], several);
        check(&["CREATE INDEX ON ks.t (w);"], [None, None], Ok("t_w_idx_index"));
        check(&[view, index], [None, None], several);
        check(&[view, index], [None, Some("mv")], Ok("mv"));
        check(&["CREATE TABLE ks.u (p int PRIMARY KEY)"], [None, None], several);
        let unknown = "CREATE INDEX ON ks.t (w) WITH compaction = {'class': 'OfTheFuture'}";
        check(&[unknown], [None, None], Ok("t_w_idx_index"));
    }

    #[test]
    fn a_path_tells_keyspace_and_table() {
        let check = |path: &str, expected: Option<(&str, &str, &str)>| {
            let place = Place::of(Path::new(path));
            let place = place
                .as_ref()
                .map(|place| (place.data_dir.to_str().unwrap(), &*place.keyspace, &*place.table));
            assert_eq!(place, expected, "{path}");
        };
        let id = "4d1cc6a46c1311f0a3c94d1cc6a46c13";
        check(&format!("/d/ks/t-{id}"), Some(("/d", "ks", "t")));
        check(&format!("/d/ks/t-{id}/upload"), Some(("/d", "ks", "t")));
        check(&format!("/d/ks/t-{id}/backups"), Some(("/d", "ks", "t")));
        check(&format!("/d/ks/t-{id}/snapshots/a-b"), Some(("/d", "ks", "t")));
        check("/d/ks/t", None);
        check("/d/ks/t-4d1c", None);
        check("/", None);
    }
}
