//! What a command line is answered with instead of a run: a text, or a refusal; and the name that
//! the program was called by.

use std::io::Write;
use std::process::ExitCode;

/// The command line makes no sense: says why.
pub fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(2)
}

/// Prints a text to who may have read enough of it before its end, such as `head`.
pub fn show(text: &str) -> ExitCode {
    let text = text.trim_end();
    match std::io::stdout().write_all(format!("{text}\n").as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("cannot write the output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The name that the program was called by: an operator's scripts may know it by another.
pub fn program() -> String {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "nereid".to_string(), |name| name.to_string_lossy().into_owned())
}
