//! Expressions and relations.

use std::fmt::{self, Display, Formatter};

use super::{commas, quote_string};
use crate::ast::{
    Arithmetic, ArithmeticOperator, Call, CellAttribute, ColumnPath, Comparison, Expr, ExprKind,
    InValues, Literal, LiteralKind, Relation, Subject, Test,
};

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => f.write_str(&quote_string(&self.text)),
            _ => f.write_str(&self.text),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Null => f.write_str("null"),
            ExprKind::Literal(literal) => write!(f, "{literal}"),
            ExprKind::Marker(_) => f.write_str("?"),
            ExprKind::List(items) => bracketed(f, "[", items, "]"),
            ExprKind::Set(items) => bracketed(f, "{", items, "}"),
            ExprKind::Tuple(items) => bracketed(f, "(", items, ")"),
            ExprKind::Map(entries) => {
                f.write_str("{")?;
                commas(f, entries, |(key, value), f| match key.kind {
                    // Without brackets it would be the field of a user type.
                    ExprKind::Column(_) => write!(f, "({key}): {value}"),
                    _ => write!(f, "{key}: {value}"),
                })?;
                f.write_str("}")
            }
            ExprKind::UserType(fields) => {
                f.write_str("{")?;
                commas(f, fields, |(field, value), f| write!(f, "{field}: {value}"))?;
                f.write_str("}")
            }
            ExprKind::Call(call) => write!(f, "{call}"),
            ExprKind::Hint(ty, of) => {
                write!(f, "({ty})")?;
                operand(f, of)
            }
            ExprKind::Arithmetic(arithmetic) => write!(f, "{arithmetic}"),
            ExprKind::Negate(of) => {
                f.write_str(if begins_with_minus(of) { "- " } else { "-" })?;
                operand(f, of)
            }
            ExprKind::Column(name) => write!(f, "{name}"),
            ExprKind::Field(of, field) => {
                base(f, of)?;
                write!(f, ".{field}")
            }
            ExprKind::Element(of, index) => {
                base(f, of)?;
                write!(f, "[{index}]")
            }
            ExprKind::Slice(of, from, to) => slice(f, of, from.as_deref(), to.as_deref()),
            ExprKind::Cast(of, ty) => write!(f, "cast({of} as {ty})"),
            ExprKind::CountRows => f.write_str("count(*)"),
            ExprKind::Attribute(attribute, of) => write!(f, "{}({of})", attribute.name()),
        }
    }
}

fn bracketed(f: &mut Formatter<'_>, open: &str, items: &[Expr], close: &str) -> fmt::Result {
    f.write_str(open)?;
    commas(f, items, Display::fmt)?;
    f.write_str(close)
}

fn grouped(f: &mut Formatter<'_>, expr: &Expr, group: bool) -> fmt::Result {
    if group { write!(f, "({expr})") } else { write!(f, "{expr}") }
}

/// What follows a minus or a type hint.
fn operand(f: &mut Formatter<'_>, of: &Expr) -> fmt::Result {
    grouped(f, of, matches!(of.kind, ExprKind::Arithmetic(_)))
}

/// What a field, an element or a slice is of.
fn base(f: &mut Formatter<'_>, of: &Expr) -> fmt::Result {
    let group = matches!(
        of.kind,
        ExprKind::Arithmetic(_) | ExprKind::Negate(_) | ExprKind::Hint(..) | ExprKind::Literal(_)
    );
    grouped(f, of, group)
}

fn slice(f: &mut Formatter<'_>, of: &Expr, from: Option<&Expr>, to: Option<&Expr>) -> fmt::Result {
    base(f, of)?;
    f.write_str("[")?;
    if let Some(from) = from {
        write!(f, "{from} ")?;
    }
    f.write_str("..")?;
    if let Some(to) = to {
        write!(f, " {to}")?;
    }
    f.write_str("]")
}

/// Whether a minus before it would make a comment.
fn begins_with_minus(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Negate(_) => true,
        ExprKind::Literal(literal) => {
            literal.kind != LiteralKind::String && literal.text.starts_with('-')
        }
        ExprKind::Field(of, _) | ExprKind::Element(of, _) | ExprKind::Slice(of, _, _) => {
            !matches!(of.kind, ExprKind::Negate(_) | ExprKind::Literal(_)) && begins_with_minus(of)
        }
        _ => false,
    }
}

impl CellAttribute {
    /// The function it is written as.
    pub fn name(self) -> &'static str {
        match self {
            CellAttribute::WriteTime => "writetime",
            CellAttribute::MaxWriteTime => "maxwritetime",
            CellAttribute::Ttl => "ttl",
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = &self.function.name.text;
        match (&self.function.keyspace, name.as_str()) {
            (None, "token") => f.write_str(name)?,
            // Quoted it is a function, else it has a meaning of its own.
            (None, "cast" | "ttl" | "writetime" | "maxwritetime" | "max_writetime") => {
                write!(f, "\"{name}\"")?
            }
            _ => write!(f, "{}", self.function)?,
        }
        bracketed(f, "(", &self.arguments, ")")
    }
}

impl ArithmeticOperator {
    /// Its sign.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOperator::Add => "+",
            ArithmeticOperator::Subtract => "-",
            ArithmeticOperator::Multiply => "*",
            ArithmeticOperator::Divide => "/",
            ArithmeticOperator::Modulo => "%",
        }
    }

    fn is_sum(self) -> bool {
        matches!(self, ArithmeticOperator::Add | ArithmeticOperator::Subtract)
    }
}

impl Display for Arithmetic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let group_left = match &self.left.kind {
            ExprKind::Arithmetic(left) => left.operator.is_sum() && !self.operator.is_sum(),
            _ => false,
        };
        let group_right = match &self.right.kind {
            ExprKind::Arithmetic(right) => right.operator.is_sum() || !self.operator.is_sum(),
            _ => false,
        };
        grouped(f, &self.left, group_left)?;
        write!(f, " {} ", self.operator.symbol())?;
        grouped(f, &self.right, group_right)
    }
}

impl Display for ColumnPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ColumnPath::Column(column) => write!(f, "{column}"),
            ColumnPath::Element(column, key) => write!(f, "{column}[{key}]"),
            ColumnPath::Field(column, field) => write!(f, "{column}.{field}"),
        }
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.test)
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = match self {
            Subject::Path(path) => return write!(f, "{path}"),
            Subject::Call(call) => return write!(f, "{call}"),
            Subject::Columns(columns) => columns,
            Subject::Token(columns) => {
                f.write_str("token")?;
                columns
            }
        };
        f.write_str("(")?;
        commas(f, columns, Display::fmt)?;
        f.write_str(")")
    }
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Test::Compare(comparison, value) => write!(f, "{comparison} {value}"),
            Test::In(values) => write!(f, "IN {values}"),
            Test::NotIn(values) => write!(f, "NOT IN {values}"),
            Test::Contains(value) => write!(f, "CONTAINS {value}"),
            Test::ContainsKey(value) => write!(f, "CONTAINS KEY {value}"),
            Test::Like(value) => write!(f, "LIKE {value}"),
            Test::IsNotNull => f.write_str("IS NOT NULL"),
            Test::IsNull => f.write_str("IS NULL"),
        }
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InValues::List(values) => bracketed(f, "(", values, ")"),
            InValues::Marker(_) => f.write_str("?"),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}
