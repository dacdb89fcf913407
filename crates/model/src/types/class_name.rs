//! Marshal class names: how SSTables, the native protocol and `system_schema` spell types.
//!
//! A frozen collection or user type stands inside `FrozenType(..)`, at every level. Names are
//! accepted with and without their package, and with nothing frozen inside frozen types.

use super::{NATIVE, NESTING_MAX, Type, UserTypeRef};
use std::fmt::Write;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

impl Type {
    /// The marshal class name: `org.apache.cassandra.db.marshal.Int32Type`.
    pub fn to_class_name(&self) -> String {
        let mut out = String::new();
        write_type(self, &mut out);
        out
    }

    /// The class name of a clustering column: inside `ReversedType(..)` where it is descending.
    pub fn to_clustering_class_name(&self, reversed: bool) -> String {
        let inner = self.to_class_name();
        if reversed { format!("{PACKAGE}ReversedType({inner})") } else { inner }
    }

    /// Parses a marshal class name. `reversed` tells that it stood inside `ReversedType(..)`.
    /// `None` if the text is no class name, or nested deeper than [`NESTING_MAX`]; a well-formed
    /// name that we do not know is a custom type.
    pub fn from_class_name(name: &str) -> Option<(Type, bool)> {
        let node = Node::parse_all(name)?;
        if node.simple_name() == "ReversedType" {
            let [inner] = node.parameters.as_slice() else { return None };
            return Some((inner.to_type(false)?, true));
        }
        Some((node.to_type(false)?, false))
    }
}

/// The class name of a partition key: the column's own, or a `CompositeType(..)` of several.
pub fn key_class_name<'a>(types: impl ExactSizeIterator<Item = &'a Type>) -> String {
    let single = types.len() == 1;
    let names: Vec<String> = types.map(Type::to_class_name).collect();
    if single { names.concat() } else { format!("{PACKAGE}CompositeType({})", names.join(",")) }
}

/// The inverse of [`key_class_name`].
pub fn types_of_key_class_name(name: &str) -> Option<Vec<Type>> {
    let node = Node::parse_all(name)?;
    if node.simple_name() == "CompositeType" {
        return node.parameters.iter().map(|inner| inner.to_type(true)).collect();
    }
    Some(vec![node.to_type(true)?])
}

fn write_type(ty: &Type, out: &mut String) {
    if let Some((_, class)) = ty.native_names() {
        out.push_str(PACKAGE);
        out.push_str(class);
        return;
    }
    let frozen = matches!(
        ty,
        Type::List { frozen: true, .. }
            | Type::Set { frozen: true, .. }
            | Type::Map { frozen: true, .. }
    ) || matches!(ty, Type::User(user) if user.frozen);
    if frozen {
        out.push_str(PACKAGE);
        out.push_str("FrozenType(");
    }
    match ty {
        Type::List { element, .. } => write_class("ListType", &[element], out),
        Type::Set { element, .. } => write_class("SetType", &[element], out),
        Type::Map { key, value, .. } => write_class("MapType", &[key, value], out),
        Type::Tuple(elements) => {
            write_class("TupleType", &elements.iter().collect::<Vec<_>>(), out);
        }
        Type::User(user) => write_user(user, out),
        Type::Vector { element, dimension } => {
            out.push_str(PACKAGE);
            out.push_str("VectorType(");
            write_type(element, out);
            let _ = write!(out, ", {dimension})");
        }
        Type::Custom(name) => out.push_str(name),
        _ => unreachable!("scalar types have returned"),
    }
    if frozen {
        out.push(')');
    }
}

fn write_class(class: &str, parameters: &[&Type], out: &mut String) {
    out.push_str(PACKAGE);
    out.push_str(class);
    out.push('(');
    for (index, parameter) in parameters.iter().enumerate() {
        if index != 0 {
            out.push(',');
        }
        write_type(parameter, out);
    }
    out.push(')');
}

fn write_user(user: &UserTypeRef, out: &mut String) {
    let _ = write!(out, "{PACKAGE}UserType({},{}", user.keyspace, hex(&user.name));
    for (name, ty) in &user.fields {
        let _ = write!(out, ",{}:", hex(name));
        write_type(ty, out);
    }
    out.push(')');
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex(text: &str) -> Option<String> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?).ok()
}

/// The syntax: `[label:]name[(node, node, ..)]`.
#[derive(Debug)]
struct Node<'a> {
    label: Option<&'a str>,
    name: &'a str,
    parameters: Vec<Node<'a>>,
    /// The text of name and parameters together.
    text: &'a str,
}

impl<'a> Node<'a> {
    fn parse_all(text: &'a str) -> Option<Node<'a>> {
        let (node, rest) = Node::parse(text.trim(), NESTING_MAX)?;
        (rest.trim().is_empty() && node.label.is_none()).then_some(node)
    }

    fn parse(text: &'a str, depth_left: usize) -> Option<(Node<'a>, &'a str)> {
        let depth_left = depth_left.checked_sub(1)?;
        let mut text = text.trim_start();
        let mut name = word(text);
        let mut label = None;
        if let Some(rest) = text[name.len()..].strip_prefix(':') {
            label = Some(name);
            text = rest.trim_start();
            name = word(text);
        }
        if name.is_empty() {
            return None;
        }
        let mut rest = &text[name.len()..];
        let mut parameters = Vec::new();
        if let Some(mut inside) = rest.strip_prefix('(') {
            while let Some(after) = inside.trim_start().strip_prefix(',').or(Some(inside)) {
                if let Some(after) = after.trim_start().strip_prefix(')') {
                    inside = after;
                    break;
                }
                let (parameter, after) = Node::parse(after, depth_left)?;
                parameters.push(parameter);
                inside = after;
            }
            rest = inside;
        }
        let text = &text[..text.len() - rest.len()];
        Some((Node { label, name, parameters, text }, rest))
    }

    fn simple_name(&self) -> &'a str {
        self.name.strip_prefix(PACKAGE).unwrap_or(self.name)
    }

    /// The type; collections and user types as multi-cell ones unless `frozen`.
    fn to_type(&self, frozen: bool) -> Option<Type> {
        let name = self.simple_name();
        let native = NATIVE.iter().find(|(_, _, class)| *class == name);
        if let Some((ty, _, _)) = native {
            return self.parameters.is_empty().then(|| ty.clone());
        }
        let boxed = |node: &Node| Some(Box::new(node.to_type(true)?));
        let ty = match (name, self.parameters.as_slice()) {
            // The type of timestamps before Cassandra 2.0, with the same bytes.
            ("DateType", []) => Type::Timestamp,
            ("FrozenType", [inner]) => inner.to_type(true)?,
            ("ListType", [element]) => Type::List { element: boxed(element)?, frozen },
            ("SetType", [element]) => Type::Set { element: boxed(element)?, frozen },
            ("MapType", [key, value]) => {
                Type::Map { key: boxed(key)?, value: boxed(value)?, frozen }
            }
            ("TupleType", elements) => {
                Type::Tuple(elements.iter().map(|node| node.to_type(true)).collect::<Option<_>>()?)
            }
            ("VectorType", [element, dimension]) => {
                Type::Vector { element: boxed(element)?, dimension: dimension.text.parse().ok()? }
            }
            ("UserType", [keyspace, name, fields @ ..]) => {
                let field = |node: &Node| Some((unhex(node.label?)?, node.to_type(true)?));
                Type::User(Box::new(UserTypeRef {
                    keyspace: keyspace.text.to_owned(),
                    name: unhex(name.text)?,
                    fields: fields.iter().map(field).collect::<Option<_>>()?,
                    frozen,
                }))
            }
            ("FrozenType" | "ListType" | "SetType" | "MapType", _)
            | ("VectorType" | "UserType" | "ReversedType", _) => return None,
            _ => Type::Custom(self.text.to_owned()),
        };
        Some(ty)
    }
}

/// The name at the start of a text.
fn word(text: &str) -> &str {
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    &text[..text.find(|c| !in_name(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn check(short: &str, cql: &str) {
        let (ty, reversed) = Type::from_class_name(short).unwrap();
        assert!(!reversed);
        assert_eq!(ty.to_cql(), cql);
        let full = ty.to_class_name();
        assert_eq!(Type::from_class_name(&full), Some((ty, false)), "{full}");
    }

    #[test]
    fn names() {
        check("UTF8Type", "text");
        check("org.apache.cassandra.db.marshal.Int32Type", "int");
        check("DateType", "timestamp");
        check("MapType(Int32Type, UTF8Type)", "map<int, text>");
        check("FrozenType(ListType(ListType(LongType)))", "frozen<list<frozen<list<bigint>>>>");
        check("SetType(TupleType(ByteType,ShortType))", "set<frozen<tuple<tinyint, smallint>>>");
        check("VectorType(FloatType , 3)", "vector<float, 3>");
        check("UserType(ks,74,61:Int32Type,6220:ListType(UTF8Type))", "t");
        check("FrozenType(UserType(ks,54,61:Int32Type))", "frozen<\"T\">");
        check("com.example.Own(x,y(1))", "'com.example.Own(x,y(1))'");
    }

    #[test]
    fn spelling() {
        let nested = "FrozenType(ListType(FrozenType(SetType(UUIDType))))";
        let (ty, _) = Type::from_class_name(nested).unwrap();
        let full = nested.replace("Fr", "P.Fr").replace("L", "P.L").replace("S", "P.S");
        let full = full.replace("UUIDT", "P.UUIDT").replace("P.", PACKAGE);
        assert_eq!(ty.to_class_name(), full);
        let vector = Type::Vector { element: Box::new(Type::Float), dimension: 3 };
        let text = format!("{PACKAGE}VectorType({PACKAGE}FloatType, 3)");
        assert_eq!(vector.to_class_name(), text);
    }

    #[test]
    fn reversed_and_composite() {
        let name = Type::Int.to_clustering_class_name(true);
        assert_eq!(name, format!("{PACKAGE}ReversedType({PACKAGE}Int32Type)"));
        assert_eq!(Type::from_class_name(&name), Some((Type::Int, true)));
        let types = vec![Type::Int, Type::Text];
        let name = key_class_name(types.iter());
        assert_eq!(name, format!("{PACKAGE}CompositeType({PACKAGE}Int32Type,{PACKAGE}UTF8Type)"));
        assert_eq!(types_of_key_class_name(&name), Some(types));
        assert_eq!(types_of_key_class_name("Int32Type"), Some(vec![Type::Int]));
    }

    #[test]
    fn what_is_no_class_name() {
        let deep = format!("{}Int32Type{}", "ListType(".repeat(100), ")".repeat(100));
        let bad = ["", "(", "ListType", "ListType(", "ListType(Int32Type", "Int32Type)", "a b"];
        let more = ["MapType(Int32Type)", "VectorType(FloatType, x)", "UserType(ks,7)", &deep];
        for name in bad.into_iter().chain(more) {
            assert_eq!(Type::from_class_name(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(ty in testing::column_type(), reversed: bool) {
            let name = ty.to_clustering_class_name(reversed);
            prop_assert_eq!(Type::from_class_name(&name), Some((ty, reversed)), "{}", name);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[A-Za-z(),:. 0-9]{0,40}") {
            let _ = Type::from_class_name(&text);
        }
    }
}
