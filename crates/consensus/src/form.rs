//! Numbers and byte strings that have one form only.
//!
//! Invariants
//!  - *one-form*: a number takes as few bytes as it can, or it is damage.

use stdx::{Cursor, Damaged, vint};

/// A number in its shortest form.
pub(crate) fn number(cursor: &mut Cursor<'_>, what: &'static str) -> Result<u64, Damaged> {
    let before = cursor.offset();
    let value = cursor.vint(what)?;
    if cursor.offset() - before != vint::size(value) {
        return Err(Damaged::new("a number that is longer than it must be", before as u64));
    }
    Ok(value)
}

/// A length in its shortest form, and as many bytes.
pub(crate) fn bytes<'a>(cursor: &mut Cursor<'a>, what: &'static str) -> Result<&'a [u8], Damaged> {
    let count = number(cursor, what)?;
    let count = usize::try_from(count).map_err(|_| cursor.damaged(what))?;
    cursor.take(count, what)
}

/// A truth value.
pub(crate) fn truth(cursor: &mut Cursor<'_>, what: &'static str) -> Result<bool, Damaged> {
    match cursor.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged("a truth value is neither 0 nor 1")),
    }
}
