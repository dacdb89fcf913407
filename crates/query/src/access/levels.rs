//! Statements about service levels.

use super::list::{Cell, answer, sees_all, text};
use super::scene::{Scene, otherwise};
use crate::error::CqlError;
use crate::response::Response;
use auth::decide::LevelOptions;
use auth::level::{SHARES, ShownDuration};
use auth::{EffectiveLevel, ServiceLevel, State, Workload};
use model::value::Duration as CqlDuration;
use plan::listing_columns as columns;
use std::time::Duration;
use syntax::ast::{AccessStatement, ListServiceLevels, LiteralKind, Property, PropertyValue};

/// Shares that a level may have.
const SHARES_MAX: u32 = 1000;

fn refuse<T>(text: impl Into<String>) -> Result<T, CqlError> {
    Err(CqlError::Invalid(text.into()))
}

/// Only superusers change service levels: they divide what is everybody's.
pub(super) async fn change(
    scene: &Scene<'_>,
    statement: &AccessStatement,
) -> Result<Response, CqlError> {
    if scene.checks() && !scene.is_superuser() {
        return Err(CqlError::Unauthorized("Only superusers can change service levels".to_owned()));
    }
    match statement {
        AccessStatement::CreateServiceLevel(it) => {
            let (name, options) = (it.name.text.clone(), options(&it.properties)?);
            let if_present = otherwise(it.if_not_exists);
            scene.change(move |state| state.create_level(&name, &options, if_present)).await
        }
        AccessStatement::AlterServiceLevel(it) => {
            let (name, options) = (it.name.text.clone(), options(&it.properties)?);
            scene.change(move |state| state.alter_level(&name, &options)).await
        }
        AccessStatement::DropServiceLevel(it) => {
            let (name, if_absent) = (it.name.text.clone(), otherwise(it.if_exists));
            scene.change(move |state| state.drop_level(&name, if_absent)).await
        }
        AccessStatement::AttachServiceLevel { level, role } => {
            let (level, role) = (level.text.clone(), role.text.clone());
            scene.change(move |state| state.attach_level(&level, &role)).await
        }
        AccessStatement::DetachServiceLevel { role } => {
            let role = role.text.clone();
            scene.change(move |state| state.detach_level(&role)).await
        }
        _ => refuse("not a change of service levels"),
    }
}

fn options(properties: &[Property]) -> Result<LevelOptions, CqlError> {
    let mut options = LevelOptions::default();
    for Property { name, value } in properties {
        match name.text.as_str() {
            "timeout" => options.timeout = Some(timeout(value)?),
            "workload_type" => options.workload = Some(workload(value)?),
            "shares" => options.shares = Some(shares(value)?),
            other => return refuse(format!("Unknown property '{other}' of a service level")),
        }
    }
    Ok(options)
}

fn timeout(value: &PropertyValue) -> Result<Option<Duration>, CqlError> {
    let literal = match value {
        PropertyValue::Null => return Ok(None),
        PropertyValue::Scalar(literal) if literal.kind == LiteralKind::Duration => literal,
        _ => return refuse("The timeout of a service level must be a duration or null"),
    };
    let span = CqlDuration::parse(&literal.text).map_err(|error| CqlError::invalid(error.0))?;
    if span.months != 0 || span.days != 0 {
        return refuse("Timeout values cannot be expressed in days/months");
    }
    if span.nanos % 1_000_000 != 0 {
        return refuse("Timeout values cannot have granularity finer than milliseconds");
    }
    match u64::try_from(span.nanos) {
        Ok(nanos) => Ok(Some(Duration::from_nanos(nanos))),
        Err(_) => refuse("Timeout values must be non-negative"),
    }
}

fn workload(value: &PropertyValue) -> Result<Option<Workload>, CqlError> {
    match value {
        PropertyValue::Null => Ok(None),
        PropertyValue::Scalar(literal) if literal.text == "unspecified" => Ok(None),
        PropertyValue::Scalar(literal) => match Workload::by_name(&literal.text) {
            Some(workload) => Ok(Some(workload)),
            None => refuse(format!("Invalid workload type: {}", literal.text)),
        },
        _ => refuse("The workload type must be interactive, batch or unspecified"),
    }
}

fn shares(value: &PropertyValue) -> Result<u32, CqlError> {
    let number = match value {
        PropertyValue::Scalar(literal) => literal.text.parse::<u32>().ok(),
        _ => None,
    };
    match number.filter(|number| (1..=SHARES_MAX).contains(number)) {
        Some(number) => Ok(number),
        None => {
            refuse(format!("SHARES of a service level must be a number from 1 to {SHARES_MAX}"))
        }
    }
}

/// LIST SERVICE LEVEL in all forms.
pub(super) fn list(scene: &Scene<'_>, it: &ListServiceLevels) -> Result<Response, CqlError> {
    let of = match it {
        ListServiceLevels::AttachedTo(role) | ListServiceLevels::EffectiveOf(role) => {
            Some(role.text.as_str())
        }
        _ => None,
    };
    let is_own = of.is_some() && scene.session.role().as_deref() == of;
    if !is_own && !sees_all(scene) {
        return Err(CqlError::Unauthorized(
            "You are not authorized to view service levels of others".to_owned(),
        ));
    }
    let state = scene.cluster.access().state();
    let rows = rows(&state, it)?;
    Ok(answer(columns(&AccessStatement::ListServiceLevels(it.clone())), rows))
}

fn rows(state: &State, it: &ListServiceLevels) -> Result<Vec<Vec<Cell>>, CqlError> {
    let known = |role: &str| match state.role(role) {
        Some(_) => Ok(()),
        None => refuse(format!("Role {role} doesn't exist.")),
    };
    Ok(match it {
        ListServiceLevels::One(name) => match state.level(&name.text) {
            Some(level) => vec![row(&name.text, level)],
            None => return refuse(format!("Service Level {} doesn't exists.", name.text)),
        },
        ListServiceLevels::All => state.levels().map(|(name, level)| row(name, level)).collect(),
        ListServiceLevels::AttachedTo(role) => {
            known(&role.text)?;
            let level = state.attached_level(&role.text);
            level.map(|level| vec![text(&role.text), text(level)]).into_iter().collect()
        }
        ListServiceLevels::AllAttached => {
            let all = state.attachments().into_iter();
            all.map(|(role, level)| vec![text(role), text(level)]).collect()
        }
        ListServiceLevels::EffectiveOf(role) => {
            known(&role.text)?;
            let Some(level) = state.effective_level(&role.text) else {
                return refuse(format!(
                    "Role {} doesn't have assigned any service level",
                    role.text
                ));
            };
            effective(&level)
        }
    })
}

fn row(name: &str, level: &ServiceLevel) -> Vec<Cell> {
    let timeout = level.timeout.map(|timeout| {
        let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        CqlDuration { months: 0, days: 0, nanos }.encode()
    });
    let shares = level.shares.unwrap_or(SHARES) as i32;
    let workload = level.workload.and_then(|workload| text(workload.name()));
    vec![text(name), timeout, workload, Some(shares.to_be_bytes().to_vec())]
}

/// What no level says, is from the one that says how many shares: each does.
fn effective(level: &EffectiveLevel) -> Vec<Vec<Cell>> {
    let any = level.shares.as_ref().map_or("", |(name, _)| name);
    let row = |option: &str, said: Option<(&str, String)>| match said {
        Some((name, value)) => vec![text(option), text(name), text(&value)],
        None => vec![text(option), text(any), None],
    };
    let workload = level.workload.as_ref().map(|(name, it)| (&name[..], it.name().to_owned()));
    let timeout = level.timeout.as_ref();
    let timeout = timeout.map(|(name, it)| (&name[..], ShownDuration(*it).to_string()));
    let shares = level.shares.as_ref().map(|(name, it)| (&name[..], it.to_string()));
    vec![row("workload_type", workload), row("timeout", timeout), row("shares", shares)]
}
