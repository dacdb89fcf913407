//! The encryption that options ask for.

use options::Values;
use tls::Options;

/// The encryption that an option asks for; `None`: none. The error names the option.
pub fn wanted(values: &Values, option: &str) -> Result<Option<Options>, String> {
    let wanted = tls::options::parse(&values.list(option));
    wanted.map_err(|error| format!("option {option}: {error}"))
}
