//! What a node counts, as Prometheus reads it.
//!
//! Every shard writes its samples as lines of a [`Sheet`], in its own turn; here the sheets are put
//! together family by family, in the text format, version 0.0.4, or as messages. A [`Filter`], made
//! of the parameters of the request, says which samples are wanted; [`relabel`] has the rules of
//! the operator for what they are called.
//!
//! Invariants
//!  - *one-help*: samples of one name have one kind and one help text, those of the first.
//!  - *in-steps*: others have the shard between two pieces of a family.
//!
//! The text is written by us and not by a library: those that exist make some ten objects for each
//! sample, which a thousand tables have a hundred thousand of. The tests below `tests/metrics` read
//! it with the parser of Prometheus' own Python client.

mod filter;
mod protobuf;
pub mod relabel;
mod sheet;

pub use filter::Filter;
pub use sheet::{Buckets, Kind, Labels, Sheet};

use crate::call::{Answer, Call};
use hyper::Method;
use protobuf::FamilyMessage;
use relabel::Relabelling;
use runtime::task::yield_if_needed;
use sheet::Family;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

/// Every label that samples have.
pub const LABELS: &[&str] = &[
    "shard",
    "ks",
    "cf",
    "algorithm",
    "class",
    "compression",
    "conditional",
    "consistency_level",
    "encrypted",
    "expression",
    "group",
    "idx",
    "kind",
    "mode",
    "op",
    "outcome",
    "pages",
    "rejected_by",
    "scheduling_group",
    "scheduling_group_name",
    "service_level",
    "sink",
    "statements",
    "type",
    "version",
    "who",
];

/// Gathers the samples of all shards that a filter lets through.
pub type Gather = Box<dyn Fn(Filter) -> Pin<Box<dyn Future<Output = Vec<Sheet>>>>>;

/// What the metrics are made of.
pub struct Metrics {
    /// Comes before each name, with an underscore.
    pub prefix: String,
    /// Whether who asks for Protocol Buffers gets them.
    pub allows_protobuf: bool,
    pub gather: Gather,
}

impl Metrics {
    pub(crate) async fn answer(&self, call: Call) -> Answer {
        let is_metrics = matches!(&call.path[..], [path] if path == "metrics");
        if call.method != Method::GET || !is_metrics {
            return Answer::refused(404, "Not found: metrics are at /metrics");
        }
        let rules = Relabelling::of_shard().rules();
        match Filter::parse(&self.prefix, rules, call.parameters()) {
            Ok(filter) => {
                let tells_help = filter.tells_help();
                let sheets = (self.gather)(filter).await;
                let accept = call.header("accept").unwrap_or_default();
                if self.allows_protobuf && protobuf::is_taken(accept) {
                    let body = messages(&self.prefix, sheets).await;
                    return Answer { content_type: protobuf::TYPE, ..Answer::text(body) };
                }
                Answer::text(text(&self.prefix, sheets, tells_help).await)
            }
            Err(reason) => Answer::refused(400, reason),
        }
    }
}

/// What help and kind of a family take, about.
const HEADING_BYTES: usize = 192;

fn by_name(sheets: Vec<Sheet>) -> BTreeMap<&'static str, Vec<Family>> {
    let mut families: BTreeMap<&'static str, Vec<Family>> = BTreeMap::new();
    for sheet in sheets {
        for (name, family) in sheet.into_families() {
            families.entry(name).or_default().push(family);
        }
    }
    families
}

/// The sheets as messages.
async fn messages(prefix: &str, sheets: Vec<Sheet>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, parts) in by_name(sheets) {
        let Some(Family { kind, help, .. }) = parts.first() else { continue };
        let mut message = FamilyMessage::new(format!("{prefix}_{name}"), help, *kind);
        for piece in parts.iter().flat_map(|part| &part.pieces) {
            message.take(piece);
            yield_if_needed().await;
        }
        out.append(&mut message.finish());
    }
    out
}

/// The sheets as one text.
async fn text(prefix: &str, sheets: Vec<Sheet>, tells_help: bool) -> Vec<u8> {
    let families = by_name(sheets);
    let pieces = families.values().flatten().flat_map(|family| &family.pieces);
    let bytes: usize = pieces.map(String::len).sum();
    let mut out = Vec::with_capacity(bytes + HEADING_BYTES * families.len());
    for (name, parts) in families {
        let Some(Family { kind, help, .. }) = parts.first() else { continue };
        if tells_help {
            out.extend_from_slice(format!("# HELP {prefix}_{name} {help}\n").as_bytes());
        }
        out.extend_from_slice(format!("# TYPE {prefix}_{name} {}\n", kind.name()).as_bytes());
        for part in &parts {
            debug_assert_eq!((part.kind, part.help), (*kind, *help), "*one-help*: {name}");
            for piece in &part.pieces {
                out.extend_from_slice(piece.as_bytes());
                yield_if_needed().await;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
