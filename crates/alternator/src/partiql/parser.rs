//! Statements, by recursive descent.
//!
//! ```text
//! statement := select | EXISTS ( select ) | insert | update | delete
//! select    := SELECT (* | path, ..) FROM source [WHERE test] [ORDER BY name [ASC | DESC], ..]
//! insert    := INSERT INTO source VALUE { .. }
//! update    := UPDATE source (SET path = sum, .. | REMOVE path) .. [WHERE test] [returning]
//! delete    := DELETE FROM source [WHERE test] [returning]
//! source    := table [. index]
//! returning := RETURNING (ALL | MODIFIED) (OLD | NEW) *
//! ```
//!
//! Keywords in any case; names as they are, `"quoted"` where they are no word; `--` and `/* */`.

use super::lexer::{Token, tokens};
use super::tree::{Change, Returning, Select, Source, Statement, Term};
use super::{BYTES_MAX, DEPTH_MAX, refused};
use crate::error::Error;

/// A statement, and how many parameters it has.
pub fn parse(text: &str) -> Result<(Statement, usize), Error> {
    if !(1..=BYTES_MAX).contains(&text.len()) {
        return Err(Error::validation(format!(
            "1 validation error detected: Value at 'statement' failed to satisfy constraint: \
             Member must have length greater than or equal to 1 and length less than or equal to \
             {BYTES_MAX}: it has {}",
            text.len()
        )));
    }
    let mut parser =
        Parser { text, tokens: tokens(text)?, at: 0, depth: 0, parameters: 0, operators: 0 };
    let statement = parser.statement()?;
    parser.takes(";");
    match parser.peek() {
        Token::End => Ok((statement, parser.parameters)),
        _ => Err(parser.expected("the end of the statement")),
    }
}

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: Vec<(Token<'t>, usize)>,
    pub(super) at: usize,
    pub(super) depth: usize,
    /// `?` so far.
    pub(super) parameters: usize,
    pub(super) operators: usize,
}

/// Words that are no names where a name may stand.
const KEYWORDS: [&str; 18] = [
    "AND",
    "BETWEEN",
    "FALSE",
    "FROM",
    "IN",
    "IS",
    "MISSING",
    "NOT",
    "NULL",
    "OR",
    "ORDER",
    "REMOVE",
    "RETURNING",
    "SELECT",
    "SET",
    "TRUE",
    "VALUE",
    "WHERE",
];

impl<'t> Parser<'t> {
    pub(super) fn peek(&self) -> &Token<'t> {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, by: usize) -> &Token<'t> {
        self.tokens.get(self.at + by).map_or(&Token::End, |(token, _)| token)
    }

    /// *placed*
    pub(super) fn refuse(&self, why: &str) -> Error {
        let place = self.tokens.get(self.at).map_or(self.text.len(), |(_, place)| *place);
        refused(self.text, place, why)
    }

    pub(super) fn expected(&self, what: &str) -> Error {
        self.refuse(&format!("{what} is expected, not {}", self.peek().shown()))
    }

    pub(super) fn takes(&mut self, symbol: &str) -> bool {
        let is_there = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(symbol)) }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.takes_word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    /// *bounded*
    pub(super) fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth == DEPTH_MAX {
            return Err(self.refuse(&format!("nesting of more than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    pub(super) fn list<T>(
        &mut self,
        mut part: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut all = vec![part(self)?];
        while self.takes(",") {
            all.push(part(self)?);
        }
        Ok(all)
    }

    /// A name that is no keyword, or is quoted.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Error> {
        let name = match self.peek() {
            Token::Word(name) if !KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word)) => {
                (*name).to_owned()
            }
            Token::Quoted(name) => name.clone(),
            _ => return Err(self.expected(what)),
        };
        self.at += 1;
        Ok(name)
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        if self.takes_word("SELECT") {
            return self.select().map(Statement::Select);
        }
        if self.takes_word("EXISTS") {
            self.expect("(")?;
            self.expect_word("SELECT")?;
            let select = self.select()?;
            self.expect(")")?;
            return Ok(Statement::Exists(select));
        }
        if self.takes_word("INSERT") {
            return self.insert();
        }
        if self.takes_word("UPDATE") {
            return self.update();
        }
        if self.takes_word("DELETE") {
            self.expect_word("FROM")?;
            let source = self.source()?;
            let test = self.filter()?;
            let returning = self.returning()?;
            return Ok(Statement::Delete { source, test, returning });
        }
        Err(self.expected("SELECT, INSERT, UPDATE, DELETE or EXISTS"))
    }

    fn select(&mut self) -> Result<Select, Error> {
        let columns = match self.takes("*") {
            true => None,
            false => Some(self.list(Parser::path)?),
        };
        self.expect_word("FROM")?;
        let source = self.source()?;
        let test = self.filter()?;
        let mut order = Vec::new();
        if self.takes_word("ORDER") {
            self.expect_word("BY")?;
            order = self.list(|parser| {
                let name = parser.name("a key")?;
                let is_down = parser.takes_word("DESC");
                if !is_down {
                    parser.takes_word("ASC");
                }
                Ok((name, is_down))
            })?;
        }
        Ok(Select { columns, source, test, order })
    }

    fn source(&mut self) -> Result<Source, Error> {
        let table = self.name("a table")?;
        let index = match self.takes(".") {
            true => Some(self.name("an index")?),
            false => None,
        };
        Ok(Source { table, index })
    }

    fn filter(&mut self) -> Result<Option<super::tree::Test>, Error> {
        if self.takes_word("WHERE") { self.or().map(Some) } else { Ok(None) }
    }

    fn insert(&mut self) -> Result<Statement, Error> {
        self.expect_word("INTO")?;
        let source = self.source()?;
        self.expect_word("VALUE")?;
        if !matches!(self.peek(), Token::Symbol("{")) {
            return Err(self.expected("an item, {'name': value, ..},"));
        }
        let item = self.map()?;
        if self.is_word("RETURNING") {
            return Err(self.refuse("RETURNING is not supported in INSERT"));
        }
        Ok(Statement::Insert { source, item })
    }

    fn update(&mut self) -> Result<Statement, Error> {
        let source = self.source()?;
        let mut changes = Vec::new();
        loop {
            if self.takes_word("SET") {
                changes.extend(self.list(|parser| {
                    let path = parser.path()?;
                    parser.expect("=")?;
                    Ok(Change::Set(path, parser.sum()?))
                })?);
            } else if self.takes_word("REMOVE") {
                changes.push(Change::Remove(self.path()?));
            } else if changes.is_empty() {
                return Err(self.expected("SET or REMOVE"));
            } else {
                break;
            }
        }
        let test = self.filter()?;
        let returning = self.returning()?;
        Ok(Statement::Update { source, changes, test, returning })
    }

    fn returning(&mut self) -> Result<Option<Returning>, Error> {
        if !self.takes_word("RETURNING") {
            return Ok(None);
        }
        let is_all = self.takes_word("ALL");
        if !is_all && !self.takes_word("MODIFIED") {
            return Err(self.expected("ALL or MODIFIED"));
        }
        let is_new = self.takes_word("NEW");
        if !is_new && !self.takes_word("OLD") {
            return Err(self.expected("OLD or NEW"));
        }
        self.expect("*")?;
        Ok(Some(Returning { is_all, is_new }))
    }

    /// The next `?`.
    pub(super) fn parameter(&mut self) -> Term {
        self.parameters += 1;
        Term::Parameter(self.parameters - 1)
    }
}
