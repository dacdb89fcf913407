use super::*;
use proptest::prelude::*;

#[test]
fn forms() {
    use NullInput::{Called, ReturnsNull};
    let checks = [
        (Type::Boolean, ReturnsNull, Form::I32),
        (Type::TinyInt, ReturnsNull, Form::I32),
        (Type::BigInt, ReturnsNull, Form::I64),
        (Type::Float, ReturnsNull, Form::F32),
        (Type::Double, ReturnsNull, Form::F64),
        (Type::Counter, ReturnsNull, Form::Bytes),
        (Type::Date, ReturnsNull, Form::Bytes),
        (Type::Text, ReturnsNull, Form::Bytes),
        (Type::BigInt, Called, Form::Bytes),
    ];
    for (ty, null_input, expected) in checks {
        assert_eq!(Form::of(&ty, null_input), expected, "{ty:?}");
    }
}

#[test]
fn empty_values_have_no_plain_form() {
    for ty in [Type::Boolean, Type::TinyInt, Type::Int, Type::BigInt, Type::Float, Type::Double] {
        let form = Form::of(&ty, NullInput::ReturnsNull);
        assert!(argument(&ty, form, Some(b"")).is_err(), "{ty:?}");
        assert!(matches!(argument(&ty, Form::Bytes, Some(b"")), Ok(Argument::Bytes(Some(_)))));
    }
}

#[test]
fn words() {
    let memory = *b"0123456789";
    type Found<'m> = Result<Option<&'m [u8]>, ()>;
    let checks: [(i64, Found<'_>); 9] = [
        (word(3, 2), Ok(Some(b"234"))),
        (word(0, 10), Ok(Some(b""))),
        (word(10, 0), Ok(Some(b"0123456789"))),
        (word(0, 11), Err(())),
        (word(10, 1), Err(())),
        (NULL, Ok(None)),
        (NULL | 7, Ok(None)),
        (i64::MIN, Err(())),
        (word(u32::MAX >> 1, u32::MAX), Err(())),
    ];
    for (word, expected) in checks {
        assert_eq!(named(word, &memory).map_err(drop), expected, "{word:x}");
    }
}

proptest! {
    #[test]
    fn any_word_names_what_it_says(word: i64, size in 0..64usize, near in 0..80i64) {
        let memory: Vec<u8> = (0..size as u8).collect();
        for word in [word, near << 32 | (word & 0x3f), near << 32] {
            let (length, start) = (i128::from((word >> 32) as i32), i128::from(word as u32));
            let expected = match length {
                -1 => Some(None),
                _ if length < 0 || (size as i128) < start + length => None,
                _ => Some(Some(memory[start as usize..(start + length) as usize].to_vec())),
            };
            let found = named(word, &memory).ok().map(|bytes| bytes.map(<[u8]>::to_vec));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn plain_values_round_trip(number: i64) {
        let bytes = number.to_be_bytes();
        let types = [
            (Type::TinyInt, 1), (Type::SmallInt, 2), (Type::Int, 4), (Type::BigInt, 8),
            (Type::Float, 4), (Type::Double, 8),
        ];
        for (ty, length) in types {
            let form = Form::of(&ty, NullInput::ReturnsNull);
            let bytes = &bytes[..length];
            let Ok(Argument::Plain(value)) = argument(&ty, form, Some(bytes)) else {
                panic!("a plain value");
            };
            let found = plain(&ty, &value);
            prop_assert_eq!(found.as_deref(), Some(bytes));
        }
    }

    #[test]
    fn returned_bytes_are_values_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let int = || Box::new(Type::Int);
        let types = [
            Type::Text, Type::Uuid, Type::Duration, Type::Inet, Type::Varint, Type::Decimal,
            Type::Set { element: int(), frozen: true },
            Type::Map { key: int(), value: Box::new(Type::Text), frozen: true },
            Type::Tuple(vec![Type::Int, Type::Text]),
        ];
        for ty in types {
            if let Ok(value) = checked(&ty, &bytes) {
                prop_assert!(value::validate(&ty, &value).is_ok());
                let again = value::normalize(&ty, &value);
                prop_assert_eq!(&*again, &value[..]);
            }
        }
    }
}
