//! TLS of the node's services: from options to configurations that every shard uses, and their
//! change while the node runs.

use node::encryption::{LINKS, wanted as wanted_by};
use options::Values;
use runtime::sync::Notify;
use runtime::task::race;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::Keeper;

/// How often it is looked whether files have changed.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// The services that may be encrypted, by their options.
const SERVICES: [&str; 5] =
    [native::server::ENCRYPTION, API, METRICS, LINKS, alternator::ENCRYPTION];
/// Of the REST API.
const API: &str = "api_encryption_options";
/// Of metrics.
const METRICS: &str = "prometheus_encryption_options";

/// The encryption that an option asks for; `None`: none. The error names the option.
fn wanted(values: &Values, option: &str) -> Result<Option<tls::Options>, String> {
    if option == alternator::ENCRYPTION { of_dynamo(values) } else { wanted_by(values, option) }
}

/// The encryption of the DynamoDB API: its port says whether there is any.
pub(crate) fn of_dynamo(values: &Values) -> Result<Option<tls::Options>, String> {
    let option = alternator::ENCRYPTION;
    let mut entries = values.list(option);
    entries.retain(|entry| !entry.is_empty() && !entry.starts_with("enabled"));
    if entries.is_empty() || values.integer("alternator_https_port") == 0 {
        return Ok(None);
    }
    entries.push("enabled=true".to_owned());
    tls::options::parse(&entries).map_err(|error| format!("option {option}: {error}"))
}

/// The option that encrypts an HTTP service, if it does.
pub(crate) fn of_http(values: &Values, service: &str) -> Result<Option<&'static str>, String> {
    let option = if service == "api" { API } else { METRICS };
    Ok(wanted(values, option)?.map(|_| option))
}

/// Refuses what cannot be before anything is started.
pub(crate) fn check(values: &Values) -> Result<(), String> {
    SERVICES.into_iter().try_for_each(|option| wanted(values, option).map(drop))
}

/// A port and its encrypted sister: with encryption and no sister the port itself is encrypted.
/// `(plain, encrypted)`.
pub(crate) fn ports(
    encrypts: bool,
    port: Option<SocketAddr>,
    sister: Option<SocketAddr>,
) -> (Option<SocketAddr>, Option<SocketAddr>) {
    match (encrypts, sister) {
        (false, _) => (port, None),
        (true, None) => (None, port),
        (true, Some(_)) => (port.filter(|_| port != sister), sister),
    }
}

/// The files of the services that are encrypted.
#[derive(Debug, Default)]
pub(crate) struct Encryption {
    keepers: Vec<Keeper>,
}

impl Encryption {
    /// Reads the files and has every shard use them. The error names option, file and place.
    pub(crate) async fn start(values: &Values) -> Result<Encryption, String> {
        let mut keepers = Vec::new();
        for option in SERVICES {
            if let Some(options) = wanted(values, option)? {
                let keeper = Keeper::start(option, options).await?;
                warn(&keeper);
                keepers.push(keeper);
            }
        }
        Ok(Encryption { keepers })
    }

    /// Has changed files used, looking now and then and whenever `hangup` tells.
    pub(crate) async fn watch(mut self, hangup: Rc<Notify>) {
        if self.keepers.is_empty() {
            return;
        }
        loop {
            race(runtime::time::sleep(LOOK_PERIOD), hangup.notified()).await;
            for keeper in &mut self.keepers {
                match keeper.look().await {
                    Ok(false) | Err(None) => {}
                    Ok(true) => {
                        let option = keeper.option();
                        tracing::info!(target: "init", "option {option}: changed files are used");
                        warn(keeper);
                    }
                    Err(Some(text)) => tracing::warn!(target: "init", "{text}"),
                }
            }
        }
    }
}

fn warn(keeper: &Keeper) {
    if let Some(text) = keeper.warning() {
        tracing::warn!(target: "init", "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_encrypted_unless_it_has_a_sister() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let check = |given: (bool, Option<u16>, Option<u16>),
                     expected: (Option<u16>, Option<u16>)| {
            let (encrypts, port, sister) = given;
            let (plain, encrypted) = ports(encrypts, port.map(at), sister.map(at));
            assert_eq!((plain, encrypted), (expected.0.map(at), expected.1.map(at)), "{given:?}");
        };
        check((false, Some(9042), Some(9142)), (Some(9042), None));
        check((true, Some(9042), None), (None, Some(9042)));
        check((true, Some(9042), Some(9142)), (Some(9042), Some(9142)));
        check((true, Some(9042), Some(9042)), (None, Some(9042)));
        check((true, None, Some(9142)), (None, Some(9142)));
    }
}
