//! Access control as every shard of the node knows it: roles and grants and how they change, and
//! the configured authenticator and authorizer.
//!
//! Invariants
//!  - *durable-before-visible*: no shard shows a role or a grant that a crash could take back.
//!  - *shown-before-answered*: a change is visible on all shards before it is acknowledged, so
//!    nothing is decided on an old state, and no cache has to expire.
//!  - *one-writer*: changes are made one at a time, on shard 0, in one queue with those of the
//!    schema.

use crate::access_tables;
use crate::boot;
use crate::levels::{self, Groups};
use crate::local_rows;
use crate::registry::{ChangeError, Cluster};
use crate::schema::{Schema, SchemaChange};
pub use auth::certificate;
use auth::certificate::Queries;
use auth::decide::{Otherwise, RoleOptions};
use auth::level::DRIVER;
use auth::{Change, Resource, ServiceLevel, State};
use model::TableSchema;
use mutation::FrozenMutation;
use runtime::group::Group;
use runtime::task::compute;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use storage::Storage;

/// The key in `system.scylla_local` of when roles or grants changed last.
pub(crate) const LAST_CHANGE_KEY: &str = "nereid_access_changed_at";
/// The key in `system.scylla_local` of that the service level of drivers was made once.
const DRIVER_LEVEL_KEY: &str = "service_level_driver_created";
/// The default superuser, and its password.
const DEFAULT_SUPERUSER: &str = "cassandra";

/// How clients log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticator {
    /// None: clients may do everything that requires no role.
    AllowAll,
    /// By name and password.
    Password,
    /// By name and password; clients without one, or with a wrong one, are anonymous.
    Transitional,
    /// By the certificate that they show in their TLS handshake.
    Certificate,
    /// By certificate; clients without one, by name and password.
    CertificateOrPassword,
}

/// What a client has to do to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Nothing.
    Free,
    /// To have shown a certificate that names a role.
    ByCertificate,
    /// To send a name and a password, asked for in the name of this class.
    ByPassword(&'static str),
}

/// Whether permissions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// They do not.
    AllowAll,
    /// They do.
    Cassandra,
    /// Those to authorize and to execute do; data is everybody's.
    Transitional,
}

/// The part of a class name that follows the package, without regard to letters' case.
fn simple(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
}

impl Authenticator {
    /// By the name that an operator gives, with or without its package.
    pub fn by_name(name: &str) -> Option<Authenticator> {
        Some(match simple(name).as_str() {
            "allowallauthenticator" => Authenticator::AllowAll,
            "passwordauthenticator" => Authenticator::Password,
            "transitionalauthenticator" => Authenticator::Transitional,
            "certificateauthenticator" => Authenticator::Certificate,
            "certificateorpasswordauthenticator" => Authenticator::CertificateOrPassword,
            _ => return None,
        })
    }

    /// What is asked of a client that has shown a certificate, or none.
    pub fn login(self, shows_certificate: bool) -> Login {
        match self {
            Authenticator::AllowAll => Login::Free,
            Authenticator::Certificate => Login::ByCertificate,
            Authenticator::CertificateOrPassword if shows_certificate => Login::ByCertificate,
            // Drivers know this class, and send a name and a password.
            Authenticator::Password
            | Authenticator::Transitional
            | Authenticator::CertificateOrPassword => {
                Login::ByPassword("org.apache.cassandra.auth.PasswordAuthenticator")
            }
        }
    }

    /// Whether certificates of clients are looked at.
    pub fn reads_certificates(self) -> bool {
        matches!(self, Authenticator::Certificate | Authenticator::CertificateOrPassword)
    }
}

impl Authorizer {
    /// By the name that an operator gives, with or without its package.
    pub fn by_name(name: &str) -> Option<Authorizer> {
        Some(match simple(name).as_str() {
            "allowallauthorizer" => Authorizer::AllowAll,
            "cassandraauthorizer" => Authorizer::Cassandra,
            "transitionalauthorizer" => Authorizer::Transitional,
            _ => return None,
        })
    }
}

/// What an operator says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    /// Of a superuser that is to be there; empty: none is named.
    pub superuser: String,
    /// Its hashed password; empty: it has none yet.
    pub superuser_salted_password: String,
    /// The role of a certificate.
    pub certificate_roles: Queries,
}

/// What one shard knows.
#[derive(Debug)]
pub struct Access {
    state: RefCell<State>,
    /// Of the service levels that `state` has.
    pub(crate) groups: RefCell<Groups>,
    authenticator: Cell<Authenticator>,
    authorizer: Cell<Authorizer>,
    /// Of the name in the options; empty: none is named.
    superuser: RefCell<String>,
    certificate_roles: RefCell<Option<Rc<Queries>>>,
}

impl Access {
    pub(crate) fn new(state: State) -> Access {
        let mut groups = Groups::default();
        let gone = groups.arrange(&state);
        assert!(gone.is_empty(), "there were none");
        Access {
            state: RefCell::new(state),
            groups: RefCell::new(groups),
            authenticator: Cell::new(Authenticator::AllowAll),
            authorizer: Cell::new(Authorizer::AllowAll),
            superuser: RefCell::default(),
            certificate_roles: RefCell::default(),
        }
    }

    /// All roles, grants and service levels. Not to be held across an await.
    pub fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// How clients log in.
    pub fn authenticator(&self) -> Authenticator {
        self.authenticator.get()
    }

    /// Whether permissions count.
    pub fn authorizer(&self) -> Authorizer {
        self.authorizer.get()
    }

    /// The superuser that a new node of these options makes.
    pub fn superuser(&self) -> String {
        match &**self.superuser.borrow() {
            "" => DEFAULT_SUPERUSER.to_owned(),
            name => name.to_owned(),
        }
    }

    /// The role of a certificate; `None` before it was configured.
    pub fn certificate_roles(&self) -> Option<Rc<Queries>> {
        self.certificate_roles.borrow().clone()
    }

    /// Carries changes out; the groups that are to be retired after all shards have.
    #[must_use]
    pub(crate) fn show(&self, changes: Vec<Change>) -> Vec<Group> {
        let of_levels = changes.iter().any(|change| matches!(change, Change::Level { .. }));
        let mut state = self.state.borrow_mut();
        changes.into_iter().for_each(|change| state.apply(change));
        drop(state);
        if of_levels { self.arrange_groups() } else { Vec::new() }
    }
}

/// What a change of the schema means for grants: what goes takes those on it along, and who
/// creates a keyspace or a table has all on it. Functions are not given to who creates them, as in
/// ScyllaDB, so that replacing them needs permission.
pub(crate) fn consequences(
    state: &State,
    before: &Schema,
    change: &SchemaChange,
    creator: Option<&str>,
) -> Vec<Change> {
    let created = |resources: &[Resource]| -> Vec<Change> {
        let Some(creator) = creator else { return Vec::new() };
        resources.iter().filter_map(|it| state.grant_to_creator(creator, it)).collect()
    };
    match change {
        SchemaChange::CreateKeyspace(it) => {
            created(&[Resource::Keyspace(it.name.clone()), Resource::FunctionsIn(it.name.clone())])
        }
        SchemaChange::CreateTable(it) if before.table(&it.keyspace, &it.name).is_none() => {
            created(&[Resource::table(&it.keyspace, &it.name)])
        }
        SchemaChange::DropKeyspace(name) => {
            let mut gone = state.revoke_all_on(&Resource::Keyspace(name.clone()));
            gone.extend(state.revoke_all_on(&Resource::FunctionsIn(name.clone())));
            gone
        }
        SchemaChange::DropTable { keyspace, name } => {
            state.revoke_all_on(&Resource::table(keyspace, name))
        }
        SchemaChange::DropFunction { keyspace, name, arguments }
        | SchemaChange::DropAggregate { keyspace, name, arguments } => {
            state.revoke_all_on(&Resource::function(keyspace, name, arguments))
        }
        _ => Vec::new(),
    }
}

impl Cluster {
    /// Whether roles or grants change by writing into that table.
    pub fn is_access_table(table: &TableSchema) -> bool {
        access_tables::is_one(table)
    }

    /// Changes roles, grants or service levels. `decide` runs on shard 0, alone, and sees them as
    /// they are then; what it returns is made durable as one, then shown on every shard. Returns
    /// whether anything changed.
    ///
    /// Once begun it runs to its end, also when the returned future is dropped.
    pub async fn change_access<E, F>(&self, decide: F) -> Result<bool, ChangeError<E>>
    where
        F: FnOnce(&State) -> Result<Vec<Change>, E> + Send + 'static,
        E: Send + 'static,
    {
        self.in_turn(move |cluster| async move {
            let changes = decide(&cluster.access().state()).map_err(ChangeError::Refused)?;
            if changes.is_empty() {
                return Ok(false);
            }
            let timestamp = cluster.next_timestamp();
            let written = cluster.access_mutations(&changes, timestamp);
            let storage = runtime::local::get::<Storage>();
            let applied = storage.apply_all(written).await;
            applied.map_err(|error| ChangeError::Failed(error.to_string()))?;
            show(changes).await;
            Ok(true)
        })
        .await
    }

    /// The rows of changes, with the time at which they were made.
    pub(crate) fn access_mutations(&self, changes: &[Change], at: i64) -> Vec<FrozenMutation> {
        let schema = self.schema();
        let mut written = access_tables::mutations(&schema, changes, at);
        written.push(local_rows::fact(&schema, LAST_CHANGE_KEY, &at.to_string(), at));
        written
    }

    /// Reads the tables again, after a superuser has written into them.
    pub async fn reload_access(&self) -> Result<(), ChangeError<String>> {
        self.in_turn(|_| async move {
            let storage = runtime::local::get::<Storage>();
            let state = read(&storage).await.map_err(|it| ChangeError::Failed(it.to_string()))?;
            let show = move || async move {
                let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
                let before = cluster.access().state.take();
                cluster.access().state.replace(state.replacing(&before));
                cluster.access().arrange_groups()
            };
            levels::retire(runtime::on_all_shards(show).await);
            Ok(())
        })
        .await
    }

    /// Obeys what an operator says, and makes the superuser that is to be there. Runs once, before
    /// clients are served.
    pub async fn secure(&self, config: AccessConfig) -> Result<(), String> {
        let (authenticator, authorizer) = (config.authenticator, config.authorizer);
        let (roles, superuser) = (config.certificate_roles, config.superuser.clone());
        runtime::on_all_shards(move || {
            let (roles, superuser) = (roles.clone(), superuser.clone());
            async move {
                let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
                let access = cluster.access();
                access.superuser.replace(superuser);
                access.authenticator.set(authenticator);
                access.authorizer.set(authorizer);
                access.certificate_roles.replace(Some(Rc::new(roles)));
            }
        })
        .await;
        let made = self.make_driver_level().await;
        made.map_err(|error| format!("cannot create service level {DRIVER}: {error}"))?;
        if authenticator == Authenticator::AllowAll && config.superuser.is_empty() {
            return Ok(());
        }
        if authenticator == Authenticator::Certificate && config.superuser.is_empty() {
            // A default password would be of no use here.
            self.warn_without_superuser();
            return Ok(());
        }
        let hash = match (&*config.superuser, &*config.superuser_salted_password) {
            ("", _) if self.has_superuser() => return Ok(()),
            ("", _) => Some(default_hash().await),
            (_, "") => None,
            (_, hash) if auth::password::is_hash(hash) => Some(hash.to_owned()),
            _ => {
                return Err("option auth_superuser_salted_password: not a SHA-512 ($6$), SHA-256 \
                            ($5$) or bcrypt ($2b$) hash"
                    .to_owned());
            }
        };
        if config.superuser.is_empty() {
            tracing::warn!(
                target: "auth",
                "role {DEFAULT_SUPERUSER} is a superuser with the well-known default password: \
                 log in, create your own superuser and drop {DEFAULT_SUPERUSER}, or set option \
                 auth_superuser_name"
            );
        }
        let name = self.access().superuser();
        let make = move |state: &State| make_superuser(state, &name, hash);
        let made = self.change_access(make).await;
        made.map(drop).map_err(|error| format!("cannot create the superuser: {error}"))
    }

    /// Makes the service level of drivers, once in the life of a node: it may be dropped for good.
    async fn make_driver_level(&self) -> Result<(), ChangeError<String>> {
        self.in_turn(|cluster| async move {
            let storage = runtime::local::get::<Storage>();
            let facts = boot::read_table(&storage, "system", "scylla_local").await;
            let facts = facts.map_err(|error| ChangeError::Failed(error.to_string()))?;
            if !local_rows::find_fact(&facts, DRIVER_LEVEL_KEY).is_empty() {
                return Ok(());
            }
            let level = Some(ServiceLevel::of_drivers());
            let changes = match cluster.access().state().level(DRIVER) {
                None => vec![Change::Level { name: DRIVER.to_owned(), level }],
                Some(_) => Vec::new(),
            };
            let at = cluster.next_timestamp();
            let mut written = cluster.access_mutations(&changes, at);
            written.push(local_rows::fact(&cluster.schema(), DRIVER_LEVEL_KEY, "true", at));
            let applied = storage.apply_all(written).await;
            applied.map_err(|error| ChangeError::Failed(error.to_string()))?;
            show(changes).await;
            Ok(())
        })
        .await
    }

    fn warn_without_superuser(&self) {
        let is_there = self.access().state().roles().any(|(_, it)| it.is_superuser && it.can_login);
        if !is_there {
            tracing::warn!(
                target: "auth",
                "no superuser can log in: set option auth_superuser_name, or create one \
                 through the maintenance socket"
            );
        }
    }

    /// Whether a superuser can log in by password.
    fn has_superuser(&self) -> bool {
        let state = self.access().state();
        let mut roles = state.roles();
        roles.any(|(_, it)| it.is_superuser && it.can_login && it.salted_hash.is_some())
    }
}

/// Makes a superuser where there is no role of that name; gives one a password that has none.
fn make_superuser(
    state: &State,
    name: &str,
    salted_hash: Option<String>,
) -> Result<Vec<Change>, auth::Refused> {
    match state.role(name) {
        None => {
            let options = RoleOptions {
                can_login: Some(true),
                is_superuser: Some(true),
                salted_hash,
                attributes: None,
            };
            state.create_role(name, options, None, Otherwise::Ignored)
        }
        Some(role) if role.salted_hash.is_none() && salted_hash.is_some() => {
            let options = RoleOptions { salted_hash, ..RoleOptions::default() };
            state.alter_role(name, options, Otherwise::Ignored)
        }
        Some(_) => Ok(Vec::new()),
    }
}

async fn default_hash() -> String {
    let salt = salt();
    compute(move || auth::password::hash(DEFAULT_SUPERUSER, salt)).await
}

/// Random bytes for a new hash.
pub fn salt() -> [u8; auth::password::SALT_BYTES] {
    let mut salt = [0; auth::password::SALT_BYTES];
    for piece in salt.chunks_mut(8) {
        piece.copy_from_slice(&runtime::random_u64().to_le_bytes()[..piece.len()]);
    }
    salt
}

/// What the tables of shard 0 hold.
pub(crate) async fn read(storage: &Storage) -> Result<State, boot::BootError> {
    let mut rows = std::collections::BTreeMap::new();
    for table in access_tables::TABLES {
        rows.insert(table, boot::read_table(storage, "system", table).await?);
    }
    Ok(access_tables::load(&rows))
}

/// Shows durable changes on every shard.
pub(crate) async fn show(changes: Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let show = move || async move {
        let cluster = runtime::local::try_get::<Cluster>();
        cluster.map(|cluster| cluster.access().show(changes)).unwrap_or_default()
    };
    levels::retire(runtime::on_all_shards(show).await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{keyspace, table};
    use model::{ColumnKind, Uuid};

    #[test]
    fn names_of_classes_are_known_with_and_without_package() {
        let check = |name: &str, expected: Option<Authenticator>| {
            assert_eq!(Authenticator::by_name(name), expected, "{name}");
        };
        check("AllowAllAuthenticator", Some(Authenticator::AllowAll));
        check("org.apache.cassandra.auth.AllowAllAuthenticator", Some(Authenticator::AllowAll));
        check("PasswordAuthenticator", Some(Authenticator::Password));
        check("com.scylladb.auth.TransitionalAuthenticator", Some(Authenticator::Transitional));
        let certificate = "com.scylladb.auth.CertificateAuthenticator";
        check(certificate, Some(Authenticator::Certificate));
        let either = "CertificateOrPasswordAuthenticator";
        check(either, Some(Authenticator::CertificateOrPassword));
        check("", None);
        check("SaslauthdAuthenticator", None);
        let check = |name: &str, expected: Option<Authorizer>| {
            assert_eq!(Authorizer::by_name(name), expected, "{name}");
        };
        check("AllowAllAuthorizer", Some(Authorizer::AllowAll));
        check("org.apache.cassandra.auth.CassandraAuthorizer", Some(Authorizer::Cassandra));
        check("com.scylladb.auth.TransitionalAuthorizer", Some(Authorizer::Transitional));
        check("PasswordAuthorizer", None);
    }

    #[test]
    fn what_is_asked_depends_on_the_certificate() {
        let check = |authenticator: Authenticator, expected: [&str; 2]| {
            let asked = [false, true].map(|shows| match authenticator.login(shows) {
                Login::Free => "nothing",
                Login::ByCertificate => "certificate",
                Login::ByPassword(_) => "password",
            });
            assert_eq!(asked, expected, "{authenticator:?}");
            assert_eq!(authenticator.reads_certificates(), expected[1] == "certificate");
        };
        check(Authenticator::AllowAll, ["nothing", "nothing"]);
        check(Authenticator::Password, ["password", "password"]);
        check(Authenticator::Transitional, ["password", "password"]);
        check(Authenticator::Certificate, ["certificate", "certificate"]);
        check(Authenticator::CertificateOrPassword, ["password", "certificate"]);
    }

    #[test]
    fn grants_follow_the_schema() {
        let mut state = State::default();
        let made = state.create_role("a", RoleOptions::default(), None, Otherwise::Refused);
        made.expect("a role").into_iter().for_each(|change| state.apply(change));
        let columns = [("pk", "int", ColumnKind::PartitionKey)];
        let made = table("ks", "t", 1, &columns);
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let space = SchemaChange::CreateKeyspace(keyspace("ks", None));
        let shown = |state: &State| {
            let names = |it: &auth::state::Granted| it.resource.name();
            state.grants_of("a").iter().map(names).collect::<Vec<_>>().join(" ")
        };
        let steps = [
            (space, "data/ks functions/ks"),
            (SchemaChange::CreateTable(made.clone()), "data/ks data/ks/t functions/ks"),
            (SchemaChange::AlterTable(made), "data/ks data/ks/t functions/ks"),
            (
                SchemaChange::DropTable { keyspace: "ks".into(), name: "t".into() },
                "data/ks functions/ks",
            ),
            (SchemaChange::DropKeyspace("ks".into()), ""),
        ];
        for (change, expected) in steps {
            let after = consequences(&state, &empty, &change, Some("a"));
            after.into_iter().for_each(|change| state.apply(change));
            assert_eq!(shown(&state), expected, "{change:?}");
            assert!(consequences(&state, &empty, &change, None).is_empty());
        }
    }

    #[test]
    fn the_superuser_is_made_once() {
        let mut state = State::default();
        let hash = |text: &str| Some(text.to_owned());
        let apply = |state: &mut State, hash| {
            let changes = make_superuser(state, "root", hash).expect("changes");
            changes.into_iter().for_each(|change| state.apply(change));
            let role = state.role("root").expect("a role").clone();
            assert!(role.can_login && role.is_superuser);
            role.salted_hash
        };
        assert_eq!(apply(&mut state, None), None);
        assert_eq!(apply(&mut state, hash("x")), hash("x"));
        // It was changed on purpose since.
        assert_eq!(apply(&mut state, hash("y")), hash("x"));
    }
}
