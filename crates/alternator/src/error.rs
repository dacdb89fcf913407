//! What a request is answered that fails: the type by which SDKs know it, a sentence, and the
//! status of HTTP.

use replication::{ReadError, WriteError};
use std::fmt;

/// The kinds of errors that the API has, of those that are met here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AccessDenied,
    BackupInUse,
    BackupNotFound,
    ConditionalCheckFailed,
    ContinuousBackupsUnavailable,
    DuplicateItem,
    ExportConflict,
    ExportNotFound,
    GlobalTableNotFound,
    IdempotentParameterMismatch,
    ImportConflict,
    ImportNotFound,
    IncompleteSignature,
    InternalServer,
    InvalidExportTime,
    InvalidRestoreTime,
    InvalidSignature,
    ItemCollectionSizeLimitExceeded,
    LimitExceeded,
    MissingAuthenticationToken,
    PointInTimeRecoveryUnavailable,
    PolicyNotFound,
    RequestLimitExceeded,
    ResourceInUse,
    ResourceNotFound,
    Serialization,
    TableAlreadyExists,
    TableInUse,
    TableNotFound,
    TooLarge,
    TransactionCanceled,
    UnknownOperation,
    UnrecognizedClient,
    Validation,
}

/// Those of the protocol, and those of DynamoDB itself.
const CORAL: &str = "com.amazon.coral.service#";
const DYNAMODB: &str = "com.amazonaws.dynamodb.v20120810#";

impl Kind {
    /// Namespace and name, as `__type` has them.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::AccessDenied => (CORAL, "AccessDeniedException"),
            Kind::BackupInUse => (DYNAMODB, "BackupInUseException"),
            Kind::BackupNotFound => (DYNAMODB, "BackupNotFoundException"),
            Kind::ConditionalCheckFailed => (DYNAMODB, "ConditionalCheckFailedException"),
            Kind::ContinuousBackupsUnavailable => {
                (DYNAMODB, "ContinuousBackupsUnavailableException")
            }
            Kind::DuplicateItem => (DYNAMODB, "DuplicateItemException"),
            Kind::ExportConflict => (DYNAMODB, "ExportConflictException"),
            Kind::ExportNotFound => (DYNAMODB, "ExportNotFoundException"),
            Kind::GlobalTableNotFound => (DYNAMODB, "GlobalTableNotFoundException"),
            Kind::IdempotentParameterMismatch => (DYNAMODB, "IdempotentParameterMismatchException"),
            Kind::ImportConflict => (DYNAMODB, "ImportConflictException"),
            Kind::ImportNotFound => (DYNAMODB, "ImportNotFoundException"),
            Kind::IncompleteSignature => (CORAL, "IncompleteSignatureException"),
            Kind::InternalServer => (DYNAMODB, "InternalServerError"),
            Kind::InvalidExportTime => (DYNAMODB, "InvalidExportTimeException"),
            Kind::InvalidRestoreTime => (DYNAMODB, "InvalidRestoreTimeException"),
            Kind::InvalidSignature => (CORAL, "InvalidSignatureException"),
            Kind::ItemCollectionSizeLimitExceeded => {
                (DYNAMODB, "ItemCollectionSizeLimitExceededException")
            }
            Kind::LimitExceeded => (DYNAMODB, "LimitExceededException"),
            Kind::MissingAuthenticationToken => (CORAL, "MissingAuthenticationTokenException"),
            Kind::PointInTimeRecoveryUnavailable => {
                (DYNAMODB, "PointInTimeRecoveryUnavailableException")
            }
            Kind::PolicyNotFound => (DYNAMODB, "PolicyNotFoundException"),
            Kind::RequestLimitExceeded => (DYNAMODB, "RequestLimitExceeded"),
            Kind::ResourceInUse => (DYNAMODB, "ResourceInUseException"),
            Kind::ResourceNotFound => (DYNAMODB, "ResourceNotFoundException"),
            Kind::Serialization => (CORAL, "SerializationException"),
            Kind::TableAlreadyExists => (DYNAMODB, "TableAlreadyExistsException"),
            Kind::TableInUse => (DYNAMODB, "TableInUseException"),
            Kind::TableNotFound => (DYNAMODB, "TableNotFoundException"),
            Kind::TooLarge => (CORAL, "RequestEntityTooLargeException"),
            Kind::TransactionCanceled => (DYNAMODB, "TransactionCanceledException"),
            Kind::UnknownOperation => (CORAL, "UnknownOperationException"),
            Kind::UnrecognizedClient => (CORAL, "UnrecognizedClientException"),
            Kind::Validation => (CORAL, "ValidationException"),
        }
    }

    /// The status of HTTP: SDKs try again what is 500 and above.
    pub fn status(self) -> u16 {
        match self {
            Kind::InternalServer => 500,
            Kind::TooLarge => 413,
            _ => 400,
        }
    }
}

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    /// Of a condition that does not hold: the item, as JSON, where the client asked for it.
    pub item: Option<String>,
    /// Of a transaction that was cancelled: the reasons of its parts, as JSON.
    pub reasons: Option<String>,
}

impl Error {
    /// Of that kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), item: None, reasons: None }
    }

    /// The request cannot be meant.
    pub fn validation(message: impl Into<String>) -> Error {
        Error::new(Kind::Validation, message)
    }

    /// The request is not in the form of the API.
    pub fn serialization(message: impl Into<String>) -> Error {
        Error::new(Kind::Serialization, message)
    }

    /// This node failed.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(Kind::InternalServer, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.names().1, self.message)
    }
}

impl std::error::Error for Error {}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Error {
        match error {
            WriteError::RateLimited(_) | WriteError::Overloaded(_) => {
                Error::new(Kind::RequestLimitExceeded, error.to_string())
            }
            WriteError::Refused(text) => Error::validation(text),
            error => Error::internal(error.to_string()),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error {
            ReadError::RateLimited(_) | ReadError::Overloaded(_) => {
                Error::new(Kind::RequestLimitExceeded, error.to_string())
            }
            ReadError::Refused(text) => Error::validation(text),
            error => Error::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_tried_again_is_told_by_the_status() {
        assert_eq!((Kind::InternalServer.status(), Kind::Validation.status()), (500, 400));
        let error = Error::validation("no x");
        assert_eq!(error.to_string(), "ValidationException: no x");
    }
}
