//! The notation of responses: strings, lists, maps, types.

use model::Type;
use stdx::Put;

/// Appends a [string]; text beyond 65 535 bytes is cut at a character.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(u16::MAX as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.put_u16_bytes(&text.as_bytes()[..end]);
}

/// Appends a [string list].
pub(crate) fn string_list<T: AsRef<str>>(out: &mut Vec<u8>, items: &[T]) {
    out.put_u16(items.len().min(u16::MAX as usize) as u16);
    items.iter().take(u16::MAX as usize).for_each(|item| string(out, item.as_ref()));
}

/// Appends a [string multimap].
pub(crate) fn string_multimap(out: &mut Vec<u8>, entries: &[(&str, Vec<String>)]) {
    out.put_u16(entries.len() as u16);
    for (key, values) in entries {
        string(out, key);
        string_list(out, values);
    }
}

/// Appends an [inet]: address and port.
pub(crate) fn inet(out: &mut Vec<u8>, address: std::net::SocketAddr) {
    match address.ip() {
        std::net::IpAddr::V4(ip) => {
            out.put_u8(4);
            out.put(&ip.octets());
        }
        std::net::IpAddr::V6(ip) => {
            out.put_u8(16);
            out.put(&ip.octets());
        }
    }
    out.put_u32(address.port() as u32);
}

/// Appends a column's type as protocol `version` can say it; what it has no code for goes as a
/// custom type with its class name.
pub(crate) fn type_option(out: &mut Vec<u8>, version: u8, ty: &Type) {
    let code = match ty {
        Type::Ascii => 0x01,
        Type::BigInt => 0x02,
        Type::Blob => 0x03,
        Type::Boolean => 0x04,
        Type::Counter => 0x05,
        Type::Decimal => 0x06,
        Type::Double => 0x07,
        Type::Float => 0x08,
        Type::Int => 0x09,
        Type::Timestamp => 0x0b,
        Type::Uuid => 0x0c,
        Type::Text => 0x0d,
        Type::Varint => 0x0e,
        Type::TimeUuid => 0x0f,
        Type::Inet => 0x10,
        Type::Date if 4 <= version => 0x11,
        Type::Time if 4 <= version => 0x12,
        Type::SmallInt if 4 <= version => 0x13,
        Type::TinyInt if 4 <= version => 0x14,
        Type::Duration if 5 <= version => 0x15,
        Type::List { .. } => 0x20,
        Type::Map { .. } => 0x21,
        Type::Set { .. } => 0x22,
        Type::User(_) => 0x30,
        Type::Tuple(_) => 0x31,
        _ => 0x00,
    };
    out.put_u16(code);
    match ty {
        Type::List { element, .. } | Type::Set { element, .. } => {
            type_option(out, version, element);
        }
        Type::Map { key, value, .. } => {
            type_option(out, version, key);
            type_option(out, version, value);
        }
        Type::Tuple(types) => {
            out.put_u16(types.len() as u16);
            types.iter().for_each(|ty| type_option(out, version, ty));
        }
        Type::User(user) => {
            string(out, &user.keyspace);
            string(out, &user.name);
            out.put_u16(user.fields.len() as u16);
            for (name, ty) in &user.fields {
                string(out, name);
                type_option(out, version, ty);
            }
        }
        _ if code == 0 => string(out, &ty.to_class_name()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: u8, ty: Type, expected: &[u8]) {
        let mut out = Vec::new();
        type_option(&mut out, version, &ty);
        assert_eq!(out, expected, "{ty:?}");
    }

    #[test]
    fn types() {
        let int = || Box::new(Type::Int);
        check(4, Type::List { element: int(), frozen: true }, &[0, 0x20, 0, 9]);
        let map = Type::Map { key: int(), value: Box::new(Type::Text), frozen: false };
        check(3, map, &[0, 0x21, 0, 9, 0, 13]);
        check(4, Type::Tuple(vec![Type::Int, Type::Blob]), &[0, 0x31, 0, 2, 0, 9, 0, 3]);
        check(4, Type::Date, &[0, 0x11]);
        check(5, Type::Duration, &[0, 0x15]);
    }

    #[test]
    fn what_a_version_has_no_code_for_goes_by_its_class() {
        let class = b"org.apache.cassandra.db.marshal.DurationType";
        let mut expected = vec![0, 0, 0, class.len() as u8];
        expected.extend_from_slice(class);
        check(4, Type::Duration, &expected);
    }

    #[test]
    fn a_long_string_is_cut_at_a_character() {
        let mut out = Vec::new();
        string(&mut out, &"\u{20ac}".repeat(30_000));
        assert_eq!(out.len(), 2 + 65_535);
        assert!(std::str::from_utf8(&out[2..]).is_ok());
    }
}
