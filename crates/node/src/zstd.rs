//! What Zstandard is used for between nodes: options that change while the node runs.

use cluster::{Live, Settings};
use messaging::ZstdRules;
use std::time::Duration;

const FRACTION: &str = "internode_compression_zstd_max_cpu_fraction";
const LONG_FRACTION: &str = "internode_compression_zstd_max_longterm_cpu_fraction";
const PERIOD: &str = "internode_compression_zstd_cpu_quota_refresh_period_ms";
const BYTES_MIN: &str = "internode_compression_zstd_min_message_size";
const BYTES_MAX: &str = "internode_compression_zstd_max_message_size";

const PERIOD_MS_MAX: i64 = 60_000;

/// The options of a shard.
pub(crate) struct Zstd {
    fraction: Live<f64>,
    long_fraction: Live<f64>,
    period_ms: Live<i64>,
    bytes_min: Live<i64>,
    bytes_max: Live<i64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "a rule is of any type")]
fn fraction(part: &f64) -> Result<(), String> {
    if (0.0..=1.0).contains(part) { Ok(()) } else { Err("not between 0 and 1".to_owned()) }
}

fn millis(number: &i64) -> Result<(), String> {
    match number {
        1..=PERIOD_MS_MAX => Ok(()),
        _ => Err(format!("not between 1 and {PERIOD_MS_MAX}")),
    }
}

fn bytes(number: &i64) -> Result<(), String> {
    match u32::try_from(*number) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("not between 0 and {}", u32::MAX)),
    }
}

impl Zstd {
    /// Registers the options; for [`Settings::refused`], too.
    pub(crate) fn registered(settings: &Settings) -> Zstd {
        Zstd {
            fraction: settings.register(FRACTION, 0.0, fraction),
            long_fraction: settings.register(LONG_FRACTION, 1.0, fraction),
            period_ms: settings.register(PERIOD, 20, millis),
            bytes_min: settings.register(BYTES_MIN, 1024, bytes),
            bytes_max: settings.register(BYTES_MAX, u32::MAX.into(), bytes),
        }
    }

    /// What they say now.
    pub(crate) fn rules(&self) -> ZstdRules {
        let length = |live: &Live<i64>| u32::try_from(live.get()).unwrap_or(u32::MAX);
        ZstdRules {
            bytes: length(&self.bytes_min)..=length(&self.bytes_max),
            fraction: self.fraction.get(),
            period: Duration::from_millis(self.period_ms.get().unsigned_abs()),
            long_fraction: self.long_fraction.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offers::offers;
    use options::{Source, Values};

    #[test]
    fn zstandard_may_do_what_was_said_last() {
        runtime::sim::test(1, || async {
            let settings = Settings::of_shard();
            let mut values = Values::default();
            values.set(BYTES_MIN, vec!["7000".to_owned()], Source::File).expect("an option");
            offers(&values).into_iter().for_each(|offer| settings.offer(offer));
            let zstd = Zstd::registered(&settings);
            let first = ZstdRules { bytes: 7000..=u32::MAX, fraction: 0.0, ..zstd.rules() };
            assert_eq!(zstd.rules(), first);
            let by = cluster::settings::By::Operator;
            let change = async |name: &str, text: &str| {
                Settings::change(name.to_owned(), text.to_owned(), by).await.is_ok()
            };
            assert!(change(FRACTION, "0.25").await && !change(FRACTION, "1.1").await);
            assert!(change(PERIOD, "50").await && !change(PERIOD, "0").await);
            assert!(!change(BYTES_MAX, "4294967296").await);
            let period = Duration::from_millis(50);
            assert_eq!(zstd.rules(), ZstdRules { fraction: 0.25, period, ..first });
        });
    }
}
