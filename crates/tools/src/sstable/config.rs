//! The configuration of the node whose files they are, as far as it matters here: where its data
//! are and in which version it writes SSTables.
//!
//! Invariants
//!  - *never-in-the-way*: what is wrong with the file is told in the log and passed over; a file
//!    that cannot be read is as none.

use super::options::Options;
use ::options::Values;
use runtime::io::fs;
use sstable::{Version, WriterDefaults};
use std::path::{Path, PathBuf};

/// The logger of the tool.
const LOG: &str = "sstable_tool";

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    values: Values,
    /// Whether there was a file.
    is_read: bool,
}

impl Config {
    /// Reads the file that the options name, or the one in the usual place.
    pub(crate) async fn read(options: &Options) -> Config {
        let path = match &options.yaml_file {
            Some(path) => Some(path.clone()),
            None => ::options::usual_file(),
        };
        let Some(path) = path else { return Config::default() };
        match read_text(&path).await {
            Ok(text) => Config::of_text(&path, &text),
            Err(why) => {
                tracing::warn!(target: LOG, "failed to read {}: {why}", path.display());
                Config::default()
            }
        }
    }

    fn of_text(path: &Path, text: &str) -> Config {
        let mut values = Values::default();
        match values.read_file_leniently(text) {
            Ok(complaints) => {
                for complaint in complaints {
                    tracing::debug!(
                        target: LOG, "error processing configuration item: {complaint}");
                }
                tracing::debug!(
                    target: LOG, "Successfully read scylla.yaml from {}", path.display());
                Config { values, is_read: true }
            }
            Err(refused) => {
                tracing::warn!(target: LOG, "failed to read {}: {refused}", path.display());
                Config::default()
            }
        }
    }

    /// The data directory of the node, if there is a configuration.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        if !self.is_read {
            return None;
        }
        Some(match self.values.list("data_file_directories").first() {
            Some(dir) if !dir.is_empty() => PathBuf::from(dir),
            _ => node::workdir(&self.values).join("data"),
        })
    }

    /// How SSTables are written whose table does not say.
    pub(crate) fn writer_defaults(&self) -> WriterDefaults {
        let usual = WriterDefaults { version: Version::Ms, ..WriterDefaults::default() };
        let version = WriterDefaults::version_of(self.values.text("sstable_format"));
        WriterDefaults { version: version.unwrap_or(usual.version), ..usual }
    }
}

async fn read_text(path: &Path) -> Result<String, String> {
    let bytes = fs::read_file(path).await.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_passed_over() {
        let check = |text: &str, data_dir: Option<&str>, version: Version| {
            let config = Config::of_text(Path::new("scylla.yaml"), text);
            assert_eq!(config.data_dir().as_deref(), data_dir.map(Path::new), "{text}");
            assert_eq!(config.writer_defaults().version, version, "{text}");
        };
        check("workdir: /w\nfoo: bar", Some("/w/data"), Version::Ms);
        check("data_file_directories: [/a, /b]\nsmp: many", Some("/a"), Version::Ms);
        check("workdir: /w\nsstable_format: mt", Some("/w/data"), Version::Mt);
        check("workdir: /w\nsstable_format: zz", Some("/w/data"), Version::Ms);
        check("a: [", None, Version::Ms);
    }
}
