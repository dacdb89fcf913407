//! What tests of this crate share.

use options::{Source, Values};

/// Options as a command line gives them.
pub(crate) fn values(given: &[(&str, &str)]) -> Values {
    let mut values = Values::default();
    for (name, value) in given {
        values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
    }
    values
}
