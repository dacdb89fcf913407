//! CQL of the tree: what is printed, parsed again, is the same tree.
//!
//! The schema tables, `DESCRIBE`, names of result columns and error messages use it. Bind
//! markers print as `?`.

mod access;
mod expr;
mod modify;
mod schema;

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use super::ast::{Name, NativeType, QualifiedName, Type, TypeKind};
use super::keyword::Keyword;

/// A name as CQL has to write it: in quotes unless it is lower case and no reserved word.
pub fn quote_name(name: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let is_word = name.bytes().all(plain) && name.starts_with(|c: char| c.is_ascii_lowercase());
    let reserved = Keyword::of(name.as_bytes()).is_some_and(Keyword::is_reserved);
    if is_word && !reserved {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// A string as CQL writes it.
pub fn quote_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `a, b`
fn commas<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    print: impl FnMut(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    separated(f, items, ", ", print)
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    separator: &str,
    mut print: impl FnMut(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if 0 < index {
            f.write_str(separator)?;
        }
        print(item, f)?;
    }
    Ok(())
}

/// ` AND ` before everything but the first, for clauses that come from several places.
struct And {
    word: &'static str,
}

impl And {
    fn after(word: &'static str) -> And {
        And { word }
    }

    fn print(&mut self, f: &mut Formatter<'_>, clause: impl Display) -> fmt::Result {
        write!(f, " {} {clause}", self.word)?;
        self.word = "AND";
        Ok(())
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&quote_name(&self.text))
    }
}

impl Display for QualifiedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        write!(f, "{}", self.name)
    }
}

impl Display for NativeType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TypeKind::Native(native) => write!(f, "{native}"),
            TypeKind::User(QualifiedName { keyspace: None, name })
                if NativeType::from_name(&name.text).is_some() =>
            {
                write!(f, "\"{}\"", name.text)
            }
            TypeKind::User(name) => write!(f, "{name}"),
            TypeKind::List(element) => write!(f, "list<{element}>"),
            TypeKind::Set(element) => write!(f, "set<{element}>"),
            TypeKind::Map(key, value) => write!(f, "map<{key}, {value}>"),
            TypeKind::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            TypeKind::Frozen(inner) => write!(f, "frozen<{inner}>"),
            TypeKind::Custom(class) => f.write_str(&quote_string(class)),
            TypeKind::Tuple(types) => {
                f.write_str("tuple<")?;
                commas(f, types, Display::fmt)?;
                f.write_str(">")
            }
        }
    }
}
