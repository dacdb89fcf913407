//! What is known of a backup: as an item of a table of the nodes, and as the API tells it. Pure.
//!
//! Invariants
//!  - *times-are-order*: ids ascend with the times at which backups were asked for.

use crate::error::{Error, Kind};
use crate::json::{Json, Object, write_list};
use crate::kept::Kind as KeptAs;
use crate::number::Number;
use crate::recovery::Base;
use crate::request::Request;
use crate::restored::seconds;
use crate::table::KEYSPACE_PREFIX;
use crate::value::{Map, Value};
use model::{TableId, Uuid};
use replication::backups::{BACKUP_PREFIX, SnapshotPlace, SnapshotTag};

/// Between the name of a table and the id of a backup of it.
const BACKUP: &str = "/backup/";
/// Characters of a backup's name, and of its ARN.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=255;
const ARN_CHARS: std::ops::RangeInclusive<usize> = 37..=1024;

/// How far a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nodes are taking their parts.
    Creating,
    Available,
    /// Nodes are removing their parts; nobody is told of it any more.
    Deleting,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Creating => "CREATING",
            Status::Available => "AVAILABLE",
            Status::Deleting => "DELETED",
        }
    }

    fn by_name(name: &str) -> Option<Status> {
        let all = [Status::Creating, Status::Available, Status::Deleting];
        all.into_iter().find(|status| status.name() == name)
    }
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// That somebody has asked for, or a base.
    pub(crate) kind: KeptAs,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: Status,
    /// When it was asked for, milliseconds, and of which node.
    pub(crate) created: i64,
    pub(crate) by: Uuid,
    /// When all parts were taken.
    pub(crate) taken: Option<i64>,
    pub(crate) table: String,
    pub(crate) table_id: TableId,
    /// What DescribeTable told of the table then, as JSON.
    pub(crate) description: String,
    /// The attribute that said when items expire.
    pub(crate) ttl: Option<String>,
    /// Of one copy of all items, about.
    pub(crate) bytes: u64,
    /// Copies of each item, in the data centre that has the fewest.
    pub(crate) copies: u32,
    /// How many nodes may have had items.
    pub(crate) asked: u32,
    /// Those of them that have a part.
    pub(crate) nodes: Vec<Uuid>,
}

/// An id that no other backup has. (*times-are-order*)
pub(crate) fn new_id(millis: i64, random: u64) -> String {
    format!("{millis:014}-{:08x}", random as u32)
}

/// Refuses what no backup may be called.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let (least, most) = (NAME_CHARS.start(), NAME_CHARS.end());
    let why = match name.chars().count() {
        short if short < *least => format!("length greater than or equal to {least}"),
        long if *most < long => format!("length less than or equal to {most}"),
        _ if !name.bytes().all(is_part) => {
            return Err(Error::validation(format!(
                "1 validation error detected: Value '{name}' at 'backupName' failed to satisfy \
                 constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
            )));
        }
        _ => return Ok(()),
    };
    let shown: String = name.chars().take(300).collect();
    Err(Error::validation(format!(
        "1 validation error detected: Value '{shown}' at 'backupName' failed to satisfy \
         constraint: Member must have {why}"
    )))
}

/// The table and the id that a backup's ARN says.
pub(crate) fn parts_of_arn(arn: &str) -> Result<(&str, &str), Error> {
    let is_long = ARN_CHARS.contains(&arn.chars().count());
    let rest = arn.strip_prefix("arn:").and_then(|rest| rest.split_once(":table/"));
    let parts = rest.and_then(|(_, rest)| rest.split_once(BACKUP)).filter(|_| is_long);
    let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    parts.filter(|(table, id)| !table.is_empty() && !id.is_empty() && is_id(id)).ok_or_else(|| {
        let shown: String = arn.chars().take(300).collect();
        Error::validation(format!("Invalid BackupArn: '{shown}' is no ARN of a backup"))
    })
}

pub(crate) fn not_found(arn: &str) -> Error {
    let shown: String = arn.chars().take(300).collect();
    Error::new(Kind::BackupNotFound, format!("Backup not found: {shown}"))
}

impl Record {
    /// The keyspace that its table was in.
    pub(crate) fn keyspace(&self) -> String {
        format!("{KEYSPACE_PREFIX}{}", self.table)
    }

    /// Where nodes have their parts.
    pub(crate) fn place(&self) -> Result<SnapshotPlace, Error> {
        let (keyspace, table) = (self.keyspace(), self.table.clone());
        Ok(SnapshotPlace { keyspace, table, table_id: self.table_id, tag: self.tag()? })
    }

    /// What they are called.
    pub(crate) fn tag(&self) -> Result<SnapshotTag, Error> {
        SnapshotTag::new(&format!("{BACKUP_PREFIX}{}", self.id)).map_err(Error::internal)
    }

    /// As a base, where it is one that is complete.
    pub(crate) fn base(&self) -> Option<Base> {
        let is_whole = self.kind == KeptAs::Base && self.status == Status::Available;
        let taken = self.taken.filter(|_| is_whole)?;
        // A clock may go back.
        Some(Base { begun: self.created, taken: taken.max(self.created) })
    }

    /// As an item, but for its key.
    pub(crate) fn attributes(&self) -> Map {
        let text = |text: &str| Value::S(text.to_owned());
        let number = |number: u64| Value::N(Number::of(i64::try_from(number).unwrap_or(i64::MAX)));
        let nodes = self.nodes.iter().map(|node| Value::S(node.to_string())).collect();
        let mut all = Map::from([
            ("name".to_owned(), text(&self.name)),
            ("status".to_owned(), text(self.status.name())),
            ("created".to_owned(), Value::N(Number::of(self.created))),
            ("by".to_owned(), text(&self.by.to_string())),
            ("table".to_owned(), text(&self.table)),
            ("table_id".to_owned(), text(&self.table_id.to_string())),
            ("description".to_owned(), text(&self.description)),
            ("bytes".to_owned(), number(self.bytes)),
            ("copies".to_owned(), number(self.copies.into())),
            ("asked".to_owned(), number(self.asked.into())),
            ("nodes".to_owned(), Value::L(nodes)),
        ]);
        all.extend(self.ttl.as_deref().map(|ttl| ("ttl".to_owned(), text(ttl))));
        let taken = self.taken.map(|taken| Value::N(Number::of(taken)));
        all.extend(taken.map(|taken| ("taken".to_owned(), taken)));
        all
    }

    /// Of an item and its range key; `None`: it is damaged.
    pub(crate) fn of((kind, id): (KeptAs, &str), item: &Map) -> Option<Record> {
        let text = |name: &str| match item.get(name)? {
            Value::S(text) => Some(text.clone()),
            _ => None,
        };
        let number = |name: &str| match item.get(name)? {
            Value::N(number) => number.to_i64(),
            _ => None,
        };
        let unsigned = |name: &str| u64::try_from(number(name)?).ok();
        let node = |value: &Value| match value {
            Value::S(text) => Uuid::parse_str(text).ok(),
            _ => None,
        };
        let Some(Value::L(nodes)) = item.get("nodes") else { return None };
        Some(Record {
            kind,
            id: id.to_owned(),
            name: text("name")?,
            status: Status::by_name(&text("status")?)?,
            created: number("created")?,
            by: Uuid::parse_str(&text("by")?).ok()?,
            taken: number("taken"),
            table: text("table")?,
            table_id: TableId::parse_str(&text("table_id")?).ok()?,
            description: text("description")?,
            ttl: text("ttl"),
            bytes: unsigned("bytes")?,
            copies: u32::try_from(unsigned("copies")?).ok()?,
            asked: u32::try_from(unsigned("asked")?).ok()?,
            nodes: nodes.iter().map(node).collect::<Option<_>>()?,
        })
    }

    /// By which name it is known, given that of its table.
    pub(crate) fn arn(&self, table_arn: &str) -> String {
        format!("{table_arn}{BACKUP}{}", self.id)
    }

    /// Adds its `BackupDetails`, of the status.
    pub(crate) fn write_details(&self, table_arn: &str, status: Status, object: &mut Object<'_>) {
        let mut part = Object::open(object.member("BackupDetails"));
        part.string("BackupArn", &self.arn(table_arn)).string("BackupName", &self.name);
        part.json("BackupSizeBytes", &self.bytes.to_string());
        part.string("BackupStatus", status.name()).string("BackupType", "USER");
        part.json("BackupCreationDateTime", &seconds(self.created));
        part.close();
    }

    /// Appends its summary, as lists have it.
    pub(crate) fn write_summary(&self, table_arn: &str, out: &mut String) {
        let mut part = Object::open(out);
        part.string("TableName", &self.table).string("TableId", &self.table_id.to_string());
        part.string("TableArn", table_arn).string("BackupArn", &self.arn(table_arn));
        part.string("BackupName", &self.name);
        part.json("BackupCreationDateTime", &seconds(self.created));
        part.string("BackupStatus", self.status.name()).string("BackupType", "USER");
        part.json("BackupSizeBytes", &self.bytes.to_string());
        part.close();
    }

    /// Appends its `BackupDescription`.
    pub(crate) fn write_description(&self, table_arn: &str, status: Status, out: &mut String) {
        let mut object = Object::open(out);
        self.write_details(table_arn, status, &mut object);
        let told = Json::parse(&self.description);
        let told = told.and_then(|json| Request::of(json, "a description"));
        let Ok(told) = told else { return object.close() };
        let mut part = Object::open(object.member("SourceTableDetails"));
        for name in ["TableName", "TableId", "TableArn", "KeySchema", "ProvisionedThroughput"] {
            copy(&told, (name, name), &mut part);
        }
        for name in ["TableSizeBytes", "ItemCount"] {
            copy(&told, (name, name), &mut part);
        }
        copy(&told, ("CreationDateTime", "TableCreationDateTime"), &mut part);
        let is_provisioned = told.get("BillingModeSummary").is_none();
        let mode = if is_provisioned { "PROVISIONED" } else { "PAY_PER_REQUEST" };
        part.string("BillingMode", mode);
        part.close();
        let mut part = Object::open(object.member("SourceTableFeatureDetails"));
        for list in ["LocalSecondaryIndexes", "GlobalSecondaryIndexes"] {
            if let Some(all) = told.get(list) {
                write_list(all.elements(), part.member(list), write_index);
            }
        }
        copy(&told, ("StreamSpecification", "StreamDescription"), &mut part);
        if let Some(ttl) = &self.ttl {
            let mut described = Object::open(part.member("TimeToLiveDescription"));
            described.string("TimeToLiveStatus", "ENABLED").string("AttributeName", ttl);
            described.close();
        }
        part.close();
        object.close();
    }
}

/// Adds what has a name under another one.
fn copy(from: &Request<'_>, (name, to): (&str, &str), object: &mut Object<'_>) {
    if let Some(json) = from.get(name) {
        object.json(to, json.text());
    }
}

/// Appends what a backup tells of an index, of its description.
fn write_index(index: Json<'_>, out: &mut String) {
    let mut part = Object::open(out);
    for name in ["IndexName", "KeySchema", "Projection", "ProvisionedThroughput"] {
        if let Some(json) = index.member(name) {
            part.json(name, json.text());
        }
    }
    part.close();
}

/// Which backups a list has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    pub(crate) table: Option<String>,
    /// Milliseconds: from the first one on, up to the second one, which is not in it.
    pub(crate) from: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Filter {
    pub(crate) fn admits(&self, record: &Record) -> bool {
        record.status != Status::Deleting
            && self.table.as_ref().is_none_or(|table| *table == record.table)
            && self.from.is_none_or(|from| from <= record.created)
            && self.until.is_none_or(|until| record.created < until)
    }
}

/// A time of a request, in milliseconds.
pub(crate) fn time_of(request: &Request<'_>, name: &str) -> Result<Option<i64>, Error> {
    let Some(json) = request.get(name) else { return Ok(None) };
    let secs: Option<f64> = json.text().parse().ok().filter(|secs: &f64| secs.is_finite());
    let secs = secs.ok_or_else(|| {
        Error::serialization(format!("{name} is {}, not a time", json.kind().name()))
    })?;
    Ok(Some((secs * 1000.0).round() as i64))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(id: &str, table: &str, created: i64, status: Status) -> Record {
        Record {
            kind: KeptAs::Backup,
            id: id.to_owned(),
            name: "monday".to_owned(),
            status,
            created,
            by: Uuid::from_u128(9),
            taken: Some(created + 1),
            table: table.to_owned(),
            table_id: TableId::from_u128(7),
            description: "{\"TableName\":\"t\",\"KeySchema\":[],\"ItemCount\":3,\
                          \"StreamSpecification\":{\"StreamEnabled\":true},\
                          \"GlobalSecondaryIndexes\":[{\"IndexName\":\"i\",\"ItemCount\":9}]}"
                .to_owned(),
            ttl: Some("e".to_owned()),
            bytes: 100,
            copies: 3,
            asked: 2,
            nodes: vec![Uuid::from_u128(1), Uuid::from_u128(2)],
        }
    }

    #[test]
    fn a_record_is_read_back_from_its_item() {
        let known = record("1-a", "t", 5, Status::Available);
        let mut item = known.attributes();
        let of = |item: &Map| Record::of((KeptAs::Backup, "1-a"), item);
        assert_eq!(of(&item), Some(known.clone()));
        let without = Record { ttl: None, taken: None, nodes: Vec::new(), ..known };
        assert_eq!(of(&without.attributes()), Some(without));
        for name in item.keys().cloned().collect::<Vec<_>>() {
            let mut damaged = item.clone();
            damaged.insert(name.clone(), Value::Null);
            let is_needed = name != "ttl" && name != "taken";
            assert_eq!(of(&damaged).is_none(), is_needed, "{name}");
        }
        item.insert("status".to_owned(), Value::S("GOOD".to_owned()));
        assert_eq!(of(&item), None);
    }

    /// *times-are-order*
    #[test]
    fn ids_ascend_with_time_and_are_found_in_names() {
        let ids = [new_id(5, u64::MAX), new_id(1_700_000_000_000, 0), new_id(1_700_000_000_001, 7)];
        assert!(ids.is_sorted(), "{ids:?}");
        let known = record(&ids[1], "a.b-c", 5, Status::Available);
        let arn = known.arn("arn:aws:dynamodb:datacenter1:000000000000:table/a.b-c");
        assert_eq!(parts_of_arn(&arn).unwrap(), ("a.b-c", &*ids[1]));
        for wrong in ["", "x", "arn:aws:dynamodb:datacenter1:000000000000:table/a.b-c"] {
            assert_eq!(parts_of_arn(wrong).unwrap_err().kind, Kind::Validation, "{wrong}");
        }
        assert!(parts_of_arn(&arn.replace("/0170", "/../0")).is_err());
    }

    #[test]
    fn names_are_checked() {
        let check = |name: &str, words: Option<&str>| match (check_name(name), words) {
            (Ok(()), None) => {}
            (Err(error), Some(words)) => assert!(error.message.contains(words), "{error}"),
            (found, _) => panic!("{name}: {found:?}"),
        };
        check("abc", None);
        check(&"x".repeat(255), None);
        check("ab", Some("greater than or equal to 3"));
        check(&"x".repeat(256), Some("less than or equal to 255"));
        check("a/b", Some("pattern"));
        check("\u{e4}\u{20ac}b", Some("pattern"));
    }

    #[test]
    fn a_list_has_what_fits() {
        let all = [
            record("1", "a", 1000, Status::Available),
            record("2", "b", 2000, Status::Creating),
            record("3", "a", 3000, Status::Deleting),
            record("4", "a", 4000, Status::Available),
        ];
        let check = |filter: Filter, expected: &str| {
            let ids: Vec<&str> =
                all.iter().filter(|it| filter.admits(it)).map(|it| it.id.as_str()).collect();
            assert_eq!(ids.join(" "), expected, "{filter:?}");
        };
        let any = Filter::default;
        check(any(), "1 2 4");
        check(Filter { table: Some("a".into()), ..any() }, "1 4");
        check(Filter { from: Some(2000), ..any() }, "2 4");
        check(Filter { until: Some(4000), ..any() }, "1 2");
        check(Filter { from: Some(1001), until: Some(4000), table: Some("a".into()) }, "");
    }

    #[test]
    fn a_description_tells_of_the_table_as_it_was() {
        let mut out = String::new();
        record("1", "t", 1500, Status::Available).write_description(
            "arn:t",
            Status::Available,
            &mut out,
        );
        let json = Json::parse(&out).expect("JSON");
        let details = json.member("BackupDetails").expect("details");
        assert_eq!(details.member("BackupCreationDateTime").expect("a time").text(), "1.500");
        let source = json.member("SourceTableDetails").expect("a source");
        assert_eq!(source.member("BillingMode").expect("a mode").text(), "\"PROVISIONED\"");
        assert_eq!(source.member("ItemCount").expect("a count").text(), "3");
        let features = json.member("SourceTableFeatureDetails").expect("features");
        let indexes = features.member("GlobalSecondaryIndexes").expect("indexes");
        assert_eq!(indexes.text(), "[{\"IndexName\":\"i\"}]");
        assert!(features.member("LocalSecondaryIndexes").is_none());
        assert!(features.text().contains("\"AttributeName\":\"e\""));
    }
}
