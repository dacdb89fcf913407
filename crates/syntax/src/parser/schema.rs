//! `CREATE`, `ALTER` and `DROP`, apart from the long ones: tables, functions, roles.

use super::{Bracket, Parser, Result, TokenKind};
use crate::ast::{
    AccessStatement, AlterKeyspace, AlterType, AlterTypeAction, AlterView, CreateIndex,
    CreateKeyspace, CreateType, CreateView, Drop, DropKeyspace, IndexTarget, Name, QualifiedName,
    RoleWord, SchemaStatement, Statement, Type,
};
use crate::keyword::Keyword;

fn schema(statement: SchemaStatement) -> Statement {
    Statement::Schema(Box::new(statement))
}

fn access(statement: AccessStatement) -> Statement {
    Statement::Access(Box::new(statement))
}

impl Parser<'_> {
    /// `CREATE ..`
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.expect_word(Keyword::CREATE)?;
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        Ok(match keyword {
            Keyword::KEYSPACE | Keyword::SCHEMA => {
                schema(SchemaStatement::CreateKeyspace(self.create_keyspace()?))
            }
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                schema(SchemaStatement::CreateTable(self.create_table()?))
            }
            Keyword::TYPE => schema(SchemaStatement::CreateType(self.create_type()?)),
            Keyword::INDEX | Keyword::CUSTOM => {
                schema(SchemaStatement::CreateIndex(self.create_index()?))
            }
            Keyword::MATERIALIZED => schema(SchemaStatement::CreateView(self.create_view()?)),
            Keyword::OR | Keyword::FUNCTION | Keyword::AGGREGATE => {
                schema(self.create_function_or_aggregate()?)
            }
            Keyword::ROLE => access(self.create_role(RoleWord::Role)?),
            Keyword::USER => access(self.create_role(RoleWord::User)?),
            Keyword::SERVICE | Keyword::SERVICE_LEVEL => access(self.create_service_level()?),
            _ => return Err(self.unexpected()),
        })
    }

    /// `ALTER ..`
    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.expect_word(Keyword::ALTER)?;
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        Ok(match keyword {
            Keyword::KEYSPACE | Keyword::SCHEMA => {
                self.advance();
                let if_exists = self.if_exists();
                let name = self.name()?;
                let properties = self.properties()?;
                let alter = AlterKeyspace { name, if_exists, properties };
                schema(SchemaStatement::AlterKeyspace(alter))
            }
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                schema(SchemaStatement::AlterTable(self.alter_table()?))
            }
            Keyword::TYPE => schema(SchemaStatement::AlterType(self.alter_type()?)),
            Keyword::MATERIALIZED => {
                self.expect_words(&[Keyword::MATERIALIZED, Keyword::VIEW])?;
                let if_exists = self.if_exists();
                let name = self.qualified_name()?;
                let properties = self.table_properties()?;
                schema(SchemaStatement::AlterView(AlterView { name, if_exists, properties }))
            }
            Keyword::ROLE => access(self.alter_role(RoleWord::Role)?),
            Keyword::USER => access(self.alter_role(RoleWord::User)?),
            Keyword::SERVICE | Keyword::SERVICE_LEVEL => access(self.alter_service_level()?),
            _ => return Err(self.unexpected()),
        })
    }

    /// `DROP ..`
    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.expect_word(Keyword::DROP)?;
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        Ok(match keyword {
            Keyword::KEYSPACE | Keyword::SCHEMA => {
                self.advance();
                let if_exists = self.if_exists();
                let name = self.name()?;
                schema(SchemaStatement::DropKeyspace(DropKeyspace { name, if_exists }))
            }
            Keyword::TABLE | Keyword::COLUMNFAMILY => {
                schema(SchemaStatement::DropTable(self.drop_named()?))
            }
            Keyword::TYPE => schema(SchemaStatement::DropType(self.drop_named()?)),
            Keyword::INDEX => schema(SchemaStatement::DropIndex(self.drop_named()?)),
            Keyword::MATERIALIZED => {
                self.advance();
                if !self.is_word(Keyword::VIEW) {
                    return Err(self.mismatched("K_VIEW"));
                }
                schema(SchemaStatement::DropView(self.drop_named()?))
            }
            Keyword::FUNCTION => schema(SchemaStatement::DropFunction(self.drop_function()?)),
            Keyword::AGGREGATE => schema(SchemaStatement::DropAggregate(self.drop_function()?)),
            Keyword::ROLE => access(self.drop_role(RoleWord::Role)?),
            Keyword::USER => access(self.drop_role(RoleWord::User)?),
            Keyword::SERVICE | Keyword::SERVICE_LEVEL => access(self.drop_service_level()?),
            _ => return Err(self.unexpected()),
        })
    }

    /// The word here, then `[IF EXISTS] name`.
    fn drop_named(&mut self) -> Result<Drop> {
        self.advance();
        let if_exists = self.if_exists();
        Ok(Drop { name: self.qualified_name()?, if_exists })
    }

    fn create_keyspace(&mut self) -> Result<CreateKeyspace> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.name()?;
        Ok(CreateKeyspace { name, if_not_exists, properties: self.optional_properties()? })
    }

    fn create_type(&mut self) -> Result<CreateType> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        self.open(Bracket::Round)?;
        let mut fields = vec![self.typed_name()?];
        // A comma may stand before the end.
        while self.take(TokenKind::Comma) && self.token.kind != TokenKind::Close(Bracket::Round) {
            fields.push(self.typed_name()?);
        }
        self.close(Bracket::Round)?;
        Ok(CreateType { name, if_not_exists, fields })
    }

    /// `name type`
    pub(super) fn typed_name(&mut self) -> Result<(Name, Type)> {
        Ok((self.name()?, self.type_name()?))
    }

    fn alter_type(&mut self) -> Result<AlterType> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.qualified_name()?;
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        let action = match keyword {
            Keyword::ADD => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let (field, ty) = self.typed_name()?;
                AlterTypeAction::Add { if_not_exists, field, ty }
            }
            Keyword::ALTER => {
                self.advance();
                let field = self.name()?;
                self.expect_word(Keyword::TYPE)?;
                AlterTypeAction::ChangeType { field, ty: self.type_name()? }
            }
            Keyword::RENAME => {
                self.advance();
                let if_exists = self.if_exists();
                AlterTypeAction::Rename { if_exists, fields: self.conjunction(Self::renaming)? }
            }
            _ => return Err(self.unexpected()),
        };
        Ok(AlterType { name, if_exists, action })
    }

    /// `a TO b`
    pub(super) fn renaming(&mut self) -> Result<(Name, Name)> {
        let from = self.name()?;
        self.expect_word(Keyword::TO)?;
        Ok((from, self.name()?))
    }

    fn create_index(&mut self) -> Result<CreateIndex> {
        let custom = self.take_word(Keyword::CUSTOM);
        self.expect_word(Keyword::INDEX)?;
        let if_not_exists = self.if_not_exists()?;
        let name: Option<QualifiedName> =
            if self.is_word(Keyword::ON) { None } else { Some(self.qualified_name()?) };
        self.expect_word(Keyword::ON)?;
        let table = self.qualified_name()?;
        self.open(Bracket::Round)?;
        let targets = self.list_until(Bracket::Round, Self::index_target)?;
        let class = if self.take_word(Keyword::USING) { Some(self.string()?) } else { None };
        let properties = self.optional_table_properties()?;
        Ok(CreateIndex { custom, if_not_exists, name, table, targets, class, properties })
    }

    fn index_target(&mut self) -> Result<IndexTarget> {
        let round = TokenKind::Open(Bracket::Round);
        if self.token.kind == round {
            return Ok(IndexTarget::Partition(self.bracketed(Self::name)?));
        }
        let wrap = match self.token.kind {
            TokenKind::Keyword(Keyword::KEYS) => IndexTarget::Keys,
            TokenKind::Keyword(Keyword::VALUES) => IndexTarget::Values,
            TokenKind::Keyword(Keyword::ENTRIES) => IndexTarget::Entries,
            TokenKind::Keyword(Keyword::FULL) => IndexTarget::Full,
            _ => return Ok(IndexTarget::Column(self.name()?)),
        };
        if self.peek() != round {
            return Ok(IndexTarget::Column(self.name()?));
        }
        self.advance();
        self.advance();
        let column = self.name()?;
        self.close(Bracket::Round)?;
        Ok(wrap(column))
    }

    fn create_view(&mut self) -> Result<CreateView> {
        self.expect_words(&[Keyword::MATERIALIZED, Keyword::VIEW])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        self.expect_words(&[Keyword::AS, Keyword::SELECT])?;
        let selection = self.selection()?;
        self.expect_word(Keyword::FROM)?;
        let base = self.qualified_name()?;
        let filter = self.optional_filter()?;
        let primary_key = self.primary_key()?;
        let properties = self.optional_table_properties()?;
        Ok(CreateView { name, if_not_exists, base, selection, filter, primary_key, properties })
    }
}
