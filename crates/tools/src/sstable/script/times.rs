//! Points in time, in seconds: tables of year, month, day, hour, min and sec in UTC, which compare,
//! print, and which `os.time` takes.

use super::super::values;
use super::Shared;
use mlua::{Error, Lua, MetaMethod, Result, Table};
use model::value::temporal::{self, Day};

const DAY_SECONDS: i64 = 86_400;

/// What makes a table a point in time.
pub(super) fn metatable(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let print = lua.create_function(|_, time: Table| Ok(values::time(seconds(&time)?)))?;
    table.raw_set(MetaMethod::ToString.name(), print)?;
    let compare = |decide: fn(i64, i64) -> bool| {
        lua.create_function(move |_, (a, b): (Table, Table)| Ok(decide(seconds(&a)?, seconds(&b)?)))
    };
    table.raw_set(MetaMethod::Eq.name(), compare(|a, b| a == b)?)?;
    table.raw_set(MetaMethod::Lt.name(), compare(|a, b| a < b)?)?;
    table.raw_set(MetaMethod::Le.name(), compare(|a, b| a <= b)?)?;
    Ok(table)
}

/// A point in time, so many seconds after 1970.
pub(super) fn time(lua: &Lua, seconds: i64) -> Result<Table> {
    let Day { year, month, day } = Day::from_epoch_days(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS);
    let table = lua.create_table_from([
        ("year", year),
        ("month", month.into()),
        ("day", day.into()),
        ("hour", second / 3600),
        ("min", second / 60 % 60),
        ("sec", second % 60),
    ])?;
    table.set_metatable(Some(Shared::of(lua)?.times))?;
    Ok(table)
}

/// Its seconds after 1970.
fn seconds(time: &Table) -> Result<i64> {
    let part = |name: &str| time.raw_get::<i64>(name);
    let wrong = || Error::runtime("no point in time");
    let small = |name: &str| u8::try_from(part(name)?).map_err(|_| wrong());
    let day = Day { year: part("year")?, month: small("month")?, day: small("day")? };
    let days = day.to_epoch_days().ok_or_else(wrong)?;
    let (hour, min, sec) = (small("hour")?, small("min")?, small("sec")?);
    Ok(days * DAY_SECONDS + 3600 * i64::from(hour) + 60 * i64::from(min) + i64::from(sec))
}

/// `now`, `time_point_from_string`.
pub(super) fn add_functions(lua: &Lua, table: &Table) -> Result<()> {
    let now = |lua: &Lua, ()| time(lua, runtime::time::wall_micros().div_euclid(1_000_000));
    table.raw_set("now", lua.create_function(now)?)?;
    let parse = |lua: &Lua, text: String| match temporal::parse_timestamp(&text) {
        Ok(millis) => time(lua, millis.div_euclid(1000)),
        Err(invalid) => Err(Error::runtime(invalid.0)),
    };
    table.raw_set("time_point_from_string", lua.create_function(parse)?)
}
