//! What traces say of reads.

use cluster::TableEntry;
use model::Token;
use mutation::page::{Page, Partitions};

/// What a trace says before a read.
pub(super) fn begun(table: &TableEntry, token: Token, partitions: &Partitions) -> String {
    match partitions {
        Partitions::Key(_) => {
            let shard = table.tablets.shard_of(token);
            format!("Reading the partition with token {} on shard {shard}", token.0)
        }
        Partitions::Range { start, end } => {
            let (start, end) = (start.token.0, end.token.0);
            format!("Reading the partitions with tokens from {start} to {end}, tablet by tablet")
        }
    }
}

/// What a trace says after a read.
pub(super) fn ended(page: &Page) -> String {
    let Page { row_count, tombstones_seen, opened, resume, .. } = page;
    let more = if resume.is_some() { ", more to come" } else { "" };
    let opened = opened.0;
    format!(
        "Read {row_count} rows and {tombstones_seen} tombstones, {opened} SSTables opened{more}"
    )
}
