//! Why a statement has no plan, or its plan no value.

use crate::guardrail::Guardrail;
use functions::Failure;
use std::fmt;

/// Why a statement has no plan, or its plan no value: a part of the errors of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A bug of ours.
    Server(String),
    /// The text is not of the language.
    Syntax(String),
    /// Nobody may do that.
    Unauthorized(String),
    /// It cannot be done as it is.
    Invalid(String),
    /// The schema cannot be like that.
    Config(String),
    /// As [`Error::Config`]: a rule of this node forbids it.
    Forbidden(Guardrail, String),
    /// `table` is empty where the keyspace exists already.
    AlreadyExists { keyspace: String, table: String },
    /// A function has failed.
    FunctionFailure(Failure),
}

impl Error {
    /// It cannot be done as it is.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    /// The error code of the native protocol.
    pub fn code(&self) -> u32 {
        match self {
            Error::Server(_) => 0x0000,
            Error::FunctionFailure(_) => 0x1400,
            Error::Syntax(_) => 0x2000,
            Error::Unauthorized(_) => 0x2100,
            Error::Invalid(_) => 0x2200,
            Error::Config(_) | Error::Forbidden(..) => 0x2300,
            Error::AlreadyExists { .. } => 0x2400,
        }
    }

    /// The error's text.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(text)
            | Error::Syntax(text)
            | Error::Unauthorized(text)
            | Error::Invalid(text)
            | Error::Config(text)
            | Error::Forbidden(_, text) => f.write_str(text),
            Error::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Keyspace {keyspace} already exists")
            }
            Error::AlreadyExists { keyspace, table } => write!(
                f,
                "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
            ),
            Error::FunctionFailure(failure) => write!(f, "{failure}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<syntax::SyntaxError> for Error {
    fn from(error: syntax::SyntaxError) -> Error {
        Error::Syntax(error.to_string())
    }
}

impl From<functions::Error> for Error {
    fn from(error: functions::Error) -> Error {
        match error {
            functions::Error::Invalid(text) => Error::Invalid(text),
            functions::Error::Failed(failure) => Error::FunctionFailure(failure),
            // It ends a step, which is then done again.
            functions::Error::Interrupted => Error::Server(error.to_string()),
        }
    }
}
