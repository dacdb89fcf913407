//! Where lines go: a stream of the process, from every shard.
//!
//! Invariants
//!  - *never-waits*: a line is written as far as the stream has room at once: whoever reads the log
//!    and stops can make a node lose lines, and never wait. Files always have room.
//!  - *lost-is-told*: lines that were lost are counted, and the next line that fits says how many.
//!  - *whole-lines*: lines of shards do not mix, and what was cut off ends its line.

use crate::Stream;
use crate::form::Form;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{retry_on_intr, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing_subscriber::fmt::MakeWriter;

/// Bytes for which a pipe has room if it says that it has any (`PIPE_BUF`).
const STEP_BYTES: usize = 4096;

/// What became of lines so far; used while the stream is locked.
#[derive(Debug)]
struct State {
    lost: AtomicU64,
    is_cut: AtomicBool,
}

static STATE: State = State { lost: AtomicU64::new(0), is_cut: AtomicBool::new(false) };

/// The stream, as the library asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sink {
    pub(super) stream: Stream,
    pub(super) form: Form,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Sink;

    fn make_writer(&'a self) -> Sink {
        *self
    }
}

impl io::Write for Sink {
    /// Takes a whole line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.stream {
            Stream::Stdout => STATE.send(io::stdout().lock().as_fd(), line, self.form),
            Stream::Stderr => STATE.send(io::stderr().lock().as_fd(), line, self.form),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn send(&self, stream: BorrowedFd<'_>, line: &[u8], form: Form) {
        if self.send_all(stream, line, form).is_none() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send_all(&self, stream: BorrowedFd<'_>, line: &[u8], form: Form) -> Option<()> {
        if self.is_cut.load(Ordering::Relaxed) {
            put(stream, b"\n").then_some(())?;
            self.is_cut.store(false, Ordering::Relaxed);
        }
        let lost = self.lost.load(Ordering::Relaxed);
        if lost != 0 {
            self.send_line(stream, form.lost(lost).as_bytes())?;
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        }
        self.send_line(stream, line)
    }

    fn send_line(&self, stream: BorrowedFd<'_>, line: &[u8]) -> Option<()> {
        for (number, step) in line.chunks(STEP_BYTES).enumerate() {
            if !put(stream, step) {
                self.is_cut.store(number != 0, Ordering::Relaxed);
                return None;
            }
        }
        Some(())
    }
}

/// Writes at most [`STEP_BYTES`] if there is room for them at once (*never-waits*).
fn put(stream: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let mut asked = [PollFd::new(&stream, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_ready = poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready == 1);
    if !is_ready || !asked[0].revents().contains(PollFlags::OUT) {
        return false;
    }
    // A pipe takes a step whole; of what a file on a full disk takes half, the rest is lost.
    retry_on_intr(|| write(stream, bytes)).is_ok_and(|written| written == bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read, pipe};

    fn state() -> State {
        State { lost: AtomicU64::new(0), is_cut: AtomicBool::new(false) }
    }

    fn read(pipe: &mut PipeReader) -> String {
        let mut bytes = vec![0; 1 << 20];
        let count = pipe.read(&mut bytes).expect("bytes");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn a_reader_that_stops_loses_lines_and_is_told() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let state = state();
        let line = format!("{}\n", "x".repeat(999));
        let sent = 1000;
        (0..sent).for_each(|_| state.send(writer.as_fd(), line.as_bytes(), Form::Text));
        let lost = state.lost.load(Ordering::Relaxed);
        let seen = read(&mut reader).lines().count() as u64;
        assert!(0 < lost && lost + seen == sent, "{lost} lost, {seen} seen");
        state.send(writer.as_fd(), b"after\n", Form::Text);
        let text = read(&mut reader);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].ends_with(&format!(
                "log - {lost} log lines lost: the reader of the log \
                                             does not keep up"
            )),
            "{text}"
        );
        assert_eq!(lines[1..], ["after"]);
        assert_eq!(state.lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_long_line_that_was_cut_off_ends() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let state = state();
        let line = vec![b'x'; 1 << 20];
        state.send(writer.as_fd(), &line, Form::Json);
        let head = read(&mut reader);
        assert!(STEP_BYTES <= head.len() && !head.contains('\n'), "{}", head.len());
        state.send(writer.as_fd(), b"{}\n", Form::Json);
        let text = read(&mut reader);
        let lines: Vec<&str> = text.lines().collect();
        let told: serde_json::Value = serde_json::from_str(lines[1]).expect("JSON");
        let message = told["message"].as_str().expect("a message");
        assert_eq!((lines[0], lines[2], &message[..6]), ("", "{}", "1 log "));
    }

    #[test]
    fn a_stream_without_a_reader_is_no_error() {
        let (reader, writer) = pipe().expect("a pipe");
        let state = state();
        drop(reader);
        state.send(writer.as_fd(), b"x\n", Form::Text);
        assert_eq!(state.lost.load(Ordering::Relaxed), 1);
    }
}
