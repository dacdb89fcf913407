//! Functions of users, search, metrics, tasks, and what else there is.

use super::*;

pub(super) const FUNCTIONS: &[OptionRow] = &[
    flag("enable_user_defined_functions", "false", "Allow user-defined functions and aggregates"),
    number(
        "user_defined_function_time_limit_ms",
        "10",
        "Time limit of a function call, in milliseconds",
    ),
    number(
        "user_defined_function_allocation_limit_bytes",
        "1048576",
        "Memory limit of a function call, in bytes",
    ),
    number(
        "user_defined_function_contiguous_allocation_limit_bytes",
        "1048576",
        "Bytes of one allocation of a call",
    )
    .idle(),
    decimal(
        "wasm_cache_memory_fraction",
        "0.01",
        "Fraction of memory for idle WebAssembly instances",
    ),
    number("wasm_cache_timeout_in_ms", "5000", "Milliseconds that an idle instance is kept"),
    number(
        "wasm_cache_instance_size_limit",
        "1048576",
        "Maximum size of an instance that is kept, in bytes",
    ),
    number("wasm_udf_total_fuel", "100000000", "Fuel of a WebAssembly call"),
    number("wasm_udf_yield_fuel", "100000", "Fuel after which a WebAssembly call yields"),
    number("wasm_udf_memory_limit", "2097152", "Memory limit of a WebAssembly instance, in bytes"),
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
        "Allow UPDATE of system.config",
    ),
    flag(
        "cql_duplicate_bind_variable_names_refer_to_same_variable",
        "true",
        "Bind markers of the same name are one variable",
    )
    .live(),
    flag(
        "cql_in_bind_variable_name_uses_uppercase_operator",
        "true",
        "Name the marker after IN \"IN(x)\" instead of \"in(x)\"",
    )
    .live(),
    flag("enable_parallelized_aggregation", "true", "Aggregate on all shards in parallel").live(),
    flag(
        "enable_keyspace_column_family_metrics",
        "false",
        "Export metrics of each table per shard",
    ),
    flag(
        "enable_node_aggregated_table_metrics",
        "true",
        "Export metrics of each table, aggregated over shards",
    ),
    text("relabel_config_file", "", "File of relabelling rules for metrics"),
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
    text("cpu_scheduler", "", "Obsolete: always on").idle(),
    flag("volatile_system_keyspace_for_testing", "false", "Keep system tables in memory").idle(),
];
