//! Requests to a node, and how they end.

use crate::answer::texts;
use crate::arguments::Given;
use crate::failure::{Done, Failure, wrong};
use http::{Client, Method, Request};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// A merge or a repair may take days; a node that is gone is noticed by its connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Where the node may be.
pub(crate) fn addresses(given: &Given) -> Result<Vec<SocketAddr>, Failure> {
    let host = given.text("host").unwrap_or("localhost");
    let port = given.text("rest-api-port").or(given.text("port")).unwrap_or("10000");
    let number: u16 = match port.parse() {
        Ok(number) if number != 0 => number,
        _ => return wrong(format!("{port} is no port")),
    };
    let found = (host, number).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => wrong(format!("host {host} has no address")),
        Err(error) => wrong(format!("host {host} has no address: {error}")),
    }
}

/// A parameter of a request.
pub(crate) type Parameters<'a> = Vec<(&'a str, String)>;

/// A command that asks a node.
pub(crate) struct Session {
    pub(crate) given: Given,
    peers: Vec<SocketAddr>,
    client: Option<Client>,
    /// What the node called itself in its last answer.
    pub(crate) server: Option<String>,
    /// What its operator has to know at once, by its last answer.
    notice: Option<String>,
}

impl Session {
    pub(crate) fn new(given: Given, peers: Vec<SocketAddr>) -> Session {
        Session { given, peers, client: None, server: None, notice: None }
    }

    /// Whether the node that answered last is one of ours: those of others do not know all that is
    /// asked of it.
    pub(crate) fn is_own(&self) -> bool {
        self.server.as_deref().is_some_and(|name| name.starts_with("Nereid/"))
    }

    /// The address that the operator named.
    pub(crate) fn host(&self) -> &str {
        self.given.text("host").unwrap_or("localhost")
    }

    /// Prints at once: who watches a long command sees how it goes.
    pub(crate) fn say(&self, text: &str) -> Done {
        let mut out = std::io::stdout();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| Failure::Unexpected(format!("cannot write the output: {error}")))
    }

    /// A line with what the operator has to know at once, if there is something.
    pub(crate) fn notice(&self) -> String {
        self.notice.as_ref().map_or_else(String::new, |notice| format!("Warning: {notice}\n"))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        self.get_with(path, &[], Vec::new()).await
    }

    /// For a path whose last parts vary.
    pub(crate) async fn get_part(&mut self, path: &str, part: &str) -> Result<Value, Failure> {
        self.get_with(path, &[part], Vec::new()).await
    }

    /// The same for what some nodes do not count: nothing, from those (*less-is-fine*).
    pub(crate) async fn counted(&mut self, path: &str, parts: &[&str]) -> Result<Value, Failure> {
        match self.get_with(path, parts, Vec::new()).await {
            Err(failure) if matches!(failure.status(), Some(404 | 501)) => Ok(Value::Null),
            told => told,
        }
    }

    pub(crate) async fn get_with(
        &mut self,
        path: &str,
        parts: &[&str],
        parameters: Parameters<'_>,
    ) -> Result<Value, Failure> {
        self.ask(Method::Get, path, parts, parameters, None).await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        parameters: Parameters<'_>,
    ) -> Result<Value, Failure> {
        self.ask(Method::Post, path, &[], parameters, None).await
    }

    /// Any request.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        parts: &[&str],
        parameters: Parameters<'_>,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let mut request = Request::new(method, path);
        for part in parts {
            request = request.part(part);
        }
        let url = request.target();
        for (name, value) in &parameters {
            request = request.with(name, value);
        }
        if let Some(body) = body {
            request = request.json(body.to_string());
        }
        let told = |what: String, status: u16| {
            let mut list = String::new();
            for (name, value) in &parameters {
                let comma = if list.is_empty() { "" } else { ", " };
                let _ = write!(list, "{comma}\"{name}\": \"{value}\"");
            }
            Failure::Refused { status, text: format!("with parameters {{{list}}}: {what}") }
        };
        let port = self.peers[0].port();
        let place = format!("{method} request to http://{}:{port}{url}", self.host());
        let framed = |failure: Failure| match failure {
            Failure::Refused { status, text } => {
                Failure::Refused { status, text: format!("error executing {place} {text}") }
            }
            other => other,
        };
        let client = match self.client().await {
            Ok(client) => client,
            Err(error) => return Err(framed(told(error, 0))),
        };
        let reply = client.send(&request, ANSWER_WITHIN).await;
        let reply = reply.map_err(|error| framed(told(error, 0)))?;
        self.server.clone_from(&reply.server);
        self.notice.clone_from(&reply.notice);
        if reply.status / 100 == 2 {
            return answer(&reply.body).map_err(|error| {
                Failure::Unexpected(format!("the answer to {place} is no JSON: {error}"))
            });
        }
        let what = format!(
            "remote replied with status code {} {}:\n{}",
            reply.status,
            http::reason(reply.status),
            message(&reply.body)
        );
        Err(framed(told(what, reply.status)))
    }

    /// Connected to the first address that listens.
    async fn client(&mut self) -> Result<&mut Client, String> {
        if self.client.is_none() {
            let mut refused = Vec::new();
            for peer in &self.peers {
                let mut client = Client::new(*peer);
                match client.connect(CONNECT_WITHIN).await {
                    Ok(()) => {
                        self.client = Some(client);
                        break;
                    }
                    Err(error) => refused.push(error),
                }
            }
            if self.client.is_none() {
                return Err(refused.join("; "));
            }
        }
        Ok(self.client.as_mut().expect("connected above"))
    }

    /// Names of keyspaces, of those that the parameters pick.
    pub(crate) async fn keyspaces(
        &mut self,
        parameters: Parameters<'_>,
    ) -> Result<Vec<String>, Failure> {
        let list = self.get_with("/storage_service/keyspaces", &[], parameters).await?;
        Ok(texts(&list))
    }

    /// The keyspace that was given, which exists, and its tables.
    pub(crate) async fn target(&mut self) -> Result<Option<(String, Vec<String>)>, Failure> {
        let Some(keyspace) = self.given.text("keyspace").map(str::to_string) else {
            return Ok(None);
        };
        let tables = self.given.texts("table").into_iter().map(str::to_string).collect();
        let known = self.keyspaces(Vec::new()).await?;
        if !known.contains(&keyspace) {
            return wrong(format!("keyspace {keyspace} does not exist"));
        }
        Ok(Some((keyspace, tables)))
    }
}

/// A list of tables as a parameter; none, for all.
pub(crate) fn of_tables<'a>(name: &'a str, tables: &[String]) -> Parameters<'a> {
    match tables.is_empty() {
        true => Vec::new(),
        false => vec![(name, tables.join(","))],
    }
}

fn answer(body: &[u8]) -> Result<Value, serde_json::Error> {
    match body.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(body),
    }
}

/// What a node says to a request that it refuses.
fn message(body: &[u8]) -> String {
    let told = answer(body).ok().and_then(|value| value["message"].as_str().map(str::to_string));
    told.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}
