//! Options: one table of names, kinds and defaults; read from a YAML file and the command line.
//!
//! Every option of ScyllaDB's configuration is known here, so that its launch scripts and files
//! work unchanged; what a node of today does not use yet is stored and shown, and does nothing.
//! What an option does is not known here: whoever is told by one reads it by its name.
//!
//! From the ground up: `refused` (why, and what was meant), `kind` (what a value can be), `table`
//! (the options), `file` (YAML, with places), `values` (each option's value and its source),
//! `places` (where a file is looked for), `rules` (what goes together), `line` (the command line),
//! [`terminal`] (what a command line is answered with).
//!
//! Nothing waits here and nothing is started; the one file that is read is that of the options.

mod file;
mod kind;
mod line;
mod places;
mod refused;
mod rules;
mod table;
pub mod terminal;
mod values;

pub use file::{Note, Place};
pub use kind::{Kind, parse_bytes};
pub use line::{Line, Listed, OTHERS, arguments, help_flag, read, values_of};
pub use places::{options_file, read_options_file, read_text, usual_file};
pub use refused::{Refused, nearest};
pub use rules::{Fault, contradictions};
pub use table::{GROUPS, Group, LEGACY, OptionRow, rows};
pub use values::{Source, Values};
