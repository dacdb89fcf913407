//! The folder of all data: where it is, its lock, and one that is for a while alone.
//!
//! Invariants
//!  - *one-process*: who looks into a folder holds its lock.

use options::{Source, Values};
use std::path::{Path, PathBuf};

/// The folder of all data.
pub fn workdir(values: &Values) -> PathBuf {
    PathBuf::from(values.text("workdir"))
}

/// The folders that options name, and where they are below the folder of all data otherwise.
const FOLDERS: [(&str, &str); 4] = [
    ("data_file_directories", "data"),
    ("commitlog_directory", "commitlog"),
    ("schema_commitlog_directory", "commitlog/schema"),
    ("hints_directory", "hints"),
];

/// Says in the options where SSTables, logs and hints are, for tools that look for them in
/// `system.config`.
pub fn name_folders(values: &mut Values) {
    for (name, tail) in FOLDERS {
        if values.list(name).first().is_none_or(|folder| folder.is_empty()) {
            let folder = workdir(values).join(tail);
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            let set = values.set(name, vec![folder.display().to_string()], Source::Internal);
            debug_assert!(set.is_ok(), "{name} is an option");
        }
    }
}

/// Takes the lock of the data folder for this process. The error tells who has it.
pub async fn lock(workdir: &Path) -> Result<runtime::io::fs::FileLock, String> {
    use runtime::io::fs::LockError;
    runtime::io::fs::create_dir_all(workdir).await.map_err(|error| error.to_string())?;
    let path = workdir.join("lock");
    runtime::io::fs::lock_exclusive(&path).await.map_err(|error| match error {
        LockError::Held(Some(pid)) => {
            format!("data directory {} is in use by process {pid}", workdir.display())
        }
        LockError::Held(None) => {
            format!("data directory {} is in use by another process", workdir.display())
        }
        LockError::Io(error) => error.to_string(),
    })
}

/// A temporary folder that goes with this value.
pub struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// Makes a folder below the system's temporary one.
    pub fn make() -> std::io::Result<TemporaryFolder> {
        TemporaryFolder::make_in(&std::env::temp_dir())
    }

    /// Makes a folder below `base`.
    #[allow(clippy::disallowed_methods, reason = "no shard runs yet, or it is a tool's own")]
    pub fn make_in(base: &Path) -> std::io::Result<TemporaryFolder> {
        for attempt in 0..1000 {
            let path = base.join(format!("nereid-{}-{attempt}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(TemporaryFolder { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(std::io::Error::other("no free name for a temporary folder"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::values;

    #[test]
    fn folders_are_named() {
        let check = |name: &str, given: &[(&str, &str)], expected: &str| {
            let mut values = values(given);
            name_folders(&mut values);
            assert_eq!(values.list(name), [expected], "{given:?}");
        };
        check("data_file_directories", &[("workdir", "/a/b")], "/a/b/data");
        check("commitlog_directory", &[("workdir", "/a/b")], "/a/b/commitlog");
        check("schema_commitlog_directory", &[("workdir", "/a")], "/a/commitlog/schema");
        check("hints_directory", &[("workdir", "/a")], "/a/hints");
        for (name, _) in FOLDERS {
            check(name, &[("workdir", "/a"), (name, "/c")], "/c");
        }
    }
}
