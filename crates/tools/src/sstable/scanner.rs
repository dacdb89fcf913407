//! JSON from a file, one value at a time: of lists and objects that do not fit into memory, their
//! items.

use super::Failure;
use super::files::CLASS;
use runtime::io::{File, OpenOptions};
use serde_json::Value;
use std::path::Path;

/// Bytes that one read takes.
const STEP_BYTES: usize = 128 << 10;

/// See the module.
pub(crate) struct Scanner {
    file: File,
    /// Where `buf` starts in the file.
    position: u64,
    buf: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Scanner {
    pub(crate) async fn open(path: &Path) -> Result<Scanner, Failure> {
        let file = File::open(path, OpenOptions::read_only().buffered()).await;
        let file = file.map_err(|error| Failure::Arguments(error.to_string()))?;
        Ok(Scanner { file, position: 0, buf: Vec::new(), at: 0, ended: false })
    }

    fn wrong<T>(&self, what: &str) -> Result<T, Failure> {
        let at = self.position + self.at as u64;
        Failure::operation(format!("{}: {what} at offset {at}", self.file.path().display()))
    }

    /// The next byte, which stays; `None` at the end.
    async fn byte(&mut self) -> Result<Option<u8>, Failure> {
        if self.at == self.buf.len() && !self.ended {
            self.position += self.buf.len() as u64;
            let bytes = self.file.read_at(CLASS, self.position, STEP_BYTES).await?;
            self.buf.clear();
            self.buf.extend_from_slice(&bytes);
            self.at = 0;
            self.ended = self.buf.is_empty();
        }
        Ok(self.buf.get(self.at).copied())
    }

    /// The next byte that is no white space, which stays; `None` at the end.
    pub(crate) async fn peek(&mut self) -> Result<Option<u8>, Failure> {
        while let Some(byte) = self.byte().await? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.at += 1;
        }
        Ok(None)
    }

    /// Takes this byte.
    pub(crate) async fn expect(&mut self, wanted: u8) -> Result<(), Failure> {
        match self.peek().await? {
            Some(byte) if byte == wanted => {
                self.at += 1;
                Ok(())
            }
            _ => self.wrong(&format!("'{}' expected", wanted as char)),
        }
    }

    /// Goes to the next item of a list or object, or behind its end, which is `close`. `first`:
    /// none was taken yet.
    pub(crate) async fn item(&mut self, close: u8, first: bool) -> Result<bool, Failure> {
        match self.peek().await? {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            Some(_) => self.wrong("',' expected"),
            None => self.wrong("the input ends too early"),
        }
    }

    /// The name of the next member of an object, and its colon.
    pub(crate) async fn name(&mut self) -> Result<String, Failure> {
        let name = match self.value().await? {
            Value::String(name) => name,
            _ => return self.wrong("a name expected"),
        };
        self.expect(b':').await?;
        Ok(name)
    }

    /// The next value, whole.
    pub(crate) async fn value(&mut self) -> Result<Value, Failure> {
        let mut text = Vec::new();
        let mut depth = 0usize;
        let mut in_string = false;
        let Some(_) = self.peek().await? else { return self.wrong("a value expected") };
        while let Some(byte) = self.byte().await? {
            if in_string {
                text.push(byte);
                self.at += 1;
                if byte == b'\\' {
                    let Some(escaped) = self.byte().await? else { break };
                    text.push(escaped);
                    self.at += 1;
                } else if byte == b'"' {
                    in_string = false;
                }
            } else {
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 0 => break,
                    b'}' | b']' => depth -= 1,
                    b',' | b':' if depth == 0 => break,
                    b'"' => in_string = true,
                    _ => {}
                }
                text.push(byte);
                self.at += 1;
            }
            let closed = matches!(byte, b'}' | b']' | b'"') && !in_string;
            if depth == 0 && closed {
                break;
            }
        }
        match serde_json::from_slice(&text) {
            Ok(value) => Ok(value),
            Err(error) => self.wrong(&format!("not JSON ({error})")),
        }
    }
}
