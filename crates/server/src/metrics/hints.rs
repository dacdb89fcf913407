//! Writes that are kept for other nodes.

use super::{counters, gauges};
use admin::metrics::Sheet;
use replication::hints::Hints;

pub(super) fn all(sheet: &mut Sheet, hints: &Hints) {
    let told = hints.counters();
    let rows = [
        ("hints_manager_written", "Hints that were written to the disk.", &told.written),
        ("hints_manager_errors", "Reads and writes of hints that failed.", &told.errors),
        ("hints_manager_dropped", "Hints that were not kept.", &told.dropped),
        ("hints_manager_sent_total", "Hints that their node has.", &told.sent),
        (
            "hints_manager_sent_bytes_total",
            "Bytes of the hints that their node has.",
            &told.sent_bytes,
        ),
        ("hints_manager_send_errors", "Hints that could not be sent.", &told.send_errors),
        ("hints_manager_discarded", "Hints that were too old to be sent.", &told.discarded),
        ("hints_manager_corrupted_files", "Hints that were damaged.", &told.damaged),
        (
            "storage_proxy_replica_received_hints_total",
            "Hints that other nodes have sent.",
            &told.received,
        ),
    ];
    counters(sheet, &rows.map(|(name, help, count)| (name, help, count.get())));
    let (in_progress, on_disk) = hints.bytes();
    gauges(
        sheet,
        &[
            (
                "hints_manager_size_of_hints_in_progress",
                "Bytes of hints that wait to be written.",
                in_progress as u64,
            ),
            ("hints_manager_disk_bytes", "Bytes of hints on the disk.", on_disk),
            (
                "hints_manager_pending_sends",
                "Hints that are on their way.",
                hints.in_flight() as u64,
            ),
            (
                "hints_manager_pending_drains",
                "Nodes for which there are hints.",
                hints.hosts().len() as u64,
            ),
        ],
    );
}
