//! The system tables, as text.
//!
//! `columns` is a list of `name type [role]`, separated by `;`. Roles: `p` partition key, `c`
//! clustering, `d` clustering descending, `s` static. Types are CQL types without spaces.
//!
//! Invariants
//!  - *append-only*: column ids of stored tables follow the order of this text, and rows on disk
//!    name columns by id: new columns go to the end, none is ever removed or moved.
//!
//! Names and types follow Cassandra 3.x and ScyllaDB, whose drivers and tools read these tables.

use super::{Definition, Home};

/// For how long deletions are kept, where nothing else is said.
const WEEK_SECS: i32 = 604_800;

const fn schema(name: &'static str, columns: &'static str) -> Definition {
    Definition {
        keyspace: "system_schema",
        name,
        home: Home::SchemaLog,
        gc_grace_secs: WEEK_SECS,
        columns,
    }
}
const fn core(name: &'static str, columns: &'static str) -> Definition {
    Definition {
        keyspace: "system",
        name,
        home: Home::SchemaLog,
        gc_grace_secs: WEEK_SECS,
        columns,
    }
}
/// What is written and deleted all the time, and has no other replica: a deletion that covers
/// nothing any more is of no use.
const fn raft(name: &'static str, columns: &'static str) -> Definition {
    Definition { gc_grace_secs: 0, ..core(name, columns) }
}
const fn stored(name: &'static str, columns: &'static str) -> Definition {
    Definition { keyspace: "system", name, home: Home::DataLog, gc_grace_secs: WEEK_SECS, columns }
}
const fn computed(name: &'static str, columns: &'static str) -> Definition {
    Definition { keyspace: "system", name, home: Home::Virtual, gc_grace_secs: WEEK_SECS, columns }
}
const fn traces(name: &'static str, columns: &'static str) -> Definition {
    Definition {
        keyspace: "system_traces",
        name,
        home: Home::DataLog,
        gc_grace_secs: WEEK_SECS,
        columns,
    }
}
const fn distributed(name: &'static str, columns: &'static str) -> Definition {
    Definition {
        keyspace: "system_distributed",
        name,
        home: Home::Virtual,
        gc_grace_secs: WEEK_SECS,
        columns,
    }
}
const fn virtual_schema(name: &'static str, columns: &'static str) -> Definition {
    Definition {
        keyspace: "system_virtual_schema",
        name,
        home: Home::Virtual,
        gc_grace_secs: WEEK_SECS,
        columns,
    }
}

/// Every user type of the system: keyspace, name, and fields as the columns of tables.
pub(super) const TYPES: &[(&str, &str, &str)] =
    &[("system", "sstableinfo", "generation uuid; origin text; size bigint")];

/// Every table of the system.
pub(super) const DEFINITIONS: &[Definition] = &[
    // What the node is and what it owns.
    core(
        "local",
        "key text p; bootstrapped text; broadcast_address inet; cluster_name text; \
         cql_version text; data_center text; gossip_generation int; host_id uuid; \
         listen_address inet; native_protocol_version text; partitioner text; rack text; \
         release_version text; rpc_address inet; schema_version uuid; supported_features text; \
         tokens set<text>; truncated_at map<uuid,blob>; broadcast_port int; listen_port int; \
         rpc_port int",
    ),
    core("scylla_local", "key text p; value text"),
    core(
        "tablets",
        "table_id uuid p; last_token bigint c; base_table uuid s; keyspace_name text s; \
         repair_scheduler_config frozen<map<text,text>> s; resize_seq_number bigint s; \
         resize_task_info frozen<map<text,text>> s; resize_type text s; table_name text s; \
         tablet_count int s; migration_task_info frozen<map<text,text>>; \
         new_replicas frozen<list<frozen<tuple<uuid,int>>>>; \
         repair_task_info frozen<map<text,text>>; repair_time timestamp; \
         replicas frozen<list<frozen<tuple<uuid,int>>>>; session uuid; \
         sstables_repaired_at bigint; stage text; transition text; \
         target_pow2_tablet_count int s",
    ),
    // The log of the group of all nodes. Ours are `kind` (a command, or a change of members),
    // `origin` (who proposed it), `changed_at` (the timestamp of the latest change: the next is
    // later, whatever the clock says), `last_idx` (where the entries end: a loss is seen by it),
    // `snapshot` and `staged` (the snapshot that the log begins after, and one that is about to be
    // taken over, with their members, as bytes: what changes together is in one partition).
    raft(
        "raft",
        "group_id timeuuid p; index bigint c; commit_idx bigint s; snapshot_id uuid s; \
         vote uuid s; vote_term bigint s; data blob; term bigint; changed_at bigint s; \
         last_idx bigint s; kind text; origin blob; snapshot blob s; staged blob s",
    ),
    // What `raft` says of its snapshot, as rows; nobody reads them back.
    raft("raft_snapshots", "group_id timeuuid p; idx bigint; snapshot_id uuid; term bigint"),
    raft(
        "raft_snapshot_config",
        "group_id timeuuid p; disposition text c; server_id uuid c; can_vote boolean",
    ),
    // Batches of several shards: in the log that is always synced, and before the data log.
    core("batchlog", "id uuid p; data blob; version int; written_at timestamp"),
    // Ours: what writes brought with them for views elsewhere, until it is there. On the shard of
    // the write, in its entry of the data log.
    Definition {
        gc_grace_secs: 0,
        ..stored("nereid_view_updates", "id uuid p; data blob; version int; written_at timestamp")
    },
    // Ours: how far a shard is with the building of a view. In its data log.
    stored("nereid_view_builds", "id uuid p; place blob; shards int; view uuid"),
    computed(
        "peers",
        "peer inet p; data_center text; host_id uuid; preferred_ip inet; rack text; \
         release_version text; rpc_address inet; schema_version uuid; supported_features text; \
         tokens set<text>",
    ),
    // As drivers ask servers from release 4 on.
    computed(
        "peers_v2",
        "peer inet p; peer_port int c; data_center text; host_id uuid; native_address inet; \
         native_port int; preferred_ip inet; preferred_port int; rack text; \
         release_version text; schema_version uuid; tokens set<text>",
    ),
    stored(
        "truncated",
        "table_uuid uuid p; shard int c; position int; segment_id bigint; \
         truncated_at timestamp s",
    ),
    stored(
        "paxos",
        "row_key blob p; cf_id uuid c; most_recent_commit blob; most_recent_commit_at timeuuid; \
         promise timeuuid; proposal blob; proposal_ballot timeuuid",
    ),
    stored(
        "compaction_history",
        "id uuid p; bytes_in bigint; bytes_out bigint; columnfamily_name text; \
         compacted_at timestamp; keyspace_name text; rows_merged map<int,bigint>; shard_id int; \
         compaction_type text; started_at timestamp; sstables_in list<frozen<sstableinfo>>; \
         sstables_out list<frozen<sstableinfo>>; total_tombstone_purge_attempt bigint; \
         total_tombstone_purge_failure_due_to_overlapping_with_memtable bigint; \
         total_tombstone_purge_failure_due_to_overlapping_with_uncompacting_sstable bigint",
    ),
    stored(
        "client_routes",
        "connection_id text p; host_id uuid c; address text; port int; tls_port int; \
         alternator_port int; alternator_https_port int",
    ),
    // What is computed when it is asked for.
    computed(
        "clients",
        "address inet p; port int c; client_type text c; connection_stage text; driver_name text; \
         driver_version text; hostname text; protocol_version int; scheduling_group text; \
         shard_id int; ssl_cipher_suite text; ssl_enabled boolean; ssl_protocol text; \
         username text; client_options frozen<map<text,text>>",
    ),
    computed("config", "name text p; source text; type text; value text"),
    computed("versions", "key text p; build_id text; build_mode text; version text"),
    computed(
        "protocol_servers",
        "name text p; listen_addresses frozen<list<text>>; protocol text; protocol_version text",
    ),
    computed("one_row", "system$dummy text p"),
    computed("runtime_info", "group text p; item text c; value text"),
    computed(
        "cluster_status",
        "peer inet p; dc text; draining boolean; excluded boolean; host_id uuid; load text; \
         owns float; rack text; status text; tokens int; up boolean",
    ),
    computed(
        "token_ring",
        "keyspace_name text p; table_name text c; start_token text c; endpoint inet c; dc text; \
         end_token text; rack text",
    ),
    computed(
        "snapshots",
        "keyspace_name text p; table_name text c; snapshot_name text c; live bigint; total bigint",
    ),
    computed(
        "size_estimates",
        "keyspace_name text p; table_name text c; range_start text c; range_end text c; \
         mean_partition_size bigint; partitions_count bigint",
    ),
    computed(
        "load_per_node",
        "node uuid p; dc text; effective_capacity bigint; ip inet; rack text; \
         storage_allocated_load bigint; storage_allocated_utilization double; \
         storage_capacity bigint; storage_load bigint; storage_utilization double; \
         tablets_allocated bigint; tablets_allocated_per_shard double; up boolean",
    ),
    computed(
        "tablet_sizes",
        "table_id uuid p; last_token bigint c; missing_replicas frozen<set<uuid>>; \
         replicas frozen<map<uuid,bigint>>",
    ),
    // What stays empty on a node alone, or until its mechanism is there.
    computed("built_views", "keyspace_name text p; view_name text c; status_replicated boolean"),
    computed(
        "views_builds_in_progress",
        "keyspace_name text p; view_name text c; generation_number int; last_token text",
    ),
    computed(
        "scylla_views_builds_in_progress",
        "keyspace_name text p; view_name text c; cpu_id int c; first_token text; \
         generation_number int; next_token text",
    ),
    computed(
        "view_build_status_v2",
        "keyspace_name text p; view_name text p; host_id uuid c; status text",
    ),
    computed("IndexInfo", "table_name text p; index_name text c"),
    computed(
        "large_partitions",
        "keyspace_name text p; table_name text p; sstable_name text c; partition_size bigint d; \
         partition_key text c; compaction_time timestamp; dead_rows bigint; \
         range_tombstones bigint; rows bigint",
    ),
    computed(
        "large_rows",
        "keyspace_name text p; table_name text p; sstable_name text c; row_size bigint d; \
         partition_key text c; clustering_key text c; compaction_time timestamp",
    ),
    computed(
        "large_cells",
        "keyspace_name text p; table_name text p; sstable_name text c; cell_size bigint d; \
         partition_key text c; clustering_key text c; column_name text c; \
         collection_elements bigint; compaction_time timestamp",
    ),
    // The nodes. Ours are `address` and `port` (where nodes connect to), `client_address` and
    // `client_port` (where clients do; -1: nowhere).
    core(
        "topology",
        "key text p; host_id uuid c; enabled_features set<text> s; fence_version bigint s; \
         global_topology_request text s; session uuid s; tablet_balancing_enabled boolean s; \
         transition_state text s; upgrade_state text s; version bigint s; cleanup_status text; \
         datacenter text; ignore_msb int; node_state text; num_tokens int; rack text; \
         rebuild_option text; release_version text; replaced_id uuid; request_id timeuuid; \
         shard_count int; supported_features set<text>; tokens set<text>; tokens_string text; \
         topology_request text; address inet; client_address inet; client_port int; port int; \
         ignore_nodes set<uuid> s; nereid_streams blob s; nereid_converting set<text> s; \
         intended_storage_mode text",
    ),
    computed(
        "topology_requests",
        "id timeuuid p; done boolean; end_time timestamp; error text; initiating_host uuid; \
         request_type text; start_time timestamp",
    ),
    raft("group0_history", "key text p; state_id timeuuid d; description text"),
    computed(
        "raft_state",
        "group_id timeuuid p; disposition text c; server_id uuid c; can_vote boolean",
    ),
    computed("discovery", "key text p; ip_addr inet c; raft_server_id uuid"),
    core(
        "roles",
        "role text p; can_login boolean; is_superuser boolean; member_of set<text>; \
         salted_hash text",
    ),
    core("role_members", "role text p; member text c"),
    core("role_attributes", "role text p; name text c; value text"),
    core("role_permissions", "role text p; resource text c; permissions set<text>"),
    core(
        "service_levels_v2",
        "service_level text p; shares int; timeout duration; workload_type text",
    ),
    core(
        "nereid_streams",
        "table_id uuid p; since timestamp c; last_token bigint c; streams frozen<list<blob>>",
    ),
    computed(
        "cdc_streams",
        "keyspace_name text p; table_name text p; timestamp timestamp c; \
         stream_state tinyint c; stream_id blob c",
    ),
    computed("cdc_timestamps", "keyspace_name text p; table_name text p; timestamp timestamp d"),
    computed("cdc_local", "key text p; streams_timestamp timestamp; uuid uuid"),
    computed(
        "sstable_activity",
        "keyspace_name text p; columnfamily_name text p; generation int p; rate_120m double; \
         rate_15m double",
    ),
    computed(
        "compactions_in_progress",
        "id uuid p; columnfamily_name text; inputs set<int>; keyspace_name text",
    ),
    computed("peer_events", "peer inet p; hints_dropped map<uuid,int>"),
    computed("range_xfers", "token_bytes blob p; requested_at timestamp"),
    computed("available_ranges", "keyspace_name text p; ranges set<blob>"),
    computed("hints", "target_id uuid p; hint_id timeuuid c; message_version int c; mutation blob"),
    computed("batches", "id timeuuid p; mutations list<blob>; version int"),
    stored(
        "repair_history",
        "table_uuid uuid p; repair_time timestamp d; repair_uuid uuid c; range_start bigint c; \
         range_end bigint c; keyspace_name text; table_name text",
    ),
    // The schema, as tables. The last two columns of tables and views are options of Cassandra that
    // are not kept: drivers read them from servers of our release, and no options where they lack.
    schema(
        "keyspaces",
        "keyspace_name text p; durable_writes boolean; replication frozen<map<text,text>>; \
         next_replication frozen<map<text,text>>; replication_v2 frozen<map<text,text>>",
    ),
    schema(
        "scylla_keyspaces",
        "keyspace_name text p; initial_tablets int; storage_options frozen<map<text,text>>; \
         storage_type text; consistency text; previous_replication frozen<map<text,text>>",
    ),
    schema(
        "tables",
        "keyspace_name text p; table_name text c; bloom_filter_fp_chance double; \
         caching frozen<map<text,text>>; comment text; compaction frozen<map<text,text>>; \
         compression frozen<map<text,text>>; crc_check_chance double; \
         dclocal_read_repair_chance double; default_time_to_live int; \
         extensions frozen<map<text,blob>>; flags frozen<set<text>>; gc_grace_seconds int; \
         id uuid; max_index_interval int; memtable_flush_period_in_ms int; \
         min_index_interval int; read_repair_chance double; speculative_retry text; \
         additional_write_policy text; read_repair text",
    ),
    schema(
        "scylla_tables",
        "keyspace_name text p; table_name text c; cdc frozen<map<text,text>>; \
         committed_by_group0 boolean; partitioner text; paxos_grace_seconds int; \
         per_partition_rate_limit frozen<map<text,text>>; tablets frozen<map<text,text>>; \
         tombstone_gc frozen<map<text,text>>; version timeuuid",
    ),
    schema(
        "columns",
        "keyspace_name text p; table_name text c; column_name text c; clustering_order text; \
         column_name_bytes blob; kind text; position int; type text",
    ),
    schema(
        "nereid_columns",
        "keyspace_name text p; table_name text c; column_id int c; column_name text; \
         dropped_at bigint; kind text; type text; computed text; computed_of text",
    ),
    schema(
        "nereid_views",
        "keyspace_name text p; view_name text c; \
         filter frozen<list<frozen<tuple<frozen<list<text>>,text,\
         frozen<list<frozen<list<blob>>>>>>>>; is_synchronous boolean",
    ),
    schema(
        "nereid_logs",
        "keyspace_name text p; table_name text c; attached boolean; base_id uuid; base_name text",
    ),
    schema(
        "nereid_indexes",
        "keyspace_name text p; table_name text c; index_name text c; class text; \
         column_name text; is_local boolean; options frozen<map<text,text>>; target text",
    ),
    schema(
        "dropped_columns",
        "keyspace_name text p; table_name text c; column_name text c; dropped_time timestamp; \
         kind text; type text",
    ),
    schema(
        "triggers",
        "keyspace_name text p; table_name text c; trigger_name text c; \
         options frozen<map<text,text>>",
    ),
    schema(
        "views",
        "keyspace_name text p; view_name text c; base_table_id uuid; base_table_name text; \
         bloom_filter_fp_chance double; caching frozen<map<text,text>>; comment text; \
         compaction frozen<map<text,text>>; compression frozen<map<text,text>>; \
         crc_check_chance double; dclocal_read_repair_chance double; default_time_to_live int; \
         extensions frozen<map<text,blob>>; gc_grace_seconds int; id uuid; \
         include_all_columns boolean; max_index_interval int; memtable_flush_period_in_ms int; \
         min_index_interval int; read_repair_chance double; speculative_retry text; \
         where_clause text; additional_write_policy text; read_repair text",
    ),
    schema(
        "types",
        "keyspace_name text p; type_name text c; field_names frozen<list<text>>; \
         field_types frozen<list<text>>",
    ),
    schema(
        "functions",
        "keyspace_name text p; function_name text c; argument_types frozen<list<text>> c; \
         argument_names frozen<list<text>>; body text; called_on_null_input boolean; \
         language text; return_type text",
    ),
    schema(
        "aggregates",
        "keyspace_name text p; aggregate_name text c; argument_types frozen<list<text>> c; \
         final_func text; initcond text; return_type text; state_func text; state_type text",
    ),
    schema(
        "scylla_aggregates",
        "keyspace_name text p; aggregate_name text c; argument_types frozen<list<text>> c; \
         reduce_func text; state_type text",
    ),
    schema(
        "indexes",
        "keyspace_name text p; table_name text c; index_name text c; kind text; \
         options frozen<map<text,text>>",
    ),
    schema(
        "view_virtual_columns",
        "keyspace_name text p; view_name text c; column_name text c; clustering_order text; \
         column_name_bytes blob; kind text; position int; type text",
    ),
    schema(
        "computed_columns",
        "keyspace_name text p; table_name text c; column_name text c; computation blob",
    ),
    schema(
        "scylla_table_schema_history",
        "cf_id uuid p; schema_version uuid c; column_name text c; clustering_order text; \
         column_name_bytes blob; kind text; position int; type text",
    ),
    // Traces of requests.
    traces(
        "sessions",
        "session_id uuid p; client inet; command text; coordinator inet; duration int; \
         parameters map<text,text>; request text; request_size int; response_size int; \
         started_at timestamp; username text",
    ),
    traces(
        "events",
        "session_id uuid p; event_id timeuuid c; activity text; scylla_parent_id bigint; \
         scylla_span_id bigint; source inet; source_elapsed int; thread text",
    ),
    traces("sessions_time_idx", "minute timestamp p; started_at timestamp c; session_id uuid c"),
    traces(
        "node_slow_log",
        "start_time timeuuid p; node_ip inet c; shard int c; command text; date timestamp; \
         duration int; parameters map<text,text>; session_id uuid; source_ip inet; \
         table_names set<text>; username text",
    ),
    traces(
        "node_slow_log_time_idx",
        "minute timestamp p; started_at timestamp c; session_id uuid c; node_ip inet; shard int; \
         start_time timeuuid",
    ),
    // What a cluster shares.
    distributed(
        "view_build_status",
        "keyspace_name text p; view_name text p; host_id uuid c; status text",
    ),
    distributed("cdc_generation_timestamps", "key text p; time timestamp d; expired timestamp"),
    distributed(
        "cdc_streams_descriptions_v2",
        "time timestamp p; range_end bigint c; streams frozen<set<blob>>",
    ),
    distributed(
        "snapshots",
        "name text p; created_at timestamp; expires_at timestamp; tags frozen<map<text,text>>",
    ),
    // Drivers ask here for virtual keyspaces, of which there are none: our computed tables stand in
    // `system_schema` like all others.
    virtual_schema("keyspaces", "keyspace_name text p"),
    virtual_schema("tables", "keyspace_name text p; table_name text c; comment text"),
    virtual_schema(
        "columns",
        "keyspace_name text p; table_name text c; column_name text c; clustering_order text; \
         column_name_bytes blob; kind text; position int; type text",
    ),
];
