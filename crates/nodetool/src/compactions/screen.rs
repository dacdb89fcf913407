//! The terminal, while something is drawn on it again and again.
//!
//! Invariants
//!  - *as-it-was*: what is drawn goes to the terminal's other screen, and the cursor comes back.
//!  - *whole-pictures*: a picture is written at once.

use super::draw::Size;
use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal, Result, Write, stdout};

/// The other screen, without a cursor; what is too long for a line is cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Of a terminal that does not know how large it is.
const USUAL: Size = Size { columns: 80, lines: 24 };

/// Whether the output is a terminal that pictures can be drawn on.
pub(super) fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stdout().is_terminal() && !is_dumb
}

/// How wide the terminal is; `None`: the output is none.
pub(super) fn columns() -> Option<usize> {
    stdout().is_terminal().then(|| size().columns)
}

fn size() -> Size {
    let told = tcgetwinsize(stdout()).ok();
    let told = told.filter(|told| told.ws_col != 0 && told.ws_row != 0);
    told.map_or(USUAL, |told| Size {
        columns: usize::from(told.ws_col),
        lines: usize::from(told.ws_row),
    })
}

/// The terminal, until this goes (*as-it-was*).
pub(super) struct Screen(());

impl Screen {
    pub(super) fn enter() -> Result<Screen> {
        let screen = Screen(());
        write(ENTER)?;
        Ok(screen)
    }

    pub(super) fn size(&self) -> Size {
        size()
    }

    /// *whole-pictures*
    pub(super) fn show(&mut self, lines: &[String]) -> Result<()> {
        write(&picture(lines))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = write(LEAVE);
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Lines from the top of the screen on, and nothing of what was there before.
fn picture(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
    format!("\x1b[H{}\x1b[J", lines.join("\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_leaves_nothing_of_the_one_before() {
        let lines = ["ab".to_string(), String::new(), "c".to_string()];
        assert_eq!(picture(&lines), "\x1b[Hab\x1b[K\r\n\x1b[K\r\nc\x1b[K\x1b[J");
    }
}
