//! Roles, permissions and service levels.

use super::{Literal, Name, Property, QualifiedName, Type};

/// A statement about roles, permissions or service levels.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessStatement {
    /// `CREATE ROLE ..` or `CREATE USER ..`
    CreateRole(CreateRole),
    /// `ALTER ROLE ..` or `ALTER USER ..`
    AlterRole(AlterRole),
    /// `DROP ROLE ..` or `DROP USER ..`
    DropRole(DropRole),
    /// `GRANT role TO role`
    GrantRole(RoleGrant),
    /// `REVOKE role FROM role`
    RevokeRole(RoleGrant),
    /// `LIST ROLES ..`
    ListRoles(ListRoles),
    /// `LIST USERS`
    ListUsers,
    /// `GRANT .. ON .. TO ..`
    Grant(Grant),
    /// `REVOKE .. ON .. FROM ..`
    Revoke(Grant),
    /// `LIST .. PERMISSIONS ..`
    ListPermissions(ListPermissions),
    /// `CREATE SERVICE LEVEL ..`
    CreateServiceLevel(CreateServiceLevel),
    /// `ALTER SERVICE LEVEL ..`
    AlterServiceLevel(AlterServiceLevel),
    /// `DROP SERVICE LEVEL ..`
    DropServiceLevel(DropServiceLevel),
    /// `ATTACH SERVICE LEVEL .. TO ..`
    AttachServiceLevel {
        /// The service level.
        level: Name,
        /// The grantee.
        role: Name,
    },
    /// `DETACH SERVICE LEVEL FROM ..`
    DetachServiceLevel {
        /// The role that it is revoked from.
        role: Name,
    },
    /// `LIST .. SERVICE LEVEL ..`
    ListServiceLevels(ListServiceLevels),
}

/// Which word was written; `USER` is the older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoleWord {
    /// `ROLE`
    Role,
    /// `USER`: a role that may log in. Its name keeps its case.
    User,
}

/// `CREATE ROLE [IF NOT EXISTS] name [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    /// Its name.
    pub name: Name,
    /// `ROLE` or `USER`.
    pub word: RoleWord,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ..`
    pub options: RoleOptions,
}

/// `ALTER ROLE [IF EXISTS] name [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRole {
    /// Its name.
    pub name: Name,
    /// `ROLE` or `USER`.
    pub word: RoleWord,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ..`
    pub options: RoleOptions,
}

/// `DROP ROLE [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq)]
pub struct DropRole {
    /// Its name.
    pub name: Name,
    /// `ROLE` or `USER`.
    pub word: RoleWord,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// What `WITH` says of a role. Each at most once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoleOptions {
    /// `PASSWORD = 'clear text'`
    pub password: Option<String>,
    /// `HASHED PASSWORD = 'salted hash'`
    pub hashed_password: Option<String>,
    /// `LOGIN = true`
    pub login: Option<bool>,
    /// `SUPERUSER = true`
    pub superuser: Option<bool>,
    /// `OPTIONS = {'a': 'b'}`
    pub options: Option<Vec<(Literal, Literal)>>,
}

/// `GRANT role TO member` or `REVOKE role FROM member`
#[derive(Clone, Debug, PartialEq)]
pub struct RoleGrant {
    /// What is granted.
    pub role: Name,
    /// The role.
    pub member: Name,
}

/// `LIST ROLES [OF role] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq)]
pub struct ListRoles {
    /// `OF role`
    pub of: Option<Name>,
    /// Not `NORECURSIVE`.
    pub recursive: bool,
}

/// `GRANT permissions ON resource TO role` or `REVOKE .. FROM role`
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Which permissions.
    pub permissions: Permissions,
    /// On what.
    pub resource: Resource,
    /// The role.
    pub role: Name,
}

/// `LIST permissions [ON resource] [OF role] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq)]
pub struct ListPermissions {
    /// Which permissions.
    pub permissions: Permissions,
    /// On what; `None` for everything.
    pub resource: Option<Resource>,
    /// Whose; `None` for everybody's.
    pub of: Option<Name>,
    /// Not `NORECURSIVE`.
    pub recursive: bool,
}

/// Which permissions.
#[derive(Clone, Debug, PartialEq)]
pub enum Permissions {
    /// `ALL [PERMISSIONS]`
    All,
    /// `SELECT, MODIFY`, never empty.
    Some(Vec<Permission>),
}

/// What may be granted, by the keyword that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// `CREATE`
    Create,
    /// `ALTER`
    Alter,
    /// `DROP`
    Drop,
    /// `SELECT`
    Select,
    /// `MODIFY`
    Modify,
    /// `AUTHORIZE`
    Authorize,
    /// `DESCRIBE`
    Describe,
    /// `EXECUTE`
    Execute,
    /// `VECTOR_SEARCH_INDEXING`
    VectorSearchIndexing,
    /// `TEXT_SEARCH_INDEXING`
    TextSearchIndexing,
}

/// What a permission is on.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// `ALL KEYSPACES`
    AllKeyspaces,
    /// `KEYSPACE ks`
    Keyspace(Name),
    /// `[TABLE] t`
    Table(QualifiedName),
    /// `ALL ROLES`
    AllRoles,
    /// `ROLE r`
    Role(Name),
    /// `ALL FUNCTIONS`
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE ks`
    FunctionsIn(Name),
    /// `FUNCTION f(types)`
    Function(QualifiedName, Vec<Type>),
}

/// `CREATE SERVICE LEVEL [IF NOT EXISTS] name [WITH ..]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateServiceLevel {
    /// Its name.
    pub name: Name,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ..`
    pub properties: Vec<Property>,
}

/// `ALTER SERVICE LEVEL name WITH ..`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterServiceLevel {
    /// Its name.
    pub name: Name,
    /// `WITH ..`
    pub properties: Vec<Property>,
}

/// `DROP SERVICE LEVEL [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq)]
pub struct DropServiceLevel {
    /// Its name.
    pub name: Name,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `LIST .. SERVICE LEVEL ..`
#[derive(Clone, Debug, PartialEq)]
pub enum ListServiceLevels {
    /// `LIST SERVICE LEVEL name`
    One(Name),
    /// `LIST [ALL] SERVICE LEVELS`
    All,
    /// `LIST ATTACHED SERVICE LEVEL OF role`
    AttachedTo(Name),
    /// `LIST ALL ATTACHED SERVICE LEVELS`
    AllAttached,
    /// `LIST EFFECTIVE SERVICE LEVEL OF role`
    EffectiveOf(Name),
}
