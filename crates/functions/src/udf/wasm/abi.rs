//! Values on their way into a module and out of it.
//!
//! Numbers and booleans of a function that is not called with nulls are plain values of
//! WebAssembly. All else is its serialized form in the module's memory: a word of 64 bits has its
//! length in the high half, -1 for null, and where it starts in the low half.
//!
//! Invariants
//!  - *foreign*: what a module hands back is checked like bytes of a client: it may name any place
//!    and hold anything.

use model::Type;
use model::schema::NullInput;
use model::value;
use wasmi::{F32, F64, Val, ValType};

/// How values of a type stand in WebAssembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    I32,
    I64,
    F32,
    F64,
    /// Serialized, in memory.
    Bytes,
}

impl Form {
    /// The form of values of `ty` in a function of that kind.
    pub(super) fn of(ty: &Type, null_input: NullInput) -> Form {
        match (null_input, ty) {
            (NullInput::Called, _) => Form::Bytes,
            (_, Type::Boolean | Type::TinyInt | Type::SmallInt | Type::Int) => Form::I32,
            (_, Type::BigInt) => Form::I64,
            (_, Type::Float) => Form::F32,
            (_, Type::Double) => Form::F64,
            _ => Form::Bytes,
        }
    }

    /// What its type is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::I32 => "i32",
            Form::I64 | Form::Bytes => "i64",
            Form::F32 => "f32",
            Form::F64 => "f64",
        }
    }

    /// Whether it is of that type.
    pub(super) fn is(self, ty: ValType) -> bool {
        match self {
            Form::I32 => matches!(ty, ValType::I32),
            Form::I64 | Form::Bytes => matches!(ty, ValType::I64),
            Form::F32 => matches!(ty, ValType::F32),
            Form::F64 => matches!(ty, ValType::F64),
        }
    }
}

/// What a type of WebAssembly is called.
pub(super) fn name_of(ty: ValType) -> &'static str {
    match ty {
        ValType::I32 => "i32",
        ValType::I64 => "i64",
        ValType::F32 => "f32",
        ValType::F64 => "f64",
        ValType::V128 => "v128",
        ValType::FuncRef => "funcref",
        ValType::ExternRef => "externref",
    }
}

/// An argument.
#[derive(Debug)]
pub(super) enum Argument {
    Plain(Val),
    /// To be put into memory; `None` is null.
    Bytes(Option<Vec<u8>>),
}

/// An argument of `ty`. Nulls and values without bytes have no plain form.
pub(super) fn argument(ty: &Type, form: Form, bytes: Option<&[u8]>) -> Result<Argument, String> {
    if form == Form::Bytes {
        return Ok(Argument::Bytes(bytes.map(<[u8]>::to_vec)));
    }
    let bytes = bytes.unwrap_or_default();
    let plain = match ty {
        Type::Boolean => value::decode_bool(bytes).map(|value| Val::I32(value.into())),
        Type::TinyInt => value::decode_i8(bytes).map(|value| Val::I32(value.into())),
        Type::SmallInt => value::decode_i16(bytes).map(|value| Val::I32(value.into())),
        Type::Int => value::decode_i32(bytes).map(Val::I32),
        Type::BigInt => value::decode_i64(bytes).map(Val::I64),
        Type::Float => value::decode_f32(bytes).map(|value| Val::F32(F32::from_float(value))),
        _ => value::decode_f64(bytes).map(|value| Val::F64(F64::from_float(value))),
    };
    let none = || format!("an empty value of type {} has no plain form", ty.to_cql());
    plain.map(Argument::Plain).ok_or_else(none)
}

/// The value of `ty` that a plain result is; of small integers the low bits count.
pub(super) fn plain(ty: &Type, result: &Val) -> Option<Vec<u8>> {
    Some(match (ty, result) {
        (Type::Boolean, Val::I32(value)) => vec![u8::from(*value != 0)],
        (Type::TinyInt, Val::I32(value)) => (*value as i8).to_be_bytes().to_vec(),
        (Type::SmallInt, Val::I32(value)) => (*value as i16).to_be_bytes().to_vec(),
        (Type::Int, Val::I32(value)) => value.to_be_bytes().to_vec(),
        (Type::BigInt, Val::I64(value)) => value.to_be_bytes().to_vec(),
        (Type::Float, Val::F32(value)) => value.to_bits().to_be_bytes().to_vec(),
        (Type::Double, Val::F64(value)) => value.to_bits().to_be_bytes().to_vec(),
        _ => return None,
    })
}

/// The word for `length` bytes at `start`.
pub(super) fn word(length: u32, start: u32) -> i64 {
    (i64::from(length as i32) << 32) | i64::from(start)
}

/// The word for null.
pub(super) const NULL: i64 = -1 << 32;

/// What a word of a module names in its memory; `None` is null.
pub(super) fn named(word: i64, memory: &[u8]) -> Result<Option<&[u8]>, String> {
    let (length, start) = ((word >> 32) as i32, word as u32);
    if length == -1 {
        return Ok(None);
    }
    let out = || format!("the returned {length} bytes at {start} are out of bounds");
    let length = usize::try_from(length).map_err(|_| out())?;
    let end = (start as usize).checked_add(length).ok_or_else(out)?;
    memory.get(start as usize..end).map(Some).ok_or_else(out)
}

/// The value of `ty` that returned bytes are.
pub(super) fn checked(ty: &Type, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let invalid = |reason: value::Invalid| {
        format!("the returned value is not one of type {}: {}", ty.to_cql(), reason.0)
    };
    value::validate(ty, bytes).map_err(invalid)?;
    Ok(value::normalize(ty, bytes).into_owned())
}

#[cfg(test)]
mod tests;
