//! What a node tells of its merges.
//!
//! Invariants
//!  - *less-is-fine*: but for the list of jobs, what a node does not tell is left out: nodes of
//!    ScyllaDB tell a part of it.
//!  - *printable*: no text of a node moves the cursor of who reads it.
//!  - *seldom*: the list of what has ended is asked for when something has, and not all the time:
//!    the node reads a week of it.

use super::ANSWER_WITHIN;
use http::{Client, Method, Request};
use runtime::time::Instant;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

const JOBS: &str = "/compaction_manager/compactions";
const ENDED: &str = "/compaction_manager/compaction_history";
const COMPLETED: &str = "/compaction_manager/metrics/completed_tasks";
const PENDING: &str = "/compaction_manager/metrics/pending_tasks";
const HELD: &str = "/compaction_manager/metrics/held_for_space";
const BACKLOG: &str = "/compaction_manager/metrics/backlog";
const SHARES: &str = "/compaction_manager/metrics/shares";
const LIMIT: &str = "/storage_service/compaction_throughput";

/// So many of those that have ended are told.
const ENDED_MAX: usize = 5;
/// *seldom*
const ENDED_PAUSE: Duration = Duration::from_secs(5);
const ENDED_TIMES: u8 = 2;

/// A job that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Job {
    pub(super) id: String,
    /// In small letters.
    pub(super) kind: String,
    /// With its keyspace.
    pub(super) table: String,
    /// From 0 to 1.
    pub(super) progress: Option<f64>,
    pub(super) rows: Option<u64>,
    /// Bytes of data, before compression.
    pub(super) written: Option<u64>,
    /// Bytes written a second: since the look before, or since it began.
    pub(super) rate: Option<f64>,
    pub(super) started_at_millis: Option<i64>,
    pub(super) elapsed_millis: Option<u64>,
    pub(super) remaining_millis: Option<u64>,
}

/// One that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ended {
    pub(super) kind: String,
    pub(super) table: String,
    pub(super) started_at_millis: i64,
    pub(super) ended_at_millis: i64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// All that was told at a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    pub(super) jobs: Vec<Job>,
    /// Merges that the options of tables ask for.
    pub(super) pending: Option<u64>,
    /// Those of them that wait for room on the disk.
    pub(super) held: Option<u64>,
    /// Bytes that are to be written until nothing is to be merged.
    pub(super) backlog_bytes: Option<u64>,
    /// Of each shard.
    pub(super) shares: Vec<u64>,
    /// MiB a second; 0: no limit.
    pub(super) limit: Option<u64>,
    /// The latest first.
    pub(super) ended: Vec<Ended>,
}

impl View {
    /// With rates since the look before.
    pub(super) fn after(mut self, before: &View) -> View {
        for job in &mut self.jobs {
            let earlier = before.jobs.iter().find(|earlier| earlier.id == job.id);
            job.rate = earlier.and_then(|earlier| rate(earlier, job)).or(job.rate);
        }
        self
    }
}

/// Bytes a second from one look to the next.
fn rate(before: &Job, now: &Job) -> Option<f64> {
    let bytes = now.written?.checked_sub(before.written?)?;
    let millis = now.elapsed_millis?.checked_sub(before.elapsed_millis?)?;
    (millis != 0).then(|| bytes as f64 * 1000.0 / millis as f64)
}

/// *printable*
fn text(of: &Value, name: &str) -> String {
    let text = of[name].as_str().unwrap_or("?");
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

fn table_of(of: &Value) -> String {
    format!("{}.{}", text(of, "ks"), text(of, "cf"))
}

fn job_of(told: &Value) -> Job {
    let count = |name: &str| told[name].as_u64();
    let of_keys = |done: u64, total: u64| (total != 0).then(|| done as f64 / total as f64);
    let by_keys = count("completed").zip(count("total"));
    let by_keys = by_keys.and_then(|(done, total)| of_keys(done, total));
    let mut job = Job {
        id: text(told, "id"),
        kind: text(told, "task_type").to_lowercase(),
        table: table_of(told),
        progress: told["progress"].as_f64().or(by_keys).map(|part| part.clamp(0.0, 1.0)),
        rows: count("rows"),
        written: count("bytes_written"),
        rate: None,
        started_at_millis: told["started_at"].as_i64(),
        elapsed_millis: count("elapsed_ms"),
        remaining_millis: count("remaining_ms"),
    };
    let begun = Job { written: Some(0), elapsed_millis: Some(0), ..Job::default() };
    job.rate = rate(&begun, &job);
    job
}

fn ended_of(told: &Value) -> Ended {
    Ended {
        kind: text(told, "compaction_type").to_lowercase(),
        table: table_of(told),
        started_at_millis: told["started_at"].as_i64().unwrap_or_default(),
        ended_at_millis: told["compacted_at"].as_i64().unwrap_or_default(),
        bytes_in: told["bytes_in"].as_u64().unwrap_or_default(),
        bytes_out: told["bytes_out"].as_u64().unwrap_or_default(),
    }
}

/// The jobs of a list, those that have run longest first; `None`: it is none.
fn jobs_of(told: &Value) -> Option<Vec<Job>> {
    let mut jobs: Vec<Job> = told.as_array()?.iter().map(job_of).collect();
    jobs.sort_by(|a, b| (a.started_at_millis, &a.id).cmp(&(b.started_at_millis, &b.id)));
    Some(jobs)
}

/// Who asks a node.
pub(super) struct Asker {
    /// The first is the one that answered last.
    peers: Vec<SocketAddr>,
    ended: Vec<Ended>,
    /// How many have ended.
    completed: Option<Value>,
    /// How often to ask for those yet: one is listed up to a second after it is counted.
    ended_due: u8,
    ended_asked: Option<Instant>,
}

impl Asker {
    /// Of a node at one of these addresses: at least one.
    pub(super) fn new(peers: Vec<SocketAddr>) -> Asker {
        let (ended, ended_due) = (Vec::new(), ENDED_TIMES);
        Asker { peers, ended, completed: None, ended_due, ended_asked: None }
    }

    /// The address that is asked first.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peers[0]
    }

    /// What the node tells. The error names its address, or all that it may have.
    pub(super) async fn look(&mut self) -> Result<View, String> {
        let mut refused = Vec::new();
        for index in 0..self.peers.len() {
            match ask(self.peers[index], JOBS).await {
                Ok(told) => {
                    self.peers.swap(0, index);
                    return self.all(told).await;
                }
                Err(error) => refused.push(error),
            }
        }
        Err(refused.join("; "))
    }

    async fn all(&mut self, jobs: Option<Value>) -> Result<View, String> {
        let peer = self.peer();
        let jobs = jobs.as_ref().and_then(jobs_of);
        let jobs = jobs.ok_or_else(|| format!("{peer} tells no list at {JOBS}: is it a node?"))?;
        let number = async |path| Ok::<_, String>(ask(peer, path).await?.and_then(|n| n.as_u64()));
        let shares = ask(peer, SHARES).await?;
        let shares = shares.as_ref().and_then(Value::as_array).into_iter().flatten();
        self.note_ended().await?;
        Ok(View {
            jobs,
            pending: number(PENDING).await?,
            held: number(HELD).await?,
            backlog_bytes: number(BACKLOG).await?,
            shares: shares.filter_map(Value::as_u64).collect(),
            limit: number(LIMIT).await?,
            ended: self.ended.clone(),
        })
    }

    /// *seldom*
    async fn note_ended(&mut self) -> Result<(), String> {
        let peer = self.peer();
        let count = ask(peer, COMPLETED).await?;
        if count != self.completed {
            (self.completed, self.ended_due) = (count, ENDED_TIMES);
        }
        let is_early = self.ended_asked.is_some_and(|at| at.elapsed() < ENDED_PAUSE);
        if is_early || self.ended_due == 0 {
            return Ok(());
        }
        let told = ask_for(peer, request(ENDED).with("limit", "5")).await?;
        let told = told.as_ref().and_then(Value::as_array).into_iter().flatten();
        self.ended = told.take(ENDED_MAX).map(ended_of).collect();
        self.ended_due -= 1;
        self.ended_asked = Some(Instant::now());
        Ok(())
    }
}

/// What a node answers; `None`: it knows no such thing (*less-is-fine*).
async fn ask(peer: SocketAddr, path: &str) -> Result<Option<Value>, String> {
    ask_for(peer, request(path)).await
}

fn request(path: &str) -> Request {
    Request::new(Method::Get, path)
}

async fn ask_for(peer: SocketAddr, request: Request) -> Result<Option<Value>, String> {
    let reply = Client::new(peer).send(&request, ANSWER_WITHIN).await?;
    let path = request.target();
    let value = serde_json::from_slice(&reply.body);
    match (reply.status, value) {
        (200, Ok(value)) => Ok(Some(value)),
        (200, Err(error)) => Err(format!("{peer} answers no JSON to {path}: {error}")),
        (400 | 404, _) => Ok(None),
        (status, value) => {
            let value = value.unwrap_or_default();
            Err(format!("{peer} answers {status} to {path}: {}", text(&value, "message")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(id: &str, started_at: i64) -> Value {
        json!({
            "id": id, "ks": "ks", "cf": "t", "task_type": "MAJOR", "unit": "keys",
            "completed": 30, "total": 40, "rows": 90, "bytes_in": 4000, "bytes_written": 3000,
            "started_at": started_at, "elapsed_ms": 1500, "progress": 0.5, "remaining_ms": 1501,
        })
    }

    #[test]
    fn jobs_are_read() {
        let jobs = jobs_of(&json!([told("b", 7), told("a", 7), told("c", 5)])).expect("a list");
        let ids: Vec<_> = jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["c", "a", "b"]);
        let expected = Job {
            id: "c".to_string(),
            kind: "major".to_string(),
            table: "ks.t".to_string(),
            progress: Some(0.5),
            rows: Some(90),
            written: Some(3000),
            rate: Some(2000.0),
            started_at_millis: Some(5),
            elapsed_millis: Some(1500),
            remaining_millis: Some(1501),
        };
        assert_eq!(jobs[0], expected);
        assert_eq!(jobs_of(&json!({"message": "no"})), None);
    }

    #[test]
    fn what_is_not_told_is_left_out() {
        let mut less = told("a", 1);
        for name in ["rows", "bytes_written", "started_at", "elapsed_ms", "progress"] {
            less[name].take();
        }
        less["remaining_ms"] = Value::Null;
        let job = job_of(&less);
        assert_eq!(job.progress, Some(0.75), "partitions tell it as well");
        let all = (job.rows, job.written, job.rate, job.elapsed_millis, job.remaining_millis);
        assert_eq!(all, (None, None, None, None, None));
        assert_eq!(job_of(&json!({"total": 0, "completed": 0})).progress, None);
        assert_eq!(job_of(&json!({"total": 2, "completed": 5})).progress, Some(1.0));
        let strange = job_of(&json!({"ks": "a\u{1b}[2J", "cf": 7}));
        assert_eq!((&*strange.table, &*strange.kind), ("a?[2J.?", "?"));
    }

    #[test]
    fn rates_are_since_the_look_before() {
        let job = |id: &str, written, elapsed| Job {
            id: id.to_string(),
            written: Some(written),
            elapsed_millis: Some(elapsed),
            rate: Some(7.0),
            ..Job::default()
        };
        let view = |jobs: &[Job]| View { jobs: jobs.to_vec(), ..View::default() };
        let check = |before: &Job, now: Job, expected| {
            let now = view(&[now]).after(&view(std::slice::from_ref(before)));
            assert_eq!(now.jobs[0].rate, Some(expected));
        };
        let before = job("a", 1000, 500);
        check(&before, job("a", 3000, 1500), 2000.0);
        check(&before, job("a", 1000, 1500), 0.0);
        // One that is new, one that has not gone on, one whose node started again.
        check(&before, job("b", 3000, 1500), 7.0);
        check(&before, job("a", 3000, 500), 7.0);
        check(&before, job("a", 900, 1500), 7.0);
    }
}
