//! The shards of a node, from the options: how many, on which processors, with how much memory; and
//! how those that lead nothing wait for their end.

use options::{Values, parse_bytes};
use runtime::sync::Notify;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Reads the runtime's settings from the options. The error names the option.
pub fn runtime_config(values: &Values) -> Result<runtime::Config, String> {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    let shards = match values.integer("smp") {
        0 => cores as i64,
        shards => shards,
    };
    let shards = u16::try_from(shards).ok().filter(|shards| (1..=256).contains(shards));
    let shards = shards.ok_or(format!("option smp: not 1 to 256: {}", values.text("smp")))?;
    let overprovisioned = values.flag("overprovisioned") || cores < shards as usize;
    let mut config = runtime::Config::new(shards);
    config.backend = match values.text("reactor_backend") {
        "auto" => runtime::Backend::Auto,
        "io_uring" => runtime::Backend::IoUring,
        "epoll" | "linux-aio" => runtime::Backend::Epoll,
        other => {
            return Err(format!("option reactor_backend: not auto, io_uring or epoll: {other}"));
        }
    };
    config.pin = if overprovisioned { runtime::Pin::Anywhere } else { runtime::Pin::OnePerCpu };
    if overprovisioned {
        config.idle_poll = Duration::ZERO;
    }
    if let Ok(micros) = values.text("idle_poll_time_us").parse() {
        config.idle_poll = Duration::from_micros(micros);
    }
    if let Ok(millis) = values.text("task_quota_ms").parse::<f64>()
        && (0.01..=1000.0).contains(&millis)
    {
        config.task_quota = Duration::from_secs_f64(millis / 1000.0);
    }
    let stall = values.integer("blocked_reactor_notify_ms");
    config.stall_threshold = u64::try_from(stall).ok().map(Duration::from_millis);
    config.bypass_fsync = values.flag("unsafe_bypass_fsync");
    if values.flag("kernel_page_cache") {
        config.direct_io = runtime::DirectIo::Off;
    }
    Ok(config)
}

/// `--memory`, or most of what the machine has.
pub fn memory_bytes(values: &Values) -> Result<u64, String> {
    let bytes = match values.text("memory") {
        "" => machine_bytes() / 10 * 8,
        text => parse_bytes(text).ok_or(format!("option memory: not a size: {text}"))?,
    };
    Ok(bytes)
}

fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * info.mem_unit as u64
}

/// Tells a following shard to end. Stands in `runtime::local`.
struct End {
    told: Notify,
    is_told: Cell<bool>,
}

fn end() -> Rc<End> {
    runtime::local::try_get::<End>().unwrap_or_else(|| {
        let end = Rc::new(End { told: Notify::new(), is_told: Cell::new(false) });
        runtime::local::set(end.clone());
        end
    })
}

/// A shard that leads nothing: waits until it is told to end.
pub async fn follow() {
    let end = end();
    while !end.is_told.get() {
        end.told.notified().await;
    }
}

/// Tells every shard that follows to end.
pub async fn end_all() {
    runtime::on_all_shards(|| async {
        let end = end();
        end.is_told.set(true);
        end.told.notify_all();
    })
    .await;
}
