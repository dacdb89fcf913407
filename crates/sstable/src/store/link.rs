//! Giving the files of an SSTable second names in another directory.
//!
//! Invariants
//!  - *toc-last* holds there as well: all other names are durable before `TOC.txt` gets its own.
//!    What a crash interrupts has no TOC there, of either kind.

use crate::store::name::{Component, Descriptor};
use runtime::io::{IoError, fs};
use runtime::task::join;
use std::path::{Path, PathBuf};

/// Links a sealed SSTable of the directory `from`, whose files are `suffixes`, into its directory
/// `name`, which is created if it is not there. All is durable when this returns. Nobody removes
/// the SSTable meanwhile. An error leaves all names, of which the last may not be durable, or
/// removes those it has made as far as that is possible, and leaves no `TOC.txt`.
pub async fn link<'s>(
    from: &Path,
    name: &str,
    descriptor: Descriptor,
    suffixes: impl IntoIterator<Item = &'s str>,
) -> Result<(), IoError> {
    let (toc, temporary) = (Component::Toc.suffix(), Component::TemporaryToc.suffix());
    debug_assert!(name.split('/').all(|one| one != ".."), "toc-last: linked into {name:?}");
    let to = from.join(name);
    fs::create_dir_all(&to).await?;
    let mut made = Vec::new();
    let others = suffixes.into_iter().filter(|suffix| *suffix != toc && *suffix != temporary);
    let linked = async {
        for suffix in others {
            made.push(link_one(from, &to, descriptor.file_name_of(suffix)).await?);
        }
        // Somebody may have removed the directory, and it is new.
        let (in_it, above) = join(fs::sync_dir(&to), fs::sync_dir(from)).await;
        in_it.and(above)?;
        link_one(from, &to, descriptor.file_name(Component::Toc)).await
    }
    .await;
    if let Err(error) = linked {
        for path in made {
            let _ = fs::remove_file(path).await;
        }
        return Err(error);
    }
    fs::sync_dir(&to).await
}

async fn link_one(from: &Path, to: &Path, file: String) -> Result<PathBuf, IoError> {
    let path = to.join(&file);
    fs::hard_link(from.join(file), &path).await?;
    Ok(path)
}
