//! What nodes log, as lines of the trace of their simulation.

use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// From now on lines of the log are in the trace of the world whose node writes them, in all
/// threads of this process. Lines of nodes without a world, and of worlds without a trace, go
/// nowhere.
pub fn into_trace() {
    // Another test of this process may have done it.
    let _ = tracing::subscriber::set_global_default(Lines);
}

struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        stdx::check::is_traced() && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        let metadata = event.metadata();
        stdx::check::trace(format_args!("logs {} {}:{text}", metadata.level(), metadata.target()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a line, the message without its name.
struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a string takes all");
    }
}

#[cfg(test)]
mod tests {
    use crate::SimNode;
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn lines_of_the_log_are_in_the_trace() {
        super::into_trace();
        let mut node = SimNode::new(1, 1);
        let note = |what: std::fmt::Arguments<'_>| {
            LINES.with(|lines| lines.borrow_mut().push(what.to_string()));
        };
        stdx::check::set_trace(Some(note));
        node.run(async {
            tracing::warn!(target: "here", number = 3, "it {}", "happens");
            tracing::debug!("nobody reads that");
        });
        stdx::check::set_trace(None);
        node.run(async { tracing::warn!("nor that") });
        let lines = LINES.with(|lines| lines.take());
        assert_eq!(lines, ["logs WARN here: it happens number=3"]);
    }
}
