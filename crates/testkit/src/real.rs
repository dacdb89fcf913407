//! A node on real shards with real files: the same tests as on simulated ones, where the kernel or
//! the cost of what is done is the question.
//!
//! Invariants
//!  - *own-directory*: no other test has the directory of a node, in this process or in another
//!    one; it is removed when the test has passed.

use runtime::Config;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs `body` on shard 0 of so many new shards; it is given the path of its directory, which is
/// not there yet.
pub fn run<F, Fut, T>(shards: u16, body: F) -> T
where
    F: FnOnce(PathBuf) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let directory = directory();
    // Tests share their processors: a shard with nothing to do sleeps at once.
    let config = Config { idle_poll: Duration::ZERO, ..Config::new(shards) };
    runtime::testing::block_on_with(config, move || async move {
        let done = body(directory.clone()).await;
        if let Err(error) = runtime::io::fs::remove_dir_all(&directory).await {
            assert!(error.is_not_found(), "own-directory: {error}");
        }
        done
    })
}

fn directory() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("nereid-testkit-{}-{number}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::io::fs;

    #[test]
    fn each_has_a_directory_that_goes_with_it() {
        let make = |directory: PathBuf| async move {
            fs::create_dir_all(&directory).await.expect("a directory");
            fs::write_file_atomic(directory.join("file"), b"there").await.expect("a file");
            directory
        };
        let (one, other) = (run(1, make), run(2, make));
        assert_ne!(one, other);
        assert!(run(1, |_| async move { fs::list_dir(&one).await.is_err() }));
        // Nothing was made.
        run(1, |_| async {});
    }
}
