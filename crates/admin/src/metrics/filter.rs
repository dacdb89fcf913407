//! Which samples a request wants, of those that there are after the rules of the operator.

use super::relabel::Rules;
use regex_lite::{Regex, RegexBuilder};
use std::sync::Arc;

/// Patterns may have so many characters, and take so many bytes of memory.
const PATTERN_CHARS_MAX: usize = 1024;
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Filters of one request.
const FILTERS_MAX: usize = 16;

/// Names, and the start of names before a `*`; patterns of labels. Everything given must hold, but
/// of several names one.
#[derive(Clone, Debug)]
pub struct Filter {
    prefix: String,
    names: Vec<String>,
    labels: Vec<(String, Regex)>,
    tells_help: bool,
    aggregates: bool,
    rules: Arc<Rules>,
}

impl Filter {
    /// Of a request's parameters: `__name__`, `__help__`, `__aggregate__`, and labels with a
    /// regular expression of the whole value. The error says what is wrong with which.
    pub(crate) fn parse<'p>(
        prefix: &str,
        rules: Arc<Rules>,
        parameters: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Result<Filter, String> {
        let mut filter = Filter { rules, ..Filter::all(prefix) };
        for (name, value) in parameters {
            match name {
                "__name__" => filter.names.push(value.to_string()),
                "__help__" => filter.tells_help = flag(name, value)?,
                "__aggregate__" => filter.aggregates = flag(name, value)?,
                _ if super::LABELS.contains(&name) || filter.rules.make(name) => {
                    filter.labels.push((name.to_string(), pattern(name, value)?));
                }
                _ => {
                    let labels = super::LABELS.join(", ");
                    return Err(format!(
                        "{name}: neither __name__, __help__, __aggregate__ nor a label; labels \
                         are: {labels}"
                    ));
                }
            }
            if FILTERS_MAX < filter.names.len() + filter.labels.len() {
                return Err(format!("more than {FILTERS_MAX} filters"));
            }
        }
        Ok(filter)
    }

    /// Lets everything through.
    pub fn all(prefix: &str) -> Filter {
        Filter {
            prefix: prefix.to_string(),
            names: Vec::new(),
            labels: Vec::new(),
            tells_help: true,
            aggregates: true,
            rules: Arc::default(),
        }
    }

    /// What comes before each name.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the operator says of samples.
    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Whether help texts are wanted.
    pub(crate) fn tells_help(&self) -> bool {
        self.tells_help
    }

    /// Whether what a node tells as one sum is wanted so, and not shard by shard.
    pub fn aggregates(&self) -> bool {
        self.aggregates
    }

    /// Whether a family of that name, which has no prefix, is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| self.names_match(wanted, name))
    }

    /// Whether any family is wanted whose name begins so.
    pub fn wants_any(&self, start: &str) -> bool {
        let meets = |before: &str| before.starts_with(start) || start.starts_with(before);
        let may_match = |wanted: &String| match wanted.split_once('*') {
            Some((before, _)) => match self.bare(before) {
                Some(bare) => meets(bare),
                None => {
                    let is_of_prefix =
                        self.prefix.starts_with(before) || before.starts_with(&self.prefix);
                    is_of_prefix || meets(before)
                }
            },
            None => self.bare(wanted).unwrap_or(wanted).starts_with(start),
        };
        self.names.is_empty() || self.names.iter().any(may_match)
    }

    /// Whether a sample with these labels is wanted.
    pub(crate) fn passes<'l>(
        &self,
        labels: impl Iterator<Item = (&'l str, &'l str)> + Clone,
    ) -> bool {
        self.labels.iter().all(|(name, pattern)| {
            let mut named = labels.clone().filter(|(label, _)| label == name);
            named.any(|(_, value)| pattern.is_match(value))
        })
    }

    /// A name may be said with its prefix or without.
    fn names_match(&self, wanted: &str, name: &str) -> bool {
        let full = || self.prefix.bytes().chain([b'_']).chain(name.bytes());
        match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start) || full().take(start.len()).eq(start.bytes()),
            None => name == wanted || full().eq(wanted.bytes()),
        }
    }

    /// A name without the prefix.
    fn bare<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.prefix)?.strip_prefix('_')
    }
}

fn flag(name: &str, value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("{name}: not true or false: {value}")),
    }
}

fn pattern(name: &str, text: &str) -> Result<Regex, String> {
    if PATTERN_CHARS_MAX < text.len() {
        return Err(format!("{name}: a pattern of more than {PATTERN_CHARS_MAX} characters"));
    }
    let whole = format!("^(?:{text})$");
    let built = RegexBuilder::new(&whole).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| format!("{name}: not a regular expression: {text}: {error}"))
}
