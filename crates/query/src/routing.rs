//! The replicas that a driver with tablet awareness should have sent a statement to.
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
use cluster::schema::ShardLocal;
use model::{Token, Uuid};
use plan::Plan;
use plan::values::Value;

/// The tablet of a partition, and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tablet holds the tokens after this one,
    pub after: Token,
    /// up to and including this one.
    pub last: Token,
    /// The nodes that have it, and the shard on each.
    pub replicas: Vec<(Uuid, u16)>,
}

/// The replicas of a tablet, of which `own` is on `here`; `None` where `here` has one, or nobody.
fn elsewhere(replicas: &[(Uuid, u16)], here: (Uuid, u16), own: u16) -> Option<Vec<(Uuid, u16)>> {
    let is_own = |(host, _): &(Uuid, u16)| *host == here.0;
    if replicas.is_empty() || own == here.1 && replicas.iter().any(is_own) {
        return None;
    }
    // Since this node has other shards than when the table was made, it may be on another one.
    let present = |it: &(Uuid, u16)| (it.0, if is_own(it) { own } else { it.1 });
    Some(replicas.iter().map(present).collect())
}

impl Processor {
    /// Where the partition is that the statement reads or writes with these values, if this shard
    /// of this node has none of it, and its table has tablets: those of other tables drivers
    /// compute.
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
        if table.replicas.is_empty() {
            return None;
        }
        let token = token_of(&statement.bind.partition_key, value, &mut Vec::new())?;
        let here = (self.cluster().node().host_id, runtime::shard_id());
        let own = table.tablets.shard_of(token);
        let tablets = ShardLocal::replicas_of(table);
        let tablet = tablets.tablet_of(token);
        let replicas = elsewhere(tablets.read(tablet), here, own)?;
        let (after, last) = tablets.range(tablet);
        Some(Place { after, last, replicas })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_tablet_is_told_elsewhere() {
        let [one, two, three] = [1, 2, 3].map(Uuid::from_u128);
        let replicas = [(one, 4), (two, 5)];
        assert_eq!(elsewhere(&replicas, (one, 4), 4), None);
        assert_eq!(elsewhere(&replicas, (one, 3), 4), Some(replicas.to_vec()));
        // On another shard than was said when the table was made.
        assert_eq!(elsewhere(&replicas, (one, 1), 1), None);
        assert_eq!(elsewhere(&replicas, (one, 4), 1), Some(vec![(one, 1), (two, 5)]));
        // Some shard holds what others have.
        assert_eq!(elsewhere(&replicas, (three, 0), 0), Some(replicas.to_vec()));
        assert_eq!(elsewhere(&[], (one, 0), 1), None);
    }
}
