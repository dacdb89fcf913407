//! What the execution of a statement about roles, grants and service levels sees and asks.

use super::check::Checker;
use crate::error::CqlError;
use crate::response::Response;
use crate::session::Session;
use auth::decide::Otherwise;
use auth::{Change, Need, Permission, PermissionSet, Refused, Resource, State};
use cluster::{Authorizer, ChangeError, Cluster};
use syntax::ast;

/// What an execution sees.
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) session: &'a Session,
}

impl Scene<'_> {
    pub(super) fn checks(&self) -> bool {
        self.cluster.access().authorizer() != Authorizer::AllowAll
    }

    /// Asks with the state of now.
    pub(super) fn ask<T>(
        &self,
        ask: impl FnOnce(&Checker<'_>) -> Result<T, CqlError>,
    ) -> Result<T, CqlError> {
        let access = self.cluster.access();
        let state = access.state();
        let (session, authorizer) = (self.session, access.authorizer());
        ask(&Checker { state: &state, session, authorizer })
    }

    /// An error if permissions count and the session lacks this one.
    pub(super) fn need(&self, permission: Permission, on: Resource) -> Result<(), CqlError> {
        if !self.checks() {
            return Ok(());
        }
        self.ask(|checker| checker.one(&Need::new(permission, on)))
    }

    pub(super) fn is_superuser(&self) -> bool {
        self.ask(|checker| Ok(checker.is_superuser())).unwrap_or(false)
    }

    pub(super) async fn change<F>(&self, decide: F) -> Result<Response, CqlError>
    where
        F: Fn(&State) -> Result<Vec<Change>, Refused> + Send + 'static,
    {
        match self.cluster.change_access(decide).await {
            Ok(_) => Ok(Response::VOID),
            Err(ChangeError::Refused(refused)) => Err(CqlError::Invalid(refused.to_string())),
            Err(ChangeError::Failed(reason)) => Err(CqlError::Server(reason)),
        }
    }
}

/// Nothing is done where `is_lenient`, or else it is refused.
pub(super) fn otherwise(is_lenient: bool) -> Otherwise {
    if is_lenient { Otherwise::Ignored } else { Otherwise::Refused }
}

/// The permissions that a statement names.
pub(super) fn asked(permissions: &ast::Permissions) -> PermissionSet {
    match permissions {
        ast::Permissions::All => PermissionSet::of(&Permission::ALL),
        ast::Permissions::Some(some) => {
            some.iter().fold(PermissionSet::NONE, |set, one| set.union(named(*one)))
        }
    }
}

/// The permission of a keyword.
fn named(written: ast::Permission) -> PermissionSet {
    PermissionSet::of(&[match written {
        ast::Permission::Create => Permission::Create,
        ast::Permission::Alter => Permission::Alter,
        ast::Permission::Drop => Permission::Drop,
        ast::Permission::Select => Permission::Select,
        ast::Permission::Modify => Permission::Modify,
        ast::Permission::Authorize => Permission::Authorize,
        ast::Permission::Describe => Permission::Describe,
        ast::Permission::Execute => Permission::Execute,
        ast::Permission::VectorSearchIndexing => Permission::VectorSearchIndexing,
        ast::Permission::TextSearchIndexing => Permission::TextSearchIndexing,
    }])
}
