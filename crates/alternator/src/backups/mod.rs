//! Backups on demand: `CreateBackup`, `DescribeBackup`, `ListBackups`, `DeleteBackup`,
//! `RestoreTableFromBackup`; and recovery to points in time: `UpdateContinuousBackups`,
//! `DescribeContinuousBackups`, `RestoreTableToPointInTime`.
//!
//! A backup is a snapshot on each node that may have items ([`replication::backups`]), and a record
//! ([`record`], pure; [`records`], where they are kept). A restore is a table that says of itself
//! that its items are on their way ([`crate::restored`]); which table, the request and the record
//! decide ([`request`], pure). [`operations`] writes down what is to be; [`drive`] brings it about:
//! a backup on the node that was asked for it, a restore on the first node that is alive.
//!
//! A table that can be recovered has backups that nobody asks for, its [`bases`], and the log of
//! its changes since ([`crate::recovery`]); a table is made of such a one, and then of the log up
//! to a point ([`history`]). [`continuous`] has what clients ask for.
//!
//! Invariants
//!  - *outlives-the-table*: nothing of a backup goes with its table, nor with the node that was
//!    asked for it.
//!  - *in-use-stays*: a backup that a table is being made of is not removed.
//!
//! After a crash, wherever it comes: a backup that was told to be AVAILABLE is; one that was being
//! made is AVAILABLE, or is given up and its parts are removed when its node has started again; one
//! that was being removed is removed; a table that was being restored is filled by whoever is the
//! first node then, but for the parts that are known to be in it.

mod bases;
mod continuous;
mod drive;
mod history;
mod operations;
mod record;
mod records;
mod request;

pub(crate) use bases::keep as keep_bases;
pub(crate) use continuous::{
    describe as describe_continuous, restore_to_point, update as update_continuous,
};
pub(crate) use drive::keep;
pub(crate) use operations::{as_table_not_found, create, delete, describe, list, restore};
pub(crate) use record::{new_id, time_of};
