//! What goes from node to node when nodes join and leave.

use super::{counters, gauges};
use admin::metrics::Sheet;
use replication::moves;

/// Of the node; on shard 0.
pub(super) fn all(sheet: &mut Sheet) {
    let totals = moves::totals();
    let rows = [
        (
            "streaming_total_incoming_bytes",
            "Bytes that the node has taken from others because nodes or tablets moved.",
            totals.bytes_taken,
        ),
        (
            "streaming_total_outgoing_bytes",
            "Bytes that the node has given to others because nodes or tablets moved.",
            totals.bytes_given,
        ),
        (
            "streaming_total_incoming_mutations",
            "Partitions, or pieces of them, that the node has taken from others.",
            totals.mutations_taken,
        ),
        (
            "streaming_total_incoming_sstables",
            "SSTables that the node has copied from others as they are.",
            totals.sstables_taken,
        ),
        (
            "streaming_partitions_warmed",
            "Partitions of tablets that moved here that were read into the row cache before \
             clients asked for them.",
            totals.partitions_warmed,
        ),
    ];
    counters(sheet, &rows);
    let taken = moves::taken();
    let (parts, done) =
        taken.as_ref().map_or((0, 0), |it| (it.progress.parts, it.progress.parts_done));
    let percentage = if parts == 0 { 100 } else { 100 * u64::from(done) / u64::from(parts) };
    let rows = [
        ("streaming_parts", "Ranges of tables that the node takes from others.", parts.into()),
        ("streaming_parts_done", "Those of them that it has.", done.into()),
        (
            "streaming_finished_percentage",
            "How much of what the node takes from others it has, in per cent.",
            percentage,
        ),
        (
            "streaming_stage",
            "Stage of what moves and gives the node something: 0 nothing moves, 1 prepare, 2 \
             write_both_read_old, 3 write_both_read_new.",
            taken.map_or(0, |it| it.stage as u64 + 1),
        ),
        (
            "streaming_bound_bytes",
            "Bytes a second that may move because clients would wait for longer; 0: no bound.",
            moves::bound(),
        ),
    ];
    gauges(sheet, &rows);
}
