//! Columns of tables of the API: their names and types.

use model::Type;

/// The column of the attributes that are no keys.
pub(crate) const ATTRIBUTES: &str = ":attrs";

/// The type of a key column, as the API names it.
pub(crate) fn key_type_name(ty: &Type) -> &'static str {
    match ty {
        Type::Blob => "B",
        Type::Decimal => "N",
        _ => "S",
    }
}
