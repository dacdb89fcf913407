//! `/v2/config`: options and their values; `/v2/client-routes`: by which addresses clients reach
//! nodes.

use super::Door;
use super::api::{Api, Kind};
use crate::call::{Answer, Call};
use cluster::{ClientRoute, Settings};
use model::Uuid;
use serde_json::{Value, json};
use std::rc::Rc;

const ROUTES: &str = "[{connection_id, host_id, address, port, tls_port, alternator_port, \
                      alternator_https_port}]";
/// The ports of a route.
const PORTS: [&str; 4] = ["port", "tls_port", "alternator_port", "alternator_https_port"];

pub(super) fn operations(api: &mut Api) {
    api.tells("/v2/config", "All options", |_| {
        let shown = Settings::of_shard().shown();
        shown
            .into_iter()
            .map(
                |one| json!({ "name": one.name, "source": one.source, "value": value(&one.value) }),
            )
            .collect()
    });
    api.get("/v2/config/{name}", "The value of an option", async |_: &Rc<Door>, call: &Call| {
        let name = call.segment("name");
        let shown = Settings::of_shard().shown();
        match shown.into_iter().find(|option| option.name == name) {
            Some(option) => Ok(Answer::json(value(&option.value))),
            None => Err(Answer::refused(404, format!("no such option: {name}"))),
        }
    });
    let path = "/v2/client-routes";
    api.get(path, "By which addresses clients reach nodes", async |door: &Rc<Door>, _: &Call| {
        let routes = door.cluster.client_routes().await;
        let routes = routes.map_err(|text| Answer::refused(500, text))?;
        Ok(Answer::json(routes.iter().map(shown).collect()))
    });
    api.post(path, "Adds or changes some", async |door: &Rc<Door>, call: &Call| {
        let routes = parsed(&call.body, Wanted::Whole)?;
        let written = door.cluster.write_client_routes(&routes).await;
        written.map_err(|text| Answer::refused(500, text))?;
        Ok(Answer::done())
    })
    .needs("routes", Kind::Body, ROUTES);
    api.delete(path, "Removes some", async |door: &Rc<Door>, call: &Call| {
        let routes = parsed(&call.body, Wanted::Key)?;
        let removed = door.cluster.remove_client_routes(&routes).await;
        removed.map_err(|text| Answer::refused(500, text))?;
        Ok(Answer::done())
    })
    .needs("routes", Kind::Body, "[{connection_id, host_id}]");
}

/// The value of an option as JSON: what it is, or its text.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn shown(route: &ClientRoute) -> Value {
    let mut shown = json!({
        "connection_id": route.connection_id,
        "host_id": route.host_id.to_string(),
        "address": route.address,
    });
    for (name, port) in PORTS.into_iter().zip(route.ports) {
        if let Some(port) = port {
            shown[name] = json!(port);
        }
    }
    shown
}

/// What of a route has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Key,
    Whole,
}

fn parsed(body: &[u8], wanted: Wanted) -> Result<Vec<ClientRoute>, Answer> {
    let refused = |text: String| Answer::refused(400, text);
    let list: Vec<Value> = serde_json::from_slice(body)
        .map_err(|error| refused(format!("the body is no list of JSON: {error}")))?;
    let of_one = |(index, one): (usize, &Value)| {
        route(one, wanted).map_err(|why| refused(format!("entry {index}: {why}")))
    };
    list.iter().enumerate().map(of_one).collect()
}

fn route(one: &Value, wanted: Wanted) -> Result<ClientRoute, String> {
    let text = |name: &str| {
        let text = one[name].as_str().map(str::to_owned);
        text.ok_or_else(|| format!("{name}: a string is required"))
    };
    let host_id = text("host_id")?;
    let mut route = ClientRoute {
        connection_id: text("connection_id")?,
        host_id: Uuid::parse_str(&host_id)
            .map_err(|_| format!("host_id: not a UUID: {host_id}"))?,
        address: String::new(),
        ports: [None; 4],
    };
    if wanted == Wanted::Key {
        return Ok(route);
    }
    route.address = text("address")?;
    for (name, port) in PORTS.into_iter().zip(&mut route.ports) {
        if one[name].is_null() {
            continue;
        }
        let number = one[name].as_i64().ok_or_else(|| format!("{name}: a number is required"))?;
        let number = u16::try_from(number).ok().filter(|number| 0 < *number);
        *port = Some(number.ok_or_else(|| {
            format!("{name}: {} is outside the allowed port range 1 to 65535", one[name])
        })?);
    }
    if route.ports[..2] == [None, None] {
        return Err("port or tls_port is required".to_owned());
    }
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_checked() {
        let whole = r#"[{"connection_id": "c", "host_id": "00000000-0000-0000-0000-000000000002",
                         "address": "a", "port": 1, "alternator_port": 65535}]"#;
        let routes = parsed(whole.as_bytes(), Wanted::Whole).unwrap();
        assert_eq!(routes[0].ports, [Some(1), None, Some(65535), None]);
        let entry = shown(&routes[0]);
        assert_eq!(entry["port"], json!(1));
        assert_eq!(entry.get("tls_port"), None);
        let check = |body: &str, expected: &str| {
            let body = whole.replace("\"port\": 1", body);
            let answer = parsed(body.as_bytes(), Wanted::Whole).unwrap_err();
            let text = String::from_utf8(answer.body).unwrap();
            assert!(answer.status == 400 && text.contains(expected), "{text}");
            let key = parsed(body.as_bytes(), Wanted::Key);
            assert_eq!(key.is_ok(), !body.contains("host_id\": 3"), "{body}");
        };
        for port in ["-1", "0", "65536", "1000000"] {
            check(&format!("\"port\": {port}"), "outside the allowed port range");
        }
        check("\"port\": \"1\"", "port: a number is required");
        check("\"x\": 1", "port or tls_port is required");
        for bad in ["", "{}", "[1]", "[{}]", "[{\"connection_id\": \"c\", \"host_id\": \"x\"}]"] {
            assert_eq!(parsed(bad.as_bytes(), Wanted::Key).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn values_of_options_are_json() {
        assert_eq!(value("5"), json!(5));
        assert_eq!(value("\"text\""), json!("text"));
        assert_eq!(value("plain"), json!("plain"));
    }
}
