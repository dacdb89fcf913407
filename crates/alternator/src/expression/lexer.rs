//! From a text to its words.

use crate::error::Error;

/// A word of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    /// `#name`, with its sign.
    NameReference(&'t str),
    /// `:value`, with its colon.
    ValueReference(&'t str),
    Number(&'t str),
    Symbol(&'static str),
    End,
}

impl Token<'_> {
    /// As messages show it.
    pub(super) fn shown(&self) -> &str {
        match self {
            Token::Name(text)
            | Token::NameReference(text)
            | Token::ValueReference(text)
            | Token::Number(text)
            | Token::Symbol(text) => text,
            Token::End => "<EOF>",
        }
    }
}

/// The symbol that a text begins with.
fn symbol(text: &[u8]) -> Option<&'static str> {
    Some(match text {
        [b'<', b'>', ..] => "<>",
        [b'<', b'=', ..] => "<=",
        [b'>', b'=', ..] => ">=",
        [b'=', ..] => "=",
        [b'<', ..] => "<",
        [b'>', ..] => ">",
        [b'(', ..] => "(",
        [b')', ..] => ")",
        [b'[', ..] => "[",
        [b']', ..] => "]",
        [b',', ..] => ",",
        [b'.', ..] => ".",
        [b'+', ..] => "+",
        [b'-', ..] => "-",
        [b'*', ..] => "*",
        _ => return None,
    })
}

/// A word has about so many bytes, with what is before it.
const WORD_BYTES: usize = 3;

/// The words of a text, then [`Token::End`]. `what` is the parameter that it comes from.
pub(super) fn tokens<'t>(text: &'t str, what: &str) -> Result<Vec<Token<'t>>, Error> {
    let mut found = Vec::with_capacity(text.len() / WORD_BYTES + 2);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (token, length) = first(rest, what)?;
        found.push(token);
        rest = &rest[length..];
        // A space, most of the time; others are of Unicode.
        if !rest.as_bytes().first().is_some_and(|byte| (b'!'..=b'~').contains(byte)) {
            rest = rest.trim_start();
        }
    }
    found.push(Token::End);
    Ok(found)
}

fn first<'t>(rest: &'t str, what: &str) -> Result<(Token<'t>, usize), Error> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let word = |from: usize| {
        let bytes = &rest.as_bytes()[from..];
        from + bytes.iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len())
    };
    match rest.as_bytes()[0] {
        sign @ (b'#' | b':') => match word(1) {
            1 => Err(refuse(rest, what)),
            end if sign == b'#' => Ok((Token::NameReference(&rest[..end]), end)),
            end => Ok((Token::ValueReference(&rest[..end]), end)),
        },
        b'0'..=b'9' => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            // `1a` is no word.
            if word(0) != digits {
                return Err(refuse(rest, what));
            }
            Ok((Token::Number(&rest[..digits]), digits))
        }
        byte if byte.is_ascii_alphabetic() => {
            let end = word(0);
            Ok((Token::Name(&rest[..end]), end))
        }
        _ => match symbol(rest.as_bytes()) {
            Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
            None => Err(refuse(rest, what)),
        },
    }
}

fn refuse(rest: &str, what: &str) -> Error {
    let near: String = rest.chars().take(16).collect();
    let token: String = near.chars().take(1).collect();
    Error::validation(format!("Invalid {what}: Syntax error; token: \"{token}\", near: \"{near}\""))
}
