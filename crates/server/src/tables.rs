//! Rows of the computed system tables that tell of the program itself: `system.clients`,
//! `versions`, `protocol_servers`, `runtime_info`.
//!
//! A row is built by column name, so that the order of columns stays the business of the schema.

use cluster::{Cluster, VirtualFuture, VirtualRow};
use model::{TableSchema, value};
use native::Stage;
use native::server::{Client, Server};
use node::version;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Gives the tables their rows on this shard.
pub(crate) fn provide(bound: native::Bound) {
    let cluster = runtime::local::get::<Cluster>();
    let provide = |name: &'static str, rows: Rc<dyn Fn() -> VirtualFuture>| {
        cluster.provide(name, rows);
    };
    provide("clients", Rc::new(|| Box::pin(clients())));
    provide("versions", Rc::new(|| Box::pin(async { arranged("versions", &[version_row()]) })));
    provide(
        "protocol_servers",
        Rc::new(move || {
            Box::pin(async move { arranged("protocol_servers", &[protocol_row(bound)]) })
        }),
    );
    provide(
        "runtime_info",
        Rc::new(|| Box::pin(async { arranged("runtime_info", &info_rows().await) })),
    );
}

/// Column names and values; what is not named is null.
pub(crate) type Named = Vec<(&'static str, Vec<u8>)>;

fn text(value: impl AsRef<str>) -> Vec<u8> {
    value.as_ref().as_bytes().to_vec()
}

/// An address as a value.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

/// Puts named values in the order of the table's columns.
pub(crate) fn arranged(table: &str, rows: &[Named]) -> Vec<VirtualRow> {
    let schema = runtime::local::get::<Cluster>().schema();
    let Some(entry) = schema.table("system", table) else { return Vec::new() };
    rows.iter().map(|row| arrange(&entry.schema, row)).collect()
}

fn arrange(schema: &TableSchema, row: &Named) -> VirtualRow {
    let find = |name: &str| row.iter().find(|(known, _)| *known == name);
    let values = schema.columns.iter().map(|column| find(&column.name));
    values.map(|value| value.map(|(_, bytes)| bytes.clone())).collect()
}

fn version_row() -> Named {
    vec![
        ("key", text("local")),
        ("build_id", text(version::BUILD_ID)),
        ("build_mode", text(version::build_mode())),
        ("version", text(version::version())),
    ]
}

fn protocol_row(bound: native::Bound) -> Named {
    let addresses: Vec<Vec<u8>> =
        bound.kinds().map(|(address, _)| text(address.to_string())).collect();
    let mut listed = Vec::new();
    value::write_collection(addresses.iter().map(Vec::as_slice), &mut listed);
    vec![
        ("name", text("native")),
        ("listen_addresses", listed),
        ("protocol", text("CQL")),
        ("protocol_version", text("5")),
    ]
}

async fn info_rows() -> Vec<Named> {
    let cluster = runtime::local::get::<Cluster>();
    let totals = cluster::table_stats::totals(&cluster).await;
    let cache = cache_totals().await;
    let backups = runtime::local::get::<storage::Storage>().incremental_backups();
    let row = |group: &str, item: &str, value: String| {
        vec![("group", text(group)), ("item", text(item)), ("value", text(value))]
    };
    let node = cluster.node();
    let probability = cluster::TraceRules::of_shard().probability();
    let [used, limit] = memtable_memory().await;
    vec![
        row("generic", "gossip_active", node.gossips().to_string()),
        row("generic", "uptime", format!("{} seconds", node.uptime().as_secs())),
        row("generic", "trace_probability", probability.to_string()),
        row("generic", "incremental_backup_enabled", backups.to_string()),
        row("generic", "load", totals.sstable_bytes.to_string()),
        row("memtable", "memory_total", limit.to_string()),
        row("memtable", "memory_used", used.to_string()),
        row("memtable", "memory_free", limit.saturating_sub(used).to_string()),
        row("memtable", "entries", totals.memtable_partitions.to_string()),
        row("cache", "memory_used", cache[0].to_string()),
        row("cache", "entries", cache[1].to_string()),
        row("cache", "hits", cache[2].to_string()),
        row("cache", "misses", cache[3].to_string()),
    ]
}

/// Of the memtables of all shards: bytes that they have, and may have.
async fn memtable_memory() -> [u64; 2] {
    let of_shard = || async {
        let all = runtime::local::get::<storage::Storage>().dirty_stats();
        all.map(|dirty| [dirty.real_bytes, dirty.limit_bytes])
    };
    let all = runtime::on_all_shards(of_shard).await.into_iter().flatten();
    all.fold([0; 2], |sum, one| std::array::from_fn(|at| sum[at] + one[at]))
}

/// Of the row caches of all shards: bytes, partitions, hits and misses.
async fn cache_totals() -> [u64; 4] {
    let of_shard = || async {
        let storage = runtime::local::get::<storage::Storage>();
        let stats = storage.row_cache_stats();
        [stats.bytes_used, stats.partitions, stats.partition_hits, stats.partition_misses]
    };
    let all = runtime::on_all_shards(of_shard).await;
    all.into_iter().fold([0; 4], |sum, one| std::array::from_fn(|at| sum[at] + one[at]))
}

async fn clients() -> Vec<VirtualRow> {
    let all = runtime::on_all_shards(|| async {
        let of_cql = runtime::local::try_get::<Server>().map(|server| server.clients());
        let of_items =
            runtime::local::try_get::<alternator::Server>().map(|server| server.clients());
        (of_cql.unwrap_or_default(), of_items.unwrap_or_default())
    })
    .await;
    let mut rows: Vec<Named> = Vec::new();
    for (of_cql, of_items) in all {
        rows.extend(of_cql.into_iter().map(client_row));
        rows.extend(of_items.into_iter().map(items_client_row));
    }
    arranged("clients", &rows)
}

/// What clients of either API have.
struct Common<'c> {
    address: SocketAddr,
    kind: &'c str,
    stage: &'c str,
    group: &'c str,
    shard: u16,
    user: Option<&'c str>,
    agreed: Option<&'c tls::Agreed>,
}

impl Common<'_> {
    fn row(&self) -> Named {
        let ip = self.address.ip();
        let mut row = vec![
            ("address", octets(ip)),
            ("port", i32::from(self.address.port()).to_be_bytes().to_vec()),
            ("client_type", text(self.kind)),
            ("connection_stage", text(self.stage)),
            ("hostname", text(ip.to_string())),
            ("scheduling_group", text(self.group)),
            ("shard_id", i32::from(self.shard).to_be_bytes().to_vec()),
            ("ssl_enabled", vec![u8::from(self.agreed.is_some())]),
            ("username", text(self.user.unwrap_or("anonymous"))),
        ];
        if let Some(agreed) = self.agreed {
            row.push(("ssl_protocol", text(agreed.protocol)));
            row.push(("ssl_cipher_suite", text(&agreed.cipher_suite)));
        }
        row
    }
}

/// A client of the DynamoDB API.
fn items_client_row(client: alternator::client::Client) -> Named {
    let common = Common {
        address: client.address,
        kind: "alternator",
        stage: Stage::Ready.name(),
        group: &client.group,
        shard: client.shard,
        user: client.user.as_deref(),
        agreed: client.agreed.as_ref(),
    };
    let mut row = common.row();
    // Programs say what they are in one text.
    row.extend(client.agent.map(|agent| ("driver_name", text(agent))));
    row
}

fn client_row(client: Client) -> Named {
    let option = |name: &str| {
        let found = client.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut options = client.options.clone();
    options.sort();
    let pairs: Vec<(Vec<u8>, Vec<u8>)> =
        options.iter().map(|(name, value)| (text(name), text(value))).collect();
    let mut listed = Vec::new();
    let entries = pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
    value::write_map(entries, &mut listed);
    let common = Common {
        address: client.address,
        kind: "cql",
        stage: client.stage.name(),
        group: &client.group,
        shard: client.shard,
        user: client.user.as_deref(),
        agreed: client.agreed.as_ref(),
    };
    let mut row = common.row();
    row.extend([
        ("driver_name", text(option("DRIVER_NAME"))),
        ("driver_version", text(option("DRIVER_VERSION"))),
        ("protocol_version", i32::from(client.version.unwrap_or(0)).to_be_bytes().to_vec()),
        ("client_options", listed),
    ]);
    row
}
