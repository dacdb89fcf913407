//! `nereid types`: values alone, as they stand in SSTables, logs and dumps of memory: made of text,
//! printed, compared, checked; tokens and shards of partition keys.
//!
//! A type is named by its marshal class, with or without the package, or as in CQL. A compound is
//! several values with the length of each before it in 16 bits: all that the types name (a
//! partition key) or the first of them (a clustering key).
//!
//! Exit codes: 0 done; 1 the command line or a value makes no sense. `validate` tells its verdict
//! in the output.

use crate::sstable::{hex, of_hex, static_shard, text_of, value_of};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use model::key::compose_partition_key;
use model::{Token, Type, value};
use options::terminal::{program, show};
use std::cmp::Ordering;
use std::process::ExitCode;
use stdx::{Cursor, Put};

/// What is done: its name, and for people what it does.
const OPERATIONS: [(&str, &str); 6] = [
    ("serialize", "Convert values from text to hexadecimal bytes"),
    ("deserialize", "Convert values from hexadecimal bytes to text"),
    ("compare", "Compare two hexadecimal values"),
    ("validate", "Check whether hexadecimal values are valid for the type"),
    ("tokenof", "Print the tokens of partition keys"),
    ("shardof", "Print the tokens of partition keys, and the shards that own them"),
];

/// How values are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Single,
    /// At most as many values as types.
    Prefix,
    /// As many values as types.
    Full,
}

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    let program = program();
    if words.is_empty() {
        eprintln!("Usage: {program} types OPERATION [OPTIONS] ...");
        eprintln!("Try `{program} types --help` for more information.");
        return ExitCode::from(1);
    }
    match run(words) {
        Ok(text) => show(&text),
        Err(text) => {
            eprintln!("error processing arguments: {text}");
            ExitCode::from(1)
        }
    }
}

/// The text that the words ask for.
fn run(words: &[String]) -> Result<String, String> {
    let words = std::iter::once("nereid types".to_string()).chain(words.iter().cloned());
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => return Ok(error.to_string()),
        Err(error) => return Err(error.to_string().trim_start_matches("error: ").to_string()),
    };
    let (operation, matches) = matches.subcommand().ok_or("an operation is needed; see --help")?;
    let given = Given::of(matches)?;
    match operation {
        "serialize" => given.serialize(),
        "compare" => given.compare(),
        "validate" => given.each(|shape, text| Ok(format!("{text}: {}", shape.verdict(text)))),
        "tokenof" => given.each(|shape, text| {
            let parts = shape.parse(text)?;
            Ok(format!("{}: {}", shape.print(&parts), shape.token(&parts)?.0))
        }),
        "shardof" => {
            let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or_default();
            let (shards, ignored) = (number("shards"), number("ignore-msb-bits"));
            given.each(|shape, text| {
                let parts = shape.parse(text)?;
                let (key, token) = (shape.print(&parts), shape.token(&parts)?.0);
                let shard = static_shard(token, shards, ignored);
                Ok(format!("{key}: token: {token}, shard: {shard}"))
            })
        }
        _ => given.each(|shape, text| Ok(shape.print(&shape.parse(text)?))),
    }
}

pub fn command() -> Command {
    let command = Command::new("nereid types")
        .bin_name("nereid types")
        .about("Serialize, print, compare and validate values of a type")
        .after_help(
            "A type is a marshal class, with or without its package (Int32Type, \
             'ReversedType(TimeUUIDType)'), or as CQL names it. Give -t once for each value of a \
             compound. Put -- before values that start with a hyphen.\n\n\
             Exit codes: 0 success, 1 invalid arguments.",
        )
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .infer_long_args(true);
    command.subcommands(OPERATIONS.iter().map(|(name, about)| operation(name, about)))
}

fn operation(name: &'static str, about: &'static str) -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").help(help)
    };
    let types = Arg::new("type").long("type").short('t').value_name("TYPE").required(true);
    let mut command = Command::new(name)
        .about(about)
        .arg(types.action(ArgAction::Append).help("Type; for a compound once per value"))
        .arg(
            flag("prefix-compound", "The first values of a compound, as a clustering key")
                .conflicts_with("full-compound"),
        )
        .arg(flag("full-compound", "A compound, as a partition key"))
        .arg(
            Arg::new("value")
                .long("value")
                .action(ArgAction::Append)
                .help("A value, like a positional one"),
        )
        .arg(
            Arg::new("values")
                .value_name("VALUE")
                .num_args(0..)
                .action(ArgAction::Append)
                .allow_negative_numbers(true)
                .help("Values, in hexadecimal unless they are to be serialized"),
        );
    if name == "deserialize" {
        command = command.visible_alias("print");
    }
    if name == "shardof" {
        let (shards, bits) = (
            number("shards", "Shards of the node").required(true),
            number("ignore-msb-bits", "Bits of tokens that do not count").default_value("12"),
        );
        command = command
            .arg(shards.value_parser(clap::value_parser!(u32).range(1..=4096)))
            .arg(bits.value_parser(clap::value_parser!(u32).range(0..=63)));
    }
    // Options of the server that scripts give to every tool.
    let hidden = ["logger-log-level", "default-log-level", "reactor-backend", "smp", "memory"];
    command.args(hidden.map(|name| Arg::new(name).long(name).hide(true).action(ArgAction::Append)))
}

/// What the words give.
struct Given {
    shape: Shape,
    values: Vec<String>,
}

impl Given {
    fn of(matches: &ArgMatches) -> Result<Given, String> {
        let many = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).unwrap_or_default().cloned().collect()
        };
        let types = many("type").iter().map(|name| type_of(name)).collect::<Result<Vec<_>, _>>()?;
        let form = match (matches.get_flag("prefix-compound"), matches.get_flag("full-compound")) {
            (true, _) => Form::Prefix,
            (_, true) => Form::Full,
            _ => Form::Single,
        };
        if form == Form::Single && types.len() != 1 {
            return Err("several types need --prefix-compound or --full-compound".to_string());
        }
        let values: Vec<String> = many("value").into_iter().chain(many("values")).collect();
        match values.is_empty() {
            true => Err("no value was given".to_string()),
            false => Ok(Given { shape: Shape { form, types }, values }),
        }
    }

    /// A line for each value.
    fn each(
        &self,
        line: impl Fn(&Shape, &str) -> Result<String, String>,
    ) -> Result<String, String> {
        let lines = self.values.iter().map(|text| line(&self.shape, text));
        Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }

    fn serialize(&self) -> Result<String, String> {
        let Shape { form, types } = &self.shape;
        let (given, wanted) = (self.values.len(), types.len());
        let fits = match form {
            Form::Prefix => given <= wanted,
            Form::Full | Form::Single => given == wanted,
        };
        if !fits {
            return Err(format!("{given} values for {wanted} types"));
        }
        let values = types.iter().zip(&self.values);
        let parts = values.map(|((ty, _), text)| value_of(ty, text));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        self.shape.bytes(&parts).map(|bytes| hex(&bytes))
    }

    fn compare(&self) -> Result<String, String> {
        let [a, b] = self.values.as_slice() else {
            return Err(format!("two values are compared, not {}", self.values.len()));
        };
        let (a, b) = (self.shape.parse(a)?, self.shape.parse(b)?);
        let sign = match self.shape.order(&a, &b) {
            Ordering::Less => "<",
            Ordering::Equal => "==",
            Ordering::Greater => ">",
        };
        Ok(format!("{} {sign} {}", self.shape.print(&a), self.shape.print(&b)))
    }
}

/// Types, each with whether its order is reversed.
struct Shape {
    form: Form,
    types: Vec<(Type, bool)>,
}

impl Shape {
    /// The values of digits, checked.
    fn parse(&self, text: &str) -> Result<Vec<Vec<u8>>, String> {
        let bytes = of_hex(text).ok_or_else(|| format!("not hexadecimal: {text}"))?;
        let parts = match self.form {
            Form::Single => vec![bytes],
            Form::Prefix | Form::Full => split(&bytes)?,
        };
        let (given, wanted) = (parts.len(), self.types.len());
        if wanted < given || self.form == Form::Full && given < wanted {
            return Err(format!("{text}: {given} values for {wanted} types"));
        }
        for ((ty, _), part) in self.types.iter().zip(&parts) {
            value::validate(ty, part).map_err(|why| format!("{text}: {}", why.0))?;
        }
        Ok(parts)
    }

    fn verdict(&self, text: &str) -> String {
        match self.parse(text) {
            Ok(parts) => format!("VALID - {}", self.print(&parts)),
            Err(why) => {
                let why = why.strip_prefix(text).and_then(|why| why.strip_prefix(": "));
                format!("INVALID - {}", why.unwrap_or("not hexadecimal"))
            }
        }
    }

    fn print(&self, parts: &[Vec<u8>]) -> String {
        let texts = self.types.iter().zip(parts).map(|((ty, _), part)| text_of(ty, part));
        let texts: Vec<String> = texts.collect();
        match self.form {
            Form::Single => texts.concat(),
            Form::Prefix | Form::Full => format!("({})", texts.join(", ")),
        }
    }

    fn bytes(&self, parts: &[Vec<u8>]) -> Result<Vec<u8>, String> {
        if self.form == Form::Single {
            return Ok(parts.concat());
        }
        if parts.iter().any(|part| usize::from(u16::MAX) < part.len()) {
            return Err("a value of a compound is longer than 65535 bytes".to_string());
        }
        let mut out = Vec::new();
        parts.iter().for_each(|part| out.put_u16_bytes(part));
        Ok(out)
    }

    /// Value by value; a prefix is less than what it is one of.
    fn order(&self, a: &[Vec<u8>], b: &[Vec<u8>]) -> Ordering {
        let orders = self.types.iter().zip(a.iter().zip(b)).map(|((ty, is_reversed), (a, b))| {
            let order = value::compare(ty, a, b);
            if *is_reversed { order.reverse() } else { order }
        });
        orders.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
    }

    fn token(&self, parts: &[Vec<u8>]) -> Result<Token, String> {
        if self.form != Form::Full {
            return Err("partition keys have tokens: give --full-compound".to_string());
        }
        let mut key = Vec::new();
        compose_partition_key(parts.iter().map(Vec::as_slice), &mut key);
        Ok(Token::of(&key))
    }
}

fn split(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut cursor = Cursor::new(bytes);
    let mut out = Vec::new();
    while !cursor.is_empty() {
        let part = cursor.u16_bytes("a value is cut short");
        out.push(part.map_err(|damaged| format!("{}: {}", hex(bytes), damaged.what))?.to_vec());
    }
    Ok(out)
}

/// A marshal class, or a type of CQL.
fn type_of(name: &str) -> Result<(Type, bool), String> {
    match Type::from_class_name(name) {
        Some((ty, is_reversed)) if !matches!(ty, Type::Custom(_)) => Ok((ty, is_reversed)),
        _ => match Type::from_cql(name, &|_| None) {
            Some(ty) => Ok((ty, false)),
            None => Err(format!("unknown type {name}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str) -> Result<String, String> {
        run(&words.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_made_and_printed() {
        command().debug_assert();
        let check = |words: &str, expected: &str| {
            assert_eq!(told(words).as_deref(), Ok(expected), "{words}");
        };
        check("serialize -t Int32Type -- -7", "fffffff9");
        check("serialize -t int 7", "00000007");
        check("deserialize -t Int32Type fffffff9 00000007", "-7\n7");
        check("print --type org.apache.cassandra.db.marshal.Int32Type --value 00000007", "7");
        let compound = "--prefix-compound -t TimeUUIDType -t Int32Type";
        let uuid = "50554d6e-29bb-11e5-b345-feff819cdc9f";
        let digits = "001050554d6e29bb11e5b345feff819cdc9f";
        check(&format!("serialize {compound} -- {uuid} 16"), &format!("{digits}000400000010"));
        check(&format!("serialize {compound} -- {uuid}"), digits);
        check(&format!("deserialize {compound} {digits}000400000010"), &format!("({uuid}, 16)"));
        check("validate -t Int32Type fffffff9", "fffffff9: VALID - -7");
        assert!(told("validate -t Int32Type fff9").unwrap().starts_with("fff9: INVALID - "));
        assert!(told("validate --full-compound -t int 0004").unwrap().contains("INVALID - "));
        assert_eq!(told("validate -t int zz").unwrap(), "zz: INVALID - not hexadecimal");
    }

    #[test]
    fn values_are_compared() {
        let check = |words: &str, expected: &str| {
            assert_eq!(told(&format!("compare {words}")).as_deref(), Ok(expected), "{words}");
        };
        check("-t int 00000001 00000002", "1 < 2");
        check("-t ReversedType(Int32Type) 00000001 00000002", "1 > 2");
        check("-t int ffffffff 00000002", "-1 < 2");
        check("--prefix-compound -t text -t text 000161 000161000162", "(a) < (a, b)");
        check("--full-compound -t text 000161 000161", "(a) == (a)");
    }

    #[test]
    fn keys_have_tokens_and_shards() {
        let types = "--full-compound -t Int32Type 000400000005";
        assert_eq!(told(&format!("tokenof {types}")).unwrap(), "(5): -7509452495886106294");
        let expected = "(5): token: -7509452495886106294, shard: 3";
        assert_eq!(told(&format!("shardof --shards 7 {types}")).unwrap(), expected);
        let several = told("tokenof --full-compound -t int -t text 0004000000010002686a").unwrap();
        assert!(several.starts_with("(1, hj): "), "{several}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "unknown -t int 1",
            "serialize 1",
            "serialize -t int x",
            "serialize -t int 1 2",
            "serialize -t int",
            "serialize -t NoSuchType 1",
            "serialize -t int -t int 1 2",
            "serialize --full-compound -t int -t int 1",
            "serialize --full-compound --prefix-compound -t int 1",
            "deserialize -t int 0001",
            "deserialize -t int zz",
            "deserialize --full-compound -t int -t int 000400000001",
            "compare -t int 00000001",
            "tokenof -t int 00000001",
            "shardof --full-compound -t int 000400000001",
        ] {
            assert!(told(words).is_err(), "{words}");
        }
    }
}
