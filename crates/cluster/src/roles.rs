//! How roles, grants and service levels change on this node; the superuser and the service level
//! that a new node makes.
//!
//! Invariants: those of [`crate::registry`]. Changes are made in one queue with those of the
//! schema.

use crate::access::{AccessConfig, Authenticator, DEFAULT_SUPERUSER, groups, salt};
use crate::node_tables::read_table;
use crate::registry::{ChangeError, Cluster};
use crate::schema::Catalog;
use crate::stored;
use auth::decide::{Otherwise, RoleOptions};
use auth::level::DRIVER;
use auth::{Change, Role, ServiceLevel, State};
use catalog::facts::{self, DRIVER_LEVEL_MADE};
use catalog::{Command, Moment, access_tables};
use model::TableSchema;
use runtime::Erased;
use runtime::task::compute;
use storage::Storage;

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
        F: Fn(&State) -> Result<Vec<Change>, E> + Send + 'static,
        E: Send + 'static,
    {
        let decided = move |catalog: &Catalog, moment: Moment| {
            let changes = decide(&catalog.access).map_err(ChangeError::Refused)?;
            let changed = !changes.is_empty();
            Ok((changed.then(|| Command::of_access(changes, moment.micros)), changed))
        };
        let (changed, _) = self.change_catalog(decided).await?;
        Ok(changed)
    }

    /// Reads the tables again, after a superuser has written into them.
    pub fn reload_access(&self) -> Erased<'_, Result<(), ChangeError<String>>> {
        Erased::new(move || async move {
            self.in_turn(|_| async move {
                let storage = runtime::local::get::<Storage>();
                let state = stored::access(&storage)
                    .await
                    .map_err(|it| ChangeError::Failed(it.to_string()))?;
                let show = move || async move {
                    let Some(cluster) = runtime::local::try_get::<Cluster>() else {
                        return Vec::new();
                    };
                    cluster.replace_access(state)
                };
                groups::retire(runtime::on_all_shards(show).await);
                Ok(())
            })
            .await
        })
    }

    /// Obeys what an operator says, and makes the superuser that is to be there. Runs once, before
    /// clients are served.
    pub fn secure(&self, config: AccessConfig) -> Erased<'_, Result<(), String>> {
        Erased::new(move || async move {
            let authenticator = config.authenticator;
            let configured = config.clone();
            runtime::on_all_shards(move || async move {
                let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
                cluster.access().configure(&configured);
            })
            .await;
            let made = self.make_driver_level().await;
            made.map_err(|error| format!("cannot create service level {DRIVER}: {error}"))?;
            if authenticator == Authenticator::AllowAll && config.superuser.is_empty() {
                return Ok(());
            }
            let has_default = config.default_superuser;
            let is_of_use = has_default && authenticator != Authenticator::Certificate;
            if config.superuser.is_empty() && !is_of_use {
                // A default password would be of no use with certificates.
                self.warn_without_superuser();
                return Ok(());
            }
            let hash = match (&*config.superuser, &*config.superuser_salted_password) {
                ("", _) if has_superuser(&self.access().state(), true) => return Ok(()),
                ("", _) => Some(default_hash().await),
                (_, "") => None,
                (_, hash) if auth::password::is_hash(hash) => Some(hash.to_owned()),
                _ => {
                    return Err(
                        "option auth_superuser_salted_password: not a SHA-512 ($6$), SHA-256 \
                                ($5$) or bcrypt ($2b$) hash"
                            .to_owned(),
                    );
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
            let (name, has_password) = (self.access().superuser(), hash.is_some());
            let role = name.clone();
            let by_password = authenticator != Authenticator::Certificate;
            let make = move |state: &State| needed(state, &role, hash.clone(), by_password);
            if make(&self.access().state()).is_ok_and(|changes| changes.is_empty()) {
                // Without asking: a node starts without a majority, too.
                return Ok(());
            }
            let made = self.change_access(make).await;
            let made = made.map_err(|error| format!("cannot create the superuser: {error}"))?;
            tell_made(made, &name, has_password);
            Ok(())
        })
    }

    /// Makes the service level of drivers, once in the life of a cluster: it may be dropped for
    /// good.
    async fn make_driver_level(&self) -> Result<(), ChangeError<String>> {
        if is_driver_level_made().await? {
            return Ok(());
        }
        let decide = |catalog: &Catalog, moment: Moment| {
            let level = Some(ServiceLevel::of_drivers());
            let changes = match catalog.access.level(DRIVER) {
                None => vec![Change::Level { name: DRIVER.to_owned(), level }],
                Some(_) => Vec::new(),
            };
            let command = Command::of_access(changes, moment.micros);
            Ok((Some(command.noting(DRIVER_LEVEL_MADE, "true")), ()))
        };
        self.change_catalog(decide).await.map(drop)
    }

    fn warn_without_superuser(&self) {
        if !has_superuser(&self.access().state(), false) {
            tracing::warn!(
                target: "auth",
                "no superuser can log in: set option auth_superuser_name, or create one \
                 through the maintenance socket"
            );
        }
    }
}

/// Whether a superuser can log in, with a password or in any other way.
fn has_superuser(state: &State, by_password: bool) -> bool {
    let logs_in = |it: &Role| it.can_login && (it.salted_hash.is_some() || !by_password);
    state.roles().any(|(_, it)| it.is_superuser && logs_in(it))
}

/// Whether the service level of drivers was made once.
async fn is_driver_level_made() -> Result<bool, ChangeError<String>> {
    let storage = runtime::local::get::<Storage>();
    let facts = read_table(&storage, "system", "scylla_local").await;
    let facts = facts.map_err(|error| ChangeError::Failed(error.to_string()))?;
    Ok(!facts::find(&facts, DRIVER_LEVEL_MADE).is_empty())
}

/// What makes the superuser of a name: nothing where it is not there and another one can log in,
/// since then somebody has dropped it.
fn needed(
    state: &State,
    name: &str,
    salted_hash: Option<String>,
    by_password: bool,
) -> Result<Vec<Change>, auth::Refused> {
    match state.role(name) {
        None if has_superuser(state, by_password) => Ok(Vec::new()),
        _ => make_superuser(state, name, salted_hash),
    }
}

/// Makes a superuser where there is no role of that name; gives one a password that has none.
fn make_superuser(
    state: &State,
    name: &str,
    salted_hash: Option<String>,
) -> Result<Vec<Change>, auth::Refused> {
    debug_assert!(!name.is_empty(), "a superuser without a name");
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

/// Says that the cluster has its first superuser, in the words that launchers wait for.
fn tell_made(made: bool, name: &str, has_password: bool) {
    if !made {
        return;
    }
    tracing::info!(target: "auth", "Created default superuser role '{name}'.");
    if has_password {
        tracing::info!(target: "auth", "Created default superuser authentication record.");
    }
}

async fn default_hash() -> String {
    let salt = salt();
    let hash = compute(move || auth::password::hash(DEFAULT_SUPERUSER, salt)).await;
    assert!(auth::password::is_hash(&hash), "no-clear-text: the default password is no hash");
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superuser_that_was_dropped_comes_back_only_where_no_other_can_log_in() {
        let role = |name: &str, can_login, salted_hash: Option<&str>| {
            let salted_hash = salted_hash.map(str::to_owned);
            Change::Role { name: name.to_owned(), can_login, is_superuser: true, salted_hash }
        };
        let comes = |other: Option<Change>, by_password| {
            let mut state = State::default();
            other.into_iter().for_each(|other| state.apply(other));
            let hash = Some("x".to_owned());
            !needed(&state, "root", hash, by_password).expect("changes").is_empty()
        };
        assert!(comes(None, true));
        assert!(!comes(Some(role("other", true, Some("y"))), true));
        assert!(comes(Some(role("other", false, Some("y"))), true));
        // Without a password it logs in by a certificate, if at all.
        assert!(comes(Some(role("other", true, None)), true));
        assert!(!comes(Some(role("other", true, None)), false));
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
