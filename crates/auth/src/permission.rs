//! What somebody may do to a resource.

use std::fmt;

/// One kind of deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    /// To read what an engine for nearest neighbours indexes.
    VectorSearchIndexing,
    /// To read what an engine for texts indexes.
    TextSearchIndexing,
}

impl Permission {
    /// All there are.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::VectorSearchIndexing,
        Permission::TextSearchIndexing,
    ];

    /// As statements and `system.role_permissions` write it.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::VectorSearchIndexing => "VECTOR_SEARCH_INDEXING",
            Permission::TextSearchIndexing => "TEXT_SEARCH_INDEXING",
        }
    }

    /// The permission of that name, in capitals or not.
    pub fn by_name(name: &str) -> Option<Permission> {
        Permission::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some permissions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PermissionSet(u16);

impl PermissionSet {
    /// None.
    pub const NONE: PermissionSet = PermissionSet(0);

    /// Of these.
    pub const fn of(permissions: &[Permission]) -> PermissionSet {
        let (mut bits, mut index) = (0, 0);
        while index < permissions.len() {
            bits |= 1 << permissions[index] as u8;
            index += 1;
        }
        PermissionSet(bits)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, permission: Permission) -> bool {
        self.0 & 1 << permission as u8 != 0
    }

    pub fn union(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 | other.0)
    }

    pub fn intersection(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & other.0)
    }

    pub fn without(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & !other.0)
    }

    /// In the order of [`Permission::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |it| self.contains(*it))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> PermissionSet {
        permissions.into_iter().fold(PermissionSet::NONE, |set, it| set.union(Self::of(&[it])))
    }
}

impl fmt::Debug for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Permission::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for permission in Permission::ALL {
            assert_eq!(Permission::by_name(permission.name()), Some(permission));
            assert_eq!(Permission::by_name(&permission.name().to_lowercase()), Some(permission));
        }
        assert_eq!(Permission::by_name("WRITE"), None);
    }

    #[test]
    fn sets_are_sets() {
        use Permission::{Alter, Drop, Select};
        let (some, other) = (PermissionSet::of(&[Alter, Select]), PermissionSet::of(&[Drop]));
        assert!(some.contains(Alter) && !some.contains(Drop));
        assert_eq!(some.union(other).iter().collect::<Vec<_>>(), [Alter, Drop, Select]);
        assert_eq!(some.union(other).without(some), other);
        assert!(some.intersection(other).is_empty());
        assert_eq!([Select, Alter].into_iter().collect::<PermissionSet>(), some);
        assert_eq!(format!("{some:?}"), r#"{"ALTER", "SELECT"}"#);
    }
}
