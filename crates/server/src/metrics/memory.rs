//! What takes memory on a shard.

use super::{counters, gauges};
use admin::metrics::Sheet;
use std::rc::Rc;
use storage::Storage;

pub(super) fn memory(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let live = u64::try_from(memory::live_bytes()).unwrap_or(0);
    let total = storage.memory_bytes() as u64;
    let cache = storage.row_cache_stats();
    gauges(
        sheet,
        &[
            ("memory_allocated_memory", "Heap bytes in use.", live),
            ("memory_total_memory", "Memory of the shard in bytes.", total),
            (
                "memory_free_memory",
                "Free memory of the shard in bytes.",
                total.saturating_sub(live),
            ),
            (
                "lsa_total_space_bytes",
                "Bytes of log-structured memory, which the row cache uses.",
                cache.bytes_used,
            ),
        ],
    );
    let made = memory::counts();
    counters(
        sheet,
        &[
            ("memory_malloc_operations", "Heap allocations and reallocations.", made.allocations),
            ("memory_malloc_bytes", "Bytes allocated on the heap.", made.bytes),
            (
                "lsa_memory_compacted",
                "Bytes moved by compaction of log-structured memory.",
                cache.moved_bytes,
            ),
            (
                "lsa_memory_allocated",
                "Bytes allocated in log-structured memory.",
                cache.allocated_bytes,
            ),
        ],
    );
    dirty(sheet, storage);
}

/// Memtables, by pool: those of tables of users, and those of the system.
fn dirty(sheet: &mut Sheet, storage: &Rc<Storage>) {
    let [regular, system] = storage.dirty_stats();
    gauges(
        sheet,
        &[
            ("memory_dirty_bytes", "Bytes of memtables.", regular.real_bytes + system.real_bytes),
            (
                "memory_unspooled_dirty_bytes",
                "Bytes of memtables that are not flushed yet.",
                regular.unspooled_bytes + system.unspooled_bytes,
            ),
            (
                "memory_regular_dirty_bytes",
                "Bytes of memtables of user tables.",
                regular.real_bytes,
            ),
            (
                "memory_regular_unspooled_dirty_bytes",
                "Bytes of memtables of user tables that are not flushed yet.",
                regular.unspooled_bytes,
            ),
            (
                "memory_system_dirty_bytes",
                "Bytes of memtables of system tables.",
                system.real_bytes,
            ),
            (
                "memory_system_unspooled_dirty_bytes",
                "Bytes of memtables of system tables that are not flushed yet.",
                system.unspooled_bytes,
            ),
            (
                "memory_requests_blocked_memory_current",
                "Writes blocked on memtable memory now.",
                regular.blocked + system.blocked,
            ),
        ],
    );
    counters(
        sheet,
        &[
            (
                "memory_requests_blocked_memory",
                "Writes that were blocked on memtable memory.",
                regular.blocked_total + system.blocked_total,
            ),
            (
                "memory_requests_timed_out_memory",
                "Writes that timed out while blocked on memtable memory.",
                regular.timed_out_total + system.timed_out_total,
            ),
            (
                "memory_requests_blocked_micros",
                "Time that writes were blocked on memtable memory, in microseconds.",
                regular.blocked_micros + system.blocked_micros,
            ),
        ],
    );
}
