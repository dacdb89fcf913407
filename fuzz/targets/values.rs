//! Values and types: any bytes are valid or refused for any type; valid ones have text that gives
//! an equal value again, compare with themselves as equal, and survive a change of their form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Type;
use model::types::UserTypeRef;
use model::value::{compare, normalize, parse_scalar, print_scalar, to_json, to_literal, validate};
use std::cmp::Ordering;

fuzz_target!(|input: &[u8]| {
    let Some(ty) = drawn(input) else { return };
    let bytes = input.get(4..).unwrap_or_default();
    let (a, b) = bytes.split_at(bytes.len() / 2);
    check(&ty, bytes);
    check(&ty, a);
    if validate(&ty, a).is_ok() && validate(&ty, b).is_ok() {
        assert_eq!(compare(&ty, a, b), compare(&ty, b, a).reverse());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        texts(&ty, text);
    }
});

/// A type made of the first four bytes: a scalar, or one of those inside up to two others.
fn drawn(input: &[u8]) -> Option<Type> {
    let [scalar, outer, outermost, frozen, ..] = *input else { return None };
    let natives: Vec<Type> = Type::natives().collect();
    let scalar = natives[scalar as usize % natives.len()].clone();
    let wrap = |ty: Type, how: u8| match how % 8 {
        0 => Type::List { element: Box::new(ty), frozen: frozen & 1 != 0 },
        1 => Type::Set { element: Box::new(ty), frozen: frozen & 2 != 0 },
        2 => Type::Map { key: Box::new(Type::Int), value: Box::new(ty), frozen: true },
        3 => Type::Map { key: Box::new(ty), value: Box::new(Type::Text), frozen: true },
        4 => Type::Tuple(vec![Type::Int, ty]),
        5 => Type::Vector { element: Box::new(ty), dimension: 1 + frozen as u16 % 5 },
        6 => {
            let fields = vec![("a".to_owned(), ty.freeze()), ("B".to_owned(), Type::Duration)];
            let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
            Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: frozen & 4 != 0 }))
        }
        _ => ty,
    };
    Some(wrap(wrap(scalar, outer), outermost))
}

fn check(ty: &Type, bytes: &[u8]) {
    let literal = to_literal(ty, bytes);
    assert!(!literal.is_empty());
    let _ = to_json(ty, bytes);
    if validate(ty, bytes).is_err() {
        return;
    }
    assert_eq!(compare(ty, bytes, bytes), Ordering::Equal);
    let normal = normalize(ty, bytes);
    assert_eq!(validate(ty, &normal), Ok(()), "{ty:?} {literal}");
    assert_eq!(normalize(ty, &normal), normal, "{ty:?} {literal}");
    if ty.is_native() && *ty != Type::Empty {
        let text = print_scalar(ty, bytes);
        let back = parse_scalar(ty, &text);
        // One duration has several encodings, which compare as bytes.
        let same = back.as_ref().is_ok_and(|back| {
            compare(ty, back, bytes) == Ordering::Equal || print_scalar(ty, back) == text
        });
        assert!(same || is_beyond_text(ty, bytes), "{ty:?} {text} {back:?}");
    }
}

/// A value whose text nothing reads back: counters are never read as text.
fn is_beyond_text(ty: &Type, bytes: &[u8]) -> bool {
    bytes.is_empty() || *ty == Type::Counter
}

fn texts(ty: &Type, text: &str) {
    if ty.is_native()
        && let Ok(bytes) = parse_scalar(ty, text)
    {
        assert_eq!(validate(ty, &bytes), Ok(()), "{ty:?} {text:?}");
    }
    if let Some(ty) = Type::from_cql(text, &|_| None) {
        assert_eq!(Type::from_cql(&ty.to_cql(), &|_| None).as_ref(), Some(&ty));
    }
    if let Some((ty, reversed)) = Type::from_class_name(text) {
        let name = ty.to_clustering_class_name(reversed);
        assert_eq!(Type::from_class_name(&name), Some((ty, reversed)));
    }
}
