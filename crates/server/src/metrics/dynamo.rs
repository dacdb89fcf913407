//! Requests of the DynamoDB API.

use super::counters;
use super::spans::{self, Steps};
use admin::metrics::{Buckets, Kind, Sheet};
use alternator::Server;
use alternator::expression::Programs;
use alternator::met::{Counted, Shown, Spread};
use cluster::Cluster;
use runtime::task::yield_if_needed;
use std::rc::Rc;

/// The names of what is counted of all tables, or of each.
struct Names {
    operation: &'static str,
    latency: &'static str,
    batch_items: &'static str,
    batches: &'static str,
    sizes: &'static str,
    write_units: &'static str,
    read_units: &'static str,
    returned: &'static str,
    pages: &'static str,
    records: &'static str,
    reads_before: &'static str,
    by_rounds: &'static str,
    failed: &'static str,
}

const OF_ALL: Names = Names {
    operation: "alternator_operation",
    latency: "alternator_op_latency",
    batch_items: "alternator_batch_item_count",
    batches: "alternator_batch_item_count_histogram",
    sizes: "alternator_operation_size_kb",
    write_units: "alternator_wcu_total",
    read_units: "alternator_rcu_total",
    returned: "alternator_returned_items",
    pages: "alternator_returned_items_histogram",
    records: "alternator_returned_records",
    reads_before: "alternator_reads_before_write",
    by_rounds: "alternator_write_using_lwt",
    failed: "alternator_conditional_check_failed",
};

const OF_TABLES: Names = Names {
    operation: "alternator_table_operation",
    latency: "alternator_table_op_latency",
    batch_items: "alternator_table_batch_item_count",
    batches: "alternator_table_batch_item_count_histogram",
    sizes: "alternator_table_operation_size_kb",
    write_units: "alternator_table_wcu_total",
    read_units: "alternator_table_rcu_total",
    returned: "alternator_table_returned_items",
    pages: "alternator_table_returned_items_histogram",
    records: "alternator_table_returned_records",
    reads_before: "alternator_table_reads_before_write",
    by_rounds: "alternator_table_write_using_lwt",
    failed: "alternator_table_conditional_check_failed",
};

pub(super) async fn all(sheet: &mut Sheet, server: &Rc<Server>) {
    let met = server.met();
    let rows = [
        ("alternator_total_operations", "Requests of the DynamoDB API.", met.total()),
        (
            "alternator_unsupported_operations",
            "Requests of operations that there are none of.",
            met.unsupported.get(),
        ),
        (
            "alternator_user_errors",
            "Requests refused because of what they ask for; conditions that do not hold are none.",
            met.user_errors.get(),
        ),
        ("alternator_system_errors", "Requests at which the node failed.", met.system_errors.get()),
        (
            "alternator_authentication_failures",
            "Requests whose signature is not that of a role that may log in.",
            met.unauthenticated.get(),
        ),
        (
            "alternator_authorization_failures",
            "Requests that their role may not make.",
            met.unauthorized.get(),
        ),
        (
            "alternator_connections_silent",
            "Connections that were closed because their clients asked nothing.",
            met.silent.get(),
        ),
        (
            "alternator_transactions_committed",
            "Transactions that wrote, and took effect.",
            met.committed.get(),
        ),
        (
            "alternator_transactions_cancelled",
            "Transactions that wrote, and were cancelled.",
            met.cancelled.get(),
        ),
    ];
    counters(sheet, &rows);
    let help = "Connections of the DynamoDB API.";
    sheet.gauge("alternator_connections", help, &[], server.connections() as u64);
    expressions(sheet, server.programs());
    counted(sheet, &OF_ALL, None, &met.all);
    let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
    if !sheet.filter().wants_any("alternator_table") {
        return;
    }
    for (name, of_table) in met.tables(&cluster.schema()) {
        counted(sheet, &OF_TABLES, Some(&name), &of_table);
        yield_if_needed().await;
    }
}

/// Expressions that need not be parsed again.
fn expressions(sheet: &mut Sheet, programs: &Programs) {
    for (kind, hits, misses) in programs.asked() {
        let labels = &[("expression", kind)];
        let help = "Expressions that were parsed before.";
        sheet.counter("alternator_expression_cache_hits", help, labels, hits);
        let help = "Expressions that had to be parsed.";
        sheet.counter("alternator_expression_cache_misses", help, labels, misses);
    }
    let help = "Parsed expressions that had to go for others.";
    sheet.counter("alternator_expression_cache_evictions", help, &[], programs.evictions());
}

fn counted(sheet: &mut Sheet, names: &Names, table: Option<&str>, counted: &Counted) {
    for Shown { name, count, latency, items, batches, units, sizes } in counted.operations() {
        let mut labels = vec![("op", name)];
        labels.extend(table.map(|table| ("cf", table)));
        let help = "Requests of the DynamoDB API, by operation; a batch is one.";
        sheet.counter(names.operation, help, &labels, count);
        let help = "How long requests took, in microseconds.";
        sheet.histogram(names.latency, help, &labels, &spans::buckets(&latency, Steps::Coarse));
        if let Some(batches) = batches {
            sheet.counter(names.batch_items, "Items of batches.", &labels, items);
            sheet.histogram(names.batches, "Items of each batch.", &labels, &buckets(&batches));
        }
        if 0 < units {
            let help = "Units of 1 KB written, as far as requests say.";
            sheet.counter(names.write_units, help, &labels, units);
        }
        if let Some(sizes) = sizes {
            let help = "Sizes of items that were read or written, as far as they are known, and of \
                        answers of GetRecords, in KiB.";
            sheet.histogram(names.sizes, help, &labels, &buckets(&sizes));
        }
    }
    let labels: Vec<_> = table.map(|table| ("cf", table)).into_iter().collect();
    let help = "Units of 4 KB read, half of these where a read need not be consistent.";
    sheet.push(Kind::Counter, (names.read_units, help), &labels, counted.read_units());
    if let Some(pages) = counted.pages() {
        let help = "Items of each answer of Query and Scan that has items.";
        sheet.histogram(names.pages, help, &labels, &buckets(&pages));
    }
    let rows = [
        (names.returned, "Items that Query and Scan have answered.", counted.returned_items()),
        (names.records, "Records that GetRecords has answered.", counted.records()),
        (
            names.reads_before,
            "Writes that depend on the item as it is.",
            counted.reads_before_write(),
        ),
        (names.by_rounds, "Writes by rounds of Paxos.", counted.writes_by_rounds()),
        (names.failed, "Writes whose condition did not hold.", counted.failed_conditions()),
    ];
    rows.iter().for_each(|(name, help, value)| sheet.counter(name, help, &labels, *value));
}

fn buckets(spread: &Spread) -> Buckets {
    let up_to = spread.up_to.iter().map(|(bound, count)| (*bound as f64, *count));
    Buckets { up_to: up_to.collect(), sum: spread.sum, count: spread.count }
}
