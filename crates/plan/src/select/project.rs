//! Rows whose values are columns as they are: copied out of the page without a look at terms.
//!
//! Never more than an abbreviation: what it writes is what terms would.

use crate::term::{Input, Inputs, Source, Term};
use model::key::{clustering_components, partition_key_component};
use mutation::page::{ColumnForm, PagePartition, RowPiece, RowPieces};
use stdx::Put;

/// What a row of the result is made of, left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    pieces: RowPieces,
    key_count: usize,
}

impl Projection {
    /// The projection that `outputs` are, if they are one: key columns in any order, and the
    /// regular columns together, in the order of `column_inputs`, in which they are read.
    pub fn of(
        inputs: &Inputs,
        column_inputs: &[u16],
        outputs: &[Term],
        key_count: usize,
    ) -> Option<Projection> {
        let mut pieces = RowPieces::new();
        let mut outputs = outputs.iter().map(column_of).peekable();
        while let Some(output) = outputs.next() {
            let index = output?;
            match value_of(inputs.get(index))? {
                Source::PartitionKey(position) => pieces.push(RowPiece::PartitionKey(*position)),
                Source::Clustering(position) => pieces.push(RowPiece::Clustering(*position)),
                Source::Static(_) => return None,
                Source::Regular(_) => {
                    let (first, others) = column_inputs.split_first()?;
                    let together = *first == index
                        && !pieces.contains(&RowPiece::Regulars)
                        && others.iter().all(|other| {
                            value_of(inputs.get(*other)).is_some()
                                && outputs.next() == Some(Some(*other))
                        });
                    if !together {
                        return None;
                    }
                    pieces.push(RowPiece::Regulars);
                }
            }
        }
        // A column that is read and not shown would have to be left out.
        let whole = column_inputs.is_empty() || pieces.contains(&RowPiece::Regulars);
        whole.then_some(Projection { pieces, key_count })
    }

    /// What a row is made of, for code that writes rows directly.
    #[inline]
    pub fn pieces(&self) -> &RowPieces {
        &self.pieces
    }

    /// Appends the rows of a partition that has some.
    pub fn write(&self, partition: &PagePartition<'_>, out: &mut Vec<u8>) {
        for row in partition.rows() {
            for piece in &self.pieces {
                let value = match piece {
                    RowPiece::Regulars => {
                        out.put(row.values());
                        continue;
                    }
                    RowPiece::PartitionKey(position) => {
                        partition_key_component(partition.key(), self.key_count, *position as usize)
                    }
                    RowPiece::Clustering(position) => {
                        clustering_components(row.clustering()).nth(*position as usize)
                    }
                };
                match value {
                    Some(value) => out.put_u32_bytes(value),
                    None => out.put_i32(-1),
                }
            }
        }
    }
}

fn column_of(term: &Term) -> Option<u16> {
    match term {
        Term::Column(input) => Some(*input),
        _ => None,
    }
}

/// Where the values of an input come from, if they are as clients see them.
fn value_of(input: &Input) -> Option<&Source> {
    (input.form == ColumnForm::Value).then_some(&input.source)
}
