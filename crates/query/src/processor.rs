//! The processor of one shard: statements in, answers out.

use crate::access::{self, login};
use crate::audit::Audit;
use crate::batch;
use crate::cache::{Cache, CacheStats, Unprepared};
use crate::error::CqlError;
use crate::options::Options;
use crate::parameters::{Parameters, Value, Values};
use crate::prepared::{Prepared, statement_id};
use crate::request::{IfNull, Request, Scratch, Warnings, integer, timeout};
use crate::response::{Response, ResponseKind};
use crate::session::Session;
use crate::statement::{Dialect, Draft, Plan, Statement};
use crate::timeouts::Timeouts;
use crate::timestamps::Timestamps;
use crate::trace::{self, Cause, Trace, Traced};
use crate::{ddl, describe, modify, select};
use cluster::{Cluster, Settings, TableEntry, TableKind, TraceRules};
use functions::udf::wasm;
use functions::{Calls, Engine, Uuids};
use model::Uuid;
use model::schema::UserFunction;
use replication::{Coordinator, WriteError};
use runtime::task::{compute, yield_if_needed};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use syntax::ast;

/// Longer texts are parsed on a helper thread, and the shard is yielded before larger results are
/// copied into the response.
const AT_ONCE_BYTES: usize = 16 << 10;

/// The processor's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A read of one partition.
    pub read_timeout: Duration,
    /// A read of a token range.
    pub range_read_timeout: Duration,
    /// A write.
    pub write_timeout: Duration,
    /// An increment of counters.
    pub counter_write_timeout: Duration,
    /// A lightweight transaction.
    pub cas_timeout: Duration,
    /// A truncate.
    pub truncate_timeout: Duration,
    /// Bytes of prepared statements kept on this shard.
    pub prepared_bytes_max: usize,
    /// Bytes of cached statements that are executed repeatedly as text.
    pub unprepared_bytes_max: usize,
    /// Functions of users.
    pub functions: functions::Limits,
}

impl Config {
    /// The settings of a node whose options say nothing else.
    pub const fn standard() -> Config {
        Config {
            read_timeout: Duration::from_millis(5_000),
            range_read_timeout: Duration::from_millis(10_000),
            write_timeout: Duration::from_millis(2_000),
            counter_write_timeout: Duration::from_millis(5_000),
            cas_timeout: Duration::from_millis(1_000),
            truncate_timeout: Duration::from_millis(60_000),
            prepared_bytes_max: 32 << 20,
            unprepared_bytes_max: 8 << 20,
            functions: functions::Limits::standard(),
        }
    }
}

/// A statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchStatement<'a> {
    /// Its text.
    Text(&'a str),
    /// Prepared before.
    Prepared(Rc<Prepared>),
}

/// A statement of a batch with its values.
#[derive(Clone, Debug)]
pub struct BatchEntry<'a> {
    /// The statement.
    pub statement: BatchStatement<'a>,
    /// Its values.
    pub values: Values<'a>,
}

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
    traces: trace::Writes,
    trace_rules: Rc<TraceRules>,
    hashing: login::Hashing,
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
            traces: trace::Writes::new(),
            trace_rules: TraceRules::of_shard(),
            hashing: login::Hashing::new(),
            audit: OnceCell::new(),
        })
    }

    /// A processor on every shard, in `runtime::local`.
    pub async fn start(config: Config) {
        let machine = match config.functions.enabled {
            true => wasm::Machine::new()
                .inspect_err(|reason| {
                    tracing::error!(
                        target: "query",
                        "WebAssembly functions are not available: {reason}"
                    );
                })
                .ok(),
            false => None,
        };
        let machine = machine.map(Arc::new);
        let start = move || async move {
            runtime::local::set(Rc::new(Engine::new(config.functions, machine)));
            runtime::local::set(Processor::new(config));
        };
        runtime::on_all_shards(start).await;
    }

    /// Takes the processors out again.
    pub async fn stop() {
        runtime::on_all_shards(|| async {
            runtime::local::clear::<Processor>();
            runtime::local::clear::<Engine>();
        })
        .await;
    }

    /// The options that statements depend on.
    pub fn options(&self) -> &Rc<Options> {
        &self.options
    }

    /// How long requests may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The registry that it asks for the schema.
    pub fn cluster(&self) -> &Rc<Cluster> {
        &self.cluster
    }

    /// Executes a statement's text.
    pub async fn query(
        &self,
        session: &Session,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let keyspace = effective_keyspace(session, parameters.keyspace);
        self.note(parameters, || "Parsing a statement".to_owned());
        let statement = match text.len() <= AT_ONCE_BYTES {
            true => self.analyzed(text, keyspace.as_deref())?,
            false => Box::pin(self.analyzed_slowly(text, keyspace.as_deref())).await?,
        };
        let answered = self.run(session, &statement, parameters).await;
        self.write_down(session, &statement, parameters, &answered);
        answered
    }

    /// Records an execution in the audit log, if there is one.
    #[inline]
    fn write_down(
        &self,
        session: &Session,
        statement: &Statement,
        parameters: &Parameters<'_>,
        answered: &Result<Response, CqlError>,
    ) {
        if let Some(audit) = self.audit.get() {
            audit.statement(session, statement, parameters.consistency, answered.is_err());
        }
    }

    /// The audit log, if there is one.
    pub fn audit(&self) -> Option<&Rc<Audit>> {
        self.audit.get()
    }

    /// Begins the audit log; later ones change nothing.
    pub(crate) fn set_audit(&self, audit: Rc<Audit>) {
        let _ = self.audit.set(audit);
    }

    /// A timeuuid of that time.
    pub(crate) fn timeuuid(&self, micros: i64) -> Uuid {
        self.uuids.timeuuid(micros)
    }

    /// The statement of an unprepared text.
    fn analyzed(&self, text: &str, keyspace: Option<&str>) -> Result<Rc<Statement>, CqlError> {
        let schema = self.cluster.schema();
        let changes = self.settings.changes();
        let mut unprepared = self.unprepared.borrow_mut();
        if let Some(statement) = unprepared.get((text, keyspace), schema.version, changes) {
            return Ok(statement);
        }
        let statement = Rc::new(Statement::analyze(&schema, text, keyspace, &self.options)?);
        unprepared.offer(&statement);
        Ok(statement)
    }

    /// The same, of a long text, which is not kept.
    async fn analyzed_slowly(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Statement>, CqlError> {
        let (own, dialect) = (text.to_owned(), Dialect::of(&self.options));
        let draft = compute(move || Draft::parse(&own, dialect)).await?;
        let schema = self.cluster.schema();
        let statement = Statement::in_steps(&schema, (text, draft), keyspace, &self.options);
        Ok(Rc::new(statement.await?))
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
    pub async fn prepare(
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
    pub(crate) fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Executes a prepared statement.
    pub async fn execute(
        &self,
        session: &Session,
        prepared: &Rc<Prepared>,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let present = prepared.present(&self.cluster.schema());
        let statement = match present {
            Some(statement) => statement,
            None => Box::pin(self.renewed(prepared)).await?,
        };
        let answered = self.run(session, &statement, parameters).await;
        self.write_down(session, &statement, parameters, &answered);
        answered
    }

    /// Executes a batch of the protocol's BATCH message.
    pub async fn batch(
        &self,
        session: &Session,
        kind: ast::BatchKind,
        entries: &[BatchEntry<'_>],
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let keyspace = effective_keyspace(session, parameters.keyspace);
        let schema = self.cluster.schema();
        let mut statements = Vec::with_capacity(entries.len());
        for entry in entries {
            statements.push(match &entry.statement {
                BatchStatement::Prepared(prepared) => match prepared.present(&schema) {
                    Some(statement) => statement,
                    None => Box::pin(self.renewed(prepared)).await?,
                },
                BatchStatement::Text(text) if AT_ONCE_BYTES < text.len() => {
                    Box::pin(self.analyzed_slowly(text, keyspace.as_deref())).await?
                }
                BatchStatement::Text(text) => self.analyzed(text, keyspace.as_deref())?,
            });
            if statements.len().is_multiple_of(16) {
                yield_if_needed().await;
            }
        }
        let answered = self.run_batch(session, kind, (&statements, entries), parameters).await;
        if self.audit.get().is_some() {
            for statement in &statements {
                self.write_down(session, statement, parameters, &answered);
                yield_if_needed().await;
            }
        }
        answered
    }

    async fn run_batch(
        &self,
        session: &Session,
        kind: ast::BatchKind,
        (statements, entries): (&[Rc<Statement>], &[BatchEntry<'_>]),
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        if let Some(trace) = parameters.trace {
            statements.iter().for_each(|statement| trace.statement(statement));
        }
        for statement in statements {
            self.check(session, statement)?;
        }
        let mut values = Vec::with_capacity(entries.len());
        for (statement, entry) in statements.iter().zip(entries) {
            values.push(statement.values(&entry.values)?);
        }
        let mut items = Vec::with_capacity(entries.len());
        for (statement, values) in statements.iter().zip(&values) {
            let plan = statement.modification(None)?;
            items.push(batch::Item { plan, values, statement, part: None });
        }
        batch::check(kind, false, items.iter().map(|item| item.plan))?;
        let warnings = Warnings::default();
        let now_micros = runtime::time::wall_micros();
        let calls = Calls::default();
        let mut request = self.request(&[], parameters, &warnings, now_micros);
        request.calls = statements.iter().any(|it| it.calls_users).then_some(&calls);
        request.timeout = self.timeout_of_session(session);
        let form = session.batch_form();
        let mut response = batch::execute(kind, &items, None, &request, form).await?;
        let plans = items.iter().map(|item| item.plan);
        self.options.met.tally.count_batch(kind, plans);
        if statements.iter().any(|it| it.writes_access) {
            Box::pin(self.reload_access()).await?;
        }
        response.warn(warnings.take());
        Ok(response)
    }

    async fn run(
        &self,
        session: &Session,
        statement: &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        self.check(session, statement)?;
        let values = statement.values(&parameters.values)?;
        let warnings = Warnings::default();
        let now_micros = runtime::time::wall_micros();
        let calls = Calls::default();
        let mut request = self.request(&values, parameters, &warnings, now_micros);
        request.calls = statement.calls_users.then_some(&calls);
        let said = timeout(statement.timeout(), &request.env())?;
        request.timeout = said.or(self.timeout_of(session, statement)?);
        if request.timeout == Some(Duration::ZERO) {
            return Err(statement.timed_out(parameters.consistency));
        }
        self.note_statement(parameters, statement);
        // What is boxed is seldom done, and the rest is not to pay for its room.
        let answered = match &statement.plan {
            Plan::Values(plan) => {
                let rows = request.step(|env| plan.evaluate(env)).await?;
                Ok(Response::of(ResponseKind::Rows(rows)))
            }
            Plan::Select(plan) => {
                let rows = select::execute(plan, &request).await?;
                if AT_ONCE_BYTES < rows.body.len() {
                    yield_if_needed().await;
                }
                Ok(Response::of(ResponseKind::Rows(rows)))
            }
            Plan::Modify(plan) => modify::execute(plan, &request, statement).await,
            Plan::Batch(plan) => {
                let timestamp = plan.using.timestamp(&request)?;
                let item = |(part, plan)| batch::Item {
                    plan,
                    values: request.values,
                    statement,
                    part: Some(part),
                };
                let items: Vec<batch::Item<'_>> =
                    plan.statements.iter().enumerate().map(item).collect();
                let form = session.batch_form();
                Box::pin(batch::execute(plan.kind, &items, timestamp, &request, form)).await
            }
            Plan::Truncate(table, _) => Box::pin(self.truncate(table, statement, &request)).await,
            Plan::Use(keyspace) => self.use_keyspace(session, keyspace),
            Plan::Schema(change, timestamp) => {
                let timestamp = integer(timestamp, IfNull::Refused("timestamp"), &request.env())?;
                Box::pin(ddl::execute(self, session, change, timestamp)).await
            }
            Plan::Describe(what) => describe::execute(session, what, parameters),
            Plan::Access(what) => Box::pin(access::execute::statement(self, session, what)).await,
        };
        let mut response = answered?;
        self.options.met.tally.count(&statement.plan, &request, &response);
        if statement.writes_access {
            Box::pin(self.reload_access()).await?;
        }
        response.warn(warnings.take());
        self.note(parameters, || match &response.kind {
            ResponseKind::Rows(rows) => {
                let more = if rows.paging_state.is_some() { ", more to come" } else { "" };
                format!("Done processing - preparing a result: {} rows{more}", rows.row_count)
            }
            _ => "Done processing - preparing a result".to_owned(),
        });
        Ok(response)
    }

    /// An error if the session may not execute a statement; otherwise it does so now.
    #[inline]
    fn check(&self, session: &Session, statement: &Statement) -> Result<(), CqlError> {
        access::check::statement(&self.cluster, session, statement)?;
        if statement.is_load {
            session.loads();
        }
        Ok(())
    }

    /// The timeout of a statement by its service level, or that of the session.
    #[inline]
    fn timeout_of(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> Result<Option<Duration>, CqlError> {
        match &statement.plan {
            Plan::Select(plan) => match &plan.service_level {
                Some(name) => self.timeout_of_level(name),
                None => Ok(self.timeout_of_session(session)),
            },
            _ => Ok(self.timeout_of_session(session)),
        }
    }

    #[cold]
    fn timeout_of_level(&self, name: &str) -> Result<Option<Duration>, CqlError> {
        let state = self.cluster.access().state();
        match state.level(name) {
            Some(level) => Ok(level.timeout),
            None if name == auth::level::DEFAULT => Ok(None),
            None => Err(CqlError::Invalid(format!("Service level '{name}' doesn't exist"))),
        }
    }

    #[inline]
    fn timeout_of_session(&self, session: &Session) -> Option<Duration> {
        session.terms(self.cluster.access()).timeout
    }

    /// Shows what a superuser has written into the tables of roles and grants.
    async fn reload_access(&self) -> Result<(), CqlError> {
        let reloaded = self.cluster.reload_access().await;
        reloaded.map_err(|error| CqlError::Server(error.to_string()))
    }

    /// Logs a session in by name and password.
    pub async fn log_in(
        &self,
        session: &Session,
        name: &str,
        password: &str,
    ) -> Result<(), CqlError> {
        let done = login::log_in(self, session, name, password).await;
        self.write_down_login(session, name, done.is_err());
        done
    }

    /// Records a login by that name, or a failed one, in the audit log.
    pub fn write_down_login(&self, session: &Session, name: &str, is_error: bool) {
        if let Some(audit) = self.audit.get() {
            audit.login(session, name, is_error);
        }
    }

    /// Logs a session in by the certificate that its connection has shown.
    pub fn log_in_by_certificate(
        &self,
        session: &Session,
        names: Option<login::Names<'_>>,
    ) -> Result<(), CqlError> {
        let role = login::certified_role(self, names);
        let name = role.as_deref().unwrap_or_default().to_owned();
        let done = role.and_then(|role| login::let_in(self, session, &role));
        self.write_down_login(session, &name, done.is_err());
        done
    }

    /// Where passwords are hashed.
    pub(crate) fn hashing(&self) -> &login::Hashing {
        &self.hashing
    }

    async fn truncate(
        &self,
        table: &TableEntry,
        statement: &Statement,
        request: &Request<'_>,
    ) -> Result<Response, CqlError> {
        if table.kind == TableKind::Virtual {
            return Err(CqlError::invalid("Cannot truncate virtual table"));
        }
        let patience = &self.timeouts.truncate_request_timeout;
        let patience = request.timeout.unwrap_or_else(|| patience.get().0);
        match self.coordinator.truncate(table.schema.id, patience).await {
            Ok(()) => Ok(Response::VOID),
            Err(WriteError::Timeout { consistency, .. }) => Err(statement.timed_out(consistency)),
            Err(error) => Err(CqlError::Truncate(format!("Error during truncate: {error}"))),
        }
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

    /// The rules of [`Processor::traces_unasked`].
    pub(crate) fn trace_rules(&self) -> &TraceRules {
        &self.trace_rules
    }

    /// Begins the trace of a request, to be given to it with its parameters.
    pub fn begin_trace(&self, session: &Session, cause: Cause) -> Trace {
        Trace::begin(session, &self.uuids, cause)
    }

    /// Ends a trace, which is written in the background.
    pub fn end_trace(&self, trace: &Trace, traced: Traced<'_>, parameters: &Parameters<'_>) {
        trace.finish(self, &self.traces, traced, parameters);
    }

    /// An event of the trace, if there is one.
    fn note(&self, parameters: &Parameters<'_>, activity: impl FnOnce() -> String) {
        if let Some(trace) = parameters.trace {
            trace.event(&self.uuids, activity);
        }
    }

    /// The same, of a statement that is about to be executed.
    fn note_statement(&self, parameters: &Parameters<'_>, statement: &Statement) {
        if let Some(trace) = parameters.trace {
            trace.statement(statement);
            let activity = || format!("Processing a statement: {}", statement.subject());
            trace.event(&self.uuids, activity);
        }
    }

    fn use_keyspace(&self, session: &Session, keyspace: &Rc<str>) -> Result<Response, CqlError> {
        if self.cluster.schema().keyspace(keyspace).is_none() {
            return Err(CqlError::Invalid(format!("Keyspace '{keyspace}' does not exist")));
        }
        *session.keyspace.borrow_mut() = Some(keyspace.clone());
        Ok(Response::of(ResponseKind::SetKeyspace(keyspace.clone())))
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
        let statement = Statement::analyze(&schema, text, keyspace, &self.options)?;
        Ok(self.keep(id, &Rc::new(statement)))
    }

    /// The statement of that id, if it is prepared and its analysis still holds.
    fn kept(&self, id: &[u8; 16]) -> Option<Rc<Prepared>> {
        let prepared = self.prepared(id)?;
        let present = prepared.present(&self.cluster.schema())?;
        (present.dialect() == Dialect::of(&self.options)).then_some(prepared)
    }

    /// The statement of that id as it was analysed now.
    fn keep(&self, id: [u8; 16], statement: &Rc<Statement>) -> Rc<Prepared> {
        if let Some(prepared) = self.peek(&id)
            && prepared.as_analysed().dialect() == statement.dialect()
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
    async fn renewed(&self, prepared: &Prepared) -> Result<Rc<Statement>, CqlError> {
        let before = prepared.as_analysed();
        let (text, keyspace) = (&*before.text, before.keyspace.as_deref());
        let statement = match text.len() <= AT_ONCE_BYTES {
            true => {
                let schema = self.cluster.schema();
                Rc::new(Statement::analyze(&schema, text, keyspace, &self.options)?)
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
    pub(crate) fn timestamp(&self) -> i64 {
        self.timestamps.next(runtime::time::wall_micros())
    }
}

fn effective_keyspace(session: &Session, given: Option<&str>) -> Option<Rc<str>> {
    given.map(Rc::from).or_else(|| session.keyspace())
}
