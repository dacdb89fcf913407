//! Tokens, one at a time, from the bytes of a statement.
//!
//! Invariants
//!  - *token-is-text*: a token's range is inside the text and lies on character boundaries.
//!  - *progress*: every token but the end is at least one byte long.
//!
//! It copies nothing: a token is a kind and a range. It never fails: what is no token is a
//! [`TokenKind::Bad`] one, at which the parser stops.

use super::Position;
use super::keyword::Keyword;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// The end of the text.
    End,
    /// An unquoted word that is no keyword.
    Word,
    /// An unquoted word that is one.
    Keyword(Keyword),
    /// `"name"`
    QuotedName,
    /// `'text'`
    String,
    /// `$$text$$`
    DollarString,
    /// `12`, never with a sign.
    Integer,
    /// `1.5`, `1e3`
    Float,
    /// `0xcafe`
    Blob,
    /// `123e4567-e89b-12d3-a456-426614174000`
    Uuid,
    /// `1h30m`, `P1DT2H`
    Duration,
    /// `(`, `[`, `{`, ..
    Open(Bracket),
    /// `)`, `]`, `}`, ..
    Close(Bracket),
    Comma,
    Semicolon,
    Colon,
    Question,
    Dot,
    DotDot,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    PlusEqual,
    Minus,
    MinusEqual,
    Star,
    Slash,
    Percent,
    /// No token of CQL.
    Bad(Bad),
}

/// Which bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
    Curly,
}

/// Why something is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// A character that begins nothing.
    Character,
    /// `'text` without its end.
    Unterminated(Ending),
    /// `""`
    EmptyName,
}

/// What ends a text or a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Quote,
    DoubleQuote,
    Dollars,
    Comment,
}

impl Ending {
    /// As it is written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Ending::Quote => "'",
            Ending::DoubleQuote => "\"",
            Ending::Dollars => "$$",
            Ending::Comment => "*/",
        }
    }
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: TokenKind,
    /// Where it begins.
    pub(super) at: Position,
    /// Offset of the byte after it.
    pub(super) end: u32,
}

/// Where the next token begins. Copies of it look ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    /// `at - line_start` is the column: it moves on with every byte that begins no character.
    line_start: usize,
}

impl<'a> Lexer<'a> {
    /// At the start of a text, which must be shorter than 4 GiB.
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        assert!(u32::try_from(text.len()).is_ok(), "{} bytes of CQL", text.len());
        Lexer { text: text.as_bytes(), at: 0, line: 1, line_start: 0 }
    }

    /// The next token.
    pub(super) fn token(&mut self) -> Token {
        let unterminated = self.skip_blank();
        let at = self.position();
        let kind = match unterminated {
            Some(bad) => TokenKind::Bad(bad),
            None => self.scan(),
        };
        Token { kind, at, end: self.at as u32 }
    }

    /// Where it stands.
    fn position(&self) -> Position {
        let column = (self.at - self.line_start) as u32;
        Position { line: self.line, column, offset: self.at as u32 }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips white space and comments, to the end of the text if a comment has no end.
    fn skip_blank(&mut self) -> Option<Bad> {
        loop {
            match self.byte(0) {
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                }
                first @ (b'-' | b'/') if self.byte(1) == first => self.skip_line(),
                b'/' if self.byte(1) == b'*' => {
                    self.at += 2;
                    if !self.skip_past(Ending::Comment) {
                        return Some(Bad::Unterminated(Ending::Comment));
                    }
                }
                _ => return None,
            }
        }
    }

    fn skip_line(&mut self) {
        while self.at < self.text.len() && self.byte(0) != b'\n' {
            self.step();
        }
    }

    /// One byte onward, over anything.
    fn step(&mut self) {
        let byte = self.byte(0);
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
            self.line_start = self.at;
        } else if byte & 0xc0 == 0x80 {
            self.line_start += 1;
        }
    }

    /// To behind the next `end`, or to the end of the text; whether it was found.
    fn skip_past(&mut self, end: Ending) -> bool {
        let end = end.text().as_bytes();
        while self.at < self.text.len() {
            if self.text[self.at..].starts_with(end) {
                self.at += end.len();
                return true;
            }
            self.step();
        }
        false
    }

    /// The kind of the token here, whose end becomes the place of this lexer.
    fn scan(&mut self) -> TokenKind {
        let byte = self.byte(0);
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => self.word(byte),
            b'0'..=b'9' => self.number(byte),
            b'\'' => self.quoted(b'\'', TokenKind::String, Ending::Quote),
            b'"' => self.quoted(b'"', TokenKind::QuotedName, Ending::DoubleQuote),
            b'$' if self.byte(1) == b'$' => self.dollar_string(),
            _ if self.at == self.text.len() => TokenKind::End,
            _ => self.symbol(byte),
        }
    }

    fn symbol(&mut self, byte: u8) -> TokenKind {
        let (kind, length) = match (byte, self.byte(1)) {
            (b'(', _) => (TokenKind::Open(Bracket::Round), 1),
            (b'[', _) => (TokenKind::Open(Bracket::Square), 1),
            (b'{', _) => (TokenKind::Open(Bracket::Curly), 1),
            (b')', _) => (TokenKind::Close(Bracket::Round), 1),
            (b']', _) => (TokenKind::Close(Bracket::Square), 1),
            (b'}', _) => (TokenKind::Close(Bracket::Curly), 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'?', _) => (TokenKind::Question, 1),
            (b'.', b'.') => (TokenKind::DotDot, 2),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b'!', b'=') => (TokenKind::NotEqual, 2),
            (b'<', b'=') => (TokenKind::LessOrEqual, 2),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', b'=') => (TokenKind::GreaterOrEqual, 2),
            (b'>', _) => (TokenKind::Greater, 1),
            (b'+', b'=') => (TokenKind::PlusEqual, 2),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', b'=') => (TokenKind::MinusEqual, 2),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            _ => {
                self.step();
                while self.byte(0) & 0xc0 == 0x80 {
                    self.step();
                }
                return TokenKind::Bad(Bad::Character);
            }
        };
        self.at += length;
        kind
    }

    /// Text between quotes, which are doubled inside it.
    fn quoted(&mut self, quote: u8, kind: TokenKind, end: Ending) -> TokenKind {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_while(class::PLAIN);
            if self.at == self.text.len() {
                return TokenKind::Bad(Bad::Unterminated(end));
            }
            if self.byte(0) != quote {
                self.step();
            } else if self.byte(1) == quote {
                self.at += 2;
            } else {
                self.at += 1;
                let empty_name = quote == b'"' && self.at == start + 2;
                return if empty_name { TokenKind::Bad(Bad::EmptyName) } else { kind };
            }
        }
    }

    fn dollar_string(&mut self) -> TokenKind {
        self.at += 2;
        match self.skip_past(Ending::Dollars) {
            true => TokenKind::DollarString,
            false => TokenKind::Bad(Bad::Unterminated(Ending::Dollars)),
        }
    }

    /// A word, or what looks like one: a UUID or a duration that begin with a letter.
    fn word(&mut self, first: u8) -> TokenKind {
        if first.is_ascii_hexdigit() && self.is_uuid() {
            self.at += UUID_PATTERN.len();
            return TokenKind::Uuid;
        }
        if first == b'P' && self.matches(DATE_DURATION_PATTERN) {
            self.at += DATE_DURATION_PATTERN.len();
            return TokenKind::Duration;
        }
        let start = self.at;
        self.skip_while(class::WORD);
        let word = &self.text[start..self.at];
        if let Some(keyword) = Keyword::of(word) {
            return TokenKind::Keyword(keyword);
        }
        if first == b'P' && is_designated_duration(&word[1..]) {
            return TokenKind::Duration;
        }
        TokenKind::Word
    }

    /// A number, or what begins like one: a blob, a UUID or a duration.
    fn number(&mut self, first: u8) -> TokenKind {
        if self.is_uuid() {
            self.at += UUID_PATTERN.len();
            return TokenKind::Uuid;
        }
        if first == b'0' && matches!(self.byte(1), b'x' | b'X') {
            self.at += 2;
            self.skip_while(class::HEX);
            return TokenKind::Blob;
        }
        self.skip_digits();
        if 0 < self.unit_length() {
            self.skip_units();
            return TokenKind::Duration;
        }
        let mut kind = TokenKind::Integer;
        // `0..` is a range that begins with an integer, `0...` one that begins with `0.`.
        if self.byte(0) == b'.' && (self.byte(1) != b'.' || self.byte(2) == b'.') {
            kind = TokenKind::Float;
            self.at += 1;
            self.skip_digits();
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let signed = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + signed).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1 + signed;
                self.skip_digits();
            }
        }
        kind
    }

    /// Over all bytes of a class, none of which ends a line or lies within a character.
    fn skip_while(&mut self, class: u8) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| class::is(**byte, class)).count();
    }

    fn skip_digits(&mut self) {
        self.skip_while(class::DIGIT);
    }

    /// Length of the unit of a duration that begins here: `y mo w d h m s ms us ns`.
    fn unit_length(&self) -> usize {
        let second = self.byte(1) | 0x20;
        match self.byte(0) | 0x20 {
            b'm' if second == b'o' || second == b's' => 2,
            b'u' | b'n' if second == b's' => 2,
            b'y' | b'w' | b'd' | b'h' | b'm' | b's' => 1,
            // The micro sign.
            0xe2 if self.byte(0) == 0xc2 && self.byte(1) == 0xb5 && self.byte(2) | 0x20 == b's' => {
                3
            }
            _ => 0,
        }
    }

    /// Onward from a unit, over every pair of digits and unit that follows.
    fn skip_units(&mut self) {
        loop {
            for _ in 0..self.unit_length() {
                self.step();
            }
            let mut ahead = *self;
            ahead.skip_digits();
            if ahead.at == self.at || ahead.unit_length() == 0 {
                return;
            }
            *self = ahead;
        }
    }

    fn is_uuid(&self) -> bool {
        self.byte(8) == b'-' && self.matches(UUID_PATTERN)
    }

    /// Whether the text goes on like a pattern: `x` a hexadecimal digit, `0` a digit, all else
    /// itself.
    fn matches(&self, pattern: &[u8]) -> bool {
        let Some(text) = self.text[self.at..].get(..pattern.len()) else { return false };
        text.iter().zip(pattern).all(|(byte, wanted)| match wanted {
            b'x' => class::is(*byte, class::HEX),
            b'0' => class::is(*byte, class::DIGIT),
            _ => byte == wanted,
        })
    }
}

/// What a byte may be part of, looked up rather than compared: most of a statement is words and
/// digits.
mod class {
    pub(super) const DIGIT: u8 = 1;
    pub(super) const HEX: u8 = 2;
    /// Of a word, behind its first letter.
    pub(super) const WORD: u8 = 4;
    /// Of text between quotes: ASCII that is no quote and ends no line.
    pub(super) const PLAIN: u8 = 8;

    const OF: [u8; 256] = {
        let mut of = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let it = byte as u8;
            if it.is_ascii_digit() {
                of[byte] |= DIGIT;
            }
            if it.is_ascii_hexdigit() {
                of[byte] |= HEX;
            }
            if it.is_ascii_alphanumeric() || it == b'_' {
                of[byte] |= WORD;
            }
            if it.is_ascii() && !matches!(it, b'\'' | b'"' | b'\n') {
                of[byte] |= PLAIN;
            }
            byte += 1;
        }
        of
    };

    #[inline]
    pub(super) fn is(byte: u8, class: u8) -> bool {
        OF[usize::from(byte)] & class != 0
    }
}

const UUID_PATTERN: &[u8] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

/// ISO 8601, alternative format.
const DATE_DURATION_PATTERN: &[u8] = b"P0000-00-00T00:00:00";

/// Whether what follows `P` is a duration of ISO 8601 with designators: `1Y2M3DT4H5M6S` or `7W`.
fn is_designated_duration(mut rest: &[u8]) -> bool {
    if let Some((b'W', weeks)) = rest.split_last() {
        return !weeks.is_empty() && weeks.iter().all(u8::is_ascii_digit);
    }
    let mut designators: &[u8] = b"YMD";
    let mut in_time = false;
    let mut components = 0;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let Some(designator) = rest.get(digits) else { return false };
        if *designator == b'T' && digits == 0 && !in_time {
            in_time = true;
            designators = b"HMS";
        } else {
            let index = designators.iter().position(|known| known == designator);
            let Some(index) = index.filter(|_| 0 < digits) else { return false };
            designators = &designators[index + 1..];
            components += 1;
        }
        rest = &rest[digits + 1..];
    }
    0 < components
}
