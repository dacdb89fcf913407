//! From a record of a file to an item: a line of JSON, or the fields of a record of CSV. Pure.
//!
//! Fields of CSV are texts, but for attributes of keys of the table and its indexes, which have the
//! types that the table says: numbers as they are written, bytes in base64. An empty field of these
//! is no attribute: no key may be empty.

use super::lines::fields;
use crate::error::Error;
use crate::number::Number;
use crate::request::Request;
use crate::value::{Map, Value, attributes, binary};
use model::Type;
use std::collections::BTreeMap;

/// Columns of a file of CSV.
const COLUMNS_MAX: usize = 255;
/// What some programs begin a text with.
const MARK: &str = "\u{feff}";

/// What files have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line: `{"Item": {..}}`.
    Json,
    Csv {
        delimiter: u8,
        /// `None`: the first record of each file.
        header: Option<Vec<String>>,
    },
}

impl Format {
    /// What a request says.
    pub(super) fn of(request: &Request<'_>) -> Result<Format, Error> {
        let options = request.object("InputFormatOptions")?;
        let csv = match options {
            Some(options) => Request::of(options, "InputFormatOptions")?.object("Csv")?,
            None => None,
        };
        request.need_string("InputFormat")?;
        match (request.word("InputFormat", &["DYNAMODB_JSON", "CSV", "ION"])?, csv) {
            ("DYNAMODB_JSON", None) => Ok(Format::Json),
            ("DYNAMODB_JSON", Some(_)) => Err(Error::validation(
                "One or more parameter values were invalid: InputFormatOptions of CSV, but \
                 InputFormat is DYNAMODB_JSON",
            )),
            ("CSV", csv) => Format::csv(csv.map(|csv| Request::of(csv, "Csv")).transpose()?),
            _ => Err(Error::validation(
                "InputFormat ION is not supported: DYNAMODB_JSON and CSV are",
            )),
        }
    }

    fn csv(options: Option<Request<'_>>) -> Result<Format, Error> {
        let (mut delimiter, mut header) = (b',', None);
        if let Some(options) = options {
            if let Some(given) = options.string("Delimiter")? {
                delimiter = match given.as_bytes() {
                    [byte] if b",;:|\t ".contains(byte) => *byte,
                    _ => {
                        return Err(Error::validation(
                            "1 validation error detected: Value at 'Delimiter' failed to satisfy \
                             constraint: Member must satisfy regular expression pattern: \
                             [,;:|\\t ]",
                        ));
                    }
                };
            }
            header = options.strings("HeaderList")?;
        }
        if let Some(header) = &header {
            check_header(header).map_err(Error::validation)?;
        }
        Ok(Format::Csv { delimiter, header })
    }

    /// The delimiter of what may have line ends within quotes.
    pub fn delimiter(&self) -> Option<u8> {
        match self {
            Format::Json => None,
            Format::Csv { delimiter, .. } => Some(*delimiter),
        }
    }
}

/// Refuses names that cannot be those of attributes of one item.
fn check_header(names: &[String]) -> Result<(), String> {
    if !(1..=COLUMNS_MAX).contains(&names.len()) {
        return Err(format!("a header of CSV has {} names: 1 to {COLUMNS_MAX}", names.len()));
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(format!("a header of CSV has the name {} twice", two[0])),
        None => Ok(()),
    }
}

/// Reads the records of one file.
pub struct Reader<'f> {
    format: &'f Format,
    /// The types of attributes of keys.
    keys: &'f BTreeMap<String, Type>,
    header: Option<Vec<String>>,
    is_first: bool,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    Item(Map),
    /// A line of nothing, or the header.
    Nothing,
    /// No item, and why.
    Bad(String),
    /// The file is none: what follows cannot be understood.
    NoFile(String),
}

impl<'f> Reader<'f> {
    /// Of a file of which nothing was read. `keys`: the types of attributes of keys.
    pub fn new(format: &'f Format, keys: &'f BTreeMap<String, Type>) -> Reader<'f> {
        let header = match format {
            Format::Json => None,
            Format::Csv { header, .. } => header.clone(),
        };
        Reader { format, keys, header, is_first: true }
    }

    /// The next record of the file.
    pub fn read(&mut self, record: &[u8]) -> Read {
        let is_first = std::mem::take(&mut self.is_first);
        let Ok(text) = std::str::from_utf8(record) else {
            return match (self.format, &self.header) {
                (Format::Csv { .. }, None) => Read::NoFile("its header is not UTF-8".to_owned()),
                _ => Read::Bad("it is not UTF-8".to_owned()),
            };
        };
        let text = if is_first { text.strip_prefix(MARK).unwrap_or(text) } else { text };
        if text.trim_ascii().is_empty() {
            return Read::Nothing;
        }
        match self.format {
            Format::Json => {
                item_of_line(text).map_or_else(|error| Read::Bad(error.message), Read::Item)
            }
            Format::Csv { delimiter, .. } => self.read_csv(text, *delimiter),
        }
    }

    fn read_csv(&mut self, text: &str, delimiter: u8) -> Read {
        let found = fields(text, delimiter);
        match (&self.header, found) {
            (None, Err(why)) => Read::NoFile(format!("its header is none: {why}")),
            (None, Ok(names)) => {
                let names: Vec<String> = names.into_iter().map(|name| name.into_owned()).collect();
                if let Err(why) = check_header(&names) {
                    return Read::NoFile(why);
                }
                self.header = Some(names);
                Read::Nothing
            }
            (Some(_), Err(why)) => Read::Bad(why.to_owned()),
            (Some(names), Ok(found)) if names.len() != found.len() => {
                Read::Bad(format!("{} fields where the header has {}", found.len(), names.len()))
            }
            (Some(names), Ok(found)) => {
                let mut item = Map::new();
                for (name, text) in names.iter().zip(found) {
                    match value_of(self.keys.get(name), &text) {
                        Ok(Some(value)) => drop(item.insert(name.clone(), value)),
                        Ok(None) => {}
                        Err(error) => return Read::Bad(format!("{name}: {}", error.message)),
                    }
                }
                Read::Item(item)
            }
        }
    }
}

/// What a field stands for, of an attribute of keys of that type, or of none.
fn value_of(key: Option<&Type>, text: &str) -> Result<Option<Value>, Error> {
    match key {
        Some(_) if text.is_empty() => Ok(None),
        Some(Type::Decimal) => Number::parse(text).map(|number| Some(Value::N(number))),
        Some(Type::Blob) => binary(text).map(|bytes| Some(Value::B(bytes))),
        _ => Ok(Some(Value::S(text.to_owned()))),
    }
}

fn item_of_line(text: &str) -> Result<Map, Error> {
    let request = Request::parse(text)?;
    attributes(request.need_object("Item")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::attributes_json;
    use proptest::prelude::*;

    fn format(parameters: &str) -> Result<Format, String> {
        let request = Request::parse(parameters).expect("a request");
        Format::of(&request).map_err(|error| error.message)
    }

    fn keys() -> BTreeMap<String, Type> {
        let keys = [("p", Type::Text), ("n", Type::Decimal), ("b", Type::Blob)];
        keys.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect()
    }

    /// What each record is, in a word or as JSON.
    fn read(format: &Format, records: &[&str]) -> Vec<String> {
        let keys = keys();
        let mut reader = Reader::new(format, &keys);
        let one = |record: &&str| match reader.read(record.as_bytes()) {
            Read::Item(item) => attributes_json(&item),
            Read::Nothing => "-".to_owned(),
            Read::Bad(why) => format!("bad: {why}"),
            Read::NoFile(why) => format!("no file: {why}"),
        };
        records.iter().map(one).collect()
    }

    #[test]
    fn a_request_says_what_files_have() {
        let csv = |options: &str| {
            let options = format!("{{\"Csv\":{options}}}");
            format(&format!("{{\"InputFormat\":\"CSV\",\"InputFormatOptions\":{options}}}"))
        };
        assert_eq!(format(r#"{"InputFormat":"DYNAMODB_JSON"}"#), Ok(Format::Json));
        let plain = Ok(Format::Csv { delimiter: b',', header: None });
        assert_eq!(format(r#"{"InputFormat":"CSV"}"#), plain);
        assert_eq!(csv("{}"), plain);
        let header = Some(vec!["a".to_owned(), "b".to_owned()]);
        let given = csv(r#"{"Delimiter":"\t","HeaderList":["a","b"]}"#);
        assert_eq!(given, Ok(Format::Csv { delimiter: b'\t', header }));
        assert!(csv(r#"{"Delimiter":"x"}"#).unwrap_err().contains("Delimiter"));
        assert!(csv(r#"{"Delimiter":",,"}"#).unwrap_err().contains("Delimiter"));
        assert!(csv(r#"{"HeaderList":["a","a"]}"#).unwrap_err().contains("twice"));
        assert!(csv(r#"{"HeaderList":[]}"#).unwrap_err().contains("0 names"));
        assert!(format(r#"{"InputFormat":"ION"}"#).unwrap_err().contains("not supported"));
        assert!(format(r#"{"InputFormat":"XML"}"#).unwrap_err().contains("enum value set"));
        assert!(format("{}").unwrap_err().contains("missing"));
    }

    #[test]
    fn a_line_is_an_item() {
        let records = [
            "\u{feff}{\"Item\":{\"p\":{\"S\":\"a\"}}}",
            " ",
            "{\"Item\":{\"n\":{\"N\":\"1\"}},\"more\":1}",
            "{\"Item\":3}",
            "{\"Items\":{}}",
            "{\"Item\":{\"p\":{\"S\":1}}}",
            "nothing",
        ];
        let found = read(&Format::Json, &records);
        assert_eq!(found[..3], ["{\"p\":{\"S\":\"a\"}}", "-", "{\"n\":{\"N\":\"1\"}}"]);
        assert!(found[3..].iter().all(|found| found.starts_with("bad: ")), "{found:?}");
    }

    #[test]
    fn fields_are_texts_but_for_keys() {
        let plain = Format::Csv { delimiter: b',', header: None };
        let records = ["p,n,b,x", "a,1.50,AAE=,7", "a,,,", "a,one,,x", "a,1,?,x", "a,1", "\"a"];
        let found = read(&plain, &records);
        let first = r#"{"b":{"B":"AAE="},"n":{"N":"1.5"},"p":{"S":"a"},"x":{"S":"7"}}"#;
        assert_eq!(found[..3], ["-", first, r#"{"p":{"S":"a"},"x":{"S":""}}"#]);
        assert!(found[3].starts_with("bad: n: "), "{}", found[3]);
        assert!(found[4].starts_with("bad: b: "), "{}", found[4]);
        assert_eq!(found[5], "bad: 2 fields where the header has 4");
        assert!(found[6].contains("not closed"), "{}", found[6]);
        let named = Format::Csv { delimiter: b';', header: Some(vec!["p".into(), "x".into()]) };
        assert_eq!(read(&named, &["p;x"]), [r#"{"p":{"S":"p"},"x":{"S":"x"}}"#]);
        for header in ["a,a", "\"a"] {
            assert!(read(&plain, &[header])[0].starts_with("no file: "), "{header}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_not_panic(records: Vec<Vec<u8>>, is_csv: bool) {
            let csv = Format::Csv { delimiter: b',', header: None };
            let (format, keys) = (if is_csv { csv } else { Format::Json }, keys());
            let mut reader = Reader::new(&format, &keys);
            records.iter().for_each(|record| drop(reader.read(record)));
        }

        #[test]
        fn what_is_nearly_an_item_does_not_panic(text in "[{}\\[\\]\":,ISNp1\\\\u]{0,30}") {
            let _ = item_of_line(&text);
            let _ = item_of_line(&format!("{{\"Item\":{text}}}"));
        }
    }
}
