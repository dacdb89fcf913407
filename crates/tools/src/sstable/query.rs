//! `query`: CQL over SSTables. A node of its own in a temporary folder has a table whose files are
//! links to the SSTables; and `write` of CQL statements, by the same node.
//!
//! Invariants
//!  - *originals-stay*: the node sees links; what it removes are those.

use super::files;
use super::options::Format;
use super::output::Output;
use super::{Failure, Job, rewrite};
use ::options::{Source, Values};
use cluster::{Cluster, SchemaChange};
use model::{Keyspace, TableSchema, Type, UserType, types, value};
use mutation::Direction;
use node::TemporaryFolder;
use plan::offline;
use query::{Parameters, Processor, ResponseKind, Rows, Session};
use reader::merge;
use replication::Consistency;
use runtime::io::fs;
use sstable::{Component, Descriptor, Generation};
use std::path::{Path, PathBuf};
use syntax::ast;

/// The keyspace of queries.
const KEYSPACE: &str = "scylla_sstable";
/// Rows that are in memory at once.
const PAGE_ROWS: i32 = 1000;

/// `query`.
pub(crate) async fn query(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let table = &job.source.schema.name;
    let text = match (&job.options.query, &job.options.query_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => read_text(path).await?,
        (None, None) => format!("SELECT * FROM {KEYSPACE}.{}", types::quote_identifier(table)),
    };
    let text = one_select(&text, table)?;
    let temporary = Temporary::start(job).await?;
    let done = answer(job, &text, out).await;
    temporary.stop().await?;
    done
}

/// `write --input-format cql`: the statements' mutations as one SSTable.
pub(crate) async fn write(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let path = job.options.input_file.clone().unwrap_or_default();
    let text = read_text(&path).await?;
    let statements = offline::split(&text).map_err(|error| parse_failure(&error))?;
    for statement in &statements {
        check_write(statement, &job.source.schema.name)?;
    }
    let temporary = Temporary::start(job).await?;
    let done = execute(job, &temporary, &statements, out).await;
    temporary.stop().await?;
    done
}

async fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read_file(path).await;
    let bytes = bytes.map_err(|error| Failure::Arguments(error.to_string()))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::Arguments(format!("{} is not UTF-8", path.display())))
}

fn parse_failure(error: &dyn std::fmt::Display) -> Failure {
    Failure::Arguments(format!("failed to parse query: exceptions::syntax_exception ({error})"))
}

/// The one statement of the text, if it selects from the table.
fn one_select(text: &str, table: &str) -> Result<String, Failure> {
    let statements = offline::split(text).map_err(|error| parse_failure(&error))?;
    let [statement] = statements.as_slice() else {
        let count = statements.len();
        return Failure::arguments(format!("expected exactly 1 query, got {count}"));
    };
    let parsed = syntax::parse(statement).map_err(|error| parse_failure(&error))?;
    match parsed.statement {
        ast::Statement::Select(select) => {
            let Some(source) = &select.from else {
                return Failure::arguments("query must be a select query from a table");
            };
            check_table(source.table(), table)?;
            Ok(statement.clone())
        }
        _ => Failure::arguments("query must be a select query"),
    }
}

fn check_write(text: &str, table: &str) -> Result<(), Failure> {
    let parsed = syntax::parse(text).map_err(|error| parse_failure(&error))?;
    match parsed.statement {
        ast::Statement::Insert(it) => check_table(&it.table, table),
        ast::Statement::Update(it) => check_table(&it.table, table),
        ast::Statement::Delete(it) => check_table(&it.table, table),
        _ => Failure::arguments("query must be an insert, update or delete query"),
    }
}

fn check_table(name: &ast::QualifiedName, table: &str) -> Result<(), Failure> {
    let Some(keyspace) = &name.keyspace else {
        return Failure::arguments(format!(
            "query must have keyspace and the keyspace has to be {KEYSPACE}"
        ));
    };
    if keyspace.text != KEYSPACE {
        let other = &keyspace.text;
        return Failure::arguments(format!(
            "query must be against {KEYSPACE} keyspace, got {other} instead"
        ));
    }
    if name.name.text != table {
        let other = &name.name.text;
        return Failure::arguments(format!(
            "query must be against {table} table, got {other} instead"
        ));
    }
    Ok(())
}

/// Where temporary files go: what the first of the usual variables names, or `/tmp`.
async fn temporary_dir() -> Result<PathBuf, Failure> {
    let dir = ["TMPDIR", "TMP", "TEMP", "TEMPDIR"].into_iter().find_map(std::env::var_os);
    let dir = dir.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    if fs::metadata(&dir).await.is_ok_and(|found| found.is_dir) {
        return Ok(dir);
    }
    // As the programs that scripts were written for say it.
    Failure::operation(format!(
        "std::filesystem::__cxx11::filesystem_error (error generic:20, filesystem error: \
         temp_directory_path: Not a directory [{}])",
        dir.display()
    ))
}

/// A node in a temporary folder, which goes with it.
struct Temporary {
    folder: TemporaryFolder,
    id: model::Uuid,
    data_dir: PathBuf,
}

impl Temporary {
    /// Starts it, with a table whose SSTables are the job's.
    async fn start(job: &Job<'_>) -> Result<Temporary, Failure> {
        let folder = TemporaryFolder::make_in(&temporary_dir().await?);
        let folder = folder
            .map_err(|error| Failure::Operation(format!("no temporary directory: {error}")))?;
        let mut values = Values::default();
        let path = folder.path().display().to_string();
        for (name, value) in [("workdir", path.as_str()), ("memory", "256M"), ("smp", "1")] {
            let set = values.set(name, vec![value.to_string()], Source::File);
            debug_assert!(set.is_ok(), "{name} is an option");
        }
        let config = node::config(&values, 1).map_err(Failure::Operation)?;
        let data_dir = config.boot.storage.data_dir.clone();
        node::start(config).await.map_err(Failure::Operation)?;
        let id = Cluster::new_table_id();
        let temporary = Temporary { folder, id, data_dir };
        match temporary.fill(job).await {
            Ok(()) => Ok(temporary),
            Err(failure) => {
                temporary.stop().await?;
                Err(failure)
            }
        }
    }

    fn table_dir(&self, schema: &TableSchema) -> PathBuf {
        self.data_dir.join(KEYSPACE).join(format!("{}-{}", schema.name, self.id.simple()))
    }

    async fn fill(&self, job: &Job<'_>) -> Result<(), Failure> {
        let dir = self.table_dir(&job.source.schema);
        fs::create_dir_all(&dir).await?;
        for target in &job.targets {
            link(target, &dir).await?;
        }
        let changes = changes(job, self.id);
        let cluster = runtime::local::get::<Cluster>();
        let changed = cluster.change_schema(move |_| Ok::<_, String>(changes.clone())).await;
        match changed {
            Ok(_) => Ok(()),
            Err(cluster::ChangeError::Refused(why) | cluster::ChangeError::Failed(why)) => {
                Failure::operation(why)
            }
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        let stopped = node::stop().await.map_err(Failure::Operation);
        drop(self.folder);
        stopped
    }
}

/// Links to all files of an SSTable, under a generation of their own.
async fn link(target: &files::Target, dir: &Path) -> Result<(), Failure> {
    let listing = sstable::store::list(&target.dir).await?;
    let found = listing.tables.into_iter().find(|found| found.descriptor == target.descriptor);
    let suffixes = found.map(|found| found.suffixes).unwrap_or_default();
    if !suffixes.iter().any(|suffix| suffix == Component::Toc.suffix()) {
        return Failure::operation(format!("{}: the SSTable has no TOC.txt", target.name()));
    }
    let descriptor =
        Descriptor { version: target.descriptor.version, generation: Generation::generate() };
    for suffix in suffixes {
        let from = target.dir.join(target.descriptor.file_name_of(&suffix));
        let from = std::path::absolute(&from);
        let from = from.map_err(|error| Failure::Operation(error.to_string()))?;
        let to = dir.join(descriptor.file_name_of(&suffix));
        let linked = std::os::unix::fs::symlink(&from, &to);
        linked.map_err(|error| Failure::Operation(format!("{}: {error}", to.display())))?;
    }
    Ok(())
}

/// Keyspace, types and table.
fn changes(job: &Job<'_>, id: model::Uuid) -> Vec<SchemaChange> {
    let option = |name: &str, value: &str| (name.to_string(), value.to_string());
    let class = "org.apache.cassandra.locator.SimpleStrategy";
    let mut out = vec![SchemaChange::CreateKeyspace(Keyspace {
        name: KEYSPACE.to_string(),
        replication: vec![option("class", class), option("replication_factor", "1")],
        durable_writes: false,
        previous: None,
        initial_tablets: None,
        storage: Vec::new(),
    })];
    for user in &job.source.types {
        let fields = user.fields.iter().map(|(name, ty)| (name.clone(), at_home(ty))).collect();
        let (keyspace, name) = (KEYSPACE.to_string(), user.name.clone());
        out.push(SchemaChange::CreateType(UserType { keyspace, name, fields }));
    }
    let mut table = (*job.source.schema).clone();
    (table.id, table.keyspace) = (id, KEYSPACE.to_string());
    table.columns.iter_mut().for_each(|column| column.ty = at_home(&column.ty));
    table.dropped.iter_mut().for_each(|column| column.ty = at_home(&column.ty));
    table.order.columns.iter_mut().for_each(|(ty, _)| *ty = at_home(ty));
    out.push(SchemaChange::CreateTable(table));
    out
}

/// The type, with user types in the keyspace of queries.
fn at_home(ty: &Type) -> Type {
    let inner = |ty: &Type| Box::new(at_home(ty));
    match ty {
        Type::List { element, frozen } => Type::List { element: inner(element), frozen: *frozen },
        Type::Set { element, frozen } => Type::Set { element: inner(element), frozen: *frozen },
        Type::Map { key, value, frozen } => {
            Type::Map { key: inner(key), value: inner(value), frozen: *frozen }
        }
        Type::Tuple(fields) => Type::Tuple(fields.iter().map(at_home).collect()),
        Type::Vector { element, dimension } => {
            Type::Vector { element: inner(element), dimension: *dimension }
        }
        Type::User(user) => {
            let mut user = user.clone();
            user.keyspace = KEYSPACE.to_string();
            user.fields.iter_mut().for_each(|(_, ty)| *ty = at_home(ty));
            Type::User(user)
        }
        other => other.clone(),
    }
}

/// Prints the rows of a query, page by page.
async fn answer(job: &Job<'_>, text: &str, out: &mut Output) -> Result<(), Failure> {
    let processor = runtime::local::get::<Processor>();
    let session = Session::internal();
    let mut state: Option<Vec<u8>> = None;
    let json = job.options.format == Format::Json;
    let mut printed = 0;
    if json {
        out.text("[")?;
    }
    loop {
        let mut parameters = Parameters::plain(Consistency::One);
        parameters.page_size = Some(PAGE_ROWS);
        parameters.paging_state = state.as_deref();
        let answered = processor.query(&session, text, &parameters).await;
        let response = answered.map_err(|error| Failure::Operation(error.to_string()))?;
        let ResponseKind::Rows(rows) = response.kind else {
            return Failure::operation("the query answered no rows");
        };
        match json {
            true => print_json(&rows, &mut printed, out)?,
            false => print_text(&rows, out)?,
        }
        if rows.paging_state.is_none() {
            break;
        }
        state = rows.paging_state;
    }
    if json { out.line("]") } else { Ok(()) }
}

/// The cells of a page, row by row; `None` is null.
fn cells(rows: &Rows) -> Vec<Vec<Option<&[u8]>>> {
    let mut cursor = stdx::Cursor::new(&rows.body);
    let mut cell = || {
        let length = cursor.i32("length of a cell").ok()?;
        let length = usize::try_from(length).ok()?;
        cursor.take(length, "a cell").ok()
    };
    let columns = rows.metadata.columns.len();
    (0..rows.row_count).map(|_| (0..columns).map(|_| cell()).collect()).collect()
}

fn print_json(rows: &Rows, printed: &mut u64, out: &mut Output) -> Result<(), Failure> {
    for row in cells(rows) {
        out.text(if *printed == 0 { "" } else { ",\n" })?;
        *printed += 1;
        for (index, (column, cell)) in rows.metadata.columns.iter().zip(row).enumerate() {
            out.text(if index == 0 { "{" } else { "," })?;
            out.text(&value::quote_json(&column.name))?;
            out.text(":")?;
            match cell {
                Some(bytes) => out.text(&value::to_json(&column.ty, bytes))?,
                None => out.text("null")?,
            }
        }
        out.text("}")?;
    }
    Ok(())
}

fn print_text(rows: &Rows, out: &mut Output) -> Result<(), Failure> {
    let columns = &rows.metadata.columns;
    let mut lines = Vec::with_capacity(rows.row_count as usize);
    for row in cells(rows) {
        let texts = columns.iter().zip(row).map(|(column, cell)| match cell {
            Some(bytes) => super::values::text(&column.ty, bytes),
            None => "null".to_string(),
        });
        lines.push(texts.collect::<Vec<String>>());
    }
    let chars = |text: &str| text.chars().count();
    let width = |index: usize| {
        let cells = lines.iter().map(|line| chars(&line[index]));
        cells.chain([chars(&columns[index].name)]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let names = columns.iter().zip(&widths).map(|(column, width)| {
        let (name, width) = (&column.name, *width);
        format!(" {name:<width$} ")
    });
    out.line(names.collect::<Vec<_>>().join("|").trim_end())?;
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    out.line(&rule.join("+"))?;
    for line in &lines {
        let texts = line.iter().zip(&widths).map(|(text, width)| {
            let width = *width;
            format!(" {text:>width$} ")
        });
        out.line(texts.collect::<Vec<_>>().join("|").trim_end())?;
    }
    Ok(())
}

/// Executes statements and writes what they made to one SSTable, or to several by `--memory-limit`.
async fn execute(
    job: &Job<'_>,
    temporary: &Temporary,
    statements: &[String],
    out: &mut Output,
) -> Result<(), Failure> {
    let processor = runtime::local::get::<Processor>();
    let session = Session::internal();
    let storage = runtime::local::get::<storage::Storage>();
    storage.set_auto_compaction(temporary.id, false);
    let mut made = Vec::new();
    for statement in statements {
        let parameters = Parameters::plain(Consistency::One);
        let answered = processor.query(&session, statement, &parameters).await;
        answered.map_err(|error| Failure::Operation(error.to_string()))?;
        let memory = storage.table_stats(temporary.id).unwrap_or_default().memtable_bytes;
        if job.options.memory_limit.is_some_and(|limit| limit <= memory) {
            gather(job, temporary, &mut made, out).await?;
        }
    }
    gather(job, temporary, &mut made, out).await?;
    match made.is_empty() {
        true => Failure::operation("the statements write nothing: nothing was written"),
        false => Ok(()),
    }
}

/// Writes what the table has got since the last time to one SSTable; `made` is what was seen.
async fn gather(
    job: &Job<'_>,
    temporary: &Temporary,
    made: &mut Vec<Descriptor>,
    out: &mut Output,
) -> Result<(), Failure> {
    let storage = runtime::local::get::<storage::Storage>();
    let flushed = storage.flush(temporary.id).await;
    flushed.map_err(|error| Failure::Operation(error.to_string()))?;
    let schema = &job.source.schema;
    let mut sources = Vec::new();
    for target in files::complete_in(&temporary.table_dir(schema)).await? {
        if !made.contains(&target.descriptor) {
            made.push(target.descriptor);
            let table = target.open(schema).await?;
            sources.push(files::read(&table, files::everything()));
        }
    }
    if sources.is_empty() {
        return Ok(());
    }
    let mut merged = merge(schema.clone(), Direction::Forward, sources);
    let target = rewrite::target(job, "write")?;
    let mut choose = |_: &model::DecoratedKey| Some(0);
    let written = sstable::scrub::distribute(&mut *merged, &target, 1, &mut choose).await?;
    for sealed in written.iter().flatten() {
        out.line(&sealed.descriptor.generation.to_string())?;
    }
    Ok(())
}
