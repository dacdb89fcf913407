//! The audit log as the options say, and its way to syslog: datagrams to the socket of the
//! machine's logger.
//!
//! Invariants
//!  - *patient-for-a-while*: a logger that reads nothing now is tried again for [`PATIENCE`] per
//!    event, and one that has started anew is connected to anew; then the event has failed. Others
//!    wait in their queue meanwhile, which is bounded.

use options::Values;
use query::Processor;
use query::audit::Queue;
use runtime::net::datagram::DatagramSender;
use runtime::task::yield_if_needed;
use runtime::time::{Instant, sleep};
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

/// How long a logger may take no event.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    sinks: query::audit::Config,
    /// Of syslog.
    socket: String,
}

impl Config {
    /// As the options say: `none` among others turns all of it off.
    pub(crate) fn of(values: &Values) -> Config {
        let said = values.list("audit");
        let has = |sink: &str| said.iter().flat_map(|it| it.split(',')).any(|it| it.trim() == sink);
        let bytes = values.integer("audit_syslog_write_buffer_size").max(0) as usize;
        let is_on = !has("none");
        Config {
            sinks: query::audit::Config {
                to_table: is_on && has("table"),
                syslog_bytes_max: (is_on && has("syslog")).then_some(bytes),
            },
            socket: values.text("audit_unix_socket_path").to_owned(),
        }
    }
}

/// Begins to write down what clients do.
pub(crate) async fn start(config: Config) -> Result<(), String> {
    query::Audit::start(config.sinks).await?;
    if config.sinks.syslog_bytes_max.is_some() {
        let tell = move || {
            let socket = config.socket.clone();
            async move {
                if let Some(audit) = runtime::local::get::<Processor>().audit() {
                    audit.write_syslog(|queue| tell_syslog(queue, socket));
                }
            }
        };
        runtime::on_all_shards(tell).await;
    }
    Ok(())
}

async fn tell_syslog(queue: Rc<Queue>, path: String) {
    let node = runtime::local::get::<Processor>().cluster().node().rpc_address;
    let (process, mut logger) = (std::process::id(), None);
    while let Some(event) = queue.next().await {
        let line = event.syslog_line(node, process);
        let sent = send(&mut logger, &path, line.as_bytes()).await;
        queue.conclude(&event, sent);
        yield_if_needed().await;
    }
}

/// Sends to the logger, which is connected to if it is not (*patient-for-a-while*).
async fn send(logger: &mut Option<DatagramSender>, path: &str, bytes: &[u8]) -> Result<(), String> {
    let (began, mut is_new) = (Instant::now(), false);
    loop {
        let sent = match &logger {
            Some(logger) => logger.try_send(bytes),
            None => match DatagramSender::connect(path) {
                Ok(connected) => {
                    is_new = true;
                    logger.insert(connected).try_send(bytes)
                }
                Err(error) => Err(error),
            },
        };
        let Err(error) = sent else { return Ok(()) };
        if error.kind() == ErrorKind::WouldBlock && Instant::now() - began < PATIENCE {
            sleep(PAUSE).await;
            continue;
        }
        // One that was there before may have started anew.
        let again = logger.take().is_some() && !is_new && error.kind() != ErrorKind::WouldBlock;
        if !again {
            return Err(format!("{path}: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[test]
    fn sinks_are_named_by_an_option() {
        let check = |said: &[&str], to_table: bool, syslog: Option<usize>| {
            let mut values = Values::default();
            let given = said.iter().map(|it| it.to_string()).collect();
            values.set("audit", given, Source::File).expect("an option");
            let sinks = query::audit::Config { to_table, syslog_bytes_max: syslog };
            assert_eq!(Config::of(&values).sinks, sinks, "{said:?}");
        };
        check(&["none"], false, None);
        check(&["table"], true, None);
        check(&["syslog"], false, Some(1 << 20));
        check(&["syslog,table"], true, Some(1 << 20));
        check(&["syslog", "table"], true, Some(1 << 20));
        check(&["table,syslog,none"], false, None);
        let config = Config::of(&Values::default());
        assert_eq!(config.sinks, query::audit::Config::default());
        assert_eq!(config.socket, "/dev/log");
    }
}
