//! Roles, grants and service levels as the statements that make them again: what
//! `DESCRIBE SCHEMA WITH INTERNALS` tells after the schema. Pure.
//!
//! Invariants
//!  - *in-order-of-need*: roles, memberships, permissions, service levels, and the roles to which
//!    these are attached.
//!  - *there-at-once*: what a new node has by itself, the superuser of its options and the service
//!    level [`DRIVER`], is made where it is missing and altered to what it is here; where it was
//!    dropped, it is dropped first, for the room that it takes.
//!  - *no-clear-text*: of a password there is a hash, and that only where it was asked for.

use super::Entry;
use auth::level::{DRIVER, SHARES};
use auth::state::{Granted, SERVICE_LEVEL};
use auth::{Resource, Role, ServiceLevel, State};
use model::Type;
use syntax::{quote_name, quote_string};

/// What is told.
pub(super) struct Told<'a> {
    pub(super) state: &'a State,
    /// The superuser that a node makes by itself.
    pub(super) superuser: &'a str,
    /// Whether permissions count, so that there is a use in telling them.
    pub(super) has_grants: bool,
    pub(super) has_hashes: bool,
}

impl Told<'_> {
    pub(super) fn entries(&self) -> Vec<Entry> {
        let state = self.state;
        let mut entries: Vec<Entry> =
            state.roles().map(|(name, role)| self.role(name, role)).collect();
        for (member, role) in state.roles() {
            entries.extend(role.member_of.iter().map(|role| grant_role(role, member)));
        }
        if self.has_grants {
            let names = state.roles().map(|(name, _)| name);
            entries.extend(names.flat_map(|name| state.grants_of(name)).flat_map(permissions));
        }
        if state.level(DRIVER).is_none() {
            entries.push(entry("service_level", DRIVER, drop_level(DRIVER)));
        }
        entries.extend(state.levels().flat_map(|(name, level)| service_level(name, level)));
        let attached = state.attachments().into_iter();
        entries.extend(attached.map(|(role, level)| {
            let create =
                format!("ATTACH SERVICE LEVEL {} TO {};", quote_name(level), quote_name(role));
            entry("service_level_attachment", level, create)
        }));
        entries
    }

    fn role(&self, name: &str, role: &Role) -> Entry {
        let is_there = if name == self.superuser { "IF NOT EXISTS " } else { "" };
        let mut options = Vec::new();
        if let Some(hash) = role.salted_hash.as_ref().filter(|_| self.has_hashes) {
            options.push(format!("HASHED PASSWORD = {}", quote_string(hash)));
        }
        options.push(format!("LOGIN = {}", role.can_login));
        options.push(format!("SUPERUSER = {}", role.is_superuser));
        let own = role.attributes.iter().filter(|(key, _)| *key != SERVICE_LEVEL);
        let own = own.map(|(key, value)| format!("{}: {}", quote_string(key), quote_string(value)));
        let own: Vec<String> = own.collect();
        if !own.is_empty() {
            options.push(format!("OPTIONS = {{{}}}", own.join(", ")));
        }
        let (shown, options) = (quote_name(name), options.join(" AND "));
        entry("role", name, format!("CREATE ROLE {is_there}{shown} WITH {options};"))
    }
}

fn entry(kind: &'static str, name: &str, create: String) -> Entry {
    Entry { keyspace: None, kind, name: name.to_owned(), create }
}

fn grant_role(role: &str, member: &str) -> Entry {
    let create = format!("GRANT {} TO {};", quote_name(role), quote_name(member));
    entry("grant_role", role, create)
}

fn permissions(granted: Granted) -> Vec<Entry> {
    let Granted { role, resource, permissions } = granted;
    let (on, to) = (on(&resource), quote_name(&role));
    let one = |permission| {
        entry("grant_permission", &role, format!("GRANT {permission} ON {on} TO {to};"))
    };
    permissions.iter().map(one).collect()
}

/// A resource as statements name it.
fn on(resource: &Resource) -> String {
    match resource {
        Resource::AllKeyspaces => "ALL KEYSPACES".to_owned(),
        Resource::Keyspace(keyspace) => format!("KEYSPACE {}", quote_name(keyspace)),
        Resource::Table { keyspace, table } => {
            format!("{}.{}", quote_name(keyspace), quote_name(table))
        }
        Resource::AllRoles => "ALL ROLES".to_owned(),
        Resource::Role(role) => format!("ROLE {}", quote_name(role)),
        Resource::AllFunctions => "ALL FUNCTIONS".to_owned(),
        Resource::FunctionsIn(keyspace) => {
            format!("ALL FUNCTIONS IN KEYSPACE {}", quote_name(keyspace))
        }
        Resource::Function { keyspace, name, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(argument).collect();
            let (keyspace, name) = (quote_name(keyspace), quote_name(name));
            format!("FUNCTION {keyspace}.{name}({})", arguments.join(", "))
        }
    }
}

/// Types of arguments are frozen without a word.
fn argument(ty: &Type) -> String {
    let text = ty.to_cql();
    match text.strip_prefix("frozen<").and_then(|text| text.strip_suffix('>')) {
        Some(inner) => inner.to_owned(),
        None => text,
    }
}

fn service_level(name: &str, level: &ServiceLevel) -> Vec<Entry> {
    let mut options = Vec::new();
    if let Some(timeout) = level.timeout {
        options.push(format!("TIMEOUT = {}ms", timeout.as_millis()));
    }
    if let Some(workload) = level.workload {
        options.push(format!("WORKLOAD_TYPE = {}", quote_string(workload.name())));
    }
    options.push(format!("SHARES = {}", level.shares.unwrap_or(SHARES)));
    let (shown, options) = (quote_name(name), options.join(" AND "));
    let statement =
        |words| entry("service_level", name, format!("{words} {shown} WITH {options};"));
    match name {
        DRIVER => {
            vec![statement("CREATE SERVICE LEVEL IF NOT EXISTS"), statement("ALTER SERVICE LEVEL")]
        }
        _ => vec![statement("CREATE SERVICE LEVEL")],
    }
}

fn drop_level(name: &str) -> String {
    format!("DROP SERVICE LEVEL IF EXISTS {};", quote_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::{Change, Permission, PermissionSet, Workload};
    use std::time::Duration;
    use syntax::parse;

    fn role(name: &str, is_superuser: bool, hash: Option<&str>) -> Change {
        Change::Role {
            name: name.to_owned(),
            can_login: is_superuser,
            is_superuser,
            salted_hash: hash.map(str::to_owned),
        }
    }

    fn level(name: &str, timeout: Option<u64>, shares: Option<u32>) -> Change {
        let workload = Some(Workload::Batch).filter(|_| name == DRIVER);
        let timeout = timeout.map(Duration::from_millis);
        let level = Some(ServiceLevel { timeout, workload, shares });
        Change::Level { name: name.to_owned(), level }
    }

    fn grants(role: &str, on: Resource, permissions: &[Permission]) -> Change {
        let permissions = PermissionSet::of(permissions);
        Change::Grants { role: role.to_owned(), resource: on.name(), permissions }
    }

    fn member(role: &str, member: &str) -> Change {
        Change::Member { role: role.to_owned(), member: member.to_owned(), is_member: true }
    }

    fn attribute(role: &str, name: &str, value: &str) -> Change {
        let (role, name) = (role.to_owned(), name.to_owned());
        Change::Attribute { role, name, value: Some(value.to_owned()) }
    }

    /// `kind name: statement` of each entry; each statement is one.
    #[track_caller]
    fn check(changes: Vec<Change>, has_grants: bool, has_hashes: bool, expected: &[&str]) {
        let state = State::of(changes);
        let told = Told { state: &state, superuser: "root", has_grants, has_hashes };
        let shown = |it: &Entry| {
            assert_eq!(it.keyspace, None);
            assert!(parse(it.create.trim_end_matches(';')).is_ok(), "{}", it.create);
            format!("{} {}: {}", it.kind, it.name, it.create)
        };
        assert_eq!(told.entries().iter().map(shown).collect::<Vec<_>>(), expected);
    }

    const NO_DRIVER: &str = "service_level driver: DROP SERVICE LEVEL IF EXISTS driver;";

    #[test]
    fn roles_with_and_without_hashes() {
        let changes = || {
            vec![
                role("root", true, Some("$6$a'b")),
                role("it's \"A\"", false, Some("$2b$c")),
                attribute("root", "k", "it's"),
                attribute("root", SERVICE_LEVEL, "gone"),
                member("it's \"A\"", "root"),
            ]
        };
        let grant = "grant_role it's \"A\": GRANT \"it's \"\"A\"\"\" TO root;";
        let open = [
            "role it's \"A\": CREATE ROLE \"it's \"\"A\"\"\" WITH LOGIN = false AND SUPERUSER = \
             false;",
            "role root: CREATE ROLE IF NOT EXISTS root WITH LOGIN = true AND SUPERUSER = true AND \
             OPTIONS = {'k': 'it''s'};",
            grant,
            NO_DRIVER,
        ];
        check(changes(), true, false, &open);
        let hashes = [
            "role it's \"A\": CREATE ROLE \"it's \"\"A\"\"\" WITH HASHED PASSWORD = '$2b$c' AND \
             LOGIN = false AND SUPERUSER = false;",
            "role root: CREATE ROLE IF NOT EXISTS root WITH HASHED PASSWORD = '$6$a''b' AND \
             LOGIN = true AND SUPERUSER = true AND OPTIONS = {'k': 'it''s'};",
            grant,
            NO_DRIVER,
        ];
        check(changes(), true, true, &hashes);
    }

    #[test]
    fn permissions_on_each_kind_of_resource() {
        use Permission::{Alter, Describe, Execute, Modify, Select};
        let list = Type::List { element: Box::new(Type::Int), frozen: false };
        let function = Resource::function("k", "F", &[Type::Int, list]);
        let changes = || {
            vec![
                role("r", false, None),
                grants("r", Resource::AllKeyspaces, &[Select, Modify]),
                grants("r", Resource::Keyspace("K".into()), &[Select]),
                grants("r", Resource::table("k", "t"), &[Select]),
                grants("r", Resource::AllRoles, &[Describe]),
                grants("r", Resource::Role("R".into()), &[Alter]),
                grants("r", Resource::AllFunctions, &[Execute]),
                grants("r", Resource::FunctionsIn("k".into()), &[Execute]),
                grants("r", function.clone(), &[Execute]),
            ]
        };
        let made = "role r: CREATE ROLE r WITH LOGIN = false AND SUPERUSER = false;";
        let expected = [
            made,
            "grant_permission r: GRANT SELECT ON ALL KEYSPACES TO r;",
            "grant_permission r: GRANT MODIFY ON ALL KEYSPACES TO r;",
            "grant_permission r: GRANT SELECT ON KEYSPACE \"K\" TO r;",
            "grant_permission r: GRANT SELECT ON k.t TO r;",
            "grant_permission r: GRANT EXECUTE ON ALL FUNCTIONS TO r;",
            "grant_permission r: GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE k TO r;",
            "grant_permission r: GRANT EXECUTE ON FUNCTION k.\"F\"(int, list<int>) TO r;",
            "grant_permission r: GRANT DESCRIBE ON ALL ROLES TO r;",
            "grant_permission r: GRANT ALTER ON ROLE \"R\" TO r;",
            NO_DRIVER,
        ];
        check(changes(), true, true, &expected);
        check(changes(), false, true, &[made, NO_DRIVER]);
    }

    #[test]
    fn service_levels_and_to_whom_they_are_attached() {
        let changes = vec![
            role("R", false, None),
            level("a", Some(90_000), None),
            level(DRIVER, None, Some(200)),
            attribute("R", SERVICE_LEVEL, "a"),
        ];
        let expected = [
            "role R: CREATE ROLE \"R\" WITH LOGIN = false AND SUPERUSER = false;",
            "service_level a: CREATE SERVICE LEVEL a WITH TIMEOUT = 90000ms AND SHARES = 1000;",
            "service_level driver: CREATE SERVICE LEVEL IF NOT EXISTS driver WITH WORKLOAD_TYPE \
             = 'batch' AND SHARES = 200;",
            "service_level driver: ALTER SERVICE LEVEL driver WITH WORKLOAD_TYPE = 'batch' AND \
             SHARES = 200;",
            "service_level_attachment a: ATTACH SERVICE LEVEL a TO \"R\";",
        ];
        check(changes, true, true, &expected);
    }
}
