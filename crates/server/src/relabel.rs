//! `relabel_config_file`: the rules by which samples are labelled, from the start on.

use admin::metrics::relabel::Rules;
use options::{Values, read_text};
use std::path::Path;

/// The rules of the file that the options name; none where they name none.
pub(crate) fn rules(values: &Values) -> Result<Rules, String> {
    let path = values.text("relabel_config_file");
    if path.is_empty() {
        return Ok(Rules::default());
    }
    let text = read_text(Path::new(path)).map_err(|error| error.to_string());
    let rules = text.and_then(|text| parsed(&text));
    rules.map_err(|why| format!("option relabel_config_file: {path}: {why}"))
}

fn parsed(text: &str) -> Result<Rules, String> {
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_blank) {
        return Ok(Rules::default());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let content: Result<serde_json::Value, _> = serde_saphyr::from_str_with_options(text, options);
    Rules::parse_file(&content.map_err(|error| format!("not YAML: {error}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_yaml() {
        let text = "\
# Of tables one alone.
relabel_configs:
  - source_labels: [ks,cf]
    action: drop
    regex: (.+)
  - source_labels: [ks, cf]
    action: keep
    regex: (my_ks;my_table)
  - source_labels: [shard]
    target_label: level
    replacement: $1
    regex: (2)
";
        let rules = parsed(text).expect("rules");
        assert!(format!("{rules:?}").contains("my_ks;my_table"));
        for text in ["", "# none\n\n", "relabel_configs:\n", "relabel_configs: []\n"] {
            assert_eq!(format!("{:?}", parsed(text)), "Ok(Rules([]))", "{text}");
        }
        let check = |text: &str, expected: &str| {
            let why = parsed(text).expect_err("refused");
            assert!(why.contains(expected), "{why}");
        };
        check("relabel_configs: [", "not YAML");
        check("rules: []", "unknown entry rules");
        check("relabel_configs:\n - action: drop\n", "rule 1: source_labels");
        check("relabel_configs:\n - {source_labels: [ks], action: labelmap}\n", "labelmap");
    }
}
