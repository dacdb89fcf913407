//! `DESCRIBE`.

use super::{Parser, Result, TokenKind};
use crate::ast::{Describe, Described, Name};
use crate::keyword::Keyword;

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Result<Describe> {
        self.advance();
        let what = self.described()?;
        let internals = self.take_word(Keyword::WITH);
        let mut passwords = false;
        if internals {
            self.expect_word(Keyword::INTERNALS)?;
            passwords = self.take_word(Keyword::AND);
            if passwords {
                self.expect_word(Keyword::PASSWORDS)?;
            }
        }
        Ok(Describe { what, internals, passwords })
    }

    fn described(&mut self) -> Result<Described> {
        let keyword = match self.token.kind {
            TokenKind::Keyword(keyword) if self.peek() != TokenKind::Dot => keyword,
            _ => return Ok(Described::Any(self.qualified_name()?)),
        };
        let listed = match keyword {
            Keyword::CLUSTER => Described::Cluster,
            Keyword::SCHEMA => Described::Schema,
            Keyword::KEYSPACES => Described::Keyspaces,
            Keyword::TABLES => Described::Tables,
            Keyword::TYPES => Described::Types,
            Keyword::FUNCTIONS => Described::Functions,
            Keyword::AGGREGATES => Described::Aggregates,
            _ => return self.described_one(keyword),
        };
        self.advance();
        Ok(listed)
    }

    /// One thing, which this keyword may say the kind of.
    fn described_one(&mut self, keyword: Keyword) -> Result<Described> {
        let kind = match keyword {
            Keyword::TABLE | Keyword::COLUMNFAMILY => Described::Table,
            Keyword::INDEX => Described::Index,
            Keyword::TYPE => Described::Type,
            Keyword::FUNCTION => Described::Function,
            Keyword::AGGREGATE => Described::Aggregate,
            Keyword::MATERIALIZED => {
                self.advance();
                self.expect_word(Keyword::VIEW)?;
                return Ok(Described::View(self.qualified_name()?));
            }
            Keyword::FULL => {
                self.expect_words(&[Keyword::FULL, Keyword::SCHEMA])?;
                return Ok(Described::FullSchema);
            }
            Keyword::KEYSPACE => {
                self.advance();
                return Ok(Described::Keyspace(self.optional_name()?));
            }
            Keyword::ONLY if self.peek() == TokenKind::Keyword(Keyword::KEYSPACE) => {
                self.expect_words(&[Keyword::ONLY, Keyword::KEYSPACE])?;
                return Ok(Described::OnlyKeyspace(self.optional_name()?));
            }
            _ => return Ok(Described::Any(self.qualified_name()?)),
        };
        self.advance();
        Ok(kind(self.qualified_name()?))
    }

    fn optional_name(&mut self) -> Result<Option<Name>> {
        if self.is_name() { Ok(Some(self.name()?)) } else { Ok(None) }
    }
}
