//! Expressions: values in statements, and what a `SELECT` selects.
//!
//! One tree serves both. The parser lets columns and cell attributes into selectors only, so an
//! [`Expr`] found where a value belongs holds none of them.

use super::{Name, QualifiedName, Type};
use crate::Position;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Which expression.
    pub kind: ExprKind,
    /// Where it begins; for an operator, where its left side begins.
    pub at: Position,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `NULL`
    Null,
    /// A constant.
    Literal(Literal),
    /// `?` or `:name`: the index into `Parsed::markers`.
    Marker(u32),
    /// `[a, b]`: a list or a vector.
    List(Vec<Expr>),
    /// `{a, b}`; also `{}`, which may be a map too.
    Set(Vec<Expr>),
    /// `{a: b, c: d}`, never empty.
    Map(Vec<(Expr, Expr)>),
    /// `{name: a}`, never empty. (`{a: 1}` could also be a map only if columns were values.)
    UserType(Vec<(Name, Expr)>),
    /// `(a, b)`; `(a)` is a tuple of one where a value is expected.
    Tuple(Vec<Expr>),
    /// `f(a, b)`
    Call(Box<Call>),
    /// `(type) a`: a type hint, not a conversion.
    Hint(Box<Type>, Box<Expr>),
    /// `a + b` and the like.
    Arithmetic(Box<Arithmetic>),
    /// `-a`, of something that is not a numeric literal.
    Negate(Box<Expr>),
    /// Selectors only: a column.
    Column(Name),
    /// Selectors only: `c.field`.
    Field(Box<Expr>, Box<Name>),
    /// Selectors only: `c[index]`.
    Element(Box<Expr>, Box<Expr>),
    /// Selectors only: `c[from..to]`, either side may be missing.
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `CAST(a AS type)`, a conversion.
    Cast(Box<Expr>, Box<Type>),
    /// Selectors only: `COUNT(*)` or `COUNT(1)`.
    CountRows,
    /// Selectors only: `WRITETIME(c)` or `TTL(c)`, of a column, an element or a field.
    Attribute(CellAttribute, Box<Expr>),
}

/// A constant as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// What it looks like.
    pub kind: LiteralKind,
    /// The constant's text. Strings: without quotes, doubled quotes made single. Blobs: with
    /// `0x`. Booleans: `true` or `false`. Numbers and durations: as written, with their sign.
    /// Floats may be `NaN`, `-NaN`, `Infinity` or `-Infinity`.
    pub text: String,
}

/// What a constant looks like. Its value is decided by the type it is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'text'` or `$$text$$`
    String,
    /// `-12`
    Integer,
    /// `1.5`, `1e10`, `NaN`
    Float,
    /// `123e4567-e89b-12d3-a456-426614174000`
    Uuid,
    /// `true`
    Boolean,
    /// `0xcafe`
    Blob,
    /// `1h30m`, `P1DT2H`
    Duration,
}

impl LiteralKind {
    /// The name error messages call it by.
    pub fn name(self) -> &'static str {
        match self {
            LiteralKind::String => "STRING",
            LiteralKind::Integer => "INTEGER",
            LiteralKind::Float => "FLOAT",
            LiteralKind::Uuid => "UUID",
            LiteralKind::Boolean => "BOOLEAN",
            LiteralKind::Blob => "HEX",
            LiteralKind::Duration => "DURATION",
        }
    }
}

/// `f(a, b)`
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `f` or `ks.f`.
    pub function: QualifiedName,
    /// `a`, `b`.
    pub arguments: Vec<Expr>,
}

/// `left operator right`
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// What stands between them.
    pub operator: ArithmeticOperator,
    /// What stands before it.
    pub left: Expr,
    /// What stands after it.
    pub right: Expr,
}

/// `+`, `-`, `*`, `/` and `%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

/// What a cell has besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellAttribute {
    /// `WRITETIME(c)`
    WriteTime,
    /// `MAXWRITETIME(c)`
    MaxWriteTime,
    /// `TTL(c)`
    Ttl,
}

/// A column, or a part of one, that is written, deleted or compared.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnPath {
    /// `c`
    Column(Name),
    /// `c[key]`
    Element(Name, Expr),
    /// `c.field`
    Field(Name, Name),
}

impl ColumnPath {
    /// The column.
    pub fn column(&self) -> &Name {
        match self {
            ColumnPath::Column(name)
            | ColumnPath::Element(name, _)
            | ColumnPath::Field(name, _) => name,
        }
    }
}

/// One condition of `WHERE` or `IF`.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// What is compared.
    pub subject: Subject,
    /// How, and with what.
    pub test: Test,
    /// Where the relation begins.
    pub at: Position,
}

/// The left side of a relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// `c`, `c[key]`, `c.field` (the last in `IF` only).
    Path(ColumnPath),
    /// `(a, b)`
    Columns(Vec<Name>),
    /// `TOKEN(a, b)`
    Token(Vec<Name>),
    /// `f(..)`: for `BM25(c, 'query') > 0`. Arguments may be columns.
    Call(Call),
}

/// The rest of a relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `= value`, `< value`, ..
    Compare(Comparison, Expr),
    /// `IN ..`
    In(InValues),
    /// `NOT IN ..`
    NotIn(InValues),
    /// `CONTAINS value`
    Contains(Expr),
    /// `CONTAINS KEY value`
    ContainsKey(Expr),
    /// `LIKE value`
    Like(Expr),
    /// `IS NOT NULL`
    IsNotNull,
    /// `IS NULL`
    IsNull,
}

/// What follows `IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `(a, b)`, also `()`. After several columns each one is a tuple or a marker.
    List(Vec<Expr>),
    /// `?`: one marker for the whole list.
    Marker(u32),
}

/// `=`, `<`, ..
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}
