//! Recursive descent over tokens.
//!
//! This file has the ground the rest stands on: looking at the token here, taking it, names,
//! lists and errors. The statements are in the files beside it.
//!
//! Invariants
//!  - *bounded-depth*: whatever calls itself goes through [`Parser::nested`], and no tree becomes
//!    higher than twice [`NESTING_MAX`].
//!  - *bounded-lookahead*: a token is looked at a constant number of times before it is taken.

mod access;
mod describe;
mod function;
mod literal;
mod modify;
mod property;
mod relation;
mod schema;
mod select;
mod table;
mod term;
mod types;

use super::ast::{Name, QualifiedName, Statement};
use super::keyword::Keyword;
use super::lexer::{Bad, Bracket, Lexer, Token, TokenKind};
use super::{Marker, Position, SyntaxError};

/// How deep brackets, types and operators may nest.
pub(super) const NESTING_MAX: u32 = 128;

/// How many bind markers a statement may have: the protocol counts them with 16 bits.
pub(super) const MARKERS_MAX: usize = 65_535;

/// A list of two items has room for as many, so that most lists do not grow.
const LIST_ITEMS: usize = 8;

pub(super) type Result<T> = std::result::Result<T, SyntaxError>;

/// A text that is being parsed.
pub(super) struct Parser<'a> {
    text: &'a str,
    /// The token here, which is not yet taken.
    token: Token,
    /// The token behind it.
    next: Token,
    /// Behind both.
    lexer: Lexer<'a>,
    /// The bind markers so far.
    pub(super) markers: Vec<Marker>,
    /// How many calls of `nested` are active.
    depth: u32,
    /// Height of the operators of the expression parsed last.
    height: u32,
}

impl<'a> Parser<'a> {
    /// At the first token.
    pub(super) fn new(text: &'a str) -> Result<Parser<'a>> {
        if u32::try_from(text.len()).is_err() {
            let message = format!("statement of {} bytes is too long", text.len());
            return Err(SyntaxError { message, at: Position { line: 1, column: 0, offset: 0 } });
        }
        let mut lexer = Lexer::new(text);
        let (token, next) = (lexer.token(), lexer.token());
        Ok(Parser { text, token, next, lexer, markers: Vec::new(), depth: 0, height: 0 })
    }

    /// A statement.
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        match keyword {
            Keyword::SELECT => Ok(Statement::Select(Box::new(self.select()?))),
            Keyword::INSERT => Ok(Statement::Insert(Box::new(self.insert()?))),
            Keyword::UPDATE => Ok(Statement::Update(Box::new(self.update()?))),
            Keyword::DELETE => Ok(Statement::Delete(Box::new(self.delete()?))),
            Keyword::BEGIN => Ok(Statement::Batch(Box::new(self.batch()?))),
            Keyword::TRUNCATE => Ok(Statement::Truncate(Box::new(self.truncate()?))),
            Keyword::PRUNE => Ok(Statement::PruneView(Box::new(self.prune()?))),
            Keyword::USE => {
                self.advance();
                if matches!(self.token.kind, TokenKind::Question | TokenKind::Colon) {
                    let text = "Bind variables cannot be used for keyspace names";
                    return Err(self.error(text.to_owned()));
                }
                Ok(Statement::Use(self.name()?))
            }
            Keyword::DESCRIBE | Keyword::DESC => {
                Ok(Statement::Describe(Box::new(self.describe()?)))
            }
            Keyword::CREATE => self.create(),
            Keyword::ALTER => self.alter(),
            Keyword::DROP => self.drop(),
            Keyword::GRANT
            | Keyword::REVOKE
            | Keyword::LIST
            | Keyword::ATTACH
            | Keyword::DETACH => Ok(Statement::Access(Box::new(self.access()?))),
            _ => Err(self.unexpected()),
        }
    }

    /// The end of the text, after any number of `;`.
    pub(super) fn end_of_statement(&mut self) -> Result<()> {
        while self.take(TokenKind::Semicolon) {}
        self.end_of_text()
    }

    /// The end of the text.
    pub(super) fn end_of_text(&mut self) -> Result<()> {
        match self.token.kind {
            TokenKind::End => Ok(()),
            TokenKind::Bad(_) => Err(self.unexpected()),
            _ => Err(self.error(format!("missing EOF at {}", self.found()))),
        }
    }

    // Tokens.

    /// The token behind the one here.
    fn peek(&self) -> TokenKind {
        self.next.kind
    }

    /// The two tokens behind the one here.
    fn peek_two(&self) -> (TokenKind, TokenKind) {
        let mut ahead = self.lexer;
        (self.next.kind, ahead.token().kind)
    }

    /// Takes the token here, whatever it is.
    fn advance(&mut self) -> Token {
        let taken = self.token;
        self.token = self.next;
        self.next = self.lexer.token();
        taken
    }

    /// Takes the token here if it is `kind`; whether it was.
    fn take(&mut self, kind: TokenKind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    /// Takes `keyword` if it is here; whether it was.
    fn take_word(&mut self, keyword: Keyword) -> bool {
        self.take(TokenKind::Keyword(keyword))
    }

    /// Takes both keywords if they are here; whether they were.
    fn take_words(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.is_word(first) && self.peek() == TokenKind::Keyword(second);
        if found {
            self.advance();
            self.advance();
        }
        found
    }

    fn is_word(&self, keyword: Keyword) -> bool {
        self.token.kind == TokenKind::Keyword(keyword)
    }

    /// Takes `kind`, which must be here.
    fn expect(&mut self, kind: TokenKind, name: &str) -> Result<Token> {
        if self.token.kind == kind {
            return Ok(self.advance());
        }
        Err(self.mismatched(name))
    }

    /// Takes `keyword`, which must be here.
    fn expect_word(&mut self, keyword: Keyword) -> Result<Token> {
        if self.is_word(keyword) {
            return Ok(self.advance());
        }
        Err(self.mismatched(&format!("K_{}", keyword.text())))
    }

    /// Takes these keywords, which must be here.
    fn expect_words(&mut self, keywords: &[Keyword]) -> Result<()> {
        for keyword in keywords {
            self.expect_word(*keyword)?;
        }
        Ok(())
    }

    /// Takes the opening bracket, which must be here.
    fn open(&mut self, bracket: Bracket) -> Result<Token> {
        let name = match bracket {
            Bracket::Round => "'('",
            Bracket::Square => "'['",
            Bracket::Curly => "'{'",
        };
        self.expect(TokenKind::Open(bracket), name)
    }

    /// Takes the closing bracket, which must be here.
    fn close(&mut self, bracket: Bracket) -> Result<Token> {
        let name = match bracket {
            Bracket::Round => "')'",
            Bracket::Square => "']'",
            Bracket::Curly => "'}'",
        };
        self.expect(TokenKind::Close(bracket), name)
    }

    /// `item, item` and the closing bracket; `()` gives nothing.
    fn list_until<T>(
        &mut self,
        bracket: Bracket,
        item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if self.take(TokenKind::Close(bracket)) {
            return Ok(Vec::new());
        }
        let items = self.list(item)?;
        self.close(bracket)?;
        Ok(items)
    }

    /// `item, item`, at least one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let first = item(self)?;
        self.list_from(first, item)
    }

    /// The same behind its first item. One that is alone, as in brackets within brackets, takes no
    /// room for others.
    fn list_from<T>(
        &mut self,
        first: T,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if self.token.kind != TokenKind::Comma {
            return Ok(vec![first]);
        }
        let mut items = Vec::with_capacity(LIST_ITEMS);
        items.push(first);
        while self.take(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `item AND item`, at least one.
    fn conjunction<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_word(Keyword::AND) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item)`, at least one.
    fn bracketed<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.open(Bracket::Round)?;
        let items = self.list(item)?;
        self.close(Bracket::Round)?;
        Ok(items)
    }

    /// Runs what may call itself, unless it has done so too often.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if NESTING_MAX <= self.depth {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    // Names.

    /// The text of a token.
    fn text_of(&self, token: Token) -> &'a str {
        self.text.get(token.at.offset as usize..token.end as usize).unwrap_or("")
    }

    /// Whether the token here can be a name.
    fn is_name(&self) -> bool {
        is_name(self.token.kind)
    }

    /// A name.
    fn name(&mut self) -> Result<Name> {
        if !self.is_name() {
            return Err(self.unexpected());
        }
        let token = self.advance();
        Ok(Name { text: self.name_text(token), at: token.at })
    }

    /// The name a token is, folded or unquoted.
    fn name_text(&self, token: Token) -> String {
        let text = self.text_of(token);
        match token.kind {
            TokenKind::QuotedName => unquoted(text, "\"", "\"\""),
            _ => text.to_ascii_lowercase(),
        }
    }

    /// `name` or `ks.name`
    fn qualified_name(&mut self) -> Result<QualifiedName> {
        let name = self.name()?;
        if !self.take(TokenKind::Dot) {
            return Ok(QualifiedName { keyspace: None, name });
        }
        Ok(QualifiedName { keyspace: Some(name), name: self.name()? })
    }

    /// `IF EXISTS`, if it is here; whether it was.
    fn if_exists(&mut self) -> bool {
        self.take_words(Keyword::IF, Keyword::EXISTS)
    }

    /// `IF NOT EXISTS`, if `IF` is here; whether it was.
    fn if_not_exists(&mut self) -> Result<bool> {
        let found = self.take_word(Keyword::IF);
        if found {
            self.expect_words(&[Keyword::NOT, Keyword::EXISTS])?;
        }
        Ok(found)
    }

    // Errors.

    fn error(&self, message: String) -> SyntaxError {
        SyntaxError { message, at: self.token.at }
    }

    /// The token here is none of those that could be.
    fn unexpected(&self) -> SyntaxError {
        match self.token.kind {
            TokenKind::Bad(bad) => self.bad_token(bad),
            _ => self.error(format!("no viable alternative at input {}", self.found())),
        }
    }

    /// The token here is not the one that must be.
    fn mismatched(&self, expected: &str) -> SyntaxError {
        match self.token.kind {
            TokenKind::Bad(bad) => self.bad_token(bad),
            _ => {
                let found = self.found();
                self.error(format!("mismatched input {found} expecting {expected}"))
            }
        }
    }

    fn bad_token(&self, bad: Bad) -> SyntaxError {
        let found = self.found();
        self.error(match bad {
            Bad::Character => format!("no viable alternative at character {found}"),
            Bad::EmptyName => format!("no viable alternative at input {found}"),
            Bad::Unterminated(end) => {
                format!("mismatched character '<EOF>' expecting '{}'", end.text())
            }
        })
    }

    fn too_deep(&self) -> SyntaxError {
        self.error(format!("recursion limit exceeded: nesting deeper than {NESTING_MAX}"))
    }

    /// The token here, in quotes and not too long.
    fn found(&self) -> String {
        if self.token.kind == TokenKind::End {
            return "'<EOF>'".to_owned();
        }
        let text = self.text_of(self.token);
        match text.char_indices().nth(FOUND_CHARACTERS_MAX) {
            Some((end, _)) => format!("'{}...'", &text[..end]),
            None => format!("'{text}'"),
        }
    }
}

/// How much of a token an error repeats.
const FOUND_CHARACTERS_MAX: usize = 100;

/// Whether a token can be a name.
fn is_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Word | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => !keyword.is_reserved(),
        _ => false,
    }
}

/// The text between quotes, with doubled ones made single.
fn unquoted(text: &str, quote: &str, doubled: &str) -> String {
    let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).unwrap_or(text);
    if inner.contains(quote) { inner.replace(doubled, quote) } else { inner.to_owned() }
}
