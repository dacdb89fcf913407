//! The requests of `perf-alternator`, as JSON. Pure.
//!
//! An item has a hash key `p`, a range key `c`, five texts of 34 bytes, a list and a map.

use super::options::{Options, Workload};
use std::fmt::Write;

/// The table. It is made anew.
pub(super) const TABLE: &str = "workloads_test";
const TEXTS: usize = 5;
const TEXT_BYTES: usize = 34;
/// Items of a transaction.
const TRANSACTED_TOGETHER: u64 = 4;
/// Items of a request that populates.
pub(super) const POPULATED_TOGETHER: u64 = 25;

/// The name of an operation and its parameters.
pub(super) type Asked<'a> = (&'static str, &'a str);

/// A text, the same in each run.
fn text(number: usize) -> String {
    let byte = |at: usize| (b'a' + ((at * 7 + number * 11) % 26) as u8) as char;
    (0..TEXT_BYTES).map(byte).collect()
}

/// What requests are made of.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    workload: Workload,
    partitions: u64,
    segments: u64,
    batch: u64,
    /// Names and JSON of the attributes that are no keys.
    attributes: Vec<(String, String)>,
    /// What a write has behind its key, but for the value of the first attribute.
    update: String,
}

impl Requests {
    pub(super) fn of(options: &Options) -> Requests {
        let mut attributes: Vec<(String, String)> =
            (0..TEXTS).map(|n| (format!("C{n}"), format!("{{\"S\":\"{}\"}}", text(n)))).collect();
        let list = format!("{{\"L\":[{{\"S\":\"{}\"}},{{\"N\":\"17\"}}]}}", text(TEXTS));
        attributes.push(("L0".to_string(), list));
        let map = format!(
            "{{\"M\":{{\"a\":{{\"S\":\"{}\"}},\"b\":{{\"BOOL\":true}}}}}}",
            text(TEXTS + 1)
        );
        attributes.push(("M0".to_string(), map));
        Requests {
            workload: options.workload,
            partitions: options.partitions,
            segments: options.scan_segments,
            batch: options.batch_size,
            update: update(&attributes, options.workload),
            attributes,
        }
    }

    /// Operations that one request counts as.
    pub(super) fn operations(&self) -> u64 {
        if self.workload == Workload::BatchRead { self.batch } else { 1 }
    }

    /// Whether items come in turn: nobody has to wait for another.
    pub(super) fn is_in_turn(&self) -> bool {
        matches!(self.workload, Workload::Put | Workload::Transact)
    }

    /// How many numbers a request in turn takes.
    pub(super) fn items(&self) -> u64 {
        if self.workload == Workload::Transact { TRANSACTED_TOGETHER } else { 1 }
    }

    /// A request of the workload, into `out`. `random`: any number; the turn, where there is one.
    pub(super) fn next<'a>(&self, random: u64, out: &'a mut String) -> Asked<'a> {
        out.clear();
        let _ = write!(out, "{{\"TableName\":\"{TABLE}\",");
        let operation = match self.workload {
            Workload::Read => {
                key(random % self.partitions, out);
                out.push('}');
                "GetItem"
            }
            Workload::BatchRead => {
                out.clear();
                let _ = write!(out, "{{\"RequestItems\":{{\"{TABLE}\":{{\"Keys\":[");
                let all = (0..self.batch).map(|n| random.wrapping_add(n) % self.partitions);
                listed(all, out, key_object);
                out.push_str("]}}}");
                "BatchGetItem"
            }
            Workload::Scan => {
                let (segments, segment) = (self.segments, random % self.segments);
                let _ = write!(out, "\"Segment\":{segment},\"TotalSegments\":{segments}}}");
                "Scan"
            }
            Workload::Put => {
                self.item(random % self.partitions, out);
                out.push('}');
                "PutItem"
            }
            Workload::Transact => {
                out.clear();
                out.push_str("{\"TransactItems\":[");
                let all = (0..self.items()).map(|n| random.wrapping_add(n) % self.partitions);
                listed(all, out, |number, out| {
                    let _ = write!(out, "{{\"Put\":{{\"TableName\":\"{TABLE}\",");
                    self.item(number, out);
                    out.push_str("}}");
                });
                out.push_str("]}");
                "TransactWriteItems"
            }
            Workload::Write | Workload::WriteIndexed | Workload::WriteConditional => {
                key(random % self.partitions, out);
                let first = match self.workload {
                    Workload::WriteIndexed => random,
                    _ => 0,
                };
                out.push_str(&self.update);
                let _ = write!(out, "\":0\":{{\"S\":\"{first:0TEXT_BYTES$}\"}}}}}}");
                "UpdateItem"
            }
        };
        (operation, out)
    }

    fn item(&self, number: u64, out: &mut String) {
        out.push_str("\"Item\":{");
        key_members(number, out);
        for (name, value) in &self.attributes {
            let _ = write!(out, ",\"{name}\":{value}");
        }
        out.push('}');
    }

    /// A request that writes items from a number on.
    pub(super) fn populate<'a>(&self, first: u64, out: &'a mut String) -> Asked<'a> {
        out.clear();
        let _ = write!(out, "{{\"RequestItems\":{{\"{TABLE}\":[");
        let last = (first + POPULATED_TOGETHER).min(self.partitions);
        listed(first..last, out, |number, out| {
            out.push_str("{\"PutRequest\":{");
            self.item(number, out);
            out.push_str("}}");
        });
        out.push_str("]}}");
        ("BatchWriteItem", out)
    }
}

fn listed(numbers: impl Iterator<Item = u64>, out: &mut String, each: impl Fn(u64, &mut String)) {
    for (at, number) in numbers.enumerate() {
        if 0 < at {
            out.push(',');
        }
        each(number, out);
    }
}

fn key(number: u64, out: &mut String) {
    out.push_str("\"Key\":");
    key_object(number, out);
}

fn key_object(number: u64, out: &mut String) {
    out.push('{');
    key_members(number, out);
    out.push('}');
}

fn key_members(number: u64, out: &mut String) {
    let _ = write!(out, "\"p\":{{\"S\":\"{number:016x}\"}},\"c\":{{\"S\":\"row\"}}");
}

/// What a write has behind its key, up to the value of the first attribute.
fn update(attributes: &[(String, String)], workload: Workload) -> String {
    let sets: Vec<String> =
        attributes.iter().enumerate().map(|(n, (name, _))| format!("{name} = :{n}")).collect();
    let mut out = format!(",\"UpdateExpression\":\"SET {}\",", sets.join(", "));
    if workload == Workload::WriteConditional {
        out.push_str("\"ConditionExpression\":\"attribute_not_exists(absent)\",");
    }
    out.push_str("\"ExpressionAttributeValues\":{");
    for (n, (_, value)) in attributes.iter().enumerate().skip(1) {
        let _ = write!(out, "\":{n}\":{value},");
    }
    out
}

/// The request that makes the table.
pub(super) fn create(workload: Workload) -> String {
    let (attribute, index) = match workload {
        Workload::WriteIndexed => (
            r#",{"AttributeName":"C0","AttributeType":"S"}"#,
            r#","GlobalSecondaryIndexes":[{"IndexName":"by_first","KeySchema":[
                {"AttributeName":"C0","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]"#,
        ),
        _ => ("", ""),
    };
    format!(
        r#"{{"TableName":"{TABLE}","BillingMode":"PAY_PER_REQUEST","KeySchema":[{{"AttributeName":
        "p","KeyType":"HASH"}},{{"AttributeName":"c","KeyType":"RANGE"}}],"AttributeDefinitions":[
        {{"AttributeName":"p","AttributeType":"S"}},{{"AttributeName":"c","AttributeType":"S"}}
        {attribute}]{index}}}"#
    )
}

/// A request that says nothing but the table.
pub(super) fn of_table() -> String {
    format!("{{\"TableName\":\"{TABLE}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::options;
    use serde_json::{Value, json};

    fn requests(line: &str) -> Requests {
        Requests::of(&options::<Options>(line).0)
    }

    /// The operation and the parameters of a request.
    fn next(line: &str, random: u64) -> (&'static str, Value) {
        let mut out = String::from("what was there");
        let (operation, body) = requests(line).next(random, &mut out);
        (operation, serde_json::from_str(body).expect("JSON"))
    }

    #[test]
    fn reads_name_items_that_are_there() {
        let (operation, body) = next("--partitions 10", 13);
        let key = json!({"p": {"S": "0000000000000003"}, "c": {"S": "row"}});
        assert_eq!((operation, body), ("GetItem", json!({"TableName": TABLE, "Key": key})));
        let (operation, body) = next("--workload batch_read --partitions 3", 2);
        let keys = body["RequestItems"][TABLE]["Keys"].as_array().expect("keys");
        let names: Vec<&str> = keys.iter().filter_map(|key| key["p"]["S"].as_str()).collect();
        assert_eq!(operation, "BatchGetItem");
        assert_eq!(names, ["0000000000000002", "0000000000000000", "0000000000000001"]);
        assert_eq!(requests("--workload batch_read --partitions 3").operations(), 3);
        let (operation, body) = next("--workload scan --scan-total-segments 4", 7);
        let segment = json!({"TableName": TABLE, "Segment": 3, "TotalSegments": 4});
        assert_eq!((operation, body), ("Scan", segment));
    }

    #[test]
    fn writes_set_what_populated_items_have() {
        let mut out = String::new();
        let (operation, body) = requests("--partitions 30").populate(25, &mut out);
        let body: Value = serde_json::from_str(body).expect("JSON");
        let puts = body["RequestItems"][TABLE].as_array().expect("puts");
        assert_eq!((operation, puts.len()), ("BatchWriteItem", 5));
        let item = puts[0]["PutRequest"]["Item"].as_object().expect("an item");
        for (workload, first) in [("write", 0), ("write_gsi", 8), ("write_rmw", 0)] {
            let (operation, body) = next(&format!("--workload {workload}"), 8);
            assert_eq!(operation, "UpdateItem");
            let values = body["ExpressionAttributeValues"].as_object().expect("values");
            assert_eq!(values.len() + 2, item.len(), "all but the keys");
            assert_eq!(values[":0"]["S"], json!(format!("{first:034}")));
            assert_eq!(values[":6"], item["M0"]);
            let sets = body["UpdateExpression"].as_str().map(|set| set.matches(" = :").count());
            assert_eq!(sets, Some(7));
            assert_eq!(body["ConditionExpression"].is_string(), workload == "write_rmw");
        }
    }

    #[test]
    fn transactions_put_whole_items_in_turn() {
        let mut out = String::new();
        let (_, body) = requests("--partitions 30").populate(29, &mut out);
        let body: Value = serde_json::from_str(body).expect("JSON");
        let item = body["RequestItems"][TABLE][0]["PutRequest"]["Item"].clone();
        let put = json!({"TableName": TABLE, "Item": item});
        let line = "--workload put --partitions 30";
        assert_eq!(next(line, 59), ("PutItem", put.clone()));
        assert_eq!((requests(line).is_in_turn(), requests(line).items()), (true, 1));
        let line = "--workload transact --partitions 30";
        let (operation, body) = next(line, 28);
        let parts = body["TransactItems"].as_array().expect("parts");
        let names: Vec<&str> =
            parts.iter().filter_map(|part| part["Put"]["Item"]["p"]["S"].as_str()).collect();
        let expected = ["1c", "1d", "00", "01"].map(|last| format!("00000000000000{last}"));
        assert_eq!((operation, names.len(), &parts[1]["Put"]), ("TransactWriteItems", 4, &put));
        assert_eq!(names, expected);
        assert_eq!((requests(line).is_in_turn(), requests(line).items()), (true, 4));
        assert!(!requests("--workload write").is_in_turn());
    }

    #[test]
    fn the_table_has_an_index_where_writes_are_of_one() {
        for (workload, names) in [(Workload::Write, 2), (Workload::WriteIndexed, 3)] {
            let body: Value = serde_json::from_str(&create(workload)).expect("JSON");
            assert_eq!(body["AttributeDefinitions"].as_array().map(Vec::len), Some(names));
            assert_eq!(body["GlobalSecondaryIndexes"].is_array(), names == 3);
        }
    }
}
