//! Conditions: of `WHERE` and of `IF`.

use super::{Bracket, Parser, Result, TokenKind, is_name};
use crate::ast::{ColumnPath, Comparison, Condition, InValues, Relation, Subject, Test};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// `WHERE a AND b`, if `WHERE` is here.
    pub(super) fn optional_filter(&mut self) -> Result<Vec<Relation>> {
        if self.is_word(Keyword::WHERE) { self.filter() } else { Ok(Vec::new()) }
    }

    /// `WHERE a AND b`
    pub(super) fn filter(&mut self) -> Result<Vec<Relation>> {
        self.expect_word(Keyword::WHERE)?;
        self.relations()
    }

    /// `a AND b`
    pub(crate) fn relations(&mut self) -> Result<Vec<Relation>> {
        self.conjunction(Self::relation)
    }

    /// `IF EXISTS` or `IF a AND b`, if `IF` is here.
    pub(super) fn condition(&mut self) -> Result<Condition> {
        if !self.take_word(Keyword::IF) {
            return Ok(Condition::None);
        }
        if self.is_word(Keyword::EXISTS) && self.peek() != TokenKind::Equal {
            self.advance();
            return Ok(Condition::Exists);
        }
        Ok(Condition::All(self.conjunction(Self::relation)?))
    }

    /// One condition.
    fn relation(&mut self) -> Result<Relation> {
        let at = self.token.at;
        let subject = match self.token.kind {
            TokenKind::Open(Bracket::Round) => {
                let (name, after) = self.peek_two();
                let is_list = matches!(after, TokenKind::Comma | TokenKind::Close(Bracket::Round));
                if !is_name(name) || !is_list {
                    return self.nested(|parser| {
                        parser.advance();
                        let relation = parser.relation()?;
                        parser.close(Bracket::Round)?;
                        Ok(relation)
                    });
                }
                Subject::Columns(self.bracketed(Self::name)?)
            }
            TokenKind::Keyword(Keyword::TOKEN) => {
                self.advance();
                Subject::Token(self.bracketed(Self::name)?)
            }
            _ if self.peek() == TokenKind::Open(Bracket::Round) => {
                Subject::Call(self.call_of_columns()?)
            }
            _ => Subject::Path(self.column_path()?),
        };
        Ok(Relation { subject, test: self.test()?, at })
    }

    /// `c`, `c[key]` or `c.field`
    pub(super) fn column_path(&mut self) -> Result<ColumnPath> {
        let column = self.name()?;
        if self.take(TokenKind::Dot) {
            return Ok(ColumnPath::Field(column, self.name()?));
        }
        if self.take(TokenKind::Open(Bracket::Square)) {
            let key = self.term()?;
            self.close(Bracket::Square)?;
            return Ok(ColumnPath::Element(column, key));
        }
        Ok(ColumnPath::Column(column))
    }

    fn test(&mut self) -> Result<Test> {
        if let Some(comparison) = self.comparison() {
            self.advance();
            return Ok(Test::Compare(comparison, self.term()?));
        }
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        match keyword {
            Keyword::IN => {
                self.advance();
                Ok(Test::In(self.in_values()?))
            }
            Keyword::NOT => {
                self.advance();
                self.expect_word(Keyword::IN)?;
                Ok(Test::NotIn(self.in_values()?))
            }
            Keyword::CONTAINS => {
                self.advance();
                if self.take_word(Keyword::KEY) {
                    return Ok(Test::ContainsKey(self.term()?));
                }
                Ok(Test::Contains(self.term()?))
            }
            Keyword::LIKE => {
                self.advance();
                Ok(Test::Like(self.term()?))
            }
            Keyword::IS => {
                self.advance();
                let not = self.take_word(Keyword::NOT);
                self.expect_word(Keyword::NULL)?;
                Ok(if not { Test::IsNotNull } else { Test::IsNull })
            }
            _ => Err(self.unexpected()),
        }
    }

    fn comparison(&self) -> Option<Comparison> {
        Some(match self.token.kind {
            TokenKind::Equal => Comparison::Equal,
            TokenKind::NotEqual => Comparison::NotEqual,
            TokenKind::Less => Comparison::Less,
            TokenKind::LessOrEqual => Comparison::LessOrEqual,
            TokenKind::Greater => Comparison::Greater,
            TokenKind::GreaterOrEqual => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// What follows `IN`.
    fn in_values(&mut self) -> Result<InValues> {
        if self.is_marker() {
            return Ok(InValues::Marker(self.marker()?));
        }
        self.open(Bracket::Round)?;
        Ok(InValues::List(self.list_until(Bracket::Round, Self::term)?))
    }
}
