//! The console: a page for operators at `/console`, and what it asks the node for.
//!
//! In reading order: [`Console`] (which request is what), `guard` (who may ask), `assets` (the page
//! itself), `live` (throughput and latency over time), `counts` (what shards count), `views`
//! (cluster, tables, tasks), `hot` (partitions), `cql` (the prompt), `slow` (slow queries).
//!
//! Everything that the page shows comes from `/console/api/..`, as JSON, and is put on the page as
//! text. Nothing is loaded from elsewhere.
//!
//! Invariants
//!  - *same-page-only*: `/console/api` answers requests that carry a header of the page, which no
//!    other site can send (`guard`), and that the guard of the API admits as well.
//!  - *same-door*: statements, and what shows data of tables, go through [`Cql`], which asks for
//!    what a client of CQL is asked for.
//!  - *bounded*: sessions, statements at a time, rows and bytes of an answer, points of time.

mod assets;
mod counts;
mod cql;
mod guard;
mod hot;
mod live;
mod slow;
mod views;

pub use counts::EdgeCounts;
pub use cql::{
    Asked, Cell, Column, Cql, Credentials, Failure, LocalFuture, Outcome, Rows, Session,
};

use crate::call::{Answer, Call};
use crate::guard::Guard;
use cluster::Cluster;
use cql::Sessions;
use hyper::Method;
use live::Watch;
use std::rc::Rc;

/// The console of a node, on shard 0.
pub struct Console {
    cluster: Rc<Cluster>,
    version: String,
    watch: Watch,
    sessions: Sessions,
}

impl Console {
    /// `edge` tells on each shard what is counted where this crate does not see it; `cql` executes
    /// statements.
    pub fn new(
        cluster: Rc<Cluster>,
        version: String,
        edge: fn() -> EdgeCounts,
        cql: Rc<dyn Cql>,
    ) -> Console {
        let (watch, sessions) = (Watch::new(edge), Sessions::new(cql));
        Console { cluster, version, watch, sessions }
    }

    /// Whether a request is one of the console's.
    pub(crate) fn is_asked(call: &Call) -> bool {
        call.path.first().is_some_and(|first| first == "console")
    }

    /// Does what a request asks for.
    pub(crate) async fn answer(&self, call: Call, guard: &Guard) -> Answer {
        let path: Vec<&str> = call.path.iter().skip(1).map(String::as_str).collect();
        let answer = match path.split_first() {
            Some((&"api", path)) => match guard.admit(&call) {
                Ok(()) => self.told(&call, path).await.unwrap_or_else(|answer| answer),
                Err(refused) => refused,
            },
            _ => assets::answer(&call.method, &path),
        };
        guard::sealed(answer)
    }

    async fn told(&self, call: &Call, path: &[&str]) -> Result<Answer, Answer> {
        guard::admit(call)?;
        match (&call.method, path) {
            (&Method::GET, ["state"]) => {
                let state = views::state(&self.cluster, &self.version);
                Ok(Answer::json(views::with_login(state, self.sessions.asks_passwords())))
            }
            (&Method::GET, ["live"]) => Ok(Answer::json(self.watch.told(call))),
            (&Method::GET, ["tables"]) => {
                Ok(Answer::json(views::tables(&self.cluster, call.flag("system", false)?).await))
            }
            (&Method::GET, ["tasks"]) => views::tasks(&self.cluster).await.map(Answer::json),
            (&Method::POST, ["tasks", "stop"]) => views::stop(call).await,
            (&Method::POST, ["hot"]) => {
                self.sessions.check(call)?;
                hot::sampled(&self.cluster, call).await.map(Answer::json)
            }
            (&Method::GET, ["slow"]) => {
                slow::listed(&*self.sessions.of(call)?).await.map(Answer::json)
            }
            (&Method::POST, ["login"]) => self.sessions.login(call).await,
            (&Method::POST, ["logout"]) => Ok(self.sessions.logout(call)),
            (&Method::POST, ["cql"]) => self.sessions.execute(call).await,
            _ => Err(Answer::refused(404, "Not found: the console has no such view")),
        }
    }
}
