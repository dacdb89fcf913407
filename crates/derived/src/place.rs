//! Where a row of a view stands: the parts of its key, and where each comes from.

use model::Token;
use model::key::{
    check_clustering, check_partition_key, clustering_components, compose_partition_key,
    partition_key_component, push_clustering,
};

/// Where a column of a view's key has its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The base table's partition key, by position.
    Partition(u16),
    /// Its clustering key.
    Clustering(u16),
    /// The token of its partition key.
    Token,
    /// The value that rows are found by: of a column, or of an element.
    Value,
    /// The key of the element, beside its value.
    Path,
    /// An attribute beside the first one, by its place among these.
    Attribute(u16),
}

/// The partition of the base table that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition<'k> {
    key: &'k [u8],
    column_count: usize,
    token: [u8; 8],
}

impl<'k> Partition<'k> {
    pub(crate) fn new(key: &'k [u8], column_count: usize, has_token: bool) -> Partition<'k> {
        // Hashing costs; most views do without.
        let token = if has_token { Token::of(key).0 } else { 0 };
        Partition { key, column_count, token: token.to_be_bytes() }
    }
}

/// All that a row of a view is found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'k> {
    pub(crate) partition: &'k Partition<'k>,
    /// Of the base table; empty for its static row.
    pub(crate) clustering: &'k [u8],
    pub(crate) value: &'k [u8],
    pub(crate) path: &'k [u8],
    /// Of a view that is found by several attributes: all but the first, which is the value.
    pub(crate) others: &'k [&'k [u8]],
}

impl<'k> Place<'k> {
    pub(crate) fn new(partition: &'k Partition<'k>, clustering: &'k [u8]) -> Place<'k> {
        Place { partition, clustering, value: &[], path: &[], others: &[] }
    }

    /// `None`: the base table's key has no such part (rows of compact tables may have short keys).
    pub(crate) fn part(&self, source: Source) -> Option<&'k [u8]> {
        match source {
            Source::Partition(index) => {
                let Partition { key, column_count, .. } = self.partition;
                partition_key_component(key, *column_count, index as usize)
            }
            Source::Clustering(index) => clustering_components(self.clustering).nth(index as usize),
            Source::Token => Some(&self.partition.token),
            Source::Value => Some(self.value),
            Source::Path => Some(self.path),
            Source::Attribute(index) => self.others.get(index as usize).copied(),
        }
    }
}

/// The key of a row of a view, in buffers that serve the next one, too.
#[derive(Debug, Default)]
pub(crate) struct ViewKey {
    pub(crate) partition: Vec<u8>,
    pub(crate) clustering: Vec<u8>,
}

impl ViewKey {
    /// Sets it; whether there can be such a row (*nothing-is-too-long*).
    pub(crate) fn set(
        &mut self,
        (partition, clustering): (&[Source], &[Source]),
        place: &Place<'_>,
    ) -> bool {
        self.set_partition(partition, place) && self.set_clustering(clustering, place)
    }

    /// Sets the key of the partition alone.
    pub(crate) fn set_partition(&mut self, sources: &[Source], place: &Place<'_>) -> bool {
        if sources.iter().any(|source| place.part(*source).is_none()) {
            return false;
        }
        let parts = || sources.iter().map(|source| place.part(*source).unwrap_or_default());
        // An empty value is a key like others here: the base table has that row.
        let is_empty = sources.len() == 1 && parts().all(<[u8]>::is_empty);
        if !is_empty && check_partition_key(parts()).is_err() {
            return false;
        }
        self.partition.clear();
        compose_partition_key(parts(), &mut self.partition);
        true
    }

    fn set_clustering(&mut self, sources: &[Source], place: &Place<'_>) -> bool {
        let parts = || sources.iter().map(|source| place.part(*source));
        let all_there = parts().all(|part| part.is_some());
        if !all_there || check_clustering(parts().flatten()).is_err() {
            return false;
        }
        self.clustering.clear();
        parts().flatten().for_each(|part| push_clustering(part, &mut self.clustering));
        true
    }
}
