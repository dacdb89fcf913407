//! `LIST SERVICE LEVELS`, of which there are none yet: no rows, with the columns that there would
//! be.

use crate::response::{ColumnSpec, ResultMetadata, Rows};
use crate::syntax::ast::{AccessStatement, ListServiceLevels};
use model::Type;
use std::rc::Rc;

/// The columns of the answer to a statement that lists service levels; `None` for other statements.
pub(crate) fn listed(statement: &AccessStatement) -> Option<Rc<ResultMetadata>> {
    let AccessStatement::ListServiceLevels(list) = statement else { return None };
    let columns: &[(&str, Type)] = match list {
        ListServiceLevels::One(_) | ListServiceLevels::All => &[
            ("service_level", Type::Text),
            ("timeout", Type::Duration),
            ("workload_type", Type::Text),
            ("shares", Type::Int),
        ],
        ListServiceLevels::AllAttached => &[("role", Type::Text), ("service_level", Type::Text)],
        // Of roles, of which there are none.
        ListServiceLevels::AttachedTo(_) | ListServiceLevels::EffectiveOf(_) => return None,
    };
    let (keyspace, table): (Rc<str>, Rc<str>) = (Rc::from("QOS"), Rc::from("service_levels"));
    let spec = |(name, ty): &(&str, Type)| ColumnSpec {
        keyspace: keyspace.clone(),
        table: table.clone(),
        name: Rc::from(*name),
        ty: ty.clone(),
    };
    Some(Rc::new(ResultMetadata::new(columns.iter().map(spec).collect())))
}

/// No rows.
pub(crate) fn none(metadata: &Rc<ResultMetadata>) -> Rows {
    Rows { metadata: metadata.clone(), row_count: 0, body: Vec::new(), paging_state: None }
}
