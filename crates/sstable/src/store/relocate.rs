//! Moving an SSTable to another directory, under another generation if need be.
//!
//! Invariants
//!  - *one-rename*: the rename of `TOC.txt` from one directory to the other is the move. Before it
//!    the new files are garbage that is marked as such, after it the old ones are: a crash leaves
//!    the SSTable in one of the places, whole.

use crate::store::dir::{Listing, State, ignore_missing, list, remove, remove_files};
use crate::store::name::{Component, Descriptor};
use crate::store::output::write_whole;
use crate::store::toc::Toc;
use runtime::Erased;
use runtime::io::{File, IoClass, IoError, OpenOptions, fs};
use std::path::{Path, PathBuf};

/// What the temporary TOC of an SSTable starts with that is being moved elsewhere.
const MARK: &str = "moved to ";
/// The directory, in that of the table, of SSTables that were put aside.
pub const QUARANTINE: &str = "quarantine";

/// An SSTable by its place.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// Which of the directory.
    pub descriptor: Descriptor,
}

impl Place<'_> {
    fn path(&self, suffix: &str) -> PathBuf {
        self.dir.join(self.descriptor.file_name_of(suffix))
    }
}

/// Moves the SSTable whose files are `suffixes`; both directories exist, on one file system. The
/// components of `replaced` get that content instead of their own.
pub fn relocate<'a>(
    from: Place<'a>,
    to: Place<'a>,
    suffixes: &'a [String],
    replaced: &'a [(Component, Vec<u8>)],
    class: IoClass,
) -> Erased<'a, Result<(), IoError>> {
    Erased::new(move || async move {
        let (toc, temporary) = (Component::Toc.suffix(), Component::TemporaryToc.suffix());
        assert!((from.dir, from.descriptor) != (to.dir, to.descriptor), "one-rename: to its place");
        let linked = link_all(from, to, suffixes, replaced, class).await;
        if let Err(error) = linked {
            // Nothing has moved; what is there of the new files is marked as garbage.
            let _ = remove(to.dir, to.descriptor).await;
            return Err(error);
        }
        ignore_missing(fs::remove_file(from.path(temporary)).await)?;
        let mark = format!("{MARK}{}\n", to.path(Component::Data.suffix()).display());
        write_whole(&from.path(temporary), mark.as_bytes(), class).await?;
        fs::sync_dir(from.dir).await?;
        ignore_missing(fs::rename(from.path(toc), to.path(toc)).await)?;
        fs::sync_dir(to.dir).await?;
        fs::sync_dir(from.dir).await?;
        ignore_missing(fs::remove_file(to.path(temporary)).await)?;
        fs::sync_dir(to.dir).await?;
        remove_files(from.dir, from.descriptor, suffixes).await
    })
}

/// Makes durable files of what is to be moved, but for the TOC, in the other directory.
async fn link_all(
    from: Place<'_>,
    to: Place<'_>,
    suffixes: &[String],
    replaced: &[(Component, Vec<u8>)],
    class: IoClass,
) -> Result<(), IoError> {
    let (toc, temporary) = (Component::Toc.suffix(), Component::TemporaryToc.suffix());
    // An earlier move may have ended here.
    ignore_missing(fs::remove_file(to.path(temporary)).await)?;
    let content = match fs::read_file(from.path(toc)).await {
        Ok(content) => content,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    debug_assert!(
        replaced.iter().all(|(component, _)| component.suffix() != toc),
        "one-rename: a TOC is moved, not written"
    );
    write_whole(&to.path(temporary), &content, class).await?;
    fs::sync_dir(to.dir).await?;
    for suffix in suffixes.iter().filter(|suffix| *suffix != toc && *suffix != temporary) {
        ignore_missing(fs::remove_file(to.path(suffix)).await)?;
        let content = replaced.iter().find(|(component, _)| component.suffix() == suffix);
        if let Some((_, content)) = content {
            write_whole(&to.path(suffix), content, class).await?;
            continue;
        }
        // Who copied the file may not have made it durable.
        let file = File::open(from.path(suffix), OpenOptions::read_only()).await?;
        file.fdatasync(class).await?;
        file.close().await?;
        fs::hard_link(from.path(suffix), to.path(suffix)).await?;
    }
    if suffixes.iter().any(|suffix| suffix == toc) {
        let file = File::open(from.path(toc), OpenOptions::read_only()).await?;
        file.fdatasync(class).await?;
        file.close().await?;
    }
    fs::sync_dir(to.dir).await
}

/// Removes what moves out of a directory left behind there.
pub fn end_moves(dir: &Path) -> Erased<'_, Result<Listing, IoError>> {
    Erased::new(move || async move {
        let mut listing = list(dir).await?;
        let mut kept = Vec::new();
        for found in listing.tables {
            let moved = found.state == State::Unfinished && {
                let mark =
                    fs::read_file(found.descriptor.path(dir, Component::TemporaryToc)).await?;
                mark.starts_with(MARK.as_bytes())
            };
            match moved {
                true => remove_files(dir, found.descriptor, &found.suffixes).await?,
                false => kept.push(found),
            }
        }
        listing.tables = kept;
        Ok(listing)
    })
}

/// Puts a damaged SSTable aside, all that is there of it, into `quarantine/` of its directory.
/// Answers where its files are now; nothing is done where there are none.
pub fn quarantine(
    dir: &Path,
    descriptor: Descriptor,
    class: IoClass,
) -> Erased<'_, Result<PathBuf, IoError>> {
    Erased::new(move || async move {
        let aside = dir.join(QUARANTINE);
        let there =
            list(dir).await?.tables.into_iter().find(|found| found.descriptor == descriptor);
        let Some(found) = there else { return Ok(aside) };
        fs::create_dir_all(&aside).await?;
        fs::sync_dir(dir).await?;
        let (from, to) = (Place { dir, descriptor }, Place { dir: &aside, descriptor });
        relocate(from, to, &found.suffixes, &[], class).await?;
        Ok(aside)
    })
}

/// The suffixes of `found` that are of the SSTable: those that its TOC names and those that we
/// know. The error names a file that the TOC names and that is not there.
pub fn suffixes_of(found: &[String], toc: &Toc) -> Result<Vec<String>, String> {
    let named: Vec<&str> = toc.suffixes().collect();
    if let Some(missing) = named.iter().find(|name| !found.iter().any(|one| one == **name)) {
        return Err(format!("its TOC.txt names {missing}, which is not there"));
    }
    let ours = |suffix: &&String| {
        named.contains(&suffix.as_str()) || Component::of_suffix(suffix).is_some()
    };
    Ok(found.iter().filter(ours).cloned().collect())
}
