//! What a command is: its name, what it takes, what runs it.

use crate::arguments::{Opt, Place};
use crate::failure::Done;
use crate::session::Session;
use std::pin::Pin;

/// A command that runs.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Done> + 'a>>;

/// A command.
pub(crate) struct Entry {
    /// One word, or two.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) options: &'static [Opt],
    pub(crate) places: &'static [Place],
    pub(crate) run: for<'a> fn(&'a mut Session) -> Running<'a>,
}
