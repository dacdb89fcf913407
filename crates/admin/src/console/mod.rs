//! The console: a page for operators at `/console`, and what it asks the node for.
//!
//! In reading order: [`Console`] (which request is what), `guard` (who may ask), `assets` (the page
//! itself), `live` (throughput and latency, second by second), `history` (the last day), `series`
//! (figures over time), `counts` (what shards count), `views` (cluster, tables, tasks), `table`
//! (the page of one table), `hot` (partitions), `cql` (the editor), `slow` (slow queries, traces),
//! `statements` (statements by their form), `settings` (options, schema), [`logs`].
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

pub mod logs;

mod assets;
mod counts;
mod cql;
mod guard;
mod history;
mod hot;
mod live;
mod series;
mod settings;
mod slow;
mod statements;
mod table;
mod views;

pub use counts::EdgeCounts;
pub use cql::{
    Asked, Cell, Column, Cql, Credentials, Failure, LocalFuture, Origin, Outcome, Rows, Session,
};

use crate::call::{Answer, Call};
use crate::guard::Guard;
use cluster::Cluster;
use cql::Sessions;
use history::History;
use hyper::Method;
use live::Watch;
use logs::Logs;
use serde_json::Value;
use statements::Recording;
use std::rc::Rc;

/// What the console is given by the program.
pub struct Parts {
    pub cluster: Rc<Cluster>,
    pub version: String,
    /// Tells on each shard what is counted where this crate does not see it.
    pub edge: fn() -> EdgeCounts,
    /// Executes statements.
    pub cql: Rc<dyn Cql>,
    pub logs: Logs,
}

/// The console of a node, on shard 0.
pub struct Console {
    cluster: Rc<Cluster>,
    version: String,
    logs: Logs,
    watch: Watch,
    history: History,
    recording: Recording,
    sessions: Sessions,
}

impl Console {
    /// Begins to keep the history of the node.
    pub fn new(parts: Parts) -> Console {
        let Parts { cluster, version, edge, cql, logs } = parts;
        let (watch, history) = (Watch::new(edge), History::begin(edge));
        let (recording, sessions) = (Recording::new(), Sessions::new(cql));
        Console { cluster, version, logs, watch, history, recording, sessions }
    }

    /// Whether a request is one of the console's.
    pub(crate) fn is_asked(call: &Call) -> bool {
        call.path.first().is_some_and(|first| first == "console")
    }

    /// Whether a browser asks for whatever is on this port.
    pub(crate) fn is_looked_for(call: &Call) -> bool {
        let wants_page = call.header("accept").is_some_and(|kinds| kinds.contains("text/html"));
        call.method == Method::GET && call.path.is_empty() && wants_page
    }

    /// Leads to the page.
    pub(crate) fn found() -> Answer {
        const THERE: &[(&str, &str)] = &[("Location", "/console"), ("Cache-Control", "no-store")];
        Answer { status: 302, headers: THERE, ..Answer::page("") }
    }

    /// Does what a request asks for.
    pub(crate) async fn answer(&self, call: Call, guard: &Guard) -> Answer {
        let path: Vec<&str> = call.path.iter().skip(1).map(String::as_str).collect();
        match path.split_first() {
            Some((&"api", path)) => guard::sealed(match guard.admit(&call) {
                Ok(()) => self.told(&call, path).await.unwrap_or_else(|answer| answer),
                Err(refused) => refused,
            }),
            _ => assets::answer(&call.method, &path),
        }
    }

    async fn told(&self, call: &Call, path: &[&str]) -> Result<Answer, Answer> {
        guard::admit(call)?;
        let told = match call.method {
            Method::GET => self.figures(call, path).await?,
            _ => None,
        };
        match (told, &call.method, path) {
            (Some(told), ..) => Ok(Answer::json(told)),
            (_, &Method::POST, ["login"]) => self.sessions.login(call).await,
            (_, &Method::POST, ["logout"]) => Ok(self.sessions.logout(call)),
            (_, &Method::POST, ["cql"]) => self.sessions.execute(call).await,
            (_, &Method::POST, ["tasks", "stop"]) => views::stop(call).await,
            (_, &Method::GET, _) => self.of_users(call, path).await.map(Answer::json),
            (_, &Method::POST, ["hot"]) => {
                self.sessions.check(call)?;
                hot::sampled(&self.cluster, call).await.map(Answer::json)
            }
            (_, &Method::POST, ["slow"]) => {
                self.sessions.check(call)?;
                statements::set_slow(call).await
            }
            (_, &Method::POST, ["statements"]) => {
                self.sessions.check(call)?;
                self.recording.turn(call).await
            }
            _ => Err(unknown()),
        }
    }

    /// What is as open as the REST API: figures, names of tables, options.
    async fn figures(&self, call: &Call, path: &[&str]) -> Result<Option<Value>, Answer> {
        let table = || table::named(&self.cluster.schema(), call);
        Ok(Some(match path {
            ["state"] => {
                let state = views::state(&self.cluster, &self.version);
                views::with_login(state, self.sessions.asks_passwords())
            }
            ["live"] => self.watch.told(call),
            ["history"] => self.history.told(call)?,
            ["tables"] => views::tables(&self.cluster, call.flag("system", false)?).await,
            ["table"] => table::told(&*table()?).await?,
            ["table", "history"] => self.history.of_table(call, &*table()?)?,
            ["tasks"] => views::tasks(&self.cluster).await?,
            ["settings"] => settings::listed(),
            _ => return Ok(None),
        }))
    }

    /// What shows data, texts of statements or of the log: for those who are let in.
    async fn of_users(&self, call: &Call, path: &[&str]) -> Result<Value, Answer> {
        match path {
            ["slow"] => slow::listed(&*self.sessions.of(call)?).await,
            ["trace"] => slow::trace(&*self.sessions.of(call)?, call).await,
            ["statements"] => {
                self.sessions.check(call)?;
                Ok(self.recording.listed().await)
            }
            ["schema"] => {
                self.sessions.check(call)?;
                Ok(settings::schema(&self.cluster))
            }
            ["logs"] => {
                self.sessions.check(call)?;
                logs::told(self.logs, call).await
            }
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> Answer {
    Answer::refused(404, "Not found: the console has no such view")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_led_to_the_page_and_tools_are_not() {
        let check = |method: Method, path: &str, accept: Option<&str>, expected: bool| {
            let mut call = Call::new(&method, path, "");
            if let Some(accept) = accept {
                call.headers.insert("accept", accept.parse().unwrap());
            }
            assert_eq!(Console::is_looked_for(&call), expected, "{method} {path} {accept:?}");
        };
        let browser = Some("text/html,application/xhtml+xml,*/*;q=0.8");
        check(Method::GET, "/", browser, true);
        check(Method::GET, "", browser, true);
        check(Method::GET, "/", Some("*/*"), false);
        check(Method::GET, "/", Some("application/json"), false);
        check(Method::GET, "/", None, false);
        check(Method::POST, "/", browser, false);
        check(Method::GET, "/storage_service", browser, false);
        let found = Console::found();
        assert_eq!((found.status, found.headers[0]), (302, ("Location", "/console")));
    }
}
