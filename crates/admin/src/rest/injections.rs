//! `/v2/error_injection`: named points of the code that fail or wait. In release builds they can be
//! asked for, and nothing comes of it.

use super::Door;
use super::api::{Answered, Api, Kind};
use crate::call::{Answer, Call};
use runtime::on_all_shards;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::injection::{self, Injection};

const PATH: &str = "/v2/error_injection/injection";

pub(super) fn operations(api: &mut Api) {
    api.tells(PATH, "The injection points that are enabled", |_| json!(injection::names()));
    api.delete(PATH, "Disables all injection points", async |_, _| {
        on_all_shards(|| async { injection::disable_all() }).await;
        Ok(Answer::done())
    });
    let path = "/v2/error_injection/injection/{injection}";
    api.get(path, "The state of an injection point on each shard", wanted);
    api.post(path, "Enables an injection point: it fails or waits, in development builds", enable)
        .takes("one_shot", Kind::Flag, "Whether it is disabled after the first time")
        .takes("parameters", Kind::Body, "What the point is told: {\"name\": \"value\"}");
    api.delete(path, "Disables an injection point", async |_: &Rc<Door>, call: &Call| {
        each(call, injection::disable).await;
        Ok(Answer::done())
    });
    let path = "/v2/error_injection/injection/{injection}/message";
    api.post(
        path,
        "Resumes those that wait at an injection point",
        async |_: &Rc<Door>, call: &Call| {
            each(call, injection::message).await;
            Ok(Answer::done())
        },
    );
    let path = "/v2/error_injection/injection/{injection}/enters";
    api.get(path, "How often an injection point was reached since it was enabled", enters);
    let why = "there is no other node whose connection could be cut";
    let path = "/v2/error_injection/disconnect/{ip}";
    api.cannot(hyper::Method::POST, path, "Cuts the connection to a node", why);
}

/// Does something with the point of the path on every shard.
async fn each(call: &Call, act: fn(&str)) {
    let name = call.segment("injection").to_owned();
    on_all_shards(move || {
        let name = name.clone();
        async move { act(&name) }
    })
    .await;
}

async fn told(call: &Call) -> Vec<Option<Injection>> {
    let name = call.segment("injection").to_owned();
    on_all_shards(move || {
        let name = name.clone();
        async move { injection::wanted(&name) }
    })
    .await
}

async fn wanted(_: &Rc<Door>, call: &Call) -> Answered {
    let shown = told(call).await.into_iter().map(|found| {
        let point = found.unwrap_or_default();
        let parameters = point.parameters.iter();
        let parameters = parameters.map(|(key, value)| json!({ "key": key, "value": value }));
        json!({
            "enabled": injection::ENABLED && !point.is_spent && point != Injection::default(),
            "parameters": parameters.collect::<Vec<_>>(),
        })
    });
    Ok(Answer::json(shown.collect()))
}

async fn enters(_: &Rc<Door>, call: &Call) -> Answered {
    let all = told(call).await;
    let entered = all.iter().flatten().map(|point| point.entered);
    Ok(Answer::json(json!(entered.sum::<u64>())))
}

/// The parameters in a body: an object of texts.
fn parameters(body: &[u8]) -> Result<BTreeMap<String, String>, Answer> {
    if body.is_empty() {
        return Ok(BTreeMap::new());
    }
    let refused = || Answer::refused(400, "the body is no object of JSON");
    let object: Map<String, Value> = serde_json::from_slice(body).map_err(|_| refused())?;
    let pairs = object.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    Ok(pairs.collect())
}

async fn enable(_: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("injection").to_owned();
    let one_shot = call.flag("one_shot", false)?;
    let told = parameters(&call.body)?;
    if !injection::ENABLED {
        return Ok(Answer::done());
    }
    let set = on_all_shards(move || {
        let (name, told) = (name.clone(), told.clone());
        async move { injection::enable(&name, one_shot, told) }
    });
    match set.await.into_iter().all(|set| set) {
        true => Ok(Answer::done()),
        false => Err(Answer::refused(400, "too many injection points are enabled")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_texts() {
        let told = parameters(br#"{"ks_name": "ks", "value": 3}"#).unwrap();
        let pairs: Vec<(&str, &str)> =
            told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("ks_name", "ks"), ("value", "3")]);
        assert_eq!(parameters(b""), Ok(BTreeMap::new()));
        for bad in ["[]", "{", "1", "\"x\"", "{\"a\": 1"] {
            assert_eq!(parameters(bad.as_bytes()).unwrap_err().status, 400, "{bad}");
        }
    }
}
