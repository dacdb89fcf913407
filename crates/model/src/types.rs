//! CQL types: their names in CQL and in Cassandra's marshal classes, and their shape.
//!
//! Invariants
//!  - *frozen-inside*: whatever stands inside a frozen type, a tuple, a vector or another
//!    collection is frozen itself. [`Type::freeze`] and the two parsers make it so.
//!
//! In reading order: [`class_name`] (`org.apache.cassandra.db.marshal.Int32Type`), [`cql`]
//! (`frozen<map<int, text>>`), [`user`] (a user type by itself), [`compatible`] (which type may
//! follow which).

mod class_name;
mod compatible;
mod cql;
mod user;

pub use class_name::{key_class_name, types_of_key_class_name};
pub use cql::quote_identifier;
pub use user::UserType;

/// How deep a type may be nested; what is deeper is refused by the parsers, so that recursion over
/// a type is bounded.
pub const NESTING_MAX: usize = 64;

/// A CQL type. Plain owned data, so that a schema can be handed to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Empty,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    Varint,
    List {
        element: Box<Type>,
        frozen: bool,
    },
    Set {
        element: Box<Type>,
        frozen: bool,
    },
    Map {
        key: Box<Type>,
        value: Box<Type>,
        frozen: bool,
    },
    Tuple(Vec<Type>),
    User(Box<UserTypeRef>),
    Vector {
        element: Box<Type>,
        dimension: u16,
    },
    /// A class that we store but do not understand, by its full name; bytes compare as blobs.
    Custom(String),
}

/// A user type as it stands inside another type: with its fields, so that values can be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserTypeRef {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, Type)>,
    pub frozen: bool,
}

/// The scalar types with their names in CQL and their classes (without the package).
const NATIVE: [(Type, &str, &str); 21] = [
    (Type::Ascii, "ascii", "AsciiType"),
    (Type::BigInt, "bigint", "LongType"),
    (Type::Blob, "blob", "BytesType"),
    (Type::Boolean, "boolean", "BooleanType"),
    (Type::Counter, "counter", "CounterColumnType"),
    (Type::Date, "date", "SimpleDateType"),
    (Type::Decimal, "decimal", "DecimalType"),
    (Type::Double, "double", "DoubleType"),
    (Type::Duration, "duration", "DurationType"),
    (Type::Empty, "empty", "EmptyType"),
    (Type::Float, "float", "FloatType"),
    (Type::Inet, "inet", "InetAddressType"),
    (Type::Int, "int", "Int32Type"),
    (Type::SmallInt, "smallint", "ShortType"),
    (Type::Text, "text", "UTF8Type"),
    (Type::Time, "time", "TimeType"),
    (Type::Timestamp, "timestamp", "TimestampType"),
    (Type::TimeUuid, "timeuuid", "TimeUUIDType"),
    (Type::TinyInt, "tinyint", "ByteType"),
    (Type::Uuid, "uuid", "UUIDType"),
    (Type::Varint, "varint", "IntegerType"),
];

impl Type {
    /// The scalar type of that CQL name, in lower case: `int`, `varchar`.
    pub fn native(name: &str) -> Option<Type> {
        let name = if name == "varchar" { "text" } else { name };
        NATIVE.iter().find(|(_, cql, _)| *cql == name).map(|(ty, _, _)| ty.clone())
    }

    /// The scalar types, `empty` and `counter` among them.
    pub fn natives() -> impl Iterator<Item = Type> {
        NATIVE.iter().map(|(ty, _, _)| ty.clone())
    }

    /// Whether this is one of [`Type::natives`].
    pub fn is_native(&self) -> bool {
        !matches!(
            self,
            Type::List { .. }
                | Type::Set { .. }
                | Type::Map { .. }
                | Type::Tuple(_)
                | Type::User(_)
                | Type::Vector { .. }
                | Type::Custom(_)
        )
    }

    /// The CQL name and the class of a scalar type.
    fn native_names(&self) -> Option<(&'static str, &'static str)> {
        NATIVE.iter().find(|(ty, _, _)| ty == self).map(|(_, cql, class)| (*cql, *class))
    }

    /// Whether a column of this type is stored element by element (non-frozen collection or UDT).
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Type::List { frozen, .. } | Type::Set { frozen, .. } | Type::Map { frozen, .. } => {
                !frozen
            }
            Type::User(user) => !user.frozen,
            _ => false,
        }
    }

    /// Whether this is a list, a set or a map.
    pub fn is_collection(&self) -> bool {
        matches!(self, Type::List { .. } | Type::Set { .. } | Type::Map { .. })
    }

    /// The same type, frozen at its outermost level and below.
    pub fn freeze(&self) -> Type {
        let boxed = |ty: &Type| Box::new(ty.freeze());
        match self {
            Type::List { element, .. } => Type::List { element: boxed(element), frozen: true },
            Type::Set { element, .. } => Type::Set { element: boxed(element), frozen: true },
            Type::Map { key, value, .. } => {
                Type::Map { key: boxed(key), value: boxed(value), frozen: true }
            }
            Type::Tuple(elements) => Type::Tuple(elements.iter().map(Type::freeze).collect()),
            Type::User(user) => Type::User(Box::new(UserTypeRef {
                keyspace: user.keyspace.clone(),
                name: user.name.clone(),
                fields: user.fields.iter().map(|(n, ty)| (n.clone(), ty.freeze())).collect(),
                frozen: true,
            })),
            Type::Vector { element, dimension } => {
                Type::Vector { element: boxed(element), dimension: *dimension }
            }
            scalar => scalar.clone(),
        }
    }

    /// The type of an element's key in a multi-cell column: map key, set element, list timeuuid,
    /// or the 2-byte field index of a UDT (compared as bytes: `SmallInt` unsigned order is equal).
    pub fn path_type(&self) -> Option<Type> {
        match self {
            Type::List { .. } => Some(Type::TimeUuid),
            Type::Set { element, .. } => Some((**element).clone()),
            Type::Map { key, .. } => Some((**key).clone()),
            Type::User(_) => Some(Type::SmallInt),
            _ => None,
        }
    }

    /// The type of an element's value in a multi-cell column (set: `Empty`). For a UDT it depends
    /// on the field; see `field_type`.
    pub fn element_type(&self) -> Option<&Type> {
        match self {
            Type::List { element, .. } => Some(element),
            Type::Set { .. } => Some(&Type::Empty),
            Type::Map { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The type of a UDT's field or of a tuple's element.
    pub fn field_type(&self, index: usize) -> Option<&Type> {
        match self {
            Type::User(user) => user.fields.get(index).map(|(_, ty)| ty),
            Type::Tuple(elements) => elements.get(index),
            _ => None,
        }
    }

    /// Length of every value in SSTables of this type, where they have a fixed one there
    /// (boolean 1, int 4, bigint 8, float 4, double 8, timestamp 8, uuid/timeuuid 16; a vector of
    /// such a type is as long as its elements together).
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            Type::Boolean => Some(1),
            Type::Int | Type::Float => Some(4),
            Type::BigInt | Type::Double | Type::Timestamp => Some(8),
            Type::Uuid | Type::TimeUuid => Some(16),
            Type::Vector { element, dimension } => {
                element.fixed_length()?.checked_mul(*dimension as usize)
            }
            _ => None,
        }
    }

    /// The types directly inside: element, key and value, tuple elements, fields.
    pub fn children(&self) -> Vec<&Type> {
        match self {
            Type::List { element, .. }
            | Type::Set { element, .. }
            | Type::Vector { element, .. } => vec![element],
            Type::Map { key, value, .. } => vec![key, value],
            Type::Tuple(elements) => elements.iter().collect(),
            Type::User(user) => user.fields.iter().map(|(_, ty)| ty).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether this type, or one anywhere inside, satisfies `wanted`.
    pub fn any(&self, wanted: &dyn Fn(&Type) -> bool) -> bool {
        wanted(self) || self.children().into_iter().any(|child| child.any(wanted))
    }

    /// Whether this type is the user type of that name, or contains it.
    pub fn mentions_user_type(&self, keyspace: &str, name: &str) -> bool {
        self.any(
            &|ty| matches!(ty, Type::User(user) if user.keyspace == keyspace && user.name == name),
        )
    }

    /// Whether durations occur, which have no order: no such type may be a key or a set's element.
    pub fn mentions_duration(&self) -> bool {
        self.any(&|ty| *ty == Type::Duration)
    }

    /// Whether values can stand in a partition or clustering key: they have an order, one cell,
    /// and are no counters.
    pub fn is_key_type(&self) -> bool {
        !self.is_multi_cell() && *self != Type::Counter && !self.mentions_duration()
    }

    /// The same type with `change` made to each of its [`children`](Self::children).
    fn with_children(&self, change: &dyn Fn(&Type) -> Type) -> Type {
        let boxed = |ty: &Type| Box::new(change(ty));
        match self {
            Type::List { element, frozen } => {
                Type::List { element: boxed(element), frozen: *frozen }
            }
            Type::Set { element, frozen } => Type::Set { element: boxed(element), frozen: *frozen },
            Type::Map { key, value, frozen } => {
                Type::Map { key: boxed(key), value: boxed(value), frozen: *frozen }
            }
            Type::Tuple(elements) => Type::Tuple(elements.iter().map(change).collect()),
            Type::Vector { element, dimension } => {
                Type::Vector { element: boxed(element), dimension: *dimension }
            }
            Type::User(user) => {
                let fields = user.fields.iter().map(|(name, ty)| (name.clone(), change(ty)));
                Type::User(Box::new(UserTypeRef { fields: fields.collect(), ..(**user).clone() }))
            }
            scalar => scalar.clone(),
        }
    }

    /// The same type with the present fields of `changed` wherever that user type occurs.
    pub fn with_user_type(&self, changed: &UserType) -> Type {
        match self {
            Type::User(user) if user.keyspace == changed.keyspace && user.name == changed.name => {
                let freeze = |ty: &Type| if user.frozen { ty.freeze() } else { ty.clone() };
                let fields = changed.fields.iter().map(|(name, ty)| (name.clone(), freeze(ty)));
                Type::User(Box::new(UserTypeRef { fields: fields.collect(), ..(**user).clone() }))
            }
            other => other.with_children(&|ty| ty.with_user_type(changed)),
        }
    }

    /// The same type with a tuple of its fields for each user type: it needs no other type.
    pub fn without_user_types(&self) -> Type {
        match self.with_children(&Type::without_user_types) {
            Type::User(user) => Type::Tuple(user.fields.into_iter().map(|(_, ty)| ty).collect()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(element: Type) -> Type {
        Type::List { element: Box::new(element), frozen: false }
    }

    fn user(fields: Vec<(String, Type)>) -> Type {
        let (keyspace, name) = ("ks".into(), "t".into());
        Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: true }))
    }

    #[test]
    fn freezing_reaches_the_innermost() {
        let frozen = list(Type::Tuple(vec![list(Type::Int)])).freeze();
        assert!(!frozen.any(&Type::is_multi_cell));
        assert!(list(Type::Int).is_multi_cell());
    }

    #[test]
    fn shapes() {
        assert_eq!(list(Type::Int).path_type(), Some(Type::TimeUuid));
        assert_eq!(list(Type::Int).element_type(), Some(&Type::Int));
        assert_eq!(Type::Int.path_type(), None);
        let floats = Type::Vector { element: Box::new(Type::Float), dimension: 3 };
        assert_eq!(floats.fixed_length(), Some(12));
        let texts = Type::Vector { element: Box::new(Type::Text), dimension: 3 };
        assert_eq!(texts.fixed_length(), None);
        assert_eq!([Type::SmallInt, Type::Date].map(|ty| ty.fixed_length()), [None, None]);
    }

    #[test]
    fn a_changed_user_type_is_found_and_replaced_at_any_depth() {
        let old = list(user(vec![("a".into(), Type::Int)]));
        assert!(old.mentions_user_type("ks", "t"));
        assert!(!old.mentions_user_type("other", "t"));
        let fields = vec![("a".into(), Type::Int), ("b".into(), Type::Text)];
        let (keyspace, name) = ("ks".into(), "t".into());
        let mut changed = UserType { keyspace, name, fields: fields.clone() };
        assert_eq!(old.with_user_type(&changed), list(user(fields)));
        changed.fields = vec![("c".into(), list(Type::Int))];
        assert!(!old.with_user_type(&changed).children()[0].any(&Type::is_multi_cell));
    }

    #[test]
    fn user_types_become_tuples_at_any_depth() {
        let inner = user(vec![("a".into(), Type::Int)]);
        let outer = user(vec![("i".into(), inner.clone()), ("l".into(), list(inner).freeze())]);
        let tuple = |elements: &[Type]| Type::Tuple(elements.to_vec());
        let flat = tuple(&[Type::Int]);
        let expected = list(tuple(&[flat.clone(), list(flat).freeze()]));
        assert_eq!(list(outer).without_user_types(), expected);
        assert_eq!(expected.without_user_types(), expected);
    }

    #[test]
    fn natives_are_those_with_names() {
        assert!(Type::natives().all(|ty| ty.is_native() && Type::native(&ty.to_cql()) == Some(ty)));
        assert!(!list(Type::Int).is_native() && !Type::Custom("x".into()).is_native());
    }

    #[test]
    fn what_can_be_a_key() {
        assert!(Type::Int.is_key_type() && list(Type::Int).freeze().is_key_type());
        assert!(!Type::Counter.is_key_type() && !list(Type::Int).is_key_type());
        assert!(!Type::Tuple(vec![Type::Duration]).is_key_type());
    }
}
