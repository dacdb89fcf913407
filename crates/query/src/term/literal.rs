//! Constants: which types a kind of literal can be, and its bytes as a value of one.

use crate::error::CqlError;
use crate::syntax::ast::{Literal, LiteralKind};
use model::Type;
use model::value;

/// Whether a literal of that kind can stand for a value of `ty`.
pub(super) fn fits(kind: LiteralKind, ty: &Type) -> bool {
    use Type::*;
    match kind {
        LiteralKind::String => matches!(ty, Ascii | Text | Inet | Date | Time | Timestamp),
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
pub(super) fn bytes(literal: &Literal, name: &str, ty: &Type) -> Result<Vec<u8>, CqlError> {
    if !fits(literal.kind, ty) {
        return Err(CqlError::Invalid(format!(
            "Invalid {} constant ({}) for \"{name}\" of type {}",
            literal.kind.name(),
            shown(literal),
            ty.to_cql()
        )));
    }
    let ty = if *ty == Type::Counter { &Type::BigInt } else { ty };
    value::parse_scalar(ty, &literal.text).map_err(|invalid| CqlError::Invalid(invalid.0))
}

fn shown(literal: &Literal) -> String {
    match literal.kind {
        LiteralKind::String => literal.text.clone(),
        _ => literal.text.to_lowercase(),
    }
}
