//! `WHERE`: which partitions and which clustering ranges it names, and what is left to be
//! filtered row by row.
//!
//! Invariants
//!  - *nothing-lost*: every relation ends up in the partition plan, in the clustering plan or in
//!    the filters; a relation that the plans cover is not in the filters.
//!  - *filtering-is-asked-for*: where rows are read that the answer does not hold, the statement
//!    says `ALLOW FILTERING`.
//!
//! Of several relations on one column of a key the one that names its values best makes the plan,
//! the others are filters that need not be asked for.
//!
//! From the ground up: [`values`] (what is compared with), [`partition`], [`clustering`] and
//! [`filter`] (the plans, and their evaluation), [`lookup`] and [`posting`] (what an index is
//! asked, and what it has), [`relations`] (what is said per column), [`index`] (which one is
//! asked), [`analyze`] (who does what).

mod analyze;
mod clustering;
mod filter;
mod index;
mod lookup;
mod partition;
mod posting;
mod relations;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod values;

pub use analyze::{Restrictions, analyze};
pub use clustering::ClusteringPlan;
pub use filter::{contains as contains_value, holds, like};
pub use partition::{KeyValue, Keys, PartitionPlan, RingRange, keys, keys_up_to, ring};
pub use posting::{BaseRow, IndexPart, IndexPlan, IndexRead};
pub use relations::{Purpose, find, symbol};
pub use values::{Nulls, key_value};
