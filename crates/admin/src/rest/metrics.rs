//! `/v2/metrics-config`: the rules by which samples are labelled and shown.

use super::Door;
use super::api::{Api, Kind};
use crate::call::{Answer, Call};
use crate::metrics::relabel::{Relabelling, Rules};
use std::rc::Rc;

const RULES: &str = "[{source_labels, separator, regex, action, target_label, replacement}]";

pub(super) fn operations(api: &mut Api) {
    let path = "/v2/metrics-config";
    api.tells(path, "The rules that hold for metrics", |_| Relabelling::of_shard().rules().shown());
    let summary = "Sets them, in place of those before, until the next start";
    api.post(path, summary, async |_: &Rc<Door>, call: &Call| {
        let refused = |why: String| Answer::refused(400, why);
        let list = serde_json::from_slice(&call.body);
        let list = list.map_err(|error| refused(format!("not JSON: {error}")))?;
        Relabelling::of_shard().set(Rules::parse(&list).map_err(refused)?);
        tracing::info!(target: "api", "the rules of metrics are changed");
        Ok(Answer::done())
    })
    .needs("conf", Kind::Body, RULES);
}
