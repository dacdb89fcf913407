//! `manifest.json` of a snapshot: what it is, when it was taken and when it expires, and its
//! SSTables. Times are whole seconds since 1970. `files` lists the data files, as tools of
//! Cassandra look for them.
//!
//! Of a manifest only the times are read again; one that is damaged has none.

use model::{TableSchema, Uuid};
use runtime::io::fs::DirEntry;
use runtime::io::{IoError, fs};
use serde_json::{Value, json};
use std::path::Path;

pub(super) const NAME: &str = "manifest.json";

const DATA: &str = "-Data.db";
const INDEXES: [&str; 2] = ["-Index.db", "-Partitions.db"];

/// What is told of a snapshot.
pub(super) struct Manifest<'m> {
    pub(super) tag: &'m str,
    pub(super) host_id: Uuid,
    pub(super) schema: &'m TableSchema,
    pub(super) created_secs: i64,
    pub(super) expires_secs: Option<i64>,
    /// What is in its directory.
    pub(super) entries: &'m [DirEntry],
}

impl Manifest<'_> {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut snapshot = json!({ "name": self.tag, "created_at": self.created_secs });
        if let Some(expires) = self.expires_secs {
            snapshot["expires_at"] = json!(expires);
        }
        let data = self.entries.iter().filter_map(|entry| {
            let start = entry.name.strip_suffix(DATA)?;
            Some((start, entry))
        });
        let (mut sstables, mut files) = (Vec::new(), Vec::new());
        for (start, entry) in data {
            let index = INDEXES.iter().find_map(|suffix| self.bytes_of(start, suffix));
            sstables.push(json!({
                "toc_name": format!("{start}-TOC.txt"),
                "data_size": entry.len,
                "index_size": index.unwrap_or(0),
            }));
            files.push(Value::from(entry.name.as_str()));
        }
        let manifest = json!({
            "manifest": { "version": "1.0", "scope": "node" },
            "node": { "host_id": self.host_id.to_string() },
            "snapshot": snapshot,
            "table": {
                "keyspace_name": self.schema.keyspace,
                "table_name": self.schema.name,
                "table_id": self.schema.id.to_string(),
            },
            "sstables": sstables,
            "files": files,
        });
        let mut text = format!("{manifest:#}");
        text.push('\n');
        let (created_secs, expires_secs) = (Some(self.created_secs), self.expires_secs);
        debug_assert_eq!(
            parse(text.as_bytes()),
            Times { created_secs, expires_secs },
            "manifest-last: times that are not read back"
        );
        text.into_bytes()
    }

    fn bytes_of(&self, start: &str, suffix: &str) -> Option<u64> {
        let is_it = |entry: &&DirEntry| entry.name.strip_suffix(suffix) == Some(start);
        self.entries.iter().find(is_it).map(|entry| entry.len)
    }
}

/// When a snapshot was taken, and when it expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) created_secs: Option<i64>,
    pub(super) expires_secs: Option<i64>,
}

/// The times of the snapshot in `dir`; none without a manifest.
pub(super) async fn times(dir: &Path) -> Result<Times, IoError> {
    match fs::read_file(dir.join(NAME)).await {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(error) if error.is_not_found() => Ok(Times::default()),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8]) -> Times {
    let Ok(manifest) = serde_json::from_slice::<Value>(bytes) else { return Times::default() };
    let time = |name: &str| manifest.get("snapshot")?.get(name)?.as_i64();
    Times { created_secs: time("created_at"), expires_secs: time("expires_at") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, len: u64) -> DirEntry {
        DirEntry { name: name.to_owned(), is_dir: false, is_file: true, len }
    }

    #[test]
    fn a_manifest_tells_of_its_sstables_and_times() {
        let schema = crate::testing::schema(7, "t");
        let entries = [
            entry("ms-1-big-Data.db", 100),
            entry("ms-1-big-Partitions.db", 9),
            entry("ms-1-big-TOC.txt", 1),
            entry("schema.cql", 1),
        ];
        let check = |expires_secs| {
            let manifest = Manifest {
                tag: "a\"b",
                host_id: Uuid::nil(),
                schema: &schema,
                created_secs: 5,
                expires_secs,
                entries: &entries,
            };
            let bytes = manifest.to_json();
            assert_eq!(parse(&bytes), Times { created_secs: Some(5), expires_secs });
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["files"], json!(["ms-1-big-Data.db"]));
            assert_eq!(value["snapshot"]["name"], "a\"b");
            let expected =
                json!([{"toc_name": "ms-1-big-TOC.txt", "data_size": 100, "index_size": 9}]);
            assert_eq!(value["sstables"], expected);
            for cut in 0..bytes.len() - 2 {
                assert_eq!(parse(&bytes[..cut]), Times::default());
            }
        };
        check(None);
        check(Some(65));
    }

    #[test]
    fn what_is_no_manifest_has_no_times() {
        for text in ["", "[]", "{\"snapshot\": 5}", "{\"snapshot\": {\"created_at\": \"x\"}}"] {
            assert_eq!(parse(text.as_bytes()), Times::default(), "{text}");
        }
    }
}
