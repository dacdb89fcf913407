//! Rows of values that stand elsewhere nearly as they do in a blob: copied as a whole.
//!
//! Most rows have a live marker and a value of each column, written at once. A blob has a head of
//! one byte before each value, and files have another byte there, a *mark*; length and value are
//! the same bytes. So the bytes are copied at once, and heads and marks put in each other's place.
//!
//! Invariants
//!  - *as-built*: what [`Run::read`] appends is what [`RowBuilder`] makes of the same values.
//!  - *all-or-nothing*: where the values are others, nothing is appended.

use super::*;
use stdx::Put;

/// Lengths of more than two bytes are left to others.
const LENGTH_MAX: usize = 0x3fff;

/// The columns of such rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// A head for each of them.
    heads: Vec<u8>,
}

impl Run {
    /// Rows of these columns. `None`: they do not ascend, or a head takes more than a byte.
    pub fn of(columns: impl IntoIterator<Item = ColumnId>) -> Option<Run> {
        let head = |id: ColumnId| {
            (id.0 < 0x80 >> FORM_BITS).then_some((id.0 as u8) << FORM_BITS | LIVE_AT_BASE)
        };
        let heads: Vec<u8> = columns.into_iter().map(head).collect::<Option<_>>()?;
        heads.is_sorted_by(|a, b| a < b).then_some(Run { heads })
    }

    /// Appends the row with a live marker of this timestamp whose values are in `cells`: of each
    /// column `mark`, a length as a vint and so many bytes. Whether `cells` is just that, its
    /// lengths being the shortest vints and at most two bytes long.
    #[inline]
    pub fn read(&self, timestamp: i64, mark: u8, cells: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.reserve(9 + cells.len());
        out.put_u8(HAS_MARKER | HAS_BASE);
        out.put_i64(timestamp);
        out.put(cells);
        let mut rest = &mut out[start + 9..];
        for head in &self.heads {
            match next_value(rest) {
                Some((byte, _, behind)) if *byte == mark => {
                    *byte = *head;
                    rest = behind;
                }
                _ => {
                    out.truncate(start);
                    return false;
                }
            }
        }
        let whole = rest.is_empty();
        if !whole {
            out.truncate(start);
        }
        whole
    }

    /// The inverse: appends the values of a row as [`Run::read`] takes them; the bytes of the
    /// longest. `None`: the row is another one, or has an empty value.
    #[inline]
    pub fn write(&self, row: RowView<'_>, mark: u8, out: &mut Vec<u8>) -> Option<usize> {
        if row.bytes.first() != Some(&(HAS_MARKER | HAS_BASE)) {
            return None;
        }
        let start = out.len();
        out.put(row.columns);
        let mut longest = 0;
        let mut rest = &mut out[start..];
        for head in &self.heads {
            match next_value(rest) {
                Some((byte, length @ 1.., behind)) if byte == head => {
                    *byte = mark;
                    longest = longest.max(length);
                    rest = behind;
                }
                _ => {
                    out.truncate(start);
                    return None;
                }
            }
        }
        if rest.is_empty() {
            return Some(longest);
        }
        out.truncate(start);
        None
    }
}

/// The byte before a value, the length of the value, and what is behind it.
#[inline]
fn next_value(bytes: &mut [u8]) -> Option<(&mut u8, usize, &mut [u8])> {
    let (head, rest) = bytes.split_first_mut()?;
    let (first, rest) = rest.split_first_mut()?;
    let (length, rest) = match *first {
        length @ 0..0x80 => (length as usize, rest),
        first => {
            let (second, rest) = rest.split_first_mut()?;
            let length = (first as usize & 0x7f) << 8 | *second as usize;
            // Others have more bytes, or could do with less.
            if !(0x80..=LENGTH_MAX).contains(&length) {
                return None;
            }
            (length, rest)
        }
    };
    Some((head, length, rest.split_at_mut_checked(length)?.1))
}
