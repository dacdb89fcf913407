//! Statements of tools, past the socket.

use query::{CqlError, Parameters, Prepared, Processor, Response, Session, Value, Values};
use replication::Consistency;
use std::rc::Rc;

/// Executes a statement without values. The error names it.
pub(crate) async fn execute(text: &str) -> Result<(), String> {
    let processor = runtime::local::get::<Processor>();
    let parameters = Parameters::plain(Consistency::One);
    let done = processor.query(&Session::internal(), text, &parameters).await;
    done.map(|_| ()).map_err(|error| format!("{text}: {error}"))
}

/// A statement that was prepared on this shard.
pub(crate) struct Statement {
    processor: Rc<Processor>,
    session: Session,
    prepared: Rc<Prepared>,
}

impl Statement {
    pub(crate) async fn prepare(text: &str) -> Result<Statement, String> {
        let (processor, session) = (runtime::local::get::<Processor>(), Session::internal());
        let prepared = processor.prepare(&session, text, None).await;
        let prepared = prepared.map_err(|error| format!("{text}: {error}"))?;
        Ok(Statement { processor, session, prepared })
    }

    pub(crate) async fn run(
        &self,
        values: &[Value<'_>],
        consistency: Consistency,
    ) -> Result<Response, CqlError> {
        let parameters = Parameters {
            values: Values::Positional(values),
            skip_metadata: true,
            ..Parameters::plain(consistency)
        };
        self.processor.execute(&self.session, &self.prepared, &parameters).await
    }
}
