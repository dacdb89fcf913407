//! JSON text to a tree that keeps numbers as they were written, of any size and precision, and the
//! members of objects in their order.
//!
//! Nesting is bounded by [`NESTING_MAX`]; each byte of the text is looked at once.

use std::fmt;

/// How deep lists and objects may be nested.
const NESTING_MAX: usize = 128;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Boolean(bool),
    /// As it was written.
    Number(String),
    String(String),
    List(Vec<Json>),
    /// Names may come more than once.
    Object(Vec<(String, Json)>),
}

impl fmt::Display for Json {
    /// As JSON, but for a string that stands alone: without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |json: &Json| match json {
            Json::String(text) => crate::value::quote_json(text),
            other => other.to_string(),
        };
        match self {
            Json::Null => f.write_str("null"),
            Json::Boolean(flag) => write!(f, "{flag}"),
            Json::Number(text) | Json::String(text) => f.write_str(text),
            Json::List(items) => {
                write!(f, "[{}]", items.iter().map(inner).collect::<Vec<_>>().join(", "))
            }
            Json::Object(members) => {
                let member = |(name, json): &(String, Json)| {
                    format!("{}: {}", crate::value::quote_json(name), inner(json))
                };
                write!(f, "{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Parses a whole text; an error says what is wrong and where.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut parser = Parser { text, at: 0 };
    let json = parser.value(NESTING_MAX)?;
    parser.spaces();
    match parser.at == text.len() {
        true => Ok(json),
        false => Err(parser.error("text after the value")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Byte offset.
    at: usize,
}

type Result<T, E = String> = std::result::Result<T, E>;

impl Parser<'_> {
    fn error(&self, what: &str) -> String {
        let before = &self.text.as_bytes()[..self.at];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        format!("{what} at line {line} column {column}")
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn spaces(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth_left: usize) -> Result<Json> {
        self.spaces();
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(self.error("nested too deeply"));
        };
        match self.peek() {
            Some(b'{') => self.object(depth_left),
            Some(b'[') => self.list(depth_left),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let json = match &rest[..end] {
            "null" => Json::Null,
            "true" => Json::Boolean(true),
            "false" => Json::Boolean(false),
            _ => return Err(self.error("expected a value")),
        };
        self.at += end;
        Ok(json)
    }

    fn list(&mut self, depth_left: usize) -> Result<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.spaces();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth_left)?);
            self.spaces();
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            if !self.take(b',') {
                return Err(self.error("expected ',' or ']'"));
            }
        }
    }

    fn object(&mut self, depth_left: usize) -> Result<Json> {
        self.at += 1;
        let mut members = Vec::new();
        self.spaces();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.spaces();
            if self.peek() != Some(b'"') {
                return Err(self.error("key must be a string"));
            }
            let name = self.string()?;
            self.spaces();
            if !self.take(b':') {
                return Err(self.error("expected ':'"));
            }
            members.push((name, self.value(depth_left)?));
            self.spaces();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("expected ',' or '}'"));
            }
        }
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if start == self.at { Err(self.error("expected a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        } else if let Some(b'0'..=b'9') = self.peek() {
            return Err(self.error("a number begins with 0"));
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    /// A string; the quote is here.
    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(|c| matches!(c, '"' | '\\' | '\0'..='\u{1f}')) else {
                self.at = self.text.len();
                return Err(self.error("a string without its end"));
            };
            out.push_str(&rest[..end]);
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.error("a control character in a string")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        let escaped = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.error("unknown escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// Four hexadecimal digits, or two times four of a surrogate pair.
    fn unicode(&mut self) -> Result<char> {
        let first = self.code_unit()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !(self.take(b'\\') && self.take(b'u')) {
                    return Err(self.error("half of a surrogate pair"));
                }
                match self.code_unit()? {
                    second @ 0xdc00..=0xdfff => {
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    _ => return Err(self.error("half of a surrogate pair")),
                }
            }
            single => single,
        };
        char::from_u32(code).ok_or_else(|| self.error("half of a surrogate pair"))
    }

    fn code_unit(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let digits = str::from_utf8(digits).ok().filter(|digits| {
            digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.error("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Json {
        Json::Number(text.into())
    }

    #[test]
    fn values() {
        let check = |text: &str, expected: Json| assert_eq!(parse(text), Ok(expected), "{text}");
        check(" null ", Json::Null);
        check("true", Json::Boolean(true));
        check("false", Json::Boolean(false));
        for text in ["0", "-0", "12", "1.50", "1e6", "115292150460684697.5e1", "1E-400"] {
            check(text, number(text));
        }
        check(
            r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#,
            Json::String("a\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{1f600}".into()),
        );
        check("[]", Json::List(vec![]));
        check("[1, [2]]", Json::List(vec![number("1"), Json::List(vec![number("2")])]));
        check("{}", Json::Object(vec![]));
        let members = vec![("b".into(), number("1")), ("a".into(), Json::Null)];
        check("{\"b\": 1,\n \"a\": null}", Json::Object(members));
    }

    #[test]
    fn refusals() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        };
        check("", "expected a value at line 1 column 1");
        check("dog", "expected a value at line 1 column 1");
        check("{17: 3}", "key must be a string at line 1 column 2");
        check("[1\n 2]", "expected ',' or ']' at line 2 column 2");
        check("1 2", "text after the value at line 1 column 3");
        for text in [
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\n\"",
            "nul",
            "NaN",
            "[",
            "{",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(parse(&deep).unwrap_err().starts_with("nested too deeply"));
        assert!(parse(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[\\[\\]{}\",:0-9a-u\\\\.\\-]{0,30}") {
            let _ = parse(&text);
        }

        #[test]
        fn strings_come_back(text in "\\PC{0,20}") {
            let quoted = crate::value::quote_json(&text);
            prop_assert_eq!(parse(&quoted), Ok(Json::String(text)));
        }
    }
}
