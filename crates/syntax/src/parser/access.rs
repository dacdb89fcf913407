//! Roles, permissions and service levels.

use super::{Bracket, Parser, Result, TokenKind};
use crate::ast::{
    AccessStatement, AlterRole, AlterServiceLevel, CreateRole, CreateServiceLevel, DropRole,
    DropServiceLevel, Grant, ListPermissions, ListRoles, ListServiceLevels, Literal, Name,
    Permission, Permissions, Resource, RoleGrant, RoleOptions, RoleWord,
};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// `GRANT`, `REVOKE`, `LIST`, `ATTACH` and `DETACH`.
    pub(super) fn access(&mut self) -> Result<AccessStatement> {
        let TokenKind::Keyword(keyword) = self.advance().kind else {
            return Err(self.unexpected());
        };
        match keyword {
            Keyword::GRANT => self.grant(Keyword::TO),
            Keyword::REVOKE => self.grant(Keyword::FROM),
            Keyword::LIST => self.list_access(),
            Keyword::ATTACH => {
                self.service_level_word()?;
                let level = self.name_or_string()?;
                self.expect_word(Keyword::TO)?;
                Ok(AccessStatement::AttachServiceLevel { level, role: self.role()? })
            }
            _ => {
                self.service_level_word()?;
                self.expect_word(Keyword::FROM)?;
                Ok(AccessStatement::DetachServiceLevel { role: self.role()? })
            }
        }
    }

    /// The name of a role.
    fn role(&mut self) -> Result<Name> {
        self.name_or_string()
    }

    /// The name of a role, which keeps its case after `USER`.
    fn role_after(&mut self, word: RoleWord) -> Result<Name> {
        let token = self.token;
        let mut name = self.role()?;
        if word == RoleWord::User && matches!(token.kind, TokenKind::Word | TokenKind::Keyword(_)) {
            name.text = self.text_of(token).to_owned();
        }
        Ok(name)
    }

    pub(super) fn create_role(&mut self, word: RoleWord) -> Result<AccessStatement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.role_after(word)?;
        let options = self.options_of(word)?;
        Ok(AccessStatement::CreateRole(CreateRole { name, word, if_not_exists, options }))
    }

    pub(super) fn alter_role(&mut self, word: RoleWord) -> Result<AccessStatement> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.role_after(word)?;
        let options = self.options_of(word)?;
        Ok(AccessStatement::AlterRole(AlterRole { name, word, if_exists, options }))
    }

    pub(super) fn drop_role(&mut self, word: RoleWord) -> Result<AccessStatement> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.role_after(word)?;
        Ok(AccessStatement::DropRole(DropRole { name, word, if_exists }))
    }

    fn options_of(&mut self, word: RoleWord) -> Result<RoleOptions> {
        match word {
            RoleWord::Role => self.role_options(),
            RoleWord::User => self.user_options(),
        }
    }

    /// `[WITH [HASHED] PASSWORD 'p'] [SUPERUSER|NOSUPERUSER]`
    fn user_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.take_word(Keyword::WITH) {
            if self.take_word(Keyword::HASHED) {
                self.expect_word(Keyword::PASSWORD)?;
                options.hashed_password = Some(self.string()?);
            } else {
                self.expect_word(Keyword::PASSWORD)?;
                options.password = Some(self.string()?);
            }
        }
        if self.take_word(Keyword::SUPERUSER) {
            options.superuser = Some(true);
        } else if self.take_word(Keyword::NOSUPERUSER) {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    /// `[WITH PASSWORD = 'p' AND LOGIN = true ..]`
    fn role_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.take_word(Keyword::WITH) {
            return Ok(options);
        }
        loop {
            let option = self.token;
            let TokenKind::Keyword(keyword) = option.kind else { return Err(self.unexpected()) };
            self.advance();
            if keyword == Keyword::HASHED {
                self.expect_word(Keyword::PASSWORD)?;
            }
            self.expect(TokenKind::Equal, "'='")?;
            let twice = match keyword {
                Keyword::PASSWORD => options.password.replace(self.string()?).is_some(),
                Keyword::HASHED => options.hashed_password.replace(self.string()?).is_some(),
                Keyword::LOGIN => options.login.replace(self.boolean()?).is_some(),
                Keyword::SUPERUSER => options.superuser.replace(self.boolean()?).is_some(),
                Keyword::OPTIONS => options.options.replace(self.literal_map()?).is_some(),
                _ => {
                    self.token = option;
                    return Err(self.unexpected());
                }
            };
            if twice {
                self.token = option;
                let name = keyword.text().to_ascii_lowercase();
                return Err(self.error(format!("Multiple definition for property '{name}'")));
            }
            if !self.take_word(Keyword::AND) {
                return Ok(options);
            }
        }
    }

    /// `{k: v, ..}` of constants.
    fn literal_map(&mut self) -> Result<Vec<(Literal, Literal)>> {
        self.open(Bracket::Curly)?;
        self.list_until(Bracket::Curly, |parser| {
            let key = parser.literal()?;
            parser.expect(TokenKind::Colon, "':'")?;
            Ok((key, parser.literal()?))
        })
    }

    /// `role TO role`, or `permissions ON resource TO role`; the word is `TO` or `FROM`.
    fn grant(&mut self, word: Keyword) -> Result<AccessStatement> {
        if !self.is_permission() {
            let role = self.role()?;
            self.expect_word(word)?;
            let grant = RoleGrant { role, member: self.role()? };
            return Ok(match word {
                Keyword::TO => AccessStatement::GrantRole(grant),
                _ => AccessStatement::RevokeRole(grant),
            });
        }
        let permissions = self.permissions()?;
        self.expect_word(Keyword::ON)?;
        let resource = self.resource()?;
        self.expect_word(word)?;
        let grant = Grant { permissions, resource, role: self.role()? };
        Ok(match word {
            Keyword::TO => AccessStatement::Grant(grant),
            _ => AccessStatement::Revoke(grant),
        })
    }

    /// Whether permissions begin here, and not a role of such a name.
    fn is_permission(&self) -> bool {
        let known = self.is_word(Keyword::ALL) || self.permission_here().is_some();
        known
            && !matches!(self.peek(), TokenKind::Keyword(Keyword::TO))
            && !matches!(self.peek(), TokenKind::Keyword(Keyword::FROM))
    }

    fn permission_here(&self) -> Option<Permission> {
        let TokenKind::Keyword(keyword) = self.token.kind else { return None };
        Some(match keyword {
            Keyword::CREATE => Permission::Create,
            Keyword::ALTER => Permission::Alter,
            Keyword::DROP => Permission::Drop,
            Keyword::SELECT => Permission::Select,
            Keyword::MODIFY => Permission::Modify,
            Keyword::AUTHORIZE => Permission::Authorize,
            Keyword::DESCRIBE => Permission::Describe,
            Keyword::EXECUTE => Permission::Execute,
            Keyword::VECTOR_SEARCH_INDEXING => Permission::VectorSearchIndexing,
            Keyword::TEXT_SEARCH_INDEXING => Permission::TextSearchIndexing,
            _ => return None,
        })
    }

    /// `ALL [PERMISSIONS]` or `a [PERMISSION], b [PERMISSION]`
    fn permissions(&mut self) -> Result<Permissions> {
        if self.take_word(Keyword::ALL) {
            self.take_word(Keyword::PERMISSIONS);
            return Ok(Permissions::All);
        }
        Ok(Permissions::Some(self.list(|parser| {
            let permission = parser.permission_here().ok_or_else(|| parser.unexpected())?;
            parser.advance();
            if !parser.take_word(Keyword::PERMISSION) {
                parser.take_word(Keyword::PERMISSIONS);
            }
            Ok(permission)
        })?))
    }

    fn resource(&mut self) -> Result<Resource> {
        if self.take_words(Keyword::ALL, Keyword::KEYSPACES) {
            return Ok(Resource::AllKeyspaces);
        }
        if self.take_words(Keyword::ALL, Keyword::ROLES) {
            return Ok(Resource::AllRoles);
        }
        if self.take_words(Keyword::ALL, Keyword::FUNCTIONS) {
            if !self.take_word(Keyword::IN) {
                return Ok(Resource::AllFunctions);
            }
            self.expect_word(Keyword::KEYSPACE)?;
            return Ok(Resource::FunctionsIn(self.name()?));
        }
        if self.take_word(Keyword::KEYSPACE) {
            return Ok(Resource::Keyspace(self.name()?));
        }
        if self.take_word(Keyword::TABLE) || self.take_word(Keyword::COLUMNFAMILY) {
            return Ok(Resource::Table(self.qualified_name()?));
        }
        let names_kind = super::is_name(self.peek()) || matches!(self.peek(), TokenKind::String);
        if names_kind && self.take_word(Keyword::ROLE) {
            return Ok(Resource::Role(self.role()?));
        }
        if names_kind && self.take_word(Keyword::FUNCTION) {
            let name = self.qualified_name()?;
            self.open(Bracket::Round)?;
            let types = self.list_until(Bracket::Round, Self::type_name)?;
            return Ok(Resource::Function(name, types));
        }
        Ok(Resource::Table(self.qualified_name()?))
    }

    /// What follows `LIST`.
    fn list_access(&mut self) -> Result<AccessStatement> {
        let TokenKind::Keyword(keyword) = self.token.kind else { return Err(self.unexpected()) };
        match keyword {
            Keyword::ROLES => {
                self.advance();
                let of = self.of_role()?;
                let recursive = !self.take_word(Keyword::NORECURSIVE);
                Ok(AccessStatement::ListRoles(ListRoles { of, recursive }))
            }
            Keyword::USERS => {
                self.advance();
                Ok(AccessStatement::ListUsers)
            }
            Keyword::SERVICE
            | Keyword::SERVICE_LEVEL
            | Keyword::SERVICE_LEVELS
            | Keyword::ATTACHED
            | Keyword::EFFECTIVE => self.list_service_levels(),
            Keyword::ALL if self.is_service_next() => self.list_service_levels(),
            _ => {
                let permissions = self.permissions()?;
                let resource =
                    if self.take_word(Keyword::ON) { Some(self.resource()?) } else { None };
                let of = self.of_role()?;
                let recursive = !self.take_word(Keyword::NORECURSIVE);
                let list = ListPermissions { permissions, resource, of, recursive };
                Ok(AccessStatement::ListPermissions(list))
            }
        }
    }

    /// `OF role`, if `OF` is here.
    fn of_role(&mut self) -> Result<Option<Name>> {
        if self.take_word(Keyword::OF) { Ok(Some(self.role()?)) } else { Ok(None) }
    }

    fn is_service_next(&self) -> bool {
        matches!(
            self.peek(),
            TokenKind::Keyword(Keyword::SERVICE | Keyword::SERVICE_LEVELS | Keyword::ATTACHED)
        )
    }

    fn list_service_levels(&mut self) -> Result<AccessStatement> {
        let list = if self.take_words(Keyword::ALL, Keyword::ATTACHED) {
            self.service_levels_word()?;
            ListServiceLevels::AllAttached
        } else if self.take_word(Keyword::ALL) {
            self.service_levels_word()?;
            ListServiceLevels::All
        } else if self.take_word(Keyword::ATTACHED) {
            self.service_level_word()?;
            self.expect_word(Keyword::OF)?;
            ListServiceLevels::AttachedTo(self.role()?)
        } else if self.take_word(Keyword::EFFECTIVE) {
            self.service_level_word()?;
            self.expect_word(Keyword::OF)?;
            ListServiceLevels::EffectiveOf(self.role()?)
        } else if self.is_word(Keyword::SERVICE_LEVELS)
            || self.peek() == TokenKind::Keyword(Keyword::LEVELS)
        {
            self.service_levels_word()?;
            ListServiceLevels::All
        } else {
            self.service_level_word()?;
            ListServiceLevels::One(self.name_or_string()?)
        };
        Ok(AccessStatement::ListServiceLevels(list))
    }

    /// `SERVICE LEVEL` or `SERVICE_LEVEL`
    fn service_level_word(&mut self) -> Result<()> {
        if self.take_word(Keyword::SERVICE_LEVEL) {
            return Ok(());
        }
        self.expect_words(&[Keyword::SERVICE, Keyword::LEVEL])
    }

    /// `SERVICE LEVELS` or `SERVICE_LEVELS`
    fn service_levels_word(&mut self) -> Result<()> {
        if self.take_word(Keyword::SERVICE_LEVELS) {
            return Ok(());
        }
        self.expect_words(&[Keyword::SERVICE, Keyword::LEVELS])
    }

    pub(super) fn create_service_level(&mut self) -> Result<AccessStatement> {
        self.service_level_word()?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_or_string()?;
        let properties = self.optional_properties()?;
        let create = CreateServiceLevel { name, if_not_exists, properties };
        Ok(AccessStatement::CreateServiceLevel(create))
    }

    pub(super) fn alter_service_level(&mut self) -> Result<AccessStatement> {
        self.service_level_word()?;
        let name = self.name_or_string()?;
        let properties = self.optional_properties()?;
        Ok(AccessStatement::AlterServiceLevel(AlterServiceLevel { name, properties }))
    }

    pub(super) fn drop_service_level(&mut self) -> Result<AccessStatement> {
        self.service_level_word()?;
        let if_exists = self.if_exists();
        let name = self.name_or_string()?;
        Ok(AccessStatement::DropServiceLevel(DropServiceLevel { name, if_exists }))
    }
}
