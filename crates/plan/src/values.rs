//! Bound values.

/// A bound value, as the frame holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Length -1.
    Null,
    /// Length -2: as if the column was not named.
    Unset,
    /// The value's bytes.
    Bytes(&'a [u8]),
}

/// The values of a statement's bind markers.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// In order of the markers.
    Positional(&'a [Value<'a>]),
    /// By the names of the markers.
    Named(&'a [(&'a str, Value<'a>)]),
}

impl Values<'_> {
    /// No values.
    pub const NONE: Values<'static> = Values::Positional(&[]);

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Values::Positional(values) => values.len(),
            Values::Named(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
