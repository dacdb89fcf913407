//! The command line of `perf-sstable`.

use crate::given::{Given, flag, number, ranged, text, word};
use crate::tool::{Bench, Tool};
use clap::Arg;
use sstable::Version;
use std::path::{Path, PathBuf};

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
    const NAME: &'static str = "perf-sstable";
    const ABOUT: &'static str = "Measures writing, reading and compacting SSTables";
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("unsafe_bypass_fsync", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
    ];

    fn args() -> Vec<Arg> {
        vec![
            word("mode", "index_write", MODES.map(|(name, _)| name), "What is measured"),
            number("partitions", "5000000", "Partitions of an SSTable"),
            number("key_size", "128", "Bytes of a key"),
            ranged("num_columns", "5", (0, 1000), "Columns of a row"),
            number("column_size", "64", "Bytes of a value"),
            number("buffer_size", "64", "KiB of reads; the reader chooses: only the default"),
            number("parallelism", "1", "Operations at once on each shard"),
            number("iterations", "30", "How often"),
            number("sstables", "1", "Inputs of a compaction"),
            text("compaction-strategy", "CLASS", "Only SizeTieredCompactionStrategy"),
            number("timestamp-range", "0", "Write times are uniform in [-N, N]"),
            text("testdir", "DIR", "Folder of the files; by default a temporary one"),
            crate::format(),
            flag("with-compression", "Compress with LZ4"),
            number("rows", "1", "Rows of a partition; several: with a clustering column"),
            flag("compressible", "Values of few distinct words instead of random bytes"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        let mode = mode(given);
        if given.number("buffer_size") != 64 {
            return Err("--buffer_size: the reader chooses the size of its reads".to_string());
        }
        let rows = u32::try_from(given.number("rows").max(1));
        let options = Options {
            mode,
            partitions: given.number("partitions"),
            key_bytes: given.count("key_size"),
            columns: if mode == Mode::IndexWrite { 0 } else { given.count("num_columns") },
            column_bytes: given.count("column_size"),
            parallelism: given.number("parallelism").max(1),
            iterations: given.number("iterations").max(1),
            sstables: inputs(given, mode)?,
            timestamps: given.number("timestamp-range"),
            folder: given.path("testdir"),
            version: crate::writable(given),
            compressed: given.flag("with-compression"),
            compressible: given.flag("compressible"),
            rows: rows.map_err(|_| "--rows: too many".to_string())?,
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

fn mode(given: &Given) -> Mode {
    let name = given.text("mode").unwrap_or_default();
    let found = MODES.iter().find(|(known, _)| *known == name);
    found.map_or(Mode::IndexWrite, |(_, mode)| *mode)
}

/// The inputs of a compaction; refuses strategies that would not decide about them.
fn inputs(given: &Given, mode: Mode) -> Result<usize, String> {
    let strategy = given.text("compaction-strategy");
    if let Some(name) = strategy.filter(|name| !name.ends_with("SizeTieredCompactionStrategy")) {
        return Err(format!("--compaction-strategy: there is no {name} yet"));
    }
    let count = given.count("sstables").max(1);
    match mode {
        Mode::Compaction => Ok(count),
        _ if count == 1 => Ok(1),
        _ => Err("--sstables: of the mode compaction alone".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

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
            ("--mode other", "invalid value 'other' for '--mode <WORD>'"),
            ("--mode write --sstables 2", "compaction alone"),
            ("--buffer_size 128", "chooses"),
            ("--compaction-strategy LeveledCompactionStrategy", "no LeveledCompaction"),
            ("--key_size 1", "as many keys"),
            ("--sstable-format mc", "invalid value 'mc' for '--sstable-format <VERSION>'"),
        ]);
    }
}
