//! Values as JSON text.

use crate::types::Type;

/// The JSON text of a value.
pub fn to_json(ty: &Type, bytes: &[u8]) -> String {
    let _ = (ty, bytes);
    todo!()
}
