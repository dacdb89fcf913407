//! Types as the protocol describes them, from foreign bytes.

use model::Type;
use model::types::{NESTING_MAX, UserTypeRef};
use stdx::{Cursor, Damaged};

/// The scalar types by their numbers.
const SCALARS: [(u16, Type); 21] = [
    (0x01, Type::Ascii),
    (0x02, Type::BigInt),
    (0x03, Type::Blob),
    (0x04, Type::Boolean),
    (0x05, Type::Counter),
    (0x06, Type::Decimal),
    (0x07, Type::Double),
    (0x08, Type::Float),
    (0x09, Type::Int),
    (0x0a, Type::Text),
    (0x0b, Type::Timestamp),
    (0x0c, Type::Uuid),
    (0x0d, Type::Text),
    (0x0e, Type::Varint),
    (0x0f, Type::TimeUuid),
    (0x10, Type::Inet),
    (0x11, Type::Date),
    (0x12, Type::Time),
    (0x13, Type::SmallInt),
    (0x14, Type::TinyInt),
    (0x15, Type::Duration),
];

/// A string with a 16-bit length.
pub(crate) fn string(cursor: &mut Cursor<'_>, what: &'static str) -> Result<String, Damaged> {
    let bytes = cursor.u16_bytes(what)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| cursor.damaged(what))
}

/// A type. Whether a collection is frozen is not told: all are taken for frozen.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Type, Damaged> {
    nested(cursor, NESTING_MAX)
}

fn nested(cursor: &mut Cursor<'_>, depth_left: usize) -> Result<Type, Damaged> {
    let too_deep = cursor.damaged("a type that is nested too deeply");
    let depth_left = depth_left.checked_sub(1).ok_or(too_deep)?;
    let boxed = |cursor: &mut Cursor<'_>| nested(cursor, depth_left).map(Box::new);
    let number = cursor.u16("number of a type")?;
    let frozen = true;
    Ok(match number {
        0x00 => {
            let name = string(cursor, "class of a type")?;
            Type::from_class_name(&name).map_or(Type::Custom(name), |(ty, _)| ty)
        }
        0x20 => Type::List { element: boxed(cursor)?, frozen },
        0x21 => Type::Map { key: boxed(cursor)?, value: boxed(cursor)?, frozen },
        0x22 => Type::Set { element: boxed(cursor)?, frozen },
        0x30 => {
            let keyspace = string(cursor, "keyspace of a user type")?;
            let name = string(cursor, "name of a user type")?;
            let mut fields = Vec::new();
            for _ in 0..cursor.u16("fields of a user type")? {
                let field = string(cursor, "name of a field")?;
                fields.push((field, nested(cursor, depth_left)?));
            }
            Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen }))
        }
        0x31 => {
            let mut elements = Vec::new();
            for _ in 0..cursor.u16("elements of a tuple")? {
                elements.push(nested(cursor, depth_left)?);
            }
            Type::Tuple(elements)
        }
        _ => {
            let known = SCALARS.iter().find(|(known, _)| *known == number);
            known.map(|(_, ty)| ty.clone()).ok_or(cursor.damaged("number of a type"))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_are_read() {
        let check = |bytes: &[u8], expected: &str| {
            let ty = read(&mut Cursor::new(bytes)).expect("a type");
            assert_eq!(ty.to_cql(), expected);
        };
        check(b"\0\x09", "int");
        check(b"\0\x0d", "text");
        check(b"\0\x21\0\x02\0\x20\0\x03", "frozen<map<bigint, frozen<list<blob>>>>");
        check(b"\0\x30\0\x01k\0\x01u\0\x01\0\x01f\0\x09", "frozen<u>");
        check(b"\0\x31\0\x02\0\x09\0\x15", "frozen<tuple<int, duration>>");
        let class = "org.apache.cassandra.db.marshal.VectorType(\
                     org.apache.cassandra.db.marshal.FloatType , 3)";
        let mut custom = vec![0, 0, 0, class.len() as u8];
        custom.extend(class.as_bytes());
        check(&custom, "vector<float, 3>");
        assert!(read(&mut Cursor::new(b"\0\x77")).is_err());
        let deep = b"\0\x20".repeat(NESTING_MAX + 1);
        assert!(read(&mut Cursor::new(&deep)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_type_or_refused(bytes: Vec<u8>) {
            let _ = read(&mut Cursor::new(&bytes));
        }
    }
}
