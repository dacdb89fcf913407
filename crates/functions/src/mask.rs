//! Functions that hide values: each gives something of its argument's own type.

use model::Type;
use model::value::{self, write_collection, write_tuple, write_vector};

/// How a value is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// By null.
    Null,
    /// By a fixed value of the type.
    Default,
    /// By another value that is given.
    Replace,
    /// A text's characters but some at its begin and its end.
    Inner,
    /// Some of a text's characters at its begin and its end.
    Outer,
}

impl Mask {
    /// Of a value of that type and the other arguments.
    pub(crate) fn call(self, ty: &Type, arguments: &[Option<&[u8]>]) -> Option<Vec<u8>> {
        let argument = |index: usize| arguments.get(index).copied().flatten();
        match self {
            Mask::Null => None,
            Mask::Default => Some(default(ty)),
            Mask::Replace => argument(1).map(<[u8]>::to_vec),
            Mask::Inner | Mask::Outer => {
                let text = value::decode_text(argument(0)?)?;
                let count = |index: usize| {
                    let count = argument(index).and_then(value::decode_i32).unwrap_or(0);
                    usize::try_from(count).unwrap_or(0)
                };
                let padding = argument(3).and_then(value::decode_text);
                let padding = padding.and_then(|text| text.chars().next()).unwrap_or('*');
                let (begin, length) = (count(1), text.chars().count());
                let end = length.saturating_sub(count(2));
                let masked = text.chars().enumerate().map(|(index, c)| {
                    let inner = begin <= index && index < end;
                    if inner == (self == Mask::Inner) { padding } else { c }
                });
                Some(masked.collect::<String>().into_bytes())
            }
        }
    }
}

/// What stands for every value of a type.
fn default(ty: &Type) -> Vec<u8> {
    let mut out = Vec::new();
    match ty {
        Type::Text | Type::Ascii => out.extend_from_slice(b"****"),
        Type::TinyInt | Type::Boolean | Type::Varint => out.push(0),
        Type::SmallInt => out.extend_from_slice(&[0; 2]),
        Type::Int | Type::Float | Type::Inet => out.extend_from_slice(&[0; 4]),
        Type::Date => out.extend_from_slice(&value::temporal::DATE_EPOCH.to_be_bytes()),
        Type::BigInt | Type::Counter | Type::Double | Type::Timestamp | Type::Time => {
            out.extend_from_slice(&[0; 8]);
        }
        Type::Uuid => out.extend_from_slice(&[0; 16]),
        Type::TimeUuid => {
            out.extend_from_slice(value::timeuuid_from_ticks(0, [0x80; 8]).as_bytes());
        }
        Type::Decimal => out.extend(value::Decimal::zero().encode()),
        Type::Duration => out.extend(value::Duration { months: 0, days: 0, nanos: 0 }.encode()),
        Type::Blob | Type::Empty | Type::Custom(_) => {}
        Type::List { .. } | Type::Set { .. } | Type::Map { .. } => {
            write_collection(std::iter::empty(), &mut out);
        }
        Type::Tuple(types) => {
            let fields: Vec<Vec<u8>> = types.iter().map(default).collect();
            write_tuple(fields.iter().map(|field| Some(&field[..])), &mut out);
        }
        Type::User(user) => {
            let fields: Vec<Vec<u8>> = user.fields.iter().map(|(_, ty)| default(ty)).collect();
            write_tuple(fields.iter().map(|field| Some(&field[..])), &mut out);
        }
        Type::Vector { element, dimension } => {
            let item = default(element);
            let items = std::iter::repeat_n(&item[..], *dimension as usize);
            write_vector(element, items, &mut out);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values_of_their_type() {
        for ty in Type::natives().filter(|ty| *ty != Type::Empty) {
            assert_eq!(value::validate(&ty, &default(&ty)), Ok(()), "{ty:?}");
        }
        for cql in ["list<int>", "tuple<int, text>", "vector<float, 3>", "vector<text, 2>"] {
            let ty = Type::from_cql(cql, &|_| None).unwrap();
            assert_eq!(value::validate(&ty, &default(&ty)), Ok(()), "{cql}");
        }
    }

    #[test]
    fn parts_of_texts() {
        let check = |mask: Mask, begin: i32, end: i32, padding: Option<&str>, expected: &str| {
            let (begin, end) = (begin.to_be_bytes(), end.to_be_bytes());
            let padding = padding.map(str::as_bytes);
            let arguments = [Some(&b"abcdef"[..]), Some(&begin[..]), Some(&end[..]), padding];
            let found = mask.call(&Type::Text, &arguments).unwrap();
            assert_eq!(str::from_utf8(&found), Ok(expected));
        };
        check(Mask::Inner, 1, 2, None, "a***ef");
        check(Mask::Inner, 9, 9, None, "abcdef");
        check(Mask::Inner, 0, 0, Some("#"), "######");
        check(Mask::Outer, 1, 2, None, "*bcd**");
        check(Mask::Outer, 5, 5, None, "******");
        assert_eq!(Mask::Inner.call(&Type::Text, &[None, None, None]), None);
        assert_eq!(Mask::Replace.call(&Type::Int, &[None, Some(b"x")]), Some(b"x".to_vec()));
        assert_eq!(Mask::Null.call(&Type::Int, &[Some(b"x")]), None);
    }
}
