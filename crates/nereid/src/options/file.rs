//! The options file: YAML, flattened to option names and lists of texts. A map becomes
//! `key=value` entries, as the command line writes them.

use super::Refused;
use serde_json::Value;

/// The entries of a file, in order.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Vec<String>)>, Refused> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| Refused(format!("the options file is not YAML: {error}")))?;
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(entries) => {
            Ok(entries.into_iter().map(|(name, value)| (name, flatten(&value))).collect())
        }
        _ => Err(Refused("the options file does not hold `name: value` lines".to_string())),
    }
}

fn flatten(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(flatten).collect(),
        Value::Object(entries) => entries
            .iter()
            .flat_map(|(key, value)| {
                flatten(value).into_iter().map(move |text| format!("{key}={text}"))
            })
            .collect(),
        Value::String(text) => vec![text.clone()],
        Value::Null => vec![String::new()],
        other => vec![other.to_string()],
    }
}
