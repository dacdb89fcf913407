//! Messages between nodes: the connections, and their bytes.

use super::counters;
use admin::metrics::Sheet;
use cluster::membership::links::Traffic;

pub(super) fn all(sheet: &mut Sheet, traffic: &Traffic) {
    for ((encrypted, compression), count) in &traffic.connections {
        let compression = compression.map_or("none", |compression| compression.name());
        let encrypted = if *encrypted { "true" } else { "false" };
        let labels = [("compression", compression), ("encrypted", encrypted)];
        let help = "Connections with other nodes.";
        sheet.gauge("messaging_connections", help, &labels, *count);
    }
    let told = &traffic.counters;
    let rows = [
        ("messaging_refused", "Connections of other nodes that were refused.", told.refused),
        ("messaging_sent_bytes", "Bytes that were sent to other nodes.", told.sent_bytes),
        ("messaging_received_bytes", "Bytes that came from other nodes.", told.received_bytes),
        (
            "rpc_compression_bytes_sent",
            "Bytes to other nodes that were to be compressed, as they were.",
            told.raw_sent_bytes,
        ),
        (
            "rpc_compression_compressed_bytes_sent",
            "Bytes that were sent in place of those.",
            told.packed_sent_bytes,
        ),
        (
            "rpc_compression_bytes_received",
            "Bytes that came compressed from other nodes, unpacked.",
            told.raw_received_bytes,
        ),
        (
            "rpc_compression_compressed_bytes_received",
            "The same, as they came.",
            told.packed_received_bytes,
        ),
    ];
    counters(sheet, &rows);
}
