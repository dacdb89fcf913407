//! From a statement to its words.

use super::refused;
use crate::error::Error;

/// A word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name or a keyword.
    Word(&'t str),
    /// `"a name"`
    Quoted(String),
    /// `'a text'`
    Text(String),
    Number(&'t str),
    Symbol(&'static str),
    End,
}

impl Token<'_> {
    /// As messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Word(text) | Token::Number(text) => (*text).to_owned(),
            Token::Symbol(text) => (*text).to_owned(),
            Token::Quoted(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            Token::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 23] = [
    "<<", ">>", "<>", "<=", ">=", "!=", "=", "<", ">", "(", ")", "[", "]", "{", "}", ",", ".", ":",
    "+", "-", "*", "?", ";",
];

/// The words of a statement with the bytes where they begin, then [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, Error> {
    let mut found = Vec::with_capacity(16);
    let mut at = space(text, 0)?;
    while at < text.len() {
        let (token, length) = first(text, at)?;
        found.push((token, at));
        at = space(text, at + length)?;
    }
    found.push((Token::End, text.len()));
    Ok(found)
}

/// Where the next word begins: after space and comments.
fn space(text: &str, mut at: usize) -> Result<usize, Error> {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        if 0 < blank {
            at += blank;
        } else if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| refused(text, at, "a comment has no end"))?;
            at += end + 2;
        } else {
            return Ok(at);
        }
    }
}

fn first(text: &str, at: usize) -> Result<(Token<'_>, usize), Error> {
    let rest = &text[at..];
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let word = || rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    match rest.chars().next().unwrap_or(' ') {
        '\'' => {
            let (inner, length) = quoted(text, at, '\'')?;
            Ok((Token::Text(inner), length))
        }
        '"' => {
            let (inner, length) = quoted(text, at, '"')?;
            Ok((Token::Quoted(inner), length))
        }
        c if c.is_ascii_digit() => {
            let length = number(rest);
            match rest[length..].starts_with(is_part) {
                true => Err(refused(text, at, "a number ends in letters")),
                false => Ok((Token::Number(&rest[..length]), length)),
            }
        }
        '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            let length = number(rest);
            Ok((Token::Number(&rest[..length]), length))
        }
        c if c.is_alphabetic() || c == '_' => Ok((Token::Word(&rest[..word()]), word())),
        c => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
            None => Err(refused(text, at, &format!("{c:?} begins no word"))),
        },
    }
}

/// What stands between two signs, which are doubled within it; and how long it is with them.
fn quoted(text: &str, at: usize, sign: char) -> Result<(String, usize), Error> {
    let mut inner = String::new();
    let mut chars = text[at + 1..].char_indices().peekable();
    while let Some((place, c)) = chars.next() {
        if c != sign {
            inner.push(c);
        } else if chars.next_if(|(_, next)| *next == sign).is_some() {
            inner.push(sign);
        } else {
            return Ok((inner, place + 2));
        }
    }
    Err(refused(text, at, &format!("what begins with {sign} has no end")))
}

/// How long the number is that a text begins with.
fn number(text: &str) -> usize {
    let digits = |from: usize| {
        let bytes = text.as_bytes().get(from..).unwrap_or_default();
        from + bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let signed = text[end + 1..].starts_with(['+', '-']);
        let first = end + 1 + usize::from(signed);
        if first < digits(first) {
            end = digits(first);
        }
    }
    end
}
