//! JSON as the API sends it: read where it stands, without a tree.
//!
//! [`Json::parse`] walks a text once and checks all of it; then its parts are slices of the text,
//! which are taken apart as they are asked for: by a [`Cursor`], if all of them are wanted, so that
//! no byte is looked at again; else by [`Json::members`] and [`Json::elements`], which go past each
//! value that they give.
//!
//! Invariants
//!  - *checked-first*: a [`Json`] is well-formed, so that what takes it apart cannot fail.
//!  - *bounded-depth*: no text is nested deeper than [`DEPTH_MAX`], so that no walk runs out of
//!    stack.

mod check;

use crate::error::Error;
use check::{Walk, plain_until};
use std::borrow::Cow;

/// Objects and arrays within each other. An item may be nested 32 levels, each of which takes two;
/// what is around it, a few more.
pub const DEPTH_MAX: usize = 100;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "a list",
            Kind::Object => "an object",
        }
    }
}

/// A value: a slice of the text, without space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// Checks a whole text. (*checked-first*)
    pub fn parse(text: &'a str) -> Result<Json<'a>, Error> {
        Json::parse_with(text, |_, _| ())
    }

    /// The same of bytes that may be no text.
    pub fn parse_bytes(bytes: &'a [u8]) -> Result<Json<'a>, Error> {
        Json::parse(text(bytes)?)
    }

    /// As [`Json::parse`]; if it is an object, `member` is called with the name and the value of
    /// each member, for which nothing is looked at again. If the text is refused what it was told
    /// is of no use.
    pub fn parse_with(
        text: &'a str,
        mut member: impl FnMut(Cow<'a, str>, Json<'a>),
    ) -> Result<Json<'a>, Error> {
        let whole = Walk::whole(text.as_bytes(), |name, value| {
            member(Json(&text[name]).string().unwrap_or_default(), Json(&text[value]));
        })?;
        Ok(Json(&text[whole]))
    }

    /// The slice.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        self.cursor().kind()
    }

    /// To take it apart from its beginning on.
    pub fn cursor(self) -> Cursor<'a> {
        Cursor(self.0)
    }

    /// Its text, if it is a string. Without escapes it is not copied.
    pub fn string(self) -> Option<Cow<'a, str>> {
        self.cursor().string()
    }

    /// If it is `true` or `false`.
    pub fn bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// If it is a whole number that fits.
    pub fn integer(self) -> Option<i64> {
        self.0.parse().ok().filter(|_| self.kind() == Kind::Number)
    }

    /// Appends it without spaces, and the members of objects in order of their names: what differs
    /// in these alone is the same text then.
    pub fn write_ordered(self, out: &mut String) {
        match self.kind() {
            Kind::Object => {
                let mut members: Vec<_> = self.members().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                let mut object = Object::open(out);
                members.iter().for_each(|(name, json)| json.write_ordered(object.member(name)));
                object.close();
            }
            Kind::Array => write_list(self.elements(), out, |json, out| json.write_ordered(out)),
            Kind::String => write_string(&self.string().unwrap_or_default(), out),
            Kind::Null | Kind::Bool | Kind::Number => out.push_str(self.0),
        }
    }

    /// Names and values of an object; of anything else nothing.
    pub fn members(self) -> Members<'a> {
        Members(self.inside(Kind::Object))
    }

    /// The first member of that name, of an object.
    pub fn member(self, name: &str) -> Option<Json<'a>> {
        self.members().find(|(known, _)| known == name).map(|(_, json)| json)
    }

    /// Parts of a list; of anything else nothing.
    pub fn elements(self) -> Elements<'a> {
        Elements(self.inside(Kind::Array))
    }

    fn inside(self, kind: Kind) -> Cursor<'a> {
        let mut cursor = self.cursor();
        match cursor.kind() == kind {
            true => cursor.open(),
            false => cursor.0 = "",
        }
        cursor
    }
}

/// Bytes that are to be JSON, as text.
pub fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Error::serialization(format!("the request is not UTF-8 at byte {at}"))
    })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Most programs write none.
#[inline]
fn after_space(text: &str) -> &str {
    match text.as_bytes().first() {
        Some(b' ' | b'\t' | b'\n' | b'\r') => text.trim_start_matches(is_space),
        _ => text,
    }
}

/// What is left of a checked text that is taken apart from its beginning on: at a value, or inside
/// of an object or a list that was opened.
#[derive(Clone, Debug)]
pub struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    /// What the value here is.
    pub fn kind(&self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Takes the value here.
    pub fn value(&mut self) -> Json<'a> {
        let (value, rest) = self.0.split_at(length(self.0.as_bytes()));
        self.0 = rest;
        Json(value)
    }

    /// Takes the value here if it is a string: its text, which without escapes is not copied.
    pub fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        let bytes = self.0.as_bytes();
        let end = plain_until(bytes, 1);
        if bytes.get(end) == Some(&b'"') {
            let text = &self.0[1..end];
            self.0 = &self.0[end + 1..];
            return Some(Cow::Borrowed(text));
        }
        let Json(whole) = self.value();
        Some(Cow::Owned(unescape(&whole[1..whole.len() - 1])))
    }

    /// Enters the object or the list here.
    pub fn open(&mut self) {
        debug_assert!(matches!(self.kind(), Kind::Object | Kind::Array), "checked-first: no list");
        self.0 = &self.0[1..];
    }

    /// Inside of an object: takes the name of the next member, whose value is to be taken next;
    /// `None`: the object has ended.
    pub fn member(&mut self) -> Option<Cow<'a, str>> {
        if !self.element() {
            return None;
        }
        let name = self.string();
        let rest = after_space(self.0);
        self.0 = after_space(rest.strip_prefix(':').unwrap_or(rest));
        name
    }

    /// Inside of a list: whether another element is to be taken next, or the list has ended.
    #[inline]
    pub fn element(&mut self) -> bool {
        let rest = after_space(self.0);
        let (is_there, rest) = match rest.as_bytes().first() {
            Some(b'}' | b']') => (false, &rest[1..]),
            Some(b',') => (true, after_space(&rest[1..])),
            first => (first.is_some(), rest),
        };
        self.0 = rest;
        is_there
    }

    /// What was taken since it was as `before`.
    pub fn since(&self, before: &Cursor<'a>) -> Json<'a> {
        let bytes = before.0.len() - self.0.len();
        Json(&before.0[..bytes])
    }
}

/// Iterator of [`Json::members`].
#[derive(Clone, Debug)]
pub struct Members<'a>(Cursor<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.member()?;
        Some((name, self.0.value()))
    }
}

/// Iterator of [`Json::elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        self.0.element().then(|| self.0.value())
    }
}

/// How long the value is that a checked text begins with.
fn length(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_length(text),
        Some(b'{' | b'[') => {
            let (mut at, mut depth) = (0, 0);
            while at < text.len() {
                match text[at] {
                    b'"' => {
                        at += string_length(&text[at..]);
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
            at
        }
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' '..=b' ' | 9..=13);
            text.iter().position(ends).unwrap_or(text.len())
        }
    }
}

fn string_length(text: &[u8]) -> usize {
    let mut at = plain_until(text, 1);
    while at < text.len() {
        at = match text[at] {
            b'"' => return at + 1,
            b'\\' => plain_until(text, at + 2),
            _ => plain_until(text, at + 1),
        }
    }
    text.len()
}

/// The text of a checked string. Halves of surrogate pairs, which no text has, become `U+FFFD`.
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or("");
        match code {
            b'n' => out.push('\n'),
            b't' => out.push('\t'),
            b'r' => out.push('\r'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'u' => {
                let unit = take_unit(&mut rest);
                out.push(character(unit, &mut rest));
            }
            other => out.push(other as char),
        }
    }
    out.push_str(rest);
    out
}

fn take_unit(rest: &mut &str) -> u32 {
    let (digits, tail) = rest.split_at(4.min(rest.len()));
    *rest = tail;
    u32::from_str_radix(digits, 16).unwrap_or(0xfffd)
}

/// The character that a unit of UTF-16 begins.
fn character(unit: u32, rest: &mut &str) -> char {
    if (0xd800..0xdc00).contains(&unit)
        && let Some(mut tail) = rest.strip_prefix("\\u")
    {
        let low = take_unit(&mut tail);
        if (0xdc00..0xe000).contains(&low) {
            *rest = tail;
            let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return char::from_u32(code).unwrap_or('\u{fffd}');
        }
    }
    char::from_u32(unit).unwrap_or('\u{fffd}')
}

/// Appends a string with its quotes.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(plain_until(rest.as_bytes(), 0));
        out.push_str(plain);
        let Some(byte) = tail.bytes().next() else { break };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => out.push_str(&format!("\\u{other:04x}")),
        }
        rest = &tail[1..];
    }
    out.push('"');
}

/// An object on its way to a client.
pub struct Object<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> Object<'o> {
    /// Opens one at the end of `out`.
    pub fn open(out: &'o mut String) -> Object<'o> {
        out.push('{');
        Object { out, is_empty: true }
    }

    /// The next member: what is appended to the text is its value.
    pub fn member(&mut self, name: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        write_string(name, self.out);
        self.out.push(':');
        self.out
    }

    /// A member that is a string.
    pub fn string(&mut self, name: &str, value: &str) -> &mut Self {
        write_string(value, self.member(name));
        self
    }

    /// A member that is JSON.
    pub fn json(&mut self, name: &str, value: &str) -> &mut Self {
        self.member(name).push_str(value);
        self
    }

    /// Closes it.
    pub fn close(self) {
        self.out.push('}');
    }
}

/// Appends a list of what `write` appends for each.
pub fn write_list<T>(
    all: impl IntoIterator<Item = T>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    out.push('[');
    for (at, one) in all.into_iter().enumerate() {
        if 0 < at {
            out.push(',');
        }
        write(one, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_found_where_they_stand() {
        let json = Json::parse(
            " {\"a\" : [1, {\"b\":\"]}\"} ,true ], \"c\\n\":\"\\u00e4\\ud83d\\ude00\"} ",
        );
        let members: Vec<_> = json.unwrap().members().collect();
        assert_eq!(members[0].0, "a");
        let parts: Vec<&str> = members[0].1.elements().map(Json::text).collect();
        assert_eq!(parts, ["1", "{\"b\":\"]}\"}", "true"]);
        assert_eq!(members[1].0, "c\n");
        assert_eq!(members[1].1.string().unwrap(), "\u{e4}\u{1f600}");
        assert_eq!(Json::parse("-12").unwrap().integer(), Some(-12));
        assert_eq!(Json::parse("\"12\"").unwrap().integer(), None);
        assert_eq!(Json::parse("{}").unwrap().members().count(), 0);
        assert_eq!(Json::parse("\"\\ud800x\"").unwrap().string().unwrap(), "\u{fffd}x");
    }

    #[test]
    fn members_have_no_order() {
        let ordered = |text: &str| {
            let mut out = String::new();
            Json::parse(text).unwrap().write_ordered(&mut out);
            out
        };
        let text = r#"{"b":[{"y":"\u00fc","x":1.50},null],"a":true}"#;
        assert_eq!(ordered(text), "{\"a\":true,\"b\":[{\"x\":1.50,\"y\":\"\u{fc}\"},null]}");
        assert_eq!(ordered(&ordered(text)), ordered(text));
        assert_ne!(ordered("[1,2]"), ordered("[2,1]"));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            "{",
            "}",
            "{}}",
            "{\"\"}",
            "{7}",
            "[1,]",
            "{\"a\":1,}",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "01",
            "1.",
            "-",
            "1e",
            "tru",
            "nul",
            "{\"a\":}",
            "\u{1}",
            "\"\u{1}\"",
            "habababa",
            ",",
            "\"a\": \"b\"",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(Json::parse_bytes(b"\"\xff\"").is_err());
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(&deep(DEPTH_MAX)).is_ok());
        assert!(Json::parse(&deep(DEPTH_MAX + 1)).is_err());
        assert!(Json::parse(&"{\"\":".repeat(200_000)).is_err());
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|value| value.to_string()),
            any::<i64>().prop_map(|value| value.to_string()),
            ".*".prop_map(|text| {
                let mut out = String::new();
                write_string(&text, &mut out);
                out
            }),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..6);
            let object = prop::collection::vec((".{0,3}", inner), 0..6);
            prop_oneof![
                list.prop_map(|parts| format!("[ {} ]", parts.join(" , "))),
                object.prop_map(|members| {
                    let mut out = String::new();
                    let mut object = Object::open(&mut out);
                    for (name, value) in members {
                        object.json(&name, &value);
                    }
                    object.close();
                    out
                }),
            ]
        })
    }

    fn rewritten(json: Json<'_>, out: &mut String) {
        match json.kind() {
            Kind::Object => {
                let mut object = Object::open(out);
                for (name, value) in json.members() {
                    rewritten(value, object.member(&name));
                }
                object.close();
            }
            Kind::Array => write_list(json.elements(), out, rewritten),
            Kind::String => write_string(&json.string().unwrap(), out),
            _ => out.push_str(json.text()),
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_apart_is_what_was_written(text in json()) {
            let mut again = String::new();
            rewritten(Json::parse(&text).unwrap(), &mut again);
            let mut twice = String::new();
            rewritten(Json::parse(&again).unwrap(), &mut twice);
            prop_assert_eq!(&again, &twice);
            let spaceless = |text: &str| text.replace([' ', '\n', '\t', '\r'], "");
            prop_assert_eq!(spaceless(&again), spaceless(&text));
        }

        #[test]
        fn damaged_texts_do_not_panic(text in json(), at: usize, byte: u8) {
            let mut bytes = text.into_bytes();
            if !bytes.is_empty() {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(json) = Json::parse_bytes(&bytes) {
                rewritten(json, &mut String::new());
            }
        }
    }
}
