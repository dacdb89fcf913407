//! What is known once for a base table and its views: made when it is asked for first, and made
//! anew when one of their schemas has changed.
//!
//! Invariants
//!  - *of-this-version*: a plan is of the schemas that the shard shows at the time of the write.
//!  - *bounded*: plans are kept of tables that are there, one for each.

use cluster::{Schema, TableEntry};
use derived::ViewPlan;
use model::{TableId, TableSchema};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::HashMap;

/// The plans of a base table's views.
pub(super) struct Plans {
    pub(super) base: Rc<TableSchema>,
    /// Those they were made of, in order of ids.
    views: Vec<Rc<TableSchema>>,
    pub(super) plans: Vec<ViewPlan>,
}

#[derive(Default)]
pub(super) struct Cache {
    plans: RefCell<HashMap<TableId, Rc<Plans>>>,
}

impl Cache {
    /// The plans of a table; an error names the view for which there can be none.
    pub(super) fn of(&self, schema: &Schema, table: &TableEntry) -> Result<Rc<Plans>, String> {
        let id = table.schema.id;
        if let Some(known) = self.plans.borrow().get(&id)
            && known.is_of(schema, table)
        {
            return Ok(known.clone());
        }
        let made = Rc::new(Plans::new(schema, table)?);
        debug_assert!(made.is_of(schema, table), "of-this-version: of {id}");
        let mut plans = self.plans.borrow_mut();
        plans.retain(|id, _| schema.table_by_id(*id).is_some_and(|it| !it.views.is_empty()));
        plans.insert(id, made.clone());
        Ok(made)
    }
}

impl Plans {
    fn new(schema: &Schema, table: &TableEntry) -> Result<Plans, String> {
        let views = table.views.iter().filter_map(|view| schema.table_by_id(*view));
        let views: Vec<Rc<TableSchema>> = views.map(|view| view.schema.clone()).collect();
        let plan = |view: &Rc<TableSchema>| ViewPlan::new(&table.schema, view);
        let plans = views.iter().map(plan).collect::<Result<Vec<_>, String>>()?;
        Ok(Plans { base: table.schema.clone(), views, plans })
    }

    fn is_of(&self, schema: &Schema, table: &TableEntry) -> bool {
        let same = |(view, id): (&Rc<TableSchema>, &TableId)| {
            schema.table_by_id(*id).is_some_and(|it| Rc::ptr_eq(&it.schema, view))
        };
        Rc::ptr_eq(&self.base, &table.schema)
            && self.views.len() == table.views.len()
            && self.views.iter().zip(&*table.views).all(same)
    }
}
