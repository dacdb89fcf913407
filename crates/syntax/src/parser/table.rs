//! `CREATE TABLE` and `ALTER TABLE`.

use super::{Bracket, Parser, Result, TokenKind};
use crate::ast::{AlterTable, AlterTableAction, ColumnDefinition, CreateTable, Name, PrimaryKey};
use crate::keyword::Keyword;

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Result<CreateTable> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        self.open(Bracket::Round)?;
        let mut columns = Vec::new();
        let mut primary_keys = Vec::new();
        loop {
            if self.is_word(Keyword::PRIMARY) {
                primary_keys.push(self.primary_key()?);
            } else {
                let mut column = self.column_definition()?;
                column.row_ttl = self.take_word(Keyword::TTL);
                column.is_static |= self.take_word(Keyword::STATIC);
                column.primary_key = self.take_word(Keyword::PRIMARY);
                if column.primary_key {
                    self.expect_word(Keyword::KEY)?;
                }
                columns.push(column);
            }
            // A comma may stand before the end.
            if !self.take(TokenKind::Comma) || self.token.kind == TokenKind::Close(Bracket::Round) {
                break;
            }
            // A definition may be empty, as it may in Cassandra.
            while self.take(TokenKind::Comma) {}
            if self.token.kind == TokenKind::Close(Bracket::Round) {
                break;
            }
        }
        self.close(Bracket::Round)?;
        let properties = self.optional_table_properties()?;
        Ok(CreateTable { name, if_not_exists, columns, primary_keys, properties })
    }

    /// `name type [STATIC]`
    fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let (name, ty) = self.typed_name()?;
        let is_static = self.take_word(Keyword::STATIC);
        Ok(ColumnDefinition { name, ty, is_static, primary_key: false, row_ttl: false })
    }

    /// `PRIMARY KEY ((a, b), c)`
    pub(super) fn primary_key(&mut self) -> Result<PrimaryKey> {
        let at = self.token.at;
        self.expect_words(&[Keyword::PRIMARY, Keyword::KEY])?;
        self.open(Bracket::Round)?;
        let partition = match self.token.kind {
            TokenKind::Open(Bracket::Round) => self.bracketed(Self::name)?,
            _ => vec![self.name()?],
        };
        let mut clustering = Vec::new();
        while self.take(TokenKind::Comma) {
            clustering.push(self.name()?);
        }
        self.close(Bracket::Round)?;
        Ok(PrimaryKey { partition, clustering, at })
    }

    pub(super) fn alter_table(&mut self) -> Result<AlterTable> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.qualified_name()?;
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        let action = match keyword {
            Keyword::ADD => self.add_columns()?,
            Keyword::DROP => self.drop_columns()?,
            Keyword::ALTER => {
                self.advance();
                let if_exists = self.if_exists();
                let column = self.name()?;
                self.expect_word(Keyword::TYPE)?;
                AlterTableAction::ChangeType { if_exists, column, ty: self.type_name()? }
            }
            Keyword::RENAME => {
                self.advance();
                let if_exists = self.if_exists();
                let columns = self.conjunction(Self::renaming)?;
                AlterTableAction::Rename { if_exists, columns }
            }
            Keyword::WITH => AlterTableAction::With(self.table_properties()?),
            Keyword::TTL => {
                self.advance();
                let none = self.take_word(Keyword::NULL);
                AlterTableAction::RowTtl(if none { None } else { Some(self.name()?) })
            }
            _ => return Err(self.unexpected()),
        };
        Ok(AlterTable { name, if_exists, action })
    }

    fn add_columns(&mut self) -> Result<AlterTableAction> {
        self.expect_word(Keyword::ADD)?;
        let if_not_exists = self.if_not_exists()?;
        let columns = match self.token.kind {
            TokenKind::Open(Bracket::Round) => self.bracketed(Self::column_definition)?,
            _ => self.list(Self::column_definition)?,
        };
        Ok(AlterTableAction::Add { if_not_exists, columns })
    }

    fn drop_columns(&mut self) -> Result<AlterTableAction> {
        self.expect_word(Keyword::DROP)?;
        if self.take_words(Keyword::COMPACT, Keyword::STORAGE) {
            return Ok(AlterTableAction::DropCompactStorage);
        }
        let if_exists = self.if_exists();
        let columns: Vec<Name> = match self.token.kind {
            TokenKind::Open(Bracket::Round) => self.bracketed(Self::name)?,
            _ => self.list(Self::name)?,
        };
        let timestamp = self.using(&[Keyword::TIMESTAMP])?.timestamp;
        Ok(AlterTableAction::Drop { if_exists, columns, timestamp })
    }
}
