//! What SUPPORTED tells a client of this node, so that shard-aware drivers route each
//! request to the shard that owns its token.
//!
//! Source: cql-surface reference, section 7.2.

/// What SUPPORTED says of the shard and its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) host_id: String,
    pub(crate) shard: u16,
    pub(crate) shards: u16,
    /// With neither port drivers are not told of shards.
    pub(crate) ports: ShardAware,
}

/// The ports where the source port chooses the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardAware {
    pub(crate) plain: Option<u16>,
    pub(crate) encrypted: Option<u16>,
}

/// Extension keys that a client may echo in STARTUP.
pub(crate) const LWT_MARK: &str = "SCYLLA_LWT_ADD_METADATA_MARK";
pub(crate) const METADATA_ID: &str = "SCYLLA_USE_METADATA_ID";
pub(crate) const RATE_LIMIT_ERROR: &str = "SCYLLA_RATE_LIMIT_ERROR";
pub(crate) const TABLETS: &str = "TABLETS_ROUTING_V1";

/// The entries of SUPPORTED.
pub(crate) fn entries(facts: &Facts) -> Vec<(&'static str, Vec<String>)> {
    let one = |text: &str| vec![text.to_string()];
    let mut entries = vec![
        ("CQL_VERSION", one(cluster::node::CQL_VERSION)),
        ("COMPRESSION", vec!["lz4".to_string(), "snappy".to_string()]),
        ("PROTOCOL_VERSIONS", vec!["3/v3".into(), "4/v4".into(), "5/v5".into()]),
        ("CLIENT_OPTIONS", Vec::new()),
        ("SCYLLA_HOST_ID", one(&facts.host_id)),
        (LWT_MARK, one("LWT_OPTIMIZATION_META_BIT_MASK=2147483648")),
        (RATE_LIMIT_ERROR, one("ERROR_CODE=61440")),
        (METADATA_ID, Vec::new()),
    ];
    if facts.ports != ShardAware::default() {
        entries.extend([
            (TABLETS, Vec::new()),
            ("SCYLLA_SHARD", one(&facts.shard.to_string())),
            ("SCYLLA_NR_SHARDS", one(&facts.shards.to_string())),
            ("SCYLLA_SHARDING_ALGORITHM", one("biased-token-round-robin")),
            ("SCYLLA_SHARDING_IGNORE_MSB", one(&model::Sharder::IGNORED_BITS.to_string())),
            ("SCYLLA_PARTITIONER", one(cluster::node::PARTITIONER)),
        ]);
        let ports = [
            ("SCYLLA_SHARD_AWARE_PORT", facts.ports.plain),
            ("SCYLLA_SHARD_AWARE_PORT_SSL", facts.ports.encrypted),
        ];
        let open = ports.into_iter().filter_map(|(name, port)| Some((name, port?)));
        entries.extend(open.map(|(name, port)| (name, one(&port.to_string()))));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_told_of_where_drivers_may_use_them() {
        let facts = |plain, encrypted| Facts {
            host_id: "h".to_string(),
            shard: 1,
            shards: 2,
            ports: ShardAware { plain, encrypted },
        };
        let find = |entries: &[(&str, Vec<String>)], key| {
            entries.iter().find(|(name, _)| *name == key).map(|(_, values)| values.join(","))
        };
        let aware = entries(&facts(Some(19042), None));
        assert_eq!(find(&aware, "SCYLLA_SHARD_AWARE_PORT").as_deref(), Some("19042"));
        assert_eq!(find(&aware, "SCYLLA_SHARD").as_deref(), Some("1"));
        assert_eq!(find(&aware, TABLETS).as_deref(), Some(""));
        assert_eq!(find(&aware, "SCYLLA_SHARD_AWARE_PORT_SSL"), None);
        let both = entries(&facts(Some(19042), Some(19142)));
        assert_eq!(find(&both, "SCYLLA_SHARD_AWARE_PORT_SSL").as_deref(), Some("19142"));
        let encrypted = entries(&facts(None, Some(19142)));
        assert_eq!(find(&encrypted, "SCYLLA_SHARD_AWARE_PORT"), None);
        assert_eq!(find(&encrypted, "SCYLLA_SHARD").as_deref(), Some("1"));
        let unaware = entries(&facts(None, None));
        assert_eq!([find(&unaware, "SCYLLA_NR_SHARDS"), find(&unaware, TABLETS)], [None, None]);
    }
}
