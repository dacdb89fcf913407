//! Roles, permissions, service levels and `DESCRIBE`.

use std::fmt::{self, Display, Formatter};

use super::schema::{if_exists, if_not_exists, with};
use super::{And, commas, quote_string};
use crate::ast::{
    AccessStatement, AlterRole, CreateRole, Describe, Described, DropRole, ListPermissions,
    ListServiceLevels, Name, Permission, Permissions, Resource, RoleOptions, RoleWord,
};

impl Display for AccessStatement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AccessStatement::CreateRole(create) => write!(f, "{create}"),
            AccessStatement::AlterRole(alter) => write!(f, "{alter}"),
            AccessStatement::DropRole(drop) => write!(f, "{drop}"),
            AccessStatement::GrantRole(grant) => {
                write!(f, "GRANT {} TO {}", grant.role, grant.member)
            }
            AccessStatement::RevokeRole(grant) => {
                write!(f, "REVOKE {} FROM {}", grant.role, grant.member)
            }
            AccessStatement::ListRoles(list) => {
                f.write_str("LIST ROLES")?;
                of(f, list.of.as_ref(), list.recursive)
            }
            AccessStatement::ListUsers => f.write_str("LIST USERS"),
            AccessStatement::Grant(grant) => {
                write!(f, "GRANT {} ON {} TO {}", grant.permissions, grant.resource, grant.role)
            }
            AccessStatement::Revoke(grant) => {
                write!(f, "REVOKE {} ON {} FROM {}", grant.permissions, grant.resource, grant.role)
            }
            AccessStatement::ListPermissions(list) => write!(f, "{list}"),
            AccessStatement::CreateServiceLevel(create) => {
                let guard = if_not_exists(create.if_not_exists);
                write!(f, "CREATE SERVICE LEVEL {guard}{}", create.name)?;
                with(f, &create.properties)
            }
            AccessStatement::AlterServiceLevel(alter) => {
                write!(f, "ALTER SERVICE LEVEL {}", alter.name)?;
                with(f, &alter.properties)
            }
            AccessStatement::DropServiceLevel(drop) => {
                write!(f, "DROP SERVICE LEVEL {}{}", if_exists(drop.if_exists), drop.name)
            }
            AccessStatement::AttachServiceLevel { level, role } => {
                write!(f, "ATTACH SERVICE LEVEL {level} TO {role}")
            }
            AccessStatement::DetachServiceLevel { role } => {
                write!(f, "DETACH SERVICE LEVEL FROM {role}")
            }
            AccessStatement::ListServiceLevels(list) => write!(f, "{list}"),
        }
    }
}

/// ` OF role NORECURSIVE`
fn of(f: &mut Formatter<'_>, role: Option<&Name>, recursive: bool) -> fmt::Result {
    if let Some(role) = role {
        write!(f, " OF {role}")?;
    }
    f.write_str(if recursive { "" } else { " NORECURSIVE" })
}

impl Display for RoleWord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RoleWord::Role => "ROLE",
            RoleWord::User => "USER",
        })
    }
}

impl Display for CreateRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let guard = if_not_exists(self.if_not_exists);
        write!(f, "CREATE {} {guard}{}", self.word, self.name)?;
        options(f, self.word, &self.options)
    }
}

impl Display for AlterRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER {} {}{}", self.word, if_exists(self.if_exists), self.name)?;
        options(f, self.word, &self.options)
    }
}

impl Display for DropRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP {} {}{}", self.word, if_exists(self.if_exists), self.name)
    }
}

fn options(f: &mut Formatter<'_>, word: RoleWord, options: &RoleOptions) -> fmt::Result {
    let mut and = And::after("WITH");
    let equals = match word {
        RoleWord::Role => "= ",
        RoleWord::User => "",
    };
    if let Some(password) = &options.password {
        and.print(f, format_args!("PASSWORD {equals}{}", quote_string(password)))?;
    }
    if let Some(password) = &options.hashed_password {
        and.print(f, format_args!("HASHED PASSWORD {equals}{}", quote_string(password)))?;
    }
    if word == RoleWord::User {
        return f.write_str(match options.superuser {
            None => "",
            Some(true) => " SUPERUSER",
            Some(false) => " NOSUPERUSER",
        });
    }
    if let Some(login) = options.login {
        and.print(f, format_args!("LOGIN = {login}"))?;
    }
    if let Some(superuser) = options.superuser {
        and.print(f, format_args!("SUPERUSER = {superuser}"))?;
    }
    if let Some(entries) = &options.options {
        and.print(f, "OPTIONS = {")?;
        commas(f, entries, |(key, value), f| write!(f, "{key}: {value}"))?;
        f.write_str("}")?;
    }
    Ok(())
}

impl Display for Permissions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Permissions::All => f.write_str("ALL PERMISSIONS"),
            Permissions::Some(some) => commas(f, some, Display::fmt),
        }
    }
}

impl Display for Permission {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::VectorSearchIndexing => "VECTOR_SEARCH_INDEXING",
            Permission::TextSearchIndexing => "TEXT_SEARCH_INDEXING",
        })
    }
}

impl Display for Resource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("ALL KEYSPACES"),
            Resource::Keyspace(keyspace) => write!(f, "KEYSPACE {keyspace}"),
            Resource::Table(table) => write!(f, "TABLE {table}"),
            Resource::AllRoles => f.write_str("ALL ROLES"),
            Resource::Role(role) => write!(f, "ROLE {role}"),
            Resource::AllFunctions => f.write_str("ALL FUNCTIONS"),
            Resource::FunctionsIn(keyspace) => write!(f, "ALL FUNCTIONS IN KEYSPACE {keyspace}"),
            Resource::Function(name, types) => {
                write!(f, "FUNCTION {name}(")?;
                commas(f, types, Display::fmt)?;
                f.write_str(")")
            }
        }
    }
}

impl Display for ListPermissions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "LIST {}", self.permissions)?;
        if let Some(resource) = &self.resource {
            write!(f, " ON {resource}")?;
        }
        of(f, self.of.as_ref(), self.recursive)
    }
}

impl Display for ListServiceLevels {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ListServiceLevels::One(level) => write!(f, "LIST SERVICE LEVEL {level}"),
            ListServiceLevels::All => f.write_str("LIST ALL SERVICE LEVELS"),
            ListServiceLevels::AttachedTo(role) => {
                write!(f, "LIST ATTACHED SERVICE LEVEL OF {role}")
            }
            ListServiceLevels::AllAttached => f.write_str("LIST ALL ATTACHED SERVICE LEVELS"),
            ListServiceLevels::EffectiveOf(role) => {
                write!(f, "LIST EFFECTIVE SERVICE LEVEL OF {role}")
            }
        }
    }
}

impl Display for Describe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE {}", self.what)?;
        f.write_str(match (self.internals, self.passwords) {
            (false, _) => "",
            (true, false) => " WITH INTERNALS",
            (true, true) => " WITH INTERNALS AND PASSWORDS",
        })
    }
}

impl Display for Described {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Described::Cluster => f.write_str("CLUSTER"),
            Described::Schema => f.write_str("SCHEMA"),
            Described::FullSchema => f.write_str("FULL SCHEMA"),
            Described::Keyspaces => f.write_str("KEYSPACES"),
            Described::Keyspace(None) => f.write_str("KEYSPACE"),
            Described::Keyspace(Some(name)) => write!(f, "KEYSPACE {name}"),
            Described::OnlyKeyspace(None) => f.write_str("ONLY KEYSPACE"),
            Described::OnlyKeyspace(Some(name)) => write!(f, "ONLY KEYSPACE {name}"),
            Described::Tables => f.write_str("TABLES"),
            Described::Table(name) => write!(f, "TABLE {name}"),
            Described::Index(name) => write!(f, "INDEX {name}"),
            Described::View(name) => write!(f, "MATERIALIZED VIEW {name}"),
            Described::Types => f.write_str("TYPES"),
            Described::Type(name) => write!(f, "TYPE {name}"),
            Described::Functions => f.write_str("FUNCTIONS"),
            Described::Function(name) => write!(f, "FUNCTION {name}"),
            Described::Aggregates => f.write_str("AGGREGATES"),
            Described::Aggregate(name) => write!(f, "AGGREGATE {name}"),
            Described::Any(name) => write!(f, "{name}"),
        }
    }
}
