//! Whatever is dropped at whatever moment, no descriptor stays open. Alone in its process, which
//! counts them.

use runtime::io::{File, OpenOptions, fs};
use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::testing::{block_on_with, operations_in_flight};
use runtime::time::{sleep, timeout};
use runtime::{Backend, Config};
use std::time::Duration;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Gives accepts, connects and opens between none and 300 us, and drops them.
async fn drop_at_every_moment() {
    let path = std::env::temp_dir().join(format!("nereid-descriptors-{}", std::process::id()));
    // Helper threads and what they open come first.
    fs::write_file_atomic(&path, b"there").await.unwrap();
    let before = open_descriptors();
    let mut ended = 0;
    for n in 0..300u64 {
        let patience = || Duration::from_micros(runtime::random_u64() % 300);
        let options = ListenOptions { reuse_port: false, backlog: 4 };
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let addr = listener.local_addr();
        let connecting = timeout(patience(), TcpStream::connect(addr));
        let accepting = timeout(patience() * (n % 2) as u32, listener.accept());
        let (connected, accepted) = runtime::task::join(connecting, accepting).await;
        ended += connected.is_ok() as usize + accepted.is_ok() as usize;
        let opening = File::open(&path, OpenOptions::read_only());
        let _ = timeout(patience() / 10, opening).await;
    }
    assert!(0 < ended && ended < 600, "{ended} of 600 ended: the moments are not mixed");
    fs::remove_file(&path).await.unwrap();
    while operations_in_flight() != 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(open_descriptors(), before);
}

#[test]
fn nothing_stays_open() {
    for backend in [Backend::Auto, Backend::Epoll] {
        let config = Config { backend, idle_poll: Duration::ZERO, ..Config::new(1) };
        block_on_with(config, drop_at_every_moment);
    }
}
