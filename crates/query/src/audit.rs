//! The audit log: what clients did and tried, by the rules of [`auth::audit`], in rows of
//! `audit.audit_log` and in the queue of the syslog writer.
//!
//! Invariants
//!  - *never-waited-for*: a statement is answered without regard to whether its event is written;
//!    it only puts it into queues.
//!  - *bounded*: a queue of a shard holds so many bytes; further events are dropped, counted and
//!    reported in the log. So are events that cannot be written, some of them in full each
//!    second.
//!  - *no-passwords*: texts are kept as `obscured` has them.
//!  - *nothing-for-none*: without a sink there is no [`Audit`], and a statement costs a test of
//!    an `Option`.
//!
//! Internal statements are not audited. Neither is a statement that cannot be analysed, as it
//! names no existing table.

use crate::obscure::obscured;
use crate::session::Session;
use auth::audit::rules::{Rules, Sinks, Subject};
use auth::audit::{self as scopes, Category, Event, Scope as Named};
use cluster::Cluster;
use cluster::settings::{Live, Rule, Settings, Tree};
use plan::{Plan, Statement};
use replication::Consistency;
use runtime::sync::Notify;
use runtime::task::Scope;
use runtime::time::{Instant, timeout};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use syntax::ast::{AccessStatement, QualifiedName, SchemaStatement};

/// Bytes of events that wait for the table, of a shard.
const TABLE_BYTES_MAX: usize = 1 << 20;
/// Between two lines of the log about dropped events.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Events of a queue that could not be written and are logged in full, per second.
const FAILURES_TOLD: u32 = 10;
/// How long the node waits for events to be written when it stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

const CATEGORIES: &str = "audit_categories";
const KEYSPACES: &str = "audit_keyspaces";
const TABLES: &str = "audit_tables";
const RULES: &str = "audit_rules";
/// The kinds that are written down where the options say nothing.
const CATEGORIES_DEFAULT: &str = "DCL,DDL,AUTH,ADMIN";

/// Whose statements are those of whom nobody has asked who he is.
pub const ANONYMOUS: &str = "anonymous";

/// Where events go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub to_table: bool,
    /// Bytes of events that wait for syslog, of a shard; `None`: no syslog.
    pub syslog_bytes_max: Option<usize>,
}

impl Config {
    fn sinks(&self) -> Sinks {
        let table = if self.to_table { Sinks::TABLE } else { Sinks::NONE };
        table | self.syslog_bytes_max.map_or(Sinks::NONE, |_| Sinks::SYSLOG)
    }
}

/// Events that wait for one sink.
#[derive(Debug)]
pub struct Queue {
    sink: Sinks,
    bytes_max: usize,
    events: RefCell<VecDeque<Rc<Event>>>,
    bytes: Cell<usize>,
    filled: Notify,
    is_closed: Cell<bool>,
    counts: Cell<Counts>,
    /// When dropped events were last logged, and how many there were by then.
    told: Cell<Option<(Instant, u64)>>,
    failures: Cell<Failures>,
}

/// Which failures are logged.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Failures {
    /// Whether a failure of now is logged, and how many before it were not.
    fn add(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| Duration::from_secs(1) <= now - since) {
            (self.since, self.told) = (Some(now), 0);
        }
        if FAILURES_TOLD <= self.told {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub written: u64,
    /// Could not be written.
    pub failed: u64,
    /// Found no room.
    pub dropped: u64,
}

impl Queue {
    fn new(sink: Sinks, bytes_max: usize) -> Queue {
        Queue {
            sink,
            bytes_max,
            events: RefCell::default(),
            bytes: Cell::new(0),
            filled: Notify::new(),
            is_closed: Cell::new(false),
            counts: Cell::default(),
            told: Cell::new(None),
            failures: Cell::default(),
        }
    }

    /// Puts an event at the end (*bounded*).
    fn offer(&self, event: &Rc<Event>) {
        let bytes = self.bytes.get() + event.bytes();
        if self.bytes_max < bytes {
            self.count(|counts| counts.dropped += 1);
            self.tell_dropped(Instant::now());
            return;
        }
        self.bytes.set(bytes);
        self.events.borrow_mut().push_back(event.clone());
        self.filled.notify_one();
    }

    fn tell_dropped(&self, now: Instant) {
        let dropped = self.counts.get().dropped;
        let before = match self.told.get() {
            Some((at, _)) if now - at < TOLD_EVERY => return,
            told => told.map_or(0, |(_, before)| before),
        };
        self.told.set(Some((now, dropped)));
        tracing::warn!(
            target: "audit",
            "{} audit events for {} are dropped: {} bytes are queued already",
            dropped - before, self.name(), self.bytes.get()
        );
    }

    /// The next event, when there is one; `None`: there will be no more.
    pub async fn next(&self) -> Option<Rc<Event>> {
        loop {
            if let Some(event) = self.events.borrow_mut().pop_front() {
                self.bytes.set(self.bytes.get() - event.bytes());
                return Some(event);
            }
            if self.is_closed.get() {
                return None;
            }
            self.filled.notified().await;
        }
    }

    fn close(&self) {
        self.is_closed.set(true);
        self.filled.notify_all();
    }

    /// An event was written, or could not be: then it is written to the node's own log, up to a
    /// limit.
    pub fn conclude(&self, event: &Event, outcome: Result<(), String>) {
        let Err(error) = outcome else {
            self.count(|counts| counts.written += 1);
            return;
        };
        self.count(|counts| counts.failed += 1);
        let mut failures = self.failures.get();
        let untold = failures.add(Instant::now());
        self.failures.set(failures);
        let Some(untold) = untold else { return };
        let node = runtime::local::get::<Cluster>().node().rpc_address;
        let (name, fields) = (self.name(), event.fields(node));
        let before = match untold {
            0 => String::new(),
            count => format!(" ({count} earlier failures not logged)"),
        };
        tracing::error!(target: "audit", "cannot write to {name}{before}: {error}: {fields}");
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// What became of its events so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Which sink it is for.
    pub fn name(&self) -> &'static str {
        self.sink.name()
    }
}

/// The options by which a shard goes; they change while it runs.
struct Said {
    categories: Live<Rc<str>>,
    keyspaces: Live<Rc<str>>,
    tables: Live<Rc<str>>,
    rules: Live<Tree>,
}

impl Said {
    fn registered(settings: &Settings) -> Said {
        let categories: Rule<Rc<str>> = |text| scopes::categories(text).map(drop);
        let tables: Rule<Rc<str>> = |text| scopes::tables(text).map(drop);
        let rules: Rule<Tree> = |tree| Rules::of(&tree.0).map(drop);
        let any: Rule<Rc<str>> = cluster::settings::anything;
        Said {
            categories: settings.register(CATEGORIES, Rc::from(CATEGORIES_DEFAULT), categories),
            keyspaces: settings.register(KEYSPACES, Rc::from(""), any),
            tables: settings.register(TABLES, Rc::from(""), tables),
            rules: settings.register(RULES, Tree(Rc::from("")), rules),
        }
    }

    /// Each was checked.
    fn wanted(&self) -> Wanted {
        let (kinds, keyspaces) = (self.categories.get(), self.keyspaces.get());
        Wanted {
            named: Named::of(&kinds, &keyspaces, &self.tables.get()).unwrap_or_default(),
            rules: Rules::of(&self.rules.get().0).unwrap_or_default(),
        }
    }
}

/// What is written down: what is named, everywhere, and what rules say, where they say.
struct Wanted {
    named: Named,
    rules: Rules,
}

/// Tells, once for the node, what rules ask for in vain.
fn tell_beyond(rules: &Rules, known: Sinks) {
    if runtime::shard_id() != 0 {
        return;
    }
    for (number, sink) in rules.beyond(known) {
        let sink = sink.name();
        tracing::warn!(
            target: "audit",
            "rule {number} of {RULES} names the sink {sink}, which the option audit does not: \
             nothing is written there"
        );
    }
}

/// The audit log of one shard. Lives in the shard's processor.
pub struct Audit {
    said: Said,
    wanted: RefCell<Wanted>,
    queues: Vec<Rc<Queue>>,
    writers: Scope,
}

impl Audit {
    /// Registers the options that change, for [`Settings::refused`].
    pub fn check(settings: &Settings) {
        Said::registered(settings);
    }

    /// The audit log of this shard, as its settings have it; `None`: it has no sink.
    pub(crate) fn of_shard(config: Config) -> Option<Rc<Audit>> {
        let settings = Settings::of_shard();
        let said = Said::registered(&settings);
        let wanted = said.wanted();
        tell_beyond(&wanted.rules, config.sinks());
        if config == Config::default() {
            return None;
        }
        let table = config.to_table.then(|| Rc::new(Queue::new(Sinks::TABLE, TABLE_BYTES_MAX)));
        let syslog = config.syslog_bytes_max.map(|bytes| Rc::new(Queue::new(Sinks::SYSLOG, bytes)));
        let audit = Rc::new(Audit {
            wanted: RefCell::new(wanted),
            said,
            queues: table.into_iter().chain(syslog).collect(),
            writers: Scope::new(),
        });
        for name in [CATEGORIES, KEYSPACES, TABLES, RULES] {
            let watched = Rc::downgrade(&audit);
            let changed = move || {
                if let Some(audit) = watched.upgrade() {
                    let wanted = audit.said.wanted();
                    if name == RULES {
                        tell_beyond(&wanted.rules, audit.sinks());
                    }
                    audit.wanted.replace(wanted);
                }
            };
            settings.watch(name, Rc::new(changed));
        }
        Some(audit)
    }

    /// Writes what waits, for some seconds at most.
    pub(crate) async fn end(&self) {
        self.queues.iter().for_each(|queue| queue.close());
        let ended = timeout(STOP_PATIENCE, self.writers.join()).await;
        let left: usize = self.queues.iter().map(|it| it.events.borrow().len()).sum();
        if ended.is_err() || 0 < left {
            tracing::warn!(target: "audit", "stopping: {left} audit events were not written");
        }
    }

    /// Runs a writer of rows as long as there are events.
    pub(crate) fn write_table<F>(&self, writer: impl FnOnce(Rc<Queue>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        self.write(Sinks::TABLE, writer);
    }

    /// Runs the syslog writer as long as there are events, and when the node stops until all
    /// are written.
    pub fn write_syslog<F>(&self, writer: impl FnOnce(Rc<Queue>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        self.write(Sinks::SYSLOG, writer);
    }

    fn write<F>(&self, sink: Sinks, writer: impl FnOnce(Rc<Queue>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        if let Some(queue) = self.queues.iter().find(|queue| queue.sink == sink) {
            self.writers.spawn(writer(queue.clone()));
        }
    }

    /// What became of events, by sink.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, Counts)> {
        self.queues.iter().map(|queue| (queue.name(), queue.counts()))
    }

    /// Where events go.
    pub fn sinks(&self) -> Sinks {
        self.queues.iter().fold(Sinks::NONE, |all, queue| all | queue.sink)
    }

    /// Whether anything of that kind may be written down.
    pub fn has(&self, category: Category) -> bool {
        let wanted = self.wanted.borrow();
        wanted.named.has(category) || wanted.rules.has(category)
    }

    /// Whether all of that kind that is about no table is written down, whoever did it.
    pub fn names(&self, category: Category) -> bool {
        self.wanted.borrow().named.has(category)
    }

    /// Whether something of that kind about that table is written down, whoever did it.
    pub fn names_table(&self, category: Category, keyspace: &str, table: &str) -> bool {
        self.wanted.borrow().named.covers(category, keyspace, table)
    }

    /// Where rules want it to be written down.
    pub fn ruled(&self, subject: &Subject<'_>) -> Sinks {
        self.wanted.borrow().rules.sinks(subject) & self.sinks()
    }

    /// Where it is written down.
    fn covered(&self, subject: &Subject<'_>) -> Sinks {
        let Subject { category, keyspace, table, .. } = *subject;
        match self.names_table(category, keyspace, table) {
            true => self.sinks(),
            false => self.ruled(subject),
        }
    }

    /// A client has executed a statement, or could not.
    pub(crate) fn statement(
        &self,
        session: &Session,
        statement: &Statement,
        consistency: Consistency,
        is_error: bool,
    ) {
        if !session.is_client() {
            return;
        }
        let category = category(&statement.plan);
        if !self.has(category) {
            return;
        }
        let user = session.role().unwrap_or_else(|| ANONYMOUS.to_owned());
        for (keyspace, table) in subjects(&statement.plan, session) {
            let (keyspace, table) = (keyspace.as_str(), table.as_str());
            let sinks = self.covered(&Subject { category, keyspace, table, role: &user });
            if !sinks.is_empty() {
                let event = Event {
                    at_micros: runtime::time::wall_micros(),
                    category,
                    consistency: consistency.name(),
                    keyspace: keyspace.to_owned(),
                    table: table.to_owned(),
                    operation: scopes::kept(&statement.text, obscured),
                    client: session.client.map(|client| client.ip()),
                    user: user.clone(),
                    is_error,
                };
                self.record(event, sinks);
            }
        }
    }

    /// A login by that name, or a failed one.
    pub(crate) fn login(&self, session: &Session, name: &str, is_error: bool) {
        let category = Category::Auth;
        let sinks = self.covered(&Subject { category, keyspace: "", table: "", role: name });
        if !sinks.is_empty() {
            let event = Event {
                at_micros: runtime::time::wall_micros(),
                category,
                consistency: "",
                keyspace: String::new(),
                table: String::new(),
                operation: "LOGIN".to_owned(),
                client: session.client.map(|client| client.ip()),
                user: name.to_owned(),
                is_error,
            };
            self.record(event, sinks);
        }
    }

    /// Puts something that is written down into the queues of sinks. (*never-waited-for*)
    pub fn record(&self, event: Event, sinks: Sinks) {
        let event = Rc::new(event);
        let wanted = self.queues.iter().filter(|queue| !(queue.sink & sinks).is_empty());
        wanted.for_each(|queue| queue.offer(&event));
    }
}

fn category(plan: &Plan) -> Category {
    match plan {
        Plan::Select(_) | Plan::Values(_) | Plan::Describe(_) => Category::Query,
        Plan::Modify(_) | Plan::Batch(_) | Plan::Truncate(..) | Plan::Prune(_) | Plan::Use(_) => {
            Category::Dml
        }
        Plan::Schema(..) => Category::Ddl,
        Plan::Access(statement) => match **statement {
            AccessStatement::CreateServiceLevel(_)
            | AccessStatement::AlterServiceLevel(_)
            | AccessStatement::DropServiceLevel(_)
            | AccessStatement::AttachServiceLevel { .. }
            | AccessStatement::DetachServiceLevel { .. }
            | AccessStatement::ListServiceLevels(_) => Category::Admin,
            _ => Category::Dcl,
        },
    }
}

/// The keyspaces and tables that it is about, each once; empty texts where there is none.
fn subjects(plan: &Plan, session: &Session) -> Vec<(String, String)> {
    let none = String::new;
    let one = |keyspace: &str, table: &str| vec![(keyspace.to_owned(), table.to_owned())];
    match plan {
        Plan::Select(plan) => {
            let table = &plan.fragments_of.as_ref().unwrap_or(&plan.table).schema;
            one(&table.keyspace, &table.name)
        }
        Plan::Modify(plan) => one(&plan.table.schema.keyspace, &plan.table.schema.name),
        Plan::Truncate(table, _) => one(&table.schema.keyspace, &table.schema.name),
        Plan::Prune(plan) => {
            let view = &plan.select.table.schema;
            one(&view.keyspace, &view.name)
        }
        Plan::Batch(plan) => {
            let mut found: Vec<(String, String)> = Vec::new();
            for statement in &plan.statements {
                let table = &statement.table.schema;
                if !found.iter().any(|it| it.0 == table.keyspace && it.1 == table.name) {
                    found.push((table.keyspace.clone(), table.name.clone()));
                }
            }
            found
        }
        Plan::Use(keyspace) => one(keyspace, ""),
        Plan::Schema(change, _) => vec![subject(change, session)],
        Plan::Values(_) | Plan::Describe(_) | Plan::Access(_) => vec![(none(), none())],
    }
}

/// What a change of the schema is about: a table, or a keyspace alone.
fn subject(change: &SchemaStatement, session: &Session) -> (String, String) {
    use SchemaStatement as Of;
    let home = |name: &QualifiedName| match &name.keyspace {
        Some(keyspace) => keyspace.text.clone(),
        None => session.keyspace().as_deref().unwrap_or_default().to_owned(),
    };
    let table = |name: &QualifiedName| (home(name), name.name.text.clone());
    let within = |name: &QualifiedName| (home(name), String::new());
    match change {
        Of::CreateKeyspace(it) => (it.name.text.clone(), String::new()),
        Of::AlterKeyspace(it) => (it.name.text.clone(), String::new()),
        Of::DropKeyspace(it) => (it.name.text.clone(), String::new()),
        Of::CreateTable(it) => table(&it.name),
        Of::AlterTable(it) => table(&it.name),
        Of::DropTable(it) | Of::DropView(it) => table(&it.name),
        Of::CreateIndex(it) => table(&it.table),
        Of::CreateView(it) => table(&it.name),
        Of::AlterView(it) => table(&it.name),
        Of::CreateType(it) => within(&it.name),
        Of::AlterType(it) => within(&it.name),
        Of::DropType(it) | Of::DropIndex(it) => within(&it.name),
        Of::CreateFunction(it) => within(&it.name),
        Of::CreateAggregate(it) => within(&it.name),
        Of::DropFunction(it) | Of::DropAggregate(it) => within(&it.name),
    }
}

#[cfg(test)]
mod tests;
