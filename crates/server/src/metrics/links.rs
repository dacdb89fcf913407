//! Messages between nodes: the connections, and their bytes.

use super::counters;
use admin::metrics::Sheet;
use cluster::membership::links::{Compression, Packed, Traffic};

pub(super) fn all(sheet: &mut Sheet, traffic: &Traffic) {
    for ((encrypted, compression), count) in &traffic.connections {
        let compression = compression.name();
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
    ];
    counters(sheet, &rows);
    for (algorithm, packed) in Compression::ALL.into_iter().zip(&told.packed) {
        compressed(sheet, algorithm, packed);
    }
}

/// What one algorithm did.
fn compressed(sheet: &mut Sheet, algorithm: Compression, packed: &Packed) {
    let (sent, received) = (&packed.sent, &packed.received);
    let rows = [
        (
            "rpc_compression_messages_sent",
            "Messages to other nodes that were to be compressed.",
            sent.messages,
        ),
        (
            "rpc_compression_bytes_sent",
            "Bytes to other nodes that were to be compressed, as they were.",
            sent.raw_bytes,
        ),
        (
            "rpc_compression_compressed_bytes_sent",
            "Bytes that were sent in place of those.",
            sent.bytes,
        ),
        (
            "rpc_compression_compression_cpu_nanos",
            "Nanoseconds that compressing them took.",
            sent.nanos,
        ),
        (
            "rpc_compression_messages_received",
            "Messages that came compressed from other nodes.",
            received.messages,
        ),
        (
            "rpc_compression_bytes_received",
            "Bytes that came compressed from other nodes, unpacked.",
            received.raw_bytes,
        ),
        ("rpc_compression_compressed_bytes_received", "The same, as they came.", received.bytes),
        (
            "rpc_compression_decompression_cpu_nanos",
            "Nanoseconds that unpacking them took.",
            received.nanos,
        ),
    ];
    for (name, help, value) in rows {
        sheet.counter(name, help, &[("algorithm", algorithm.name())], value);
    }
}
