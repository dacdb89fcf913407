//! A row of a page as terms see it.

use model::key::{clustering_components, partition_key_component};
use mutation::CollectionView;
use mutation::page::{ColumnForm, PageColumn, PageColumns};
use plan::term::{Inputs, RowCell, Source};

/// Fills the cells of one row after the other; the memory is reused.
pub(crate) struct RowCells<'p> {
    inputs: &'p Inputs,
    /// Of each column of the page its input, static ones first.
    column_inputs: &'p [u16],
    static_count: usize,
    key_count: usize,
    pub(crate) cells: Vec<RowCell<'p>>,
}

impl<'p> RowCells<'p> {
    pub(crate) fn new(
        inputs: &'p Inputs,
        column_inputs: &'p [u16],
        static_count: usize,
        key_count: usize,
    ) -> RowCells<'p> {
        let cells = vec![RowCell::Null; inputs.count()];
        RowCells { inputs, column_inputs, static_count, key_count, cells }
    }

    /// What all rows of a partition have.
    pub(crate) fn partition(&mut self, key: &'p [u8], statics: Option<PageColumns<'p>>) {
        for (cell, input) in self.cells.iter_mut().zip(self.inputs.iter()) {
            *cell = match input.source {
                Source::PartitionKey(position) => {
                    partition_key_component(key, self.key_count, position as usize)
                        .map_or(RowCell::Null, RowCell::Value)
                }
                _ => RowCell::Null,
            };
        }
        let inputs = &self.column_inputs[..self.static_count];
        for (column, index) in statics.into_iter().flatten().zip(inputs) {
            self.cells[*index as usize] = self.cell(column, *index);
        }
    }

    /// What this row has.
    pub(crate) fn row(&mut self, clustering: &'p [u8], columns: PageColumns<'p>) {
        for (cell, input) in self.cells.iter_mut().zip(self.inputs.iter()) {
            if let Source::Clustering(position) = input.source {
                let component = clustering_components(clustering).nth(position as usize);
                *cell = component.map_or(RowCell::Null, RowCell::Value);
            }
        }
        let inputs = &self.column_inputs[self.static_count..];
        for (column, index) in columns.zip(inputs) {
            self.cells[*index as usize] = self.cell(column, *index);
        }
    }

    fn cell(&self, column: PageColumn<'p>, index: u16) -> RowCell<'p> {
        let input = self.inputs.get(index);
        let Some(value) = column.value else { return RowCell::Null };
        match (input.form, column.times) {
            (ColumnForm::Blob, _) if input.ty.is_multi_cell() => {
                RowCell::Elements(&input.ty, CollectionView::trusted(value))
            }
            (_, Some(times)) => RowCell::Timed {
                value,
                timestamp: times.timestamp,
                expiry: (times.expiry != 0).then_some(times.expiry),
            },
            _ => RowCell::Value(value),
        }
    }
}
