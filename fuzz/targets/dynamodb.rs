//! Requests of the DynamoDB API: any bytes are JSON or refused, and what is JSON is a value, an
//! expression, a number or refused; what is taken is written as what means the same.
#![no_main]

use alternator::evaluate::holds;
use alternator::expression::{Placeholders, Programs, condition, projection, update};
use alternator::json::Json;
use alternator::number::Number;
use alternator::sign::Signed;
use alternator::update::{applied, changed};
use alternator::value::{self, Map, Value, attributes, attributes_json, item_size, stored};
use libfuzzer_sys::fuzz_target;

// A request, as much of it as is pure: the first byte says which part of the API reads the rest.
fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 5 {
        0 => item(rest),
        1 => cell(rest),
        2 => number(rest),
        3 => signature(rest),
        _ => request(rest),
    }
});

/// Attributes are written as what is read as the same, as JSON and as cells.
fn item(bytes: &[u8]) {
    let Ok(item) = Json::parse_bytes(bytes).and_then(attributes) else { return };
    let text = attributes_json(&item);
    assert_eq!(attributes(Json::parse(&text).expect("our JSON")), Ok(item.clone()));
    assert!(item_size(&item) <= 16 * bytes.len() + 16, "an item is larger than its text");
    for value in item.values() {
        let mut cell = Vec::new();
        stored::encode_into(value, &mut cell);
        assert_eq!(stored::decode(&cell).as_ref(), Ok(value));
        assert!(value::order(value, value).is_none_or(|order| order.is_eq()));
    }
}

/// A cell that anybody may have written.
fn cell(bytes: &[u8]) {
    let mut out = String::new();
    let written = stored::write_json(bytes, &mut out);
    if let (Ok(value), Ok(())) = (stored::decode(bytes), written) {
        assert_eq!(Json::parse(&out).and_then(Value::parse), Ok(value));
    }
}

fn number(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (a, b) = text.split_once(' ').unwrap_or((text, "1"));
    let (Ok(a), Ok(b)) = (Number::parse(a), Number::parse(b)) else { return };
    for one in [Some(a), Some(b), a.plus(b).ok(), a.minus(b).ok()].into_iter().flatten() {
        assert_eq!(Number::parse(&one.to_string()), Ok(one));
        assert_eq!(Number::decode(&one.encode()), Some(one));
    }
    assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
}

/// Lines of headers, then the body.
fn signature(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let headers: Vec<_> = head.lines().filter_map(|line| line.split_once(':')).collect();
    let request = Signed {
        method: "POST",
        path: "/",
        query: "a=b",
        headers: &headers,
        body: body.as_bytes(),
    };
    // 2026-01-01.
    let _ = request.signer(1_767_225_600, |_| Ok("secret".to_owned()));
}

/// What requests on items have: an item, placeholders, expressions.
fn request(bytes: &[u8]) {
    let Ok(json) = Json::parse_bytes(bytes) else { return };
    let field = |name: &str| json.members().find(|(known, _)| known == name).map(|(_, it)| it);
    let programs = Programs::default();
    programs.keep(2);
    let known = Placeholders::of(
        field("ExpressionAttributeNames"),
        field("ExpressionAttributeValues"),
        true,
    );
    let Ok(known) = known else { return };
    let known = known.in_texts_of(&programs);
    let item = field("Item").and_then(|it| attributes(it).ok()).unwrap_or_else(Map::new);
    let text = |name: &str| field(name).and_then(Json::string);
    if let Some(text) = text("ConditionExpression")
        && let Ok(first) = condition(&text, "ConditionExpression", &known)
    {
        let _ = holds(&first, &item);
        // Found by its text it is the same.
        assert_eq!(condition(&text, "ConditionExpression", &known).as_ref(), Ok(&first));
    }
    if let Some(text) = text("UpdateExpression")
        && let Ok(update) = update(&text, "UpdateExpression", &known)
        && let Ok(changed) = changed(&update, &item)
    {
        let after = applied(&item, &changed);
        let text = attributes_json(&after);
        assert_eq!(attributes(Json::parse(&text).expect("our JSON")), Ok(after));
    }
    if let Some(text) = text("ProjectionExpression")
        && let Ok(selection) = projection(&text, "ProjectionExpression", &known)
    {
        assert!(item_size(&selection.of_item(&item)) <= item_size(&item), "a part is larger");
    }
    let _ = known.check_used();
}
