//! Terms to bytes.

use super::{Env, Evaluated, JsonColumn, Path, RowCell, Term};
use crate::error::Error;
use crate::metadata::{ColumnSpec, Slot};
use crate::values::Value;
use model::Type;
use model::value;
use mutation::{Cell, CellState, Tombstone};
use std::borrow::Cow;
use syntax::ast::{CellAttribute, JsonMissing};

impl Term {
    /// The value in `env`.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>) -> Result<Evaluated<'a>, Error> {
        match self {
            Term::Null => Ok(Evaluated::Null),
            Term::Constant(bytes) => Ok(Evaluated::Value(Cow::Borrowed(bytes))),
            Term::Marker(variable, slot) => slot.evaluate(*variable, env),
            Term::Parts(ty, parts) => collect(ty, parts, env),
            Term::Map(ty, entries) => collect_map(ty, entries, env),
            Term::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(argument.evaluate(env)?);
                }
                if values.contains(&Evaluated::Unset) {
                    return Err(Error::invalid("Invalid unset value for argument in call"));
                }
                let bytes: Vec<Option<&[u8]>> = values.iter().map(Evaluated::bytes).collect();
                let result = function.call(&bytes, &env.context())?;
                Ok(Evaluated::of(result.map(Cow::Owned)))
            }
            Term::Column(input) => Ok(column(*input, env)),
            Term::Attribute(attribute, input, path) => attribute_of(*attribute, *input, path, env),
            Term::Field(inner, index) => {
                let whole = inner.evaluate(env)?;
                let Evaluated::Value(whole) = whole else { return Ok(Evaluated::Null) };
                Ok(Evaluated::of(part_at(whole, *index)))
            }
            Term::Element(inner, ty, key) => {
                let key = key.evaluate(env)?;
                if key == Evaluated::Unset {
                    return Err(Error::invalid("Unsupported unset value for a key of a map"));
                }
                let Evaluated::Value(whole) = inner.evaluate(env)? else {
                    return Ok(Evaluated::Null);
                };
                match key.bytes() {
                    None => Ok(Evaluated::Null),
                    Some(key) => Ok(Evaluated::of(element(ty, &whole, key).map(Cow::Owned))),
                }
            }
            Term::Json(column) => column.evaluate(env),
            Term::JsonObject(columns, values) => {
                let mut row = Vec::with_capacity(values.len());
                for ((name, ty), value) in columns.iter().zip(values) {
                    let value = value.evaluate(env)?.bytes().map(<[u8]>::to_vec);
                    row.push((name.as_str(), ty, value));
                }
                let text = crate::json::write_row(row.into_iter());
                Ok(Evaluated::Value(Cow::Owned(text.into_bytes())))
            }
            Term::Aggregate(index) => {
                let value = env.aggregates.get(*index as usize).and_then(Option::as_deref);
                Ok(Evaluated::of(value.map(Cow::Borrowed)))
            }
        }
    }
}

impl Slot {
    fn evaluate<'a>(&self, variable: u16, env: &Env<'a>) -> Result<Evaluated<'a>, Error> {
        let ColumnSpec { name, ty, .. } = &self.column;
        let bytes = match env.values.get(usize::from(variable)) {
            Some(Value::Bytes(bytes)) => *bytes,
            Some(Value::Null) => return Ok(Evaluated::Null),
            Some(Value::Unset) => return Ok(Evaluated::Unset),
            None => {
                let text = format!("Missing value for bind marker with name: {name}");
                return Err(Error::Invalid(text));
            }
        };
        let checked = match ty {
            Type::Blob => Ok(()),
            _ => value::validate(ty, bytes),
        };
        checked.map_err(|invalid| {
            let text = format!("Exception while binding column {name}: {}", invalid.0);
            Error::Invalid(text)
        })?;
        let bytes = if self.has_order { value::normalize(ty, bytes) } else { Cow::Borrowed(bytes) };
        Ok(Evaluated::Value(bytes))
    }
}

impl JsonColumn {
    fn evaluate<'a>(&'a self, env: &Env<'a>) -> Result<Evaluated<'a>, Error> {
        let text = self.text.evaluate(env)?;
        let Some(text) = text.bytes() else {
            return Err(Error::invalid("Got null for INSERT JSON values"));
        };
        Ok(match self.row.column(text, &self.name, &self.ty)? {
            Some(value) => Evaluated::of(value.map(Cow::Owned)),
            None if self.missing == JsonMissing::Unset => Evaluated::Unset,
            None => Evaluated::Null,
        })
    }
}

fn collect<'a>(ty: &Type, parts: &'a [Term], env: &Env<'a>) -> Result<Evaluated<'a>, Error> {
    let in_tuple = matches!(ty, Type::Tuple(_) | Type::User(_));
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        match part.evaluate(env)? {
            Evaluated::Value(bytes) => values.push(Some(bytes)),
            Evaluated::Null if in_tuple => values.push(None),
            Evaluated::Null => {
                return Err(Error::invalid("null is not supported inside collections"));
            }
            Evaluated::Unset if in_tuple => {
                return Err(Error::invalid("Invalid unset value for tuple field"));
            }
            Evaluated::Unset => {
                return Err(Error::invalid("unset value is not supported inside collections"));
            }
        }
    }
    let mut out = Vec::new();
    let mut plain: Vec<&[u8]> = Vec::with_capacity(values.len());
    match ty {
        Type::Tuple(_) | Type::User(_) => {
            value::write_tuple(values.iter().map(|value| value.as_deref()), &mut out);
            return Ok(Evaluated::Value(Cow::Owned(out)));
        }
        _ => plain.extend(values.iter().map(|value| value.as_deref().unwrap_or_default())),
    }
    match ty {
        Type::Set { element, .. } => {
            value::sort_set(element, &mut plain);
            value::write_collection(plain.into_iter(), &mut out);
        }
        Type::Vector { element, .. } => {
            if let Some(length) = element.fixed_length()
                && plain.iter().any(|part| part.len() != length)
            {
                return Err(Error::invalid("empty values are not supported inside vectors"));
            }
            value::write_vector(element, plain.into_iter(), &mut out);
        }
        _ => value::write_collection(plain.into_iter(), &mut out),
    }
    Ok(Evaluated::Value(Cow::Owned(out)))
}

fn collect_map<'a>(
    ty: &Type,
    entries: &'a [(Term, Term)],
    env: &Env<'a>,
) -> Result<Evaluated<'a>, Error> {
    let present = |value: Evaluated<'a>| match value {
        Evaluated::Value(bytes) => Ok(bytes),
        Evaluated::Null => Err(Error::invalid("null is not supported inside collections")),
        Evaluated::Unset => Err(Error::invalid("unset value is not supported inside collections")),
    };
    let mut values = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        values.push((present(key.evaluate(env)?)?, present(value.evaluate(env)?)?));
    }
    let mut plain: Vec<(&[u8], &[u8])> =
        values.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    if let Type::Map { key, .. } = ty {
        value::sort_map(key, &mut plain);
    }
    let mut out = Vec::new();
    value::write_map(plain.into_iter(), &mut out);
    Ok(Evaluated::Value(Cow::Owned(out)))
}

fn column<'a>(input: u16, env: &Env<'a>) -> Evaluated<'a> {
    match env.cells.get(input as usize) {
        None | Some(RowCell::Null) => Evaluated::Null,
        Some(RowCell::Value(value) | RowCell::Timed { value, .. }) => {
            Evaluated::Value(Cow::Borrowed(value))
        }
        Some(RowCell::Elements(ty, view)) => {
            let mut out = Vec::new();
            let now = env.now_secs();
            let any = mutation::collection::to_cql(ty, *view, Tombstone::NONE, now, &mut out);
            if any { Evaluated::Value(Cow::Owned(out)) } else { Evaluated::Null }
        }
    }
}

/// The write time or TTL of an atomic column, of an element, or of all elements of a multi-cell
/// column (then a list of them; for MAXWRITETIME the greatest).
fn attribute_of<'a>(
    attribute: CellAttribute,
    input: u16,
    path: &'a Option<Box<Path>>,
    env: &Env<'a>,
) -> Result<Evaluated<'a>, Error> {
    let times = match env.cells.get(input as usize) {
        Some(RowCell::Timed { timestamp, expiry, .. }) => Some((*timestamp, *expiry)),
        Some(RowCell::Elements(_, view)) => {
            let wanted = match path.as_deref() {
                None => None,
                Some(Path::Field(index)) => Some((Type::SmallInt, index.to_be_bytes().to_vec())),
                Some(Path::Key(ty, term)) => match term.evaluate(env)?.bytes() {
                    None => return Ok(Evaluated::Null),
                    Some(bytes) => Some(((**ty).clone(), bytes.to_vec())),
                },
            };
            let now = env.now_secs();
            let mut found = view.iter().filter(|(path, cell)| {
                let wanted = wanted.as_ref();
                let same = wanted.is_none_or(|(ty, key)| value::compare(ty, path, key).is_eq());
                same && cell.is_live(now)
            });
            match wanted {
                Some(_) => found.next().map(|(_, cell)| times_of(&cell)),
                None => found.map(|(_, cell)| times_of(&cell)).max_by_key(|(time, _)| *time),
            }
        }
        _ => None,
    };
    Ok(match (attribute, times) {
        (_, None) | (CellAttribute::Ttl, Some((_, None))) => Evaluated::Null,
        (CellAttribute::Ttl, Some((_, Some(expiry)))) => {
            let left = expiry.saturating_sub(env.now_secs()).clamp(0, i32::MAX as i64) as i32;
            Evaluated::Value(Cow::Owned(left.to_be_bytes().to_vec()))
        }
        (CellAttribute::WriteTime | CellAttribute::MaxWriteTime, Some((timestamp, _))) => {
            Evaluated::Value(Cow::Owned(timestamp.to_be_bytes().to_vec()))
        }
    })
}

fn times_of(cell: &Cell<'_>) -> (i64, Option<i64>) {
    let expiry = match cell.state {
        CellState::Expiring { expiry, .. } => Some(expiry),
        _ => None,
    };
    (cell.timestamp, expiry)
}

fn part_at(whole: Cow<'_, [u8]>, index: usize) -> Option<Cow<'_, [u8]>> {
    match whole {
        Cow::Borrowed(bytes) => value::fields(bytes).nth(index)?.ok().flatten().map(Cow::Borrowed),
        Cow::Owned(bytes) => {
            let part = value::fields(&bytes).nth(index)?.ok().flatten()?.to_vec();
            Some(Cow::Owned(part))
        }
    }
}

/// The element of a collection value: of a map by key, of a set the element itself, of a list or
/// vector by position.
fn element(ty: &Type, whole: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let at = || value::decode_i32(key).and_then(|at| usize::try_from(at).ok());
    match ty {
        Type::Map { key: key_type, .. } => value::map_entries(whole)
            .find(|(found, _)| value::compare(key_type, found, key).is_eq())
            .map(|(_, value)| value.to_vec()),
        Type::Set { element, .. } => value::list_elements(whole)
            .filter_map(|part| part.ok().flatten())
            .find(|found| value::compare(element, found, key).is_eq())
            .map(<[u8]>::to_vec),
        Type::List { .. } => value::list_elements(whole).nth(at()?)?.ok()?.map(<[u8]>::to_vec),
        Type::Vector { element, dimension } => {
            let mut parts = value::vector_elements(element, *dimension, whole);
            parts.nth(at()?)?.ok()?.map(<[u8]>::to_vec)
        }
        _ => None,
    }
}
