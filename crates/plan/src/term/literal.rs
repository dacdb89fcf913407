//! Constants: which types a kind of literal can be, and its bytes as a value of one.

use crate::error::Error;
use model::Type;
use model::value;
use syntax::ast::{Literal, LiteralKind};

/// Whether a literal of that kind can stand for a value of `ty`.
pub(super) fn fits(kind: LiteralKind, ty: &Type) -> bool {
    use Type::*;
    match kind {
        LiteralKind::String => {
            matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp | Tuple(_) | User(_))
        }
        LiteralKind::Integer => matches!(
            ty,
            BigInt
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | SmallInt
                | Time
                | Timestamp
                | TinyInt
                | Varint
        ),
        LiteralKind::Float => matches!(ty, Decimal | Double | Float),
        LiteralKind::Uuid => matches!(ty, Uuid | TimeUuid),
        LiteralKind::Boolean => matches!(ty, Boolean),
        LiteralKind::Blob => matches!(ty, Blob),
        LiteralKind::Duration => matches!(ty, Duration),
    }
}

/// The type that a literal has where none is expected.
pub(super) fn natural_type(literal: &Literal) -> Type {
    match literal.kind {
        LiteralKind::String => Type::Text,
        LiteralKind::Integer if literal.text.parse::<i32>().is_ok() => Type::Int,
        LiteralKind::Integer if literal.text.parse::<i64>().is_ok() => Type::BigInt,
        LiteralKind::Integer => Type::Varint,
        LiteralKind::Float => Type::Double,
        LiteralKind::Uuid => Type::Uuid,
        LiteralKind::Boolean => Type::Boolean,
        LiteralKind::Blob => Type::Blob,
        LiteralKind::Duration => Type::Duration,
    }
}

/// The bytes of a literal as a value of `ty`, for the column or argument `name`.
pub(super) fn bytes(literal: &Literal, name: &str, ty: &Type) -> Result<Vec<u8>, Error> {
    if !fits(literal.kind, ty) {
        return Err(Error::Invalid(format!(
            "Invalid {} constant ({}) for \"{name}\" of type {}",
            literal.kind.name(),
            shown(literal),
            ty.to_cql()
        )));
    }
    let ty = if *ty == Type::Counter { &Type::BigInt } else { ty };
    if literal.text.is_empty()
        && matches!(ty, Type::Inet | Type::Date | Type::Time | Type::Timestamp)
    {
        return Err(Error::Invalid(format!(
            "Invalid STRING constant () for \"{name}\" of type {}: an empty string is no {0}",
            ty.to_cql()
        )));
    }
    of_text(ty, &literal.text)
}

/// The bytes of a constant's text as a value of `ty`. A tuple's is that of its fields with colons
/// between: `1:a\\:b:@` is `(1, 'a:b', null)`.
fn of_text(ty: &Type, text: &str) -> Result<Vec<u8>, Error> {
    let count = match ty {
        Type::Tuple(types) => types.len(),
        Type::User(user) => user.fields.len(),
        _ => return value::parse_scalar(ty, text).map_err(|invalid| Error::Invalid(invalid.0)),
    };
    let fields = split(text);
    if count < fields.len() {
        return Err(Error::Invalid(format!(
            "Invalid tuple literal: too many elements. Type {} expects {count} but got {}",
            ty.to_cql(),
            fields.len()
        )));
    }
    let mut parts: Vec<Option<Vec<u8>>> = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let Some(field_type) = ty.field_type(index) else { break };
        parts.push(match field.as_str() {
            "@" => None,
            text => Some(of_text(field_type, &text.replace("\\:", ":").replace("\\@", "@"))?),
        });
    }
    let mut out = Vec::new();
    value::write_tuple(parts.iter().map(Option::as_deref), &mut out);
    Ok(out)
}

/// The parts between colons that have no backslash before them.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match parts.last_mut() {
            Some(part) if c != ':' || escaped => part.push(c),
            _ => parts.push(String::new()),
        }
        escaped = c == '\\';
    }
    parts
}

fn shown(literal: &Literal) -> String {
    match literal.kind {
        LiteralKind::String => literal.text.clone(),
        _ => literal.text.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_as_texts() {
        let ty = Type::from_cql("tuple<int, text>", &|_| None).unwrap();
        let check = |text: &str, expected: &str| {
            let found = of_text(&ty, text).map(|bytes| value::to_literal(&ty, &bytes));
            assert_eq!(found.unwrap_or_else(|error| error.message()), expected, "{text}");
        };
        check("0:0", "(0, '0')");
        check("1", "(1)");
        check("1:1\\:1", "(1, '1:1')");
        check("@:1", "(null, '1')");
        check("1:\\@", "(1, '@')");
        check("x:1", "Unable to make int from 'x'");
        check(
            "1:2:3",
            "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 \
             but got 3",
        );
    }
}
