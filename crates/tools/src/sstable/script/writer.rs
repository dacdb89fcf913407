//! JSON that a program in Lua writes: values one by one, or whole fragments as `dump-data` has
//! them.
//!
//! Invariants
//!  - *well-formed*: what would not be JSON (a value without a key, an end of what was not begun)
//!    is an error of the program.

use super::super::as_json;
use super::Shared;
use super::fragments::{Change, PartitionStart, Row};
use mlua::{
    Error, FromLuaMulti, Lua, LuaString, Result, Table, UserData, UserDataMethods, UserDataRef,
};
use model::value::quote_json;

/// An object or a list that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    is_object: bool,
    items: u64,
}

/// Where in the text it is.
#[derive(Default)]
pub(super) struct Writer {
    levels: Vec<Level>,
    has_key: bool,
    /// Whether the partition has its list of rows.
    has_elements: bool,
}

impl Writer {
    fn value(&mut self, out: &mut Vec<u8>, text: &str) -> Result<()> {
        match self.levels.last_mut() {
            Some(level) if level.is_object && !self.has_key => {
                return Err(Error::runtime("a value of an object without a key"));
            }
            Some(level) if !level.is_object => {
                if level.items != 0 {
                    out.push(b',');
                }
                level.items += 1;
            }
            _ => {}
        }
        self.has_key = false;
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A whole value; a line of its own where it stands alone.
    fn whole(&mut self, out: &mut Vec<u8>, text: &str) -> Result<()> {
        self.value(out, text)?;
        if self.levels.is_empty() {
            out.push(b'\n');
        }
        Ok(())
    }

    fn key(&mut self, out: &mut Vec<u8>, key: &str) -> Result<()> {
        match self.levels.last_mut() {
            Some(level) if level.is_object && !self.has_key => {
                if level.items != 0 {
                    out.push(b',');
                }
                level.items += 1;
            }
            _ => return Err(Error::runtime("a key where none can stand")),
        }
        self.has_key = true;
        out.extend_from_slice(quote_json(key).as_bytes());
        out.push(b':');
        Ok(())
    }

    fn start(&mut self, out: &mut Vec<u8>, is_object: bool) -> Result<()> {
        self.value(out, if is_object { "{" } else { "[" })?;
        self.levels.push(Level { is_object, items: 0 });
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>, is_object: bool) -> Result<()> {
        match self.levels.pop() {
            Some(level) if level.is_object == is_object && !self.has_key => {}
            _ => return Err(Error::runtime("an end of what was not begun")),
        }
        out.push(if is_object { b'}' } else { b']' });
        if self.levels.is_empty() {
            out.push(b'\n');
        }
        Ok(())
    }

    fn partition(&mut self, shared: &Shared, out: &mut Vec<u8>, of: &PartitionStart) -> Result<()> {
        self.has_elements = false;
        self.start(out, true)?;
        self.key(out, "key")?;
        self.value(out, &as_json::decorated_key(&shared.schema, &of.key).to_string())?;
        if !of.tombstone.is_none() {
            self.key(out, "tombstone")?;
            self.value(out, &as_json::tombstone_json(of.tombstone).to_string())?;
        }
        Ok(())
    }

    fn element(&mut self, out: &mut Vec<u8>, element: &serde_json::Value) -> Result<()> {
        if !std::mem::replace(&mut self.has_elements, true) {
            self.key(out, "clustering_elements")?;
            self.start(out, false)?;
        }
        self.value(out, &element.to_string())
    }

    fn end_partition(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if std::mem::take(&mut self.has_elements) {
            self.end(out, false)?;
        }
        self.end(out, true)
    }
}

/// A method that writes to what the program prints.
fn add<M: UserDataMethods<Writer>, A: FromLuaMulti + 'static>(
    methods: &mut M,
    name: &str,
    write: fn(&mut Writer, &Shared, &mut Vec<u8>, A) -> Result<()>,
) {
    methods.add_method_mut(name, move |lua: &Lua, this: &mut Writer, arguments: A| {
        let shared = Shared::of(lua)?;
        let mut out = shared.out.borrow_mut();
        write(this, &shared, &mut out, arguments)
    });
}

impl UserData for Writer {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        add(methods, "null", |it, _, out, ()| it.whole(out, "null"));
        add(methods, "bool", |it, _, out, value: bool| it.whole(out, &value.to_string()));
        add(methods, "int", |it, _, out, value: i64| it.whole(out, &value.to_string()));
        add(methods, "double", |it, _, out, value: f64| {
            // What JSON has no number for is null.
            it.whole(out, &serde_json::Value::from(value).to_string())
        });
        add(methods, "string", |it, _, out, value: LuaString| {
            it.whole(out, &quote_json(&value.to_string_lossy()))
        });
        add(methods, "key", |it, _, out, key: LuaString| it.key(out, &key.to_string_lossy()));
        add(methods, "start_object", |it, _, out, ()| it.start(out, true));
        add(methods, "end_object", |it, _, out, ()| it.end(out, true));
        add(methods, "start_array", |it, _, out, ()| it.start(out, false));
        add(methods, "end_array", |it, _, out, ()| it.end(out, false));
        add(methods, "start_stream", |it, _, out, ()| {
            it.start(out, true)?;
            it.key(out, "sstables")?;
            it.start(out, true)
        });
        add(methods, "start_sstable", |it, _, out, sstable: Option<Table>| {
            let name = sstable.map(|it| it.get::<String>("filename")).transpose()?;
            it.key(out, name.as_deref().unwrap_or("anonymous"))?;
            it.start(out, false)
        });
        add(methods, "start_partition", |it, shared, out, start: UserDataRef<PartitionStart>| {
            it.partition(shared, out, &start)
        });
        add(methods, "static_row", |it, shared, out, row: UserDataRef<Row>| {
            it.key(out, "static_row")?;
            it.value(out, &as_json::columns_json(&shared.schema, row.view()).to_string())
        });
        add(methods, "clustering_row", |it, shared, out, row: UserDataRef<Row>| {
            let key = row.key.as_deref().unwrap_or_default();
            it.element(out, &as_json::row_json(&shared.schema, key, row.view()))
        });
        add(methods, "range_tombstone_change", |it, shared, out, of: UserDataRef<Change>| {
            it.element(out, &as_json::change_json(&shared.schema, &of.position, of.tombstone))
        });
        add(methods, "end_partition", |it, _, out, ()| it.end_partition(out));
        add(methods, "end_sstable", |it, _, out, ()| it.end(out, false));
        add(methods, "end_stream", |it, _, out, ()| {
            it.end(out, true)?;
            it.end(out, true)
        });
    }
}
