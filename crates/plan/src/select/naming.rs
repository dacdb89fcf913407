//! Names of result columns without an alias.

use syntax::ast::{CellAttribute, Expr, ExprKind};

/// The name of a selected expression.
pub(super) fn name_of(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Column(name) => name.text.clone(),
        ExprKind::CountRows => "count".to_owned(),
        ExprKind::Call(call) => {
            let arguments: Vec<String> = call.arguments.iter().map(name_of).collect();
            let keyspace = call.function.keyspace.as_ref().map_or("system", |name| &name.text);
            format!("{keyspace}.{}({})", call.function.name.text, arguments.join(", "))
        }
        ExprKind::Cast(inner, ty) => {
            format!("cast({} as {})", name_of(inner), ty)
        }
        ExprKind::Field(inner, field) => format!("{}.{}", name_of(inner), field.text),
        ExprKind::Element(inner, key) => format!("{}[{key}]", name_of(inner)),
        ExprKind::Slice(inner, from, to) => {
            let shown = |end: &Option<Box<Expr>>| end.as_ref().map(|end| end.to_string());
            let (from, to) = (shown(from).unwrap_or_default(), shown(to).unwrap_or_default());
            format!("{}[{from}..{to}]", name_of(inner))
        }
        ExprKind::Attribute(attribute, inner) => {
            let word = match attribute {
                CellAttribute::WriteTime => "writetime",
                CellAttribute::MaxWriteTime => "maxwritetime",
                CellAttribute::Ttl => "ttl",
            };
            format!("{word}({})", name_of(inner))
        }
        ExprKind::Null => "null".to_owned(),
        ExprKind::Literal(literal) => literal.text.clone(),
        ExprKind::Marker(_) => "?".to_owned(),
        ExprKind::Hint(ty, inner) if matches!(inner.kind, ExprKind::Arithmetic(_)) => {
            format!("({ty})({inner})")
        }
        ExprKind::Hint(ty, inner) => format!("({}){}", ty, name_of(inner)),
        ExprKind::Tuple(items) => {
            let items: Vec<String> = items.iter().map(name_of).collect();
            format!("({})", items.join(", "))
        }
        ExprKind::List(items) => {
            let items: Vec<String> = items.iter().map(name_of).collect();
            format!("[{}]", items.join(", "))
        }
        _ => expr.to_string(),
    }
}
