//! What is known of an import, or an export: as an item of a table of the nodes, and as the API
//! tells it. Pure.

use super::place::key_of_export;
use crate::error::{self, Error};
use crate::json::{Json, Object};
use crate::kept::Kind;
use crate::number::Number;
use crate::request::Request;
use crate::restored::seconds;
use crate::value::{Map, Value};
use model::{TableId, Uuid};

/// Characters of an ARN.
const ARN_CHARS: std::ops::RangeInclusive<usize> = 37..=1024;
/// Characters of what says where a list goes on, of which SDKs want so many at least.
const TOKEN_CHARS: usize = 112;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    Failed,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::InProgress => "IN_PROGRESS",
            Status::Completed => "COMPLETED",
            Status::Failed => "FAILED",
        }
    }

    fn by_name(name: &str) -> Option<Status> {
        let all = [Status::InProgress, Status::Completed, Status::Failed];
        all.into_iter().find(|status| status.name() == name)
    }
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Items that were read, good or bad.
    pub(super) processed: u64,
    /// Those that were written.
    pub(super) imported: u64,
    /// Those that could not be.
    pub(super) errors: u64,
    /// Bytes that an import has read, unpacked; of an export those of items, as they are stored.
    pub(super) bytes: u64,
}

/// Why something failed: a word for programs, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Failure {
        Failure { code: code.to_owned(), message: message.into() }
    }
}

/// An import, or an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) status: Status,
    /// When it was asked for, milliseconds, and of which node.
    pub(super) started: i64,
    pub(super) by: Uuid,
    /// When it was over, milliseconds.
    pub(super) ended: Option<i64>,
    pub(super) table: String,
    pub(super) table_id: TableId,
    /// What was asked for, as JSON in order of names, without the client's token.
    pub(super) asked: String,
    /// By which the client knows the request again.
    pub(super) token: Option<String>,
    pub(super) counts: Counts,
    pub(super) failure: Option<Failure>,
}

/// What a request asks for, so that the same is the same text: without its token.
pub(super) fn asked(body: &str) -> Result<String, Error> {
    let mut members: Vec<_> = Json::parse(body)?.members().collect();
    members.retain(|(name, _)| name != "ClientToken");
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    members.iter().for_each(|(name, json)| json.write_ordered(object.member(name)));
    object.close();
    Ok(out)
}

/// Between the name of a table and an id.
fn separator(kind: Kind) -> String {
    format!("/{}/", kind.name())
}

/// As names in requests begin with it.
fn title(kind: Kind) -> &'static str {
    if kind == Kind::Export { "Export" } else { "Import" }
}

/// The table and the id that the ARN of an import, or an export, says.
pub(super) fn parts_of_arn(kind: Kind, arn: &str) -> Result<(&str, &str), Error> {
    let is_long = ARN_CHARS.contains(&arn.chars().count());
    let rest = arn.strip_prefix("arn:").and_then(|rest| rest.split_once(":table/"));
    let parts = rest.and_then(|(_, rest)| rest.split_once(&separator(kind)));
    let parts = parts.filter(|(table, id)| is_long && !table.is_empty() && is_id(id));
    parts.ok_or_else(|| {
        let (shown, what) = (arn.chars().take(300).collect::<String>(), title(kind));
        Error::validation(format!("Invalid {what}Arn: '{shown}' is no ARN of an {}", kind.name()))
    })
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

pub(super) fn not_found(kind: Kind, arn: &str) -> Error {
    let shown: String = arn.chars().take(300).collect();
    let error = match kind {
        Kind::Export => error::Kind::ExportNotFound,
        _ => error::Kind::ImportNotFound,
    };
    Error::new(error, format!("{} not found: {shown}", title(kind)))
}

/// What says that a list goes on behind an id.
pub(super) fn next_token(id: &str) -> String {
    format!("{id:/>TOKEN_CHARS$}")
}

/// The id behind which a list goes on.
pub(super) fn start_of(token: &str) -> Result<&str, Error> {
    let id = token.trim_start_matches('/');
    match is_id(id) {
        true => Ok(id),
        false => Err(Error::validation("Invalid NextToken: it is none of a list")),
    }
}

impl Record {
    /// As an item, but for its key.
    pub(super) fn attributes(&self) -> Map {
        let text = |text: &str| Value::S(text.to_owned());
        let number = |number: u64| Value::N(Number::of(i64::try_from(number).unwrap_or(i64::MAX)));
        let Counts { processed, imported, errors, bytes } = self.counts;
        let mut all = Map::from([
            ("status".to_owned(), text(self.status.name())),
            ("started".to_owned(), Value::N(Number::of(self.started))),
            ("by".to_owned(), text(&self.by.to_string())),
            ("table".to_owned(), text(&self.table)),
            ("table_id".to_owned(), text(&self.table_id.to_string())),
            ("asked".to_owned(), text(&self.asked)),
            ("processed".to_owned(), number(processed)),
            ("imported".to_owned(), number(imported)),
            ("errors".to_owned(), number(errors)),
            ("bytes".to_owned(), number(bytes)),
        ]);
        let mut add = |name: &str, value: Option<Value>| {
            all.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("ended", self.ended.map(|ended| Value::N(Number::of(ended))));
        add("token", self.token.as_deref().map(text));
        add("failure_code", self.failure.as_ref().map(|failure| text(&failure.code)));
        add("failure", self.failure.as_ref().map(|failure| text(&failure.message)));
        all
    }

    /// Of an item and its range key; `None`: it is damaged.
    pub(super) fn of((kind, id): (Kind, &str), item: &Map) -> Option<Record> {
        let text = |name: &str| match item.get(name)? {
            Value::S(text) => Some(text.clone()),
            _ => None,
        };
        let number = |name: &str| match item.get(name)? {
            Value::N(number) => number.to_i64(),
            _ => None,
        };
        let unsigned = |name: &str| u64::try_from(number(name)?).ok();
        let failure = text("failure_code").zip(text("failure"));
        Some(Record {
            kind,
            id: id.to_owned(),
            status: Status::by_name(&text("status")?)?,
            started: number("started")?,
            by: Uuid::parse_str(&text("by")?).ok()?,
            ended: number("ended"),
            table: text("table")?,
            table_id: TableId::parse_str(&text("table_id")?).ok()?,
            asked: text("asked")?,
            token: text("token"),
            counts: Counts {
                processed: unsigned("processed")?,
                imported: unsigned("imported")?,
                errors: unsigned("errors")?,
                bytes: unsigned("bytes")?,
            },
            failure: failure.map(|(code, message)| Failure { code, message }),
        })
    }

    /// By which name it is known, given that of its table.
    pub(super) fn arn(&self, table_arn: &str) -> String {
        format!("{table_arn}{}{}", separator(self.kind), self.id)
    }

    /// Adds what both a summary and a description of an import have.
    fn write_common(&self, table_arn: &str, object: &mut Object<'_>) {
        object.string("ImportArn", &self.arn(table_arn));
        object.string("ImportStatus", self.status.name()).string("TableArn", table_arn);
        self.copy(&["S3BucketSource", "InputFormat"], object);
        object.json("StartTime", &seconds(self.started));
        if let Some(ended) = self.ended {
            object.json("EndTime", &seconds(ended));
        }
    }

    /// Adds what the client has asked for under these names.
    fn copy(&self, names: &[&str], object: &mut Object<'_>) {
        let told = Json::parse(&self.asked);
        let Ok(told) = told.and_then(|json| Request::of(json, "what was asked")) else { return };
        for name in names {
            if let Some(json) = told.get(name) {
                object.json(name, json.text());
            }
        }
    }

    /// Adds why it has failed, if it has.
    fn write_failure(&self, object: &mut Object<'_>) {
        if let Some(failure) = &self.failure {
            object.string("FailureCode", &failure.code);
            object.string("FailureMessage", &failure.message);
        }
    }

    /// Appends its summary, as lists have it.
    pub(super) fn write_summary(&self, table_arn: &str, out: &mut String) {
        let mut object = Object::open(out);
        match self.kind {
            Kind::Export => {
                object.string("ExportArn", &self.arn(table_arn));
                object.string("ExportStatus", self.status.name());
                object.string("ExportType", "FULL_EXPORT");
            }
            _ => self.write_common(table_arn, &mut object),
        }
        object.close();
    }

    /// Appends its `ImportTableDescription`, or `ExportDescription`.
    pub(super) fn write_description(&self, table_arn: &str, out: &mut String) {
        let mut object = Object::open(out);
        match self.kind {
            Kind::Export => self.write_export(table_arn, &mut object),
            _ => self.write_import(table_arn, &mut object),
        }
        self.write_failure(&mut object);
        object.close();
    }

    fn write_export(&self, table_arn: &str, object: &mut Object<'_>) {
        object.string("ExportArn", &self.arn(table_arn));
        object.string("ExportStatus", self.status.name());
        object.json("StartTime", &seconds(self.started));
        if let Some(ended) = self.ended {
            object.json("EndTime", &seconds(ended));
        }
        if self.status == Status::Completed {
            object.string("ExportManifest", &self.manifest());
            object.json("ItemCount", &self.counts.processed.to_string());
            object.json("BilledSizeBytes", &self.counts.bytes.to_string());
        }
        object.string("TableArn", table_arn).string("TableId", &self.table_id.to_string());
        object.json("ExportTime", &seconds(self.started));
        if let Some(token) = &self.token {
            object.string("ClientToken", token);
        }
        self.copy(&["S3Bucket", "S3Prefix"], object);
        object.string("ExportFormat", "DYNAMODB_JSON").string("ExportType", "FULL_EXPORT");
    }

    /// The key of the summary of an export.
    fn manifest(&self) -> String {
        let told = Json::parse(&self.asked).ok();
        let prefix = told.and_then(|told| told.member("S3Prefix")?.string());
        let prefix = prefix.as_deref().filter(|prefix| !prefix.is_empty());
        format!("{}/manifest-summary.json", key_of_export(prefix, &self.id))
    }

    fn write_import(&self, table_arn: &str, object: &mut Object<'_>) {
        self.write_common(table_arn, object);
        object.string("TableId", &self.table_id.to_string());
        if let Some(token) = &self.token {
            object.string("ClientToken", token);
        }
        let names = ["InputFormatOptions", "InputCompressionType", "TableCreationParameters"];
        self.copy(&names, object);
        let Counts { processed, imported, errors, bytes } = self.counts;
        object.json("ProcessedItemCount", &processed.to_string());
        object.json("ImportedItemCount", &imported.to_string());
        object.json("ErrorCount", &errors.to_string());
        object.json("ProcessedSizeBytes", &bytes.to_string());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::transfers) fn record(id: &str, status: Status) -> Record {
        Record {
            kind: Kind::Import,
            id: id.to_owned(),
            status,
            started: 1500,
            by: Uuid::from_u128(9),
            ended: Some(2500),
            table: "t".to_owned(),
            table_id: TableId::from_u128(7),
            asked: "{\"InputFormat\":\"CSV\",\"S3BucketSource\":{\"S3Bucket\":\"b\"}}".to_owned(),
            token: Some("again".to_owned()),
            counts: Counts { processed: 5, imported: 3, errors: 2, bytes: 99 },
            failure: Some(Failure::new("Word", "a sentence")),
        }
    }

    #[test]
    fn a_record_is_read_back_from_its_item() {
        let known = record("1-a", Status::Failed);
        let item = known.attributes();
        assert_eq!(Record::of((Kind::Import, "1-a"), &item), Some(known.clone()));
        let less = Record { ended: None, token: None, failure: None, ..known };
        assert_eq!(Record::of((Kind::Import, "1-a"), &less.attributes()), Some(less));
        for name in item.keys() {
            let mut damaged = item.clone();
            damaged.insert(name.clone(), Value::Null);
            let is_needed = !["ended", "token", "failure", "failure_code"].contains(&&**name);
            assert_eq!(Record::of((Kind::Import, "1-a"), &damaged).is_none(), is_needed, "{name}");
        }
    }

    #[test]
    fn an_import_is_found_by_its_arn_and_told() {
        let known = record("017-ab", Status::Failed);
        let mut out = String::new();
        let table = "arn:aws:dynamodb:datacenter1:000000000000:table/t";
        known.write_description(table, &mut out);
        let json = Json::parse(&out).expect("JSON");
        let told = |name: &str| json.member(name).expect(name).text().to_owned();
        let arn = json.member("ImportArn").and_then(|arn| arn.string()).expect("an ARN");
        assert_eq!(parts_of_arn(Kind::Import, &arn).unwrap(), ("t", "017-ab"));
        assert_eq!((told("ErrorCount"), told("EndTime")), ("2".into(), "2.500".into()));
        assert_eq!(told("S3BucketSource"), "{\"S3Bucket\":\"b\"}");
        assert_eq!(told("FailureMessage"), "\"a sentence\"");
        for wrong in ["", table, &format!("{table}/import/../x"), &format!("{table}/backup/017")] {
            let found = parts_of_arn(Kind::Import, wrong);
            assert_eq!(found.unwrap_err().kind, error::Kind::Validation, "{wrong}");
        }
        assert!(parts_of_arn(Kind::Export, &arn).is_err());
    }

    #[test]
    fn an_export_is_found_by_its_arn_and_told() {
        let asked = "{\"S3Bucket\":\"b\",\"S3Prefix\":\"x\"}".to_owned();
        let known = record("017-ab", Status::Completed);
        let known = Record { kind: Kind::Export, asked, failure: None, ..known };
        let mut out = String::new();
        let table = "arn:aws:dynamodb:datacenter1:000000000000:table/t";
        known.write_description(table, &mut out);
        let json = Json::parse(&out).expect("JSON");
        let told = |name: &str| json.member(name).expect(name).text().to_owned();
        let arn = json.member("ExportArn").and_then(|arn| arn.string()).expect("an ARN");
        assert_eq!(parts_of_arn(Kind::Export, &arn).unwrap(), ("t", "017-ab"));
        assert_eq!((told("ItemCount"), told("BilledSizeBytes")), ("5".into(), "99".into()));
        assert_eq!((told("S3Prefix"), told("ExportTime")), ("\"x\"".into(), "1.500".into()));
        assert_eq!(told("ExportManifest"), "\"x/AWSDynamoDB/017-ab/manifest-summary.json\"");
    }

    #[test]
    fn a_list_goes_on_where_it_ended() {
        let token = next_token("01700000000000-0000ab12");
        assert_eq!(token.len(), TOKEN_CHARS);
        assert_eq!(start_of(&token).unwrap(), "01700000000000-0000ab12");
        assert!(start_of("").is_err() && start_of("../x").is_err());
    }

    #[test]
    fn the_same_request_is_the_same_text() {
        let a = asked(r#"{"b":{"y":1,"x":2},"ClientToken":"t","a":"c"}"#).unwrap();
        assert_eq!(a, asked(r#"{ "a":"c", "b":{"x":2,"y":1}, "ClientToken":"u" }"#).unwrap());
        assert_ne!(a, asked(r#"{"b":{"y":1,"x":3},"a":"c"}"#).unwrap());
        assert!(asked("{").is_err());
    }
}
