//! The latest lines of the log, as the program keeps them.

use super::cql::LocalFuture;
use crate::call::{Answer, Call};
use serde_json::{Value, json};

/// Lines of an answer.
const LISTED_MAX: usize = 2000;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Numbers ascend over all shards.
    pub number: u64,
    pub at_micros: i64,
    /// `ERROR`, `WARN`, ..
    pub level: &'static str,
    pub shard: u16,
    pub logger: String,
    pub text: String,
}

/// The lines that the program still has, in ascending order, after the one of that number.
pub type Logs = fn(u64) -> LocalFuture<'static, Vec<LogLine>>;

/// The lines after `after`: the latest of them where there are too many.
pub(super) async fn told(logs: Logs, call: &Call) -> Result<Value, Answer> {
    let after = call.number("after", Some(0))?;
    let lines = logs(after).await;
    let first = lines.len().saturating_sub(LISTED_MAX);
    let shown = lines.iter().skip(first).map(|line| {
        json!({
            "n": line.number,
            "at": line.at_micros / 1000,
            "level": line.level,
            "shard": line.shard,
            "logger": line.logger,
            "text": line.text,
        })
    });
    Ok(json!({ "lines": Value::from_iter(shown) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    fn planted(after: u64) -> LocalFuture<'static, Vec<LogLine>> {
        let line = |number| LogLine {
            number,
            at_micros: 1_500_000,
            level: "WARN",
            shard: 1,
            logger: "init".to_owned(),
            text: "<b>".to_owned(),
        };
        Box::pin(async move { (after + 1..=3000).map(line).collect() })
    }

    #[test]
    fn the_latest_lines_are_told() {
        runtime::sim::test(1, || async {
            let told = async |query: &str| {
                let call = Call::new(&Method::GET, "/", query);
                told(planted, &call).await.map(|told| told["lines"].as_array().unwrap().clone())
            };
            let all = told("").await.unwrap();
            assert_eq!((all.len(), &all[0]["n"]), (LISTED_MAX, &json!(1001)));
            assert_eq!((&all[0]["at"], &all[0]["text"]), (&json!(1500), &json!("<b>")));
            assert_eq!(told("after=2999").await.unwrap().len(), 1);
            assert_eq!(told("after=x").await.unwrap_err().status, 400);
        });
    }
}
