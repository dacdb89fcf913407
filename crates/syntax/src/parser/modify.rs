//! Statements that change rows.

use super::{Parser, Result, TokenKind, is_name};
use crate::SyntaxError;
use crate::ast::{
    Assignment, Batch, BatchKind, Change, ColumnPath, Condition, Delete, Expr, Insert,
    InsertSource, JsonMissing, Modification, Name, PruneView, Truncate, Update, Using,
};
use crate::keyword::Keyword;

/// What `USING` may say of a write.
const WRITE: &[Keyword] = &[Keyword::TIMESTAMP, Keyword::TTL, Keyword::TIMEOUT];

impl Parser<'_> {
    /// `USING a AND b`, if `USING` is here, of the keys allowed here.
    pub(super) fn using(&mut self, allowed: &[Keyword]) -> Result<Using> {
        let mut using = Using::default();
        if !self.take_word(Keyword::USING) {
            return Ok(using);
        }
        loop {
            let keyword = match self.token.kind {
                TokenKind::Keyword(keyword) if allowed.contains(&keyword) => keyword,
                _ => return Err(self.unexpected()),
            };
            self.advance();
            match keyword {
                Keyword::TIMESTAMP => using.timestamp = Some(self.integer_or_marker()?),
                Keyword::TTL => using.ttl = Some(self.integer_or_marker()?),
                Keyword::CONCURRENCY => using.concurrency = Some(self.integer_or_marker()?),
                Keyword::TIMEOUT => using.timeout = Some(self.term()?),
                _ => {
                    self.expect_word(Keyword::LEVEL)?;
                    using.service_level = Some(self.name_or_string()?);
                }
            }
            if !self.take_word(Keyword::AND) {
                return Ok(using);
            }
        }
    }

    pub(super) fn insert(&mut self) -> Result<Insert> {
        self.expect_words(&[Keyword::INSERT, Keyword::INTO])?;
        let table = self.qualified_name()?;
        let source = if self.take_word(Keyword::JSON) {
            let text = self.string_or_marker()?;
            InsertSource::Json { text, missing: self.json_missing()? }
        } else {
            let columns = self.bracketed(Self::name)?;
            self.expect_word(Keyword::VALUES)?;
            InsertSource::Values { columns, values: self.bracketed(Self::term)? }
        };
        let condition = if self.if_not_exists()? { Condition::NotExists } else { Condition::None };
        Ok(Insert { table, source, condition, using: self.using(WRITE)? })
    }

    fn json_missing(&mut self) -> Result<JsonMissing> {
        if !self.take_word(Keyword::DEFAULT) || self.take_word(Keyword::NULL) {
            return Ok(JsonMissing::Null);
        }
        self.expect_word(Keyword::UNSET)?;
        Ok(JsonMissing::Unset)
    }

    pub(super) fn update(&mut self) -> Result<Update> {
        self.expect_word(Keyword::UPDATE)?;
        let table = self.qualified_name()?;
        let using = self.using(WRITE)?;
        self.expect_word(Keyword::SET)?;
        let assignments = self.list(Self::assignment)?;
        let filter = self.filter()?;
        Ok(Update { table, using, assignments, filter, condition: self.condition()? })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let at = self.token.at;
        let target = self.column_path()?;
        let change = match (&target, self.token.kind) {
            (ColumnPath::Column(_), TokenKind::PlusEqual) => {
                self.advance();
                Change::Add(self.term()?)
            }
            (ColumnPath::Column(_), TokenKind::MinusEqual) => {
                self.advance();
                Change::Subtract(self.term()?)
            }
            (ColumnPath::Column(column), _) => {
                self.expect(TokenKind::Equal, "'='")?;
                self.assigned(column)?
            }
            _ => {
                self.expect(TokenKind::Equal, "'='")?;
                Change::Set(self.term()?)
            }
        };
        Ok(Assignment { target, change, at })
    }

    /// What follows `column =`.
    fn assigned(&mut self, column: &Name) -> Result<Change> {
        if self.is_name() {
            match self.peek() {
                TokenKind::Plus => return Ok(Change::Add(self.after_same(column, "X + <value>")?)),
                TokenKind::Minus => {
                    return Ok(Change::Subtract(self.after_same(column, "X - <value>")?));
                }
                _ => {}
            }
        }
        let value = self.term()?;
        if self.token.kind == TokenKind::Plus && is_name(self.peek()) {
            self.advance();
            let other = self.name()?;
            refuse_other(column, &other, "<value> + X")?;
            return Ok(Change::Prepend(value));
        }
        Ok(Change::Set(value))
    }

    /// The column again, the operator behind it, and the value.
    fn after_same(&mut self, column: &Name, form: &str) -> Result<Expr> {
        let other = self.name()?;
        self.advance();
        let value = self.term()?;
        refuse_other(column, &other, form)?;
        Ok(value)
    }

    pub(super) fn delete(&mut self) -> Result<Delete> {
        self.expect_word(Keyword::DELETE)?;
        let mut columns = Vec::new();
        if !self.is_word(Keyword::FROM) {
            columns = self.list(Self::column_path)?;
        }
        self.expect_word(Keyword::FROM)?;
        let table = self.qualified_name()?;
        let using = self.using(&[Keyword::TIMESTAMP, Keyword::TIMEOUT])?;
        let filter = self.filter()?;
        let condition = self.condition()?;
        let bypass_large_data_guardrails =
            self.take_words(Keyword::BYPASS, Keyword::LARGE_DATA_GUARDRAILS);
        Ok(Delete { columns, table, using, filter, condition, bypass_large_data_guardrails })
    }

    pub(super) fn batch(&mut self) -> Result<Batch> {
        self.expect_word(Keyword::BEGIN)?;
        let kind = match self.token.kind {
            TokenKind::Keyword(Keyword::UNLOGGED) => BatchKind::Unlogged,
            TokenKind::Keyword(Keyword::COUNTER) => BatchKind::Counter,
            _ => BatchKind::Logged,
        };
        if kind != BatchKind::Logged {
            self.advance();
        }
        self.expect_word(Keyword::BATCH)?;
        let using = self.using(WRITE)?;
        let mut statements = Vec::new();
        loop {
            statements.push(match self.token.kind {
                TokenKind::Keyword(Keyword::INSERT) => Modification::Insert(self.insert()?),
                TokenKind::Keyword(Keyword::UPDATE) => Modification::Update(self.update()?),
                TokenKind::Keyword(Keyword::DELETE) => Modification::Delete(self.delete()?),
                TokenKind::Keyword(Keyword::APPLY) => break,
                _ => return Err(self.unexpected()),
            });
            self.take(TokenKind::Semicolon);
        }
        self.expect_words(&[Keyword::APPLY, Keyword::BATCH])?;
        Ok(Batch { kind, using, statements })
    }

    pub(super) fn truncate(&mut self) -> Result<Truncate> {
        self.expect_word(Keyword::TRUNCATE)?;
        if !self.take_word(Keyword::TABLE) {
            self.take_word(Keyword::COLUMNFAMILY);
        }
        let table = self.qualified_name()?;
        Ok(Truncate { table, using: self.using(&[Keyword::TIMEOUT])? })
    }

    pub(super) fn prune(&mut self) -> Result<PruneView> {
        self.expect_words(&[Keyword::PRUNE, Keyword::MATERIALIZED, Keyword::VIEW])?;
        let view = self.qualified_name()?;
        let filter = self.optional_filter()?;
        let using = self.using(&[Keyword::TIMEOUT, Keyword::CONCURRENCY])?;
        Ok(PruneView { view, filter, using })
    }

    /// A name, or a string that is one.
    pub(super) fn name_or_string(&mut self) -> Result<Name> {
        match self.token.kind {
            TokenKind::String | TokenKind::DollarString => {
                let (at, refused) = (self.token.at, self.unexpected());
                let text = self.string()?;
                // No name is empty: its printed form would not be read back.
                if text.is_empty() { Err(refused) } else { Ok(Name { text, at }) }
            }
            _ => self.name(),
        }
    }
}

/// An error unless the column on the right is the one on the left.
fn refuse_other(column: &Name, other: &Name, form: &str) -> Result<()> {
    if column.text == other.text {
        return Ok(());
    }
    let message = format!("Only expressions of the form X = {form} are supported.");
    Err(SyntaxError { message, at: other.at })
}
