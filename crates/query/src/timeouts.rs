//! Request timeouts: options that change while the node runs.

use crate::config::Config;
use cluster::Live;
use cluster::settings::{Rule, SettingValue, Settings};
use std::time::Duration;

/// A span, as an option has it: whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub Duration);

impl SettingValue for Millis {
    const KIND: &'static str = "integer";

    fn parse(text: &str) -> Option<Millis> {
        let millis = i64::parse(text)?;
        Some(Millis(Duration::from_millis(u64::try_from(millis).unwrap_or(0))))
    }

    fn show(&self) -> String {
        self.0.as_millis().to_string()
    }
}

fn some(span: &Millis) -> Result<(), String> {
    if span.0.is_zero() { Err("must be greater than 0".to_owned()) } else { Ok(()) }
}

/// Each field has the name of its option, without `_in_ms`.
#[derive(Debug)]
#[allow(missing_docs, reason = "named as in the options file")]
pub struct Timeouts {
    pub read_request_timeout: Live<Millis>,
    pub range_request_timeout: Live<Millis>,
    pub write_request_timeout: Live<Millis>,
    pub counter_write_request_timeout: Live<Millis>,
    pub cas_contention_timeout: Live<Millis>,
    pub truncate_request_timeout: Live<Millis>,
}

impl Timeouts {
    /// The options of reads: storage obeys them too.
    pub const OF_READS: [&'static str; 2] =
        ["read_request_timeout_in_ms", "range_request_timeout_in_ms"];

    /// As a shard's settings have them, from now on; `config` where they do not say.
    pub(crate) fn registered(settings: &Settings, config: &Config) -> Timeouts {
        let span = |name, default| settings.register(name, Millis(default), some as Rule<Millis>);
        let [read, range] = Timeouts::OF_READS;
        Timeouts {
            read_request_timeout: span(read, config.read_timeout),
            range_request_timeout: span(range, config.range_read_timeout),
            write_request_timeout: span("write_request_timeout_in_ms", config.write_timeout),
            counter_write_request_timeout: span(
                "counter_write_request_timeout_in_ms",
                config.counter_write_timeout,
            ),
            cas_contention_timeout: span("cas_contention_timeout_in_ms", config.cas_timeout),
            truncate_request_timeout: span(
                "truncate_request_timeout_in_ms",
                config.truncate_timeout,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settings_say_goes_before_the_configuration() {
        let settings = Settings::default();
        settings.offer(cluster::settings::Offer {
            name: "write_request_timeout_in_ms",
            kind: "integer",
            shown: "70".to_owned(),
            source: "cli",
            changes: true,
        });
        let timeouts = Timeouts::registered(&settings, &Config::standard());
        let millis = |live: &Live<Millis>| live.get().0.as_millis();
        assert_eq!(millis(&timeouts.write_request_timeout), 70);
        assert_eq!(millis(&timeouts.read_request_timeout), 5000);
        assert!(some(&Millis::parse("-1").unwrap()).is_err());
        assert_eq!(Millis::parse("x"), None);
    }
}
