//! Results on stdout, piece by piece.

use super::Failure;
use serde_json::Value;
use std::io::{BufWriter, Stdout, Write};

/// Where results go.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    /// Whether the present list has an item.
    started: bool,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { out: BufWriter::with_capacity(64 << 10, std::io::stdout()), started: false }
    }

    /// Writes text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(failed)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes a JSON value.
    pub(crate) fn json(&mut self, value: &Value) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| failed(error.into()))
    }

    /// `{"sstables":{`
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.started = false;
        self.text("{\"sstables\":{")
    }

    /// `"name":`, with a comma where it is not the first.
    pub(crate) fn entry(&mut self, name: &str) -> Result<(), Failure> {
        if std::mem::replace(&mut self.started, true) {
            self.text(",")?;
        }
        self.json(&Value::from(name))?;
        self.text(":")
    }

    /// `}}`
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        self.line("}}")
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(failed)
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::Operation(format!("cannot write the output: {error}"))
}
