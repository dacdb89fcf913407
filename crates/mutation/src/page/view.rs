//! Reading a page in place. Nothing here allocates.

use super::{ColumnForm, Page};
use model::ColumnId;
use stdx::{Cursor, Damaged};

/// What the bytes of a page hold: the columns of the command.
#[derive(Clone, Copy, Debug)]
pub struct PageLayout<'c> {
    statics: &'c [(ColumnId, ColumnForm)],
    regulars: &'c [(ColumnId, ColumnForm)],
}

impl<'c> PageLayout<'c> {
    /// Of the columns of a command, the first `static_count` of which are static.
    pub fn new(columns: &'c [(ColumnId, ColumnForm)], static_count: usize) -> PageLayout<'c> {
        assert!(static_count <= columns.len(), "more static columns than columns");
        let (statics, regulars) = columns.split_at(static_count);
        PageLayout { statics, regulars }
    }
    /// The static columns.
    pub fn statics(&self) -> &'c [(ColumnId, ColumnForm)] {
        self.statics
    }
    /// The regular columns.
    pub fn regulars(&self) -> &'c [(ColumnId, ColumnForm)] {
        self.regulars
    }
}

/// The partitions of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    bytes: &'a [u8],
    layout: PageLayout<'a>,
}

impl<'a> PageView<'a> {
    /// Checks all of `bytes`: for pages of other nodes.
    pub fn parse(bytes: &'a [u8], layout: PageLayout<'a>) -> Result<PageView<'a>, Damaged> {
        let view = PageView { bytes, layout };
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let partition = read_partition(&mut cursor, layout)?;
            let base = offset_in(bytes, partition.rows);
            if let Some(columns) = partition.statics {
                let base = offset_in(bytes, columns.cursor.rest());
                check_columns(columns).map_err(|damage| damage.from_base(base))?;
            }
            let mut rows = Cursor::new(partition.rows);
            for _ in 0..partition.row_count {
                let row = read_row(&mut rows, layout.regulars);
                let row = row.map_err(|damage| damage.from_base(base))?;
                let base = offset_in(bytes, row.values);
                check_columns(row.columns()).map_err(|damage| damage.from_base(base))?;
            }
            if !rows.is_empty() {
                return Err(rows.damaged("bytes after the last row of a page").from_base(base));
            }
        }
        Ok(view)
    }

    /// For pages of this node. Damaged bytes give fewer rows, never a panic.
    pub fn trusted(bytes: &'a [u8], layout: PageLayout<'a>) -> PageView<'a> {
        PageView { bytes, layout }
    }

    /// In the order of the answer.
    pub fn partitions(&self) -> PagePartitions<'a> {
        PagePartitions { cursor: Cursor::new(self.bytes), layout: self.layout }
    }
}

fn offset_in(outer: &[u8], inner: &[u8]) -> u64 {
    (inner.as_ptr() as usize).saturating_sub(outer.as_ptr() as usize) as u64
}

fn check_columns(mut columns: PageColumns<'_>) -> Result<(), Damaged> {
    while let Some((_, form)) = columns.forms.split_off_first() {
        read_column(&mut columns.cursor, *form)?;
    }
    match columns.cursor.is_empty() {
        true => Ok(()),
        false => Err(columns.cursor.damaged("bytes after the last column of a row")),
    }
}

impl Page {
    /// Keeps the regular columns of the rows alone, one row after the other: where all of them are
    /// wanted as values, what a response frame has. Does nothing and says so if a partition has no
    /// rows.
    pub fn keep_values(&mut self, layout: PageLayout<'_>) -> bool {
        let view = PageView::trusted(&self.bytes, layout);
        if view.partitions().any(|partition| partition.row_count == 0) {
            return false;
        }
        let (mut at, mut end) = (0, 0);
        while at < self.bytes.len() {
            let mut cursor = Cursor::new(&self.bytes[at..]);
            let Ok(partition) = read_partition(&mut cursor, layout) else { break };
            let next = at + cursor.offset();
            at = next - partition.rows.len();
            for _ in 0..partition.row_count {
                let mut cursor = Cursor::new(&self.bytes[at..next]);
                let Ok(row) = read_row(&mut cursor, layout.regulars) else { break };
                let bytes = row.values.len();
                at += cursor.offset();
                self.bytes.copy_within(at - bytes..at, end);
                end += bytes;
            }
            at = next;
        }
        self.bytes.truncate(end);
        true
    }
}

/// Iterator of [`PageView::partitions`].
#[derive(Clone, Debug)]
pub struct PagePartitions<'a> {
    cursor: Cursor<'a>,
    layout: PageLayout<'a>,
}
impl PagePartitions<'_> {
    /// Where in the page the next one begins.
    pub fn offset(&self) -> usize {
        self.cursor.offset()
    }
}
impl<'a> Iterator for PagePartitions<'a> {
    type Item = PagePartition<'a>;
    fn next(&mut self) -> Option<PagePartition<'a>> {
        if self.cursor.is_empty() {
            return None;
        }
        read_partition(&mut self.cursor, self.layout).ok()
    }
}

/// The bytes before the rows of a partition: how many they are, and how many bytes.
pub const ROWS_HEADER_BYTES: usize = 8;

/// One partition of a page. No rows: it yields one row, of which only the static columns are not
/// null.
#[derive(Clone, Debug)]
pub struct PagePartition<'a> {
    key: &'a [u8],
    statics: Option<PageColumns<'a>>,
    row_count: u32,
    rows: &'a [u8],
    layout: PageLayout<'a>,
}

impl<'a> PagePartition<'a> {
    /// The partition key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }
    /// The static columns, in the order of the command; `None`: all are null.
    pub fn statics(&self) -> Option<PageColumns<'a>> {
        self.statics.clone()
    }
    /// The bytes of its rows, which end it. Before them are the [`ROWS_HEADER_BYTES`] with their
    /// number and length.
    pub fn rows_bytes(&self) -> &'a [u8] {
        self.rows
    }
    /// How many rows stand here.
    pub fn row_count(&self) -> usize {
        self.row_count as usize
    }
    /// In the order of the answer.
    pub fn rows(&self) -> PageRows<'a> {
        let cursor = Cursor::new(self.rows);
        PageRows { cursor, left: self.row_count, forms: self.layout.regulars }
    }
}

/// Iterator of [`PagePartition::rows`].
#[derive(Clone, Debug)]
pub struct PageRows<'a> {
    cursor: Cursor<'a>,
    left: u32,
    forms: &'a [(ColumnId, ColumnForm)],
}
impl PageRows<'_> {
    /// Where among the bytes of all rows the next one begins.
    pub fn offset(&self) -> usize {
        self.cursor.offset()
    }
}
impl<'a> Iterator for PageRows<'a> {
    type Item = PageRow<'a>;
    fn next(&mut self) -> Option<PageRow<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_row(&mut self.cursor, self.forms).ok()
    }
}

/// One row of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageRow<'a> {
    clustering: &'a [u8],
    values: &'a [u8],
    forms: &'a [(ColumnId, ColumnForm)],
}

impl<'a> PageRow<'a> {
    /// The clustering key, as a prefix of all its components.
    pub fn clustering(&self) -> &'a [u8] {
        self.clustering
    }
    /// The regular columns, in the order of the command.
    pub fn columns(&self) -> PageColumns<'a> {
        PageColumns { cursor: Cursor::new(self.values), forms: self.forms }
    }
    /// The bytes of all columns. If the command wants every one as [`ColumnForm::Value`], this is
    /// a sequence of the native protocol's `[bytes]`.
    pub fn values(&self) -> &'a [u8] {
        self.values
    }
}

/// Iterator over the columns of a row or of a static row.
#[derive(Clone, Debug)]
pub struct PageColumns<'a> {
    cursor: Cursor<'a>,
    forms: &'a [(ColumnId, ColumnForm)],
}
impl<'a> PageColumns<'a> {
    /// The first `count` columns as they stand, each its length and its value, as a response frame
    /// has them; `None` where there are fewer, or one has more than a value.
    pub fn values(&self, count: usize) -> Option<&'a [u8]> {
        let (forms, _) = self.forms.split_at_checked(count)?;
        let mut cursor = self.cursor;
        for (_, form) in forms {
            if *form == ColumnForm::ValueWithTimes {
                return None;
            }
            read_column(&mut cursor, *form).ok()?;
        }
        let bytes = self.cursor.remaining() - cursor.remaining();
        Some(&self.cursor.rest()[..bytes])
    }
}
impl<'a> Iterator for PageColumns<'a> {
    type Item = PageColumn<'a>;
    fn next(&mut self) -> Option<PageColumn<'a>> {
        let (_, form) = self.forms.split_off_first()?;
        read_column(&mut self.cursor, *form).ok()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.forms.len()))
    }
}

/// One column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageColumn<'a> {
    /// The value, or the blob; `None` is null.
    pub value: Option<&'a [u8]>,
    /// For [`ColumnForm::ValueWithTimes`], where there is a value.
    pub times: Option<Times>,
}

/// When a value was written and until when it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Microseconds.
    pub timestamp: i64,
    /// Seconds since the epoch; 0: it does not expire.
    pub expiry: i64,
    /// Seconds, as written; 0: it does not expire.
    pub ttl: i32,
}

fn read_partition<'a>(
    cursor: &mut Cursor<'a>,
    layout: PageLayout<'a>,
) -> Result<PagePartition<'a>, Damaged> {
    let key = cursor.vint_bytes("partition key of a page")?;
    let statics = match cursor.u8("static flag of a page")? {
        0 => None,
        1 => {
            let values = cursor.u32_bytes("static columns of a page")?;
            Some(PageColumns { cursor: Cursor::new(values), forms: layout.statics })
        }
        _ => return Err(cursor.damaged("static flag of a page above 1")),
    };
    let row_count = cursor.u32("row count of a page")?;
    let rows = cursor.u32_bytes("rows of a page")?;
    Ok(PagePartition { key, statics, row_count, rows, layout })
}

fn read_row<'a>(
    cursor: &mut Cursor<'a>,
    forms: &'a [(ColumnId, ColumnForm)],
) -> Result<PageRow<'a>, Damaged> {
    let clustering = cursor.vint_bytes("clustering key of a page")?;
    let values = cursor.u32_bytes("columns of a page")?;
    Ok(PageRow { clustering, values, forms })
}

fn read_column<'a>(cursor: &mut Cursor<'a>, form: ColumnForm) -> Result<PageColumn<'a>, Damaged> {
    let length = cursor.i32("column length of a page")?;
    let Ok(length) = usize::try_from(length) else {
        return match length {
            -1 => Ok(PageColumn { value: None, times: None }),
            _ => Err(cursor.damaged("column of a page shorter than null")),
        };
    };
    let value = Some(cursor.take(length, "column of a page")?);
    if form != ColumnForm::ValueWithTimes {
        return Ok(PageColumn { value, times: None });
    }
    let timestamp = cursor.i64("column timestamp of a page")?;
    let expiry = cursor.i64("column expiry of a page")?;
    let ttl = cursor.i32("column ttl of a page")?;
    Ok(PageColumn { value, times: Some(Times { timestamp, expiry, ttl }) })
}
