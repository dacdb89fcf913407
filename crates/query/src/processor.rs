//! The processor of one shard: the statements that it has analysed, and what their executions need.
//!
//! What it does with them is in the modules above it: `execution`, `prefetch`, `routing`.

use crate::audit::Audit;
use crate::cache::{Cache, CacheStats, Unprepared};
use crate::config::Config;
use crate::error::CqlError;
use crate::hashing::Hashing;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::prepared::{Prepared, statement_id};
use crate::request::{Request, Scratch, Warnings};
use crate::session::Session;
use crate::timeouts::Timeouts;
use crate::timestamps::Timestamps;
use crate::trace::{Cause, Trace, Writes};
use cluster::{Cluster, Settings, TraceRules};
use functions::udf::wasm;
use functions::{Engine, Uuids};
use model::Uuid;
use model::schema::UserFunction;
use plan::markers::Dialect;
use plan::values::Value;
use plan::{Draft, Statement, Steps};
use replication::Coordinator;
use runtime::Erased;
use runtime::task::{compute, yield_if_needed};
use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Longer texts are parsed on a helper thread, and the shard is yielded before larger results are
/// copied into the response.
pub(crate) const AT_ONCE_BYTES: usize = 16 << 10;

/// Understands and executes the statements of one shard. Lives in `runtime::local`.
pub struct Processor {
    config: Config,
    options: Rc<Options>,
    cluster: Rc<Cluster>,
    coordinator: Rc<Coordinator>,
    uuids: Uuids,
    timestamps: Timestamps,
    /// Mutations are put together here.
    scratch: Scratch,
    prepared: RefCell<Cache<[u8; 16], Rc<Prepared>>>,
    unprepared: RefCell<Unprepared>,
    settings: Rc<Settings>,
    timeouts: Timeouts,
    traces: Writes,
    trace_rules: Rc<TraceRules>,
    hashing: Hashing,
    /// Where clients are written about.
    audit: OnceCell<Rc<Audit>>,
}

impl Processor {
    /// A processor; `cluster::Cluster` and `replication::Coordinator` must be in this shard's
    /// `runtime::local`, and it must be put there itself (see [`Processor::start`]).
    pub fn new(config: Config) -> Rc<Processor> {
        let prepared = RefCell::new(Cache::new(config.prepared_bytes_max));
        Rc::new(Processor {
            config,
            options: Options::of_shard(),
            cluster: runtime::local::get::<Cluster>(),
            coordinator: runtime::local::get::<Coordinator>(),
            uuids: Uuids::new(runtime::random_u64()),
            timestamps: Timestamps::new(),
            scratch: Scratch::default(),
            prepared,
            unprepared: RefCell::new(Unprepared::new(config.unprepared_bytes_max)),
            settings: Settings::of_shard(),
            timeouts: Timeouts::registered(&Settings::of_shard(), &config),
            traces: Writes::new(),
            trace_rules: TraceRules::of_shard(),
            hashing: Hashing::new(),
            audit: OnceCell::new(),
        })
    }

    /// A processor on every shard, in `runtime::local`.
    pub fn start(config: Config) -> Erased<'static, ()> {
        let start = move || async move {
            runtime::local::set(Rc::new(Engine::new(config.functions)));
            runtime::local::set(Processor::new(config));
        };
        Erased::new(move || async move { drop(runtime::on_all_shards(start).await) })
    }

    /// Takes the processors out again.
    pub fn stop() -> Erased<'static, ()> {
        let stop = || async {
            runtime::local::clear::<Processor>();
            runtime::local::clear::<Engine>();
        };
        Erased::new(move || async move { drop(runtime::on_all_shards(stop).await) })
    }

    /// The options that statements depend on.
    #[inline]
    pub fn options(&self) -> &Rc<Options> {
        &self.options
    }

    /// How long requests may take.
    #[inline]
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The registry that it asks for the schema.
    #[inline]
    pub fn cluster(&self) -> &Rc<Cluster> {
        &self.cluster
    }

    /// The audit log, if there is one.
    #[inline]
    pub fn audit(&self) -> Option<&Rc<Audit>> {
        self.audit.get()
    }

    /// Begins the audit log; later ones change nothing.
    pub(crate) fn set_audit(&self, audit: Rc<Audit>) {
        let _ = self.audit.set(audit);
    }

    /// The source of UUIDs.
    #[inline]
    pub(crate) fn uuids(&self) -> &Uuids {
        &self.uuids
    }

    /// A timeuuid of that time.
    pub(crate) fn timeuuid(&self, micros: i64) -> Uuid {
        self.uuids.timeuuid(micros)
    }

    /// The statement of an unprepared text.
    pub(crate) fn analyzed(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Statement>, CqlError> {
        let schema = self.cluster.schema();
        let changes = self.settings.changes();
        let mut unprepared = self.unprepared.borrow_mut();
        if let Some(statement) = unprepared.get((text, keyspace), schema.version, changes) {
            return Ok(statement);
        }
        let statement =
            Rc::new(Statement::analyze(&schema, text, keyspace, &self.options.analysis)?);
        unprepared.offer(&statement);
        Ok(statement)
    }

    /// The same, of a long text, which is not kept.
    pub(crate) async fn analyzed_slowly(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Statement>, CqlError> {
        let (own, dialect) = (text.to_owned(), Dialect::of(&self.options.analysis));
        let draft = compute(move || Draft::parse(&own, dialect)).await?;
        let schema = self.cluster.schema();
        let mut steps = Steps::begin(&schema, (text, draft), keyspace, &self.options.analysis)?;
        loop {
            yield_if_needed().await;
            steps = match steps.next()? {
                ControlFlow::Break(statement) => return Ok(Rc::new(statement)),
                ControlFlow::Continue(left) => left,
            };
        }
    }

    /// What is kept of prepared statements, and of those that are executed by their text.
    pub fn cache_stats(&self) -> [CacheStats; 2] {
        [self.prepared.borrow().stats(), self.unprepared.borrow().stats()]
    }

    /// Counts of users' functions in WebAssembly.
    pub fn function_stats(&self) -> wasm::Stats {
        runtime::local::try_get::<Engine>().map(|engine| engine.stats()).unwrap_or_default()
    }

    /// Prepares a statement on every shard. `keyspace` (version 5) takes precedence over the
    /// session's.
    pub fn prepare<'a>(
        &'a self,
        session: &'a Session,
        text: &'a str,
        keyspace: Option<&'a str>,
        trace: Option<&'a Trace>,
    ) -> Erased<'a, Result<Rc<Prepared>, CqlError>> {
        Erased::new(move || self.prepare_everywhere(session, text, keyspace, trace))
    }

    async fn prepare_everywhere(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
        trace: Option<&Trace>,
    ) -> Result<Rc<Prepared>, CqlError> {
        let note = |activity: &str| {
            trace.iter().for_each(|trace| trace.event(&self.uuids, || activity.to_owned()));
        };
        let keyspace = effective_keyspace(session, keyspace);
        note("Preparing a statement");
        let prepared = self.prepare_here(text, keyspace.as_deref()).await?;
        trace.iter().for_each(|trace| trace.statement(&prepared.as_analysed()));
        note("Preparing it on the other shards");
        let (text, keyspace) = (text.to_owned(), keyspace.as_deref().map(str::to_owned));
        runtime::on_all_shards(move || async move {
            let processor = runtime::local::get::<Processor>();
            // It was analysed once; a shard that does not have the schema yet is asked again.
            let _ = processor.prepare_here(&text, keyspace.as_deref()).await;
        })
        .await;
        note("The statement is prepared");
        Ok(prepared)
    }

    /// The statement that was prepared with this id; `None`: answer `CqlError::Unprepared`.
    pub fn prepared(&self, id: &[u8]) -> Option<Rc<Prepared>> {
        let id: &[u8; 16] = id.try_into().ok()?;
        self.prepared.borrow_mut().get(id)
    }

    /// The same; nothing is counted.
    pub(crate) fn peek(&self, id: &[u8; 16]) -> Option<Rc<Prepared>> {
        self.prepared.borrow().peek(id)
    }

    /// Takes reads and writes to where the data is.
    #[inline]
    pub(crate) fn coordinator(&self) -> &Rc<Coordinator> {
        &self.coordinator
    }

    /// Where passwords are hashed.
    pub(crate) fn hashing(&self) -> &Hashing {
        &self.hashing
    }

    /// Why a request is traced without its client's asking, if it is.
    #[inline]
    pub fn traces_unasked(&self) -> Option<Cause> {
        let rules = &*self.trace_rules;
        if !rules.any() {
            return None;
        }
        let slow = rules.slow();
        match rules.draws() {
            true => Some(Cause::Drawn),
            false if slow.enabled => Some(Cause::MayBeSlow(slow)),
            false => rules.counts().then_some(Cause::Counted),
        }
    }

    /// The traces that are being written.
    pub(crate) fn trace_writes(&self) -> &Writes {
        &self.traces
    }

    /// The rules of [`Processor::traces_unasked`].
    pub(crate) fn trace_rules(&self) -> &TraceRules {
        &self.trace_rules
    }

    /// Begins the trace of a request, to be given to it with its parameters.
    pub fn begin_trace(&self, session: &Session, cause: Cause) -> Trace {
        let (client, user) = (session.client.map(|it| it.ip()), session.user.borrow().clone());
        self.begin_trace_of(client, user, cause)
    }

    /// The same of a request of another protocol.
    pub fn begin_trace_of(
        &self,
        client: Option<IpAddr>,
        user: Option<String>,
        cause: Cause,
    ) -> Trace {
        Trace::begin((client, user), &self.uuids, cause)
    }

    /// An event of such a request.
    pub fn trace_event(&self, trace: &Trace, activity: impl FnOnce() -> String) {
        trace.event(&self.uuids, activity);
    }

    /// An event of the trace, if there is one.
    pub(crate) fn note(&self, parameters: &Parameters<'_>, activity: impl FnOnce() -> String) {
        if let Some(trace) = parameters.trace {
            trace.event(&self.uuids, activity);
        }
    }

    /// Prepares a statement on this shard; what takes long of a long text is done aside.
    async fn prepare_here(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Prepared>, CqlError> {
        if text.len() <= AT_ONCE_BYTES {
            return self.prepare_at_once(text, keyspace);
        }
        let (own, of_keyspace) = (text.to_owned(), keyspace.map(str::to_owned));
        let id = compute(move || statement_id(of_keyspace.as_deref(), &own)).await;
        match self.kept(&id) {
            Some(prepared) => Ok(prepared),
            None => Ok(self.keep(id, &self.analyzed_slowly(text, keyspace).await?)),
        }
    }

    fn prepare_at_once(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Prepared>, CqlError> {
        let id = statement_id(keyspace, text);
        if let Some(prepared) = self.kept(&id) {
            return Ok(prepared);
        }
        let schema = self.cluster.schema();
        let statement = Statement::analyze(&schema, text, keyspace, &self.options.analysis)?;
        Ok(self.keep(id, &Rc::new(statement)))
    }

    /// The statement of that id, if it is prepared and its analysis still holds.
    fn kept(&self, id: &[u8; 16]) -> Option<Rc<Prepared>> {
        let prepared = self.prepared(id)?;
        let present = prepared.present(&self.cluster.schema())?;
        (present.dialect == Dialect::of(&self.options.analysis)).then_some(prepared)
    }

    /// The statement of that id as it was analysed now.
    fn keep(&self, id: [u8; 16], statement: &Rc<Statement>) -> Rc<Prepared> {
        if let Some(prepared) = self.peek(&id)
            && prepared.as_analysed().dialect == statement.dialect
        {
            prepared.renew(statement);
            return prepared;
        }
        self.options.met.tally.prepared.add(1);
        let prepared = Rc::new(Prepared::new(id, statement.clone()));
        self.prepared.borrow_mut().insert(id, prepared.clone(), statement.size_bytes());
        prepared
    }

    /// A prepared statement whose schema has changed.
    pub(crate) async fn renewed(&self, prepared: &Prepared) -> Result<Rc<Statement>, CqlError> {
        let before = prepared.as_analysed();
        let (text, keyspace) = (&*before.text, before.keyspace.as_deref());
        let statement = match text.len() <= AT_ONCE_BYTES {
            true => {
                let schema = self.cluster.schema();
                Rc::new(Statement::analyze(&schema, text, keyspace, &self.options.analysis)?)
            }
            false => self.analyzed_slowly(text, keyspace).await?,
        };
        prepared.renew(&statement);
        Ok(statement)
    }

    /// A statement by its text, for work that came from another shard.
    pub(crate) async fn statement(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Statement>, CqlError> {
        let prepared = match text.len() <= AT_ONCE_BYTES {
            true => self.prepare_at_once(text, keyspace)?,
            false => Box::pin(self.prepare_here(text, keyspace)).await?,
        };
        Ok(prepared.as_analysed())
    }

    /// What an execution needs.
    pub(crate) fn request<'a>(
        &'a self,
        values: &'a [Value<'a>],
        parameters: &'a Parameters<'a>,
        warnings: &'a Warnings,
        now_micros: i64,
    ) -> Request<'a> {
        Request {
            values,
            parameters,
            now_micros,
            timeouts: &self.timeouts,
            options: &self.options,
            uuids: &self.uuids,
            timestamps: &self.timestamps,
            scratch: &self.scratch,
            coordinator: &self.coordinator,
            timeout: None,
            warnings,
            calls: None,
        }
    }

    /// Refuses a function that cannot be called.
    pub(crate) async fn check_function(&self, function: &UserFunction) -> Result<(), CqlError> {
        if !self.config.functions.enabled {
            return Err(CqlError::invalid(
                "User defined functions are disabled. Set enable_user_defined_functions to enable \
                 them",
            ));
        }
        Ok(runtime::local::get::<Engine>().check(function).await?)
    }

    /// A write timestamp of now, microseconds.
    pub fn timestamp(&self) -> i64 {
        self.timestamps.next(runtime::time::wall_micros())
    }
}

pub(crate) fn effective_keyspace(session: &Session, given: Option<&str>) -> Option<Rc<str>> {
    given.map(Rc::from).or_else(|| session.keyspace())
}
