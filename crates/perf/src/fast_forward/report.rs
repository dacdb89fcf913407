//! The output: a table per group on stdout, and a JSON file per line of it.

use super::dataset::{Dataset, Kind};
use super::groups::Group;
use super::measure::{Result as Reduced, Sample, Value, reduce};
use super::options::Output;
use runtime::io::fs;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// What a group is called, in the files and above its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading<'a> {
    pub(crate) group: &'a str,
    pub(crate) message: &'a str,
    pub(crate) dataset: &'a Dataset,
    pub(crate) needs_cache: bool,
    pub(crate) parameters: &'a [&'a str],
}

impl<'a> Heading<'a> {
    pub(crate) fn of(group: &'a Group, dataset: &'a Dataset) -> Heading<'a> {
        Heading {
            group: group.name,
            message: group.message,
            dataset,
            needs_cache: group.needs_cache,
            parameters: group.parameters,
        }
    }
}

/// A line: its parameters as printed and as a file is called, and the repetitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) values: &'a [String],
    pub(crate) file: &'a str,
    pub(crate) samples: &'a [Sample],
}

/// Prints and writes results.
#[derive(Debug)]
pub(crate) struct Report {
    output: Output,
    /// How many lines of one name there were.
    runs: BTreeMap<String, u64>,
    /// Whether a check failed.
    pub(crate) failed: bool,
}

/// Width of a parameter's column.
fn parameter_width(name: &str) -> usize {
    let least = if name == "range" { 24 } else { 8 };
    least.max(name.len() + 1)
}

impl Report {
    pub(crate) fn new(output: &Output) -> Report {
        Report { output: output.clone(), runs: BTreeMap::new(), failed: false }
    }

    /// Begins the table of a group.
    pub(crate) fn begin(&self, heading: &Heading<'_>) {
        println!("\nrunning: {} on dataset {}", heading.group, heading.dataset.name);
        println!("{}", heading.message);
        let mut line = String::from("   ");
        for parameter in heading.parameters {
            let _ = write!(line, "{parameter:<width$}", width = parameter_width(parameter));
        }
        for (name, value) in reduce(&[Sample::default()]).columns {
            let _ = write!(line, " {name:>width$}", width = width(name, value));
        }
        println!("{line}");
    }

    /// Prints a line and writes its files.
    pub(crate) async fn add(
        &mut self,
        heading: &Heading<'_>,
        line: &Line<'_>,
    ) -> Result<(), String> {
        let reduced = reduce(line.samples);
        println!("{}", text(heading, line.values, &reduced));
        if let Some(error) = &reduced.error {
            println!("^^^ ERROR: {error}");
            self.failed = true;
        }
        if !self.output.json {
            return Ok(());
        }
        let folder = self.output.folder.join(heading.group).join(heading.dataset.name);
        fs::create_dir_all(&folder).await.map_err(|error| error.to_string())?;
        let counted = folder.join(line.file).display().to_string();
        let run = self.runs.entry(counted).or_insert(0);
        *run += 1;
        let results = json!({
            "parameters": parameters(heading, line, *run),
            "stats": stats(&reduced),
        });
        let name = format!("{}.{run}.json", line.file);
        write(&folder.join(name), &document(heading, &results)).await?;
        if self.output.all {
            let all = line.samples.iter().map(|sample| {
                json!({
                    "parameters": results["parameters"],
                    "stats": stats(&reduce(std::slice::from_ref(sample))),
                })
            });
            let name = format!("{}.{run}.all.json", line.file);
            let all = Json::Array(all.collect());
            write(&folder.join(name), &document(heading, &all)).await?;
        }
        Ok(())
    }
}

async fn write(path: &Path, document: &Json) -> Result<(), String> {
    let text = format!("{document:#}\n");
    fs::write_file_atomic(path, text.as_bytes()).await.map_err(|error| error.to_string())
}

fn width(name: &str, value: Value) -> usize {
    let least = match value {
        Value::Seconds(_) | Value::Rate(_) => 10,
        _ => 7,
    };
    name.len().max(least)
}

/// One line of the table.
fn text(heading: &Heading<'_>, values: &[String], reduced: &Reduced) -> String {
    let mut line = String::from("-> ");
    for (name, value) in heading.parameters.iter().zip(values) {
        let _ = write!(line, "{value:<width$}", width = parameter_width(name));
    }
    for (name, value) in &reduced.columns {
        let width = width(name, *value);
        let _ = match value {
            Value::Seconds(seconds) => write!(line, " {seconds:>width$.6}"),
            Value::Count(count) => write!(line, " {count:>width$}"),
            Value::Rate(rate) => write!(line, " {rate:>width$.0}"),
            Value::Mean(mean) => write!(line, " {mean:>width$.1}"),
            Value::Percent(percent) => write!(line, " {:>width$}", format!("{percent:.1}%")),
            Value::Absent => write!(line, " {:>width$}", "n/a"),
        };
    }
    line
}

fn stats(reduced: &Reduced) -> Json {
    let number = |value: &Value| match value {
        Value::Count(count) => json!(count),
        Value::Seconds(number)
        | Value::Rate(number)
        | Value::Mean(number)
        | Value::Percent(number) => json!(number),
        Value::Absent => Json::Null,
    };
    let pairs = reduced.columns.iter();
    Json::Object(pairs.map(|(name, value)| (name.to_string(), number(value))).collect())
}

fn parameters(heading: &Heading<'_>, line: &Line<'_>, run: u64) -> Json {
    let mut all = serde_json::Map::new();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in heading.parameters.iter().zip(line.values) {
        if !name.is_empty() {
            all.insert(name.to_string(), json!(value));
            names.push(name.to_string());
            values.push(value.clone());
        }
    }
    all.insert("test_run_count".to_string(), json!(run.to_string()));
    names.push("test_run_count".to_string());
    values.push(run.to_string());
    all.insert(names.join(","), json!(values.join(",")));
    Json::Object(all)
}

fn document(heading: &Heading<'_>, results: &Json) -> Json {
    let kind = match heading.dataset.kind {
        Kind::Large => "large",
        Kind::Small => "small",
    };
    json!({
        "test_group_properties": {
            "name": heading.group,
            "message": heading.message,
            "dataset": heading.dataset.name,
            "partition_type": kind,
            "needs_cache": heading.needs_cache,
        },
        "results": results,
        "versions": crate::versions(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::dataset::DATASETS;
    use super::*;

    fn heading() -> Heading<'static> {
        Heading {
            group: "g",
            message: "m",
            dataset: &DATASETS[0],
            needs_cache: false,
            parameters: &["read", "skip"],
        }
    }

    #[test]
    fn a_line_stands_below_its_heading() {
        let sample =
            Sample { seconds: 0.5, fragments: 3, aio: 2, bytes: 5000, ..Sample::default() };
        let values = ["1".to_string(), "0".to_string()];
        let line = text(&heading(), &values, &reduce(&[sample]));
        let start = "-> 1       0          0.500000          1       3          6";
        assert!(line.starts_with(start), "{line}");
        assert!(line.contains("n/a"), "{line}");
    }

    #[test]
    fn the_document_has_the_documented_shape() {
        let values = ["1".to_string(), "64".to_string()];
        let sample = Sample { seconds: 0.5, fragments: 3, ..Sample::default() };
        let line = Line { values: &values, file: "1->64", samples: &[sample] };
        let parameters = parameters(&heading(), &line, 2);
        assert_eq!(
            parameters,
            json!({
                "read": "1", "skip": "64", "test_run_count": "2",
                "read,skip,test_run_count": "1,64,2",
            })
        );
        let stats = stats(&reduce(line.samples));
        assert_eq!((&stats["frags"], &stats["frag/s"]), (&json!(3), &json!(6.0)));
        assert_eq!(stats["insns/f"], Json::Null);
        let document = document(&heading(), &stats);
        assert_eq!(document["test_group_properties"]["partition_type"], "large");
        assert!(document["versions"]["scylla-server"]["version"].is_string());
    }
}
