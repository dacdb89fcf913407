//! Items of a table become files.
//!
//! ```text
//! <prefix>/AWSDynamoDB/<id>/_started                  empty, before anything else
//!                          /data/0001-<random>.json.gz  a line for each item, as imports read it
//!                          /manifest-files.json         a line for each of these
//!                          /manifest-files.md5          its MD5, in base64
//!                          /manifest-summary.json       what was exported
//!                          /manifest-summary.md5        the last: the export is complete
//! ```
//!
//! Invariants
//!  - *bounded* (`transfers`): a page of items, and what it is packed to, are in memory.
//!  - *last-is-whole*: a summary is there when all that it tells of is on the disk.

use super::fill::{Stopped, now, table_of};
use super::record::{Counts, Failure, Record};
use super::records;
use crate::date::iso;
use crate::error::Error;
use crate::json::Object;
use crate::node::Node;
use crate::row::{Row, command};
use crate::table::Table;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest, Md5};
use model::Token;
use mutation::page::{Page, PageView, Partitions, ReadCommand, RingBound, SendRange};
use runtime::io::{AlignedBuf, File, IoClass, IoError, OpenOptions, fs};
use runtime::task::yield_if_needed;
use runtime::time::Instant;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a file, packed, after which another one begins.
const FILE_BYTES: u64 = 64 << 20;
/// How often it is written down how far an export is.
const NOTE_PERIOD: Duration = Duration::from_secs(5);

/// Where an export goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The folder of the export, which is there.
    pub(super) folder: PathBuf,
    pub(super) bucket: String,
    pub(super) prefix: Option<String>,
    /// The key of that folder.
    pub(super) key: String,
    /// The ARNs of the table and the export.
    pub(super) table_arn: String,
    pub(super) arn: String,
}

impl From<IoError> for Stopped {
    fn from(error: IoError) -> Stopped {
        tracing::warn!(target: "transfers", "an export cannot be written: {error}");
        Stopped::Failed(Failure::new("FileError", "the files of the export cannot be written"))
    }
}

/// A file that is being written.
struct Data {
    name: String,
    file: File,
    packing: GzEncoder<Vec<u8>>,
    sum: Md5,
    bytes: u64,
    items: u64,
}

impl Data {
    async fn begin(target: &Target, number: usize) -> Result<Data, Stopped> {
        let name = format!("data/{number:04}-{:016x}.json.gz", runtime::random_u64());
        let options = OpenOptions::create_new().buffered();
        let file = File::open(target.folder.join(&name), options).await?;
        let packing = GzEncoder::new(Vec::new(), Compression::fast());
        Ok(Data { name, file, packing, sum: Md5::new(), bytes: 0, items: 0 })
    }

    /// Writes what was packed.
    async fn write(&mut self, packed: Vec<u8>) -> Result<(), IoError> {
        self.sum.update(&packed);
        self.file.write_at(IoClass::Streaming, self.bytes, AlignedBuf::copy_from(&packed)).await?;
        self.bytes += packed.len() as u64;
        Ok(())
    }

    /// Ends it: its line of the manifest.
    async fn end(mut self, target: &Target) -> Result<String, Stopped> {
        let unpackable = |error: std::io::Error| Error::internal(error.to_string());
        self.packing.try_finish().map_err(unpackable)?;
        let packed = std::mem::take(self.packing.get_mut());
        self.write(packed).await?;
        self.file.fdatasync(IoClass::Streaming).await?;
        self.file.close().await?;
        let (sum, mut out) = (self.sum.finalize(), String::new());
        let mut object = Object::open(&mut out);
        object.json("itemCount", &self.items.to_string());
        object.string("md5Checksum", &STANDARD.encode(sum));
        let digits: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        object.string("etag", &format!("{digits}-1"));
        object.string("dataFileS3Key", &format!("{}/{}", target.key, self.name));
        object.close();
        out.push('\n');
        Ok(out)
    }
}

/// Writes all items of the table of an export, and counts them.
pub(super) async fn dump(node: &Node, record: &mut Record, target: &Target) -> Result<(), Stopped> {
    let (mut data, mut lines, mut files) = (None, String::new(), 0);
    let mut noted = Instant::now();
    let mut command = whole(&table_of(node, record)?);
    loop {
        let table = table_of(node, record)?;
        let page = node.read_patiently(&table, &command).await?;
        let mut into = match data.take() {
            Some(data) => data,
            None => {
                files += 1;
                Data::begin(target, files).await?
            }
        };
        take((&table, &command), &page, (&mut into, &mut record.counts)).await?;
        let packed = std::mem::take(into.packing.get_mut());
        into.write(packed).await?;
        runtime::injection::pause("alternator_export_step").await;
        let is_last = page.resume.is_none();
        match is_last || FILE_BYTES <= into.bytes {
            true => lines += &into.end(target).await?,
            false => data = Some(into),
        }
        if is_last {
            break;
        }
        command.resume = page.resume;
        if NOTE_PERIOD <= noted.elapsed() {
            noted = Instant::now();
            if !records::note(node, record).await.unwrap_or(true) {
                return Err(Stopped::Ended);
            }
        }
    }
    conclude(record, target, &lines).await
}

/// A read of all that a table has, from its beginning.
fn whole(table: &Table) -> ReadCommand {
    let bound = |token, after| RingBound { token, key: None, after };
    let partitions =
        Partitions::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) };
    command(table, partitions, vec![SendRange::full()])
}

/// Packs the items of a page.
async fn take(
    (table, command): (&Table, &ReadCommand),
    page: &Page,
    (data, counts): (&mut Data, &mut Counts),
) -> Result<(), Error> {
    let view = PageView::trusted(&page.bytes, command.layout());
    let mut line = String::new();
    for partition in view.partitions() {
        for row in partition.rows() {
            let row = Row::new(table, &partition, &row);
            line.clear();
            line.push_str("{\"Item\":");
            row.write(&mut line)?;
            line.push_str("}\n");
            let packed = data.packing.write_all(line.as_bytes());
            packed.map_err(|error| Error::internal(error.to_string()))?;
            data.items += 1;
            counts.processed += 1;
            counts.bytes += row.size() as u64;
            yield_if_needed().await;
        }
    }
    Ok(())
}

/// Writes the manifests. (*last-is-whole*)
async fn conclude(record: &Record, target: &Target, lines: &str) -> Result<(), Stopped> {
    fs::sync_dir(target.folder.join("data")).await?;
    let mut summary = String::new();
    let mut object = Object::open(&mut summary);
    object.string("version", "2020-06-30").string("exportArn", &target.arn);
    let time = |millis| format!("{}Z", iso(millis));
    object.string("startTime", &time(record.started)).string("endTime", &time(now()));
    object.string("tableArn", &target.table_arn);
    object.string("tableId", &record.table_id.to_string());
    object.string("exportTime", &time(record.started)).string("s3Bucket", &target.bucket);
    match &target.prefix {
        Some(prefix) => object.string("s3Prefix", prefix),
        None => object.json("s3Prefix", "null"),
    };
    object.json("s3SseAlgorithm", "null").json("s3SseKmsKeyId", "null");
    object.string("manifestFilesS3Key", &format!("{}/manifest-files.json", target.key));
    object.json("billedSizeBytes", &record.counts.bytes.to_string());
    object.json("itemCount", &record.counts.processed.to_string());
    object.string("outputFormat", "DYNAMODB_JSON").string("exportType", "FULL_EXPORT");
    object.close();
    for (name, text) in [("manifest-files", lines), ("manifest-summary", &summary)] {
        let file = |end: &str| target.folder.join(format!("{name}.{end}"));
        fs::write_file_atomic(file("json"), text.as_bytes()).await?;
        let sum = STANDARD.encode(Md5::digest(text.as_bytes()));
        fs::write_file_atomic(file("md5"), sum.as_bytes()).await?;
    }
    Ok(())
}
