//! The process and its shards: they are listed by `--help-seastar`.

use super::*;

const LEVELS: Words = &["trace", "debug", "info", "warn", "warning", "error"];

pub(super) const ROWS: &[OptionRow] = &[
    number("smp", "0", "Number of shards; 0: one per core").short('c'),
    text("cpuset", "", "Cores to run on, such as 0-3,8").idle(),
    size("memory", "", "Memory of the node, such as 2G; default: 4/5 of the machine's memory")
        .short('m'),
    size("reserve_memory", "0", "Memory left to the system").idle(),
    flag(
        "overprovisioned",
        "false",
        "Share the cores with other processes: do not pin shards, do not poll while idle",
    ),
    number("idle_poll_time_us", "", "Microseconds to poll before sleeping"),
    flag("poll_aio", "false", "Poll for finished requests to the disk").idle(),
    decimal("task_quota_ms", "0.5", "Milliseconds that a task may run before it yields"),
    number(
        "blocked_reactor_notify_ms",
        "25",
        "Report tasks that block a shard for longer than this many milliseconds",
    ),
    number("max_networking_io_control_blocks", "10000", "Requests to the network at a time").idle(),
    number("max_io_requests", "0", "Requests to the disk at a time").idle(),
    text("io_properties_file", "", "What the disks can do, as measured").idle(),
    text("io_setup", "", "Whether the disks were measured").idle(),
    word("network_stack", "posix", &["posix", "native"], "Whose sockets").idle(),
    flag("lock_memory", "false", "Keep all memory from being swapped out").idle(),
    flag("thread_affinity", "true", "Pin each shard to its core").idle(),
    flag(
        "unsafe_bypass_fsync",
        "false",
        "Do not sync files: a power cut loses data. For tests only",
    ),
    flag("kernel_page_cache", "false", "Use the kernel's page cache instead of direct I/O"),
    flag("relaxed_dma", "false", "Accept unaligned requests to the disk").idle(),
    flag("abort_on_seastar_bad_alloc", "false", "End the process when memory is out").idle(),
    word(
        "dump_memory_diagnostics_on_alloc_failure_kind",
        "critical",
        &["none", "critical", "all"],
        "Which failed allocations are reported",
    )
    .idle(),
    word(
        "reactor_backend",
        "auto",
        &["auto", "io_uring", "epoll", "linux-aio"],
        "Kernel interface for I/O",
    ),
    number("random_seed", "", "Seed of the random numbers of the runtime").idle(),
    text("collectd", "", "Whether metrics are sent to collectd").idle(),
    text("collectd_address", "", "Where collectd listens").idle(),
    text("collectd_hostname", "", "What the node is called there").idle(),
    word("default_log_level", "info", LEVELS, "Minimum level of log lines"),
    list("logger_log_level", "", "Level of one logger, such as sstable=debug"),
    word(
        "log_format",
        "auto",
        &["auto", "text", "json", "journald"],
        "Format of log lines; auto: journald if stdout is connected to the journal, else text",
    ),
    flag("log_to_stdout", "true", "Log to the standard output").idle(),
    flag("log_to_syslog", "false", "Log to syslog").idle(),
    flag("log_with_color", "false", "Log with colours").idle(),
    word("logger_stdout_timestamps", "real", &["none", "boot", "real"], "Times of log lines")
        .idle(),
    text("options_file", "", "Read options from this YAML file").of_line(),
    flag(
        "ephemeral",
        "false",
        "Throw-away node: temporary data, free ports, one JSON line on stdout",
    )
    .of_line(),
];
