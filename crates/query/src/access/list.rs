//! LIST ROLES, USERS and PERMISSIONS: their columns, and the rows that a session may see.

use super::check::somebody;
use super::scene::{Scene, asked};
use crate::error::CqlError;
use crate::response::{Response, ResponseKind, Rows};
use auth::state::Granted;
use auth::{Need, Permission, Resource, Role, State};
use cluster::Authorizer;
use model::value::write_map;
use plan::listing_columns as columns;
use plan::metadata::ResultMetadata;
use plan::needs::resources;
use std::rc::Rc;
use syntax::ast::{AccessStatement, ListPermissions, ListRoles};

/// A cell, as the frame wants it; `None` is null.
pub(super) type Cell = Option<Vec<u8>>;

pub(super) fn text(value: &str) -> Cell {
    Some(value.as_bytes().to_vec())
}

fn boolean(value: bool) -> Cell {
    Some(vec![value.into()])
}

/// The answer of these rows.
pub(super) fn answer(metadata: Option<Rc<ResultMetadata>>, rows: Vec<Vec<Cell>>) -> Response {
    let Some(metadata) = metadata else { return Response::VOID };
    let mut body = Vec::new();
    for cell in rows.iter().flatten() {
        match cell {
            Some(bytes) => {
                body.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                body.extend_from_slice(bytes);
            }
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    let row_count = rows.len() as u32;
    Response::of(ResponseKind::Rows(Rows { metadata, row_count, body, paging_state: None }))
}

/// Whether the session sees all roles.
pub(super) fn sees_all(scene: &Scene<'_>) -> bool {
    scene.need(Permission::Describe, Resource::AllRoles).is_ok()
}

/// The roles that a LIST is about: those that the session has, all, or those of one role.
fn visible(scene: &Scene<'_>, it: &ListRoles) -> Result<Vec<String>, CqlError> {
    let own = somebody(scene.session)?;
    let sees_all = sees_all(scene);
    let state = scene.cluster.access().state();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut names = match (&it.of, own) {
        (Some(of), own) => {
            let own = own.as_deref().map(|own| state.closure(own)).unwrap_or_default();
            if !sees_all && !own.contains(&of.text.as_str()) {
                let of = &of.text;
                return Err(CqlError::Unauthorized(format!(
                    "You are not authorized to view the roles granted to role '{of}'."
                )));
            }
            granted_to(&state, &of.text, it.recursive)?
        }
        (None, Some(own)) if !sees_all => owned(state.closure(&own)),
        (None, _) => state.roles().map(|(name, _)| name.to_owned()).collect(),
    };
    names.sort_unstable();
    Ok(names)
}

/// A role and what was granted to it, directly or however.
fn granted_to(state: &State, name: &str, is_recursive: bool) -> Result<Vec<String>, CqlError> {
    let unknown = || CqlError::Invalid(format!("Role {name} doesn't exist."));
    let role = state.role(name).ok_or_else(unknown)?;
    Ok(match is_recursive {
        true => state.closure(name).into_iter().map(str::to_owned).collect(),
        false => std::iter::once(name.to_owned()).chain(role.member_of.iter().cloned()).collect(),
    })
}

pub(super) fn roles(scene: &Scene<'_>, it: &ListRoles) -> Result<Response, CqlError> {
    let names = visible(scene, it)?;
    let state = scene.cluster.access().state();
    let row = |name: &String| {
        let role: &Role = state.role(name)?;
        let mut options = Vec::new();
        let pairs = role.attributes.iter().filter(|(key, _)| *key != auth::state::SERVICE_LEVEL);
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        write_map(pairs.into_iter(), &mut options);
        let (is_superuser, can_login) = (boolean(role.is_superuser), boolean(role.can_login));
        Some(vec![text(name), is_superuser, can_login, Some(options)])
    };
    let rows = names.iter().filter_map(row).collect();
    Ok(answer(columns(&AccessStatement::ListRoles(it.clone())), rows))
}

pub(super) fn users(scene: &Scene<'_>) -> Result<Response, CqlError> {
    let names = visible(scene, &ListRoles { of: None, recursive: true })?;
    let state = scene.cluster.access().state();
    let roles = names.iter().filter_map(|name| Some((name, state.role(name)?)));
    let users = roles.filter(|(_, role)| role.can_login);
    let row = |(name, _): (&String, &Role)| vec![text(name), boolean(state.is_superuser(name))];
    Ok(answer(columns(&AccessStatement::ListUsers), users.map(row).collect()))
}

pub(super) fn permissions(scene: &Scene<'_>, it: &ListPermissions) -> Result<Response, CqlError> {
    let own = somebody(scene.session)?;
    if scene.cluster.access().authorizer() == Authorizer::AllowAll {
        return Err(CqlError::invalid(
            "LIST PERMISSIONS operation is not supported by AllowAllAuthorizer",
        ));
    }
    let schema = scene.cluster.schema();
    let keyspace = scene.session.keyspace();
    let on = it.resource.as_ref();
    let on = on.map(|written| resources::named(&schema, keyspace.as_deref(), written));
    let on = on.transpose()?;
    on.iter().try_for_each(|resource| resources::check(&schema, resource))?;
    let sees_all = sees_all(scene);
    let state = scene.cluster.access().state();
    let roles = match &it.of {
        Some(of) => {
            let own = own.as_deref().map(|own| state.closure(own)).unwrap_or_default();
            if !sees_all && !own.contains(&of.text.as_str()) {
                let of = &of.text;
                return Err(CqlError::Unauthorized(format!(
                    "You are not authorized to view {of}'s permissions"
                )));
            }
            let recursive = it.recursive;
            match recursive {
                true => granted_to(&state, &of.text, true)?,
                false => granted_to(&state, &of.text, false)?.into_iter().take(1).collect(),
            }
        }
        None if !sees_all => {
            return Err(CqlError::Unauthorized(
                "You are not authorized to view everyone's permissions".to_owned(),
            ));
        }
        None => state.grantees().map(str::to_owned).collect(),
    };
    // What was granted higher up holds for the resource too.
    let names = on.map(|on| Need::new(Permission::Select, on));
    let wanted = |granted: &Granted| {
        let name = granted.resource.name();
        names.as_ref().is_none_or(|on| on.names().iter().any(|it| **it == *name))
    };
    let mut granted: Vec<Granted> =
        roles.iter().flat_map(|role| state.grants_of(role)).filter(wanted).collect();
    granted.sort_by_cached_key(|it| (it.role.clone(), it.resource.name()));
    let asked = asked(&it.permissions);
    let mut rows = Vec::new();
    for Granted { role, resource, permissions } in granted {
        let resource = resource.to_string();
        for permission in permissions.intersection(asked).iter() {
            rows.push(vec![text(&role), text(&role), text(&resource), text(permission.name())]);
        }
    }
    Ok(answer(columns(&AccessStatement::ListPermissions(it.clone())), rows))
}
