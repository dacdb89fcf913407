//! Rows as JSON: `INSERT JSON`, `fromJson` and `SELECT JSON`.

use crate::error::Error;
use model::value;
use model::value::json::{self, Json, folded};
use model::{TableSchema, Type};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::HashMap;

const NO_MAP: &str = "Could not decode JSON string as a map";

/// The bytes of a JSON value as a value of `ty`; `None` is null.
pub(crate) fn from_json(ty: &Type, json: &Json) -> Result<Option<Vec<u8>>, Error> {
    json::from_json(ty, json).map_err(|invalid| Error::Invalid(invalid.0))
}

/// The columns that a JSON text names, folded.
type Fields = HashMap<String, Json>;

/// The JSON text of a row, parsed when its first column is asked for.
#[derive(Debug)]
pub struct JsonRow {
    /// The columns that may stand in it.
    names: Vec<String>,
    /// The last text, and what it holds.
    parsed: RefCell<(Vec<u8>, Rc<Fields>)>,
}

impl JsonRow {
    /// For rows of `table`.
    pub fn new(table: &TableSchema) -> JsonRow {
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        JsonRow { names, parsed: RefCell::new((Vec::new(), Rc::new(HashMap::default()))) }
    }

    /// What `text` says of a column: nothing, or a value.
    pub fn column(
        &self,
        text: &[u8],
        name: &str,
        ty: &Type,
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        let row = self.parse(text)?;
        let decode = |json: &Json| {
            from_json(ty, json).map_err(|error| {
                let text = format!("Error decoding JSON value for {name}: {}", error.message());
                Error::Invalid(text)
            })
        };
        row.get(name).map(decode).transpose()
    }

    fn parse(&self, text: &[u8]) -> Result<Rc<Fields>, Error> {
        let present = self.parsed.borrow();
        if present.0 == text && !text.is_empty() {
            return Ok(present.1.clone());
        }
        drop(present);
        let text_of = str::from_utf8(text).unwrap_or_default();
        let entries = match json::parse(text_of) {
            Ok(Json::Object(entries)) => entries,
            Ok(Json::Null) => return Err(Error::invalid("Got null for INSERT JSON values")),
            Ok(_) => return Err(Error::Invalid(format!("{NO_MAP}: {text_of}"))),
            Err(error) => {
                return Err(Error::Invalid(format!("{NO_MAP}: {text_of}. Error: {error}")));
            }
        };
        let mut row = HashMap::default();
        for (name, item) in entries {
            let name = folded(&name);
            if !self.names.contains(&name) {
                return Err(Error::Invalid(format!(
                    "JSON values map contains unrecognized column: {name}"
                )));
            }
            row.insert(name, item);
        }
        let row = Rc::new(row);
        *self.parsed.borrow_mut() = (text.to_vec(), row.clone());
        Ok(row)
    }
}

/// Appends a row as JSON: `{"name": value}`, names that are not lower case in quotes of their own.
pub(crate) fn write_row<'a>(
    columns: impl Iterator<Item = (&'a str, &'a Type, Option<Vec<u8>>)>,
) -> String {
    let mut out = String::from("{");
    for (name, ty, bytes) in columns {
        if 1 < out.len() {
            out.push_str(", ");
        }
        let quoted = name.chars().any(char::is_uppercase).then(|| format!("\"{name}\""));
        out.push_str(&value::quote_json(quoted.as_deref().unwrap_or(name)));
        out.push_str(": ");
        out.push_str(&bytes.map_or_else(|| "null".to_owned(), |b| value::to_json(ty, &b)));
    }
    out.push('}');
    out
}
