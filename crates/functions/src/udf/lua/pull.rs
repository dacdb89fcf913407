//! Lua values as CQL values. A script may return anything: what does not suit the type is refused
//! with a text, and what would be larger than [`BYTES_MAX`] too.

use super::number::Number;
use mlua::{Lua, Table, Value};
use model::Type;
use model::types::UserTypeRef;
use model::value::temporal::{Day, parse_date, parse_time, parse_timestamp};
use model::value::{self, Decimal};
use num_bigint::BigInt;

/// Bytes of a value at most: tables can stand in each other many times over.
const BYTES_MAX: usize = 16 << 20;
const DAY_MILLIS: i64 = 86_400_000;

/// Why a value is refused.
type Pulled<T> = Result<T, String>;

/// Takes values out of a script.
pub(super) struct Puller<'l> {
    lua: &'l Lua,
    bytes_left: usize,
}

impl<'l> Puller<'l> {
    pub(super) fn new(lua: &'l Lua) -> Puller<'l> {
        Puller { lua, bytes_left: BYTES_MAX }
    }

    /// The CQL value; nil is null.
    pub(super) fn pull(&mut self, ty: &Type, value: &Value) -> Pulled<Option<Vec<u8>>> {
        if value.is_nil() {
            return Ok(None);
        }
        let bytes = self.bytes(ty, value)?;
        // Each counts a little more than its bytes: empty ones cost too.
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes.len() + 8)
            .ok_or_else(|| format!("value is larger than {BYTES_MAX} bytes"))?;
        Ok(Some(bytes))
    }

    fn bytes(&mut self, ty: &Type, value: &Value) -> Pulled<Vec<u8>> {
        match ty {
            Type::TinyInt => self.integer(value).map(|n| (low_bits(&n) as i8).to_be_bytes().into()),
            Type::SmallInt => {
                self.integer(value).map(|n| (low_bits(&n) as i16).to_be_bytes().into())
            }
            Type::Int => self.integer(value).map(|n| (low_bits(&n) as i32).to_be_bytes().into()),
            Type::BigInt | Type::Counter => {
                self.integer(value).map(|n| low_bits(&n).to_be_bytes().into())
            }
            Type::Varint => self.integer(value).map(|n| value::encode_varint(&n)),
            Type::Decimal => self.decimal(value).map(|n| n.encode()),
            Type::Float => self.float(value).map(|n| (n as f32).to_be_bytes().into()),
            Type::Double => self.float(value).map(|n| n.to_be_bytes().into()),
            Type::Boolean => Ok(vec![u8::from(!matches!(value, Value::Boolean(false)))]),
            Type::Blob | Type::Custom(_) => self.string(value),
            Type::Ascii => match self.string(value)? {
                text if text.is_ascii() => Ok(text),
                _ => refuse("value is not valid ascii"),
            },
            Type::Text => utf8(self.string(value)?),
            Type::Uuid | Type::TimeUuid => self.parsed(ty, value),
            Type::Inet => self.inet(value),
            Type::Date => self.date(value).map(|date| date.to_be_bytes().into()),
            Type::Time => self.time(value).map(|nanos| nanos.to_be_bytes().into()),
            Type::Timestamp => self.timestamp(value).map(|millis| millis.to_be_bytes().into()),
            Type::Duration => self.duration(value),
            Type::Empty => Ok(Vec::new()),
            Type::List { element, .. } => self.list(element, value),
            Type::Set { element, .. } => self.set(element, value),
            Type::Map { key, value: inner, .. } => self.map(key, inner, value),
            Type::Tuple(types) => {
                let types: Vec<&Type> = types.iter().collect();
                let parts = self.sequence(&types, value)?;
                let mut out = Vec::new();
                value::write_tuple(parts.iter().map(|part| Some(&part[..])), &mut out);
                Ok(out)
            }
            Type::Vector { element, dimension } => {
                let types: Vec<&Type> = vec![element; *dimension as usize];
                let parts = self.sequence(&types, value)?;
                let mut out = Vec::new();
                value::write_vector(element, parts.iter().map(Vec::as_slice), &mut out);
                Ok(out)
            }
            Type::User(user) => self.user_type(user, value),
        }
    }

    fn integer(&self, value: &Value) -> Pulled<BigInt> {
        const REFUSED: &str = "value is not an integer";
        match value {
            Value::Integer(value) => Ok((*value).into()),
            Value::Number(value) => match Decimal::from_f64(*value) {
                Some(exact) if value.fract() == 0.0 => {
                    exact.to_integer().ok_or_else(|| REFUSED.to_owned())
                }
                _ => refuse(REFUSED),
            },
            Value::String(text) => {
                let digits = text.to_str().ok().filter(|text| !text.is_empty());
                if let Some(Ok(integer)) = digits.map(|text| value::varint::parse(&text)) {
                    return Ok(integer);
                }
                self.integer(&Value::Number(self.coerced(value)?))
            }
            Value::UserData(_) => {
                self.number(value)?.to_integer().ok_or_else(|| REFUSED.to_owned())
            }
            _ => refuse("unexpected value"),
        }
    }

    fn number(&self, value: &Value) -> Pulled<Number> {
        let Value::UserData(data) = value else { return refuse("unexpected value") };
        let number = data.borrow::<Number>().map_err(|_| "unexpected value".to_owned())?;
        Ok(number.clone())
    }

    /// A string as the number that Lua takes it for.
    fn coerced(&self, value: &Value) -> Pulled<f64> {
        let number = self.lua.coerce_number(value.clone()).ok().flatten();
        number.ok_or_else(|| "value is not a number".to_owned())
    }

    fn float(&self, value: &Value) -> Pulled<f64> {
        match value {
            Value::Integer(value) => Ok(*value as f64),
            Value::Number(value) => Ok(*value),
            Value::String(_) => self.coerced(value),
            Value::UserData(_) => Ok(self.number(value)?.to_f64()),
            _ => refuse("unexpected value"),
        }
    }

    fn decimal(&self, value: &Value) -> Pulled<Decimal> {
        const REFUSED: &str = "value is not a decimal";
        match value {
            Value::UserData(_) => match self.number(value)? {
                Number::Varint(value) => Ok(Decimal::from_integer(value)),
                Number::Decimal(value) => Ok(value),
            },
            Value::String(text) => {
                let text = text.to_str().map_err(|_| REFUSED.to_owned())?;
                Decimal::parse(&text).map_err(|_| REFUSED.to_owned())
            }
            Value::Integer(_) | Value::Number(_) => {
                let integer = self.integer(value).map_err(|_| REFUSED.to_owned())?;
                Ok(Decimal::from_integer(integer))
            }
            _ => refuse("unexpected value"),
        }
    }

    fn string(&self, value: &Value) -> Pulled<Vec<u8>> {
        match value {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            Value::Integer(_) | Value::Number(_) => {
                let text = self.lua.coerce_string(value.clone()).ok().flatten();
                text.map(|text| text.as_bytes().to_vec())
                    .ok_or_else(|| "unexpected value".to_owned())
            }
            Value::UserData(_) => Ok(self.number(value)?.print().into_bytes()),
            _ => refuse("unexpected value"),
        }
    }

    fn text(&self, value: &Value) -> Pulled<String> {
        let bytes = utf8(self.string(value)?)?;
        String::from_utf8(bytes).map_err(|_| "value is not valid utf8".to_owned())
    }

    /// Of a type that is a string in Lua.
    fn parsed(&self, ty: &Type, value: &Value) -> Pulled<Vec<u8>> {
        value::parse_scalar(ty, &self.text(value)?).map_err(marshaling)
    }

    fn inet(&self, value: &Value) -> Pulled<Vec<u8>> {
        let text = self.text(value)?;
        match value::inet::parse(&text) {
            Some(address) => Ok(value::inet::encode(address)),
            None => refuse(format!("marshaling error: Failed to parse inet_addr from '{text}'")),
        }
    }

    fn is_integral(value: &Value) -> bool {
        match value {
            Value::Number(number) => number.fract() == 0.0,
            Value::Integer(_) | Value::UserData(_) => true,
            _ => false,
        }
    }

    fn date(&self, value: &Value) -> Pulled<u32> {
        const RANGE: &str = "date value must fit in 32 bits";
        match value {
            Value::String(_) => parse_date(&self.text(value)?).map_err(marshaling),
            Value::Table(table) => {
                let Fields { day, time } = self.fields(table)?;
                if time != [None; 3] {
                    return refuse("date type has no hour, minute or second");
                }
                u32::try_from(epoch_days(day)? + (1 << 31)).map_err(|_| RANGE.to_owned())
            }
            _ if Self::is_integral(value) => {
                u32::try_from(self.integer(value)?).map_err(|_| RANGE.to_owned())
            }
            _ => refuse("date must be a string, integer or date table"),
        }
    }

    fn time(&self, value: &Value) -> Pulled<i64> {
        match value {
            Value::String(_) => parse_time(&self.text(value)?).map_err(marshaling),
            _ if Self::is_integral(value) => i64::try_from(self.integer(value)?)
                .map_err(|_| "time value must fit in signed 64 bits".to_owned()),
            _ => refuse("time must be a string or an integer"),
        }
    }

    fn timestamp(&self, value: &Value) -> Pulled<i64> {
        const RANGE: &str = "timestamp value must fit in signed 64 bits";
        match value {
            Value::String(_) => parse_timestamp(&self.text(value)?).map_err(marshaling),
            Value::Table(table) => {
                let Fields { day, time } = self.fields(table)?;
                let [hour, minute, second] = time.map(|part| part.unwrap_or(0));
                let secs = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
                let millis = epoch_days(day)?.checked_mul(DAY_MILLIS);
                let millis = millis.and_then(|millis| millis.checked_add(secs * 1000));
                millis.ok_or_else(|| RANGE.to_owned())
            }
            _ if Self::is_integral(value) => {
                i64::try_from(self.integer(value)?).map_err(|_| RANGE.to_owned())
            }
            _ => refuse("timestamp must be a string, integer or date table"),
        }
    }

    /// A table as Lua's own dates are.
    fn fields(&self, table: &Table) -> Pulled<Fields> {
        let (mut year, mut month, mut day) = (None, None, None);
        let mut time = [None; 3];
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            let name = self.text(&key)?;
            let number = self.integer(&value)?;
            let small = || number.clone().try_into().map_err(|_| too_large(&name, &number));
            match name.as_str() {
                "year" => {
                    let value: i32 =
                        number.clone().try_into().map_err(|_| too_large(&name, &number))?;
                    year = Some(value);
                }
                "month" => month = Some(small()?),
                "day" => day = Some(small()?),
                "hour" => time[0] = Some(small()?),
                "min" => time[1] = Some(small()?),
                "sec" => time[2] = Some(small()?),
                _ => return refuse(format!("invalid date table field: '{name}'")),
            }
        }
        let (Some(year), Some(month), Some(day)) = (year, month, day) else {
            return refuse("date table must have year, month and day");
        };
        Ok(Fields { day: Day { year: year.into(), month, day }, time })
    }

    fn duration(&self, value: &Value) -> Pulled<Vec<u8>> {
        let table = match value {
            Value::String(_) => return self.parsed(&Type::Duration, value),
            Value::Table(table) => table,
            _ => {
                return refuse(
                    "a duration must be of the form { months = v1, days = v2, nanoseconds = v3 }",
                );
            }
        };
        let (mut months, mut days, mut nanos) = (0, 0, 0);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            let name = self.text(&key)?;
            if !matches!(name.as_str(), "months" | "days" | "nanoseconds") {
                return refuse(format!("invalid duration field: '{name}'"));
            }
            let number = self.integer(&value)?;
            let fits = |bits: u32| format!("{number} {name} doesn't fit in a {bits} bit integer");
            match name.as_str() {
                "months" => months = number.clone().try_into().map_err(|_| fits(32))?,
                "days" => days = number.clone().try_into().map_err(|_| fits(32))?,
                _ => nanos = number.clone().try_into().map_err(|_| fits(64))?,
            }
        }
        let bytes = value::encode_duration(&value::Duration { months, days, nanos });
        value::validate(&Type::Duration, &bytes).map_err(marshaling)?;
        Ok(bytes)
    }

    fn list(&mut self, element: &Type, value: &Value) -> Pulled<Vec<u8>> {
        let mut parts = Vec::new();
        for pair in table(value)?.pairs::<Value, Value>() {
            let (key, inner) = pair.map_err(|error| error.to_string())?;
            let index = self.integer(&key)?;
            let Some(part) = self.pull(element, &inner)? else { continue };
            parts.push((index, part));
        }
        parts.sort_by(|(a, _), (b, _)| a.cmp(b));
        let in_order = parts.iter().zip(1i64..).all(|((index, _), wanted)| *index == wanted.into());
        if !in_order {
            return refuse("table is not a sequence");
        }
        let mut out = Vec::new();
        value::write_collection(parts.iter().map(|(_, part)| &part[..]), &mut out);
        Ok(out)
    }

    fn set(&mut self, element: &Type, value: &Value) -> Pulled<Vec<u8>> {
        let mut parts = Vec::new();
        for pair in table(value)?.pairs::<Value, Value>() {
            let (key, inner) = pair.map_err(|error| error.to_string())?;
            if !matches!(inner, Value::Boolean(true)) {
                return refuse("sets are represented with tables with true values");
            }
            parts.extend(self.pull(element, &key)?);
        }
        let mut plain: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        value::sort_set(element, &mut plain);
        let mut out = Vec::new();
        value::write_collection(plain.into_iter(), &mut out);
        Ok(out)
    }

    fn map(&mut self, key_type: &Type, value_type: &Type, value: &Value) -> Pulled<Vec<u8>> {
        let mut parts = Vec::new();
        for pair in table(value)?.pairs::<Value, Value>() {
            let (key, inner) = pair.map_err(|error| error.to_string())?;
            let pulled = (self.pull(key_type, &key)?, self.pull(value_type, &inner)?);
            if let (Some(key), Some(inner)) = pulled {
                parts.push((key, inner));
            }
        }
        let mut plain: Vec<(&[u8], &[u8])> =
            parts.iter().map(|(key, inner)| (&key[..], &inner[..])).collect();
        value::sort_map(key_type, &mut plain);
        let mut out = Vec::new();
        value::write_map(plain.into_iter(), &mut out);
        Ok(out)
    }

    /// One value of each of the types, at the keys from 1.
    fn sequence(&mut self, types: &[&Type], value: &Value) -> Pulled<Vec<Vec<u8>>> {
        let size = types.len();
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; size];
        for pair in table(value)?.pairs::<Value, Value>() {
            let (key, inner) = pair.map_err(|error| error.to_string())?;
            let key = self.integer(&key)?;
            let index = usize::try_from(key.clone()).ok().and_then(|key| key.checked_sub(1));
            let Some(index) = index.filter(|index| *index < size) else {
                return refuse(format!("key {key} is not valid for a sequence of size {size}"));
            };
            parts[index] = self.pull(types[index], &inner)?;
        }
        let missing = |key: usize| format!("key {key} missing in sequence of size {size}");
        let present = |(index, part): (usize, Option<Vec<u8>>)| part.ok_or(missing(index + 1));
        parts.into_iter().enumerate().map(present).collect()
    }

    fn user_type(&mut self, user: &UserTypeRef, value: &Value) -> Pulled<Vec<u8>> {
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; user.fields.len()];
        for pair in table(value)?.pairs::<Value, Value>() {
            let (key, inner) = pair.map_err(|error| error.to_string())?;
            let name = self.text(&key)?;
            let Some(index) = user.fields.iter().position(|(field, _)| *field == name) else {
                return refuse(format!("invalid UDT field '{name}'"));
            };
            parts[index] = self.pull(&user.fields[index].1, &inner)?;
        }
        if let Some(index) = parts.iter().position(Option::is_none) {
            let field = &user.fields[index].0;
            return refuse(format!("key {field} missing in udt {}", user.name));
        }
        let mut out = Vec::new();
        value::write_tuple(parts.iter().map(Option::as_deref), &mut out);
        Ok(out)
    }
}

/// What a date table says.
struct Fields {
    day: Day,
    /// Hour, minute and second.
    time: [Option<u8>; 3],
}

fn refuse<T>(text: impl Into<String>) -> Pulled<T> {
    Err(text.into())
}

fn marshaling(invalid: value::Invalid) -> String {
    format!("marshaling error: {invalid}")
}

fn too_large(name: &str, number: &BigInt) -> String {
    format!("{name} is too large: '{number}'")
}

fn table(value: &Value) -> Pulled<&Table> {
    value.as_table().ok_or_else(|| "value is not a table".to_owned())
}

fn epoch_days(day: Day) -> Pulled<i64> {
    day.to_epoch_days().ok_or_else(|| {
        let Day { year, month, day } = day;
        format!("there is no day {year}-{month}-{day}")
    })
}

fn utf8(bytes: Vec<u8>) -> Pulled<Vec<u8>> {
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => refuse(format!(
            "value is not valid utf8, invalid character at byte offset {}",
            error.valid_up_to()
        )),
    }
}

/// The low 64 bits in two's complement.
fn low_bits(number: &BigInt) -> i64 {
    let bytes = number.to_signed_bytes_le();
    let fill = if number.sign() == num_bigint::Sign::Minus { 0xff } else { 0 };
    let mut low = [fill; 8];
    low.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
    i64::from_le_bytes(low)
}
