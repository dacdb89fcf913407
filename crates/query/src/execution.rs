//! What a processor does with statements: it checks who executes them, executes them, and tells of
//! it.

use crate::access::{self, login};
use crate::batch;
use crate::error::CqlError;
use crate::parameters::Parameters;
use crate::prepared::Prepared;
use crate::processor::{AT_ONCE_BYTES, Processor, effective_keyspace};
use crate::prune;
use crate::request::{Request, Warnings};
use crate::response::{Response, ResponseKind};
use crate::session::Session;
use crate::{ddl, describe, modify, select};
use cluster::{TableEntry, TableKind};
use functions::Calls;
use model::TableSchema;
use plan::term::{IfNull, integer, timeout};
use plan::values::Values;
use plan::{Plan, Statement};
use replication::{Consistency, WriteError, WriteKind};
use runtime::Erased;
use runtime::task::yield_if_needed;
use std::rc::Rc;
use std::time::Duration;
use syntax::ast;

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

/// What a statement answers, in time. Its code is made in this crate alone.
pub type Answer<'a> = Erased<'a, Result<Response, CqlError>>;

impl Processor {
    /// Executes a statement's text.
    pub fn query<'a>(
        &'a self,
        session: &'a Session,
        text: &'a str,
        parameters: &'a Parameters<'a>,
    ) -> Answer<'a> {
        if self.audit().is_some() || AT_ONCE_BYTES < text.len() {
            return Erased::new(|| self.query_slowly(session, text, parameters));
        }
        self.note(parameters, || "Parsing a statement".to_owned());
        match self.analyzed(text, effective_keyspace(session, parameters.keyspace).as_deref()) {
            Ok(statement) => Erased::new(|| self.run(session, statement, parameters)),
            Err(error) => Erased::new(|| std::future::ready(Err(error))),
        }
    }

    /// Executes a prepared statement.
    pub fn execute<'a>(
        &'a self,
        session: &'a Session,
        prepared: &'a Rc<Prepared>,
        parameters: &'a Parameters<'a>,
    ) -> Answer<'a> {
        match prepared.present(&self.cluster().schema()) {
            Some(statement) if self.audit().is_none() => {
                Erased::new(|| self.run(session, statement, parameters))
            }
            present => {
                Erased::new(move || self.execute_slowly(session, (prepared, present), parameters))
            }
        }
    }

    /// Executes a batch of the protocol's BATCH message.
    pub fn batch<'a>(
        &'a self,
        session: &'a Session,
        kind: ast::BatchKind,
        entries: &'a [BatchEntry<'a>],
        parameters: &'a Parameters<'a>,
    ) -> Answer<'a> {
        Erased::new(move || self.execute_batch(session, kind, entries, parameters))
    }

    /// Executes a text that is long, or that is written to the audit log.
    async fn query_slowly(
        &self,
        session: &Session,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let keyspace = effective_keyspace(session, parameters.keyspace);
        self.note(parameters, || "Parsing a statement".to_owned());
        let statement = match text.len() <= AT_ONCE_BYTES {
            true => self.analyzed(text, keyspace.as_deref())?,
            false => self.analyzed_slowly(text, keyspace.as_deref()).await?,
        };
        let answered = self.run(session, statement.clone(), parameters).await;
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
        if let Some(audit) = self.audit() {
            audit.statement(session, statement, parameters.consistency, answered.is_err());
        }
    }

    /// Executes a statement whose schema has changed, or that is written to the audit log.
    async fn execute_slowly(
        &self,
        session: &Session,
        (prepared, present): (&Rc<Prepared>, Option<Rc<Statement>>),
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let statement = match present {
            Some(statement) => statement,
            None => self.renewed(prepared).await?,
        };
        let answered = self.run(session, statement.clone(), parameters).await;
        self.write_down(session, &statement, parameters, &answered);
        answered
    }

    async fn execute_batch(
        &self,
        session: &Session,
        kind: ast::BatchKind,
        entries: &[BatchEntry<'_>],
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let keyspace = effective_keyspace(session, parameters.keyspace);
        let schema = self.cluster().schema();
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
        if self.audit().is_some() {
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
        plan::modify::check(kind, false, items.iter().map(|item| item.plan))?;
        let warnings = Warnings::default();
        let now_micros = runtime::time::wall_micros();
        let calls = Calls::default();
        let mut request = self.request(&[], parameters, &warnings, now_micros);
        request.calls = statements.iter().any(|it| it.calls_users).then_some(&calls);
        request.timeout = self.timeout_of_session(session);
        let form = session.batch_form();
        let mut response = batch::execute(kind, &items, None, &request, form).await?;
        let plans = items.iter().map(|item| item.plan);
        self.options().met.tally.count_batch(kind, plans);
        if statements.iter().any(|it| it.writes_access) {
            Box::pin(self.reload_access()).await?;
        }
        response.warn(warnings.take());
        Ok(response)
    }

    async fn run(
        &self,
        session: &Session,
        statement: Rc<Statement>,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let statement = &*statement;
        self.check(session, statement)?;
        let values = statement.values(&parameters.values)?;
        let (warnings, calls) = (Warnings::default(), Calls::default());
        let now_micros = runtime::time::wall_micros();
        let mut request = self.request(&values, parameters, &warnings, now_micros);
        request.calls = statement.calls_users.then_some(&calls);
        let said = timeout(statement.timeout(), &request.env())?;
        request.timeout = said.or(self.timeout_of(session, statement)?);
        if request.timeout == Some(Duration::ZERO) {
            return Err(timed_out(statement, parameters.consistency));
        }
        self.note_statement(parameters, statement);
        // What is boxed is seldom done, and the rest is not to pay for its room.
        let answered = match &statement.plan {
            Plan::Values(plan) => {
                let rows = request.step(|env| select::evaluate_values(plan, env)).await?;
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
                let timestamp = plan.using.timestamp(&request.env())?;
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
            Plan::Prune(plan) => Box::pin(prune::execute(plan, &request)).await,
            Plan::Use(keyspace) => self.use_keyspace(session, keyspace),
            Plan::Schema(change, timestamp) => {
                let timestamp = integer(timestamp, IfNull::Refused("timestamp"), &request.env())?;
                Box::pin(ddl::execute(self, session, change, timestamp)).await
            }
            Plan::Describe(what) => describe::execute(session, what, parameters),
            Plan::Access(what) => Box::pin(access::execute::statement(self, session, what)).await,
        };
        let mut response = answered?;
        self.count(&statement.plan, parameters, &response);
        if statement.writes_access {
            Box::pin(self.reload_access()).await?;
        }
        response.warn(warnings.take());
        self.note_result(parameters, &response);
        Ok(response)
    }

    /// An event of the trace of a statement that has its result.
    #[inline]
    fn note_result(&self, parameters: &Parameters<'_>, response: &Response) {
        self.note(parameters, || match &response.kind {
            ResponseKind::Rows(rows) => {
                let more = if rows.paging_state.is_some() { ", more to come" } else { "" };
                format!("Done processing - preparing a result: {} rows{more}", rows.row_count)
            }
            _ => "Done processing - preparing a result".to_owned(),
        });
    }

    /// An error if the session may not execute a statement; otherwise it does so now.
    #[inline]
    fn check(&self, session: &Session, statement: &Statement) -> Result<(), CqlError> {
        access::check::statement(self.cluster(), session, statement)?;
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
        let state = self.cluster().access().state();
        match state.level(name) {
            Some(level) => Ok(level.timeout),
            None if name == auth::level::DEFAULT => Ok(None),
            None => Err(CqlError::Invalid(format!("Service level '{name}' doesn't exist"))),
        }
    }

    #[inline]
    fn timeout_of_session(&self, session: &Session) -> Option<Duration> {
        session.terms(self.cluster().access()).timeout
    }

    /// Shows what a superuser has written into the tables of roles and grants.
    async fn reload_access(&self) -> Result<(), CqlError> {
        let reloaded = self.cluster().reload_access().await;
        reloaded.map_err(|error| CqlError::Server(error.to_string()))
    }

    /// Logs a session in by name and password.
    pub fn log_in<'a>(
        &'a self,
        session: &'a Session,
        name: &'a str,
        password: &'a str,
    ) -> Erased<'a, Result<(), CqlError>> {
        Erased::new(move || async move {
            let done = login::log_in(self, session, name, password).await;
            self.write_down_login(session, name, done.is_err());
            done
        })
    }

    /// Records a login by that name, or a failed one, in the audit log.
    pub fn write_down_login(&self, session: &Session, name: &str, is_error: bool) {
        if let Some(audit) = self.audit() {
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

    async fn truncate(
        &self,
        table: &TableEntry,
        statement: &Statement,
        request: &Request<'_>,
    ) -> Result<Response, CqlError> {
        if table.kind == TableKind::Virtual {
            return Err(CqlError::invalid("Cannot truncate virtual table"));
        }
        let patience = &self.timeouts().truncate_request_timeout;
        let patience = request.timeout.unwrap_or_else(|| patience.get().0);
        // The base is the first one: what is written to it meanwhile is in its views.
        for id in std::iter::once(&table.schema.id).chain(&*table.views) {
            match self.coordinator().truncate(*id, patience).await {
                Ok(()) => {}
                Err(WriteError::Timeout { consistency, .. }) => {
                    return Err(timed_out(statement, consistency));
                }
                Err(error) => {
                    return Err(CqlError::Truncate(format!("Error during truncate: {error}")));
                }
            }
        }
        Ok(Response::VOID)
    }

    /// The same, of a statement that is about to be executed.
    fn note_statement(&self, parameters: &Parameters<'_>, statement: &Statement) {
        if let Some(trace) = parameters.trace {
            trace.statement(statement);
            let activity = || format!("Processing a statement: {}", statement.subject());
            trace.event(self.uuids(), activity);
        }
    }

    fn use_keyspace(&self, session: &Session, keyspace: &Rc<str>) -> Result<Response, CqlError> {
        if self.cluster().schema().keyspace(keyspace).is_none() {
            return Err(CqlError::Invalid(format!("Keyspace '{keyspace}' does not exist")));
        }
        *session.keyspace.borrow_mut() = Some(keyspace.clone());
        Ok(Response::of(ResponseKind::SetKeyspace(keyspace.clone())))
    }

    /// Counts a statement that has been answered.
    #[inline]
    fn count(&self, plan: &Plan, parameters: &Parameters<'_>, response: &Response) {
        let tally = &self.options().met.tally;
        match (plan, &response.kind) {
            (Plan::Select(plan), ResponseKind::Rows(rows)) => {
                let unpaged = parameters.page_size.is_none_or(|size| size <= 0);
                tally.count_read(plan, rows.row_count, unpaged);
            }
            (Plan::Modify(plan), _) => tally.count_write(plan),
            (Plan::Batch(plan), _) => tally.count_batch(plan.kind, plan.statements.iter()),
            _ => {}
        }
    }
}

/// The error of a statement that has no time.
fn timed_out(statement: &Statement, consistency: Consistency) -> CqlError {
    let kind = match &statement.plan {
        Plan::Modify(plan) if plan.is_conditional() => WriteKind::Cas,
        Plan::Batch(_) => WriteKind::Batch,
        Plan::Truncate(table, _) => {
            let TableSchema { keyspace, name, .. } = &*table.schema;
            return CqlError::Truncate(format!(
                "Error during truncate: Timeout during TRUNCATE TABLE of {keyspace}.{name}"
            ));
        }
        Plan::Modify(_) => WriteKind::Simple,
        _ => {
            let (received, required, data_present) = (0, 1, false);
            return CqlError::ReadTimeout { consistency, received, required, data_present };
        }
    };
    CqlError::WriteTimeout { consistency, received: 0, required: 1, kind }
}
