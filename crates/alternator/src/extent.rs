//! How many items a table or an index has, and how many bytes they take.

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    /// Of all nodes, where one has `self`, and there are so many copies of each item.
    pub(crate) fn of_all(self, nodes: usize, copies: usize) -> Extent {
        let (nodes, copies) = (nodes.max(1) as u128, copies.max(1) as u128);
        let all = |here: u64| {
            let all = (u128::from(here) * nodes).div_ceil(copies);
            u64::try_from(all).unwrap_or(u64::MAX)
        };
        Extent { items: all(self.items), bytes: all(self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_part_of_the_copies() {
        let extent = |items, bytes| Extent { items, bytes };
        assert_eq!(extent(7, 100).of_all(1, 1), extent(7, 100));
        assert_eq!(extent(7, 100).of_all(3, 3), extent(7, 100));
        assert_eq!(extent(7, 100).of_all(6, 3), extent(14, 200));
        assert_eq!(extent(7, 100).of_all(4, 3), extent(10, 134));
        assert_eq!(extent(u64::MAX, 0).of_all(6, 3), extent(u64::MAX, 0));
        assert_eq!(extent(1, 1).of_all(0, 0), extent(1, 1));
    }
}
