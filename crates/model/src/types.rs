//! CQL types: their names in CQL and in Cassandra's marshal classes, and their shape.

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

impl Type {
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

    /// The same type, frozen at its outermost level and below.
    pub fn freeze(&self) -> Type {
        todo!()
    }

    /// The type of an element's key in a multi-cell column: map key, set element, list timeuuid,
    /// or the 2-byte field index of a UDT (compared as bytes: `SmallInt` unsigned order is equal).
    pub fn path_type(&self) -> Option<Type> {
        todo!()
    }

    /// The type of an element's value in a multi-cell column (set: `Empty`). For a UDT it depends
    /// on the field; see `field_type`.
    pub fn element_type(&self) -> Option<&Type> {
        todo!()
    }

    /// Length of every value in SSTables of this type, where they have a fixed one there
    /// (boolean 1, int 4, bigint 8, float 4, double 8, timestamp 8, uuid/timeuuid 16).
    pub fn fixed_length(&self) -> Option<usize> {
        todo!()
    }

    /// The CQL name: `frozen<map<int, text>>`. A user type is written by its name only.
    pub fn to_cql(&self) -> String {
        todo!()
    }

    /// The marshal class name: `org.apache.cassandra.db.marshal.Int32Type`.
    pub fn to_class_name(&self) -> String {
        todo!()
    }

    /// Parses a marshal class name. `reversed` tells that it stood inside `ReversedType(..)`.
    pub fn from_class_name(name: &str) -> Option<(Type, bool)> {
        let _ = name;
        todo!()
    }
}
