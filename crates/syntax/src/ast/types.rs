//! Types as they are written.

use super::QualifiedName;
use crate::Position;

/// A type as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Which type.
    pub kind: TypeKind,
    /// Where it begins.
    pub at: Position,
}

/// The forms of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `int`, `text`, ..
    Native(NativeType),
    /// `t` or `ks.t`.
    User(QualifiedName),
    /// `list<t>`
    List(Box<Type>),
    /// `set<t>`
    Set(Box<Type>),
    /// `map<k, v>`
    Map(Box<Type>, Box<Type>),
    /// `tuple<a, b, ..>`
    Tuple(Vec<Type>),
    /// `vector<t, n>`
    Vector(Box<Type>, u32),
    /// `frozen<t>`
    Frozen(Box<Type>),
    /// `'org.apache.cassandra.db.marshal.Int32Type'`, without the quotes.
    Custom(String),
}

/// The types that are one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeType {
    /// `ascii`
    Ascii,
    /// `bigint`
    Bigint,
    /// `blob`
    Blob,
    /// `boolean`
    Boolean,
    /// `counter`
    Counter,
    /// `date`
    Date,
    /// `decimal`
    Decimal,
    /// `double`
    Double,
    /// `duration`
    Duration,
    /// `empty`
    Empty,
    /// `float`
    Float,
    /// `inet`
    Inet,
    /// `int`
    Int,
    /// `smallint`
    Smallint,
    /// `text` or `varchar`
    Text,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timeuuid`
    Timeuuid,
    /// `tinyint`
    Tinyint,
    /// `uuid`
    Uuid,
    /// `varint`
    Varint,
}

impl NativeType {
    /// Every native type, in the order of their names.
    pub const ALL: [NativeType; 21] = [
        NativeType::Ascii,
        NativeType::Bigint,
        NativeType::Blob,
        NativeType::Boolean,
        NativeType::Counter,
        NativeType::Date,
        NativeType::Decimal,
        NativeType::Double,
        NativeType::Duration,
        NativeType::Empty,
        NativeType::Float,
        NativeType::Inet,
        NativeType::Int,
        NativeType::Smallint,
        NativeType::Text,
        NativeType::Time,
        NativeType::Timestamp,
        NativeType::Timeuuid,
        NativeType::Tinyint,
        NativeType::Uuid,
        NativeType::Varint,
    ];

    /// The name CQL prints it with.
    pub fn name(self) -> &'static str {
        match self {
            NativeType::Ascii => "ascii",
            NativeType::Bigint => "bigint",
            NativeType::Blob => "blob",
            NativeType::Boolean => "boolean",
            NativeType::Counter => "counter",
            NativeType::Date => "date",
            NativeType::Decimal => "decimal",
            NativeType::Double => "double",
            NativeType::Duration => "duration",
            NativeType::Empty => "empty",
            NativeType::Float => "float",
            NativeType::Inet => "inet",
            NativeType::Int => "int",
            NativeType::Smallint => "smallint",
            NativeType::Text => "text",
            NativeType::Time => "time",
            NativeType::Timestamp => "timestamp",
            NativeType::Timeuuid => "timeuuid",
            NativeType::Tinyint => "tinyint",
            NativeType::Uuid => "uuid",
            NativeType::Varint => "varint",
        }
    }

    /// The type of a folded word; `varchar` is `text`.
    pub fn from_name(name: &str) -> Option<NativeType> {
        if name == "varchar" {
            return Some(NativeType::Text);
        }
        Self::ALL.into_iter().find(|native| native.name() == name)
    }
}
