//! How long the node waits for requests that are under way when it stops, or shuts clients out: an
//! option that changes while the node runs.

use cluster::{Live, Settings};
use std::rc::Rc;
use std::time::Duration;

const OPTION: &str = "request_timeout_on_shutdown_in_seconds";
const DEFAULT_SECS: i64 = 30;
/// Whoever waits longer has forgotten that the node stops.
const SECS_MAX: i64 = 24 * 3600;

/// The option on a shard. Stands in `runtime::local`.
struct Patience(Live<i64>);

fn possible(seconds: &i64) -> Result<(), String> {
    match seconds {
        0..=SECS_MAX => Ok(()),
        _ => Err(format!("not between 0 and {SECS_MAX}")),
    }
}

/// Registers the option, for [`Settings::refused`].
pub fn register(settings: &Settings) -> Live<i64> {
    settings.register(OPTION, DEFAULT_SECS, possible)
}

/// Lets it change on this shard.
pub fn provide() {
    let live = register(&Settings::of_shard());
    runtime::local::set(Rc::new(Patience(live)));
}

/// What it is now.
pub fn now() -> Duration {
    let patience = runtime::local::try_get::<Patience>();
    let seconds = patience.map_or(DEFAULT_SECS, |patience| patience.0.get());
    Duration::from_secs(seconds.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offers::offers;
    use options::{Source, Values};

    #[test]
    fn it_is_what_was_said_last() {
        runtime::sim::test(1, || async {
            assert_eq!(now(), Duration::from_secs(30));
            let mut values = Values::default();
            values.set(OPTION, vec!["7".to_owned()], Source::File).expect("an option");
            let settings = Settings::of_shard();
            offers(&values).into_iter().for_each(|offer| settings.offer(offer));
            provide();
            assert_eq!(now(), Duration::from_secs(7));
            let by = cluster::settings::By::Operator;
            let change = async |text: &str| {
                Settings::change(OPTION.to_owned(), text.to_owned(), by).await.is_ok()
            };
            assert!(change("0").await && !change("-1").await && !change("86401").await);
            assert_eq!(now(), Duration::ZERO);
        });
    }
}
