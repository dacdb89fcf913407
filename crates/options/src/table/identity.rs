//! Who a node is, and where it keeps its data.

use super::*;

const SNITCHES: Words = &[
    "SimpleSnitch",
    "GossipingPropertyFileSnitch",
    "PropertyFileSnitch",
    "RackInferringSnitch",
    "Ec2Snitch",
    "Ec2MultiRegionSnitch",
    "GoogleCloudSnitch",
    "AzureSnitch",
];

/// All but the first three are accepted, and ask for what is always there or is no more.
const FEATURES: Words = &[
    "udf",
    "strongly-consistent-tables",
    "logstor",
    "lwt",
    "cdc",
    "alternator-streams",
    "alternator-ttl",
    "consistent-topology-changes",
    "keyspace-storage-options",
    "tablets",
    "views-with-tablets",
];

pub(super) const ROWS: &[OptionRow] = &[
    text("cluster_name", "", "Name of the cluster"),
    word(
        "persona",
        "auto",
        &["auto", "nereid", "scylla"],
        "Name in log lines that launchers look for; auto: scylla if the program is called scylla",
    ),
    text("workdir", "nereid-data", "Directory of all data").short('W'),
    list("data_file_directories", "", "Directory of SSTables; default: data in workdir"),
    text("commitlog_directory", "", "Directory of the commitlog; default: commitlog in workdir"),
    text(
        "schema_commitlog_directory",
        "",
        "Directory of the schema commitlog; default: schema in the commitlog directory",
    ),
    text("hints_directory", "", "Folder of hints; default: hints in workdir"),
    text("view_hints_directory", "", "Folder of hints of views; view_hints in workdir").idle(),
    text("saved_caches_directory", "", "Folder of saved caches").idle(),
    class("endpoint_snitch", "SimpleSnitch", SNITCHES, "How a node knows its data center and rack"),
    list("seeds", "", "Addresses of nodes of the cluster to join, by commas"),
    tree("seed_provider", "class_name and parameters with seeds, in files of options"),
    list("seed_provider_class_name", "", "seed_provider's class_name, on the command line").idle(),
    list("seed_provider_parameters", "", "Its parameters, such as seeds=10.0.0.1"),
    number("num_tokens", "1", "Token ranges of the node in keyspaces without tablets"),
    text("initial_token", "", "The tokens of a new node, by commas; random ones if not said"),
    class(
        "partitioner",
        "org.apache.cassandra.dht.Murmur3Partitioner",
        &["Murmur3Partitioner"],
        "How keys become tokens",
    )
    .idle(),
    flag("auto_bootstrap", "true", "Take over data when the node joins").idle(),
    flag("join_ring", "true", "Own tokens; false: a new node coordinates only, for life"),
    text("replace_node_first_boot", "", "Host id of the dead node that this one replaces"),
    text("replace_address", "", "Address of the node that this one replaces; old name"),
    text("replace_address_first_boot", "", "The same, ignored after the first start"),
    text(
        "ignore_dead_nodes_for_replace",
        "",
        "Host ids or addresses, by commas, of other nodes that are dead when it replaces one",
    ),
    text("recovery_leader", "", "Host id of the node that leads a recovery").live().idle(),
    text("host_id", "", "Host id of a new node; drawn by default").idle(),
    number("ring_delay_ms", "30000", "Milliseconds until others know of a change").idle(),
    number("shadow_round_ms", "300000", "Milliseconds to wait for the first answer of seeds")
        .idle(),
    number("shutdown_announce_in_ms", "2000", "Milliseconds between saying so and ending").idle(),
    number("skip_wait_for_gossip_to_settle", "-1", "Whether to wait for news of all nodes").idle(),
    number(
        "murmur3_partitioner_ignore_msb_bits",
        "12",
        "Leading bits of tokens that do not choose the shard; 12 is the only value",
    ),
    flag("developer_mode", "false", "Skip the checks of the environment").idle(),
    flag("maintenance_mode", "false", "Serve CQL on the maintenance socket only"),
    words("experimental_features", "", FEATURES, "Experimental features to enable"),
    flag("experimental", "false", "All of them; old name").idle(),
    flag("load_balance", "false", "Obsolete: always on").idle(),
    flag("consistent_cluster_management", "true", "Obsolete: always on").idle(),
    flag("force_schema_commit_log", "true", "Obsolete: always on").idle(),
    flag("force_gossip_topology_changes", "false", "Obsolete: never done").idle(),
    text(
        "maintenance_socket",
        "ignore",
        "CQL socket without authentication: ignore, workdir (cql.m in workdir) or a path",
    ),
    text(
        "maintenance_socket_group",
        "",
        "Group that may use the maintenance socket, besides the node's own user",
    ),
];
