//! What a statement does.

use crate::modify::{BatchPlan, ModifyPlan};
use crate::prune::PrunePlan;
use crate::select::{SelectPlan, ValuesPlan};
use crate::term::Term;
use cluster::TableEntry;
use std::rc::Rc;
use syntax::ast;

/// What a statement does.
#[derive(Debug)]
pub enum Plan {
    Select(Box<SelectPlan>),
    Values(Box<ValuesPlan>),
    Modify(Box<ModifyPlan>),
    Batch(Box<BatchPlan>),
    /// With its `USING TIMEOUT`.
    Truncate(Rc<TableEntry>, Option<Term>),
    Prune(Box<PrunePlan>),
    Use(Rc<str>),
    /// With the marker of its `USING TIMESTAMP`, if it has one.
    Schema(Box<ast::SchemaStatement>, Option<Term>),
    Describe(Box<ast::Describe>),
    /// About roles, grants or service levels.
    Access(Box<ast::AccessStatement>),
}
