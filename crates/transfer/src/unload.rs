//! Unloading: token ranges of a table, or the pages of a statement, to a file.
//!
//! Invariants
//!  - *each-once*: the ranges cover the ring and do not overlap; a page that fails is asked for
//!    again by its paging state, and only whole pages are written.
//!  - *bounded*: at most so many ranges are read at once, and [`WAITING_MAX`] pages wait to be
//!    written.

use crate::feed::Records;
use crate::load::on_shards;
use crate::progress::{Progress, State};
use crate::table::{Routing, Table};
use crate::values::{self, Formats};
use crate::{Ended, Server};
use client::request::Page;
use client::{Column, Failure, Pool, Rows};
use model::token::slot_range;
use model::types::quote_identifier;
use model::value::quote_json;
use model::{Token, Type};
use runtime::signal;
use runtime::sync::{Receiver, Sender, channel};
use runtime::task::{Either, Scope, race, yield_if_needed};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// *bounded*
const WAITING_MAX: usize = 4;
const SPLITS_MIN: u32 = 64;
const BACKOFF: Duration = Duration::from_millis(200);

/// What a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text(Records),
    Parquet,
}

/// What is written at once.
enum Piece {
    Text(Vec<u8>),
    /// So many rows of a page.
    Rows(Rows, usize),
}

/// What is unloaded, and how.
#[derive(Clone, Debug)]
pub(crate) struct Unload {
    pub(crate) server: Server,
    pub(crate) table: Option<(String, String)>,
    pub(crate) query: Option<String>,
    pub(crate) condition: Option<String>,
    pub(crate) form: Form,
    pub(crate) file: PathBuf,
    pub(crate) has_header: bool,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) formats: Formats,
    pub(crate) rows_max: Option<u64>,
    pub(crate) splits: Option<u32>,
    pub(crate) concurrency: usize,
    pub(crate) page_rows: u32,
    pub(crate) retry_for: Duration,
    pub(crate) is_quiet: bool,
}

/// Unloads on a shard of its own.
pub(crate) fn run(unload: Unload) -> Result<Ended, String> {
    on_shards(1, move || lead(unload.clone()))
}

async fn lead(unload: Unload) -> Result<Ended, String> {
    let mut pools = unload.server.connect().await?;
    if pools.is_empty() {
        return Err("no host".to_string());
    }
    let pool = pools.swap_remove(0);
    let parts = parts(&unload, &pool).await?;
    let total = parts.len();
    let (sender, receiver) = channel(WAITING_MAX);
    let run = Rc::new(Run {
        pool,
        parts: RefCell::new(parts),
        total,
        done: Cell::new(0),
        rows: Cell::new(0),
        has_begun: Cell::new(false),
        failed: RefCell::new(None),
        progress: RefCell::new(Progress::new(unload.is_quiet, 0)),
        unload,
    });
    let (readers, drawing) = (Scope::new(), Scope::new());
    for _ in 0..run.unload.concurrency.min(total) {
        let (run, sender) = (run.clone(), sender.clone());
        readers.spawn(async move { run.read_parts(&sender).await });
    }
    drop(sender);
    let drawn = run.clone();
    drawing.spawn(async move { drawn.draw().await });
    let output = Output::create(&run.unload.file, &run.unload.form)?;
    let written = race(signal::wait(), write_all(output, receiver)).await;
    readers.cancel().await;
    drawing.cancel().await;
    run.progress.borrow().end(run.state(), "written");
    match written {
        Either::Left(_) => Err("interrupted".to_string()),
        Either::Right(written) => {
            written?;
            run.failed.take().map_or(Ok(Ended::Whole), Err)
        }
    }
}

/// A statement and the shard that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    text: String,
    shard: u32,
}

/// The statements that give all rows, the first one last.
async fn parts(unload: &Unload, pool: &Pool) -> Result<Vec<Part>, String> {
    if let Some(text) = &unload.query {
        return Ok(vec![Part { text: text.clone(), shard: 0 }]);
    }
    let Some((keyspace, name)) = &unload.table else { return Err("no table".to_string()) };
    let table = Table::ask(pool, keyspace, name).await?;
    let routing = Routing::ask(pool, &table).await;
    let names = match &unload.columns {
        None => table.columns.iter().map(|column| quote_identifier(&column.name)).collect(),
        Some(given) => given
            .iter()
            .map(|name| match table.column(name) {
                Some(column) => Ok(quote_identifier(&column.name)),
                None => Err(format!("{} has no column {name}", table.cql())),
            })
            .collect::<Result<Vec<_>, _>>()?,
    };
    let select = format!("SELECT {} FROM {}", names.join(", "), table.cql());
    let condition = unload.condition.as_ref();
    let condition =
        condition.map_or_else(String::new, |text| format!(" AND {text} ALLOW FILTERING"));
    let shards = routing.shards();
    let splits = unload.splits.unwrap_or_else(|| SPLITS_MIN.next_multiple_of(shards));
    let token = format!("token({})", table.key_names().join(", "));
    let parts = (0..splits).rev().map(|index| {
        let (after, last) = slot_range(index, splits);
        Part {
            text: format!(
                "{select} WHERE {token} > {} AND {token} <= {}{condition}",
                after.0, last.0
            ),
            shard: routing.shard_of(middle(after, last)),
        }
    });
    Ok(parts.collect())
}

fn middle(after: Token, last: Token) -> Token {
    after.midpoint(last)
}

struct Run {
    unload: Unload,
    pool: Pool,
    /// Those that nobody has begun.
    parts: RefCell<Vec<Part>>,
    total: usize,
    done: Cell<usize>,
    rows: Cell<u64>,
    /// Whether the header was written.
    has_begun: Cell<bool>,
    failed: RefCell<Option<String>>,
    progress: RefCell<Progress>,
}

impl Run {
    async fn read_parts(&self, sender: &Sender<Piece>) {
        loop {
            let part = self.parts.borrow_mut().pop();
            let Some(part) = part else { return };
            if let Err(why) = self.read(&part, sender).await {
                self.failed.borrow_mut().get_or_insert(why);
                self.parts.borrow_mut().clear();
            }
            self.done.set(self.done.get() + 1);
        }
    }

    /// Reads a part, page by page (*each-once*).
    async fn read(&self, part: &Part, sender: &Sender<Piece>) -> Result<(), String> {
        let mut state: Option<Vec<u8>> = None;
        loop {
            let rows = self.insist(part, state.as_deref()).await?;
            let more = rows.more.clone();
            let piece = match self.unload.form {
                Form::Text(_) => Piece::Text(self.format(&rows).await?),
                Form::Parquet => {
                    let max = self.unload.rows_max.unwrap_or(u64::MAX);
                    let left = usize::try_from(max - self.rows.get()).unwrap_or(usize::MAX);
                    let count = rows.row_count.min(left);
                    self.rows.set(self.rows.get() + count as u64);
                    Piece::Rows(rows, count)
                }
            };
            if sender.send(piece).await.is_err() {
                return Ok(()); // Who writes has said why.
            }
            let is_enough = self.unload.rows_max.is_some_and(|max| max <= self.rows.get());
            if is_enough {
                self.parts.borrow_mut().clear();
                return Ok(());
            }
            match more {
                Some(next) => state = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn insist(&self, part: &Part, state: Option<&[u8]>) -> Result<Rows, String> {
        let mut first_failure = None;
        loop {
            let failure = match self.page(part, state).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            let since = *first_failure.get_or_insert_with(Instant::now);
            if !failure.may_pass() || self.unload.retry_for < since.elapsed() {
                return Err(format!("{}: {failure}", part.text));
            }
            sleep(BACKOFF).await;
        }
    }

    async fn page(&self, part: &Part, state: Option<&[u8]>) -> Result<Rows, Failure> {
        let connection = self.pool.connection(part.shard).await?;
        let page = Page { rows: self.unload.page_rows as i32, state };
        let consistency = self.unload.server.consistency;
        connection.page(self.pool.target(), &part.text, consistency, page).await
    }

    /// The text of a page, with the header where it is the first.
    async fn format(&self, rows: &Rows) -> Result<Vec<u8>, String> {
        yield_if_needed().await;
        let mut out = Vec::new();
        if !self.has_begun.replace(true) {
            self.put_header(&rows.columns, &mut out);
        }
        let mut text = String::new();
        let walked = rows.for_each(|cells| {
            let is_enough = self.unload.rows_max.is_some_and(|max| max <= self.rows.get());
            if !is_enough {
                self.put_row(&rows.columns, cells, &mut text, &mut out);
                self.rows.set(self.rows.get() + 1);
            }
            Ok::<(), stdx::Damaged>(())
        });
        walked.map_err(|damaged| damaged.to_string())?;
        Ok(out)
    }

    fn put_header(&self, columns: &[Column], out: &mut Vec<u8>) {
        let Form::Text(Records::Csv(dialect)) = &self.unload.form else { return };
        if !self.unload.has_header {
            return;
        }
        for (index, column) in columns.iter().enumerate() {
            if index != 0 {
                out.push(dialect.delimiter);
            }
            dialect.write(column.name.as_bytes(), false, out);
        }
        out.push(b'\n');
    }

    fn put_row(
        &self,
        columns: &[Column],
        cells: &[Option<&[u8]>],
        text: &mut String,
        out: &mut Vec<u8>,
    ) {
        match &self.unload.form {
            Form::Text(Records::Csv(dialect)) => {
                for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
                    if index != 0 {
                        out.push(dialect.delimiter);
                    }
                    let Some(bytes) = cell else {
                        out.extend_from_slice(self.unload.formats.null.as_bytes());
                        continue;
                    };
                    text.clear();
                    values::print(&column.ty, bytes, &self.unload.formats, text);
                    // What is no null must not look like one.
                    let is_text = matches!(column.ty, Type::Text | Type::Ascii);
                    let looks_null = is_text && *text == self.unload.formats.null;
                    dialect.write(text.as_bytes(), looks_null, out);
                }
            }
            _ => {
                text.clear();
                for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
                    text.push_str(if index == 0 { "{" } else { ", " });
                    text.push_str(&quote_json(&column.name));
                    text.push_str(": ");
                    crate::json::print(&column.ty, *cell, text);
                }
                text.push('}');
                out.extend_from_slice(text.as_bytes());
            }
        }
        out.push(b'\n');
    }

    async fn draw(&self) {
        let interval = self.progress.borrow().interval();
        loop {
            sleep(interval).await;
            self.progress.borrow_mut().show(self.state());
        }
    }

    fn state(&self) -> State {
        let fraction = (1 < self.total).then(|| self.done.get() as f64 / self.total as f64);
        State { rows: self.rows.get(), errors: 0, fraction }
    }
}

/// Where rows go. Written by a helper thread: it may be a pipe, or compress.
struct Output(Option<Box<dyn Sink + Send>>);

/// Takes what is written, and has to know of its end.
trait Sink {
    fn put(&mut self, piece: &Piece) -> std::io::Result<()>;
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}

/// Text, compressed or not.
struct Text<W>(W);

/// The end of a stream of text.
trait Finish: Write {
    fn finish(self) -> std::io::Result<()>;
}

impl<W: Finish> Sink for Text<W> {
    fn put(&mut self, piece: &Piece) -> std::io::Result<()> {
        let Piece::Text(bytes) = piece else { unreachable!("rows go to a file of rows") };
        self.0.write_all(bytes)
    }
    fn finish(self: Box<Self>) -> std::io::Result<()> {
        self.0.finish()
    }
}

impl Sink for crate::parquet::Writer {
    fn put(&mut self, piece: &Piece) -> std::io::Result<()> {
        let Piece::Rows(rows, count) = piece else { unreachable!("text goes to a file of text") };
        crate::parquet::Writer::put(self, rows, *count)
    }
    fn finish(self: Box<Self>) -> std::io::Result<()> {
        crate::parquet::Writer::finish(*self)
    }
}

impl Finish for std::fs::File {
    fn finish(self) -> std::io::Result<()> {
        self.sync_all()
    }
}

impl Finish for std::io::Stdout {
    fn finish(mut self) -> std::io::Result<()> {
        self.flush()
    }
}

impl Finish for flate2::write::GzEncoder<std::fs::File> {
    fn finish(self) -> std::io::Result<()> {
        flate2::write::GzEncoder::finish(self)?.sync_all()
    }
}

impl Finish for zstd::Encoder<'static, std::fs::File> {
    fn finish(self) -> std::io::Result<()> {
        zstd::Encoder::finish(self)?.sync_all()
    }
}

impl Output {
    #[allow(clippy::disallowed_methods, reason = "written by a helper thread")]
    fn create(path: &Path, form: &Form) -> Result<Output, String> {
        if path == Path::new("-") {
            return match form {
                Form::Text(_) => Ok(Output(Some(Box::new(Text(std::io::stdout()))))),
                Form::Parquet => Err("a Parquet file cannot be written to a pipe".to_string()),
            };
        }
        let error = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::create(path).map_err(error)?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let output: Box<dyn Sink + Send> = match (form, extension) {
            (Form::Parquet, _) => Box::new(crate::parquet::Writer::new(file)),
            (_, Some("gz")) => {
                let level = flate2::Compression::default();
                Box::new(Text(flate2::write::GzEncoder::new(file, level)))
            }
            (_, Some("zst")) => Box::new(Text(zstd::Encoder::new(file, 0).map_err(error)?)),
            _ => Box::new(Text(file)),
        };
        Ok(Output(Some(output)))
    }

    async fn write(&mut self, piece: Piece) -> Result<(), String> {
        let Some(mut inner) = self.0.take() else { return Err("the output is closed".into()) };
        let work = move || (inner.put(&piece), inner);
        let (written, inner) = runtime::task::compute(work).await;
        self.0 = Some(inner);
        written.map_err(|error| format!("the output cannot be written: {error}"))
    }

    async fn finish(&mut self) -> Result<(), String> {
        let Some(inner) = self.0.take() else { return Ok(()) };
        let finished = runtime::task::compute(move || inner.finish()).await;
        finished.map_err(|error| format!("the output cannot be written: {error}"))
    }
}

async fn write_all(mut output: Output, mut pages: Receiver<Piece>) -> Result<(), String> {
    while let Some(page) = pages.recv().await {
        output.write(page).await?;
    }
    output.finish().await
}
