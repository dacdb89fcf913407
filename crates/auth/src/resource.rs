//! What permissions are on, and under which names it is stored.
//!
//! Resources are three trees: `data/keyspace/table`, `roles/role` and
//! `functions/keyspace/function[types]`. A permission on a node holds for all below it. Types of
//! arguments are marshal class names, with `^` between them.

use crate::permission::{Permission, PermissionSet};
use model::Type;
use model::types::quote_identifier;
use std::fmt;

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    Table { keyspace: String, table: String },
    AllRoles,
    Role(String),
    AllFunctions,
    FunctionsIn(String),
    Function { keyspace: String, name: String, arguments: Vec<Type> },
}

impl Resource {
    /// The table of that name.
    pub fn table(keyspace: &str, table: &str) -> Resource {
        Resource::Table { keyspace: keyspace.to_owned(), table: table.to_owned() }
    }

    /// The function or aggregate that takes these arguments.
    pub fn function(keyspace: &str, name: &str, arguments: &[Type]) -> Resource {
        Resource::Function {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            arguments: arguments.iter().map(Type::freeze).collect(),
        }
    }

    /// As `system.role_permissions` has it.
    pub fn name(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".to_owned(),
            Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
            Resource::Table { keyspace, table } => format!("data/{keyspace}/{table}"),
            Resource::AllRoles => "roles".to_owned(),
            Resource::Role(role) => format!("roles/{role}"),
            Resource::AllFunctions => "functions".to_owned(),
            Resource::FunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Resource::Function { keyspace, name, arguments } => {
                let types: Vec<String> = arguments.iter().map(Type::to_class_name).collect();
                format!("functions/{keyspace}/{name}[{}]", types.join("^"))
            }
        }
    }

    /// The resource of a stored name; `None` when it is none.
    pub fn parse(name: &str) -> Option<Resource> {
        let (tree, rest) = match name.split_once('/') {
            Some((tree, rest)) => (tree, Some(rest)),
            None => (name, None),
        };
        Some(match (tree, rest) {
            ("data", None) => Resource::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Resource::Keyspace(rest.to_owned()),
                Some((keyspace, table)) => Resource::table(keyspace, table),
            },
            ("roles", None) => Resource::AllRoles,
            ("roles", Some(role)) => Resource::Role(role.to_owned()),
            ("functions", None) => Resource::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Resource::FunctionsIn(rest.to_owned()),
                Some((keyspace, signature)) => {
                    let (name, types) = signature.strip_suffix(']')?.rsplit_once('[')?;
                    let types = types.split('^').filter(|class| !class.is_empty());
                    let types = types.map(|class| Some(Type::from_class_name(class)?.0));
                    Resource::function(keyspace, name, &types.collect::<Option<Vec<Type>>>()?)
                }
            },
            _ => return None,
        })
    }

    /// The one above it, from which permissions flow down.
    pub fn parent(&self) -> Option<Resource> {
        match self {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => None,
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::Table { keyspace, .. } => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::FunctionsIn(_) => Some(Resource::AllFunctions),
            Resource::Function { keyspace, .. } => Some(Resource::FunctionsIn(keyspace.clone())),
        }
    }

    /// The permissions that it makes sense to have on it.
    pub fn applicable(&self) -> PermissionSet {
        use Permission::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, TextSearchIndexing,
            VectorSearchIndexing,
        };
        match self {
            Resource::AllKeyspaces => PermissionSet::of(&[
                Create,
                Alter,
                Drop,
                Select,
                Modify,
                Authorize,
                VectorSearchIndexing,
                TextSearchIndexing,
            ]),
            Resource::Keyspace(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Select, Modify, Authorize])
            }
            Resource::Table { .. } => PermissionSet::of(&[Alter, Drop, Select, Modify, Authorize]),
            Resource::AllRoles => PermissionSet::of(&[Create, Alter, Drop, Authorize, Describe]),
            Resource::Role(_) => PermissionSet::of(&[Alter, Drop, Authorize]),
            Resource::AllFunctions | Resource::FunctionsIn(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Authorize, Execute])
            }
            Resource::Function { .. } => PermissionSet::of(&[Alter, Drop, Authorize, Execute]),
        }
    }
}

/// As messages and LIST PERMISSIONS show it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Resource::Table { keyspace, table } => write!(f, "<table {keyspace}.{table}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(role) => write!(f, "<role {role}>"),
            Resource::AllFunctions => f.write_str("<all functions>"),
            Resource::FunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::Function { keyspace, name, arguments } => {
                let types: Vec<String> = arguments.iter().map(Type::to_cql).collect();
                let name = quote_identifier(name);
                write!(f, "<function {keyspace}.{name}({})>", types.join(", "))
            }
        }
    }
}

/// A permission that a statement needs. Holds the names under which it may have been granted, so
/// that a check allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub permission: Permission,
    pub resource: Resource,
    names: Vec<Box<str>>,
}

impl Need {
    pub fn new(permission: Permission, resource: Resource) -> Need {
        let mut names = vec![resource.name().into_boxed_str()];
        let mut next = resource.parent();
        while let Some(parent) = next {
            names.push(parent.name().into_boxed_str());
            next = parent.parent();
        }
        Need { permission, resource, names }
    }

    /// The stored names of the resource and of those above it, from below.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, arguments: &[Type]) -> Resource {
        Resource::function("ks", name, arguments)
    }

    #[test]
    fn stored_names_shown_names_and_trees() {
        let list = Type::List { element: Box::new(Type::Int), frozen: false };
        let package = "org.apache.cassandra.db.marshal";
        let cases: Vec<(Resource, String, &str, &[&str])> = vec![
            (Resource::AllKeyspaces, "data".into(), "<all keyspaces>", &[]),
            (Resource::Keyspace("ks".into()), "data/ks".into(), "<keyspace ks>", &["data"]),
            (Resource::table("ks", "t"), "data/ks/t".into(), "<table ks.t>", &["data/ks", "data"]),
            (Resource::AllRoles, "roles".into(), "<all roles>", &[]),
            (Resource::Role("a/b".into()), "roles/a/b".into(), "<role a/b>", &["roles"]),
            (Resource::AllFunctions, "functions".into(), "<all functions>", &[]),
            (
                Resource::FunctionsIn("ks".into()),
                "functions/ks".into(),
                "<all functions in ks>",
                &["functions"],
            ),
            (
                function("f", &[Type::BigInt, Type::Int]),
                format!("functions/ks/f[{package}.LongType^{package}.Int32Type]"),
                "<function ks.f(bigint, int)>",
                &["functions/ks", "functions"],
            ),
            (
                function("a[b^c]/d", &[]),
                "functions/ks/a[b^c]/d[]".into(),
                "<function ks.\"a[b^c]/d\"()>",
                &["functions/ks", "functions"],
            ),
            (
                function("f", &[list]),
                format!(
                    "functions/ks/f[{package}.FrozenType({package}.ListType({package}.\
                         Int32Type))]"
                ),
                "<function ks.f(frozen<list<int>>)>",
                &["functions/ks", "functions"],
            ),
        ];
        for (resource, name, shown, above) in cases {
            assert_eq!(resource.name(), name);
            assert_eq!(resource.to_string(), shown);
            assert_eq!(Resource::parse(&name), Some(resource.clone()), "{name}");
            let need = Need::new(Permission::Alter, resource);
            let names: Vec<&str> = need.names().iter().map(|name| &**name).collect();
            assert_eq!(names[0], name);
            assert_eq!(&names[1..], above);
        }
    }

    #[test]
    fn what_is_no_resource_is_none() {
        for name in ["", "x", "dat", "functions/ks/f", "functions/ks/f[", "functions/ks/f[(]"] {
            assert_eq!(Resource::parse(name), None, "{name}");
        }
    }

    #[test]
    fn permissions_apply_to_some_resources() {
        let check = |resource: Resource, expected: &str| {
            let names: Vec<&str> = resource.applicable().iter().map(Permission::name).collect();
            assert_eq!(names.join(" "), expected, "{resource}");
        };
        check(
            Resource::AllKeyspaces,
            "CREATE ALTER DROP SELECT MODIFY AUTHORIZE VECTOR_SEARCH_INDEXING \
             TEXT_SEARCH_INDEXING",
        );
        check(Resource::Keyspace("k".into()), "CREATE ALTER DROP SELECT MODIFY AUTHORIZE");
        check(Resource::table("k", "t"), "ALTER DROP SELECT MODIFY AUTHORIZE");
        check(Resource::AllRoles, "CREATE ALTER DROP AUTHORIZE DESCRIBE");
        check(Resource::Role("r".into()), "ALTER DROP AUTHORIZE");
        check(Resource::AllFunctions, "CREATE ALTER DROP AUTHORIZE EXECUTE");
        check(Resource::FunctionsIn("k".into()), "CREATE ALTER DROP AUTHORIZE EXECUTE");
        check(function("f", &[]), "ALTER DROP AUTHORIZE EXECUTE");
    }
}
