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
            ("memory_allocated_memory", "Bytes of the heap in use.", live),
            ("memory_total_memory", "Bytes that the shard may have.", total),
            (
                "memory_free_memory",
                "Bytes that the shard may have and does not use.",
                total.saturating_sub(live),
            ),
            (
                "lsa_total_space_bytes",
                "Bytes of memory whose content moves: the row cache's.",
                cache.bytes_used,
            ),
        ],
    );
    let made = memory::counts();
    counters(
        sheet,
        &[
            ("memory_malloc_operations", "Objects made or grown on the heap.", made.allocations),
            ("memory_malloc_bytes", "Bytes that were asked for of the heap.", made.bytes),
            (
                "lsa_memory_compacted",
                "Bytes that were moved to be kept, in memory whose content moves.",
                cache.moved_bytes,
            ),
            (
                "lsa_memory_allocated",
                "Bytes allocated in memory whose content moves.",
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
                "Bytes of memtables that no SSTable has yet.",
                regular.unspooled_bytes + system.unspooled_bytes,
            ),
            (
                "memory_regular_dirty_bytes",
                "Bytes of memtables of users' tables.",
                regular.real_bytes,
            ),
            (
                "memory_regular_unspooled_dirty_bytes",
                "Bytes of memtables of users' tables that no SSTable has yet.",
                regular.unspooled_bytes,
            ),
            (
                "memory_system_dirty_bytes",
                "Bytes of memtables of the system's tables.",
                system.real_bytes,
            ),
            (
                "memory_system_unspooled_dirty_bytes",
                "Bytes of memtables of the system's tables that no SSTable has yet.",
                system.unspooled_bytes,
            ),
            (
                "memory_requests_blocked_memory_current",
                "Writes that wait for memory of memtables.",
                regular.blocked + system.blocked,
            ),
        ],
    );
    counters(
        sheet,
        &[
            (
                "memory_requests_blocked_memory",
                "Writes that have waited for memory of memtables.",
                regular.blocked_total + system.blocked_total,
            ),
            (
                "memory_requests_timed_out_memory",
                "Writes that waited for memory of memtables in vain.",
                regular.timed_out_total + system.timed_out_total,
            ),
            (
                "memory_requests_blocked_micros",
                "How long writes waited for memory of memtables, in microseconds.",
                regular.blocked_micros + system.blocked_micros,
            ),
        ],
    );
}
