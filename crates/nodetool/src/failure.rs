//! How a command ends: done, or why not, and the exit code of that.

/// How a command ends.
pub(crate) type Done = Result<(), Failure>;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No words; here is how to use it.
    Usage(String),
    /// The line cannot be read.
    Line(String),
    /// The arguments do not make sense.
    Argument(String),
    /// What came was not what a node answers.
    Unexpected(String),
    /// The node could not do it.
    Operation(String),
    /// The node refused, or cannot be reached.
    Refused { status: u16, text: String },
    /// All is said.
    Code(u8),
}

impl Failure {
    /// The code of the process and what is printed to standard error.
    pub(crate) fn told(self) -> (u8, String) {
        match self {
            Failure::Usage(text) => (1, text),
            Failure::Line(text) => (1, format!("error: {text}")),
            Failure::Argument(text) => (1, format!("error processing arguments: {text}")),
            Failure::Unexpected(text) => (2, format!("error: {text}")),
            Failure::Operation(text) => (3, text),
            Failure::Refused { text, .. } => (4, text),
            Failure::Code(code) => (code, String::new()),
        }
    }

    /// What the node said to it.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Failure::Refused { status, .. } if *status != 0 => Some(*status),
            _ => None,
        }
    }
}

/// A wrong argument.
pub(crate) fn wrong<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Argument(text.into()))
}
