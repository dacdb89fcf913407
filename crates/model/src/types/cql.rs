//! CQL names: how statements and `system_schema` spell types and identifiers.

use super::{NESTING_MAX, Type, UserType, UserTypeRef};

impl Type {
    /// The CQL name: `frozen<map<int, text>>`. A user type is written by its name only.
    pub fn to_cql(&self) -> String {
        match self {
            Type::List { element, frozen } => frozen_if(*frozen, "list", &[element]),
            Type::Set { element, frozen } => frozen_if(*frozen, "set", &[element]),
            Type::Map { key, value, frozen } => frozen_if(*frozen, "map", &[key, value]),
            Type::Tuple(elements) => frozen_if(true, "tuple", &elements.iter().collect::<Vec<_>>()),
            Type::User(user) if user.frozen => format!("frozen<{}>", quote_identifier(&user.name)),
            Type::User(user) => quote_identifier(&user.name),
            Type::Vector { element, dimension } => {
                format!("vector<{}, {dimension}>", element.to_cql())
            }
            Type::Custom(name) => format!("'{name}'"),
            native => native.native_names().map(|(cql, _)| cql).unwrap_or_default().to_owned(),
        }
    }

    /// Parses what [`Type::to_cql`] writes, and what is equivalent. `resolve` finds the user type
    /// of a name in the keyspace at hand. `None` when the text is no type.
    pub fn from_cql(text: &str, resolve: &dyn Fn(&str) -> Option<UserType>) -> Option<Type> {
        let mut parser = Parser { rest: text, resolve };
        let ty = parser.parse(NESTING_MAX)?;
        parser.rest.trim().is_empty().then_some(ty)
    }
}

/// A name as CQL text needs it: in double quotes unless it is lower-case and no reserved word.
pub fn quote_identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    if starts_well && name.chars().all(plain) && RESERVED.binary_search(&name).is_err() {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The words that cannot be identifiers without quotes, sorted.
const RESERVED: [&str; 60] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "false",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "true",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

fn frozen_if(frozen: bool, name: &str, parameters: &[&Type]) -> String {
    let inside: Vec<String> = parameters.iter().map(|ty| ty.to_cql()).collect();
    let bare = format!("{name}<{}>", inside.join(", "));
    if frozen { format!("frozen<{bare}>") } else { bare }
}

struct Parser<'a> {
    rest: &'a str,
    resolve: &'a dyn Fn(&str) -> Option<UserType>,
}

impl Parser<'_> {
    fn parse(&mut self, depth_left: usize) -> Option<Type> {
        let depth_left = depth_left.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        if self.eats('\'') {
            let (name, rest) = self.rest.split_once('\'')?;
            self.rest = rest;
            return Some(Type::from_class_name(name)?.0);
        }
        if self.rest.starts_with('"') {
            let name = self.quoted()?;
            return self.user(&name);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        let name = name.to_ascii_lowercase();
        if !self.eats('<') {
            return Type::native(&name).or_else(|| self.user(&name));
        }
        let mut inside = vec![self.parse(depth_left)?];
        if name == "vector" {
            return self.vector(inside.pop()?);
        }
        while self.eats(',') {
            inside.push(self.parse(depth_left)?);
        }
        self.eats('>').then_some(())?;
        collection(&name, inside)
    }

    fn vector(&mut self, element: Type) -> Option<Type> {
        self.eats(',').then_some(())?;
        let (dimension, rest) = self.rest.split_once('>')?;
        self.rest = rest;
        let dimension = dimension.trim().parse().ok()?;
        Some(Type::Vector { element: Box::new(element.freeze()), dimension })
    }

    fn user(&self, name: &str) -> Option<Type> {
        let UserType { keyspace, name, fields } = (self.resolve)(name)?;
        Some(Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: false })))
    }

    fn quoted(&mut self) -> Option<String> {
        let mut name = String::new();
        self.eats('"').then_some(())?;
        loop {
            let (part, rest) = self.rest.split_once('"')?;
            self.rest = rest;
            name.push_str(part);
            if !rest.starts_with('"') {
                return Some(name);
            }
            name.push('"');
            self.rest = &rest[1..];
        }
    }

    fn eats(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn collection(name: &str, inside: Vec<Type>) -> Option<Type> {
    let inside: Vec<Type> = inside
        .into_iter()
        .map(|ty| if name == "frozen" || ty.is_multi_cell() { ty.freeze() } else { ty })
        .collect();
    let mut inside = inside.into_iter();
    let ty = match (name, inside.len()) {
        ("frozen", 1) => inside.next()?,
        ("list", 1) => Type::List { element: Box::new(inside.next()?), frozen: false },
        ("set", 1) => Type::Set { element: Box::new(inside.next()?), frozen: false },
        ("map", 2) => {
            let (key, value) = (Box::new(inside.next()?), Box::new(inside.next()?));
            Type::Map { key, value, frozen: false }
        }
        ("tuple", _) => Type::Tuple(inside.collect()),
        _ => return None,
    };
    Some(ty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn identifiers() {
        let check = |name: &str, quoted: &str| assert_eq!(quote_identifier(name), quoted);
        check("abc_1", "abc_1");
        check("Abc", "\"Abc\"");
        check("1a", "\"1a\"");
        check("a\"b", "\"a\"\"b\"");
        check("select", "\"select\"");
        check("with", "\"with\"");
        check("true", "\"true\"");
        check("", "\"\"");
        check("key", "key");
    }

    #[test]
    fn what_is_no_type() {
        let deep = format!("{}int{}", "list<".repeat(100), ">".repeat(100));
        for text in ["", "nope", "list<int", "map<int>", "int>", "vector<int>", "list<>", &deep] {
            assert_eq!(Type::from_cql(text, &|_| None), None, "{text}");
        }
    }

    #[test]
    fn equivalent_spellings() {
        let check = |text: &str, cql: &str| {
            let ty = Type::from_cql(text, &|_| None).unwrap();
            assert_eq!(ty.to_cql(), cql);
        };
        check(" LIST < varchar >", "list<text>");
        check("list<list<int>>", "list<frozen<list<int>>>");
        check("tuple<int,set<int>>", "frozen<tuple<int, frozen<set<int>>>>");
        check("'org.apache.cassandra.db.marshal.Int32Type'", "int");
        check("frozen<tuple<int>>", "frozen<tuple<int>>");
    }

    proptest! {
        #[test]
        fn round_trips(ty in testing::column_type()) {
            let users = testing::user_types_in(&ty);
            let resolve = |name: &str| users.iter().find(|user| user.name == name).cloned();
            let text = ty.to_cql();
            prop_assert_eq!(Type::from_cql(&text, &resolve), Some(ty), "{}", text);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-z<>,\"' 0-9]{0,40}") {
            let _ = Type::from_cql(&text, &|_| None);
        }
    }
}
