//! A user type by itself, as `CREATE TYPE` makes it.

use super::{Type, UserTypeRef};

/// A user-defined type of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserType {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, Type)>,
}

impl UserType {
    /// The type as it stands in a column, not frozen.
    pub fn to_type(&self) -> Type {
        let UserType { keyspace, name, fields } = self.clone();
        Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: false }))
    }

    /// The index of the field of that name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }
}
