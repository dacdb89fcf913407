//! Why a call gives no value.

use crate::NATIVE_KEYSPACE;
use std::fmt;

/// Why a call gives no value, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It cannot be as it is.
    Invalid(String),
    /// It has failed with these arguments.
    Failed(Failure),
    /// A function of a user was put aside, which ends the step that called it (see
    /// [`crate::Calls`]); clients never see it.
    Interrupted,
}

/// A failure of a function, or of an operator of one operand or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// An operator has none.
    pub keyspace: String,
    /// Its name, or the operator's sign.
    pub function: String,
    /// Their types.
    pub arguments: Vec<String>,
    /// What went wrong.
    pub reason: String,
}

impl Error {
    /// The call cannot be as it is.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    /// A native function has failed.
    pub(crate) fn of_native(function: &str, arguments: Vec<String>, reason: String) -> Error {
        let (keyspace, function) = (NATIVE_KEYSPACE.to_owned(), function.to_owned());
        Error::Failed(Failure { keyspace, function, arguments, reason })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(text) => f.write_str(text),
            Error::Failed(failure) => write!(f, "{failure}"),
            Error::Interrupted => f.write_str("a function was interrupted"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { keyspace, function, arguments, reason } = self;
        match &arguments[..] {
            _ if !keyspace.is_empty() => {
                let arguments = arguments.join(", ");
                write!(f, "execution of '{keyspace}.{function}[{arguments}]' failed: {reason}")
            }
            [left, right] => {
                write!(f, "the operation '{left} {function} {right}' failed: {reason}")
            }
            operands => {
                write!(f, "the operation '{function}{}' failed: {reason}", operands.join(", "))
            }
        }
    }
}
