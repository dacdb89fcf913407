//! The options of the API, which change while the node runs.

use crate::body::Packing;
use crate::expression::Programs;
use cluster::Live;
use cluster::settings::{Settings, anything};
use std::rc::Rc;
use std::time::Duration;

/// How writes that depend on what is there are kept apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Those that read go by rounds, as conditional writes of CQL do; others just write.
    OnlyReading,
    /// All go by rounds.
    Always,
    /// Those that read are refused.
    Forbidden,
    /// They read, then write: whatever comes between is lost.
    Unsafe,
}

/// What an option may let a trace keep of a request at most.
const TRACED_BYTES_MAX: i64 = 1 << 20;

/// The tag by which a table says its own.
pub(crate) const ISOLATION_TAG: &str = "system:write_isolation";

impl Isolation {
    pub(crate) const NAMES: &str = "always, always_use_lwt, only_rmw_uses_lwt, forbid, forbid_rmw, \
                                    unsafe, unsafe_rmw";

    /// By the name that an option or a tag has.
    pub(crate) fn by_name(name: &str) -> Option<Isolation> {
        Some(match name {
            "only_rmw_uses_lwt" | "o" => Isolation::OnlyReading,
            "always" | "always_use_lwt" | "a" => Isolation::Always,
            "forbid" | "forbid_rmw" | "f" => Isolation::Forbidden,
            "unsafe" | "unsafe_rmw" | "u" => Isolation::Unsafe,
            _ => return None,
        })
    }
}

/// Those of a shard. Each field has the name of its option, without `alternator_`.
#[derive(Debug)]
pub(crate) struct Options {
    write_isolation: Live<Rc<str>>,
    pub(crate) enforce_authorization: Live<bool>,
    pub(crate) warn_authorization: Live<bool>,
    timeout_in_ms: Live<i64>,
    streams_time_window_s: Live<f64>,
    max_items_in_batch_write: Live<i64>,
    max_users_query_size_in_trace_output: Live<i64>,
    pub(crate) describe_endpoints: Live<Rc<str>>,
    pub(crate) force_read_before_write: Live<bool>,
    pub(crate) allow_system_table_write: Live<bool>,
    http_response_server_header: Live<Rc<str>>,
    pub(crate) disable_date_header: Live<bool>,
    pub(crate) disable_content_type_header: Live<bool>,
    response_gzip_compression_level: Live<i64>,
    response_compression_threshold_in_bytes: Live<i64>,
}

/// The expressions that the shard need not parse again: as many as the option says, from now on.
pub(crate) fn programs(settings: &Settings) -> Rc<Programs> {
    const NAME: &str = "alternator_max_expression_cache_entries_per_shard";
    let programs = Rc::new(Programs::default());
    runtime::local::set(programs.clone());
    let most = settings.register(NAME, 2000i64, anything);
    let kept = programs.clone();
    let keep = move || kept.keep(usize::try_from(most.get()).unwrap_or(0));
    keep();
    settings.watch(NAME, Rc::new(keep));
    programs
}

impl Options {
    /// As a shard's settings have them, from now on.
    pub(crate) fn registered(settings: &Settings) -> Options {
        let flag = |name| settings.register(name, false, anything);
        let text = |name| settings.register(name, Rc::<str>::from(""), anything);
        let number = |name, default: i64| settings.register(name, default, anything);
        Options {
            write_isolation: settings.register(
                "alternator_write_isolation",
                Rc::<str>::from(""),
                |name| match name.is_empty() || Isolation::by_name(name).is_some() {
                    true => Ok(()),
                    false => Err(format!("no way of writing is called '{name}'")),
                },
            ),
            enforce_authorization: flag("alternator_enforce_authorization"),
            warn_authorization: flag("alternator_warn_authorization"),
            timeout_in_ms: number("alternator_timeout_in_ms", 10_000),
            streams_time_window_s: settings.register(
                "alternator_streams_time_window_s",
                10.0,
                anything,
            ),
            max_items_in_batch_write: number("alternator_max_items_in_batch_write", 100),
            max_users_query_size_in_trace_output: number(
                "alternator_max_users_query_size_in_trace_output",
                4096,
            ),
            describe_endpoints: text("alternator_describe_endpoints"),
            force_read_before_write: flag("alternator_force_read_before_write"),
            allow_system_table_write: flag("alternator_allow_system_table_write"),
            http_response_server_header: text("alternator_http_response_server_header"),
            disable_date_header: flag("alternator_http_response_disable_date_header"),
            disable_content_type_header: flag(
                "alternator_http_response_disable_content_type_header",
            ),
            response_gzip_compression_level: number(
                "alternator_response_gzip_compression_level",
                6,
            ),
            response_compression_threshold_in_bytes: number(
                "alternator_response_compression_threshold_in_bytes",
                4096,
            ),
        }
    }

    pub(crate) fn isolation(&self) -> Isolation {
        Isolation::by_name(&self.write_isolation.get()).unwrap_or(Isolation::OnlyReading)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_in_ms.get().clamp(1, 3_600_000) as u64)
    }

    /// How old changes are that streams show.
    pub(crate) fn streams_window(&self) -> Duration {
        let secs = self.streams_time_window_s.get();
        Duration::from_secs_f64(if secs.is_finite() { secs.clamp(0.0, 86_400.0) } else { 86_400.0 })
    }

    /// How an answer of so many bytes is packed, for a client that takes these.
    pub(crate) fn packing<'h>(
        &self,
        accepted: impl Iterator<Item = &'h str>,
        bytes: usize,
    ) -> Option<Packing> {
        let least = self.response_compression_threshold_in_bytes.get();
        let is_large = usize::try_from(least).is_ok_and(|least| 0 < least && least <= bytes);
        if !is_large || self.response_gzip_compression_level.get() <= 0 {
            return None;
        }
        Packing::accepted(&accepted.collect::<Vec<_>>().join(","))
    }

    /// What answers call the server, if anything.
    pub(crate) fn server_header(&self) -> Option<String> {
        let said = self.http_response_server_header.get();
        if said.is_empty() {
            return None;
        }
        let printed: String = said.chars().filter(|c| matches!(c, ' '..='~')).collect();
        Some(printed.trim().to_owned()).filter(|printed| !printed.is_empty())
    }

    pub(crate) fn packing_level(&self) -> u32 {
        self.response_gzip_compression_level.get().clamp(1, 9) as u32
    }

    /// Bytes of a request that its trace keeps.
    pub(crate) fn traced_bytes_max(&self) -> usize {
        let most = self.max_users_query_size_in_trace_output.get();
        most.clamp(0, TRACED_BYTES_MAX) as usize
    }

    pub(crate) fn batch_items_max(&self) -> usize {
        self.max_items_in_batch_write.get().clamp(1, 10_000) as usize
    }
}
