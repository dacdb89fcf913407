//! The replica that a driver with tablet awareness should have sent a statement to.
//!
//! Invariants
//!  - *seldom-work*: a request to the right shard costs a hash of the key and a search among
//!    tablets.
//!  - *one-partition*: only a statement whose partition key is bound, a value for each column,
//!    has a place. Drivers route no other.

use crate::parameters::Parameters;
use crate::prefetch::token_of;
use crate::prepared::Prepared;
use crate::processor::Processor;
use model::Token;
use plan::Plan;
use plan::values::Value;

/// The tablet of a partition, and its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tablet holds the tokens after this one,
    pub after: Token,
    /// up to and including this one.
    pub last: Token,
    /// The shard of this node that has it.
    pub shard: u16,
}

impl Processor {
    /// Where the partition is that the statement reads or writes with these values, if that is
    /// another shard than this, and its table has tablets: those of other tables drivers compute.
    pub fn better_place(&self, prepared: &Prepared, parameters: &Parameters<'_>) -> Option<Place> {
        let statement = prepared.as_analysed();
        let table = match &statement.plan {
            Plan::Select(plan) => &plan.table,
            Plan::Modify(plan) => &plan.table,
            _ => return None,
        };
        let values = statement.values(&parameters.values).ok()?;
        let value = |at: u16| match values.get(at as usize) {
            Some(Value::Bytes(bytes)) => Some(*bytes),
            _ => None,
        };
        let token = token_of(&statement.bind.partition_key, value, &mut Vec::new())?;
        let tablet = table.tablets.tablet_of(token);
        let shard = table.tablets.shards()[tablet];
        if shard == runtime::shard_id() {
            return None;
        }
        let schema = self.cluster().schema();
        schema.keyspace(&table.schema.keyspace)?.keyspace.initial_tablets?;
        let (after, last) = table.tablets.range(tablet);
        Some(Place { after, last, shard })
    }
}
