//! Statements of tools, past the socket.

use query::{
    CqlError, Parameters, Prepared, Processor, Response, ResponseKind, Session, Value, Values,
};
use replication::Consistency;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// Executes a statement without values. The error names it.
pub(crate) async fn execute(text: &str) -> Result<(), String> {
    let processor = runtime::local::get::<Processor>();
    let parameters = Parameters::plain(Consistency::One);
    let done = processor.query(&Session::internal(), text, &parameters).await;
    done.map(|_| ()).map_err(|error| format!("{text}: {error}"))
}

/// A session of that role, as a client has it; without one, of the node itself.
fn session_of(role: Option<&str>) -> Session {
    let Some(role) = role else { return Session::internal() };
    let session = Session::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    session.log_in(role);
    session
}

/// A statement that was prepared on this shard.
pub(crate) struct Statement {
    processor: Rc<Processor>,
    session: Session,
    prepared: Rc<Prepared>,
}

impl Statement {
    pub(crate) async fn prepare(text: &str) -> Result<Statement, String> {
        Statement::prepare_as(None, text).await
    }

    /// The same, of who is logged in as a role, and may do what that was granted.
    pub(crate) async fn prepare_as(role: Option<&str>, text: &str) -> Result<Statement, String> {
        let (processor, session) = (runtime::local::get::<Processor>(), session_of(role));
        let prepared = processor.prepare(&session, text, None, None).await;
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

    /// The same of a read, in pages of so many rows, to the last one.
    pub(crate) async fn run_pages(
        &self,
        values: &[Value<'_>],
        consistency: Consistency,
        page_size: i32,
    ) -> Result<(), CqlError> {
        let mut state: Option<Vec<u8>> = None;
        loop {
            let parameters = Parameters {
                values: Values::Positional(values),
                skip_metadata: true,
                page_size: Some(page_size),
                paging_state: state.as_deref(),
                ..Parameters::plain(consistency)
            };
            let page = self.processor.execute(&self.session, &self.prepared, &parameters).await?;
            state = match page.kind {
                ResponseKind::Rows(rows) => rows.paging_state,
                _ => None,
            };
            if state.is_none() {
                return Ok(());
            }
        }
    }
}
