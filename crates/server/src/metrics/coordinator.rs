//! What the coordinator of a shard led: requests of clients, conditional writes, batches.

use super::counters;
use super::spans::{self, Steps};
use admin::metrics::{Buckets, Labels, Sheet};
use cluster::Traffic;
use cluster::traffic::{Contended, Failure, Led, Work};
use replication::Coordinator;
use replication::repair::Automatic;
use runtime::task::yield_if_needed;
use std::rc::Rc;

/// What says in which scheduling group something was led.
const GROUP: &str = "scheduling_group_name";

/// The names of histogram and summary of each kind of work, with what it is.
const LATENCIES: [(Work, &str, &str, &str); 5] = [
    (
        Work::Read,
        "storage_proxy_coordinator_read_latency",
        "storage_proxy_coordinator_read_latency_summary",
        "How long reads of one partition took, in microseconds.",
    ),
    (
        Work::Write,
        "storage_proxy_coordinator_write_latency",
        "storage_proxy_coordinator_write_latency_summary",
        "How long writes took, in microseconds.",
    ),
    (
        Work::Scan,
        "storage_proxy_coordinator_range_latency",
        "storage_proxy_coordinator_range_latency_summary",
        "How long reads of token ranges took, in microseconds.",
    ),
    (
        Work::CasRead,
        "storage_proxy_coordinator_cas_read_latency",
        "storage_proxy_coordinator_cas_read_latency_summary",
        "How long reads at a serial level took, in microseconds.",
    ),
    (
        Work::CasWrite,
        "storage_proxy_coordinator_cas_write_latency",
        "storage_proxy_coordinator_cas_write_latency_summary",
        "How long conditional writes took, in microseconds.",
    ),
];

pub(super) async fn traffic(sheet: &mut Sheet) {
    let traffic = Traffic::of_shard();
    for (group, led) in traffic.by_group() {
        let labels: Labels<'_> = &[(GROUP, &group)];
        for (work, histogram, summary, help) in LATENCIES {
            let taken = led.taken(work).unwrap_or_default();
            let buckets = spans::buckets(&taken.spans, Steps::Fine);
            sheet.histogram(histogram, help, labels, &buckets);
            spans::summary(sheet, (summary, help), labels, &taken);
            yield_if_needed().await;
        }
        failures(sheet, &group, &led);
        in_flight(sheet, labels, &led);
    }
    cas(sheet, &traffic);
    replica(sheet, &traffic);
}

/// How work ended that did not end well.
const FAILURES: [(Work, Failure, &str, &str); 15] = [
    (
        Work::Read,
        Failure::Timeout,
        "storage_proxy_coordinator_read_timeouts",
        "Single-partition reads that timed out.",
    ),
    (
        Work::Read,
        Failure::Unavailable,
        "storage_proxy_coordinator_read_unavailable",
        "Single-partition reads that failed because too few replicas were alive.",
    ),
    (
        Work::Read,
        Failure::Other,
        "storage_proxy_coordinator_read_failures",
        "Single-partition reads that failed for other reasons.",
    ),
    (
        Work::Write,
        Failure::Timeout,
        "storage_proxy_coordinator_write_timeouts",
        "Writes that timed out.",
    ),
    (
        Work::Write,
        Failure::Unavailable,
        "storage_proxy_coordinator_write_unavailable",
        "Writes that failed because too few replicas were alive.",
    ),
    (
        Work::Write,
        Failure::Other,
        "storage_proxy_coordinator_write_failures",
        "Writes that failed for other reasons.",
    ),
    (
        Work::Scan,
        Failure::Timeout,
        "storage_proxy_coordinator_range_timeouts",
        "Range reads that timed out.",
    ),
    (
        Work::Scan,
        Failure::Unavailable,
        "storage_proxy_coordinator_range_unavailable",
        "Range reads that failed because too few replicas were alive.",
    ),
    (
        Work::Scan,
        Failure::Other,
        "storage_proxy_coordinator_range_failures",
        "Range reads that failed for other reasons.",
    ),
    (
        Work::CasRead,
        Failure::Timeout,
        "storage_proxy_coordinator_cas_read_timeouts",
        "Serial reads that timed out.",
    ),
    (
        Work::CasRead,
        Failure::Unavailable,
        "storage_proxy_coordinator_cas_read_unavailable",
        "Serial reads that failed because too few replicas were alive.",
    ),
    (
        Work::CasRead,
        Failure::Other,
        "storage_proxy_coordinator_cas_read_failures",
        "Serial reads that failed for other reasons.",
    ),
    (
        Work::CasWrite,
        Failure::Timeout,
        "storage_proxy_coordinator_cas_write_timeouts",
        "Conditional writes that timed out.",
    ),
    (
        Work::CasWrite,
        Failure::Unavailable,
        "storage_proxy_coordinator_cas_write_unavailable",
        "Conditional writes that failed because too few replicas were alive.",
    ),
    (
        Work::CasWrite,
        Failure::Other,
        "storage_proxy_coordinator_cas_write_failures",
        "Conditional writes that failed for other reasons.",
    ),
];

fn failures(sheet: &mut Sheet, group: &str, led: &Led) {
    for (work, failure, name, help) in FAILURES {
        sheet.counter(name, help, &[(GROUP, group)], led.failures(work, failure));
    }
    for (work, name, help) in LIMITED {
        let by = [("coordinator", Failure::RateLimited), ("replicas", Failure::LimitedThere)];
        for (who, failure) in by {
            let labels = [(GROUP, group), ("rejected_by", who)];
            sheet.counter(name, help, &labels, led.failures(work, failure));
        }
    }
}

/// Requests that were rejected for the rate of their partition.
const LIMITED: [(Work, &str, &str); 2] = [
    (
        Work::Read,
        "storage_proxy_coordinator_read_rate_limited",
        "Single-partition reads rejected by the rate limit of the partition.",
    ),
    (
        Work::Write,
        "storage_proxy_coordinator_write_rate_limited",
        "Writes rejected by the rate limit of the partition.",
    ),
];

/// Reads that memory answers at once are over before they are counted.
fn in_flight(sheet: &mut Sheet, labels: Labels<'_>, led: &Led) {
    let of = |work| led.in_flight(work);
    let rows = [
        (
            "storage_proxy_coordinator_foreground_reads",
            "Reads in flight.",
            of(Work::Read) + of(Work::Scan) + of(Work::CasRead),
        ),
        (
            "storage_proxy_coordinator_foreground_writes",
            "Writes in flight.",
            of(Work::Write) + of(Work::CasWrite),
        ),
        (
            "storage_proxy_coordinator_cas_foreground",
            "Conditional writes in flight.",
            of(Work::CasWrite),
        ),
    ];
    rows.iter().for_each(|(name, help, value)| sheet.gauge(name, help, labels, *value));
}

fn cas(sheet: &mut Sheet, traffic: &Traffic) {
    let count = |work| traffic.taken(work).map_or(0, |taken| taken.spans.count());
    let rows = [
        (
            "storage_proxy_coordinator_cas_total_operations",
            "Conditional writes, and reads at a serial level.",
            count(Work::CasRead) + count(Work::CasWrite),
        ),
        (
            "storage_proxy_coordinator_cas_write_condition_not_met",
            "Conditional writes whose condition was not met.",
            traffic.cas.condition_not_met.get(),
        ),
        (
            "storage_proxy_coordinator_cas_write_unfinished_commit",
            "Unfinished Paxos rounds completed by a conditional write.",
            traffic.cas.unfinished_commits.get(),
        ),
        (
            "storage_proxy_coordinator_cas_read_unfinished_commit",
            "Unfinished Paxos rounds completed by a read at a serial level.",
            traffic.cas.unfinished_by_reads.get(),
        ),
        (
            "storage_proxy_coordinator_cas_write_timeout_due_to_uncertainty",
            "Conditional writes that timed out since nobody knew what became of them.",
            traffic.cas.uncertain.get(),
        ),
        (
            "storage_proxy_coordinator_cas_shared",
            "Conditional writes and serial reads that shared the Paxos round of another one.",
            traffic.cas.shared.get(),
        ),
        (
            "storage_proxy_coordinator_cas_prune",
            "Paxos rows removed after their round ended.",
            traffic.cas.pruned.get(),
        ),
        (
            "storage_proxy_coordinator_cas_dropped_prune",
            "Paxos rows that stay until the next restart.",
            traffic.cas.dropped_prunes.get(),
        ),
    ];
    counters(sheet, &rows);
    let contended = [
        (
            "storage_proxy_coordinator_cas_read_contention",
            "How often reads at a serial level began a Paxos round again, of those that did.",
            &traffic.cas.contended_reads,
        ),
        (
            "storage_proxy_coordinator_cas_write_contention",
            "How often conditional writes began a Paxos round again, of those that did.",
            &traffic.cas.contended_writes,
        ),
    ];
    for (name, help, contended) in contended {
        sheet.histogram(name, help, &[], &contention(contended));
    }
}

fn contention(contended: &Contended) -> Buckets {
    let counts = contended.counts();
    let up_to = |at: usize| counts[..=at].iter().sum::<u64>();
    let bounds = Contended::BOUNDS.iter().enumerate();
    Buckets {
        up_to: bounds.map(|(at, bound)| (*bound as f64, up_to(at))).collect(),
        sum: contended.times() as f64,
        count: up_to(Contended::BOUNDS.len()),
    }
}

/// What came to storage: one node has all copies.
fn replica(sheet: &mut Sheet, traffic: &Traffic) {
    counters(
        sheet,
        &[
            (
                "storage_proxy_replica_received_mutations",
                "Mutations, including those of batches one by one.",
                traffic.mutations.get(),
            ),
            (
                "storage_proxy_replica_cross_shard_ops",
                "Reads and writes forwarded to another shard.",
                traffic.cross_shard.get(),
            ),
            (
                "storage_proxy_replica_forwarded_mutations",
                "Writes of other data centers that were passed on to a replica.",
                traffic.relays.forwarded.get(),
            ),
            (
                "storage_proxy_replica_forwarding_errors",
                "Writes of other data centers that did not reach a replica.",
                traffic.relays.errors.get(),
            ),
            (
                "storage_proxy_coordinator_relayed_writes",
                "Writes to several replicas of another data center by way of one of them.",
                traffic.relays.told.get(),
            ),
            (
                "storage_proxy_coordinator_broken_relays",
                "Those that were sent to each replica after all, since the one broke.",
                traffic.relays.broken.get(),
            ),
            (
                "database_total_reads_rate_limited",
                "Reads of other nodes that were rejected: the partition is read too often.",
                traffic.rejected[0].get(),
            ),
            (
                "database_total_writes_rate_limited",
                "Writes of other nodes that were rejected: the partition is written too often.",
                traffic.rejected[1].get(),
            ),
            (
                "batchlog_manager_total_write_replication_attempts",
                "Replays of unfinished batches.",
                traffic.batch_retries.get(),
            ),
            (
                "batchlog_manager_written",
                "Logged batches written to the batchlog.",
                traffic.logged_batches.get(),
            ),
        ],
    );
}

/// What this shard sends to views.
pub(super) fn views(sheet: &mut Sheet, coordinator: &Rc<Coordinator>) {
    let outbox = coordinator.outbox();
    let (pending, most) = outbox.pending();
    let help = "Bytes of updates of views that are on their way to other shards and nodes.";
    sheet.gauge("database_view_update_backlog", help, &[], pending as u64);
    let help = "Bytes that may be on their way; who writes waits beyond that.";
    sheet.gauge("database_view_update_backlog_max", help, &[], most as u64);
    let help = "Writes of which updates of views are to be brought again.";
    sheet.gauge("database_view_updates_left", help, &[], outbox.left() as u64);
    let counted = &outbox.counters;
    counters(
        sheet,
        &[
            (
                "database_total_view_updates_pushed_local",
                "Updates of views that were written on this node.",
                counted.pushed_local.get(),
            ),
            (
                "database_total_view_updates_pushed_remote",
                "Updates of views that other nodes have acknowledged.",
                counted.pushed_remote.get(),
            ),
            (
                "database_total_view_updates_failed_local",
                "Updates of views that another shard of this node could not write at once.",
                counted.failed_local.get(),
            ),
            (
                "database_total_view_updates_failed_remote",
                "Updates of views that another node could not be told of at once.",
                counted.failed_remote.get(),
            ),
            (
                "database_total_view_updates_hinted",
                "Those of them for which a hint was kept.",
                counted.hinted.get(),
            ),
            (
                "database_total_view_updates_brought",
                "Updates of views that were brought again, each time.",
                counted.brought.get(),
            ),
        ],
    );
}

/// The batches that this shard keeps, mostly for other nodes.
/// Reads whose replicas were not alike.
pub(super) fn differences(sheet: &mut Sheet, coordinator: &Rc<Coordinator>) {
    let background = coordinator.background();
    counters(
        sheet,
        &[
            (
                "storage_proxy_coordinator_foreground_read_repairs",
                "Reads whose replicas differed, which were answered when these had been compared.",
                background.differing(),
            ),
            (
                "storage_proxy_coordinator_read_repairs_diff_found_total",
                "Reads of which a replica lacked something, and was sent it.",
                background.lacking(),
            ),
        ],
    );
}

pub(super) fn batches(sheet: &mut Sheet, coordinator: &Rc<Coordinator>) {
    let held = coordinator.held();
    let help = "Logged batches that are kept until they are applied.";
    sheet.gauge("batchlog_manager_batches", help, &[], held.len() as u64);
    counters(
        sheet,
        &[
            (
                "batchlog_manager_discarded",
                "Mutations of logged batches that were too old to be replayed.",
                held.discarded.get(),
            ),
            (
                "batchlog_manager_received",
                "Logged batches that other nodes had this one keep.",
                held.received.get(),
            ),
            (
                "batchlog_manager_replayed",
                "Logged batches that were completed by a replay.",
                held.completed.get(),
            ),
        ],
    );
}

pub(super) fn expiry(sheet: &mut Sheet, coordinator: &Rc<Coordinator>) {
    let expired = coordinator.expired();
    counters(
        sheet,
        &[
            (
                "expiration_scan_passes",
                "Scans of all tables whose rows expire by a column.",
                expired.passes.get(),
            ),
            (
                "expiration_scan_table",
                "Tables that were scanned for rows that have expired.",
                expired.tables.get(),
            ),
            (
                "expiration_items_deleted",
                "Rows that had expired and were deleted.",
                expired.rows.get(),
            ),
        ],
    );
}

/// Repairs that nobody has asked for.
pub(super) fn repairs(sheet: &mut Sheet) {
    let automatic = Automatic::of_shard();
    let done = automatic.counters();
    counters(
        sheet,
        &[
            (
                "auto_repair_ranges",
                "Ranges of tables that the node has repaired by itself.",
                done.repaired.get(),
            ),
            (
                "auto_repair_ranges_known",
                "Those of which it was known that all replicas agree.",
                done.known.get(),
            ),
            (
                "auto_repair_ranges_failed",
                "Ranges that could not be repaired by themselves, and are tried again.",
                done.failed.get(),
            ),
            (
                "auto_repair_rows",
                "Rows that a replica had missed, and got by such a repair.",
                done.rows.get(),
            ),
        ],
    );
    let help = "Ranges that are due to be repaired by themselves, and whose replicas are all up.";
    sheet.gauge("auto_repair_ranges_due", help, &[], done.due.get());
}
