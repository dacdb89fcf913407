//! Row-level repair of ranges among their replicas: the edge of [`crate::sync`], which decides.
//!
//! Any replica of a range may ask the others. It keeps nothing that others depend on: what they
//! keep for it they forget by themselves, and a second repair finds what the first one has left.
//!
//! In reading order: [`Reading`] (how shards are read), `turns` (how many ranges at once), `known`
//! (what need not be read), `scan` (what a node has, as all judge it), `session` (what a replica
//! keeps for who asks), `ask` (the others), `history` (what is remembered), `range` (who asks),
//! [`Sending`] (what was missed before), `times` (what is noted with tablets), `job` (the ranges of
//! tables), [`Automatic`] (what nobody asks for).

mod ask;
mod automatic;
pub(crate) mod history;
mod job;
pub(crate) mod known;
pub(crate) mod range;
mod reading;
mod scan;
pub(crate) mod sent;
mod session;
mod times;
pub(crate) mod turns;

pub use automatic::{Automatic, Counters};
pub use job::{Wanted, Watch};
pub use range::{Figures, How, Moment, Range};
pub use reading::Reading;
pub use sent::Sending;
pub(crate) use session::Sessions;
