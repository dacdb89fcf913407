//! The command line of a performance tool: its own options are taken out one by one, what is left
//! belongs to the node.

use std::str::FromStr;

/// Words from which options are taken.
pub(crate) struct Words {
    words: Vec<String>,
}

impl Words {
    /// The words after the tool's name.
    pub(crate) fn new(words: &[String]) -> Words {
        Words { words: words.to_vec() }
    }

    /// Whether an option without a value was given. Underscores and dashes are one.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let long = format!("--{}", name.replace('_', "-"));
        let before = self.words.len();
        self.words.retain(|word| word.replace('_', "-") != long);
        self.words.len() < before
    }

    /// The value of an option, if it was given; the last one wins.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        let long = format!("--{}", name.replace('_', "-"));
        let mut found = None;
        let named = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            name.replace('_', "-") == long
        };
        while let Some(at) = self.words.iter().position(named) {
            let word = self.words.remove(at);
            found = Some(match word.split_once('=') {
                Some((_, value)) => value.to_string(),
                None if at < self.words.len() => self.words.remove(at),
                None => return Err(format!("{long} needs a value")),
            });
        }
        Ok(found)
    }

    /// The value of an option that is a number.
    pub(crate) fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("--{name}: not a number: {text}"))
    }

    /// The value of an option that is a size, such as `64M`, of so many bytes at least.
    pub(crate) fn size(
        &mut self,
        name: &str,
        default: usize,
        least: usize,
    ) -> Result<usize, String> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        let bytes = crate::options::parse_bytes(&text).filter(|bytes| least as u64 <= *bytes);
        let refused = || format!("--{name}: not a size of {least} bytes or more: {text}");
        bytes.map(|bytes| bytes as usize).ok_or_else(refused)
    }

    /// An option that may be given as a flag, or with a truth value.
    pub(crate) fn truth(&mut self, name: &str, default: bool) -> Result<bool, String> {
        let long = format!("--{name}");
        // A bare flag at the end, or before another option, means yes.
        let bare = self.words.iter().enumerate().position(|(at, word)| {
            let next = self.words.get(at + 1);
            *word == long && next.is_none_or(|next| next.starts_with('-'))
        });
        if let Some(at) = bare {
            self.words.remove(at);
            return Ok(true);
        }
        match self.text(name)?.as_deref() {
            None => Ok(default),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some("0" | "false" | "no" | "off") => Ok(false),
            Some(other) => Err(format!("--{name}: neither true nor false: {other}")),
        }
    }

    /// A list: comma-separated, or several words up to the next option.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        let long = format!("--{name}");
        let at = self.words.iter().position(|word| *word == long);
        let mut more = Vec::new();
        if let Some(at) = at {
            while self.words.get(at + 2).is_some_and(|word| !word.starts_with('-')) {
                more.push(self.words.remove(at + 2));
            }
        }
        let Some(first) = self.text(name)? else { return Ok(None) };
        let words = std::iter::once(first).chain(more);
        let items = words.flat_map(|word| word.split(',').map(str::to_string).collect::<Vec<_>>());
        Ok(Some(items.filter(|item| !item.is_empty()).collect()))
    }

    /// What no option was taken from: the node's.
    pub(crate) fn rest(self) -> Vec<String> {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        Words::new(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_and_the_rest_is_the_nodes() {
        let mut words = words("--rows=7 -c1 --flush --name x --run-tests a,b c --cache 0 -m 1G");
        assert_eq!(words.number::<u64>("rows"), Ok(Some(7)));
        assert_eq!(words.number::<u64>("columns"), Ok(None));
        assert!(words.flag("flush") && !words.flag("flush"));
        assert_eq!(words.text("name"), Ok(Some("x".to_string())));
        let list = ["a", "b", "c"].map(str::to_string).to_vec();
        assert_eq!(words.list("run-tests"), Ok(Some(list)));
        assert_eq!(words.truth("cache", true), Ok(false));
        assert_eq!(words.truth("other", true), Ok(true));
        assert_eq!(words.rest(), ["-c1", "-m", "1G"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(words("--room 2k").size("room", 1, 0), Ok(2048));
        assert!(words("--room 2k").size("room", 1, 4096).is_err());
        assert_eq!(words("--rows").text("rows"), Err("--rows needs a value".to_string()));
        let wrong = "--rows: not a number: x".to_string();
        assert_eq!(words("--rows x").number::<u64>("rows"), Err(wrong));
        assert!(words("--cache maybe").truth("cache", true).is_err());
        assert_eq!(words("--cache -c1").truth("cache", false), Ok(true));
    }
}
