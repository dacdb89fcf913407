//! What bounds the work of a shard's storage, as options that change while the node runs: reads at
//! a time and how long they may take, how SSTables are written, the part of compaction.

use cluster::Live;
use cluster::settings::{Rule, Settings};
use query::{Processor, Timeouts};
use reader::semaphore::Limits as ReadLimits;
use std::rc::Rc;
use storage::{CRITICAL_LEVEL as CRITICAL_DISK_LEVEL, Pace, Storage, WriterDefaults};

const SERIALIZE: &str = "reader_concurrency_semaphore_serialize_limit_multiplier";
const KILL: &str = "reader_concurrency_semaphore_kill_limit_multiplier";
const CPU: &str = "reader_concurrency_semaphore_cpu_concurrency";
const ABORT: &str = "reader_concurrency_semaphore_preemptive_abort_factor";
const MAINTENANCE: &str = "maintenance_reader_concurrency_semaphore_count_limit";
const FORMAT: &str = "sstable_format";
const INDEX_SCALE: &str = "column_index_auto_scale_threshold_in_kb";
const COMPACTION: &str = "compaction_static_shares";
const COMPACTION_MAX: &str = "compaction_max_shares";
const THROUGHPUT: &str = "compaction_throughput_mb_per_sec";
const FLUSH: &str = "memtable_flush_static_shares";
const DISK: &str = "critical_disk_utilization_level";

/// All that are watched.
const NAMES: [&str; 12] = [
    SERIALIZE,
    KILL,
    CPU,
    ABORT,
    MAINTENANCE,
    FORMAT,
    INDEX_SCALE,
    COMPACTION,
    COMPACTION_MAX,
    THROUGHPUT,
    FLUSH,
    DISK,
];

/// Reads of the system's own tables at a time, once the node has booted.
const SYSTEM_READS: usize = 10;
const SHARES_MAX: i64 = 1000;
const INDEX_SCALE_KIB_MAX: i64 = 1 << 20;
const THROUGHPUT_MIB_MAX: i64 = 1 << 30;

/// The options of a shard.
struct Limits {
    serialize_multiplier: Live<i64>,
    kill_multiplier: Live<i64>,
    cpu_concurrency: Live<i64>,
    preemptive_abort_factor: Live<f64>,
    /// Reads of streaming at the same time.
    streaming_count: Live<i64>,
    sstable_format: Live<String>,
    index_scale_kib: Live<i64>,
    compaction_shares: Live<i64>,
    compaction_shares_max: Live<i64>,
    /// Of all shards together.
    compaction_mib_per_second: Live<i64>,
    flush_shares: Live<i64>,
    /// The part of the disk that may be used before writes of clients are refused.
    disk_level: Live<f64>,
}

fn positive(number: &i64) -> Result<(), String> {
    if *number < 1 { Err("not a number above 0".to_owned()) } else { Ok(()) }
}

/// A multiple of the memory of reads; 0 is none.
fn multiple(number: &i64) -> Result<(), String> {
    if *number < 0 { Err("not a number from 0 on".to_owned()) } else { Ok(()) }
}

fn fraction(number: &f64) -> Result<(), String> {
    if (0.0..=1.0).contains(number) { Ok(()) } else { Err("not between 0 and 1".to_owned()) }
}

fn format(name: &str) -> Result<(), String> {
    match WriterDefaults::version_of(name) {
        Some(_) => Ok(()),
        None => Err("neither me nor ms".to_owned()),
    }
}

fn shares(number: &i64) -> Result<(), String> {
    if (0..=SHARES_MAX).contains(number) { Ok(()) } else { Err("not 0 to 1000".to_owned()) }
}

fn mebibytes(number: &i64) -> Result<(), String> {
    match number {
        0..=THROUGHPUT_MIB_MAX => Ok(()),
        _ => Err(format!("not between 0 and {THROUGHPUT_MIB_MAX}")),
    }
}

/// The part of a shard, in bytes, of so many MiB of the node.
fn of_shard(mib: i64) -> u64 {
    let bytes = u64::try_from(mib).unwrap_or(0) << 20;
    bytes.div_ceil(u64::from(runtime::shard_count()))
}

fn kibibytes(number: &i64) -> Result<(), String> {
    match number {
        0..=INDEX_SCALE_KIB_MAX => Ok(()),
        _ => Err(format!("not between 0 and {INDEX_SCALE_KIB_MAX}")),
    }
}

/// Gives this shard's storage its limits, now and after every change. What was offered and cannot
/// be is told by [`Settings::refused`].
pub(crate) fn provide() {
    let settings = Settings::of_shard();
    let limits = Rc::new(Limits::registered(&settings));
    limits.set();
    for name in NAMES {
        let limits = limits.clone();
        settings.watch(name, Rc::new(move || limits.set()));
    }
    set_timeouts();
    Timeouts::OF_READS.iter().for_each(|name| settings.watch(name, Rc::new(set_timeouts)));
}

/// Registers what [`provide`] would, for [`Settings::refused`].
pub(crate) fn check(settings: &Settings) {
    Limits::registered(settings);
}

/// Reads in storage end when the statement that they are for does.
fn set_timeouts() {
    let (Some(processor), Some(storage)) =
        (runtime::local::try_get::<Processor>(), runtime::local::try_get::<Storage>())
    else {
        return;
    };
    let timeouts = processor.timeouts();
    let (one, range) = (&timeouts.read_request_timeout, &timeouts.range_request_timeout);
    storage.set_read_timeouts(one.get().0, range.get().0);
}

/// A bound of so much; 0: no bound.
fn some(multiplier: u32) -> Option<u32> {
    (multiplier != 0).then_some(multiplier)
}

impl Limits {
    fn registered(settings: &Settings) -> Limits {
        let number = |name, default| settings.register(name, default, positive as Rule<i64>);
        let of_memory = |name, default| settings.register(name, default, multiple as Rule<i64>);
        Limits {
            serialize_multiplier: of_memory(SERIALIZE, 2),
            kill_multiplier: of_memory(KILL, 4),
            cpu_concurrency: number(CPU, 2),
            preemptive_abort_factor: settings.register(ABORT, 0.3, fraction),
            streaming_count: number(MAINTENANCE, 10),
            sstable_format: settings.register(FORMAT, "ms".to_owned(), |name| format(name)),
            index_scale_kib: settings.register(INDEX_SCALE, 10_240, kibibytes),
            compaction_shares: settings.register(COMPACTION, 0, shares),
            compaction_shares_max: settings.register(COMPACTION_MAX, 0, shares),
            compaction_mib_per_second: settings.register(THROUGHPUT, 0, mebibytes),
            flush_shares: settings.register(FLUSH, 0, shares),
            disk_level: settings.register(DISK, CRITICAL_DISK_LEVEL, fraction),
        }
    }

    /// What is under way goes on.
    fn set(&self) {
        let Some(storage) = runtime::local::try_get::<Storage>() else { return };
        let [user, system, streaming] = storage.semaphores();
        let small = |live: &Live<i64>| u32::try_from(live.get()).unwrap_or(u32::MAX);
        user.set_limits(ReadLimits {
            serialize_multiplier: some(small(&self.serialize_multiplier)),
            kill_multiplier: some(small(&self.kill_multiplier)),
            cpu_concurrency: small(&self.cpu_concurrency) as usize,
            preemptive_abort_factor: self.preemptive_abort_factor.get(),
            ..user.limits()
        });
        system.set_limits(ReadLimits { count: SYSTEM_READS, ..system.limits() });
        let count = small(&self.streaming_count) as usize;
        streaming.set_limits(ReadLimits { count, ..streaming.limits() });
        let scale_kib = self.index_scale_kib.get().max(0) as usize;
        let version = WriterDefaults::version_of(&self.sstable_format.get());
        storage.change_writer_defaults(|defaults| {
            defaults.version = version.unwrap_or(defaults.version);
            // With 0 blocks never grow.
            defaults.column_index_scale_bytes =
                if scale_kib == 0 { usize::MAX } else { scale_kib << 10 };
        });
        storage.set_compaction_pace(Pace {
            static_shares: small(&self.compaction_shares),
            shares_max: small(&self.compaction_shares_max),
            bytes_per_second: of_shard(self.compaction_mib_per_second.get()),
        });
        storage.set_flush_shares(small(&self.flush_shares));
        storage.set_critical_disk_level(self.disk_level.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offers::offers;
    use options::{Source, Values};

    /// The limits that a node with these options has, and what is refused of them.
    fn limits(given: &[(&str, &str)]) -> (Limits, Vec<String>) {
        let mut values = Values::default();
        for (name, value) in given {
            values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
        }
        let settings = Settings::default();
        offers(&values).into_iter().for_each(|offer| settings.offer(offer));
        let limits = Limits::registered(&settings);
        (limits, settings.refused())
    }

    #[test]
    fn options_of_limits_are_read_or_refused() {
        let check = |name: &str, text: &str, is_good: bool| {
            let (_, refused) = limits(&[(name, text)]);
            assert_eq!(refused.is_empty(), is_good, "{name} {text}: {refused:?}");
        };
        check("smp", "1", true);
        check(KILL, "8", true);
        check(KILL, "0", true);
        check(KILL, "-1", false);
        check(SERIALIZE, "0", true);
        check(CPU, "0", false);
        check(ABORT, "0", true);
        check(ABORT, "1.5", false);
        check(FORMAT, "me", true);
        check(INDEX_SCALE, "0", true);
        check(INDEX_SCALE, "-1", false);
        check(COMPACTION, "1000", true);
        check(COMPACTION, "1001", false);
        check(COMPACTION_MAX, "1000", true);
        check(COMPACTION_MAX, "-1", false);
        check(THROUGHPUT, "16", true);
        check(THROUGHPUT, "-16", false);
        check(FLUSH, "300", true);
        check(FLUSH, "-1", false);
        check(DISK, "0.9", true);
        check(DISK, "1.5", false);
    }

    #[test]
    fn no_multiple_is_no_bound() {
        assert_eq!([some(0), some(1), some(u32::MAX)], [None, Some(1), Some(u32::MAX)]);
    }

    #[test]
    fn what_nobody_says_is_as_the_table_of_options_has_it() {
        let (limits, refused) = limits(&[]);
        assert_eq!(refused, Vec::<String>::new());
        assert_eq!(limits.serialize_multiplier.get(), 2);
        assert_eq!(limits.kill_multiplier.get(), 4);
        assert_eq!(limits.cpu_concurrency.get(), 2);
        assert_eq!(limits.preemptive_abort_factor.get(), 0.3);
        assert_eq!(limits.streaming_count.get(), 10);
        assert_eq!(limits.sstable_format.get(), "ms");
        assert_eq!(limits.index_scale_kib.get(), 10_240);
        assert_eq!((limits.compaction_shares.get(), limits.flush_shares.get()), (0, 0));
        assert_eq!(limits.compaction_shares_max.get(), 0);
        assert_eq!(limits.disk_level.get(), CRITICAL_DISK_LEVEL);
        assert_eq!(limits.compaction_mib_per_second.get(), 0);
    }
}
