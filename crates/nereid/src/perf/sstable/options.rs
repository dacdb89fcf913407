//! The command line of `perf-sstable`.

use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
use sstable::Version;
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str = "\
usage: nereid perf-sstable [OPTIONS]
  --mode MODE            sequential_read, index_read, write, compaction, index_write,
                         full_scan_streaming or partitioned_streaming [index_write]
  --partitions N         [5000000]
  --key_size N           bytes [128]
  --num_columns N        [5]
  --column_size N        bytes [64]
  --buffer_size KB       of reads; the reader chooses, so only the default is taken [64]
  --parallelism N        operations at once on each shard [1]
  --iterations N         [30]
  --sstables N           inputs of a compaction [1]
  --compaction-strategy S
  --timestamp-range N    write times are uniform in [-N, N] [0]
  --testdir DIR          [a temporary folder]
  --sstable-format F     me or ms
  --with-compression     LZ4
  --rows N               of a partition; with more than one there is a clustering column [1]
  --compressible         values of few distinct words instead of random bytes
and the options of the server: -c N shards, --default-log-level, ...";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    SequentialRead,
    IndexRead,
    Write,
    Compaction,
    /// Partitions without columns: the index is most of the work.
    IndexWrite,
    FullScanStreaming,
    /// A range for each partition.
    PartitionedStreaming,
}

const MODES: [(&str, Mode); 7] = [
    ("sequential_read", Mode::SequentialRead),
    ("index_read", Mode::IndexRead),
    ("write", Mode::Write),
    ("compaction", Mode::Compaction),
    ("index_write", Mode::IndexWrite),
    ("full_scan_streaming", Mode::FullScanStreaming),
    ("partitioned_streaming", Mode::PartitionedStreaming),
];

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) partitions: u64,
    pub(crate) key_bytes: usize,
    pub(crate) columns: usize,
    pub(crate) column_bytes: usize,
    pub(crate) parallelism: u64,
    pub(crate) iterations: u64,
    pub(crate) sstables: usize,
    pub(crate) timestamps: u64,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) version: Option<Version>,
    pub(crate) compressed: bool,
    pub(crate) compressible: bool,
    pub(crate) rows: u32,
}

impl Tool for Options {
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("unsafe_bypass_fsync", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
    ];

    fn take(words: &mut Words) -> Result<Options, String> {
        let mode = mode(words)?;
        let buffer: u64 = words.number("buffer-size")?.unwrap_or(64);
        if buffer != 64 {
            return Err("--buffer_size: the reader chooses the size of its reads".to_string());
        }
        let options = Options {
            mode,
            partitions: words.number("partitions")?.unwrap_or(5_000_000),
            key_bytes: words.number("key-size")?.unwrap_or(128),
            columns: if mode == Mode::IndexWrite { 0 } else { columns(words)? },
            column_bytes: words.number("column-size")?.unwrap_or(64),
            parallelism: words.number("parallelism")?.unwrap_or(1).max(1),
            iterations: words.number("iterations")?.unwrap_or(30).max(1),
            sstables: inputs(words, mode)?,
            timestamps: words.number("timestamp-range")?.unwrap_or(0),
            folder: words.text("testdir")?.map(PathBuf::from),
            version: crate::perf::writable(words)?,
            compressed: words.flag("with-compression"),
            compressible: words.flag("compressible"),
            rows: words.number("rows")?.unwrap_or(1).max(1),
        };
        let keys_max = 256u64.saturating_pow(options.key_bytes.min(7) as u32);
        if options.partitions == 0 || keys_max < options.partitions * 2 {
            return Err("--partitions: as many keys of --key_size bytes there are not".to_string());
        }
        if (60 << 10) < options.key_bytes {
            return Err("--key_size: at most 60 KiB".to_string());
        }
        Ok(options)
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

fn mode(words: &mut Words) -> Result<Mode, String> {
    let Some(name) = words.text("mode")? else { return Ok(Mode::IndexWrite) };
    let found = MODES.iter().find(|(known, _)| *known == name);
    found.map(|(_, mode)| *mode).ok_or(format!("--mode: there is no {name}"))
}

fn columns(words: &mut Words) -> Result<usize, String> {
    let columns = words.number("num-columns")?.unwrap_or(5);
    if 1000 < columns { Err("--num_columns: at most 1000".to_string()) } else { Ok(columns) }
}

/// The inputs of a compaction; refuses strategies that would not decide about them.
fn inputs(words: &mut Words, mode: Mode) -> Result<usize, String> {
    let strategy = words.text("compaction-strategy")?;
    if let Some(name) = strategy.filter(|name| !name.ends_with("SizeTieredCompactionStrategy")) {
        return Err(format!("--compaction-strategy: there is no {name} yet"));
    }
    let count = words.number("sstables")?.unwrap_or(1).max(1);
    match mode {
        Mode::Compaction => Ok(count),
        _ if count == 1 => Ok(1),
        _ => Err("--sstables: of the mode compaction alone".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::testing::{check_refusals, options};

    #[test]
    fn what_is_given_counts_and_the_rest_is_as_documented() {
        let (given, node) = options::<Options>("");
        assert_eq!((given.mode, given.partitions), (Mode::IndexWrite, 5_000_000));
        assert_eq!((given.key_bytes, given.column_bytes, given.iterations), (128, 64, 30));
        assert_eq!(node.text("unsafe_bypass_fsync"), "1");
        let (given, node) = options::<Options>(
            "--mode compaction --sstables=4 --num_columns 2 --key_size=16 --partitions 10 \
             --testdir /t --compressible --rows 3",
        );
        assert_eq!((given.mode, given.sstables), (Mode::Compaction, 4));
        assert!(given.compressible && !given.compressed);
        assert_eq!((given.rows, options::<Options>("").0.rows), (3, 1));
        assert_eq!((given.columns, given.key_bytes), (2, 16));
        assert_eq!(node.text("workdir"), "/t");
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--mode other", "there is no other"),
            ("--mode write --sstables 2", "compaction alone"),
            ("--buffer_size 128", "chooses"),
            ("--compaction-strategy LeveledCompactionStrategy", "no LeveledCompaction"),
            ("--key_size 1", "as many keys"),
            ("--sstable-format mc", "cannot be written"),
        ]);
    }
}
