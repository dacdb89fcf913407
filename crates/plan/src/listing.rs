//! The columns of what LIST ROLES, USERS, PERMISSIONS and SERVICE LEVELS answer.

use crate::metadata::{ColumnSpec, ResultMetadata};
use model::Type;
use std::rc::Rc;
use syntax::ast::{AccessStatement, ListServiceLevels};

/// The columns of the answer to a statement; `None`: it answers no rows.
pub fn columns(statement: &AccessStatement) -> Option<Rc<ResultMetadata>> {
    let options =
        || Type::Map { key: Box::new(Type::Text), value: Box::new(Type::Text), frozen: false };
    let (table, columns): (&str, Vec<(&str, Type)>) = match statement {
        AccessStatement::ListRoles(_) => (
            "roles",
            vec![
                ("role", Type::Text),
                ("super", Type::Boolean),
                ("login", Type::Boolean),
                ("options", options()),
            ],
        ),
        AccessStatement::ListUsers => {
            ("users", vec![("name", Type::Text), ("super", Type::Boolean)])
        }
        AccessStatement::ListPermissions(_) => {
            let names = ["role", "username", "resource", "permission"];
            ("permissions", names.map(|name| (name, Type::Text)).into())
        }
        AccessStatement::ListServiceLevels(list) => ("service_levels", level_columns(list)),
        _ => return None,
    };
    let (keyspace, table): (Rc<str>, Rc<str>) = (Rc::from("system"), Rc::from(table));
    let spec = |(name, ty): (&str, Type)| ColumnSpec {
        keyspace: keyspace.clone(),
        table: table.clone(),
        name: Rc::from(name),
        ty,
    };
    Some(Rc::new(ResultMetadata::new(columns.into_iter().map(spec).collect())))
}

fn level_columns(list: &ListServiceLevels) -> Vec<(&'static str, Type)> {
    match list {
        ListServiceLevels::One(_) | ListServiceLevels::All => vec![
            ("service_level", Type::Text),
            ("timeout", Type::Duration),
            ("workload_type", Type::Text),
            ("shares", Type::Int),
        ],
        ListServiceLevels::AttachedTo(_) | ListServiceLevels::AllAttached => {
            vec![("role", Type::Text), ("service_level", Type::Text)]
        }
        ListServiceLevels::EffectiveOf(_) => vec![
            ("service_level_option", Type::Text),
            ("effective_service_level", Type::Text),
            ("value", Type::Text),
        ],
    }
}
