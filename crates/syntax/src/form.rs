//! The form of a statement: its text without literals, comments and needless space, so that
//! statements which differ by values alone are grouped.
//!
//! Invariants
//!  - *no-values*: no literal of the text is in its form. What follows a character that begins no
//!    token is left out.

use super::keyword::Keyword;
use super::lexer::{Bracket, Lexer, Token, TokenKind};

/// Bytes of a text that are looked at.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// `SELECT v FROM t WHERE k IN (1, 'a')` is `SELECT v FROM t WHERE k IN (?, ...)`.
pub fn form(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    let mut lexer = Lexer::new(text);
    let mut out = String::with_capacity(text.len().min(256));
    let (mut before, mut list) = (TokenKind::End, List::No);
    let (mut end, mut is_apart) = (0, false);
    loop {
        let token = lexer.token();
        is_apart |= end < token.at.offset as usize;
        end = token.end as usize;
        match token.kind {
            TokenKind::End | TokenKind::Bad(_) => break,
            // A sign belongs to its number.
            TokenKind::Minus if !is_operand(before) && is_number(lexer) => continue,
            kind => list = list.after(before, kind),
        }
        if !list.is_left_out() {
            out.push_str(if is_apart && !out.is_empty() { " " } else { "" });
            out.push_str(shown(text, token, list));
        }
        (before, is_apart) = (token.kind, false);
    }
    out.truncate(out.trim_end_matches([' ', ';']).len());
    out
}

/// Where in the values of an `IN` we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    No,
    Opened,
    /// So many values and commas were met.
    Within(u32),
}

impl List {
    fn after(self, before: TokenKind, kind: TokenKind) -> List {
        match (self, kind) {
            (_, TokenKind::Open(Bracket::Round)) if before == TokenKind::Keyword(Keyword::IN) => {
                List::Opened
            }
            (List::Opened, kind) if is_literal(kind) => List::Within(1),
            (List::Within(count), kind) if is_literal(kind) || kind == TokenKind::Comma => {
                List::Within(count.saturating_add(1))
            }
            _ => List::No,
        }
    }

    /// The first value is shown, the comma after it, and then that there are more.
    fn is_left_out(self) -> bool {
        matches!(self, List::Within(4..))
    }
}

fn shown(text: &str, token: Token, list: List) -> &str {
    match token.kind {
        _ if list == List::Within(3) => "...",
        kind if is_literal(kind) => "?",
        _ => text.get(token.at.offset as usize..token.end as usize).unwrap_or_default(),
    }
}

fn is_literal(kind: TokenKind) -> bool {
    use TokenKind::{Blob, DollarString, Duration, Float, Integer, Question, String, Uuid};
    let word = [Keyword::TRUE, Keyword::FALSE, Keyword::NAN, Keyword::INFINITY];
    matches!(kind, String | DollarString | Integer | Float | Blob | Uuid | Duration | Question)
        || word.iter().any(|word| kind == TokenKind::Keyword(*word))
}

/// Whether a minus after this takes away: it belongs to the number after it otherwise.
fn is_operand(kind: TokenKind) -> bool {
    let is_name = matches!(kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Close(_));
    is_name || is_literal(kind)
}

/// Whether the next token is a number. Copies of a lexer look ahead.
fn is_number(mut lexer: Lexer<'_>) -> bool {
    let next = lexer.token().kind;
    matches!(next, TokenKind::Integer | TokenKind::Float | TokenKind::Duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_differ_by_values_have_one_form() {
        let check = |text: &str, expected: &str| assert_eq!(form(text), expected, "{text}");
        check("SELECT * FROM t WHERE k = 1;", "SELECT * FROM t WHERE k = ?");
        check("SELECT *\n  FROM t -- why\n WHERE k=-17", "SELECT * FROM t WHERE k=?");
        check("SELECT v FROM t WHERE k > -1 AND c < - 2", "SELECT v FROM t WHERE k > ? AND c < ?");
        check("SELECT v FROM t1 WHERE k='it''s'", "SELECT v FROM t1 WHERE k=?");
        check("SELECT v FROM t WHERE k IN (1, 2,3)", "SELECT v FROM t WHERE k IN (?, ...)");
        check("SELECT v FROM t WHERE k in ('a')", "SELECT v FROM t WHERE k in (?)");
        check("SELECT v FROM t WHERE k IN ? AND c = 1", "SELECT v FROM t WHERE k IN ? AND c = ?");
        check(
            "INSERT INTO t (k, v) VALUES (0xcafe, {'a': 1.5e3})",
            "INSERT INTO t (k, v) VALUES (?, {?: ?})",
        );
        check(
            "UPDATE \"T 1\" SET a = a - 1 WHERE k = 123e4567-e89b-12d3-a456-426614174000",
            "UPDATE \"T 1\" SET a = a - ? WHERE k = ?",
        );
        check("DELETE FROM t WHERE k = 1 IF b = true", "DELETE FROM t WHERE k = ? IF b = ?");
        check("SELECT v FROM t WHERE k = ? /* x */ LIMIT 5", "SELECT v FROM t WHERE k = ? LIMIT ?");
        check("CREATE FUNCTION f() AS $$ return 'x'; $$", "CREATE FUNCTION f() AS ?");
        check("SELECT c2 FROM t WHERE d = 1h30m", "SELECT c2 FROM t WHERE d = ?");
        check("SELECT 'open", "SELECT");
        check("", "");
    }

    #[test]
    fn any_text_has_a_form_without_its_values() {
        let parts = ["'", "$$", "--", "/*", "*/", " ", "\n", "in", "(", ",", "7", "-", "\u{e9}"];
        let mut random = stdx::Prng::from_seed(7);
        for _ in 0..20_000 {
            let text: String =
                (0..12).map(|_| parts[random.below(parts.len() as u64) as usize]).collect();
            let form = form(&text);
            let is_word = form.contains("in7");
            assert!(is_word || !form.contains('7'), "no-values: {text:?} {form:?}");
        }
    }
}
