//! Values as dumps of stored data print them: scalars without quotes, blobs as hexadecimal digits,
//! everything else as CQL literals; and the elements of what is stored element by element.

use super::{print_scalar, to_literal};
use crate::Type;
use std::fmt::Write;

/// A value as text.
pub fn print_plain(ty: &Type, bytes: &[u8]) -> String {
    match ty {
        Type::Blob | Type::Custom(_) => {
            let mut out = String::with_capacity(2 * bytes.len());
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
            out
        }
        _ if ty.is_native() => print_scalar(ty, bytes),
        _ => to_literal(ty, bytes),
    }
}

/// The name of an element of a column of that type and the type of its value: the field of a user
/// type, else the path as text. A field that the type does not have is its number, of a blob.
pub fn plain_element(ty: &Type, path: &[u8]) -> (String, Type) {
    if let Type::User(user) = ty {
        let index = path.first_chunk::<2>().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        return match user.fields.get(usize::from(index)) {
            Some((name, ty)) => (name.clone(), ty.clone()),
            None => (index.to_string(), Type::Blob),
        };
    }
    let key = ty.path_type().unwrap_or(Type::Blob);
    let element = match ty {
        Type::Set { .. } => Type::Blob,
        _ => ty.element_type().cloned().unwrap_or(Type::Blob),
    };
    (print_plain(&key, path), element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::UserTypeRef;

    #[test]
    fn values_have_no_quotes_alone() {
        let check = |ty: &Type, bytes: &[u8], expected: &str| {
            assert_eq!(print_plain(ty, bytes), expected);
        };
        check(&Type::Int, &[0, 0, 0, 7], "7");
        check(&Type::Text, b"it's", "it's");
        check(&Type::Blob, b"\x00\xff", "00ff");
        check(&Type::Tuple(vec![Type::Text]), b"\0\0\0\x01a", "('a')");
    }

    #[test]
    fn elements_have_names() {
        let check = |ty: &Type, path: &[u8], name: &str, element: Type| {
            assert_eq!(plain_element(ty, path), (name.to_string(), element));
        };
        let text = || Box::new(Type::Text);
        let map = Type::Map { key: Box::new(Type::Int), value: text(), frozen: false };
        check(&map, &[0, 0, 0, 5], "5", Type::Text);
        check(&Type::Set { element: text(), frozen: false }, b"a", "a", Type::Blob);
        let user = Type::User(Box::new(UserTypeRef {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("a".into(), Type::Int), ("b".into(), Type::Text)],
            frozen: false,
        }));
        check(&user, &[0, 1], "b", Type::Text);
        check(&user, &[0, 2], "2", Type::Blob);
    }
}
