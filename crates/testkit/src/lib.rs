//! Nodes in process, simulated and real; what works on them, what goes wrong with them, and what
//! checks that nothing was lost. The one way in which tests start nodes.
//!
//! Its rooms, from the ground up; the features say how much of a node there is:
//!
//! | room | feature | |
//! |---|---|---|
//! | [`draw`] | | values of strategies, from a seed |
//! | [`archives`] | | files of other implementations |
//! | [`sim`] | | a simulated machine that crashes and has faults |
//! | [`real`] | | real shards with files in a directory of their own |
//! | [`history`] | | what may be found after a crash |
//! | [`log`] | | what nodes log, in the trace of a simulation |
//! | [`linear`] | | whether a history of a register is linearizable |
//! | [`rounds`] | | a workload, crash after crash |
//! | [`config`] | `cluster` | how nodes of tests are configured |
//! | [`schema`] | `cluster` | random changes of it, as a workload |
//! | [`rows`] | `replication` | tables of one key and one value, by a coordinator |
//! | [`writes`] | `replication` | batches and increments as workloads |
//! | [`cql`] | `query` | statement in, rows out |
//! | [`script`] | `query` | statements with what they answer |
//! | [`registers`] | `query` | clients that count by statements, as a workload |
//! | [`bare`] | `native` | a server, and clients without a driver |
//!
//! Invariants
//!  - *one-copy*: no test of a crate's `src` gives values of its crate to this one, or takes them
//!    from it. This one is built on the crate as a library, and such a test is in another copy of
//!    it, whose types are others. So tests there use the rooms without a feature alone, which stand
//!    on `runtime` and nothing above it but the generators; what needs a node of the crate's own
//!    height is in its `tests/it`, and what only its private parts need is in its `testing` or
//!    `tests` modules.
//!  - *own-height*: a crate asks for the feature of its height and no more. `tests/it` of `query`
//!    does not wait for `native`, that of `sstable` for no node at all.
//!  - *no-state*: nothing here is shared between two tests of a process; they run as threads.

pub mod archives;
#[cfg(feature = "native")]
pub mod bare;
#[cfg(feature = "cluster")]
pub mod config;
#[cfg(feature = "query")]
pub mod cql;
pub mod draw;
pub mod history;
pub mod linear;
pub mod log;
pub mod real;
#[cfg(feature = "query")]
pub mod registers;
pub mod rounds;
#[cfg(feature = "replication")]
pub mod rows;
#[cfg(feature = "cluster")]
pub mod schema;
#[cfg(feature = "query")]
pub mod script;
pub mod sim;
#[cfg(feature = "replication")]
pub mod writes;

#[cfg(feature = "query")]
pub use cql::CqlEnv;
pub use draw::Draw;
pub use sim::{Fault, SimNode};
