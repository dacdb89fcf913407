//! Statements without the passwords in them, for traces and logs.

use std::borrow::Cow;

const WORD: &str = "password";

/// The text, with `'***'` in the place of each password: of the constant that follows the word.
pub(crate) fn obscured(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = find_word(rest) {
        let (before, after) = rest.split_at(at + WORD.len());
        out.push_str(before);
        let value = after.trim_start().trim_start_matches('=').trim_start();
        out.push_str(&after[..after.len() - value.len()]);
        let length = constant_bytes(value);
        if 0 < length {
            out.push_str("'***'");
        }
        rest = &value[length..];
    }
    match out.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(out + rest),
    }
}

fn find_word(text: &str) -> Option<usize> {
    let mut windows = text.as_bytes().windows(WORD.len());
    windows.position(|window| window.eq_ignore_ascii_case(WORD.as_bytes()))
}

/// Bytes of the string at the start, which may not end; 0 where there is none.
fn constant_bytes(text: &str) -> usize {
    if let Some(inner) = text.strip_prefix("$$") {
        return inner.find("$$").map_or(text.len(), |at| at + 4);
    }
    if !text.starts_with('\'') {
        return 0;
    }
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out() {
        let check = |text: &str, expected: &str| assert_eq!(obscured(text), expected);
        check("SELECT 1", "SELECT 1");
        check(
            "CREATE ROLE a WITH PASSWORD = 'x' AND b",
            "CREATE ROLE a WITH PASSWORD = '***' AND b",
        );
        check("create user a with password 'it''s'", "create user a with password '***'");
        check("WITH HASHED PASSWORD='$6$a'", "WITH HASHED PASSWORD='***'");
        check("WITH PASSWORD = $$x'y$$ AND z", "WITH PASSWORD = '***' AND z");
        check("WITH PASSWORD = 'open", "WITH PASSWORD = '***'");
        check("password = 'a' password = 'b'", "password = '***' password = '***'");
        check("SELECT password FROM t", "SELECT password FROM t");
        check("password", "password");
    }
}
