//! Throw-away Nereid nodes for the tests of Rust programs.
//!
//! A node is a process of its own on free ports of the loopback address, with its data in a temporary
//! folder. The folder goes with the node, and the node goes with the process that started it. No
//! driver is needed: a test connects with the one of its program.
//!
//! ```no_run
//! let node = nereid_test::Node::start(&["--smp=2"])?;
//! println!("connect to {}", node.address());
//! # Ok::<(), nereid_test::Error>(())
//! ```
//!
//! The program is the one that the environment variable `NEREID` names, else `nereid` of the `PATH`.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_BYTES_MAX: usize = 64 << 10;

/// Why a node did not start. It holds the last of what the node wrote to its log.
#[derive(Debug, Clone)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

#[derive(serde::Deserialize)]
struct Facts {
    host: String,
    port: u16,
    shard_aware_port: Option<u16>,
    api_port: Option<u16>,
}

/// A running node. It ends when this value is dropped.
pub struct Node {
    child: Child,
    facts: Facts,
}

impl Node {
    /// Starts a node with options of the command line, and waits until it serves.
    pub fn start(options: &[&str]) -> Result<Node, Error> {
        let binary = std::env::var_os("NEREID").unwrap_or_else(|| "nereid".into());
        Node::start_program(&binary, options)
    }

    fn start_program(binary: &std::ffi::OsStr, options: &[&str]) -> Result<Node, Error> {
        let mut child = Command::new(binary)
            .arg("--ephemeral")
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Error(format!(
                    "{}: {error}: install nereid, or set NEREID to its path",
                    binary.to_string_lossy()
                ))
            })?;
        let log = follow(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        match read.map(|_| serde_json::from_str::<Facts>(&line)) {
            Ok(Ok(facts)) => Ok(Node { child, facts }),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let text = log.join().unwrap_or_default();
                Err(Error(format!("nereid {options:?} did not start:\n{text}")))
            }
        }
    }

    /// One node for all tests of a test program. It ends with that program.
    pub fn shared() -> Result<&'static Node, Error> {
        static SHARED: OnceLock<Result<Node, Error>> = OnceLock::new();
        SHARED.get_or_init(|| Node::start(&[])).as_ref().map_err(Clone::clone)
    }

    /// Address and port, as drivers take them.
    pub fn address(&self) -> String {
        format!("{}:{}", self.facts.host, self.facts.port)
    }

    /// The port on which a client chooses the shard of its connection.
    pub fn shard_aware_port(&self) -> Option<u16> {
        self.facts.shard_aware_port
    }

    /// The port of the REST API.
    pub fn api_port(&self) -> Option<u16> {
        self.facts.api_port
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Asked first, so that it removes its folder.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name for a keyspace that no other test of this process has, and the statement that makes it.
pub fn keyspace() -> (String, String) {
    static NUMBERS: AtomicU32 = AtomicU32::new(1);
    let name = format!("test_{}", NUMBERS.fetch_add(1, Ordering::Relaxed));
    let create = format!(
        "CREATE KEYSPACE {name} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    );
    (name, create)
}

/// Reads a log to its end, so that the pipe is never full; returns the last of it.
fn follow(mut log: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = log.read(&mut piece) {
            kept.extend_from_slice(&piece[..count]);
            let over = kept.len().saturating_sub(LOG_BYTES_MAX);
            kept.drain(..over);
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_started_node_takes_connections_and_leaves_nothing() {
        let node = Node::start(&["--smp=2"]).unwrap();
        TcpStream::connect(node.address()).unwrap();
        let address = node.address();
        drop(node);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_node_that_does_not_start_says_why() {
        let error = Node::start(&["--no-such-option=1"]).err().unwrap();
        assert!(error.to_string().contains("no-such-option"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Node::start_program("/no/such/program".as_ref(), &[]).err().unwrap();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }

    #[test]
    fn a_log_keeps_its_end() {
        let text = "x".repeat(LOG_BYTES_MAX) + "the end";
        let kept = follow(std::io::Cursor::new(text)).join().unwrap();
        assert!(kept.len() == LOG_BYTES_MAX && kept.ends_with("the end"));
    }
}
