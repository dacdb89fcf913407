//! Executing statements about roles and grants: authorization, and the changes.

use super::check::somebody;
use super::levels;
use super::list;
use super::login::hash;
use super::scene::{Scene, asked, otherwise};
use crate::error::CqlError;
use crate::processor::Processor;
use crate::response::Response;
use crate::session::Session;
use auth::decide::RoleOptions;
use auth::{Permission, PermissionSet, Resource, State};
use cluster::Authenticator;
use plan::needs::resources;
use syntax::ast::{self, AccessStatement, LiteralKind, RoleWord};

fn unauthorized<T>(text: impl Into<String>) -> Result<T, CqlError> {
    Err(CqlError::Unauthorized(text.into()))
}

/// Executes a statement about roles, grants or service levels.
pub(crate) async fn statement(
    processor: &Processor,
    session: &Session,
    statement: &AccessStatement,
) -> Result<Response, CqlError> {
    let scene = Scene { cluster: processor.cluster(), session };
    match statement {
        AccessStatement::CreateRole(it) => create_role(&scene, processor, it).await,
        AccessStatement::AlterRole(it) => alter_role(&scene, processor, it).await,
        AccessStatement::DropRole(it) => drop_role(&scene, it).await,
        AccessStatement::GrantRole(it) => {
            let (role, member) = may_share(&scene, it)?;
            scene.change(move |state| state.grant_role(&role, &member)).await
        }
        AccessStatement::RevokeRole(it) => {
            let (role, member) = may_share(&scene, it)?;
            scene.change(move |state| state.revoke_role(&role, &member)).await
        }
        AccessStatement::Grant(it) => {
            let (role, permissions, resource) = may_grant(&scene, it, "GRANT")?;
            scene.change(move |state| state.grant(&role, permissions, &resource)).await
        }
        AccessStatement::Revoke(it) => {
            let (role, permissions, resource) = may_grant(&scene, it, "REVOKE")?;
            scene.change(move |state| state.revoke(&role, permissions, &resource)).await
        }
        AccessStatement::ListRoles(it) => list::roles(&scene, it),
        AccessStatement::ListUsers => list::users(&scene),
        AccessStatement::ListPermissions(it) => list::permissions(&scene, it),
        AccessStatement::ListServiceLevels(it) => levels::list(&scene, it),
        AccessStatement::CreateServiceLevel(_)
        | AccessStatement::AlterServiceLevel(_)
        | AccessStatement::DropServiceLevel(_)
        | AccessStatement::AttachServiceLevel { .. }
        | AccessStatement::DetachServiceLevel { .. } => levels::change(&scene, statement).await,
    }
}

/// Warns that a hashed password cannot be used to log in; schemas of other nodes
/// that hold such are to be restored all the same.
fn warned(mut response: Response, said: &ast::RoleOptions) -> Response {
    if said.hashed_password.as_ref().is_some_and(|hash| !auth::password::is_hash(hash)) {
        response.warn(vec![
            "HASHED PASSWORD: not a SHA-512 ($6$), SHA-256 ($5$) or bcrypt ($2b$) hash: nobody \
             can log in with it"
                .to_owned(),
        ]);
    }
    response
}

/// What a statement says of a role; its password is hashed, off the shard.
async fn options(
    scene: &Scene<'_>,
    processor: &Processor,
    said: &ast::RoleOptions,
    word: Option<RoleWord>,
) -> Result<RoleOptions, CqlError> {
    if said.password.is_some() && said.hashed_password.is_some() {
        return Err(CqlError::invalid("PASSWORD and HASHED PASSWORD cannot be used together"));
    }
    let has_password = said.password.is_some() || said.hashed_password.is_some();
    if has_password && scene.cluster.access().authenticator() == Authenticator::AllowAll {
        return Err(CqlError::invalid("The authenticator doesn't support the PASSWORD option."));
    }
    let salted_hash = match (&said.password, &said.hashed_password) {
        (Some(password), _) => Some(hash(processor, password).await?),
        (None, Some(_)) if !scene.is_superuser() => {
            return unauthorized("Only superusers can set a HASHED PASSWORD");
        }
        (None, hashed) => hashed.clone(),
    };
    let text = |literal: &ast::Literal| match literal.kind {
        LiteralKind::String => Ok(literal.text.clone()),
        _ => Err(CqlError::invalid("The values in OPTIONS of a role must be strings")),
    };
    let pairs = said.options.iter().flatten();
    let pairs = pairs.map(|(key, value)| Ok((text(key)?, text(value)?)));
    let pairs = pairs.collect::<Result<Vec<_>, CqlError>>()?;
    if pairs.iter().any(|(key, _)| key == auth::state::SERVICE_LEVEL) {
        return Err(CqlError::invalid(
            "Use ATTACH SERVICE LEVEL to attach a service level to a role",
        ));
    }
    Ok(RoleOptions {
        can_login: said.login.or((word == Some(RoleWord::User)).then_some(true)),
        is_superuser: said.superuser,
        salted_hash,
        attributes: said.options.is_some().then_some(pairs),
    })
}

async fn create_role(
    scene: &Scene<'_>,
    processor: &Processor,
    it: &ast::CreateRole,
) -> Result<Response, CqlError> {
    let creator = somebody(scene.session)?;
    scene.need(Permission::Create, Resource::AllRoles)?;
    if it.options.superuser == Some(true) && !scene.is_superuser() {
        return unauthorized("Only superusers can create a role with superuser status");
    }
    let name = it.name.text.clone();
    if name.is_empty() {
        return Err(CqlError::invalid("A role name cannot be empty"));
    }
    let options = options(scene, processor, &it.options, Some(it.word)).await?;
    let creator = creator.filter(|_| scene.checks());
    let if_present = otherwise(it.if_not_exists);
    let decide = move |state: &State| {
        state.create_role(&name, options.clone(), creator.as_deref(), if_present)
    };
    Ok(warned(scene.change(decide).await?, &it.options))
}

async fn alter_role(
    scene: &Scene<'_>,
    processor: &Processor,
    it: &ast::AlterRole,
) -> Result<Response, CqlError> {
    let own = somebody(scene.session)?;
    let name = it.name.text.clone();
    if it.options.superuser.is_some() {
        if !scene.is_superuser() {
            return unauthorized("Only superusers are allowed to alter superuser status.");
        }
        let state = scene.cluster.access().state();
        if own.as_deref().is_some_and(|own| state.closure(own).contains(&name.as_str())) {
            return unauthorized(
                "You aren't allowed to alter your own superuser status or that of a role granted \
                 to you",
            );
        }
    }
    // Everybody may change the own password.
    let is_password = it.options.login.is_none() && it.options.options.is_none();
    if own.as_deref() != Some(&name) || !is_password {
        scene.need(Permission::Alter, Resource::Role(name.clone()))?;
    }
    let options = options(scene, processor, &it.options, None).await?;
    let if_absent = otherwise(it.if_exists);
    let decide = move |state: &State| state.alter_role(&name, options.clone(), if_absent);
    let response = scene.change(decide).await?;
    Ok(warned(response, &it.options))
}

async fn drop_role(scene: &Scene<'_>, it: &ast::DropRole) -> Result<Response, CqlError> {
    let own = somebody(scene.session)?;
    let name = it.name.text.clone();
    scene.need(Permission::Drop, Resource::Role(name.clone()))?;
    if own.as_deref() == Some(&name) {
        return Err(CqlError::invalid("Cannot DROP primary role for current login"));
    }
    let of_superuser = scene.cluster.access().state().is_superuser(&name);
    if of_superuser && !scene.is_superuser() {
        return unauthorized("Only superusers can drop a role with superuser status");
    }
    let if_absent = otherwise(it.if_exists);
    scene.change(move |state| state.drop_role(&name, if_absent)).await
}

/// Role and member, if the session may grant that role.
fn may_share(scene: &Scene<'_>, it: &ast::RoleGrant) -> Result<(String, String), CqlError> {
    somebody(scene.session)?;
    let (role, member) = (it.role.text.clone(), it.member.text.clone());
    scene.need(Permission::Authorize, Resource::Role(role.clone()))?;
    let of_superuser = scene.cluster.access().state().is_superuser(&role);
    if scene.checks() && of_superuser && !scene.is_superuser() {
        return unauthorized("Only superusers can grant or revoke a role with superuser status");
    }
    Ok((role, member))
}

/// Role, permissions and resource, if the session may grant these: it must have them itself.
fn may_grant(
    scene: &Scene<'_>,
    it: &ast::Grant,
    word: &str,
) -> Result<(String, PermissionSet, Resource), CqlError> {
    somebody(scene.session)?;
    if !scene.checks() {
        return Err(CqlError::Invalid(format!(
            "{word} operation is not supported by AllowAllAuthorizer"
        )));
    }
    let schema = scene.cluster.schema();
    let keyspace = scene.session.keyspace();
    let resource = resources::named(&schema, keyspace.as_deref(), &it.resource)?;
    let permissions = asked(&it.permissions).intersection(resource.applicable());
    if permissions.is_empty() {
        return Err(CqlError::Syntax(format!(
            "Resource {resource} does not support any of the requested permissions."
        )));
    }
    resources::check(&schema, &resource)?;
    if let Resource::Role(name) = &resource
        && scene.cluster.access().state().role(name).is_none()
    {
        return Err(CqlError::Invalid(format!("{resource} doesn't exist.")));
    }
    scene.need(Permission::Authorize, resource.clone())?;
    for permission in permissions.iter() {
        scene.need(permission, resource.clone())?;
    }
    Ok((it.role.text.clone(), permissions, resource))
}
