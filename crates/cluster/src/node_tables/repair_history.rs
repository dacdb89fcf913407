//! The rows of `system.repair_history`: of each range of a table the repair that had all its
//! replicas last. Ranges are, as there, behind their first token and up to their last.

use catalog::rows::Row;
use catalog::rows::partition::{PartitionWriter, text};
use model::{TableId, TableSchema, Token, Uuid};
use mutation::FrozenMutation;

/// The table.
pub(crate) const TABLE: &str = "repair_history";

/// A range of a table was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairRecord {
    pub table: TableId,
    /// The first token and the last.
    pub tokens: (Token, Token),
    /// All that was written before this millisecond since 1970 its replicas had.
    pub at: i64,
    /// Which repair it was.
    pub repair: Uuid,
}

impl RepairRecord {
    /// What a row says, if that is a range.
    pub(crate) fn of(row: &Row) -> Option<RepairRecord> {
        let bytes = |name: &str| row.get(name).map(Vec::as_slice).unwrap_or_default();
        let bigint = |name| bytes(name).try_into().map(i64::from_be_bytes).ok();
        let uuid = |name| bytes(name).try_into().map(Uuid::from_bytes).ok();
        let (start, last) = (bigint("range_start")?, Token(bigint("range_end")?));
        let first = match start {
            i64::MIN => Token::MIN,
            start => Token(start.checked_add(1)?),
        };
        let (table, repair) = (uuid("table_uuid")?, uuid("repair_uuid")?);
        let at = bigint("repair_time")?;
        (first <= last).then_some(RepairRecord { table, tokens: (first, last), at, repair })
    }

    fn key(&self) -> [Vec<u8>; 4] {
        let start = self.tokens.0.0.saturating_sub(1);
        let bytes = |number: i64| number.to_be_bytes().to_vec();
        [bytes(self.at), self.repair.as_bytes().to_vec(), bytes(start), bytes(self.tokens.1.0)]
    }

    /// The row; an earlier one of the same range goes. `name`: of the keyspace and of the table.
    pub(crate) fn mutation(
        &self,
        history: &TableSchema,
        name: (&str, &str),
        earlier: Option<&RepairRecord>,
        timestamp: i64,
    ) -> FrozenMutation {
        debug_assert!(self.tokens.0 <= self.tokens.1, "{self:?} is of no range");
        let mut partition = PartitionWriter::new(history, &[self.table.as_bytes()], timestamp);
        if let Some(earlier) = earlier.filter(|earlier| earlier.key() != self.key()) {
            debug_assert!(earlier.tokens == self.tokens, "{earlier:?} is of another range");
            let key = earlier.key();
            partition.delete_rows(&key.each_ref().map(Vec::as_slice));
        }
        let key = self.key();
        let cells = vec![("keyspace_name", text(name.0)), ("table_name", text(name.1))];
        partition.row(&key.each_ref().map(Vec::as_slice), cells);
        partition.freeze()
    }
}

/// Of a table that is no more nothing is remembered.
pub(crate) fn forgotten(history: &TableSchema, table: TableId, timestamp: i64) -> FrozenMutation {
    let mut partition = PartitionWriter::new(history, &[table.as_bytes()], timestamp);
    debug_assert!(!table.is_nil(), "repairs of no table");
    partition.delete_rows(&[]);
    partition.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::system_tables;

    fn check(tokens: (i64, i64), start: i64) {
        let (table, repair) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let tokens = (Token(tokens.0), Token(tokens.1));
        let record = RepairRecord { table, tokens, at: 1234, repair };
        let mut row = Row::default();
        row.insert("table_uuid".to_owned(), table.as_bytes().to_vec());
        row.insert("repair_time".to_owned(), 1234i64.to_be_bytes().to_vec());
        row.insert("repair_uuid".to_owned(), repair.as_bytes().to_vec());
        row.insert("range_start".to_owned(), start.to_be_bytes().to_vec());
        row.insert("range_end".to_owned(), tokens.1.0.to_be_bytes().to_vec());
        assert_eq!(RepairRecord::of(&row), Some(record.clone()), "{tokens:?}");
        assert_eq!(record.key()[2], start.to_be_bytes());
        row.remove("repair_time");
        assert_eq!(RepairRecord::of(&row), None);
    }

    #[test]
    fn rows_go_in_and_out() {
        check((i64::MIN, i64::MAX), i64::MIN);
        check((-5, -5), -6);
        check((i64::MAX, i64::MAX), i64::MAX - 1);
    }

    #[test]
    fn a_range_has_one_row() {
        let history = system_tables::table("system", TABLE);
        let record = |at| RepairRecord {
            table: Uuid::from_u128(7),
            tokens: (Token(1), Token(2)),
            at,
            repair: Uuid::from_u128(at as u128),
        };
        let rows = |earlier: Option<i64>| {
            let earlier = earlier.map(record);
            let mutation = record(9).mutation(&history, ("ks", "t"), earlier.as_ref(), 5);
            let view = mutation.view().expect("a mutation");
            view.rows().filter(|(_, row)| !row.is_empty()).count() + view.range_count()
        };
        assert_eq!((rows(None), rows(Some(8)), rows(Some(9))), (1, 2, 1));
    }
}
