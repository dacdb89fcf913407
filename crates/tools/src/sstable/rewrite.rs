//! `scrub`, `split`, `filter`, `upgrade`, `decompress`: new files beside the old ones.

use super::check::tell;
use super::dump::partition_keys;
use super::files::{self, CLASS, Target};
use super::output::Output;
use super::{Failure, Job, check};
use model::DecoratedKey;
use mutation::Direction;
use reader::{ReadError, Source, merge};
use runtime::io::fs;
use sstable::scrub::{self as sstables, Mode};
use sstable::{Component, Sealed, Version, WriterOptions};
use std::path::PathBuf;
use stdx::HashSet;

/// Where new files go, and how they are written.
pub(crate) fn target(job: &Job<'_>, origin: &str) -> Result<sstables::Target, Failure> {
    let schema = job.source.schema.clone();
    let options = WriterOptions::of_table(&schema, origin, job.config.writer_defaults());
    let mut options = options.map_err(Failure::Arguments)?;
    if let Some(name) = &job.options.version {
        set_version(&mut options, name)?;
    }
    Ok(sstables::Target::new(&job.options.output_dir, schema, options, CLASS))
}

fn set_version(options: &mut WriterOptions, name: &str) -> Result<(), Failure> {
    match Version::of(name).filter(|version| version.is_written()) {
        Some(version) => {
            options.version = version;
            Ok(())
        }
        None => {
            let names: Vec<&str> = Version::WRITTEN.iter().map(|version| version.name()).collect();
            Failure::arguments(format!(
                "SSTables of version {name} cannot be written, only {}",
                names.join(", ")
            ))
        }
    }
}

/// Refuses an output directory that is missing, or that holds something.
pub(crate) async fn check_output(job: &Job<'_>) -> Result<(), Failure> {
    let dir = &job.options.output_dir;
    let found = fs::metadata(dir).await;
    if !found.is_ok_and(|found| found.is_dir) {
        return Failure::operation(format!("no such directory: {}", dir.display()));
    }
    if !job.options.accepts_nonempty && !fs::list_dir(dir).await?.is_empty() {
        return Failure::operation(format!(
            "the output directory {} is not empty; pass --unsafe-accept-nonempty-output-dir to \
             write there all the same",
            dir.display()
        ));
    }
    Ok(())
}

fn path_of(job: &Job<'_>, sealed: &Sealed) -> PathBuf {
    sealed.descriptor.path(&job.options.output_dir, Component::Data)
}

/// `scrub`.
pub(crate) async fn scrub(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let mode = match job.options.scrub_mode.as_str() {
        "abort" => Mode::Abort,
        "skip" => Mode::Skip,
        "segregate" => Mode::Segregate,
        _ => return check::validate(job, out).await,
    };
    check_output(job).await?;
    for one in &job.targets {
        let table = one.open(&job.source.schema).await?;
        let mut target = target(job, "scrub")?;
        target.options.bases = table.statistics().header.bases;
        let scrubbed = sstables::scrub(&table, mode, &target, &mut tell).await;
        let outcome = scrubbed.map_err(|error| aborted(job, mode, error))?;
        let found = match outcome.problems {
            0 => "nothing wrong".to_string(),
            1 => "1 error".to_string(),
            many => format!("{many} errors"),
        };
        out.line(&format!("Scrubbed {}: {found}, written to:", one.name()))?;
        for sealed in &outcome.written {
            out.line(&format!("  {}", path_of(job, sealed).display()))?;
        }
    }
    Ok(())
}

/// What a scrub ended with. Programs look for the words of one that is to end at the first error.
fn aborted(job: &Job<'_>, mode: Mode, error: ReadError) -> Failure {
    let (keyspace, table) = (&job.source.schema.keyspace, &job.source.schema.name);
    match (mode, error) {
        (Mode::Abort, error @ ReadError::Damaged { .. }) => Failure::Operation(format!(
            "compaction_aborted_exception (Compaction for {keyspace}/{table} was aborted due to: \
             scrub compaction found invalid data): {error}"
        )),
        (_, error) => error.into(),
    }
}

/// The inputs: each by itself, or all as one. With the name that results have for them.
async fn inputs(job: &Job<'_>) -> Result<Vec<(String, Box<dyn Source>)>, Failure> {
    let mut sources = Vec::new();
    for one in &job.targets {
        let table = one.open(&job.source.schema).await?;
        sources.push((one.name(), files::read_checked(&table)));
    }
    if !job.options.merge || sources.len() < 2 {
        return Ok(sources);
    }
    let names: Vec<String> = sources.iter().map(|(name, _)| name.clone()).collect();
    let sources = sources.into_iter().map(|(_, source)| source).collect();
    let merged = merge(job.source.schema.clone(), Direction::Forward, sources);
    Ok(vec![(names.join(", "), merged)])
}

/// `split`.
pub(crate) async fn split(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    check_output(job).await?;
    let mut tokens = job.options.tokens.clone();
    tokens.sort_unstable();
    tokens.dedup();
    for (name, mut source) in inputs(job).await? {
        let mut choose =
            |key: &DecoratedKey| Some(tokens.partition_point(|token| *token <= key.token.0));
        let target = target(job, "split")?;
        let count = tokens.len() + 1;
        let parts = sstables::distribute(&mut *source, &target, count, &mut choose).await?;
        out.line(&format!("Split {name} into:"))?;
        for sealed in parts.iter().flatten() {
            out.line(&format!("  {}", path_of(job, sealed).display()))?;
        }
    }
    Ok(())
}

/// `filter`.
pub(crate) async fn filter(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let keys = partition_keys(job).await?;
    let Some(keys) = keys else {
        return Failure::arguments("filter needs --partition or --partitions-file");
    };
    check_output(job).await?;
    let keys: HashSet<Vec<u8>> = keys.into_iter().collect();
    let include = job.options.include;
    for (name, mut source) in inputs(job).await? {
        let mut choose =
            |key: &DecoratedKey| (keys.contains(key.key.as_slice()) == include).then_some(0);
        let target = target(job, "filter")?;
        let parts = sstables::distribute(&mut *source, &target, 1, &mut choose).await?;
        let result = match parts.iter().flatten().next() {
            Some(sealed) => format!("output written to {}", path_of(job, sealed).display()),
            None => "no partition is left".to_string(),
        };
        out.line(&format!("Filtering {name}... {result}"))?;
    }
    Ok(())
}

/// `upgrade`.
pub(crate) async fn upgrade(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let target = target(job, "upgrade")?;
    let version = target.options.version;
    // An upgrade goes forward, save where the operator names the version.
    let is_wanted = |one: Version| match &job.options.version {
        Some(_) => one == version,
        None => one.is_at_least(version),
    };
    let old = |one: &Target| job.options.all || !is_wanted(one.descriptor.version);
    if job.targets.iter().any(old) {
        check_output(job).await?;
    }
    for one in &job.targets {
        if !old(one) {
            out.line(&format!(
                "Nothing to do for sstable {}, skipping (use --all to force upgrade all sstables).",
                one.name()
            ))?;
            continue;
        }
        let table = one.open(&job.source.schema).await?;
        let mut target = target.clone();
        let stats = table.stats();
        target.options.level = stats.level;
        target.options.repaired_at = stats.repaired_at;
        target.options.bases = table.statistics().header.bases;
        let mut source = files::read_checked(&table);
        let mut choose = |_: &DecoratedKey| Some(0);
        let parts = sstables::distribute(&mut *source, &target, 1, &mut choose).await?;
        for sealed in parts.iter().flatten() {
            let path = std::path::absolute(path_of(job, sealed));
            let path = path.unwrap_or_else(|_| path_of(job, sealed));
            out.line(&format!("Upgraded sstable {} to {}.", one.name(), path.display()))?;
        }
    }
    Ok(())
}

/// `decompress`.
pub(crate) async fn decompress(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    for one in &job.targets {
        let table = one.open(&job.source.schema).await?;
        if !table.components().has(Component::CompressionInfo) {
            out.line(&format!("{} is not compressed", one.name()))?;
            continue;
        }
        let name = format!("{}.decompressed", one.descriptor.file_name(Component::Data));
        // Beside the original, unless the operator wants it elsewhere.
        let dir = match job.options.output_dir.as_os_str().as_encoded_bytes() {
            b"." => &one.dir,
            _ => &job.options.output_dir,
        };
        let path = dir.join(name);
        sstables::decompress(&table, &path, CLASS).await?;
        out.line(&format!("{} decompressed to {}", one.name(), path.display()))?;
    }
    Ok(())
}
