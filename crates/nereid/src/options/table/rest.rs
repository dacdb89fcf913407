//! Functions of users, search, metrics, tasks, and what else there is.

use super::*;

pub(super) const FUNCTIONS: &[OptionRow] = &[
    flag("enable_user_defined_functions", "false", "Allow functions and aggregates of users"),
    number("user_defined_function_time_limit_ms", "10", "Milliseconds of a call"),
    number("user_defined_function_allocation_limit_bytes", "1048576", "Bytes of a call"),
    number(
        "user_defined_function_contiguous_allocation_limit_bytes",
        "1048576",
        "Bytes of one allocation of a call",
    )
    .idle(),
    decimal("wasm_cache_memory_fraction", "0.01", "Part of the memory for instances that wait"),
    number("wasm_cache_timeout_in_ms", "5000", "Milliseconds that an instance waits"),
    number("wasm_cache_instance_size_limit", "1048576", "Bytes of an instance that may wait"),
    number("wasm_udf_total_fuel", "100000000", "Fuel of a call"),
    number("wasm_udf_yield_fuel", "100000", "Fuel after which a call yields"),
    number("wasm_udf_memory_limit", "2097152", "Bytes of an instance"),
];

pub(super) const VECTORS: &[OptionRow] = &[
    text("vector_store_primary_uri", "", "Nodes of the vector store, by commas").live().idle(),
    text("vector_store_secondary_uri", "", "Nodes to ask when none of these answers").live().idle(),
    number(
        "vector_store_unreachable_node_detection_time_in_ms",
        "3000",
        "Milliseconds until a silent one is given up",
    )
    .live()
    .idle(),
    map(
        "vector_store_encryption_options",
        &["certificate", "keyfile", "truststore"],
        "TLS of the vector store",
    )
    .idle(),
];

pub(super) const ROWS: &[OptionRow] = &[
    flag("enable_cql_config_updates", "true", "Older form of the next").live().idle(),
    flag(
        "live_updatable_config_params_changeable_via_cql",
        "true",
        "Let statements change options in system.config",
    ),
    flag(
        "cql_duplicate_bind_variable_names_refer_to_same_variable",
        "true",
        "Markers of the same name are one variable",
    )
    .live(),
    flag(
        "cql_in_bind_variable_name_uses_uppercase_operator",
        "true",
        "A marker after IN is called IN(x), not in(x)",
    )
    .live(),
    flag("enable_parallelized_aggregation", "true", "Let every shard count").live(),
    flag("enable_keyspace_column_family_metrics", "false", "Metrics of each table, shard by shard"),
    flag(
        "enable_node_aggregated_table_metrics",
        "true",
        "Metrics of each table, of all shards together",
    ),
    text("relabel_config_file", "", "File that says how metrics are labelled"),
    number(
        "large_memory_allocation_warning_threshold",
        "131073",
        "Bytes of an allocation to report",
    )
    .idle(),
    flag("abort_on_lsa_bad_alloc", "false", "End the process when the cache cannot shrink").idle(),
    flag("abort_on_internal_error", "false", "End the process at a mistake of ours").live().idle(),
    flag("abort_on_ebadf", "true", "End the process at a wrong file descriptor").idle(),
    number("task_ttl_in_seconds", "0", "Seconds that a task is shown after it has ended")
        .live()
        .idle(),
    number("user_task_ttl_in_seconds", "3600", "The same, of tasks that an operator started")
        .live()
        .idle(),
    list("error_injections_at_startup", "", "Errors to make on purpose, in debug builds")
        .live()
        .idle(),
    text("cpu_scheduler", "", "Older form of what is always done").idle(),
    flag("volatile_system_keyspace_for_testing", "false", "Keep system tables in memory").idle(),
];
