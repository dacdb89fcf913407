//! Hints, as options say that they are kept and sent: those of the start, and those that change
//! while the node runs.

use crate::folder::workdir;
use cluster::{Live, Settings};
use options::Values;
use replication::hints::decide::Enabled;
use replication::hints::{Config, Hints, Options};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const ENABLED: &str = "hinted_handoff_enabled";
const WINDOW: &str = "max_hint_window_in_ms";
const CONCURRENCY: &str = "max_hinted_handoff_concurrency";
const THROTTLE: &str = "hinted_handoff_throttle_in_kb";

/// All that are watched.
const NAMES: [&str; 4] = [ENABLED, WINDOW, CONCURRENCY, THROTTLE];

const WINDOW_DEFAULT_MS: i64 = 3 * 60 * 60 * 1000;
const CONCURRENCY_MAX: i64 = 1024;
const THROTTLE_DEFAULT_KIB: i64 = 1024;
const THROTTLE_KIB_MAX: i64 = 1 << 31;

/// Where hints are.
pub(crate) fn config(values: &Values) -> Config {
    let folder = match values.text("hints_directory") {
        "" => workdir(values).join("hints"),
        folder => PathBuf::from(folder),
    };
    debug_assert!(!folder.as_os_str().is_empty(), "a folder of hints without a name");
    Config::new(folder)
}

/// The options of a shard.
struct Handoff {
    enabled: Live<String>,
    window_ms: Live<i64>,
    concurrency: Live<i64>,
    /// To one node, of all shards together.
    kib_per_second: Live<i64>,
}

fn millis(number: &i64) -> Result<(), String> {
    if *number < 0 { Err("not a number from 0 on".to_owned()) } else { Ok(()) }
}

fn some(number: &i64) -> Result<(), String> {
    match number {
        0..=CONCURRENCY_MAX => Ok(()),
        _ => Err(format!("not between 0 and {CONCURRENCY_MAX}")),
    }
}

fn kibibytes(number: &i64) -> Result<(), String> {
    match number {
        0..=THROTTLE_KIB_MAX => Ok(()),
        _ => Err(format!("not between 0 and {THROTTLE_KIB_MAX}")),
    }
}

impl Handoff {
    fn registered(settings: &Settings) -> Handoff {
        let somewhere = |text: &String| Enabled::parse(text).map(drop);
        Handoff {
            enabled: settings.register(ENABLED, "true".to_owned(), somewhere),
            window_ms: settings.register(WINDOW, WINDOW_DEFAULT_MS, millis),
            concurrency: settings.register(CONCURRENCY, 0, some),
            kib_per_second: settings.register(THROTTLE, THROTTLE_DEFAULT_KIB, kibibytes),
        }
    }

    fn options(&self) -> Options {
        Options {
            enabled: Enabled::parse(&self.enabled.get()).unwrap_or_default(),
            window: Duration::from_millis(self.window_ms.get().unsigned_abs()),
            concurrency: usize::try_from(self.concurrency.get()).unwrap_or(0),
            bytes_per_second: self.kib_per_second.get().unsigned_abs() << 10,
        }
    }
}

/// Registers the options, for [`Settings::refused`].
pub(crate) fn check(settings: &Settings) {
    Handoff::registered(settings);
}

/// Gives this shard's hints what the options say, now and after every change.
pub(crate) fn provide() {
    let settings = Settings::of_shard();
    let handoff = Rc::new(Handoff::registered(&settings));
    let set = {
        let handoff = handoff.clone();
        move || {
            if let Some(hints) = Hints::of_shard() {
                hints.set(handoff.options());
            }
        }
    };
    set();
    for name in NAMES {
        settings.watch(name, Rc::new(set.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offers::offers;
    use crate::testing::values;

    #[test]
    fn the_folder_is_below_that_of_all_data_unless_it_is_named() {
        let below = config(&values(&[("workdir", "/data")]));
        assert_eq!(below.folder, PathBuf::from("/data/hints"));
        let named = config(&values(&[("workdir", "/data"), ("hints_directory", "/other")]));
        assert_eq!(named.folder, PathBuf::from("/other"));
    }

    #[test]
    fn options_are_read_and_refused() {
        let options = |given: &[(&str, &str)]| {
            let settings = Settings::default();
            offers(&values(given)).into_iter().for_each(|offer| settings.offer(offer));
            let handoff = Handoff::registered(&settings);
            (handoff.options(), settings.refused().len())
        };
        assert_eq!(options(&[]), (Options::default(), 0));
        let given = [(ENABLED, "dc1,dc2"), (WINDOW, "5000"), (CONCURRENCY, "3"), (THROTTLE, "2")];
        let expected = Options {
            enabled: Enabled::In(vec!["dc1".to_owned(), "dc2".to_owned()]),
            window: Duration::from_secs(5),
            concurrency: 3,
            bytes_per_second: 2048,
        };
        assert_eq!(options(&given), (expected, 0));
        for wrong in [(ENABLED, "dc1,"), (WINDOW, "-1"), (CONCURRENCY, "2000"), (THROTTLE, "-1")] {
            assert_eq!(options(&[wrong]), (Options::default(), 1), "{wrong:?}");
        }
    }
}
