//! The records that are no rows: as they are in a file of their own, which can be loaded again once
//! it is mended; and why, in a file beside it.

use crate::worker::BadRow;
use runtime::io::{AlignedBuf, File, IoClass, OpenOptions};
use std::path::{Path, PathBuf};

/// Reasons that are printed; all of them are in the file.
const PRINTED_MAX: u64 = 20;

/// The two files. They are made when there is something to write.
pub(crate) struct BadFile {
    path: PathBuf,
    header: Option<Vec<u8>>,
    files: Option<(File, File)>,
    /// The length of the file of records.
    pub(crate) bytes: u64,
    log_bytes: u64,
    printed: u64,
}

impl BadFile {
    /// `bytes`: what of an earlier load is kept. Each file begins with the `header`.
    pub(crate) fn new(path: PathBuf, header: Option<Vec<u8>>, bytes: u64) -> BadFile {
        BadFile { path, header, files: None, bytes, log_bytes: 0, printed: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends records of the file `source`; returns what is to be printed.
    pub(crate) async fn append(
        &mut self,
        source: &Path,
        rows: &[BadRow],
    ) -> Result<Vec<String>, String> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (mut records, mut log, mut printed) = (Vec::new(), String::new(), Vec::new());
        if self.bytes == 0
            && let Some(header) = &self.header
        {
            records.extend_from_slice(header);
            records.push(b'\n');
        }
        for row in rows {
            records.extend_from_slice(&row.record);
            records.push(b'\n');
            let column = row.column.map_or_else(String::new, |column| format!(":{column}"));
            let line = format!("{}:{}{column}: {}", source.display(), row.line, row.why);
            log.push_str(&line);
            log.push('\n');
            self.printed += 1;
            if self.printed <= PRINTED_MAX {
                printed.push(line);
            } else if self.printed == PRINTED_MAX + 1 {
                printed.push(format!("more such errors are in {}", self.log_path().display()));
            }
        }
        let error = |error: runtime::io::IoError| error.to_string();
        let (bad, reasons) = self.open().await.map_err(error)?;
        let written = bad.write_at(IoClass::System, self.bytes, AlignedBuf::copy_from(&records));
        written.await.map_err(error)?;
        bad.fdatasync(IoClass::System).await.map_err(error)?;
        let text = AlignedBuf::copy_from(log.as_bytes());
        reasons.write_at(IoClass::System, self.log_bytes, text).await.map_err(error)?;
        self.bytes += records.len() as u64;
        self.log_bytes += log.len() as u64;
        Ok(printed)
    }

    fn log_path(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".log");
        PathBuf::from(name)
    }

    async fn open(&mut self) -> Result<(File, File), runtime::io::IoError> {
        if let Some(files) = &self.files {
            return Ok(files.clone());
        }
        let options = OpenOptions::create().buffered();
        let bad = File::open(&self.path, options).await?;
        bad.truncate(self.bytes).await?;
        let log = match self.bytes {
            0 => File::open(self.log_path(), options.truncate()).await?,
            _ => File::open(self.log_path(), options).await?,
        };
        self.log_bytes = log.len().await?;
        self.files = Some((bad.clone(), log.clone()));
        Ok((bad, log))
    }
}
