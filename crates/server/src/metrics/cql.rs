//! Statements and the connections that they come by.

use super::{counters, gauges};
use admin::metrics::{Buckets, Sheet};
use native::Server;
use plan::modify::Verb;
use query::Processor;
use query::tally::Tally;
use std::rc::Rc;

pub(super) fn statements(sheet: &mut Sheet, processor: &Rc<Processor>) {
    executed(sheet, &processor.options().met.tally);
    per_keyspace(sheet, &processor.options().met.tally);
    rules(sheet, processor);
    drift(sheet, processor);
    functions(sheet, processor);
}

/// What is said of whether a statement is conditional.
fn yes(conditional: bool) -> &'static str {
    if conditional { "yes" } else { "no" }
}

fn executed(sheet: &mut Sheet, tally: &Tally) {
    for (verb, name, help) in [
        (Verb::Insert, "cql_inserts", "INSERT statements."),
        (Verb::Update, "cql_updates", "UPDATE statements."),
        (Verb::Delete, "cql_deletes", "DELETE statements."),
    ] {
        for conditional in [false, true] {
            let of = |of_system| tally.writes(verb, conditional, of_system);
            let labels = &[("conditional", yes(conditional))];
            sheet.counter(name, help, labels, of(false) + of(true));
        }
    }
    for conditional in [false, true] {
        let labels = &[("conditional", yes(conditional))];
        sheet.counter("cql_batches", "Batches.", labels, tally.batches(conditional));
        let help = "Statements in batches.";
        sheet.counter("cql_statements_in_batches", help, labels, tally.batched(conditional));
    }
    let unpaged = tally.unpaged(false) + tally.unpaged(true);
    counters(
        sheet,
        &[
            ("cql_reads", "SELECT statements.", tally.reads(false) + tally.reads(true)),
            ("cql_rows_read", "Rows of answers.", tally.rows_read.get()),
            ("cql_batches_pure_logged", "Logged batches.", tally.logged_batches.get()),
            ("cql_batches_pure_unlogged", "Unlogged batches.", tally.unlogged_batches.get()),
            ("cql_filtered_read_requests", "Reads with filtering.", tally.filtered_reads.get()),
            (
                "cql_filtered_rows_read_total",
                "Rows read by reads with filtering.",
                tally.filtered_rows.get(),
            ),
            (
                "cql_filtered_rows_matched_total",
                "Rows that passed filtering.",
                tally.matched_rows.get(),
            ),
            (
                "cql_filtered_rows_dropped_total",
                "Rows dropped by filtering.",
                tally.filtered_rows.get() - tally.matched_rows.get(),
            ),
            ("cql_select_bypass_caches", "Reads with BYPASS CACHE.", tally.bypass_cache.get()),
            (
                "cql_select_allow_filtering",
                "Reads with ALLOW FILTERING.",
                tally.allow_filtering.get(),
            ),
            ("cql_select_partition_range_scan", "Reads of token ranges.", tally.range_scans.get()),
            (
                "cql_select_partition_range_scan_no_bypass_cache",
                "Reads of token ranges that went through the cache.",
                tally.range_scans_through_cache.get(),
            ),
            ("cql_reverse_queries", "Reads in reverse order.", tally.reverse.get()),
            ("cql_unpaged_select_queries", "Reads without pages.", unpaged),
            ("query_processor_queries", "Statements executed.", tally.statements()),
            ("query_processor_statements_prepared", "Statements prepared.", tally.prepared.get()),
        ],
    );
}

/// Statements by whose tables they are about; those that the node makes for itself are not CQL.
fn per_keyspace(sheet: &mut Sheet, tally: &Tally) {
    for (of_system, ks) in [(false, "user"), (true, "system")] {
        let labels = &[("who", "user"), ("ks", ks)];
        let help = "SELECT statements by the kind of their keyspace.";
        sheet.counter("cql_reads_per_ks", help, labels, tally.reads(of_system));
        let help = "Reads without pages by the kind of their keyspace.";
        let unpaged = tally.unpaged(of_system);
        sheet.counter("cql_unpaged_select_queries_per_ks", help, labels, unpaged);
        for conditional in [false, true] {
            let labels = &[("who", "user"), ("ks", ks), ("conditional", yes(conditional))];
            let of = |verb| tally.writes(verb, conditional, of_system);
            let help = "INSERT statements by the kind of their keyspace.";
            sheet.counter("cql_inserts_per_ks", help, labels, of(Verb::Insert));
            let help = "UPDATE statements by the kind of their keyspace.";
            sheet.counter("cql_updates_per_ks", help, labels, of(Verb::Update));
            let help = "DELETE statements by the kind of their keyspace.";
            sheet.counter("cql_deletes_per_ks", help, labels, of(Verb::Delete));
        }
    }
}

/// Rules of the node that statements met, consistency levels, and statements kept.
fn rules(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let met = &processor.options().met;
    for (guardrail, count) in met.guardrails() {
        let help = "Statements that violated this guardrail.";
        sheet.counter(guardrail.metric(), help, &[], count);
    }
    for (level, count) in met.write_levels() {
        let labels = &[("consistency_level", level.name())];
        let help = "Writes by consistency level.";
        sheet.counter("cql_writes_per_consistency_level", help, labels, count);
    }
    for (kind, stats) in ["prepared", "unprepared"].into_iter().zip(processor.cache_stats()) {
        let labels = &[("statements", kind)];
        sheet.gauge("cql_prepared_cache_size", "Statements in the cache.", labels, stats.entries);
        let bytes = "Bytes of statements in the cache.";
        sheet.gauge("cql_prepared_cache_memory_footprint", bytes, labels, stats.bytes);
        let gone = "Prepared-statement evictions.";
        sheet.counter("cql_prepared_cache_evictions", gone, labels, stats.evictions);
        let hits = "Prepared-statement cache hits.";
        sheet.counter("cql_prepared_cache_hits", hits, labels, stats.hits);
        let misses = "Prepared-statement cache misses.";
        sheet.counter("cql_prepared_cache_misses", misses, labels, stats.misses);
    }
}

/// How far the timestamps of clients are from the node's clock.
fn drift(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let drift = &processor.options().met.drift;
    let up_to: Vec<(Option<u64>, u64)> = drift.up_to().collect();
    let count = up_to.last().map_or(0, |(_, count)| *count);
    let finite = up_to.into_iter().filter_map(|(bound, count)| Some((bound? as f64, count)));
    let buckets = Buckets { up_to: finite.collect(), sum: drift.sum_micros() as f64, count };
    let help = "Difference between client timestamps and the node's clock, in microseconds.";
    sheet.histogram("transport_cql_client_timestamp_drift_histogram", help, &[], &buckets);
}

/// What became of events of the audit log, where there is one.
pub(super) fn audit(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let Some(audit) = processor.audit() else { return };
    let help = "Audit log events: written, failed, or dropped because the queue was full.";
    for (sink, counts) in audit.counts() {
        let outcomes =
            [("written", counts.written), ("failed", counts.failed), ("dropped", counts.dropped)];
        for (outcome, count) in outcomes {
            let labels = [("outcome", outcome), ("sink", sink)];
            sheet.counter("audit_events", help, &labels, count);
        }
    }
}

fn functions(sheet: &mut Sheet, processor: &Rc<Processor>) {
    let stats = processor.function_stats();
    counters(
        sheet,
        &[
            ("user_functions_cache_hits", "WebAssembly instance cache hits.", stats.hits),
            ("user_functions_cache_misses", "WebAssembly instance cache misses.", stats.misses),
        ],
    );
    gauges(
        sheet,
        &[
            // So it is spelt where dashboards look for it.
            (
                "user_functions_cache_instace_count_any",
                "Idle WebAssembly instances.",
                stats.instances,
            ),
            ("user_functions_cache_total_size", "Their bytes.", stats.bytes),
        ],
    );
}

pub(super) fn transport(sheet: &mut Sheet, server: &Rc<Server>) {
    let counts = server.admission_counters();
    let clients = server.clients().len() as u64;
    gauges(
        sheet,
        &[
            ("transport_current_connections", "Connections of clients.", clients),
            ("transport_requests_serving", "Requests in flight.", counts.requests_in_flight),
            (
                "transport_requests_blocked_memory_current",
                "Connections that wait for admission of a request.",
                counts.connections_waiting,
            ),
            (
                "transport_requests_running_max",
                "Requests that may run at once: fewer while the processor cannot keep up.",
                counts.requests_running_max,
            ),
            ("transport_requests_memory", "Bytes of requests in flight.", counts.memory_bytes),
            (
                "transport_requests_memory_available",
                "Bytes free for further requests.",
                counts.memory_bytes_max.saturating_sub(counts.memory_bytes),
            ),
        ],
    );
    counters(
        sheet,
        &[
            (
                "transport_cql_connections",
                "Connections accepted from clients.",
                server.connections_total(),
            ),
            ("transport_requests_served", "Requests answered.", server.requests_served()),
            ("transport_requests_admitted", "Requests admitted.", counts.requests_admitted),
            (
                "transport_requests_shed",
                "Requests shed: answered with an OVERLOADED error.",
                counts.requests_shed,
            ),
            (
                "transport_requests_blocked_memory",
                "Requests that had to wait for admission.",
                counts.requests_blocked,
            ),
            (
                "transport_requests_too_large",
                "Requests refused because they are too large.",
                counts.requests_too_large,
            ),
            (
                "transport_protocol_version_refusals",
                "First messages in a protocol version that the node does not speak; drivers \
                 negotiate the version by them.",
                server.version_refusals(),
            ),
            (
                "transport_connections_stuck",
                "Connections closed because their clients did not read while memory was short.",
                counts.connections_stuck,
            ),
        ],
    );
    requests_by_kind(sheet, server);
    for (code, count) in server.errors() {
        let labels = &[("type", error_type(code))];
        sheet.counter("transport_cql_errors_total", "Errors answered, by type.", labels, count);
    }
}

fn requests_by_kind(sheet: &mut Sheet, server: &Rc<Server>) {
    for (group, kind, served) in server.served() {
        let labels = &[("kind", kind), ("scheduling_group_name", group.as_str())];
        let help = "Requests answered, by kind.";
        sheet.counter("transport_cql_requests_count", help, labels, served.requests);
        let help = "Bytes of requests, by kind.";
        sheet.counter("transport_cql_request_bytes", help, labels, served.request_bytes);
        let help = "Bytes of answers, by the kind of the request.";
        sheet.counter("transport_cql_response_bytes", help, labels, served.response_bytes);
    }
}

/// What an error's code is called.
fn error_type(code: u32) -> &'static str {
    match code {
        0x0000 => "server_error",
        0x000a => "protocol_error",
        0x0100 => "authentication",
        0x1000 => "unavailable",
        0x1001 => "overloaded",
        0x1003 => "truncate",
        0x1100 => "write_timeout",
        0x1200 => "read_timeout",
        0x1300 => "read_failure",
        0x1400 => "function_failure",
        0x1500 => "write_failure",
        0x2000 => "syntax_error",
        0x2100 => "unauthorized",
        0x2200 => "invalid",
        0x2300 => "config",
        0x2400 => "already_exists",
        0x2500 => "unprepared",
        _ => "other",
    }
}
