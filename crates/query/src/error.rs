//! Errors of statements: one variant per error of the native protocol, with the fields of its
//! body.

use functions::Failure;
use plan::Guardrail;
use replication::{Consistency, RateLimited, WriteKind};
use std::fmt;

/// An error of the native protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CqlError {
    /// 0x0000: a bug of ours, or damage.
    Server(String),
    /// 0x000A: the client broke the protocol.
    Protocol(String),
    /// 0x0100
    BadCredentials(String),
    /// 0x1000
    Unavailable { consistency: Consistency, required: u32, alive: u32 },
    /// The same of the read that a write with images in its log needs.
    ImagesUnavailable { consistency: Consistency, required: u32, alive: u32 },
    /// 0x1001
    Overloaded(String),
    /// 0x1002
    Bootstrapping(String),
    /// 0x1003
    Truncate(String),
    /// 0x1100
    WriteTimeout { consistency: Consistency, received: u32, required: u32, kind: WriteKind },
    /// 0x1200
    ReadTimeout { consistency: Consistency, received: u32, required: u32, data_present: bool },
    /// 0x1300, from version 4 on
    ReadFailure {
        consistency: Consistency,
        received: u32,
        required: u32,
        failures: u32,
        data_present: bool,
        reason: String,
    },
    /// 0x1400, from version 4 on.
    FunctionFailure(Failure),
    /// 0x1500, from version 4 on
    WriteFailure {
        consistency: Consistency,
        received: u32,
        required: u32,
        failures: u32,
        kind: WriteKind,
        reason: String,
    },
    /// 0x2000
    Syntax(String),
    /// 0x2100
    Unauthorized(String),
    /// 0x2200
    Invalid(String),
    /// 0x2300
    Config(String),
    /// As [`CqlError::Config`]: a rule of this node forbids it.
    Forbidden(Guardrail, String),
    /// 0xF000 for clients that know it, else as [`CqlError::Config`].
    RateLimit(RateLimited),
    /// 0x2400; `table` is empty where the keyspace exists already.
    AlreadyExists { keyspace: String, table: String },
    /// 0x2500
    Unprepared { id: Vec<u8> },
}

impl CqlError {
    /// The request cannot be done as it is: 0x2200.
    pub fn invalid(message: impl Into<String>) -> CqlError {
        CqlError::Invalid(message.into())
    }

    /// The error code of the native protocol.
    pub fn code(&self) -> u32 {
        match self {
            CqlError::Server(_) => 0x0000,
            CqlError::Protocol(_) => 0x000a,
            CqlError::BadCredentials(_) => 0x0100,
            CqlError::Unavailable { .. } | CqlError::ImagesUnavailable { .. } => 0x1000,
            CqlError::Overloaded(_) => 0x1001,
            CqlError::Bootstrapping(_) => 0x1002,
            CqlError::Truncate(_) => 0x1003,
            CqlError::WriteTimeout { .. } => 0x1100,
            CqlError::ReadTimeout { .. } => 0x1200,
            CqlError::ReadFailure { .. } => 0x1300,
            CqlError::FunctionFailure(_) => 0x1400,
            CqlError::WriteFailure { .. } => 0x1500,
            CqlError::Syntax(_) => 0x2000,
            CqlError::Unauthorized(_) => 0x2100,
            CqlError::Invalid(_) => 0x2200,
            CqlError::Config(_) | CqlError::Forbidden(..) => 0x2300,
            CqlError::RateLimit(_) => 0xf000,
            CqlError::AlreadyExists { .. } => 0x2400,
            CqlError::Unprepared { .. } => 0x2500,
        }
    }

    /// The error's text.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use replication::{ReadError, WriteError};
        match self {
            CqlError::Server(text)
            | CqlError::Protocol(text)
            | CqlError::BadCredentials(text)
            | CqlError::Overloaded(text)
            | CqlError::Bootstrapping(text)
            | CqlError::Truncate(text)
            | CqlError::Syntax(text)
            | CqlError::Unauthorized(text)
            | CqlError::Invalid(text)
            | CqlError::Config(text)
            | CqlError::Forbidden(_, text) => f.write_str(text),
            CqlError::Unavailable { consistency, required, alive } => {
                let (consistency, required, alive) = (*consistency, *required, *alive);
                write!(f, "{}", ReadError::Unavailable { consistency, required, alive })
            }
            CqlError::ImagesUnavailable { consistency, required, alive } => {
                let (consistency, required, alive) = (*consistency, *required, *alive);
                let unread = ReadError::Unavailable { consistency, required, alive };
                write!(f, "{}", WriteError::Unread(unread))
            }
            CqlError::WriteTimeout { consistency, received, required, kind } => {
                let (received, required) = (*received, *required);
                let (consistency, kind) = (*consistency, *kind);
                write!(f, "{}", WriteError::Timeout { consistency, received, required, kind })
            }
            CqlError::ReadTimeout { consistency, received, required, .. } => {
                let (consistency, received) = (*consistency, *received);
                let required = *required;
                let data_present = false;
                write!(
                    f,
                    "{}",
                    ReadError::Timeout { consistency, received, required, data_present }
                )
            }
            CqlError::ReadFailure { consistency, received, failures, reason, .. }
            | CqlError::WriteFailure { consistency, received, failures, reason, .. } => write!(
                f,
                "Operation failed - received {received} responses and {failures} failures from \
                 CL={level}: {reason}",
                level = consistency.name(),
            ),
            CqlError::FunctionFailure(failure) => write!(f, "{failure}"),
            CqlError::RateLimit(limited) => write!(f, "{limited}"),
            CqlError::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Keyspace {keyspace} already exists")
            }
            CqlError::AlreadyExists { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
            CqlError::Unprepared { id } => {
                f.write_str("Prepared query with ID ")?;
                id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(
                    " not found (either the query was not prepared on this host (maybe the host \
                     has been restarted?) or you have prepared too many queries and it has been \
                     evicted from the internal cache)",
                )
            }
        }
    }
}
impl std::error::Error for CqlError {}

impl From<plan::Error> for CqlError {
    fn from(error: plan::Error) -> CqlError {
        match error {
            plan::Error::Server(text) => CqlError::Server(text),
            plan::Error::Syntax(text) => CqlError::Syntax(text),
            plan::Error::Unauthorized(text) => CqlError::Unauthorized(text),
            plan::Error::Invalid(text) => CqlError::Invalid(text),
            plan::Error::Config(text) => CqlError::Config(text),
            plan::Error::Forbidden(rule, text) => CqlError::Forbidden(rule, text),
            plan::Error::AlreadyExists { keyspace, table } => {
                CqlError::AlreadyExists { keyspace, table }
            }
            plan::Error::FunctionFailure(failure) => CqlError::FunctionFailure(failure),
        }
    }
}

impl From<functions::Error> for CqlError {
    fn from(error: functions::Error) -> CqlError {
        plan::Error::from(error).into()
    }
}

impl From<RateLimited> for CqlError {
    fn from(limited: RateLimited) -> CqlError {
        CqlError::RateLimit(limited)
    }
}

impl From<replication::ReadError> for CqlError {
    fn from(error: replication::ReadError) -> CqlError {
        use replication::ReadError;
        match error {
            ReadError::Unavailable { consistency, required, alive } => {
                CqlError::Unavailable { consistency, required, alive }
            }
            ReadError::Timeout { consistency, received, required, data_present } => {
                CqlError::ReadTimeout { consistency, received, required, data_present }
            }
            ReadError::Failure {
                consistency,
                received,
                required,
                failures,
                data_present,
                reason,
            } => CqlError::ReadFailure {
                consistency,
                received,
                required,
                failures,
                data_present,
                reason,
            },
            ReadError::Overloaded(text) => CqlError::Overloaded(text),
            ReadError::Refused(text) => CqlError::Invalid(text),
            ReadError::RateLimited(limited) => limited.into(),
        }
    }
}

impl From<replication::WriteError> for CqlError {
    fn from(error: replication::WriteError) -> CqlError {
        use replication::{ReadError, WriteError};
        match error {
            WriteError::Unavailable { consistency, required, alive } => {
                CqlError::Unavailable { consistency, required, alive }
            }
            WriteError::Timeout { consistency, received, required, kind } => {
                CqlError::WriteTimeout { consistency, received, required, kind }
            }
            WriteError::Failure { consistency, received, required, failures, kind, reason } => {
                CqlError::WriteFailure { consistency, received, required, failures, kind, reason }
            }
            WriteError::Overloaded(text) => CqlError::Overloaded(text),
            WriteError::Refused(text) => CqlError::Invalid(text),
            WriteError::Unread(ReadError::Unavailable { consistency, required, alive }) => {
                CqlError::ImagesUnavailable { consistency, required, alive }
            }
            WriteError::Unread(error) => error.into(),
            WriteError::RateLimited(limited) => limited.into(),
        }
    }
}
