//! What the requests of a shard share: the catalog, the way to the data, options; and who asks.

use crate::date::Date;
use crate::error::{Error, Kind};
use crate::expression::Programs;
use crate::met::{Counted, Met};
use crate::options::{self, ISOLATION_TAG, Isolation, Options};
use crate::restored;
use crate::table::Table;
use crate::tags;
use crate::together::Together;
use crate::traced;
use auth::{Need, Permission, Resource};
use cluster::settings::Settings;
use cluster::{Authorizer, ChangeError, Cluster, Schema};
use model::{TableSchema, Token};
use mutation::page::{Page, ReadCommand};
use query::Processor;
use replication::{Consistency, Coordinator, ReadOptions, WriteKind, WriteOptions};
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// How often a page of many is read, with a pause between that is doubled.
const TRIES_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// Who asks.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// The role whose key has signed; `None`: nobody is asked who he is.
    pub(crate) role: Option<String>,
    /// The same where it is only told what the role may not do.
    pub(crate) watched: Option<String>,
    /// From where.
    pub(crate) client: Option<IpAddr>,
    /// How long the request may take by the service level of the role, if that is bounded.
    pub(crate) limit: Option<Duration>,
    /// The tables that the request has asked for.
    pub(crate) asked: RefCell<Vec<Rc<Counted>>>,
    /// The trace of the request, if it has one.
    pub(crate) trace: OnceCell<Box<traced::Request>>,
}

impl Caller {
    /// One whose key has signed, or of whom nobody wants to know.
    pub(crate) fn of(role: Option<String>) -> Caller {
        Caller { role, ..Caller::default() }
    }

    /// An event of the trace, if there is one.
    #[inline]
    pub(crate) fn tell(&self, node: &Node, activity: impl FnOnce() -> String) {
        if let Some(trace) = self.trace.get() {
            trace.tell(&node.processor, activity);
        }
    }

    /// That a page has been read, and what was met.
    #[inline]
    pub(crate) fn tell_page(&self, node: &Node, page: &Page) {
        self.tell(node, || traced::HAS_READ.to_owned());
        let (bytes, tombstones) = (page.bytes.len(), page.tombstones_seen);
        self.tell(node, || format!("Rows of {bytes} bytes were read, {tombstones} tombstones met"));
    }
}

/// One shard's.
pub(crate) struct Node {
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) coordinator: Rc<Coordinator>,
    pub(crate) processor: Rc<Processor>,
    pub(crate) options: Options,
    pub(crate) met: Rc<Met>,
    pub(crate) programs: Rc<Programs>,
    pub(crate) date: Date,
    pub(crate) together: Together,
    /// What goes on when its request is answered, or was never one's.
    pub(crate) background: Scope,
    /// When it began, milliseconds.
    pub(crate) started: i64,
    /// The folder of the buckets of imports and exports, if there is one.
    pub(crate) transfers: Option<PathBuf>,
}

impl Node {
    /// After all that it stands on was started on this shard. `transfers`: the folder of buckets.
    pub(crate) fn of_shard(transfers: Option<PathBuf>) -> Node {
        let met = Rc::new(Met::default());
        runtime::local::set(met.clone());
        let settings = Settings::of_shard();
        Node {
            cluster: runtime::local::get(),
            coordinator: runtime::local::get(),
            processor: runtime::local::get(),
            options: Options::registered(&settings),
            met,
            programs: options::programs(&settings),
            date: Date::default(),
            together: Together::default(),
            background: Scope::new(),
            started: runtime::time::wall_micros().div_euclid(1000),
            transfers,
        }
    }

    pub(crate) fn schema(&self) -> Rc<Schema> {
        self.cluster.schema()
    }

    /// The table of a request's `TableName`, which may be used.
    pub(crate) fn table(&self, name: &str) -> Result<Table, Error> {
        self.usable_table(name, Kind::ResourceNotFound)
    }

    /// The same, of an operation on the table itself.
    pub(crate) fn settled_table(&self, name: &str) -> Result<Table, Error> {
        self.usable_table(name, Kind::ResourceInUse)
    }

    /// The same, in whatever state it is.
    pub(crate) fn any_table(&self, name: &str) -> Result<Table, Error> {
        Table::find(&self.schema(), name)
    }

    fn usable_table(&self, name: &str, otherwise: Kind) -> Result<Table, Error> {
        let table = self.any_table(name)?;
        let why = match restored::state(&table.entry.schema) {
            None => return Ok(table),
            Some(state) => restored::words(&table.entry.schema, state),
        };
        let begin = match otherwise {
            Kind::ResourceNotFound => "Requested resource not found: ",
            _ => "",
        };
        Err(Error::new(otherwise, format!("{begin}Table: {} {why}", table.name)))
    }

    /// Whether this is the first of the nodes that are alive, in order of their ids.
    pub(crate) fn leads(&self) -> bool {
        let (topology, me) = (self.cluster.topology(), self.cluster.node().host_id);
        let hosts = topology.present().map(|member| member.host_id);
        hosts.filter(|host| self.cluster.is_alive(*host)).all(|host| me <= host)
    }

    /// A write timestamp, microseconds: later than those before.
    pub(crate) fn timestamp(&self) -> i64 {
        self.processor.timestamp()
    }

    /// How writes of a table that read are kept apart.
    pub(crate) fn isolation(&self, table: &Table) -> Isolation {
        let own = tags::one(&table.entry.schema, ISOLATION_TAG).and_then(Isolation::by_name);
        own.unwrap_or_else(|| self.options.isolation())
    }

    /// Reads a page.
    pub(crate) async fn read(
        &self,
        table: &Table,
        token: Token,
        command: &ReadCommand,
        consistent: bool,
    ) -> Result<Page, Error> {
        let level = if consistent { Consistency::LocalQuorum } else { Consistency::LocalOne };
        let options = ReadOptions::new(level, self.options.timeout());
        Ok(self.coordinator.read(&table.entry, token, command, &options).await?)
    }

    /// Reads a page of a range, consistently; again if that fails, several times.
    pub(crate) async fn read_patiently(
        &self,
        table: &Table,
        command: &ReadCommand,
    ) -> Result<Page, Error> {
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            match self.read(table, Token::MIN, command, true).await {
                Err(error) if tries < TRIES_MAX => {
                    let name = &table.name;
                    tracing::debug!(target: "alternator_server", "{name} is read again: {error}");
                    sleep(pause).await;
                    (tries, pause) = (tries + 1, 2 * pause);
                }
                read => return read,
            }
        }
    }

    /// How writes are made that do not read.
    pub(crate) fn write_options(&self, kind: WriteKind) -> WriteOptions {
        let consistency = match kind {
            WriteKind::Cas => Consistency::LocalSerial,
            _ => Consistency::LocalQuorum,
        };
        WriteOptions { consistency, timeout: self.options.timeout(), kind, limit: None }
    }

    /// Counts for all tables, and for one.
    pub(crate) fn count(&self, table: &Table, count: impl Fn(&Counted)) {
        self.met.count((table.entry.schema.id, &table.name), count);
    }

    /// An error if the caller may not do that with a table, for which its request is counted.
    pub(crate) fn check(
        &self,
        caller: &Caller,
        permission: Permission,
        table: &Table,
    ) -> Result<(), Error> {
        self.check_part(caller, permission, (table, &table.entry.schema))
    }

    /// The same of what belongs to a table and has permissions of its own: an index, or the log of
    /// its stream.
    pub(crate) fn check_part(
        &self,
        caller: &Caller,
        permission: Permission,
        (table, part): (&Table, &TableSchema),
    ) -> Result<(), Error> {
        self.asked(caller, table);
        match (&caller.role, &caller.watched) {
            (None, None) => Ok(()),
            _ => self.check_on(caller, permission, Resource::table(&part.keyspace, &part.name)),
        }
    }

    /// A request is about a table: it is counted for it.
    pub(crate) fn asked(&self, caller: &Caller, table: &Table) {
        let counted = self.met.of_table(table.entry.schema.id, &table.name);
        let is_known = caller.asked.borrow().iter().any(|known| Rc::ptr_eq(known, &counted));
        if !is_known {
            caller.asked.borrow_mut().push(counted);
        }
        if let Some(trace) = caller.trace.get() {
            trace.asked(&self.processor, table);
        }
    }

    /// An error unless the caller may do everything.
    pub(crate) fn check_superuser(&self, caller: &Caller, what: &str) -> Result<(), Error> {
        let Some(role) = caller.role.as_ref().or(caller.watched.as_ref()) else { return Ok(()) };
        match self.cluster.access().state().rights(role).is_superuser {
            true => Ok(()),
            false => {
                let text = format!("{what} is for superusers alone, and denied to role {role}");
                self.deny(caller, text)
            }
        }
    }

    /// The same as [`Self::check`], of whatever there is.
    pub(crate) fn check_on(
        &self,
        caller: &Caller,
        permission: Permission,
        resource: Resource,
    ) -> Result<(), Error> {
        let Some(role) = caller.role.as_ref().or(caller.watched.as_ref()) else { return Ok(()) };
        let state = self.cluster.access().state();
        let rights = state.rights(role);
        let need = Need::new(permission, resource);
        if rights.is_superuser || state.permits(&rights, &need) {
            return Ok(());
        }
        let Need { permission, resource, .. } = need;
        self.deny(caller, format!("{permission} access on {resource} is denied to role {role}"))
    }

    /// Who may do everything with what the caller creates, where that counts.
    pub(crate) fn creator(&self, caller: &Caller) -> Option<String> {
        let counts = self.cluster.access().authorizer() != Authorizer::AllowAll;
        caller.role.clone().filter(|_| counts)
    }

    /// Refuses what a role may not do, or only tells of it.
    fn deny(&self, caller: &Caller, text: String) -> Result<(), Error> {
        if caller.role.is_some() {
            return Err(Error::new(Kind::AccessDenied, text));
        }
        self.met.add(&self.met.unauthorized);
        tracing::warn!(target: "alternator_server", "a request that would be refused: {text}");
        Ok(())
    }
}

/// The error of a change of the schema.
pub(crate) fn changed<T>(result: Result<T, ChangeError<Error>>) -> Result<T, Error> {
    result.map_err(|error| match error {
        ChangeError::Refused(error) => error,
        ChangeError::Failed(reason) => Error::internal(reason),
    })
}
