//! The file that a load is continued from.
//!
//! Invariants
//!  - *same-load*: a checkpoint is used only for the table, the columns and the files that it was
//!    written for; a file that changed since is not continued.

use crate::feed::Position;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const VERSION: u64 = 1;

/// A file as it was when the load began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) modified_micros: i64,
}

/// How far a load has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The statement that is executed for each row: it names table and columns.
    pub(crate) statement: String,
    pub(crate) files: Vec<FileFacts>,
    /// Of all writes: a row that is written twice is the same row.
    pub(crate) timestamp: Option<i64>,
    pub(crate) position: Position,
    pub(crate) rows: u64,
    pub(crate) errors: u64,
    /// The length of the file of bad rows.
    pub(crate) bad_bytes: u64,
}

impl Checkpoint {
    fn to_json(&self) -> Value {
        let file = |facts: &FileFacts| {
            json!({
                "path": facts.path.to_string_lossy(),
                "bytes": facts.bytes,
                "modified_micros": facts.modified_micros,
            })
        };
        json!({
            "version": VERSION,
            "statement": self.statement,
            "timestamp": self.timestamp,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "position": {
                "file": self.position.file,
                "offset": self.position.offset,
                "lines": self.position.lines,
                "records": self.position.records,
            },
            "rows": self.rows,
            "errors": self.errors,
            "bad_bytes": self.bad_bytes,
        })
    }

    fn from_json(json: &Value) -> Option<Checkpoint> {
        let number = |json: &Value, name: &str| json.get(name)?.as_u64();
        let file = |json: &Value| {
            Some(FileFacts {
                path: json.get("path")?.as_str()?.into(),
                bytes: number(json, "bytes")?,
                modified_micros: json.get("modified_micros")?.as_i64()?,
            })
        };
        let files: Option<Vec<FileFacts>> =
            json.get("files")?.as_array()?.iter().map(file).collect();
        let place = json.get("position")?;
        let position = Position {
            file: number(place, "file")? as usize,
            offset: number(place, "offset")?,
            lines: number(place, "lines")?,
            records: number(place, "records")?,
        };
        let known = number(json, "version")? == VERSION;
        known.then_some(Checkpoint {
            statement: json.get("statement")?.as_str()?.to_string(),
            files: files?,
            timestamp: json.get("timestamp")?.as_i64(),
            position,
            rows: number(json, "rows")?,
            errors: number(json, "errors")?,
            bad_bytes: number(json, "bad_bytes")?,
        })
    }

    /// Replaces the file as a whole.
    pub(crate) async fn write(&self, path: &Path) -> Result<(), String> {
        let text = format!("{:#}\n", self.to_json());
        let written = runtime::io::fs::write_file_atomic(path, text.as_bytes()).await;
        written.map_err(|error| format!("the checkpoint cannot be written: {error}"))
    }

    /// The checkpoint in that file, if there is one.
    pub(crate) async fn read(path: &Path) -> Result<Option<Checkpoint>, String> {
        let error = |error: runtime::io::IoError| error.to_string();
        if !runtime::io::fs::exists(path).await.map_err(error)? {
            return Ok(None);
        }
        let bytes = runtime::io::fs::read_file(path).await.map_err(error)?;
        let json = serde_json::from_slice(&bytes).ok();
        let found = json.as_ref().and_then(Checkpoint::from_json);
        let unreadable = || format!("{}: not a checkpoint of this version", path.display());
        found.map(Some).ok_or_else(unreadable)
    }

    /// *same-load*: what is not as it was, if anything.
    pub(crate) fn mismatch(&self, now: &Checkpoint) -> Option<String> {
        if self.statement != now.statement {
            return Some(format!(
                "the load that was interrupted executed\n  {}\nand this one would execute\n  {}",
                self.statement, now.statement
            ));
        }
        if self.files.len() != now.files.len() {
            return Some("the load that was interrupted had other files".to_string());
        }
        let changed = self.files.iter().zip(&now.files).find(|(then, now)| then != now);
        changed.map(|(then, _)| format!("{}: the file has changed since", then.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Checkpoint {
        Checkpoint {
            statement: "INSERT".into(),
            files: vec![FileFacts { path: "a.csv".into(), bytes: 7, modified_micros: -5 }],
            timestamp: Some(99),
            position: Position { file: 0, offset: 5, lines: 2, records: 1 },
            rows: 1,
            errors: 0,
            bad_bytes: 3,
        }
    }

    #[test]
    fn it_is_read_back() {
        let checkpoint = some();
        assert_eq!(Checkpoint::from_json(&checkpoint.to_json()), Some(checkpoint));
        let without = Checkpoint { timestamp: None, ..some() };
        assert_eq!(Checkpoint::from_json(&without.to_json()), Some(without));
        assert_eq!(Checkpoint::from_json(&json!({"version": 1})), None);
    }

    #[test]
    fn another_load_is_not_continued() {
        assert_eq!(some().mismatch(&some()), None);
        let other = Checkpoint { statement: "UPDATE".into(), ..some() };
        assert!(some().mismatch(&other).is_some_and(|text| text.contains("UPDATE")));
        let mut grown = some();
        grown.files[0].bytes = 8;
        assert_eq!(some().mismatch(&grown).as_deref(), Some("a.csv: the file has changed since"));
        grown.files.clear();
        assert!(some().mismatch(&grown).is_some());
    }
}
