//! Loading: files in order, chunks to shards, reports back in order, checkpoints.

use crate::bad::BadFile;
use crate::checkpoint::{Checkpoint, FileFacts};
use crate::csv::Fields;
use crate::feed::{Chunk, Feed, Position, Records, Wanted, is_plain};
use crate::ledger::Ledger;
use crate::plan::{Nulls, Plan, Policy, Statement, field_names};
use crate::progress::{Progress, State};
use crate::table::{Routing, Table};
use crate::values::Formats;
use crate::worker::{Limits, Report, Worker};
use crate::{Ended, Server};
use runtime::signal;
use runtime::sync::{Notify, Semaphore};
use runtime::task::{Either, Scope, race};
use runtime::time::{Instant, sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Chunks that a shard has at hand.
const CHUNKS_PER_SHARD: usize = 4;
/// Warnings of the server that are shown; it may have one for each batch.
const WARNINGS_MAX: u64 = 5;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

/// Whether the first record of a file names its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It does where all of its fields are columns of the table.
    Auto,
    Yes,
    No,
}

/// What is done with a checkpoint of an earlier load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It is refused to go on: somebody has to decide.
    Refuse,
    Resume,
    Forget,
}

/// What is loaded, and how.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) server: Server,
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) records: Records,
    pub(crate) header: Header,
    /// The columns of the fields; an empty name is a field that is left out.
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) skip: u64,
    pub(crate) records_max: Option<u64>,
    pub(crate) formats: Formats,
    pub(crate) nulls: Nulls,
    pub(crate) ttl_secs: Option<u32>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) batch_rows: Option<u16>,
    pub(crate) limits: Limits,
    pub(crate) threads: u16,
    pub(crate) errors_max: u64,
    pub(crate) bad: PathBuf,
    pub(crate) checkpoint: PathBuf,
    pub(crate) earlier: Earlier,
    pub(crate) is_quiet: bool,
}

/// Told when the process may end.
#[derive(Default)]
struct End(Notify);

/// Loads on shards of its own.
pub(crate) fn run(load: Load) -> Result<Ended, String> {
    let threads = load.threads;
    on_shards(threads, move || lead(load.clone()))
}

/// Runs shards; the first one leads, and when it has ended all of them end.
pub(crate) fn on_shards<T, F, Fut>(threads: u16, lead: F) -> Result<T, String>
where
    T: Send + 'static,
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, String>> + 'static,
{
    let mut config = runtime::Config::new(threads);
    config.idle_poll = Duration::ZERO;
    // Parsing and printing is what these shards are there for.
    config.stall_threshold = None;
    let (ended, told) = mpsc::channel();
    let lead = Arc::new(lead);
    runtime::run(config, move |shard| {
        let (lead, ended) = (lead.clone(), ended.clone());
        async move {
            if shard != 0 {
                return runtime::local::get_or_default::<End>().0.notified().await;
            }
            // Who started this waits for it.
            let _ = ended.send(lead().await);
            runtime::on_all_shards(|| async {
                runtime::local::clear::<Worker>();
                runtime::local::get_or_default::<End>().0.notify_one();
            })
            .await;
        }
    })
    .map_err(|error| error.to_string())?;
    told.recv().map_err(|error| error.to_string())?
}

async fn lead(load: Load) -> Result<Ended, String> {
    let prepared = Prepared::new(&load).await?;
    let run = Rc::new(Run::new(&load, prepared));
    run.start_workers(&load).await?;
    run.write_checkpoint().await?;
    let drawing = Scope::new();
    let drawn = run.clone();
    drawing.spawn(async move { drawn.draw().await });
    let ended = match race(signal::wait(), run.clone().pump()).await {
        Either::Left(_) => {
            run.stop.set(true);
            Err("interrupted".to_string())
        }
        Either::Right(ended) => ended,
    };
    run.tasks.join().await;
    let ended = run.settle().await.and(ended);
    drawing.cancel().await;
    run.finish(ended).await
}

/// What is known before the first row is sent.
struct Prepared {
    plan: Arc<Plan>,
    wanted: Wanted,
    header: Option<Vec<u8>>,
    start: Checkpoint,
}

impl Prepared {
    async fn new(load: &Load) -> Result<Prepared, String> {
        let pools = load.server.connect().await?;
        let Some(pool) = pools.first() else { return Err("no host".to_string()) };
        let table = Table::ask(pool, &load.keyspace, &load.table).await?;
        let routing = Routing::ask(pool, &table).await;
        let mut wanted = Wanted {
            files: load.files.clone(),
            records: load.records.clone(),
            has_header: false,
            types: Vec::new(),
            skip: load.skip,
            records_max: load.records_max,
        };
        let header = read_header(load, &mut wanted, &table).await?;
        let names = header.as_ref().map(|(_, names)| names.clone());
        let fields = field_names(&table, load.columns.as_deref(), names);
        let mut statement = Statement::new(&table, &fields, load.ttl_secs)?;
        statement.takes_some = load.columns.is_some();
        let prepared = pool.prepare(&statement.text).await;
        let prepared = prepared.map_err(|failure| format!("{}: {failure}", statement.text))?;
        let types = prepared.markers.iter().map(|marker| (marker.name.clone(), marker.ty.clone()));
        wanted.types = types.collect();
        let is_counter = statement.is_counter;
        let timestamp = load.timestamp.unwrap_or_else(wall_micros);
        let mut start = Checkpoint {
            statement: statement.text.clone(),
            files: facts(&load.files).await?,
            timestamp: (!is_counter).then_some(timestamp),
            position: Position::default(),
            rows: 0,
            errors: 0,
            bad_bytes: 0,
        };
        if let Some(earlier) = earlier(load, &start, is_counter).await? {
            start = earlier;
        }
        let plan = Plan {
            statement,
            prepared,
            records: load.records.clone(),
            formats: load.formats.clone(),
            nulls: load.nulls,
            consistency: load.server.consistency,
            timestamp: start.timestamp,
            policy: Policy::for_server(&routing, load.batch_rows),
            routing,
        };
        let header = header.map(|(bytes, _)| bytes);
        Ok(Prepared { plan: Arc::new(plan), wanted, header, start })
    }
}

/// The header of the first file and its names, where files have one.
async fn read_header(
    load: &Load,
    wanted: &mut Wanted,
    table: &Table,
) -> Result<Option<(Vec<u8>, Vec<String>)>, String> {
    let Records::Csv(dialect) = &load.records else { return Ok(None) };
    let may_look = load.files.first().is_some_and(|file| file != Path::new("-"));
    wanted.has_header = match load.header {
        Header::No => return Ok(None),
        Header::Yes => true,
        Header::Auto if may_look => true,
        Header::Auto => return Ok(None),
    };
    if !may_look {
        // What is piped cannot be read twice.
        return Err("the header of what is piped is not looked at: give --columns and \
                    --header no, with --skip 1"
            .to_string());
    }
    let mut feed = Feed::new(wanted.clone(), Position::default());
    let header = match feed.header().await {
        Err(_) if load.header == Header::Auto => None,
        header => header?,
    };
    let Some(header) = header else {
        wanted.has_header = false;
        return Ok(None);
    };
    let mut fields = Fields::default();
    dialect.fields(&header, &mut fields);
    let names = fields.texts(&header);
    let is_header = names.iter().all(|name| table.column(name).is_some());
    wanted.has_header = load.header == Header::Yes || is_header;
    Ok(wanted.has_header.then_some((header, names)))
}

async fn facts(files: &[PathBuf]) -> Result<Vec<FileFacts>, String> {
    let mut all = Vec::new();
    for path in files {
        let (mut bytes, mut modified_micros) = (0, 0);
        if path != Path::new("-") {
            let found = runtime::io::fs::metadata(path).await;
            let found = found.map_err(|error| error.to_string())?;
            if found.is_dir {
                return Err(format!(
                    "{}: a folder; how SSTables and snapshots are loaded is in docs/load.md",
                    path.display()
                ));
            }
            (bytes, modified_micros) = (found.len, found.modified_micros);
        }
        all.push(FileFacts { path: path.clone(), bytes, modified_micros });
    }
    Ok(all)
}

/// The load that this one continues.
async fn earlier(
    load: &Load,
    now: &Checkpoint,
    is_counter: bool,
) -> Result<Option<Checkpoint>, String> {
    let path = load.checkpoint.display();
    let found = match (load.earlier, load.limits.is_dry) {
        (Earlier::Forget, _) | (_, true) => return Ok(None),
        _ => Checkpoint::read(&load.checkpoint).await?,
    };
    match (found, load.earlier) {
        (None, Earlier::Resume) => Err(format!("{path}: there is no load to resume")),
        (None, _) => Ok(None),
        (Some(_), Earlier::Refuse) => Err(format!(
            "{path}: an earlier load was interrupted; --resume continues it, --restart forgets it"
        )),
        (Some(_), _) if is_counter => Err("a load of counters cannot be resumed: increments that \
                                          were sent before would be counted twice"
            .to_string()),
        (Some(_), _) if load.files.iter().any(|file| file == Path::new("-")) => {
            Err("what is piped cannot be resumed".to_string())
        }
        (Some(earlier), _) => match earlier.mismatch(now) {
            Some(what) => Err(format!("{path}: cannot resume: {what}")),
            None => Ok(Some(earlier)),
        },
    }
}

/// A load that goes on.
struct Run {
    plan: Arc<Plan>,
    ledger: RefCell<Ledger<Position, (usize, Report)>>,
    feed: RefCell<Option<Feed>>,
    start: Checkpoint,
    files: Vec<PathBuf>,
    /// Bytes of all files, where that says something of how far it is.
    total_bytes: Option<u64>,
    rows: Cell<u64>,
    errors: Cell<u64>,
    errors_max: u64,
    warnings: Cell<u64>,
    bad: RefCell<Option<BadFile>>,
    checkpoint: PathBuf,
    is_dry: bool,
    failed: RefCell<Option<String>>,
    /// No chunk is begun any more.
    stop: Cell<bool>,
    window: Semaphore,
    tasks: Scope,
    progress: RefCell<Progress>,
}

impl Run {
    fn new(load: &Load, prepared: Prepared) -> Run {
        let Prepared { plan, wanted, header, start } = prepared;
        let is_known = load.files.iter().all(|path| is_plain(path))
            && load.skip == 0
            && load.records_max.is_none();
        let bytes = || start.files.iter().map(|file| file.bytes).sum();
        Run {
            plan,
            ledger: RefCell::new(Ledger::new(start.position)),
            feed: RefCell::new(Some(Feed::new(wanted, start.position))),
            files: load.files.clone(),
            total_bytes: is_known.then(bytes),
            rows: Cell::new(start.rows),
            errors: Cell::new(start.errors),
            errors_max: load.errors_max,
            warnings: Cell::new(0),
            bad: RefCell::new(Some(BadFile::new(load.bad.clone(), header, start.bad_bytes))),
            checkpoint: load.checkpoint.clone(),
            is_dry: load.limits.is_dry,
            failed: RefCell::new(None),
            stop: Cell::new(false),
            window: Semaphore::new(CHUNKS_PER_SHARD * usize::from(load.threads), usize::MAX),
            tasks: Scope::new(),
            progress: RefCell::new(Progress::new(load.is_quiet, start.rows)),
            start,
        }
    }

    async fn start_workers(&self, load: &Load) -> Result<(), String> {
        let (server, plan) = (load.server.clone(), self.plan.clone());
        let shards = f64::from(runtime::shard_count());
        let limits = Limits { rate: load.limits.rate.map(|rate| rate / shards), ..load.limits };
        let started = runtime::on_all_shards(move || {
            let (server, plan) = (server.clone(), plan.clone());
            async move {
                let pools = server.connect().await?;
                runtime::local::set(Rc::new(Worker::new(plan, pools, limits)));
                Ok::<(), String>(())
            }
        });
        started.await.into_iter().collect()
    }

    /// Reads files and hands chunks out, until the end or until something is wrong.
    async fn pump(self: Rc<Self>) -> Result<(), String> {
        let feed = self.feed.borrow_mut().take();
        let Some(mut feed) = feed else { return Ok(()) };
        let mut saved = Instant::now();
        let mut next_shard = 0;
        loop {
            let Ok(permit) = self.window.acquire(1).await else { return Ok(()) };
            self.settle().await?;
            if CHECKPOINT_EVERY < saved.elapsed() {
                self.write_checkpoint().await?;
                saved = Instant::now();
            }
            if self.stop.get() || self.failed.borrow().is_some() {
                return Ok(());
            }
            let Some(chunk) = feed.next().await? else { return Ok(()) };
            let run = self.clone();
            let shard = next_shard;
            next_shard = (next_shard + 1) % runtime::shard_count();
            let number = self.ledger.borrow_mut().begin(chunk.end);
            self.tasks.spawn(async move {
                run.load(shard, number, chunk).await;
                drop(permit);
            });
        }
    }

    async fn load(&self, shard: u16, number: u64, chunk: Chunk) {
        let file = chunk.start.file;
        let work = move || async move { runtime::local::get::<Worker>().load(chunk).await };
        match runtime::on_shard(shard, work).await {
            Ok(report) => self.ledger.borrow_mut().end(number, (file, report)),
            Err(why) => {
                self.failed.borrow_mut().get_or_insert(why);
            }
        }
    }

    /// Takes what has ended, in order (*resume-exact*).
    async fn settle(&self) -> Result<(), String> {
        loop {
            let passed = self.ledger.borrow_mut().pass();
            let Some((file, report)) = passed else { break };
            self.rows.set(self.rows.get() + report.rows);
            self.errors.set(self.errors.get() + report.bad.len() as u64);
            for warning in &report.warnings {
                if WARNINGS_MAX <= self.warnings.replace(self.warnings.get() + 1) {
                    break;
                }
                self.progress.borrow().say(&format!("the server warns: {warning}"));
            }
            let bad = self.bad.borrow_mut().take();
            let Some(mut bad) = bad else { break };
            let printed = match self.is_dry {
                true => Ok(dry_lines(&self.files[file], &report)),
                false => bad.append(&self.files[file], &report.bad).await,
            };
            self.bad.replace(Some(bad));
            for line in printed? {
                self.progress.borrow().say(&line);
            }
        }
        if self.errors_max < self.errors.get() {
            self.stop.set(true);
            return Err(format!("more than {} bad rows (--max-errors)", self.errors_max));
        }
        match &*self.failed.borrow() {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    fn present(&self) -> Checkpoint {
        let position = self.ledger.borrow().position();
        let bad_bytes = self.bad.borrow().as_ref().map_or(0, |bad| bad.bytes);
        let (rows, errors) = (self.rows.get(), self.errors.get());
        Checkpoint { position, rows, errors, bad_bytes, ..self.start.clone() }
    }

    async fn write_checkpoint(&self) -> Result<(), String> {
        match self.is_dry {
            true => Ok(()),
            false => self.present().write(&self.checkpoint).await,
        }
    }

    /// Draws how it goes, until it is told to stop.
    async fn draw(&self) {
        let interval = self.progress.borrow().interval();
        loop {
            sleep(interval).await;
            let acknowledged = runtime::on_all_shards(|| async {
                runtime::local::try_get::<Worker>().map_or(0, |worker| worker.rows.get())
            });
            let rows = self.start.rows + acknowledged.await.into_iter().sum::<u64>();
            let state = State { rows, ..self.state() };
            self.progress.borrow_mut().show(state);
        }
    }

    fn state(&self) -> State {
        let at = self.ledger.borrow().position();
        let fraction = self.total_bytes.filter(|total| 0 < *total).map(|total| {
            let before: u64 = self.start.files.iter().take(at.file).map(|file| file.bytes).sum();
            (before + at.offset) as f64 / total as f64
        });
        State { rows: self.rows.get(), errors: self.errors.get(), fraction }
    }

    /// Says how it ended, and leaves a checkpoint where it did not end whole.
    async fn finish(&self, ended: Result<(), String>) -> Result<Ended, String> {
        let verb = if self.is_dry { "checked" } else { "loaded" };
        self.progress.borrow().end(self.state(), verb);
        let errors = self.errors.get();
        if 0 < errors && !self.is_dry {
            let bad = self.bad.borrow();
            let path = bad.as_ref().map(|bad| bad.path().display().to_string());
            let path = path.unwrap_or_default();
            self.progress.borrow().say(&format!("bad rows are in {path}, reasons in {path}.log"));
        }
        if let Err(why) = ended {
            if self.is_dry {
                return Err(why);
            }
            self.write_checkpoint().await?;
            let path = self.checkpoint.display();
            return Err(format!("{why}\nthe same command with --resume continues ({path})"));
        }
        if !self.is_dry {
            let removed = runtime::io::fs::remove_file(&self.checkpoint).await;
            removed.map_err(|error| error.to_string())?;
        }
        Ok(if errors == 0 { Ended::Whole } else { Ended::WithErrors })
    }
}

fn dry_lines(file: &Path, report: &Report) -> Vec<String> {
    let line = |row: &crate::worker::BadRow| {
        let column = row.column.map_or_else(String::new, |column| format!(":{column}"));
        format!("{}:{}{column}: {}", file.display(), row.line, row.why)
    };
    report.bad.iter().map(line).collect()
}
