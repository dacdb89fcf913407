//! Files of a bucket: which there are, in the order of their keys.
//!
//! Invariants
//!  - *no-link-followed*: every folder on the way, from that of the option on down, and every file
//!    is an entry of the folder before it and no link (`place`: *stays-below*). Who can put links
//!    there between the look and the opening has the disk anyway.

use super::place::Place;
use runtime::io::{IoError, fs};
use std::path::{Path, PathBuf};

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its name below the bucket, with slashes.
    pub(super) key: String,
    pub(super) path: PathBuf,
    /// Bytes, when it was found.
    pub(super) bytes: u64,
}

/// Why there are none.
#[derive(Debug)]
pub(super) enum Lost {
    NoBucket,
    /// Where a folder is to be something else is.
    NoFolder,
    /// More than may be.
    TooMany,
    Io(IoError),
}

impl From<IoError> for Lost {
    fn from(error: IoError) -> Lost {
        Lost::Io(error)
    }
}

/// The files of a place, in the order of their keys, so many at most; without the ones that are no
/// regular files. `root`: the folder of the buckets.
pub(super) async fn find(root: &Path, place: &Place, most: usize) -> Result<Vec<Found>, Lost> {
    let mut dir = root.to_path_buf();
    let mut key = String::new();
    if !enter(&mut dir, place.bucket()).await? {
        return Err(Lost::NoBucket);
    }
    for folder in place.folders() {
        if !enter(&mut dir, folder).await? {
            return Ok(Vec::new());
        }
        key += folder;
        key.push('/');
    }
    let (mut found, mut left) = (Vec::new(), Vec::new());
    push_entries((&dir, &key, place.stem()), &mut left).await?;
    while let Some((entry, is_dir)) = left.pop() {
        if is_dir {
            push_entries((&entry.path, &entry.key, ""), &mut left).await?;
        } else {
            found.push(entry);
        }
        if most < found.len() {
            return Err(Lost::TooMany);
        }
    }
    debug_assert!(found.is_sorted_by(|a, b| a.key < b.key), "files are in the order of their keys");
    Ok(found)
}

/// Goes to the folder of that name, which is made where nothing has that name; whether it is one.
/// (*no-link-followed*)
pub(super) async fn enter_or_make(dir: &mut PathBuf, name: &str) -> Result<bool, IoError> {
    let entries = fs::list_dir(&*dir).await?;
    dir.push(name);
    match entries.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok(entry.is_dir),
        None => fs::create_dir_all(&*dir).await.map(|()| true),
    }
}

/// Goes to the folder of that name; whether there is one. (*no-link-followed*)
pub(super) async fn enter(dir: &mut PathBuf, name: &str) -> Result<bool, IoError> {
    let entries = fs::list_dir(&*dir).await?;
    dir.push(name);
    Ok(entries.iter().any(|entry| entry.name == name && entry.is_dir))
}

/// Pushes what is in a folder and begins with the stem, the first one last. Keys of folders end
/// with a slash, by which they have their place among the others.
async fn push_entries(
    (dir, key, stem): (&Path, &str, &str),
    left: &mut Vec<(Found, bool)>,
) -> Result<(), IoError> {
    let entries = fs::list_dir(dir).await?;
    let wanted = entries.into_iter().filter(|entry| entry.name.starts_with(stem));
    let wanted = wanted.filter(|entry| {
        let is_known = entry.is_dir || entry.is_file;
        if !is_known {
            let path = dir.join(&entry.name);
            tracing::warn!(target: "transfers", "{} is no file, and left out", path.display());
        }
        is_known
    });
    let before = left.len();
    left.extend(wanted.map(|entry| {
        let slash = if entry.is_dir { "/" } else { "" };
        let key = format!("{key}{}{slash}", entry.name);
        (Found { key, path: dir.join(&entry.name), bytes: entry.len }, entry.is_dir)
    }));
    left[before..].sort_by(|(a, _), (b, _)| b.key.cmp(&a.key));
    Ok(())
}
