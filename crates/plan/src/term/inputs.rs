//! What terms need of each row, and a row as they see it.

use model::{Column, ColumnId, ColumnKind, Type};
use mutation::CollectionView;
use mutation::page::ColumnForm;

/// Where an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    PartitionKey(u16),
    Clustering(u16),
    Static(ColumnId),
    Regular(ColumnId),
}

/// A column that terms need.
#[derive(Clone, Debug)]
pub struct Input {
    pub source: Source,
    pub ty: Type,
    pub form: ColumnForm,
}

/// The columns that the terms of a statement need, each once.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    columns: Vec<(ColumnId, Input)>,
}

impl Inputs {
    /// The index of `column`, read in a form that gives at least what `form` does.
    pub fn add(&mut self, column: &Column, form: ColumnForm) -> u16 {
        let found = self.columns.iter().position(|(id, _)| *id == column.id);
        let index = found.unwrap_or_else(|| {
            let source = match column.kind {
                ColumnKind::PartitionKey => Source::PartitionKey(column.position),
                ColumnKind::Clustering => Source::Clustering(column.position),
                ColumnKind::Static => Source::Static(column.id),
                ColumnKind::Regular => Source::Regular(column.id),
            };
            let input = Input { source, ty: column.ty.clone(), form: ColumnForm::Value };
            self.columns.push((column.id, input));
            self.columns.len() - 1
        });
        let input = &mut self.columns[index].1;
        if rank(input.form) < rank(form) {
            input.form = form;
        }
        index as u16
    }

    /// The inputs by index.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Input> {
        self.columns.iter().map(|(_, input)| input)
    }

    /// The type of an input.
    #[inline]
    pub fn get(&self, index: u16) -> &Input {
        &self.columns[index as usize].1
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.columns.len()
    }
}

fn rank(form: ColumnForm) -> u8 {
    match form {
        ColumnForm::Value => 0,
        ColumnForm::ValueWithTimes => 1,
        ColumnForm::Blob => 2,
        ColumnForm::Liveness => 3,
    }
}

/// What a row has for an input.
#[derive(Clone, Copy, Debug)]
pub enum RowCell<'a> {
    /// Nothing.
    Null,
    /// A value.
    Value(&'a [u8]),
    /// A value with its write time (microseconds) and the second in which it expires.
    Timed { value: &'a [u8], timestamp: i64, expiry: Option<i64> },
    /// A multi-cell column's live elements, with the column's type.
    Elements(&'a Type, CollectionView<'a>),
}
