//! What a server says of a table.

use client::{Connection, Pool, Sharding, Target};
use model::types::quote_identifier;
use model::value::{self, list_elements};
use model::{Token, Uuid};

/// Where a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    PartitionKey,
    Clustering,
    Other,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    position: i32,
    pub(crate) is_counter: bool,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    /// In the order of cqlsh's COPY: keys first, then by name.
    pub(crate) columns: Vec<Column>,
}

impl Table {
    /// Asks for the columns of a table.
    pub(crate) async fn ask(pool: &Pool, keyspace: &str, name: &str) -> Result<Table, String> {
        let connection = pool.connection(0).await.map_err(|failure| failure.to_string())?;
        let text = format!(
            "SELECT column_name, kind, position, type FROM system_schema.columns WHERE \
             keyspace_name = {} AND table_name = {}",
            value::quote_string(keyspace),
            value::quote_string(name)
        );
        let rows = connection.rows(pool.target(), &text).await;
        let rows = rows.map_err(|failure| failure.to_string())?;
        let mut columns = Vec::new();
        let walked: Result<(), stdx::Damaged> = rows.for_each(|cells| {
            let text = |index: usize| {
                let bytes = cells.get(index).copied().flatten().unwrap_or_default();
                String::from_utf8_lossy(bytes).into_owned()
            };
            let position = cells.get(2).copied().flatten().and_then(value::decode_i32);
            let kind = match text(1).as_str() {
                "partition_key" => Kind::PartitionKey,
                "clustering" => Kind::Clustering,
                _ => Kind::Other,
            };
            let position = position.unwrap_or_default();
            columns.push(Column {
                name: text(0),
                kind,
                position,
                is_counter: text(3) == "counter",
            });
            Ok(())
        });
        walked.map_err(|damaged| damaged.to_string())?;
        if columns.is_empty() {
            return Err(format!("{keyspace}.{name}: no such table"));
        }
        columns.sort_by(|a, b| {
            let place = |column: &Column| (column.kind, column.position, column.name.clone());
            place(a).cmp(&place(b))
        });
        Ok(Table { keyspace: keyspace.to_string(), name: name.to_string(), columns })
    }

    /// Its name as CQL has it.
    pub(crate) fn cql(&self) -> String {
        format!("{}.{}", quote_identifier(&self.keyspace), quote_identifier(&self.name))
    }

    /// The column of that name; else, the only one that has it in another case.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| {
            let same = |column: &&Column| column.name.eq_ignore_ascii_case(name);
            let mut found = self.columns.iter().filter(same);
            let first = found.next()?;
            found.next().is_none().then_some(first)
        })
    }

    /// Whether its rows are counted, not written.
    pub(crate) fn is_counter(&self) -> bool {
        self.columns.iter().any(|column| column.is_counter)
    }

    /// The names of the partition key as CQL.
    pub(crate) fn key_names(&self) -> Vec<String> {
        let key = self.columns.iter().filter(|column| column.kind == Kind::PartitionKey);
        key.map(|column| quote_identifier(&column.name)).collect()
    }
}

/// Which shard of a server has which rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// The server does not tell.
    Unknown,
    Formula(Sharding),
    /// The last token of each tablet, ascending, and its shard.
    Tablets {
        last_tokens: Vec<Token>,
        shards: Vec<u32>,
    },
}

impl Routing {
    /// Asks where a table's rows are.
    pub(crate) async fn ask(pool: &Pool, table: &Table) -> Routing {
        let Some(sharding) = pool.sharding() else { return Routing::Unknown };
        let Ok(connection) = pool.connection(0).await else { return Routing::Formula(sharding) };
        match tablets(&connection, pool.target(), table, sharding).await {
            Some(tablets) => tablets,
            None => Routing::Formula(sharding),
        }
    }

    /// The shard of a token; 0 where nobody knows.
    pub(crate) fn shard_of(&self, token: Token) -> u32 {
        match self {
            Routing::Unknown => 0,
            Routing::Formula(sharding) => sharding.shard_of(token),
            Routing::Tablets { last_tokens, shards } => {
                let index = last_tokens.partition_point(|last| *last < token);
                shards.get(index).copied().unwrap_or(0)
            }
        }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> u32 {
        match self {
            Routing::Unknown => 1,
            Routing::Formula(sharding) => sharding.shards,
            Routing::Tablets { shards, .. } => shards.iter().max().map_or(1, |last| last + 1),
        }
    }
}

/// The tablets of a table; `None`: it has none, or the server does not show them.
async fn tablets(
    connection: &Connection,
    target: &Target,
    table: &Table,
    sharding: Sharding,
) -> Option<Routing> {
    let text = format!(
        "SELECT id FROM system_schema.tables WHERE keyspace_name = {} AND table_name = {}",
        value::quote_string(&table.keyspace),
        value::quote_string(&table.name)
    );
    let mut id = None;
    let rows = connection.rows(target, &text).await.ok()?;
    let walked: Result<(), stdx::Damaged> = rows.for_each(|cells| {
        id = cells.first().copied().flatten().and_then(value::decode_uuid);
        Ok(())
    });
    walked.ok()?;
    let id: Uuid = id?;
    let text = format!("SELECT last_token, replicas FROM system.tablets WHERE table_id = {id}");
    let rows = connection.rows(target, &text).await.ok()?;
    let host = connection.supports("SCYLLA_HOST_ID").and_then(|id| Uuid::try_parse(id).ok());
    let mut tablets: Vec<(Token, u32)> = Vec::new();
    let walked: Result<(), stdx::Damaged> = rows.for_each(|cells| {
        let [Some(last), Some(replicas)] = cells else { return Ok(()) };
        let token = value::decode_i64(last).map(Token);
        let shard = shard_of_replica(replicas, host.as_ref());
        tablets.extend(token.zip(shard));
        Ok(())
    });
    walked.ok()?;
    tablets.sort();
    let is_whole = tablets.last().is_some_and(|(last, _)| *last == Token::MAX);
    let is_sane = tablets.iter().all(|(_, shard)| *shard < sharding.shards);
    let (last_tokens, shards) = tablets.into_iter().unzip();
    (is_whole && is_sane).then_some(Routing::Tablets { last_tokens, shards })
}

/// The shard of a list of (host, shard): of this host where it is among them, else of the first.
fn shard_of_replica(replicas: &[u8], host: Option<&Uuid>) -> Option<u32> {
    let replica = |bytes: &[u8]| {
        let mut fields = value::fields(bytes).map_while(Result::ok);
        let host = fields.next()?.and_then(value::decode_uuid)?;
        let shard = fields.next()?.and_then(value::decode_i32)?;
        Some((host, u32::try_from(shard).ok()?))
    };
    let all: Vec<_> =
        list_elements(replicas).map_while(Result::ok).flatten().filter_map(replica).collect();
    let ours = all.iter().find(|(of, _)| Some(of) == host);
    ours.or(all.first()).map(|(_, shard)| *shard)
}
