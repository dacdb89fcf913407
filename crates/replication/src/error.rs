//! Read and write errors, with their messages for clients.

use crate::options::{Consistency, WriteKind};
use crate::rate::RateLimited;
use std::fmt;

/// A write that is not acknowledged. After `Timeout` and `Failure` it may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Too few copies are alive; none is required where the data centre is to have none.
    Unavailable {
        consistency: Consistency,
        required: u32,
        alive: u32,
    },
    Timeout {
        consistency: Consistency,
        received: u32,
        required: u32,
        kind: WriteKind,
    },
    /// A copy failed: the reason.
    Failure {
        consistency: Consistency,
        received: u32,
        required: u32,
        failures: u32,
        kind: WriteKind,
        reason: String,
    },
    /// Overloaded; nothing was done.
    Overloaded(String),
    /// The write cannot be made: nothing was done.
    Refused(String),
    /// The state before it could not be read, which the log of its table is to tell: nothing was
    /// done.
    Unread(ReadError),
    /// Replicas rejected it: its partition is written too often.
    RateLimited(RateLimited),
}

/// A read without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Too few copies are alive; none is required where the data centre is to have none.
    Unavailable {
        consistency: Consistency,
        required: u32,
        alive: u32,
    },
    Timeout {
        consistency: Consistency,
        received: u32,
        required: u32,
        data_present: bool,
    },
    /// A copy failed: the reason.
    Failure {
        consistency: Consistency,
        received: u32,
        required: u32,
        failures: u32,
        data_present: bool,
        reason: String,
    },
    Overloaded(String),
    Refused(String),
    /// Replicas rejected it: its partition is read too often.
    RateLimited(RateLimited),
}

/// What clients are told, in ScyllaDB's words, where the state before a write cannot be read.
const NO_IMAGES: &str = "CDC preimage query could not achieve the CL.";

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Unavailable { consistency, required, alive } => {
                unavailable(f, *consistency, *required, *alive)
            }
            WriteError::Timeout { consistency, received, required, kind } => write!(
                f,
                "Operation timed out - received only {received} of {required} responses from \
                 {kind} writes at consistency {level}",
                kind = kind.name(),
                level = consistency.name(),
            ),
            WriteError::Failure { consistency, received, failures, reason, .. } => write!(
                f,
                "Operation failed - received {received} responses and {failures} failures from \
                 CL={level}: {reason}",
                level = consistency.name(),
            ),
            WriteError::Overloaded(reason) | WriteError::Refused(reason) => f.write_str(reason),
            WriteError::Unread(ReadError::Unavailable { .. }) => f.write_str(NO_IMAGES),
            WriteError::Unread(error) => write!(f, "{NO_IMAGES} {error}"),
            WriteError::RateLimited(limited) => write!(f, "{limited}"),
        }
    }
}
impl std::error::Error for WriteError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Unavailable { consistency, required, alive } => {
                unavailable(f, *consistency, *required, *alive)
            }
            ReadError::Timeout { consistency, received, required, .. } => write!(
                f,
                "Operation timed out - received only {received} of {required} responses at \
                 consistency {level}",
                level = consistency.name(),
            ),
            ReadError::Failure { consistency, received, failures, reason, .. } => write!(
                f,
                "Operation failed - received {received} responses and {failures} failures from \
                 CL={level}: {reason}",
                level = consistency.name(),
            ),
            ReadError::Overloaded(reason) | ReadError::Refused(reason) => f.write_str(reason),
            ReadError::RateLimited(limited) => write!(f, "{limited}"),
        }
    }
}
impl std::error::Error for ReadError {}

fn unavailable(
    f: &mut fmt::Formatter<'_>,
    consistency: Consistency,
    required: u32,
    alive: u32,
) -> fmt::Result {
    if required == 0 {
        return write!(
            f,
            "Cannot achieve consistency level {level}: the keyspace has no replicas in this data \
             centre (its replication factor is 0 there); use a non-local consistency level, or \
             add replicas",
            level = consistency.name(),
        );
    }
    write!(
        f,
        "Cannot achieve consistency level for cl {level}. Requires {required}, alive {alive}",
        level = consistency.name(),
    )
}

/// What storage's refusal of a write means for its client.
pub(crate) fn write_failed(
    error: storage::WriteError,
    consistency: Consistency,
    kind: WriteKind,
    required: u32,
) -> WriteError {
    use storage::WriteError as Cause;
    match error {
        Cause::Overloaded(what) => {
            WriteError::Overloaded(format!("Too many writes: timed out waiting for {what}"))
        }
        Cause::Moved => WriteError::Overloaded(error.to_string()),
        Cause::TooLarge { .. } | Cause::Damaged(_) => WriteError::Refused(error.to_string()),
        Cause::UnknownTable(_)
        | Cause::OverLimit(_)
        | Cause::FullDisk(_)
        | Cause::NoRoom { .. }
        | Cause::Log(_)
        | Cause::Stopped => {
            let (received, failures, reason) = (0, 1, error.to_string());
            WriteError::Failure { consistency, received, required, failures, kind, reason }
        }
    }
}

/// What storage's refusal of a read means for its client.
pub(crate) fn read_failed(
    error: reader::ReadError,
    consistency: Consistency,
    required: u32,
) -> ReadError {
    use reader::ReadError as Cause;
    let (received, failures, data_present) = (0, 1, false);
    let reason = match error {
        Cause::TimedOut => {
            return ReadError::Timeout { consistency, received, required, data_present };
        }
        Cause::Overloaded(reason) => return ReadError::Overloaded(reason),
        moved @ Cause::Moved => return ReadError::Overloaded(moved.to_string()),
        Cause::Io(error) => error.to_string(),
        // No read of a client is ever part of what operators stop.
        stopped @ Cause::Stopped => stopped.to_string(),
        Cause::Damaged { file, what, at } => format!("{file} is damaged: {what} at offset {at}"),
    };
    ReadError::Failure { consistency, received, required, failures, data_present, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_centre_without_copies_is_told_from_one_whose_copies_are_away() {
        let consistency = Consistency::LocalQuorum;
        let none = WriteError::Unavailable { consistency, required: 0, alive: 0 }.to_string();
        assert!(none.contains("Cannot achieve consistency level LOCAL_QUORUM: "), "{none}");
        assert!(none.contains("no replicas in this data centre"), "{none}");
        assert!(none.contains("use a non-local consistency level"), "{none}");
        let away = ReadError::Unavailable { consistency, required: 1, alive: 0 }.to_string();
        assert!(away.contains("Requires 1, alive 0"), "{away}");
    }
}
