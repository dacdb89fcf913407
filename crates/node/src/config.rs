//! What the parts of a node are told, from the options: values to a value. Nothing is started.

use crate::address::address;
use crate::audit;
use crate::certificates;
use crate::folder::workdir;
use crate::handoff;
use crate::offers::offers;
use crate::seeds;
use crate::shards::memory_bytes;
use crate::snitch::{self, Place};
use cluster::settings::Offer;
use cluster::{AccessConfig, Authenticator, Authorizer, BootConfig, NodeConfig};
use functions::udf::wasm;
use model::{Sharder, Token};
use options::{Source, Values};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use storage::memory::{Division, SHARD_BYTES_MIN};
use storage::{SyncMode, WriterDefaults};

/// What the parts of a node are told.
#[derive(Clone, Debug)]
pub struct Config {
    pub boot: BootConfig,
    pub access: AccessConfig,
    pub coordinator: replication::Config,
    pub processor: query::Config,
    pub audit: audit::Config,
    /// What it is told about other nodes; `None`: it belongs to no cluster, and does not listen for
    /// any.
    pub membership: Option<cluster::membership::Config>,
    /// How it keeps what other nodes miss, if it belongs to a cluster.
    pub hints: Option<replication::hints::Config>,
    /// Every option, for those who let theirs change.
    pub offers: Vec<Offer>,
}

/// Reads the parts' settings from the options. The error names the option.
pub fn config(values: &Values, shards: u16) -> Result<Config, String> {
    let millis = |name| millis(values, name);
    let shard_bytes = memory_bytes(values)? / shards as u64;
    let processor = query::Config {
        read_timeout: millis("read_request_timeout_in_ms"),
        range_read_timeout: millis("range_request_timeout_in_ms"),
        write_timeout: millis("write_request_timeout_in_ms"),
        counter_write_timeout: millis("counter_write_request_timeout_in_ms"),
        cas_timeout: millis("cas_contention_timeout_in_ms"),
        truncate_timeout: millis("truncate_request_timeout_in_ms"),
        prepared_bytes_max: (shard_bytes / 256).clamp(1 << 20, 64 << 20) as usize,
        unprepared_bytes_max: (shard_bytes / 1024).clamp(256 << 10, 16 << 20) as usize,
        functions: function_limits(values, shard_bytes)?,
    };
    let storage = storage_config(values, shards)?;
    let batch_memory = match storage.sync {
        SyncMode::Batch => Duration::ZERO,
        SyncMode::Periodic { period } => 2 * period,
    };
    check_sharding(values)?;
    let boot = BootConfig { node: node_config(values)?, storage };
    Ok(Config {
        boot,
        access: access(values)?,
        audit: audit::Config::of(values),
        coordinator: coordinator(values, batch_memory)?,
        processor,
        membership: None,
        hints: None,
        offers: offers(values),
    })
}

/// The same for a node that is, or becomes, one of a cluster.
pub fn config_of_member(values: &Values, shards: u16) -> Result<Config, String> {
    let config = config(values, shards)?;
    let node = &config.boot.node;
    let listen = SocketAddr::new(node.listen_address, node.listen_port);
    let segment_bytes = config.boot.storage.segment_bytes;
    let membership = Some(seeds::membership(values, listen, segment_bytes)?);
    let hints = Some(handoff::config(values));
    Ok(Config { membership, hints, ..config })
}

/// Who may do what, as the options say.
fn access(values: &Values) -> Result<AccessConfig, String> {
    let (authenticator, authorizer) = (values.text("authenticator"), values.text("authorizer"));
    let unknown =
        |name: &str, given: &str, known: &str| format!("option {name}: {given} is none of {known}");
    let known = "AllowAllAuthenticator, PasswordAuthenticator, CertificateAuthenticator, \
                 CertificateOrPasswordAuthenticator, TransitionalAuthenticator";
    let authenticator = Authenticator::by_name(authenticator)
        .ok_or_else(|| unknown("authenticator", authenticator, known))?;
    certificates::check(values, authenticator)?;
    Ok(AccessConfig {
        authenticator,
        authorizer: Authorizer::by_name(authorizer).ok_or_else(|| {
            let known = "AllowAllAuthorizer, CassandraAuthorizer, TransitionalAuthorizer";
            unknown("authorizer", authorizer, known)
        })?,
        superuser: values.text("auth_superuser_name").to_owned(),
        // Who gives an empty name wants none.
        default_superuser: values.source("auth_superuser_name") == Source::Default,
        superuser_salted_password: values.text("auth_superuser_salted_password").to_owned(),
        certificate_roles: certificates::queries(values)?,
    })
}

/// Drivers are told one sharding, and data is laid out by it.
fn check_sharding(values: &Values) -> Result<(), String> {
    let name = "murmur3_partitioner_ignore_msb_bits";
    match (values.integer(name), i64::from(Sharder::IGNORED_BITS)) {
        (given, only) if given != only => Err(format!("option {name}: {given}: use {only}")),
        _ => Ok(()),
    }
}

fn millis(values: &Values, name: &str) -> Duration {
    Duration::from_millis(values.integer(name).max(1) as u64)
}

/// How long batches are remembered, and when and how fast they are replayed.
fn coordinator(values: &Values, batch_memory: Duration) -> Result<replication::Config, String> {
    const THROTTLE: &str = "batchlog_replay_throttle_in_kb";
    let replay_bytes_per_second = match values.integer(THROTTLE) {
        kib @ 0..=0x8000_0000 => kib.unsigned_abs() << 10,
        kib => return Err(format!("option {THROTTLE}: not between 0 and 2147483648: {kib}")),
    };
    // Who coordinates a batch takes no longer than twice that time.
    let batch_age = 2 * millis(values, "write_request_timeout_in_ms");
    Ok(replication::Config { batch_memory, batch_age, replay_bytes_per_second })
}

/// What functions of users may do. Whoever enables them says so twice.
fn function_limits(values: &Values, shard_bytes: u64) -> Result<functions::Limits, String> {
    let enabled = values.flag("enable_user_defined_functions");
    let features = values.list("experimental_features");
    let named = features.iter().flat_map(|features| features.split(',')).any(|it| it == "udf");
    if enabled && !named {
        return Err("You must use both enable_user_defined_functions and \
                    experimental_features:udf to enable user-defined functions"
            .to_owned());
    }
    let bytes = values.integer("user_defined_function_allocation_limit_bytes");
    Ok(functions::Limits {
        enabled,
        time: millis(values, "user_defined_function_time_limit_ms"),
        memory_bytes: usize::try_from(bytes).unwrap_or(0).max(64 << 10),
        wasm: wasm_limits(values, shard_bytes)?,
    })
}

/// What functions in WebAssembly may use.
fn wasm_limits(values: &Values, shard_bytes: u64) -> Result<wasm::Limits, String> {
    let natural = |name: &str| values.integer(name).max(1) as u64;
    Ok(wasm::Limits {
        fuel: natural("wasm_udf_total_fuel"),
        yield_fuel: natural("wasm_udf_yield_fuel"),
        memory_bytes: natural("wasm_udf_memory_limit") as usize,
        cache_bytes: fraction(values, "wasm_cache_memory_fraction", shard_bytes)?,
        instance_bytes_max: natural("wasm_cache_instance_size_limit") as usize,
        idle: millis(values, "wasm_cache_timeout_in_ms"),
    })
}

fn node_config(values: &Values) -> Result<NodeConfig, String> {
    let rpc_address = address(values, "rpc_address")?;
    let listen_address = address(values, "listen_address")?;
    let or = |name: &str, default: IpAddr| match values.text(name) {
        "" => Ok(default),
        _ => address(values, name),
    };
    let port = |name: &str| values.text(name).parse::<u16>().ok();
    let cluster_name = match values.text("cluster_name") {
        "" => "Test Cluster",
        name => name,
    };
    let broadcast_address = or("broadcast_address", listen_address)?;
    let Place { data_center, rack } = snitch::place(values, broadcast_address)?;
    Ok(NodeConfig {
        cluster_name: cluster_name.to_string(),
        data_center,
        rack,
        listen_address,
        broadcast_address,
        rpc_address: or("broadcast_rpc_address", rpc_address)?,
        listen_port: port("storage_port").unwrap_or(0),
        rpc_port: port("native_transport_port").filter(|port| 0 < *port),
        num_tokens: values.integer("num_tokens").clamp(1, 1024) as u32,
        initial_tokens: initial_tokens(values.text("initial_token"))?,
        withheld_features: names(values.text("withheld_features")),
        joins_ring: values.flag("join_ring"),
    })
}

/// Words with commas between them.
fn names(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The tokens that a new node is to have, by commas; none: any.
fn initial_tokens(text: &str) -> Result<Vec<Token>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let token = |word: &str| match word.parse::<i64>() {
        // No key has the least.
        Ok(number) if number != i64::MIN => Ok(Token(number)),
        _ => Err(format!("option initial_token: Failed to assign tokens: {word} is none")),
    };
    words.map(token).collect()
}

fn storage_config(values: &Values, shards: u16) -> Result<storage::Config, String> {
    let workdir = workdir(values);
    let below = |name: &str, tail: &str| match values.list(name).first() {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => workdir.join(tail),
    };
    let sync = match values.text("commitlog_sync") {
        "batch" => SyncMode::Batch,
        "periodic" => {
            let period = values.integer("commitlog_sync_period_in_ms").max(1) as u64;
            SyncMode::Periodic { period: Duration::from_millis(period) }
        }
        other => return Err(format!("option commitlog_sync: neither periodic nor batch: {other}")),
    };
    let memory = memory_bytes(values)?;
    let per_shard = memory / shards as u64;
    let log_bytes = match values.integer("commitlog_total_space_in_mb") {
        ..0 => memory.min(8 << 30),
        megabytes => (megabytes as u64) << 20,
    };
    let segment_bytes = (values.integer("commitlog_segment_size_in_mb").max(1) as usize) << 20;
    // The node's own id takes the place of this one when it is booted.
    let mut config = storage::Config::new(&workdir, model::Uuid::nil());
    config.data_dir = below("data_file_directories", "data");
    config.commitlog_dir = below("commitlog_directory", "commitlog");
    config.schema_commitlog_dir = below("schema_commitlog_directory", "commitlog/schema");
    config.sync = sync;
    config.segment_bytes = segment_bytes;
    config.commitlog_bytes_max = (log_bytes / shards as u64).max(4 * segment_bytes as u64);
    let threshold = u64::try_from(values.integer("commitlog_flush_threshold_in_mb")).ok();
    config.commitlog_flush_bytes = threshold.map(|megabytes| (megabytes << 20) / shards as u64);
    let lifetime = u64::try_from(values.integer("commitlog_max_data_lifetime_in_seconds")).ok();
    config.commitlog_lifetime = lifetime.filter(|secs| 0 < *secs).map(Duration::from_secs);
    let division = Division::of(per_shard as usize, 0).map_err(|_| {
        let needed = (shards as u64 * SHARD_BYTES_MIN as u64) >> 20;
        format!("option memory: {memory} bytes; {shards} shards need {needed}M at least")
    })?;
    config.memtable_bytes_max = division.memtables_max;
    config.memory_bytes = division.shard;
    config.heap_bytes = Some(memory::backed_bytes);
    config.index_cache_bytes = index_cache_bytes(values, per_shard)?;
    if !values.flag("enable_cache") {
        config.row_cache_bytes_max = 0;
    }
    config.sstables = sstables(values)?;
    config.incremental_backups = values.flag("incremental_backups");
    config.read_timeout = millis(values, "read_request_timeout_in_ms");
    config.range_read_timeout = millis(values, "range_request_timeout_in_ms");
    Ok(config)
}

/// `index_cache_fraction` of a shard's memory, which caches have nearly to themselves while
/// memtables are flushed; none with `cache_index_pages` off.
fn index_cache_bytes(values: &Values, shard_bytes: u64) -> Result<usize, String> {
    let bytes = fraction(values, "index_cache_fraction", shard_bytes)?;
    Ok(if values.flag("cache_index_pages") { bytes } else { 0 })
}

/// The part of `whole` that an option says.
fn fraction(values: &Values, name: &str, whole: u64) -> Result<usize, String> {
    let text = values.text(name);
    match text.parse::<f64>() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok((whole as f64 * fraction) as usize),
        _ => Err(format!("option {name}: not between 0 and 1: {text}")),
    }
}

/// How SSTables are written where their table does not say.
fn sstables(values: &Values) -> Result<WriterDefaults, String> {
    let bytes = |name: &str, least: i64| match values.integer(name) {
        kib if (least..=1 << 20).contains(&kib) => Ok((kib as usize) << 10),
        kib => Err(format!("option {name}: not between {least} and 1048576: {kib}")),
    };
    let name = values.text("sstable_format");
    let version = WriterDefaults::version_of(name);
    Ok(WriterDefaults {
        version: version.ok_or(format!("option sstable_format: none of me, ms, mt: {name}"))?,
        column_index_bytes: bytes("column_index_size_in_kb", 1)?,
        // With 0 blocks never grow.
        column_index_scale_bytes: match bytes("column_index_auto_scale_threshold_in_kb", 0)? {
            0 => usize::MAX,
            bytes => bytes,
        },
        ..WriterDefaults::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::values;

    #[test]
    fn options_of_sstables_are_read_or_refused() {
        let check = |name: &str, text: &str, expected: Option<WriterDefaults>| {
            assert_eq!(sstables(&values(&[(name, text)])).ok(), expected, "{name} {text}");
        };
        let me = WriterDefaults::default();
        let usual = WriterDefaults { version: sstable::Version::Ms, ..me };
        let kib = |column_index_bytes| Some(WriterDefaults { column_index_bytes, ..usual });
        let scale = |bytes| Some(WriterDefaults { column_index_scale_bytes: bytes, ..usual });
        check("sstable_format", "me", Some(me));
        check("sstable_format", "ms", Some(usual));
        let newest = WriterDefaults { version: sstable::Version::Mt, ..me };
        check("sstable_format", "mt", Some(newest));
        check("column_index_size_in_kb", "1", kib(1024));
        check("column_index_size_in_kb", "0", None);
        check("column_index_size_in_kb", "-1", None);
        check("column_index_auto_scale_threshold_in_kb", "1", scale(1024));
        check("column_index_auto_scale_threshold_in_kb", "0", scale(usize::MAX));
    }

    #[test]
    fn tokens_are_given_by_commas() {
        let check = |text: &str, expected: Option<&[i64]>| {
            let found = initial_tokens(text).ok();
            let found = found.map(|all| all.iter().map(|token| token.0).collect::<Vec<_>>());
            assert_eq!(found, expected.map(<[i64]>::to_vec), "{text}");
        };
        check("", Some(&[]));
        check("7", Some(&[7]));
        check("-5, 0,9223372036854775807", Some(&[-5, 0, i64::MAX]));
        check("-9223372036854775808", None);
        check("1 2", None);
        check("etaoin", None);
    }

    #[test]
    fn the_index_cache_has_its_part_of_the_memory() {
        let check = |given: &[(&str, &str)], expected: Option<usize>| {
            assert_eq!(index_cache_bytes(&values(given), 1000).ok(), expected, "{given:?}");
        };
        check(&[], Some(200));
        check(&[("index_cache_fraction", "0.5")], Some(500));
        check(&[("index_cache_fraction", "0")], Some(0));
        check(&[("cache_index_pages", "0")], Some(0));
        check(&[("index_cache_fraction", "1.5")], None);
    }
}
