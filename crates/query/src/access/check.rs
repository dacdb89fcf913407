//! Authorization: whether a session may execute a statement.
//!
//! The permissions of reads and writes are checked once per session, statement and generation of
//! grants; after that a check is one look-up, without an allocation. Where everything is allowed
//! ([`Authorizer::AllowAll`]) it is one comparison.

use crate::error::CqlError;
use crate::session::Session;
use auth::{Need, Permission, Resource, State};
use cluster::{Access, Authorizer, Cluster, Schema};
use plan::needs;
use plan::{Plan, Statement};

/// The error for anonymous sessions.
const ANONYMOUS: &str = "You have to be logged in and not anonymous to perform this request";

/// An error if the session may not execute a statement (*checked-before-done*). A function of its
/// own, so that `bench/instructions` can count it.
#[inline(never)]
pub(crate) fn statement(
    cluster: &Cluster,
    session: &Session,
    statement: &Statement,
) -> Result<(), CqlError> {
    let access = cluster.access();
    if access.authorizer() == Authorizer::AllowAll {
        return match statement.writes_access && !session.is_trusted() {
            true => Err(protected("system")),
            false => Ok(()),
        };
    }
    let state = access.state();
    if session.is_cleared(statement.number, state.generation()) {
        return Ok(());
    }
    slowly(cluster, access, &state, session, statement)
}

#[cold]
fn slowly(
    cluster: &Cluster,
    access: &Access,
    state: &State,
    session: &Session,
    statement: &Statement,
) -> Result<(), CqlError> {
    if session.is_trusted() {
        return Ok(());
    }
    if session.user.borrow().is_none() && access.authorizer() == Authorizer::Cassandra {
        return Err(CqlError::Unauthorized(ANONYMOUS.to_owned()));
    }
    let checker = Checker { state, session, authorizer: access.authorizer() };
    match &statement.plan {
        Plan::Schema(change, _) => {
            let (schema, keyspace) = (cluster.schema(), session.keyspace());
            return checker.all(&needs::of_schema(&schema, change, keyspace.as_deref())?);
        }
        // What these need depends on what they name; who executes them asks.
        Plan::Access(_) => return Ok(()),
        Plan::Use(_) | Plan::Describe(_) => return Ok(()),
        Plan::Select(_)
        | Plan::Values(_)
        | Plan::Modify(_)
        | Plan::Batch(_)
        | Plan::Truncate(..)
        | Plan::Prune(_) => {}
    }
    checker.all(&statement.needs)?;
    session.clear(statement.number, state.generation());
    Ok(())
}

/// Looks needs up.
pub(super) struct Checker<'a> {
    pub(super) state: &'a State,
    pub(super) session: &'a Session,
    pub(super) authorizer: Authorizer,
}

impl Checker<'_> {
    fn all(&self, needs: &[Need]) -> Result<(), CqlError> {
        needs.iter().try_for_each(|need| self.one(need))
    }

    /// An error if the session lacks that.
    pub(super) fn one(&self, need: &Need) -> Result<(), CqlError> {
        let rights = self.session.rights(self.state);
        if self.session.is_trusted() || rights.is_superuser {
            return Ok(());
        }
        let keyspace = match &need.resource {
            Resource::Keyspace(keyspace) | Resource::Table { keyspace, .. } => Some(keyspace),
            _ => None,
        };
        let writes = matches!(
            need.permission,
            Permission::Modify | Permission::Create | Permission::Alter | Permission::Drop
        );
        if let Some(keyspace) = keyspace
            && writes
            && Schema::is_system(keyspace)
        {
            return Err(refused(need, keyspace));
        }
        if self.state.permits(&rights, need) || self.is_everybodys(need) {
            return Ok(());
        }
        let user = self.session.user.borrow();
        let user = user.as_deref().unwrap_or("anonymous");
        let Need { permission, resource, .. } = need;
        Err(CqlError::Unauthorized(format!(
            "User {user} has no {permission} permission on {resource} or any of its parents"
        )))
    }

    /// While a cluster is on its way to permissions, data is everybody's, as before.
    fn is_everybodys(&self, need: &Need) -> bool {
        use Permission::{Alter, Create, Drop, Modify, Select};
        let of_data = matches!(need.permission, Create | Alter | Drop | Select | Modify);
        let is_data = matches!(
            need.resource,
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::Table { .. }
        );
        let is_of_roles = matches!(&need.resource, Resource::Table { keyspace, .. }
            if Schema::is_system(keyspace));
        self.authorizer == Authorizer::Transitional && of_data && is_data && !is_of_roles
    }

    /// Whether the session's role may do everything.
    pub(super) fn is_superuser(&self) -> bool {
        self.session.is_trusted() || self.session.rights(self.state).is_superuser
    }
}

/// Whether a session may do everything: it is this node itself, or a superuser.
pub(crate) fn is_superuser(cluster: &Cluster, session: &Session) -> bool {
    let access = cluster.access();
    Checker { state: &access.state(), session, authorizer: access.authorizer() }.is_superuser()
}

/// The role that is logged in; `None` for this node itself. An error if none is.
pub(super) fn somebody(session: &Session) -> Result<Option<String>, CqlError> {
    match session.role() {
        None if !session.is_trusted() => Err(CqlError::Unauthorized(ANONYMOUS.to_owned())),
        role => Ok(role),
    }
}

/// Why nobody may do this to a keyspace of the system, in the words that users know.
fn refused(need: &Need, keyspace: &str) -> CqlError {
    match (need.permission, &need.resource) {
        (Permission::Drop, Resource::Keyspace(name)) => {
            CqlError::Unauthorized(Schema::why_not_dropped(name))
        }
        _ => protected(keyspace),
    }
}

fn protected(keyspace: &str) -> CqlError {
    CqlError::Unauthorized(format!("{keyspace} keyspace is not user-modifiable."))
}
