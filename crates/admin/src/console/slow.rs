//! Slow queries: what `system_traces.node_slow_log` has of the last hour, and traces, both read
//! with the permissions of who asks. A statement that speaks of a password is shown without its
//! texts.

use super::cql::{Asked, Cell, Origin, Rows, Session};
use crate::call::{Answer, Call};
use cluster::TraceRules;
use model::Uuid;
use runtime::time::wall_micros;
use serde_json::{Value, json};

/// How far back is looked, in minutes.
const MINUTES: i64 = 60;
/// Queries shown; as many as may be named in one statement.
const LISTED_MAX: usize = 50;
const MINUTE_MILLIS: i64 = 60_000;
/// What is shown of each, in this order.
const COLUMNS: &str =
    "date, duration, command, table_names, source_ip, username, shard, session_id";

/// The slow queries of the last hour, the latest first.
pub(super) async fn listed(session: &dyn Session) -> Result<Value, Answer> {
    let now_millis = wall_micros().div_euclid(1000);
    let mut ids: Vec<String> = Vec::new();
    for minute in minutes(now_millis) {
        let left = LISTED_MAX - ids.len();
        if left == 0 {
            break;
        }
        let statement = format!(
            "SELECT start_time FROM system_traces.node_slow_log_time_idx WHERE minute = {minute} \
             ORDER BY started_at DESC LIMIT {left}"
        );
        let rows = executed(session, statement).await?;
        ids.extend(rows.rows.into_iter().filter_map(|row| text_of(row.into_iter().next()?)));
    }
    let mut queries = Vec::new();
    if !ids.is_empty() {
        let statement = format!(
            "SELECT {COLUMNS} FROM system_traces.node_slow_log WHERE start_time IN ({})",
            ids.join(", ")
        );
        queries = executed(session, statement).await?.rows.into_iter().map(query).collect();
    }
    queries.sort_by(|a: &Value, b: &Value| b["date"].as_str().cmp(&a["date"].as_str()));
    let rules = TraceRules::of_shard().slow();
    Ok(json!({
        "enabled": rules.enabled,
        "threshold_us": rules.threshold_micros,
        "minutes": MINUTES,
        "queries": queries,
    }))
}

/// The trace with the `id` of a request. `complete` says whether all of it is written: its session
/// comes last.
pub(super) async fn trace(session: &dyn Session, call: &Call) -> Result<Value, Answer> {
    let id = call.parameter("id").and_then(|text| text.parse::<Uuid>().ok());
    let id = id.ok_or_else(|| Answer::refused(400, "id: not that of a trace"))?;
    let of = |columns: &str, table: &str| {
        format!("SELECT {columns} FROM system_traces.{table} WHERE session_id = {id}")
    };
    let columns = "request, duration, client, coordinator, username, started_at, parameters";
    let found = executed(session, of(columns, "sessions")).await?;
    let events = executed(session, of("activity, source_elapsed, thread", "events")).await?;
    let texts = |row: Vec<Option<Cell>>| row.into_iter().map(text_of);
    let mut view = json!({ "id": id.to_string(), "complete": !found.rows.is_empty() });
    if let Some(row) = found.rows.into_iter().next() {
        for (name, text) in columns.split(", ").zip(texts(row)) {
            view[name] = json!(text.map(|text| redacted(&text)));
        }
    }
    let event = |row| {
        let mut texts = texts(row);
        let activity = texts.next().flatten();
        let elapsed = texts.next().flatten().and_then(|text| text.parse::<i64>().ok());
        let thread = texts.next().flatten();
        json!({ "activity": activity, "elapsed_us": elapsed, "thread": thread })
    };
    view["events"] = events.rows.into_iter().map(event).collect();
    Ok(view)
}

/// The last minutes as partitions of the index, the latest first.
fn minutes(now_millis: i64) -> impl Iterator<Item = i64> {
    let latest = now_millis.div_euclid(MINUTE_MILLIS);
    (0..MINUTES).map(move |back| (latest - back) * MINUTE_MILLIS)
}

async fn executed(session: &dyn Session, statement: String) -> Result<Rows, Answer> {
    let asked = Asked {
        statement,
        page_size: LISTED_MAX as u32,
        paging_state: None,
        consistency: "ONE".to_owned(),
        origin: Origin::Page,
    };
    let outcome = session.execute(asked).await;
    let outcome = outcome.map_err(|failure| Answer::refused(403, failure.message))?;
    Ok(outcome.rows.unwrap_or_default())
}

fn text_of(cell: Option<Cell>) -> Option<String> {
    cell.map(|cell| cell.text)
}

/// A row of [`COLUMNS`].
fn query(row: Vec<Option<Cell>>) -> Value {
    let mut cells = row.into_iter().map(text_of);
    let mut next = || cells.next().flatten();
    let (date, duration) = (next(), next().and_then(|text| text.parse::<i64>().ok()));
    let statement = next().map(|text| redacted(&text));
    let (tables, client, user, shard) = (next(), next(), next(), next());
    json!({
        "date": date,
        "duration_us": duration,
        "statement": statement,
        "tables": tables,
        "client": client,
        "user": user,
        "shard": shard,
        "trace": next(),
    })
}

/// A statement without what stands in quotes, where it speaks of a password.
fn redacted(statement: &str) -> String {
    if !statement.to_ascii_lowercase().contains("password") {
        return statement.to_owned();
    }
    // What follows the first quote may be a part of the password, whatever closes it.
    match statement.find(['\'', '$', '"', '{']) {
        Some(at) => format!("{}\u{2026}", &statement[..at]),
        None => statement.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_with_passwords_are_cut() {
        let check = |text: &str, expected: &str| assert_eq!(redacted(text), expected);
        check("SELECT 'a' FROM t", "SELECT 'a' FROM t");
        check("CREATE ROLE r WITH PASSWORD = 'x''y'", "CREATE ROLE r WITH PASSWORD = \u{2026}");
        check(
            "ALTER ROLE r WITH hashed password='x'",
            "ALTER ROLE r WITH hashed password=\u{2026}",
        );
        check("ALTER USER r WITH PASSWORD $$x$$", "ALTER USER r WITH PASSWORD \u{2026}");
        check("CREATE USER 'r' WITH PASSWORD 'x'", "CREATE USER \u{2026}");
        check("SELECT password FROM t", "SELECT password FROM t");
    }

    #[test]
    fn the_last_hour_is_looked_at() {
        let all: Vec<i64> = minutes(90 * MINUTE_MILLIS + 7).collect();
        assert_eq!((all.len(), all[0], all[59]), (60, 5_400_000, 31 * MINUTE_MILLIS));
    }

    #[test]
    fn a_row_becomes_a_query() {
        let texts = ["2026-01-01", "1500", "SELECT 1", "{'a.b'}", "127.0.0.1", "ann", "1", "an-id"];
        let cell = |text: &str| Some(Cell { text: text.to_owned(), is_clipped: false });
        let value = query(texts.iter().map(|text| cell(text)).collect());
        assert_eq!((&value["duration_us"], &value["user"]), (&json!(1500), &json!("ann")));
        assert_eq!((&value["statement"], &value["shard"]), (&json!("SELECT 1"), &json!("1")));
        assert_eq!(value["trace"], json!("an-id"));
        assert_eq!(query(vec![None])["statement"], Value::Null);
    }
}
