//! What the values of an answer say. Whatever is not there is nothing, not an error
//! (*less-is-fine*).

use serde_json::Value;

/// A list of texts; what is none is left out.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(str::to_string).collect()
}

/// The items of a list; none, of anything else.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A member as it is printed: texts without their marks, nothing for what is not there.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number as it is printed, where the node counts it.
pub(crate) fn figure(value: &Value) -> String {
    match value {
        Value::Null => "n/a".to_string(),
        value => plain(value),
    }
}

/// A list of `{key, value}`.
pub(crate) fn pairs(value: &Value) -> Vec<(String, Value)> {
    list(value).map(|pair| (plain(&pair["key"]), pair["value"].clone())).collect()
}
