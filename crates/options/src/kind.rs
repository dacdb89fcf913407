//! What the text of an option can be, and how `system.config` shows it.

use crate::refused::{Refused, nearest};
use serde_json::{Value, json};

/// What an option's text must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A whole number; nothing where nothing is the default.
    Number,
    /// A number that may have a fraction.
    Decimal,
    /// 0 to 65535, or nothing: no port.
    Port,
    Flag,
    /// Bytes, with or without K, M, G or T.
    Size,
    /// One of these.
    Word(&'static [&'static str]),
    /// One of these classes, with or without the package before its name.
    Class(&'static [&'static str]),
    /// Repeated on the command line, a list in the file, or parted by commas.
    List,
    /// A list of these.
    Words(&'static [&'static str]),
    /// A map of texts in the file, `key=value` repeated on the command line; with these keys.
    Map(&'static [&'static str]),
    /// Lists and maps within each other; kept as JSON.
    Tree,
}

/// How a boolean may be written; nothing is `--name` alone.
const TRUE: &[&str] = &["1", "true", "yes", "on", ""];
const FALSE: &[&str] = &["0", "false", "no", "off"];

impl Kind {
    /// Refuses text of another kind. `default` is always accepted.
    pub fn check(self, name: &str, text: &str, default: &str) -> Result<(), Refused> {
        let refuse = |what: &str| Err(Refused(format!("option {name}: {what}: {text}")));
        let is_good = match self {
            _ if text == default => true,
            Kind::Text | Kind::List | Kind::Tree => true,
            Kind::Number => text.parse::<i64>().is_ok(),
            Kind::Decimal => text.parse::<f64>().is_ok_and(f64::is_finite),
            Kind::Port => text.is_empty() || text == "null" || text.parse::<u16>().is_ok(),
            Kind::Flag => flag_of(text).is_some(),
            Kind::Size => parse_bytes(text).is_some(),
            Kind::Word(words) => words.contains(&text),
            Kind::Class(words) => words.contains(&text.rsplit('.').next().unwrap_or_default()),
            Kind::Words(words) => items(text).all(|item| words.contains(&item)),
            Kind::Map(keys) => return check_entry(name, text, keys),
        };
        match self {
            _ if is_good => Ok(()),
            Kind::Number => refuse("not a whole number"),
            Kind::Decimal => refuse("not a number"),
            Kind::Port => refuse("not a port"),
            Kind::Flag => refuse("not a boolean"),
            Kind::Size => refuse("not a size such as 512M or 2G"),
            Kind::Word(words) | Kind::Class(words) | Kind::Words(words) => {
                refuse(&format!("not one of {}", listed(words)))
            }
            _ => Ok(()),
        }
    }

    /// The placeholder in `--help`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Number => "N",
            Kind::Decimal => "NUMBER",
            Kind::Port => "PORT",
            Kind::Flag => "0|1",
            Kind::Size => "SIZE",
            Kind::Word(_) | Kind::Class(_) => "WORD",
            Kind::List | Kind::Words(_) => "ITEM",
            Kind::Map(_) => "KEY=VALUE",
            Kind::Text | Kind::Tree => "TEXT",
        }
    }

    /// As the reference names it, with the words that are allowed.
    pub fn described(self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::Number => "whole number".to_owned(),
            Kind::Decimal => "number".to_owned(),
            Kind::Port => "port".to_owned(),
            Kind::Flag => "boolean".to_owned(),
            Kind::Size => "size".to_owned(),
            Kind::List => "list".to_owned(),
            Kind::Word(words) | Kind::Class(words) => listed(words),
            Kind::Words(words) => format!("list of {}", listed(words)),
            Kind::Map(keys) => format!("map of {}", keys.join(", ")),
            Kind::Tree => "lists and maps".to_owned(),
        }
    }

    /// As `system.config` names it.
    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Text | Kind::Size | Kind::Word(_) | Kind::Class(_) => "string",
            Kind::Number | Kind::Port => "integer",
            Kind::Decimal => "double",
            Kind::Flag => "bool",
            Kind::List | Kind::Words(_) => "string list",
            Kind::Map(_) => "string map",
            Kind::Tree => "json",
        }
    }

    /// Whether all that is given of it counts, and not the last alone.
    pub fn is_plural(self) -> bool {
        matches!(self, Kind::List | Kind::Words(_) | Kind::Map(_))
    }

    /// As JSON.
    pub fn shown(self, values: &[String]) -> String {
        let text = values.last().map(String::as_str).unwrap_or_default();
        match self {
            Kind::Flag => (!FALSE.contains(&text)).to_string(),
            Kind::Number | Kind::Port | Kind::Decimal => match text.parse::<f64>() {
                Ok(_) => text.to_owned(),
                Err(_) => "null".to_owned(),
            },
            Kind::List | Kind::Words(_) => {
                let values = values.iter().filter(|value| !value.is_empty());
                json!(values.collect::<Vec<_>>()).to_string()
            }
            Kind::Map(_) => {
                let entries = values.iter().filter_map(|entry| entry.split_once('='));
                let entries = entries.map(|(key, value)| (key.to_owned(), json!(value)));
                Value::Object(entries.collect()).to_string()
            }
            Kind::Tree if serde_json::from_str::<Value>(text).is_ok() => text.to_owned(),
            _ => json!(text).to_string(),
        }
    }
}

/// What a flag says.
pub(crate) fn flag_of(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        yes if TRUE.contains(&yes) => Some(true),
        no if FALSE.contains(&no) => Some(false),
        _ => None,
    }
}

/// The items of a list that is one text.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn check_entry(name: &str, text: &str, keys: &[&str]) -> Result<(), Refused> {
    let Some((key, _)) = text.split_once('=') else {
        return Err(Refused(format!("option {name}: not key=value: {text}")));
    };
    if keys.contains(&key) {
        return Ok(());
    }
    let hint = match nearest(key, keys.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it has {}", keys.join(", ")),
    };
    Err(Refused(format!("option {name}: unknown key {key}; {hint}")))
}

fn listed(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Bytes of a size as people write it: `200M`, `1G`, `64k`, `1073741824`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_another_kind_is_refused() {
        let check = |kind: Kind, text: &str, expected: &str| {
            let said = kind.check("x", text, "?").err().map(|refused| refused.0);
            let expected = (!expected.is_empty()).then(|| format!("option x: {expected}: {text}"));
            assert_eq!(said, expected, "{kind:?} {text}");
        };
        let words = Kind::Word(&["a", "b", "c"]);
        check(Kind::Number, "-7", "");
        check(Kind::Number, "7.5", "not a whole number");
        check(Kind::Number, "", "not a whole number");
        check(Kind::Decimal, "7.5", "");
        check(Kind::Decimal, "inf", "not a number");
        check(Kind::Port, "", "");
        check(Kind::Port, "65535", "");
        check(Kind::Port, "65536", "not a port");
        check(Kind::Flag, "True", "");
        check(Kind::Flag, "2", "not a boolean");
        check(Kind::Size, "2G", "");
        check(Kind::Size, "2X", "not a size such as 512M or 2G");
        check(words, "b", "");
        check(words, "?", "");
        check(words, "d", "not one of a, b or c");
        check(Kind::Class(&["Simple"]), "org.some.Simple", "");
        check(Kind::Class(&["Simple"]), "org.Simple.some", "not one of Simple");
        check(Kind::Words(&["a", "b"]), "a, b", "");
        check(Kind::Words(&["a", "b"]), "a, d", "not one of a or b");
        check(Kind::Map(&["enabled"]), "enabled=1", "");
        check(Kind::Map(&["enabled"]), "enabled", "not key=value");
        let typo = Kind::Map(&["enabled"]).check("x", "enable=1", "").unwrap_err();
        assert_eq!(typo.0, "option x: unknown key enable; did you mean enabled?");
    }

    #[test]
    fn values_are_shown_as_json() {
        let check = |kind: Kind, values: &[&str], expected: &str| {
            let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
            assert_eq!(kind.shown(&values), expected, "{kind:?}");
        };
        check(Kind::Text, &["a\"b"], "\"a\\\"b\"");
        check(Kind::Number, &["7"], "7");
        check(Kind::Port, &[""], "null");
        check(Kind::Decimal, &["0.50"], "0.50");
        check(Kind::Flag, &["yes"], "true");
        check(Kind::Flag, &[""], "true");
        check(Kind::Flag, &["off"], "false");
        check(Kind::List, &["a", "b"], "[\"a\",\"b\"]");
        check(Kind::List, &[""], "[]");
        check(Kind::Map(&[]), &["a=1", "b=x=y"], "{\"a\":\"1\",\"b\":\"x=y\"}");
        check(Kind::Tree, &["[1]"], "[1]");
        check(Kind::Tree, &[""], "\"\"");
    }
}
