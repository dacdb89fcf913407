//! Own options of performance tools, as clap reads them: how they are declared, and what was given.
//!
//! The last one of several counts; dashes and underscores in names are the same.

use clap::builder::{BoolishValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// The heading of a tool's own options in its help.
const HEADING: &str = "Options of the tool";

/// The address of `--remote-host` and its port.
pub(crate) fn remote((host, port): (&str, u16)) -> Result<SocketAddr, String> {
    let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or(format!("--remote-host: no such host: {host}"))
}

/// A text.
pub(crate) fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).overrides_with(name).help_heading(HEADING).help(help);
    let arg = arg.value_name(value).allow_hyphen_values(true);
    match name.contains('_') {
        true => arg.alias(name.replace('_', "-")),
        false => arg.alias(name.replace('-', "_")),
    }
}

/// A flag without a value.
pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    text(name, "", help).allow_hyphen_values(false).action(ArgAction::SetTrue)
}

/// A number without a default.
pub(crate) fn optional(name: &'static str, help: &'static str) -> Arg {
    text(name, "N", help).value_parser(value_parser!(u64))
}

/// A whole number with a default.
pub(crate) fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    optional(name, help).default_value(default)
}

/// A whole number, with a default, from `least` to `most`.
pub(crate) fn ranged(
    name: &'static str,
    default: &'static str,
    (least, most): (u64, u64),
    help: &'static str,
) -> Arg {
    let range = value_parser!(u64).range(least..=most);
    text(name, "N", help).value_parser(range).default_value(default)
}

/// One of some words, with a default.
pub(crate) fn word<const N: usize>(
    name: &'static str,
    default: &'static str,
    words: [&'static str; N],
    help: &'static str,
) -> Arg {
    text(name, "WORD", help).value_parser(PossibleValuesParser::new(words)).default_value(default)
}

/// A size such as `64M`, with a default, of so many bytes at least.
pub(crate) fn size(
    name: &'static str,
    default: &'static str,
    least: u64,
    help: &'static str,
) -> Arg {
    let parse = move |text: &str| {
        let bytes = options::parse_bytes(text).filter(|bytes| least <= *bytes);
        bytes.ok_or_else(|| format!("not a size of {least} bytes or more"))
    };
    text(name, "SIZE", help).value_parser(parse).default_value(default)
}

/// A boolean with a default; its name alone means yes.
pub(crate) fn truth(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    let arg = text(name, "0|1", help).allow_hyphen_values(false).num_args(0..=1);
    arg.value_parser(BoolishValueParser::new()).default_missing_value("1").default_value(default)
}

/// A list: by commas, or several words up to the next option.
pub(crate) fn list(name: &'static str, help: &'static str) -> Arg {
    let arg = text(name, "ITEM,..", help).allow_hyphen_values(false);
    arg.num_args(1..).value_delimiter(',')
}

/// What was given of a tool's own options.
pub(crate) struct Given<'a>(pub(super) &'a ArgMatches);

impl Given<'_> {
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// A number without a default.
    pub(crate) fn optional(&self, name: &str) -> Option<u64> {
        self.0.get_one(name).copied()
    }

    /// A number, or a size, with a default.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.optional(name).unwrap_or_default()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    pub(crate) fn port(&self, name: &str) -> u16 {
        self.0.get_one(name).copied().unwrap_or_default()
    }

    pub(crate) fn decimal(&self, name: &str) -> f64 {
        self.0.get_one(name).copied().unwrap_or_default()
    }

    pub(crate) fn truth(&self, name: &str) -> bool {
        self.0.get_one(name).copied().unwrap_or_default()
    }

    /// The items of a list, if it was given.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = self.0.get_many::<String>(name)?.filter(|item| !item.is_empty());
        Some(items.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn read(line: &str) -> Result<ArgMatches, String> {
        let own = [
            number("rows", "5", "rows"),
            optional("key_size", "bytes"),
            flag("flush-first", "flush"),
            text("name", "NAME", "name"),
            list("run-tests", "tests"),
            truth("cache", "0", "cache"),
            size("room", "1k", 1024, "room"),
            ranged("bytes", "1", (1, 9), "bytes"),
        ];
        let command = Command::new("x").no_binary_name(true).args(own);
        command.try_get_matches_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let line = "--rows=7 --flush_first --flush-first --name x --name y --run-tests a,b c \
                    --cache 0 --room 2k --key-size 3";
        let matches = read(line).expect("matches");
        let given = Given(&matches);
        assert_eq!((given.number("rows"), given.optional("key_size")), (7, Some(3)));
        assert!(given.flag("flush-first") && !given.truth("cache"));
        assert_eq!(given.text("name"), Some("y"));
        assert_eq!(given.list("run-tests"), Some(["a", "b", "c"].map(str::to_owned).to_vec()));
        assert_eq!(given.count("room"), 2048);
        let matches = read("--cache").expect("matches");
        let given = Given(&matches);
        assert!(given.truth("cache") && given.list("run-tests").is_none());
        assert_eq!((given.number("rows"), given.number("room")), (5, 1024));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("--room 1", "'--room <SIZE>': not a size of 1024 bytes or more"),
            ("--rows", "a value is required for '--rows <N>'"),
            ("--rows x", "invalid value 'x' for '--rows <N>'"),
            ("--cache maybe", "invalid value 'maybe' for '--cache [<0|1>]'"),
            ("--bytes 0", "0 is not in 1..=9"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
