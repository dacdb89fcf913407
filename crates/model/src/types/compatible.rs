//! Which type may follow which: ALTER TABLE, ALTER TYPE and the re-adding of dropped columns.

use super::Type;

impl Type {
    /// Whether every value of `previous` is a value of this type too, whatever its order. A
    /// dropped column can be added again with such a type.
    pub fn is_value_compatible_with(&self, previous: &Type) -> bool {
        if self == previous {
            return true;
        }
        let single = |ty: &Type| !ty.is_multi_cell() && *ty != Type::Counter;
        match (self, previous) {
            (Type::Blob, _) => single(previous),
            (Type::Text, Type::Ascii) => true,
            (Type::BigInt, Type::Timestamp) | (Type::Timestamp, Type::BigInt) => true,
            (Type::Uuid, Type::TimeUuid) => true,
            (
                Type::Varint,
                Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Timestamp,
            ) => true,
            _ => self.is_compatible_inside(previous, Type::is_value_compatible_with),
        }
    }

    /// Whether values of `previous` are values of this type and in the same order: what a
    /// clustering column may become.
    pub fn is_order_compatible_with(&self, previous: &Type) -> bool {
        if self == previous {
            return true;
        }
        match (self, previous) {
            (Type::Blob, Type::Ascii | Type::Text) | (Type::Text, Type::Ascii) => true,
            (Type::BigInt, Type::Timestamp) | (Type::Timestamp, Type::BigInt) => true,
            _ => self.is_compatible_inside(previous, Type::is_order_compatible_with),
        }
    }

    /// Compatible if the outer shape is the same and the inner types are compatible: a tuple or
    /// user type may have got further fields.
    fn is_compatible_inside(&self, previous: &Type, inside: fn(&Type, &Type) -> bool) -> bool {
        if self.is_multi_cell() != previous.is_multi_cell() {
            return false;
        }
        match (self, previous) {
            (Type::List { element: new, .. }, Type::List { element: old, .. }) => inside(new, old),
            // The elements of a set and the keys of a map are sorted on disk.
            (Type::Set { element: new, .. }, Type::Set { element: old, .. }) => {
                new.is_order_compatible_with(old)
            }
            (
                Type::Map { key: new_key, value: new, .. },
                Type::Map { key: old_key, value: old, .. },
            ) => new_key.is_order_compatible_with(old_key) && inside(new, old),
            (Type::Tuple(new), Type::Tuple(old)) => {
                old.len() <= new.len() && new.iter().zip(old).all(|(new, old)| inside(new, old))
            }
            (Type::User(new), Type::User(old)) => {
                let same = new.keyspace == old.keyspace && new.name == old.name;
                let mut pairs = new.fields.iter().zip(&old.fields);
                same && old.fields.len() <= new.fields.len()
                    && pairs.all(|((_, new), (_, old))| inside(new, old))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Type {
        Type::from_cql(text, &|_| None).unwrap()
    }

    fn check(new: &str, old: &str, value: bool, order: bool) {
        let (new, old) = (parse(new), parse(old));
        assert_eq!(new.is_value_compatible_with(&old), value, "{new:?} {old:?}");
        assert_eq!(new.is_order_compatible_with(&old), order, "{new:?} {old:?}");
    }

    #[test]
    fn scalars_and_collections() {
        check("int", "int", true, true);
        check("text", "ascii", true, true);
        check("ascii", "text", false, false);
        check("blob", "int", true, false);
        check("blob", "list<int>", false, false);
        check("blob", "counter", false, false);
        check("varint", "bigint", true, false);
        check("uuid", "timeuuid", true, false);
        check("timeuuid", "uuid", false, false);
        check("int", "bigint", false, false);
        check("list<blob>", "list<int>", true, false);
        check("list<blob>", "frozen<list<int>>", false, false);
        check("map<int, blob>", "map<int, int>", true, false);
        check("map<blob, int>", "map<int, int>", false, false);
        check("set<text>", "set<ascii>", true, true);
        check("set<blob>", "set<int>", false, false);
        check("tuple<int, int>", "tuple<int>", true, true);
        check("tuple<int>", "tuple<int, int>", false, false);
    }
}
