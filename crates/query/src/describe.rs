//! `DESCRIBE`: the schema as the statements that would create it.
//!
//! Invariants
//!  - *in-order-of-need*: statements stand in an order in which they can be executed: a keyspace,
//!    its types (those that others use first), its functions, its aggregates, its tables each with
//!    its indexes and its log, its views; then, WITH INTERNALS, roles, grants and service levels.
//!  - *round-trip*: executing a description gives the same schema; WITH INTERNALS the same ids
//!    and dropped columns too.
//!
//! Looks at the shard's snapshot only; [`answer`] is pure. Everybody may read what there is, but
//! hashed passwords are for superusers.

mod access;
mod logs;
mod paging;
#[cfg(test)]
mod tests;
mod views;

use crate::error::CqlError;
use crate::parameters::Parameters;
use crate::response::{Response, ResponseKind, Rows};
use crate::session::Session;
use cluster::{
    Authenticator, Authorizer, Cluster, KeyspaceEntry, Nodes, Replication, Schema, TableEntry,
    TableKind,
};
use model::schema::{Internals, UserAggregate, UserFunction};
use model::value::{write_collection, write_map};
use model::{Type, UserType, Uuid};
use plan::metadata::{ColumnSpec, ResultMetadata};
use plan::paxos_state;
use std::collections::BTreeMap;
use std::rc::Rc;
use syntax::ast::{Describe, Described, QualifiedName};
use syntax::quote_name;

const SNITCH: &str = "org.apache.cassandra.locator.SimpleSnitch";

/// Executes a `DESCRIBE`.
pub(crate) fn execute(
    session: &Session,
    statement: &Describe,
    parameters: &Parameters<'_>,
) -> Result<Response, CqlError> {
    let cluster = runtime::local::get::<Cluster>();
    if statement.passwords {
        let is_superuser = crate::access::check::is_superuser(&cluster, session);
        check_passwords(&statement.what, is_superuser)?;
    }
    let (schema, keyspace) = (cluster.schema(), session.keyspace());
    let rows = match statement.what {
        Described::Cluster => describe_cluster(&schema, &cluster, keyspace),
        _ => {
            let (access, state) = (cluster.access(), parameters.paging_state);
            let roles = access.state();
            let version = version(schema.version, roles.generation());
            let from = state.map(|state| paging::decode(state, version)).transpose()?;
            let mut answer = answer(&schema, keyspace.as_deref(), statement)?;
            if statement.internals
                && let (Answer::Statements(entries), Described::Schema | Described::FullSchema) =
                    (&mut answer, &statement.what)
            {
                let asks = access.authenticator() != Authenticator::AllowAll;
                let told = access::Told {
                    state: &roles,
                    superuser: &access.superuser(),
                    has_grants: access.authorizer() != Authorizer::AllowAll,
                    has_hashes: statement.passwords && asks,
                };
                entries.extend(told.entries());
            }
            answer.into_page(from.unwrap_or(0), parameters.page_size, version)
        }
    };
    Ok(Response::of(ResponseKind::Rows(rows)))
}

/// The version of the schema and of roles, grants and service levels.
fn version(of_schema: Uuid, generation: u64) -> Uuid {
    Uuid::from_u128(of_schema.as_u128() ^ u128::from(generation))
}

/// Something of the schema, or, in no keyspace, of who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    keyspace: Option<String>,
    /// `keyspace`, `type`, `table`, ..
    kind: &'static str,
    name: String,
    /// The statement that makes it; not in lists.
    create: String,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// Names only.
    List(Vec<Entry>),
    /// With the statements.
    Statements(Vec<Entry>),
}

/// The answer to all but `DESCRIBE CLUSTER`. `keyspace` is the one in use.
fn answer(
    schema: &Schema,
    keyspace: Option<&str>,
    statement: &Describe,
) -> Result<Answer, CqlError> {
    let scope = Scope { schema, keyspace, internals: internals(statement) };
    let only = |entry: Entry| Ok(Answer::Statements(vec![entry]));
    match &statement.what {
        Described::Cluster => Ok(Answer::List(Vec::new())),
        Described::Schema => Ok(scope.all(|name| !Schema::is_of_nodes(name))),
        Described::FullSchema => Ok(scope.all(|_| true)),
        Described::Keyspaces => {
            let entries = schema.keyspaces.values();
            Ok(Answer::List(entries.map(|entry| keyspace_entry(entry)).collect()))
        }
        Described::Keyspace(name) => {
            let entry = scope.keyspace(name.as_ref().map(|name| &name.text[..]))?;
            Ok(Answer::Statements(scope.whole(entry)))
        }
        Described::OnlyKeyspace(name) => {
            only(keyspace_entry(scope.keyspace(name.as_ref().map(|name| &name.text[..]))?))
        }
        Described::Tables => Ok(scope.list(|entry| scope.tables(entry))),
        Described::Types => Ok(scope.list(types)),
        Described::Functions => Ok(scope.list(functions)),
        Described::Aggregates => Ok(scope.list(aggregates)),
        Described::Table(name) => {
            let (entry, name) = scope.named(name)?;
            match entry.tables.get(name) {
                Some(table) if table.schema.view.is_some() => Err(CqlError::invalid(format!(
                    "Cannot use DESC TABLE on the materialized view {name}: use DESC MATERIALIZED \
                     VIEW"
                ))),
                Some(table) => Ok(scope.table(table)),
                None => match paxos_entry(schema, entry, name) {
                    Some(shown) => only(shown),
                    None => missing("Table", name, "keyspace ", entry),
                },
            }
        }
        Described::Type(name) => {
            let (entry, name) = scope.named(name)?;
            match entry.types.get(name) {
                Some(user) => only(type_entry(user)),
                None => missing("User defined type", name, "", entry),
            }
        }
        Described::Index(name) => scope.named_index(name),
        Described::View(name) => scope.named_view(name),
        Described::Function(name) => {
            let (entry, name) = scope.named(name)?;
            match entry.functions(name) {
                [] => missing("User defined function", name, "", entry),
                overloads => Ok(overloads_of(overloads, function_entry)),
            }
        }
        Described::Aggregate(name) => {
            let (entry, name) = scope.named(name)?;
            match entry.aggregates(name) {
                [] => missing("User defined aggregate", name, "", entry),
                overloads => Ok(overloads_of(overloads, aggregate_entry)),
            }
        }
        Described::Any(name) => scope.any(name),
    }
}

/// Hashed passwords are part of the whole schema only, and for superusers.
fn check_passwords(what: &Described, is_superuser: bool) -> Result<(), CqlError> {
    match what {
        Described::Schema | Described::FullSchema if is_superuser => Ok(()),
        Described::Schema | Described::FullSchema => Err(CqlError::Unauthorized(
            "DESCRIBE SCHEMA WITH INTERNALS AND PASSWORDS can only be issued by a superuser".into(),
        )),
        _ => Err(CqlError::invalid("Option WITH PASSWORDS is only allowed with DESC SCHEMA")),
    }
}

fn internals(statement: &Describe) -> Internals {
    if statement.internals { Internals::Shown } else { Internals::Hidden }
}

fn missing<T>(what: &str, name: &str, place: &str, entry: &KeyspaceEntry) -> Result<T, CqlError> {
    let keyspace = &entry.keyspace.name;
    Err(CqlError::invalid(format!("{what} '{name}' not found in {place}'{keyspace}'")))
}

/// Where names are looked up.
#[derive(Clone, Copy)]
struct Scope<'a> {
    schema: &'a Schema,
    /// The keyspace in use.
    keyspace: Option<&'a str>,
    internals: Internals,
}

impl<'a> Scope<'a> {
    /// The keyspace of that name, or the one in use.
    fn keyspace(&self, name: Option<&str>) -> Result<&'a Rc<KeyspaceEntry>, CqlError> {
        let Some(name) = name.or(self.keyspace) else {
            return Err(CqlError::invalid("No keyspace specified and no current keyspace"));
        };
        let missing = || CqlError::invalid(format!("'{name}' not found in keyspaces"));
        self.schema.keyspace(name).ok_or_else(missing)
    }

    /// The keyspace of a name, and the rest of the name.
    fn named<'n>(
        &self,
        name: &'n QualifiedName,
    ) -> Result<(&'a Rc<KeyspaceEntry>, &'n str), CqlError> {
        let keyspace = name.keyspace.as_ref().map(|name| name.text.as_str());
        Ok((self.keyspace(keyspace)?, &name.name.text))
    }

    /// A keyspace, or else a table of the keyspace in use.
    fn any(&self, name: &QualifiedName) -> Result<Answer, CqlError> {
        let text = &name.name.text;
        if name.keyspace.is_none() {
            if let Some(entry) = self.schema.keyspace(text) {
                return Ok(Answer::Statements(self.whole(entry)));
            }
            if self.keyspace.is_none() {
                return Err(CqlError::invalid(format!("'{text}' not found in keyspaces")));
            }
        }
        let (entry, _) = self.named(name)?;
        if let Some(table) = entry.tables.get(text) {
            return Ok(self.table(table));
        }
        if let Some(index) = self.index(entry, text) {
            return Ok(index);
        }
        if let Some(user) = entry.types.get(text) {
            return Ok(Answer::Statements(vec![type_entry(user)]));
        }
        if let Some(shown) = paxos_entry(self.schema, entry, text) {
            return Ok(Answer::Statements(vec![shown]));
        }
        match (entry.functions(text), entry.aggregates(text)) {
            ([], []) => {}
            ([], overloads) => return Ok(overloads_of(overloads, aggregate_entry)),
            (overloads, _) => return Ok(overloads_of(overloads, function_entry)),
        }
        let keyspace = &entry.keyspace.name;
        Err(CqlError::invalid(format!("'{text}' not found in keyspace '{keyspace}'")))
    }

    fn all(&self, wanted: impl Fn(&str) -> bool) -> Answer {
        let keyspaces = self.schema.keyspaces.iter().filter(|(name, _)| wanted(name));
        Answer::Statements(keyspaces.flat_map(|(_, entry)| self.whole(entry)).collect())
    }

    /// A keyspace with all that is in it.
    fn whole(&self, entry: &KeyspaceEntry) -> Vec<Entry> {
        let mut entries = vec![keyspace_entry(entry)];
        entries.extend(types(entry));
        entries.extend(functions(entry));
        entries.extend(aggregates(entry));
        for table in entry.tables.values().filter(|table| !table.schema.is_derived()) {
            entries.push(table_entry(table, self.internals));
            entries.extend(self.indexes(table));
            entries.extend(self.log(table));
        }
        let views = views::views(self.schema, entry).into_iter();
        entries.extend(views.map(|view| self.view_entry(view)));
        entries
    }

    fn tables(&self, entry: &KeyspaceEntry) -> Vec<Entry> {
        let tables = entry.tables.values().filter(|table| !table.schema.is_derived());
        tables.map(|table| table_entry(table, self.internals)).collect()
    }

    /// What is in the keyspace in use, or in all where none is.
    fn list(&self, of: impl Fn(&KeyspaceEntry) -> Vec<Entry>) -> Answer {
        let wanted = |name: &str| self.keyspace.is_none_or(|keyspace| keyspace == name);
        let keyspaces = self.schema.keyspaces.iter().filter(|(name, _)| wanted(name));
        Answer::List(keyspaces.flat_map(|(_, entry)| of(entry)).collect())
    }
}

fn keyspace_entry(entry: &KeyspaceEntry) -> Entry {
    let keyspace = &entry.keyspace;
    Entry {
        keyspace: Some(keyspace.name.clone()),
        kind: "keyspace",
        name: keyspace.name.clone(),
        create: keyspace.to_cql_create(),
    }
}

fn type_entry(user: &UserType) -> Entry {
    let (keyspace, name) = (user.keyspace.clone(), user.name.clone());
    Entry { keyspace: Some(keyspace), kind: "type", name, create: user.to_cql_create() }
}

fn function_entry(function: &UserFunction) -> Entry {
    let (keyspace, name) = (function.keyspace.clone(), function.name.clone());
    Entry { keyspace: Some(keyspace), kind: "function", name, create: function.to_cql_create() }
}

fn aggregate_entry(aggregate: &UserAggregate) -> Entry {
    let (keyspace, name) = (aggregate.keyspace.clone(), aggregate.name.clone());
    Entry { keyspace: Some(keyspace), kind: "aggregate", name, create: aggregate.to_cql_create() }
}

fn functions(entry: &KeyspaceEntry) -> Vec<Entry> {
    entry.functions.values().flatten().map(|function| function_entry(function)).collect()
}

fn aggregates(entry: &KeyspaceEntry) -> Vec<Entry> {
    entry.aggregates.values().flatten().map(|aggregate| aggregate_entry(aggregate)).collect()
}

/// All that a name stands for.
fn overloads_of<T>(overloads: &[Rc<T>], entry: fn(&T) -> Entry) -> Answer {
    Answer::Statements(overloads.iter().map(|one| entry(one)).collect())
}

fn table_entry(table: &TableEntry, internals: Internals) -> Entry {
    let schema = &table.schema;
    let create = schema.describe(internals);
    let create = match table.kind {
        TableKind::Stored => create,
        TableKind::Virtual => format!(
            "/*\nWarning: Table {}.{} is a virtual table and cannot be recreated with CQL.\n\
             Structure, for reference:\n{create}\n*/",
            quote_name(&schema.keyspace),
            quote_name(&schema.name)
        ),
    };
    let (keyspace, name) = (schema.keyspace.clone(), schema.name.clone());
    Entry { keyspace: Some(keyspace), kind: "table", name, create }
}

/// The state of conditional writes to a table, where it is named.
fn paxos_entry(schema: &Schema, keyspace: &KeyspaceEntry, name: &str) -> Option<Entry> {
    let keyspace = keyspace.keyspace.name.clone();
    let base = paxos_state::base(schema, Some(&keyspace), name)?;
    let (name, create) = paxos_state::description(schema, &base.schema)?;
    Some(Entry { keyspace: Some(keyspace), kind: "table", name, create })
}

/// The types of a keyspace, each after those that it mentions.
fn types(entry: &KeyspaceEntry) -> Vec<Entry> {
    let mut waiting: Vec<&Rc<UserType>> = entry.types.values().collect();
    let mut entries = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let needs = |user: &UserType, other: &UserType| {
            let mut types = user.fields.iter().map(|(_, ty)| ty);
            types.any(|ty| ty.mentions_user_type(&other.keyspace, &other.name))
        };
        let mut blocked = Vec::new();
        for user in &waiting {
            match waiting.iter().any(|other| needs(user, other)) {
                true => blocked.push(*user),
                false => entries.push(type_entry(user)),
            }
        }
        assert!(blocked.len() < waiting.len(), "a user type contains itself");
        waiting = blocked;
    }
    entries
}

impl Answer {
    /// At most `size` entries from that one on, all if no size is said, of a version of the
    /// schema.
    fn into_page(self, from: usize, size: Option<i32>, version: Uuid) -> Rows {
        let (entries, columns): (_, &[&str]) = match self {
            Answer::List(entries) => (entries, &["keyspace_name", "type", "name"]),
            Answer::Statements(entries) => {
                (entries, &["keyspace_name", "type", "name", "create_statement"])
            }
        };
        let columns: Vec<(&str, Type)> = columns.iter().map(|name| (*name, Type::Text)).collect();
        let rest = entries.get(from..).unwrap_or_default();
        let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| 0 < *size);
        let page = &rest[..size.unwrap_or(usize::MAX).min(rest.len())];
        let mut body = Vec::new();
        for entry in page {
            match &entry.keyspace {
                Some(keyspace) => put_cell(quote_name(keyspace).as_bytes(), &mut body),
                None => body.extend_from_slice(&(-1i32).to_be_bytes()),
            }
            let cells = [entry.kind, &quote_name(&entry.name), &entry.create];
            let cells = cells.iter().take(columns.len() - 1);
            cells.for_each(|cell| put_cell(cell.as_bytes(), &mut body));
        }
        let goes_on = page.len() < rest.len();
        let paging_state = goes_on.then(|| paging::encode(version, from + page.len()));
        Rows { paging_state, ..rows(&columns, page.len() as u32, body) }
    }
}

fn rows(columns: &[(&str, Type)], row_count: u32, body: Vec<u8>) -> Rows {
    let (keyspace, table): (Rc<str>, Rc<str>) = ("system".into(), "describe".into());
    let column = |(name, ty): &(&str, Type)| ColumnSpec {
        keyspace: keyspace.clone(),
        table: table.clone(),
        name: (*name).into(),
        ty: ty.clone(),
    };
    let metadata = Rc::new(ResultMetadata::new(columns.iter().map(column).collect()));
    Rows { metadata, row_count, body, paging_state: None }
}

fn put_cell(value: &[u8], out: &mut Vec<u8>) {
    let length = i32::try_from(value.len()).expect("a description is far shorter than 2 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// One row: names, and, where a keyspace is in use, who owns the range that ends at each token.
fn describe_cluster(schema: &Schema, cluster: &Cluster, keyspace: Option<Rc<str>>) -> Rows {
    let mut columns =
        vec![("cluster", Type::Text), ("partitioner", Type::Text), ("snitch", Type::Text)];
    let mut body = Vec::new();
    for value in [&cluster.node().cluster_name[..], cluster::node::PARTITIONER, SNITCH] {
        put_cell(value.as_bytes(), &mut body);
    }
    let used = keyspace.and_then(|name| schema.keyspace(&name).cloned());
    if let Some(entry) = used.filter(|entry| *entry.replication != Replication::Local) {
        let owners = Type::List { element: Box::new(Type::Text), frozen: true };
        let (key, value) = (Box::new(Type::Text), Box::new(owners));
        columns.push(("range_ownership", Type::Map { key, value, frozen: true }));
        put_cell(&range_ownership(&Nodes::seen(cluster), &entry.replication), &mut body);
    }
    rows(&columns, 1, body)
}

/// Token to list of addresses, sorted by the token's text as maps of texts are.
fn range_ownership(nodes: &Nodes, replication: &Replication) -> Vec<u8> {
    let owners = |range: cluster::nodes::Range| {
        let address = |place: &usize| nodes.all()[*place].client_address();
        let addresses: Vec<String> = range.nodes.iter().map(address).collect();
        let mut list = Vec::new();
        write_collection(addresses.iter().map(|address| address.as_bytes()), &mut list);
        (range.last.0.to_string(), list)
    };
    let owners: BTreeMap<String, Vec<u8>> =
        nodes.ring_ranges(replication).into_iter().map(owners).collect();
    let mut map = Vec::new();
    write_map(owners.iter().map(|(token, list)| (token.as_bytes(), &list[..])), &mut map);
    map
}
