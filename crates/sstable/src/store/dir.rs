//! The SSTables of a directory: which there are, removing one, and removing what a crash left.

use crate::store::name::{Component, Descriptor, Parsed, parse_file_name};
use crate::store::toc::Toc;
use runtime::Erased;
use runtime::io::{IoError, fs};
use std::collections::BTreeMap;
use std::path::Path;

/// What state a set of files is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Sealed: it has its TOC.
    Complete,
    /// It has a temporary TOC and no final one: garbage of a crash.
    Unfinished,
    /// It has no TOC at all: something else removed it.
    NoToc,
}

/// A set of files that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub descriptor: Descriptor,
    /// In what state.
    pub state: State,
    /// Suffixes of the files that are there.
    pub suffixes: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// By version and generation.
    pub tables: Vec<Found>,
    /// Names of files of versions that cannot be read.
    pub unreadable: Vec<String>,
}

/// Lists a directory.
pub fn list(dir: &Path) -> Erased<'_, Result<Listing, IoError>> {
    Erased::new(move || async move {
        let mut sets: BTreeMap<Descriptor, (Vec<String>, u64)> = BTreeMap::new();
        let mut listing = Listing::default();
        for entry in fs::list_dir(dir).await? {
            match parse_file_name(&entry.name) {
                Parsed::Known(descriptor, suffix) if !entry.is_dir => {
                    let set = sets.entry(descriptor).or_default();
                    set.0.push(suffix.to_string());
                    set.1 += entry.len;
                }
                Parsed::OtherVersion(_) => listing.unreadable.push(entry.name.clone()),
                _ => {}
            }
        }
        listing.tables =
            sets.into_iter().map(|(d, (suffixes, bytes))| found(d, suffixes, bytes)).collect();
        Ok(listing)
    })
}

fn found(descriptor: Descriptor, suffixes: Vec<String>, bytes: u64) -> Found {
    let has = |component: Component| suffixes.iter().any(|s| s == component.suffix());
    let state = match (has(Component::Toc), has(Component::TemporaryToc)) {
        (true, _) => State::Complete,
        (false, true) => State::Unfinished,
        (false, false) => State::NoToc,
    };
    debug_assert!(!suffixes.is_empty(), "an SSTable of no file: {descriptor:?}");
    Found { descriptor, state, suffixes, bytes }
}

/// Removes an SSTable such that a crash leaves it whole or as garbage that [`clean_up`] removes.
/// Removing what is not there succeeds.
pub fn remove(dir: &Path, descriptor: Descriptor) -> Erased<'_, Result<(), IoError>> {
    Erased::new(move || async move {
        let toc = descriptor.path(dir, Component::Toc);
        let temporary = descriptor.path(dir, Component::TemporaryToc);
        let mut suffixes: Vec<String> =
            Component::ALL.iter().map(|component| component.suffix().to_string()).collect();
        for toc in [&toc, &temporary] {
            match fs::read_file(toc).await {
                Ok(bytes) => suffixes.extend(Toc::parse(&bytes).unwrap_or_default().unknown),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        debug_assert!(!suffixes.iter().any(|suffix| suffix.contains('/')), "out of its directory");
        if ignore_missing(fs::rename(&toc, &temporary).await)? {
            fs::sync_dir(dir).await?;
        }
        remove_files(dir, descriptor, &suffixes).await
    })
}

/// Removes the files of an SSTable that has no TOC any more; the temporary TOC, which marks them
/// as garbage, goes last.
pub(super) async fn remove_files(
    dir: &Path,
    descriptor: Descriptor,
    suffixes: &[String],
) -> Result<(), IoError> {
    for suffix in suffixes.iter().filter(|s| *s != Component::TemporaryToc.suffix()) {
        ignore_missing(fs::remove_file(dir.join(descriptor.file_name_of(suffix))).await)?;
    }
    fs::sync_dir(dir).await?;
    let temporary = descriptor.path(dir, Component::TemporaryToc);
    ignore_missing(fs::remove_file(&temporary).await)?;
    fs::sync_dir(dir).await
}

/// Whether something was done.
pub(super) fn ignore_missing(result: Result<(), IoError>) -> Result<bool, IoError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes what crashes left in a directory; answers what is complete.
pub fn clean_up(dir: &Path) -> Erased<'_, Result<Listing, IoError>> {
    Erased::new(move || async move {
        let mut listing = list(dir).await?;
        let mut kept = Vec::new();
        for found in listing.tables {
            match found.state {
                State::Unfinished => {
                    tracing::info!(
                        "removing unfinished SSTable {} in {}",
                        found.descriptor.generation,
                        dir.display()
                    );
                    remove_files(dir, found.descriptor, &found.suffixes).await?;
                }
                _ => kept.push(found),
            }
        }
        listing.tables = kept;
        Ok(listing)
    })
}
