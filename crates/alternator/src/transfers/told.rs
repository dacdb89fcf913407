//! What clients are told of imports and exports: of one, and of a page of all.

use super::record::{Record, Status, next_token, not_found, parts_of_arn, start_of};
use super::records;
use crate::error::Error;
use crate::json::{Object, write_list};
use crate::kept::Kind;
use crate::node::Node;
use crate::request::Request;
use crate::restored;
use crate::table::name_of;
use crate::table_facts::arn_of;

/// How many are listed at once.
const LISTED_MAX: i64 = 25;

/// What requests and answers call things, of a kind.
struct Words {
    arn: &'static str,
    description: &'static str,
    list: &'static str,
    /// How many a page has at most.
    size: &'static str,
}

impl Words {
    fn of(kind: Kind) -> Words {
        match kind {
            Kind::Export => Words {
                arn: "ExportArn",
                description: "ExportDescription",
                list: "ExportSummaries",
                size: "MaxResults",
            },
            _ => Words {
                arn: "ImportArn",
                description: "ImportTableDescription",
                list: "ImportSummaryList",
                size: "PageSize",
            },
        }
    }
}

/// The answer that describes one.
pub(super) fn described(node: &Node, record: &Record) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let (table, told) = (arn_of(node, &record.table), shown(node, record));
    told.write_description(&table, object.member(Words::of(record.kind).description));
    object.close();
    out
}

/// A record as it is told: an import is over when its table may be used, or says that it never
/// will be.
fn shown(node: &Node, record: &Record) -> Record {
    let schema = node.schema();
    let entry = schema.table_by_id(record.table_id);
    let waits = entry.is_some_and(|entry| restored::import_under_way(&entry.schema).is_some());
    match waits {
        true => {
            let status = Status::InProgress;
            Record { status, ended: None, failure: None, ..record.clone() }
        }
        false => record.clone(),
    }
}

/// `DescribeImport`, `DescribeExport`
pub(crate) async fn describe(node: &Node, kind: Kind, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let given = request.need_string(Words::of(kind).arn)?;
    let (table, id) = parts_of_arn(kind, &given)?;
    let record = records::find(node, (kind, id)).await?.filter(|record| record.table == table);
    record.map(|record| described(node, &record)).ok_or_else(|| not_found(kind, &given))
}

/// `ListImports`, `ListExports`
pub(crate) async fn list(node: &Node, kind: Kind, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let Words { list, size, .. } = Words::of(kind);
    let table = request.string("TableArn")?.map(|given| name_of(&given).to_owned());
    let most = request.integer(size)?.unwrap_or(LISTED_MAX);
    if !(1..=LISTED_MAX).contains(&most) {
        return Err(Error::validation(format!(
            "1 validation error detected: Value '{most}' at '{size}' failed to satisfy \
             constraint: Member must be between 1 and {LISTED_MAX}"
        )));
    }
    let token = request.string("NextToken")?;
    let start = token.as_deref().map(start_of).transpose()?;
    let is_of = |record: &Record| table.as_ref().is_none_or(|table| *table == record.table);
    let (records, more) = records::list(node, (kind, start), most as usize, is_of).await?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&records, object.member(list), |record, out| {
        shown(node, record).write_summary(&arn_of(node, &record.table), out);
    });
    if let (true, Some(last)) = (more, records.last()) {
        object.string("NextToken", &next_token(&last.id));
    }
    object.close();
    Ok(out)
}
