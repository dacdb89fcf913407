//! Which files a request means: a bucket, which is a folder below that of the option, and a prefix
//! of what is below it. Pure.
//!
//! Invariants
//!  - *stays-below*: no bucket and no prefix names anything that is not below the folder of the
//!    option: each part is the name of an entry of the folder before it.

use crate::error::Error;

/// Bytes of the name of a bucket, of a prefix, and of a part of one: what file systems take.
const BUCKET_BYTES_MAX: usize = 255;
const PREFIX_BYTES_MAX: usize = 1024;
const PART_BYTES_MAX: usize = 255;
/// The folder of exports below a prefix, as the service has it.
pub(super) const EXPORTS: &str = "AWSDynamoDB";

/// A bucket and a prefix that were checked. (*stays-below*)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    bucket: String,
    /// Folders, then what the names in the last of them begin with: `a/b/part-`.
    prefix: String,
}

impl Place {
    /// Refuses what may lead elsewhere.
    pub(super) fn of(bucket: &str, prefix: &str) -> Result<Place, Error> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_name = (1..=BUCKET_BYTES_MAX).contains(&bucket.len())
            && bucket.bytes().all(is_part)
            && bucket.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        if !is_name {
            return Err(refused("S3Bucket", bucket, "letters, digits, dots, hyphens"));
        }
        if PREFIX_BYTES_MAX < prefix.len() || prefix.chars().any(char::is_control) {
            return Err(refused("S3KeyPrefix", prefix, "1024 bytes without control characters"));
        }
        let parts = || prefix.split('/');
        let folders = parts().count() - 1;
        let is_strange = |(at, part): (usize, &str)| {
            let is_empty = part.is_empty() && at < folders;
            is_empty || matches!(part, "." | "..") || PART_BYTES_MAX < part.len()
        };
        if parts().enumerate().any(is_strange) {
            let names = "names with a slash between, of which none is '.' or '..'";
            return Err(refused("S3KeyPrefix", prefix, names));
        }
        Ok(Place { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The folders that the prefix names, below that of the bucket, each in the one before.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        let end = self.prefix.rfind('/').unwrap_or(0);
        self.prefix[..end].split('/').filter(|part| !part.is_empty())
    }

    /// What names in the last of these folders begin with.
    pub(super) fn stem(&self) -> &str {
        self.prefix.rsplit('/').next().unwrap_or_default()
    }
}

/// The prefix of an export, with the one slash that it ends with if it is there.
pub(super) fn folder_of_prefix(prefix: Option<&str>) -> String {
    let prefix = prefix.map(|prefix| prefix.strip_suffix('/').unwrap_or(prefix));
    prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default()
}

/// The key of the folder of an export.
pub(super) fn key_of_export(prefix: Option<&str>, id: &str) -> String {
    format!("{}{EXPORTS}/{id}", folder_of_prefix(prefix))
}

fn refused(name: &str, given: &str, expected: &str) -> Error {
    let shown: String = given.chars().take(100).collect();
    Error::validation(format!(
        "1 validation error detected: Value '{shown}' at '{name}' failed to satisfy constraint: \
         Member must be {expected}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    /// The folders and the stem, with slashes between.
    fn parts(bucket: &str, prefix: &str) -> Option<String> {
        let place = Place::of(bucket, prefix).ok()?;
        let mut all: Vec<&str> = vec![place.bucket()];
        all.extend(place.folders());
        all.push(place.stem());
        Some(all.join("/"))
    }

    #[test]
    fn an_export_has_a_folder_below_its_prefix() {
        let check = |prefix, expected| assert_eq!(key_of_export(prefix, "1-a"), expected);
        check(None, "AWSDynamoDB/1-a");
        check(Some("x"), "x/AWSDynamoDB/1-a");
        check(Some("x/y/"), "x/y/AWSDynamoDB/1-a");
    }

    #[test]
    fn a_prefix_is_folders_and_the_beginning_of_names() {
        let check = |prefix: &str, expected: &str| {
            assert_eq!(parts("b", prefix).as_deref(), Some(expected), "{prefix}");
        };
        check("", "b/");
        check("x", "b/x");
        check("x/", "b/x/");
        check("x/y/part-", "b/x/y/part-");
        check("x y/...", "b/x y/...");
    }

    /// *stays-below*
    #[test]
    fn nothing_leads_elsewhere() {
        for bucket in ["", ".", "..", "/", "a/b", "../a", ".a", "a\0", "a b", "-a", "\u{e4}"] {
            assert_eq!(parts(bucket, ""), None, "{bucket}");
        }
        assert_eq!(parts(&"a".repeat(256), ""), None);
        for prefix in [
            "/",
            "/etc/passwd",
            "..",
            "../",
            "a/..",
            "a/../b",
            "a/./b",
            ".",
            "a//b",
            "//",
            "a\0b",
            "a\n",
            "a/../../b/",
        ] {
            assert_eq!(parts("b", prefix), None, "{prefix}");
        }
        assert_eq!(parts("b", &"a/".repeat(513)), None);
        assert_eq!(parts("b", &format!("x/{}", "a".repeat(256))), None);
    }

    proptest! {
        /// *stays-below*
        #[test]
        fn what_is_taken_has_plain_names(bucket in "[a.]{1,3}|.*", prefix in "[a./\\\\]{0,12}|.*") {
            let Ok(place) = Place::of(&bucket, &prefix) else { return Ok(()) };
            let names = std::iter::once(place.bucket()).chain(place.folders());
            for name in names.chain(Some(place.stem()).filter(|stem| !stem.is_empty())) {
                let components: Vec<_> = Path::new(name).components().collect();
                prop_assert!(matches!(components[..], [Component::Normal(only)] if only == name));
            }
        }
    }
}
