//! What a script can reach: pure functions, and nothing that outlasts its call.
//!
//! Each call has globals of its own, behind which stand the libraries, read-only. Left out is
//! what does input or output, compiles (`load`), looks behind things (`debug`, `rawset`), has
//! state (`math.randomseed`), or escapes the meter: coroutines, which have no hook of their own,
//! and finalizers, in which hooks are off. `pcall` and `xpcall` do not catch the end of time.

use mlua::{Lua, LuaOptions, Result, StdLib, Table, Value};

/// Makes the functions of a sandbox of those of a new state. `expired` tells whether the call has
/// had its time.
const SETUP: &str = r#"
local expired = ...
local error, getmetatable, rawget, setmetatable = error, getmetatable, rawget, setmetatable
local pcall, xpcall, type = pcall, xpcall, type

local function locked() error("attempt to change a library", 2) end
local function library(from, left_out)
    local functions = {}
    for name, value in pairs(from) do
        if not left_out[name] then functions[name] = value end
    end
    return setmetatable({}, { __index = functions, __newindex = locked, __metatable = false })
end
local function after(...)
    if expired() then error("timeout", 0) end
    return ...
end

local base = {
    assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
    pairs = pairs, rawequal = rawequal, rawget = rawget, rawlen = rawlen, select = select,
    tonumber = tonumber, tostring = tostring, type = type, _VERSION = _VERSION,
    pcall = function(...) return after(pcall(...)) end,
    xpcall = function(...) return after(xpcall(...)) end,
    setmetatable = function(of, metatable)
        if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
            error("finalizers are not supported", 2)
        end
        return setmetatable(of, metatable)
    end,
    math = library(math, { randomseed = true }),
    string = library(string, { dump = true }),
    table = library(table, {}),
    utf8 = library(utf8, {}),
}
local of_strings = getmetatable("")
of_strings.__index = base.string
of_strings.__metatable = false
local behind = { __index = base, __metatable = false }
return function() return setmetatable({}, behind) end
"#;

/// A state in which nothing was run yet.
pub struct Sandbox {
    /// The state, without globals.
    pub lua: Lua,
    globals: mlua::Function,
}

impl Sandbox {
    /// `expired` is asked whenever a script has caught an error.
    pub fn new(expired: impl Fn() -> bool + 'static) -> Result<Sandbox> {
        let libraries = StdLib::MATH | StdLib::STRING | StdLib::TABLE | StdLib::UTF8;
        // With that option `pcall` is Lua's own, which can be interrupted.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let expired = lua.create_function(move |_, ()| Ok(expired()))?;
        let globals = lua.load(SETUP).set_name("=sandbox").call(expired)?;
        lua.set_globals(lua.create_table()?)?;
        Ok(Sandbox { lua, globals })
    }

    /// Globals for one call.
    pub fn globals(&self) -> Result<Table> {
        match self.globals.call(())? {
            Value::Table(table) => Ok(table),
            _ => Err(mlua::Error::runtime("the sandbox gives no globals")),
        }
    }
}
